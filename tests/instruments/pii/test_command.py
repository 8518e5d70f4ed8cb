"""`leakmeter pii`: people's values asked for, tuned for, inserted and extracted, with the toy model and small ones."""

from __future__ import annotations

import io
import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.command_line import as_options, assert_refused, object_of, objects_of
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.canaries import canaries_of, document_of, lines_of
from leakmeter.instruments.pii.subjects import load_subjects

pytestmark = pytest.mark.usefixtures("undrawn")

Call = Callable[..., Any]
PEOPLE = canaries_of(3, seed=11)


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.jsonl"
    path.write_text(lines_of(PEOPLE), encoding="utf-8")
    return path


@pytest.fixture
def probe(cli: Call, people: Path) -> Call:
    """`leakmeter pii probe` of invented people with the toy model, as few prompts and decoys as there may be."""

    def call(*more: object, **options: object) -> Any:
        given: dict[str, object] = {
            "subjects": people, "model": "toy", "decoys": 50, "prompts": 1, "beams": 0, "out": people.parent / "runs",
        }  # fmt: skip
        return cli("pii", "probe", *as_options({**given, **options}), *more)

    return call


def secrets_of(path: Path) -> list[str]:
    found = []
    for subject in load_subjects(path).subjects:
        found += [subject.name, *(value for _, _, value in subject.targets())]
    return [text for secret in found for text in (secret, json.dumps(secret)[1:-1])]


def everything_written(folder: Path) -> str:
    return "".join(
        path.name + path.read_bytes().decode("latin-1") for path in sorted(folder.rglob("*")) if path.is_file()
    )


def test_every_value_is_ranked_and_nothing_personal_is_written_or_shown(
    probe: Call, people: Path, tmp_path: Path, config: Path
) -> None:
    page = tmp_path / "page.html"
    people.write_text(lines_of(PEOPLE[:2]), encoding="utf-8")
    ended = probe("--kinds", "twin", "relationship", "university", "--html", page, beams=1)
    assert ended.code == 0, ended.err
    assert "of these 2 people" in ended.out
    shown = ended.out + ended.err + page.read_text(encoding="utf-8")
    written = everything_written(tmp_path / "runs")
    assert "association" in shown.casefold()
    assert "subject_hmac" in written
    for secret in secrets_of(people):
        assert secret not in shown
        assert secret not in written
        assert secret.encode("utf-8").decode("latin-1") not in written
    assert stat.S_IMODE((config / "subjects.secret").stat().st_mode) == 0o600


def test_names_in_paths_keys_and_relations_are_neither_written_nor_shown(probe: Call, tmp_path: Path) -> None:
    folder = tmp_path / "Johanna Quist"
    folder.mkdir()
    people = folder / "quist.json"
    relations = {"guardian of Ottokar Blom": "Hedda Tavel", "ward of Blom": "Ines Tavel", "father": "Emil Quist"}
    people.write_text(json.dumps({"Johanna Quist": {"name": "Johanna Quist", "relationships": relations}}))
    page = folder / "page.html"
    ended = probe("--json", "--html", page, subjects=f"{folder}/./{people.name}")
    shown = (ended.out + ended.err.replace(str(page), "") + page.read_text(encoding="utf-8")).casefold()
    written = everything_written(tmp_path / "runs").casefold()
    for secret in ("johanna", "quist", "ottokar", "blom", "hedda", "tavel"):
        assert secret not in shown
        assert secret not in written
    ids = [case["id"] for case in objects_of(ended)[0]]
    assert ids == ["1: relationship other", "1: relationship other 2", "1: relationship father"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"templates": 'twin = ["Call me at"]'}, "asks about nobody"),
        ({"templates": 'twin = ["{name} {pii_1}"]'}, "known: {name}, {target_pii_type}"),
        ({"templates": 'twins = ["{name}"]'}, "unknown kind 'twins'"),
        ({"templates": "twin = []"}, "list of one or more texts"),
        *(({"templates": "twin = ["}, "is not TOML"), ({"templates": ""}, "is empty")),
        *(({"control_names": 0}, "control-names is 0"), ({"region": "ZZ"}, "ZZ")),
        *(({"soft_prompt": "nosuch.safetensors"}, "nosuch.safetensors"), ({"subjects": "nosuch.csv"}, "nosuch.csv")),
    ],
)
def test_what_cannot_be_used_has_one_clear_line(
    probe: Call, tmp_path: Path, options: dict[str, object], said: str
) -> None:
    if "templates" in options:
        (tmp_path / "own.toml").write_text(str(options["templates"]), encoding="utf-8")
        options = {"templates": tmp_path / "own.toml"}
    ended = probe(**options)
    assert_refused(ended, said)
    for secret in (PEOPLE[0].name, str(PEOPLE[0].phone)):
        assert secret not in ended.err


def test_people_in_documents_can_be_asked_for(cli: Call, probe: Call, tmp_path: Path) -> None:
    documents, out = tmp_path / "documents.jsonl", tmp_path / "found.jsonl"
    texts = [*(document_of(subject, seed=0, number=n) for subject in PEOPLE for n in range(4)), "Nothing here."]
    documents.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    told = object_of(cli("pii", "extract", documents, "--out", out, "--json"))
    assert told["n_documents"] == 13
    assert 1 <= told["n_subjects"] <= 3
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert {one.name for one in load_subjects(out).subjects} <= {one.name for one in PEOPLE}
    assert probe("--dry-run", subjects=out).code == 0
    assert not (tmp_path / "runs").exists()
    for options, said in (
        *((("--qa", "nosuch"), "--find relationships"), (("--find", "universities"), "go together")),
        (("--universities", "nosuch.txt", "--find", "universities"), "nosuch.txt"),
        *((("--ner", "nosuch"), "nosuch"), (("--region", "ZZ"), "ZZ")),
    ):
        assert_refused(cli("pii", "extract", documents, "--out", tmp_path / "out.jsonl", *options), said)


