"""Logs of the answers that a program gives: from LangChain, LlamaIndex, OpenTelemetry, or by hand.

None of these libraries is imported, and nothing is sent anywhere.
"""

from leakmeter.products.integrations import *  # noqa: F403 - a door: its names stand there
