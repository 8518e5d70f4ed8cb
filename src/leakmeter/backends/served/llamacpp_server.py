"""Start llama.cpp's HTTP server with a GGUF file: `python -m leakmeter.backends.served.llamacpp_server FILE.gguf`.

The server is that of the xllamacpp wheel, which needs no compiler. It has llama.cpp's own settings unless options say
otherwise, and listens on this machine only. Its address is written to standard output once the model is loaded.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Final

from leakmeter.errors import LeakmeterError, ModelError, UsageError

_QUIET: Final = -1


def main(arguments: list[str]) -> None:
    """Serve until the process is interrupted; `arguments` are those of the command line, without the program."""
    read = argparse.ArgumentParser("leakmeter.backends.served.llamacpp_server", description="Start a llama.cpp server.")
    read.add_argument("gguf", type=Path, help="file with the model")
    read.add_argument("--port", type=int, default=0, help="0 for any that is free")
    read.add_argument("--slots", type=int, default=1, help="requests that run side by side")
    read.add_argument("--window", type=int, default=2048, help="tokens of each slot")
    read.add_argument("--exact", action="store_true", help="float32 keys and values, no flash attention")
    read.add_argument("--threads", type=int, default=0, help="0 for llama.cpp's own choice")
    options = read.parse_args(arguments)
    server = _started(options)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    over = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        over.set()

    for ending_signal in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending_signal, stop)
    over.wait()
    # The server's threads would hold the process up.
    os._exit(0)


def _started(options: argparse.Namespace) -> Any:
    try:
        import xllamacpp
    except ImportError:
        raise UsageError("a llama.cpp server is started with xllamacpp: pip install 'leakmeter[llamacpp]'") from None
    if not options.gguf.is_file():
        raise ModelError(f"there is no file '{options.gguf}'; give a GGUF file")
    params = xllamacpp.CommonParams()
    params.model.path = str(options.gguf)
    params.port, params.n_parallel, params.n_ctx = options.port, options.slots, options.window * options.slots
    if options.exact:
        # Flash attention on a CPU computes in float16 whatever keys and values are kept in: 0.01 nats a token.
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    if options.threads:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    # Fitting to free memory would make the window depend on it; the page is not needed.
    params.warmup = params.ui = params.fit_params = False
    params.verbosity = _QUIET
    try:
        return xllamacpp.Server(params)
    except RuntimeError:
        raise ModelError(f"llama.cpp cannot load '{options.gguf}'; give a GGUF file of a kind it knows") from None


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except LeakmeterError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
