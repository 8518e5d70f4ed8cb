"""Keys that a response gives away are not printed whole."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import pytest

from leakmeter.cli import main
from leakmeter.text.entities.secrets import DOT, find

KEYS = {"tk_4f9a0c77d1e2b35f6a80": "key or password", "AKIAQ2W3E4R5T6Y7ZAPS": "AWS access key"}


def _printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_printed_whole_only_where_that_is_asked(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = tmp_path / "note.txt"
    note.write_text(f"The key of the door is {key}. The shop opens at nine.", encoding="utf-8")
    words = ["influence", "--model", "toy", "--context-file", str(note), "--query", "What is the key?"]
    words += ["--response", f"The key is {key}.", "--out", str(tmp_path / "runs"), "--explain"]
    out = _printed(capsys, *words)
    assert KEYS[key] in out
    assert key not in out
    assert key[:4] + "•" in out
    assert key in _printed(capsys, *words, "--show-secrets")
    assert key in _printed(capsys, *words, "--json")
    (run,) = (tmp_path / "runs").iterdir()
    page, told = tmp_path / "page.html", tmp_path / "note.md"
    how = ["report", str(run), "--html", str(page), "--markdown", str(told)]
    _printed(capsys, *how)
    assert key not in unescape(told.read_text(encoding="utf-8"))
    _printed(capsys, *how, "--show-secrets")
    assert key in unescape(told.read_text(encoding="utf-8"))


@pytest.mark.parametrize("key", KEYS)
def test_nor_is_it_by_what_is_said_of_finished_runs(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    context = f"The key of the door is {key}. The shop opens at nine."
    case = {"id": "a", "context": context, "query": "What is the key?"}
    for number, response in enumerate((f"The key is {key}.", "At nine.")):
        Path(f"{number}.jsonl").write_text(json.dumps({**case, "response": response}), encoding="utf-8")
        _printed(capsys, "influence", "--model", "toy", "--data", f"{number}.jsonl", "--out", f"runs{number}")
    select = ["runs", "query", "--runs", "runs0"]
    for sql in ("select * from disclosures", "select id, response, context from cases", "select text from pieces"):
        assert key not in _printed(capsys, *select, sql)
        for whole in ("--show-secrets", "--json", "--csv"):
            assert key in "".join(_printed(capsys, *select, sql, whole).split())
    runs = [str(run) for number in (0, 1) for run in Path(f"runs{number}").iterdir()]
    _printed(capsys, "report", *runs, "--html", "two.html", "--markdown", "two.md")
    assert key not in unescape(Path("two.md").read_text(encoding="utf-8"))
    said = [_printed(capsys, "runs", "compare", *runs), *(_printed(capsys, "runs", "show", run) for run in runs)]
    assert not any(key in text for text in said)
    bounds = ["--max", "influence.disclosures.personal <= 9", "--junit", "gate.xml"]
    assert key not in _printed(capsys, "gate", runs[0], *bounds)
    assert key not in Path("gate.xml").read_text(encoding="utf-8")
    redact = ["redact", "--model", "toy", "--data", "0.jsonl", "--disclosures", "--explain"]
    out = _printed(capsys, *redact)
    assert key[:4] + "•" in out
    assert key not in out
    assert key in "".join(_printed(capsys, *redact, "--show-secrets").split())


SAID: dict[str, tuple[str, str]] = {
    "labelled": ("The ticket system. Password: hunter2-Zebra!91", "The password is hunter2-Zebra!91."),
    "quoted": ('The ticket system. password="zebra river"', "Say zebra river."),
    "field": ('{"patient": "Anna Ek", "db_password": "zebrariver", "seats": 4}', "It is zebrariver."),
    "camel": ('{"patient": "Anna Ek", "apiToken": "zebra_river", "seats": 4}', "It is zebra_river."),
    "number": ('{"patient": "Anna Ek", "pin": "447190", "seats": 4}', "It is 447190."),
    "not said": ("The alarm. Passcode: 77-41-09x. The shop opens at nine.", "At nine."),
}


@pytest.mark.parametrize("name", SAID)
def test_nor_what_a_label_or_a_field_calls_a_secret(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    context, response = SAID[name]
    (secret,) = find(context, by_shape=False)
    row = {"id": "a", "docs": [context], "q": "What is it?", "a": response, "more": 1}
    Path("log.jsonl").write_text(json.dumps(row), encoding="utf-8")
    words = ["influence", "--model", "toy", "--data", "log.jsonl", "--map", "query=q,context=docs,response=a"]
    with pytest.raises(SystemExit):
        main([*words, "--explain"])
    printed = capsys.readouterr()
    (run,) = Path("runs").iterdir()
    _printed(capsys, "report", str(run), "--markdown", "said.md")
    told = unescape(Path("said.md").read_text(encoding="utf-8"))
    for text in (printed.out, printed.err, told):
        assert secret not in text
        assert secret not in text.replace("`", "").replace("\n", "")
    assert "first case, context" in printed.err
    assert DOT in printed.err
    sql = "select response, context from cases"
    assert secret not in _printed(capsys, "runs", "query", sql)
    assert name == "not said" or secret in _printed(capsys, *words, "--show-secrets")


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ("max_tokens: 4096, language: de", ()),
        ("The password is missing. Password: required", ()),
        ("secret key = Ab1Cd2Ef3", ("Ab1Cd2Ef3",)),
        ("postgres://ines:s3Cret!pw@db.quay.example:5432/berths", ("s3Cret!pw",)),
        ("Kennwort: Ostsee77!", ("Ostsee77!",)),
        ('{"client_secret": "a b c", "note": "none"}', ("a b c",)),
        ("id: 9c1f5f0e-6c2b-4a7e-9d1f-1d2c3b4a5e6f", ()),
        ("token" + ":" * 5000, ()),
        ("Safe of the office: the PIN is 1987. The alarm is off at nine.", ("1987",)),
        ("The wifi password is sunflower. The office opens at nine.", ("sunflower",)),
        ("Das Passwort lautet Sonnenblume.", ("Sonnenblume",)),
        ("Le mot de passe est tournesol.", ("tournesol",)),
        ("La contraseña es girasol.", ("girasol",)),
        ("The password is required. Your PIN is wrong, the code is 404 and the error code is 12.", ()),
        ("Der Code ist falsch. Le mot de passe est obligatoire. La contraseña es incorrecta.", ()),
    ],
)
def test_what_is_called_a_secret(text: str, secrets: tuple[str, ...]) -> None:
    assert tuple(dict.fromkeys(find(text, by_shape=False))) == secrets
