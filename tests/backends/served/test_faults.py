"""Each fault of a server that can be seen in an answer ends the work, in one line that holds no text and no key."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from helpers.model_server import OPENAI, VLLM, ModelServer, Routes
from helpers.model_server_llamacpp import LLAMACPP
from helpers.model_server_sglang import SGLANG
from helpers.served_requests import SECRET, asked
from leakmeter.backends.served.backend import ServedBackend
from leakmeter.core.reductions import FullDistribution, Top
from leakmeter.core.request import Reduction
from leakmeter.errors import LeakmeterError

Load = Callable[..., ServedBackend]
KEY = "sk-5f0e-not-a-key"

ROWS = "rows of log-probabilities, "
ALL = {
    "missing_rows": ROWS,
    "cut": r"cuts the connection \(\d tries\)",
    "slow": "does not answer in time",
    "changed_model": "another model than at the start",
    "start_token": "start token",
}
LISTED = {"wrong_order": "other token ids", "nan": "omits log-probabilities", "echo_ignored": f"0 {ROWS[:-11]}"}
OWN = {
    VLLM: {**LISTED, "wrong_order": "belong to other positions", "nan": "NaN", "no_ids": "ids it read"},
    LLAMACPP: LISTED,
    SGLANG: LISTED,
    OPENAI: {"wrong_order": "other tokens than it was sent", "nan": "NaN", "echo_ignored": ROWS, "start_token": ROWS},
}
ECHOES = ("late_echo", "backward_echo", "full_echo", "empty_echo")
OWN[OPENAI] |= dict.fromkeys(ECHOES, "belong to other positions: of an echo, exactly the first has to be null")
SEEN = {(routes, fault): words for routes, own in OWN.items() for fault, words in (ALL | own).items()}


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
        ("truncated", FullDistribution(), "lack part of the vocabulary"),
        ("missing_rows", FullDistribution(), "rows of log-probabilities, "),
    ],
)
def test_rows_that_are_not_whole(fault: str, reduction: Reduction, words: str, served: Load) -> None:
    with ModelServer(VLLM, faults={fault: 1}, max_top=-1) as server:
        backend = served(server.model)
        with pytest.raises(LeakmeterError, match=words):
            backend.score(asked(reduction))


def test_a_fault_that_passes_is_waited_for_and_one_that_stays_is_not(served: Load) -> None:
    with ModelServer(VLLM) as server:
        undisturbed = served(server.model).score(asked())
    for fault in ("cut", "busy"):
        with ModelServer(VLLM, faults={fault: (2, 4)}) as server:
            answers = served(server.model, patience=30.0).score(asked())
        assert [answer.values.tolist() for answer in answers] == [answer.values.tolist() for answer in undisturbed]
    words = r"status 429 \(\d tries\); lower --concurrency"
    with ModelServer(VLLM, faults={"busy": 1}) as server, pytest.raises(LeakmeterError, match=words):
        served(server.model).score(asked())
