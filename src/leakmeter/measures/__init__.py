"""Measures: generators that yield requests, are sent scores, and return readings. They know no model."""
