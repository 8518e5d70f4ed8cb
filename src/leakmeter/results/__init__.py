"""Readings put together into what a person asked for."""
