"""Finished runs as pages."""
