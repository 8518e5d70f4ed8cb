"""What is promised and what was measured, in arrays: accounting, bounded mixtures, Rényi divergence, mechanisms."""
