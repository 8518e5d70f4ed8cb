"""Asks llama.cpp for token ids: `python llama_cpp_server.py OUT GGUF...`, texts as a JSON list on standard input.

A process of its own, since llama.cpp ends the process it runs in where it meets what it does not expect.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from pathlib import Path

import xllamacpp


def ids_of(gguf: str, texts: list[str]) -> list[list[int]]:
    """Ids of each text under a file's tokenizer, special tokens in it left text."""
    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.n_ctx = 64
    params.n_parallel = 1
    params.port = 0
    params.warmup = params.ui = params.fit_params = False
    params.verbosity = -1
    server = xllamacpp.Server(params)
    connection = http.client.HTTPConnection(server.listening_address.removeprefix("http://"))
    found = []
    for text in texts:
        body = json.dumps({"content": text, "add_special": False, "parse_special": False})
        connection.request("POST", "/tokenize", body, {"Content-Type": "application/json"})
        found.append(json.loads(connection.getresponse().read())["tokens"])
    return found


if __name__ == "__main__":
    texts = json.load(sys.stdin)
    Path(sys.argv[1]).write_text(json.dumps([ids_of(gguf, texts) for gguf in sys.argv[2:]]))
    # The server's threads would hold the process up.
    os._exit(0)
