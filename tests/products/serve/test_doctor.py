"""The Doctor page: its blocks are those of `leakmeter doctor`, its checks are told of, and it can be ended."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import leakmeter
from helpers.model_server import VLLM, ModelServer
from helpers.serving import HEADERS, client, events, serving_of
from leakmeter.products.doctor.checks import CHECKS
from leakmeter.products.doctor.report import report
from leakmeter.products.serve import doctor
from leakmeter.report import html


def examined(made: TestClient, **fields: Any) -> list[tuple[str, dict[str, Any]]]:
    return events(made.post("/doctor/run", json=fields, headers=HEADERS))


def test_checks_are_told_of_and_the_page_is_that_of_the_doctor(made: TestClient) -> None:
    assert "Examine" in made.get("/doctor").text
    told = examined(made, model="toy")
    assert [data["name"] for name, data in told if name == "check"] == [name for _, name, _ in CHECKS]
    name, done = told[-1]
    assert (name, done["is_sound"]) == ("done", True)
    pages = (done["html"], html.fragment(report([leakmeter.doctor("toy")]).blocks))
    # Seconds differ from one time to the next.
    shown, expected = ([line for line in page.splitlines() if "Speed" not in line] for page in pages)
    assert shown == expected
    assert done["html"] in made.get("/doctor").text, "what was found last is there for who comes again"


def test_a_served_model_is_examined_with_its_faults(tmp_path: Path) -> None:
    with ModelServer(VLLM, faults=["missing_rows"]) as server:
        serving = serving_of(tmp_path, models=(server.model,))
        serving.models.options = replace(serving.models.options, tokenizer="toy", allow_remote=False)
        with client(serving) as made:
            done = examined(made)[-1][1]
    assert not done["is_sound"]
    assert "Rows of log-probabilities are missing" in done["html"]


@pytest.mark.parametrize(("tokenizer", "said"), [("toy", "cannot be reached"), (None, "tokenizer")])
def test_a_server_that_is_not_there_or_lacks_a_tokenizer(tokenizer: str | None, said: str, tmp_path: Path) -> None:
    with ModelServer(VLLM) as server:
        serving = serving_of(tmp_path, models=(server.model,))
    serving.models.options = replace(serving.models.options, tokenizer=tokenizer)
    with client(serving) as made:
        name, data = examined(made)[-1]
    assert (name, said in data["error"], "\n" in data["error"]) == ("failed", True, False)


@pytest.mark.parametrize("is_served", [False, True])
def test_a_cancelled_examination_ends_before_its_next_request(tmp_path: Path, *, is_served: bool) -> None:
    with ModelServer(VLLM) as server:
        serving = serving_of(tmp_path, models=(server.model if is_served else "toy",))
        serving.models.options = replace(serving.models.options, tokenizer="toy" if is_served else None)
        ended = threading.Event()

        def work(job: Any) -> dict[str, Any]:
            tell = job.tell

            def telling(name: str, /, **data: Any) -> None:
                tell(name, **data)
                if name == "check" and data["number"] == 2:
                    job.cancel()

            job.tell = telling
            try:
                return doctor._examined(serving, serving.models.names[0], job)
            finally:
                ended.set()

        job = serving.queue.submit(work, "someone")
        assert ended.wait(10)
        serving.queue.close()
        serving.queue.join(5)
        assert (sum(one.name == "check" for one in job.events), job.state) == (2, "cancelled")
        assert doctor._LAST not in serving.extras


def test_what_is_refused(made: TestClient) -> None:
    for fields in ({"model": "<b>other</b>"}, {"model": 3}):
        answer = made.post("/doctor/run", json=fields, headers=HEADERS)
        assert (answer.status_code, answer.text.count("\n")) == (400, 1)
    assert made.post("/doctor/run", json={}).status_code == 403, "only the page's own script may ask"
    assert made.post("/doctor/run", content=b"[]", headers=HEADERS).status_code == 400
