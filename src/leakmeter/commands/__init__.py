"""What commands of all instruments share: options, cases that were given, runs, output, progress."""
