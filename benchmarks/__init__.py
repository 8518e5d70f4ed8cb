"""Side by side with other ways to the same numbers; run by hand: `python -m benchmarks SCENARIO --json`."""
