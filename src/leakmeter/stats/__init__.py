"""Pure array mathematics: log-probabilities, divergences, intervals, tests. NumPy and torch alike."""
