"""A vLLM server over the toy model gives the toy's own numbers."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.model_server import VLLM, ModelServer
from leakmeter.backends.toy import Toy
from leakmeter.core.plan import plan
from leakmeter.core.prompt import Piece, Prompt
from leakmeter.core.reductions import FullDistribution, Labels, Stretch, TargetLogProbs, Top
from leakmeter.core.request import Reduction, Request
from leakmeter.runs.loading import load_backend


def prompts(*texts: str) -> tuple[Prompt, ...]:
    return tuple(Prompt((Piece("frame", "frame", tuple(text.encode())),)) for text in texts)


ASKED = prompts("The patient has a cough.", "The patient has", "A patient has a cough.")


@pytest.mark.parametrize(
    "reduction", [TargetLogProbs(), Stretch(TargetLogProbs(), 1, 3), Top(4), Labels((65, 66, 200)), Labels((1,))]
)
def test_numbers_are_the_toys(reduction: Reduction) -> None:
    chunk = plan([Request(ASKED, tuple(b"yes."), reduction), Request(ASKED[:1], tuple(b"no"), reduction)])
    with ModelServer(VLLM) as server:
        backend = load_backend(server.model, tokenizer="toy")
        answers = backend.score(chunk)
    for answer, own in zip(answers, Toy().score(chunk), strict=True):
        np.testing.assert_array_equal(answer.values, own.values)


def test_whole_rows() -> None:
    chunk = plan([Request(ASKED, tuple(b"yes."), FullDistribution())])
    with ModelServer(VLLM, max_top=-1) as server:
        answer = load_backend(server.model, tokenizer="toy").score(chunk)
    np.testing.assert_allclose(answer[0].values, Toy().score(chunk)[0].values, atol=1e-12)
