"""What stands on top of the measures: ledger, local page, doctor, gate, pages of runs, logging from programs."""
