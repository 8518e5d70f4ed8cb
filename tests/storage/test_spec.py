"""A run's id: equal for equal work, different for any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from leakmeter.backends.toy import Toy
from leakmeter.core.case import Case, Document, Message
from leakmeter.instruments.influence.measure import Influence
from leakmeter.storage.fingerprint import spec_of
from leakmeter.storage.spec import RunSpec
from leakmeter.text.build import PromptSettings

CASE = Case("1", (Document("a", "Anna sang."),), "Who?", "Anna")


def spec(
    measure: Influence | None = None,
    settings: PromptSettings | None = None,
    cases: tuple[Case, ...] = (CASE,),
    backend: Toy | None = None,
    **how: Any,
) -> RunSpec:
    return spec_of(measure or Influence(), "influence", settings or PromptSettings(), backend or Toy(), cases, **how)


def test_equal_work_has_one_id() -> None:
    assert spec().id == spec().id
    assert spec().id.startswith("influence-")
    assert len(spec().id.removeprefix("influence-")) == 16
    int(spec().id.removeprefix("influence-"), 16)


def test_the_command_and_the_environment_do_not_change_the_id() -> None:
    one = spec(command="leakmeter influence", problems=["line 3 is bad"])
    assert one.id == spec().id
    assert replace(one, environment={"python": "4"}).id == one.id
    assert one.command == "leakmeter influence"
    assert one.problems == ("line 3 is bad",)


OTHER = {
    "temperature": 1.5,
    "cid_lambda": 2.0,
    "samples": 2,
    "max_new_tokens": 51,
    "seed": 1,
    "unit": "word",
    "removal": "mask",
    "template": "{context}",
    "group": True,
    "truncate": True,
    "max_context_tokens": 7,
    "region": "GB",
    "entity_patterns": "mrn = x",
    "ner": "en_core_web_sm",
    "swap": True,
    "swap_seed": 1,
    "search": "top:3",
    "audit": "0.95:5%",
    "audit_rounds": 2,
}
# What only means something beside another setting.
BESIDE: dict[str, dict[str, object]] = {
    **{name: {"unit": "entity"} for name in ("entity_patterns", "ner", "swap")},
    "audit": {"search": "top:3"},
    "audit_rounds": {"search": "top:3", "audit": "0.9:1"},
}


@pytest.mark.parametrize("kind", [Influence, PromptSettings])
def test_every_parameter_changes_the_id(kind: Callable[..., Any]) -> None:
    for field in fields(kind):  # type: ignore[arg-type]
        beside = BESIDE.get(field.name, {})
        same, made = kind(**beside), kind(**beside, **{field.name: OTHER[field.name]})
        ids = {spec(measure=one).id if kind is Influence else spec(settings=one).id for one in (same, made)}
        assert len(ids) == 2, field.name


@pytest.mark.parametrize(
    "case",
    [
        replace(CASE, id="2"),
        replace(CASE, documents=(Document("b", "Anna sang."),)),
        replace(CASE, documents=(Document("a", "Anna sang. "),)),
        replace(CASE, documents=(Document("a", "Anna"), Document("a", " sang."))),
        replace(CASE, query="Who"),
        replace(CASE, response=None),
        replace(CASE, response="anna"),
        replace(CASE, messages=(Message("user", "u", (Document("u", "x"),)),)),
    ],
)
def test_every_part_of_a_case_changes_the_id(case: Case) -> None:
    assert spec(cases=(case,)).id != spec().id


def test_cases_count_in_number_and_order() -> None:
    other = replace(CASE, id="2")
    assert len({spec(cases=cases).id for cases in ((CASE,), (CASE, other), (other, CASE), (other,))}) == 4


def test_model_and_version_change_the_id() -> None:
    named, hashed, coarse, moved, other = Toy(), Toy(), Toy(), Toy(), Toy()
    named.name, hashed.weights_sha256, coarse.dtype = "other", "0" * 64, "float32"
    vars(moved)["device"], vars(other)["machine"] = "cuda:0", {"threads": 2}
    ids = {spec(backend=backend).id for backend in (Toy(), named, hashed, coarse, moved, other)}
    assert len({*ids, replace(spec(), version="9").id, replace(spec(), measure="x").id}) == 8


def test_the_spec_names_the_versions_of_what_computes() -> None:
    assert {"python", "machine", "torch", "transformers", "tokenizers", "numpy"} <= set(spec().environment)


def test_a_template_file_counts_by_what_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from leakmeter.cli import main

    context, template = tmp_path / "c.txt", tmp_path / "t.txt"
    context.write_text("Anna sang.")
    for text in ("Read {context}. {query}", "Now read {context}. {query}"):
        template.write_text(text)
        with pytest.raises(SystemExit, match="0"):
            main(
                f"influence --model toy --context-file {context} --query Who? --response Anna "
                f"--out {tmp_path / 'runs'} --json --template @{template}".split()
            )
    one, two = capsys.readouterr().out.splitlines()
    assert one != two
    assert len(list((tmp_path / "runs").iterdir())) == 2
