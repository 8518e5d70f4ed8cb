"""Invented texts about invented people, to try things on."""