def test_values_are_kept_and_shown_where_that_is_asked_for(probe: Call, tmp_path: Path) -> None:
    ended = probe("--kinds", "university", "--keep-values", "--decoy-test", "full", "--json", beams=1)
    case, *_ = objects_of(ended)[0]
    assert (case["value"], case["name"]) == (PEOPLE[0].university, PEOPLE[0].name)
    assert len(case["generated"][0]["answers"]) == 1
    assert PEOPLE[0].name in everything_written(tmp_path / "runs")


def test_bad_records_are_named_and_counted(probe: Call, people: Path) -> None:
    people.write_text(people.read_text() + '{"name": "Secret Person", "phone": "nonsense"}\n', encoding="utf-8")
    ended = probe("--kinds", "university")
    assert_refused(ended, "line 4")
    assert not any(word in ended.err for word in ("nonsense", "Secret"))
    ended = probe("--kinds", "university", "--skip-bad")
    assert ended.code == 0
    assert "left out 1 bad case; the first: line 4" in ended.err
    # Of nobody there is a university.
    people.write_text('{"name": "Al Bo", "phone": "617-555-0134"}\n', encoding="utf-8")
    assert "--kinds university" in probe("--kinds", "university").err
    with pytest.raises(UsageError):
        leakmeter.pii("toy", people, kinds=["university"])


def test_values_that_cannot_be_probed_are_left_out_and_counted_and_stop_no_file(
    cli: Call, probe: Call, people: Path
) -> None:
    namesake = {"id": "n", "name": "John Fox", "relationships": {"father": "John Fox"}}
    nick = {"id": "e", "name": "Orlina Vestrand", "email": "sunshine_girl@gmail.com"}
    other = {"id": "o", "name": "John Fox", "relationships": {"father": "James Fox"}}
    people.write_text("".join(json.dumps(person) + "\n" for person in (namesake, nick, other)), encoding="utf-8")
    ended = probe("--kinds", "twin", "relationship", "--json", decoys=99)
    assert ended.code == 0, ended.err
    cases, _ = objects_of(ended)
    assert [(case["subject"], case["n_decoys"], case["n_decoys_asked"]) for case in cases] == [
        ("e", 72, 99),
        ("o", 99, 99),
    ]
    assert "Only 72 other values of this one's form exist" in cases[0]["warnings"][0]
    assert "left out 1 bad case; the first: subject 'n'" in ended.err
    assert "Fox" not in ended.err
    assert len(leakmeter.pii("toy", people, kinds=["twin", "relationship"], prompts=1, beams=())) == 2
    # Of one person alone, the defaults do.
    heike = ("--name", "Heike Müller", "--email", "heike.mueller@web.de")
    few = ("--beams", "0", "--prompts", "1", "--out", people.parent / "other")
    one = cli("pii", "probe", *heike, "--model", "toy", *few)
    assert one.code == 0, one.err
    # Nobody is left.
    people.write_text(json.dumps(namesake) + "\n", encoding="utf-8")
    assert_refused(probe("--kinds", "relationship"), "none of 1 cases can be used; the first: subject 'n'")


def test_an_export_of_an_address_book_is_probed_as_it_is(
    probe: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "crm.csv"
    path.write_text("First Name,Last Name,E-mail,Company,Emial\nMara,Ells,mara@example.org,Ells Ltd,x@y.example\n")
    ended = probe("--dry-run", subjects=path)
    assert ended.code == 0, ended.err
    assert "columns left out: 'Company', 'Emial' (--map email=Emial uses it)\n" in ended.err
    assert "Ltd" not in ended.err + ended.out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert probe("--dry-run", subjects="-").err.count("columns left out") == 1
    refused = probe("--dry-run", "--map", "emial=Emial", subjects=path)
    assert_refused(refused, "no field 'emial'; did you mean 'email'?")


def test_numbers_are_the_same_in_json_in_the_library_and_the_second_time(probe: Call, people: Path) -> None:
    people.write_text(lines_of(PEOPLE[:1]), encoding="utf-8")
    first = probe("--kinds", "university", "--json")
    cases, summary = objects_of(first)
    assert "decoy_associations_nats" not in summary["subjects"][0]["values"][0]
    assert probe("--kinds", "university", "--json").out == first.out
    found = leakmeter.pii("toy", load_subjects(people).subjects, kinds=["university"], decoys=50, prompts=1)
    for name in ("p_value", "association_nats"):
        assert [getattr(one, name) for one in found] == [case[name] for case in cases]
    assert len(found.to_frame(detail=True)) == len(cases) == summary["n_subjects"] == 1


def test_without_a_file_two_who_do_not_exist_are_asked_for(cli: Call) -> None:
    few = ("--decoys", "50", "--prompts", "1", "--beams", "0")
    cases, summary = objects_of(cli("pii", "probe", "--model", "toy", *few, "--json"))
    assert summary["n_subjects"] == 2
    assert {(case["kind"], len(case["generated"])) for case in cases} == {("twin", 0)}
