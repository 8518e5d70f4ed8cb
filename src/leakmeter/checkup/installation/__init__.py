"""Whether leakmeter works where it is installed, without a model and without anything private."""
