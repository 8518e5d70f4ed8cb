"""Logged traffic: traces of models' answers, read from the formats in which people have them."""

from leakmeter.data.traces import *  # noqa: F403 - a door: its names stand there
