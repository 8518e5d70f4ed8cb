"""Evaluation sets from documents: people with what is told of them, found in text and written as subjects."""
