"""Pure array mathematics: no model, no tokenizer. Written against the array API, so that NumPy and torch share it."""
