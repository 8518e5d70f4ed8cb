"""Personal data in a text: found by form, by labels and titles, by the user's patterns and by a recogniser."""

from typing import Final

FINDERS: Final = ("phonenumbers", "pyap2", "faker")
"""Distributions that say what personal data is, and make surrogates of it."""
