"""Cases to measurements: a model loaded, cases measured part by part, predicted, in slices or by workers."""
