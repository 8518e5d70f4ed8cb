"""What a request is told when something goes wrong: why, and nothing of where things are on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from helpers.serving import CASE, HEADERS, client, serving_of
from leakmeter.backends.toy import Toy
from leakmeter.errors import StoreError
from leakmeter.products.serve.app import make_app
from leakmeter.products.serve.bodies import unforeseen, without_paths
from leakmeter.products.serve.bounded import BoundedCompletions, routes

SECRET = "a key of the tests"
PLACES = ("/home/tobias/.cache/leakmeter/errors/x.log", r"C:\Users\tobias\errors\x.log", "~/secret folder/x.log")


def test_a_place_is_told_by_its_last_name_alone() -> None:
    no_place = "run 'runs/influence-1' is damaged and/or old, 1/2 of it; ask http://127.0.0.1:8000/v1/models, as 'KEY'"
    for text, expected in {
        "run '/home/tobias/my runs/influence-1' is damaged": "run '…/influence-1' is damaged",
        "no file 'C:\\Users\\tobias\\x.log'": "no file '…/x.log'",
        'cannot open "/x.log": no': 'cannot open "…/x.log": no',
        "[Errno 2] No such file: /home/tobias/x.log": "[Errno 2] No such file: …/x.log",
        "found in directory ~/.cache/models/toy, or not": "found in directory …/toy, or not",
        "'~/.cache/toy/'": "'…/toy'",
        no_place: no_place,
    }.items():
        assert without_paths(text) == expected


@given(names=st.lists(st.text("abé._- ", min_size=1, max_size=9), min_size=2, max_size=5))
def test_no_folder_of_a_quoted_place_is_told(names: list[str]) -> None:
    assert without_paths(f"file '/{'/'.join(names)}' is no file") == f"file '…/{names[-1]}' is no file"


def test_an_error_that_nobody_foresaw_is_told_without_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        without_paths(None)  # type: ignore[arg-type]
    except TypeError as error:
        error.args = ("Anna Ek",)
        answer = unforeseen(error)
    (line,) = capsys.readouterr().err.splitlines()
    assert answer == "internal error (TypeError); the server's terminal shows where"
    assert "leakmeter/products/serve/bodies.py:" in line.replace("\\", "/")
    assert "Anna" not in line
    assert str(Path.home()) not in line


def failing(error: Exception) -> Any:
    def raising(*_: Any, **__: Any) -> Any:
        raise error

    return raising


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", [StoreError, KeyError])
def test_no_place_is_told(place: str, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKMETER_CACHE", str(tmp_path / "cache"))
    serving = serving_of(tmp_path, key=SECRET)
    bounded = BoundedCompletions.kept_in(tmp_path / "receipts", 0.5, 1000.0)
    app = make_app(serving, more=routes(bounded))
    error = kind(f"'{place}' cannot be read")
    monkeypatch.setattr(Toy, "score", failing(error))
    monkeypatch.setattr("leakmeter.products.serve.browse.Shelf.entries", failing(error))
    monkeypatch.setattr(type(bounded.spent), "charge", failing(error))
    body = {"model": "toy", "messages": [{"role": "user", "content": "Who?"}], "documents": ["Anna Ek."]}
    with TestClient(app, base_url=serving.access.origin, raise_server_exceptions=False) as made:
        answers = [made.post("/v1/chat/completions", json=body, headers={"authorization": f"Bearer {SECRET}"})]
        made.get(serving.access.new_link())
        answers += [made.get("/runs"), made.post("/live/measure", json={**CASE, "model": "toy"}, headers=HEADERS)]
    assert [answer.status_code for answer in answers] == [500, 400 if kind is StoreError else 500, 200]
    for answer in answers:
        assert "cannot be read" in answer.text if kind is StoreError else "internal error (KeyError)" in answer.text
        assert not any(word in answer.text for word in ("tobias", "secret folder", ".cache", str(tmp_path)))
    assert not (tmp_path / "cache").exists()


def test_a_number_beyond_what_is_taken_and_a_lone_surrogate_are_refused_wherever_they_stand(tmp_path: Path) -> None:
    with client(serving_of(tmp_path)) as made:
        for what, name, value in (
            *(("redact", "max_loss", value) for value in (10**400, -(10**400), True)),
            *(("measure", "max_new_tokens", 10**400), ("mix", "at", 10**400)),
        ):
            answer = made.post(f"/live/{what}", json={**CASE, "model": "toy", name: value}, headers=HEADERS)
            assert name.replace("_", "-") in answer.text.replace("_", "-") or what == "mix"
            assert "internal error" not in answer.text
        for route in ("/live/measure", "/live/mix", "/runs/measure", "/runs/x/rename", "/doctor/run"):
            for body in (r'{"context": "half: \ud800"}', r'{"\udfff": 1}', r'{"name": ["\ud800"]}'):
                answer = made.post(route, content=body, headers={**HEADERS, "content-type": "application/json"})
                assert (answer.status_code, "no valid Unicode" in answer.text) == (400, True)
