"""Models behind an HTTP server, one dialect a module.

load         'vllm:http://127.0.0.1:8000#name' to a back end
connection   the one place that speaks HTTP
in_order     work that waits for answers, with results in order
dialect      what each dialect answers, what it checks of an answer, and what those that read token ids have in common
answer       a request of a measure to what a server is asked, and back
backend      a chunk of requests to questions, in the order that suits a server's prefix cache
"""

from typing import Final

DIALECTS: Final = ("llamacpp", "vllm", "sglang", "openai")
"""Modules with a dialect, and how a model's name begins that is served by one: 'vllm:http://…#name'."""


def names_a_server(model: str) -> bool:
    name, colon, _ = model.partition(":")
    return bool(colon) and name in DIALECTS
