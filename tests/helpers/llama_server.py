"""Runs the real llama.cpp server in a process of its own, which it ends where it meets what it does not expect."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def llama_server(gguf: Path, *options: str) -> Iterator[str]:
    """The address of a server of a GGUF file; options are those of `leakmeter.backends.served.llamacpp_server`."""
    command = [sys.executable, "-m", "leakmeter.backends.served.llamacpp_server", str(gguf), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
