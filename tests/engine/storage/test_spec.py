"""A run's id: equal for equal work, different for any other."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from helpers.places import TESTS
from leakmeter.backends.toy import Toy
from leakmeter.core.case import Case, Document, Emission, Message, Recipient
from leakmeter.engine.storage.spec import RunSpec, spec_of
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings

CASE = Case("1", (Document("a", "Anna sang."),), "Who?", "Anna")
PARTS: list[dict[str, Any]] = [
    {"documents": (Document("b", "Anna sang."),)}, {"documents": (Document("a", "Anna sang. "),)},
    {"documents": (Document("a", "Anna"), Document("a", " sang."))}, {"query": "Who"}, {"response": None},
    {"response": "anna"}, {"messages": (Message("user", "u", (Document("u", "x"),)),)},
    {"recipient": Recipient("ana")}, {"documents": (Document("a", "Anna sang.", owner="ana"),)},
]  # fmt: skip


def spec(measure: Any = None, settings: Any = None, cases: Any = (CASE,), backend: Any = None, **how: Any) -> RunSpec:
    return spec_of(measure or Influence(), "influence", settings or PromptSettings(), backend or Toy(), cases, **how)


def test_equal_work_has_one_id_by_whatever_command_and_environment() -> None:
    name = spec().id
    assert re.fullmatch(r"influence-[0-9a-f]{16}", name)
    one = spec(command="leakmeter influence", data="log.jsonl")
    assert (one.id, replace(one, environment={"python": "4"}).id) == (name, name)
    assert (one.command, one.data) == ("leakmeter influence", "log.jsonl")
    assert {"python", "machine", "torch", "transformers", "tokenizers", "numpy"} <= set(one.environment)


def test_what_was_left_out_tells_runs_apart_wherever_its_file_lies() -> None:
    several = [spec(problems=each) for each in ((), ["a.jsonl, line 3 is bad"], ["a.jsonl, line 4 is bad"], ["2 is"])]
    assert len({one.id for one in several}) == 4
    assert spec(problems=["/logs/b.jsonl, line 3 is bad"]).id == several[1].id
    assert "left_out" not in several[0].record()
    # Of runs that were written before.
    before = {name: value for name, value in several[1].record().items() if name != "left_out"}
    assert RunSpec.from_record(before).id == several[0].id
    assert RunSpec.from_record(several[1].record()) == several[1]


OTHER = {
    "complete": True, "sample_for_averages": 60,
    "temperature": 1.5, "cid_lambda": 2.0, "samples": 2, "max_new_tokens": 51, "seed": 1, "unit": "word",
    "removal": "mask", "template": "{context}", "group": True, "truncate": True, "max_context_tokens": 7,
    "region": "GB", "entity_patterns": "mrn = x", "ner": "en_core_web_sm", "swap": True, "swap_seed": 1,
    "sensitive": str(TESTS / "text" / "customers.csv"), "search": "top:3", "audit": "0.95:5%", "audit_rounds": 2,
    "controls": 1, "allowed": "rules.toml", "pack": (str(TESTS / "text" / "berths.toml"),),
}  # fmt: skip
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


def test_every_part_of_a_case_and_their_number_and_order_change_the_id() -> None:
    one = replace(CASE, id="2")
    others = [(one,), *((replace(CASE, **part),) for part in PARTS), *((CASE, one), (one, CASE))]
    assert len({spec(cases=cases).id for cases in [(CASE,), *others]}) == 1 + len(others)


def test_model_and_version_change_the_id() -> None:
    class Moved(Toy):
        device = "cuda:0"

    class Other(Toy):
        machine = {"threads": 2}  # noqa: RUF012 - a property of other back ends

    named, hashed, coarse, moved, other = Toy(), Toy(), Toy(), Moved(), Other()
    named.name, hashed.weights_sha256, coarse.dtype = "other", "0" * 64, "float32"
    ids = {spec(backend=backend).id for backend in (Toy(), named, hashed, coarse, moved, other)}
    assert len({*ids, replace(spec(), version="9").id, replace(spec(), measure="x").id}) == 8


@pytest.mark.parametrize(
    "whose",
    [
        {"documents": (Document("a", "Anna sang.", tenant="acme"),)},
        {"documents": (Document("a", "Anna sang.", owner="ana"),)},
        {"recipient": Recipient(tenant="acme")},
        {"emission": Emission("c-1", 1)},
    ],
)
def test_a_run_whose_controls_were_chosen_by_whose_they_are_is_none_of_those_before(whose: dict[str, Any]) -> None:
    """A run that was begun with other controls is not continued with these."""
    beside = (Document("2", "Bo sang."),)
    assert "controls_of" not in spec(cases=[replace(CASE, control_contexts=beside)]).prompts
    case = replace(CASE, **whose)
    alone, held = spec(cases=[case]), spec(cases=[replace(case, control_contexts=beside)])
    assert "controls_of" not in alone.prompts
    assert held.prompts["controls_of"].startswith("other tenants")
    assert held.id != alone.id
