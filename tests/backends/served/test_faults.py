"""Each fault of a server that can be seen in an answer ends the work, in one line that holds no text and no key."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from helpers.model_server import OPENAI, VLLM, ModelServer, Routes
from helpers.model_server_llamacpp import LLAMACPP
from helpers.model_server_sglang import SGLANG
from helpers.served_requests import SECRET, asked
from leakmeter.backends.served import ServedBackend
from leakmeter.core.reductions import FullDistribution, Top
from leakmeter.core.request import Reduction
from leakmeter.errors import LeakmeterError

Load = Callable[..., ServedBackend]
KEY = "sk-5f0e-not-a-key"

SEEN = {
    (VLLM, "wrong_order"): "of other places",
    (VLLM, "missing_rows"): "rows of log-probabilities instead of",
    (VLLM, "nan"): "NaN",
    (VLLM, "cut"): r"cuts the connection \(\d tries\)",
    (VLLM, "slow"): "does not answer in time",
    (VLLM, "changed_model"): "another model than it began with",
    (VLLM, "echo_ignored"): "0 rows of log-probabilities",
    (VLLM, "no_ids"): "which token ids it read",
    (VLLM, "start_token"): "start token",
    (LLAMACPP, "wrong_order"): "other token ids",
    (LLAMACPP, "missing_rows"): "rows of log-probabilities instead of",
    (LLAMACPP, "nan"): "leaves out log-probabilities",
    (LLAMACPP, "cut"): r"cuts the connection \(\d tries\)",
    (LLAMACPP, "slow"): "does not answer in time",
    (LLAMACPP, "changed_model"): "another model than it began with",
    (LLAMACPP, "echo_ignored"): "0 rows of log-probabilities",
    (LLAMACPP, "start_token"): "start token",
    (SGLANG, "wrong_order"): "other token ids",
    (SGLANG, "missing_rows"): "rows of log-probabilities instead of",
    (SGLANG, "nan"): "leaves out log-probabilities",
    (SGLANG, "cut"): r"cuts the connection \(\d tries\)",
    (SGLANG, "slow"): "does not answer in time",
    (SGLANG, "changed_model"): "another model than it began with",
    (SGLANG, "echo_ignored"): "0 rows of log-probabilities",
    (SGLANG, "start_token"): "start token",
    (OPENAI, "wrong_order"): "about other tokens than it was sent",
    (OPENAI, "missing_rows"): "rows of log-probabilities instead of",
    (OPENAI, "nan"): "NaN",
    (OPENAI, "cut"): r"cuts the connection \(\d tries\)",
    (OPENAI, "slow"): "does not answer in time",
    (OPENAI, "changed_model"): "another model than it began with",
    (OPENAI, "echo_ignored"): "rows of log-probabilities instead of",
    (OPENAI, "start_token"): "rows of log-probabilities instead of",
}


@pytest.mark.parametrize(
    ("routes", "fault"),
    # What is slow waits for its time, which is the same for every dialect.
    [pytest.param(*one, marks=pytest.mark.long) if one[1] == "slow" and one[0] is not VLLM else one for one in SEEN],
    ids=lambda value: getattr(value, "dialect", value),
)
def test_a_fault_ends_in_one_line(routes: Routes, fault: str, served: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(routes, faults={fault: 2}, key=KEY) as server:
        monkeypatch.setenv("LEAKMETER_API_KEY", KEY)
        backend = served(server.model, seconds=0.3 if fault == "slow" else 5.0, concurrency=1)
        with pytest.raises(LeakmeterError, match=SEEN[routes, fault]) as caught:
            backend.score(asked())
    told = str(caught.value)
    assert server.url.removeprefix("http://") in told
    assert "\n" not in told
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for hidden in (SECRET, KEY, *SECRET.split()):
        assert hidden not in told


@pytest.mark.parametrize(
    ("fault", "reduction", "words"),
    [
        ("truncated", Top(4), "2 tokens of a row instead of the 4"),
        ("truncated", FullDistribution(), "lack a part of the vocabulary"),
        ("missing_rows", FullDistribution(), "instead of"),
    ],
)
def test_rows_that_are_not_whole(fault: str, reduction: Reduction, words: str, served: Load) -> None:
    with ModelServer(VLLM, faults={fault: 1}, max_top=-1) as server:
        backend = served(server.model)
        with pytest.raises(LeakmeterError, match=words):
            backend.score(asked(reduction))


@pytest.mark.parametrize("fault", ["cut", "busy"])
def test_a_fault_that_passes_is_waited_for(fault: str, served: Load) -> None:
    with ModelServer(VLLM) as server:
        undisturbed = served(server.model).score(asked())
    with ModelServer(VLLM, faults={fault: (2, 4)}) as server:
        told: list[str] = []
        answers = served(server.model, patience=30.0, notify=told.append).score(asked())
    assert [answer.values.tolist() for answer in answers] == [answer.values.tolist() for answer in undisturbed]


def test_a_server_that_stays_busy(served: Load) -> None:
    words = r"status 429 \(\d tries\); lower --concurrency"
    with ModelServer(VLLM, faults={"busy": 1}) as server, pytest.raises(LeakmeterError, match=words):
        served(server.model).score(asked())
