"""Every public function is called, as `leakmeter.NAME(…)`, and as `Meter(…).NAME(…)` where it measures with a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers import tuned_models
from helpers.differentiable_toy import DifferentiableToy
from leakmeter.instruments.pii.canaries import canaries_of

CASE = {"id": "a", "context": "Ana is 41. She sings.", "query": "Age?", "response": "41."}
TASK = {"instruction": "Mood?", "fields": {"said": "Said"}, "answer": "Mood", "labels": ["Glad", "Sad"]}
ROWS = [{"said": f"It is day {i}.", "label": ("Glad", "Sad")[i % 2]} for i in range(5)]
MOODS = {"task": TASK, "exemplars": ROWS[2:], "label_scoring": "whole-sequence"}
SUMS = [{"input": f"{i} + {i}", "output": str(2 * i)} for i in range(3)]
STUDY = {"model": "toy", "relations": 2, "entities": 2, "contexts": 4, "mentioning": 1}
MAIL = "Mara Ellsworth <mara@ellsworth.example>, 617-555-0134, 12 Elm Street, Springfield, IL 62704"


@dataclass
class Inputs:
    """What calls are given: files are written in the working directory, which is the test's own."""

    n_outs: int = 0

    @cached_property
    def run(self) -> leakmeter.Run:
        return leakmeter.influence("toy", [CASE], out="runs")

    @cached_property
    def other_run(self) -> leakmeter.Run:
        return leakmeter.influence("toy", [CASE], unit="word", out="runs")

    @property
    def out(self) -> Path:
        """A place where nothing is yet."""
        self.n_outs += 1
        return Path(f"out{self.n_outs}")

    @cached_property
    def mail(self) -> Path:
        Path("mail.txt").write_text(MAIL, encoding="utf-8")
        return Path("mail.txt")

    @cached_property
    def model_directory(self) -> str:
        tuned_models.fresh_llama().save_pretrained("small")
        tuned_models.byte_tokenizer().save_pretrained("small")
        return "small"


@dataclass(frozen=True)
class Measuring:
    """A call of a function whose first parameter is a model."""

    data: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    model: Callable[[], Any] = lambda: "toy"
    writes: bool = False
    """Whether it has to be given a place to write to."""


@cache
def weights() -> Any:
    """Of one layer: what is tuned is a copy of it."""
    model = tuned_models.fresh_llama(num_hidden_layers=1, max_position_embeddings=1024)
    return leakmeter.load_backend((model, tuned_models.byte_tokenizer()), device="cpu")


FEW_CANARIES = {"canaries": 1, "held_out": 1, "repeats": (1,), "batch_tokens": 1024}
MEASURING = {
    "generate": Measuring(
        ["The sea is calm.", "The sun sets.", "Bread is warm."], {"epsilon": 20.0, "samples": 1, "max_new_tokens": 2}
    ),
    "decode": Measuring([{**CASE, "response": None}], {"max_new_tokens": 2}),
    "fisher_susceptibility": Measuring(["Who?"], {"probes": 2}, DifferentiableToy),
    "frontier": Measuring(
        [{**CASE, "id": i, "response": None, "reference": "41"} for i in "ab"],
        {"lambdas": (0.5, 1.0), "max_new_tokens": 2},
    ),
    "icl": Measuring(ROWS[:1], MOODS),
    "icl_responses": Measuring([SUMS[0]], {"exemplars": SUMS[1:]}),
    "icl_select": Measuring(ROWS[:2], {**MOODS, "max_steps": 1}),
    "influence": Measuring([CASE]),
    "pii": Measuring(
        [{"name": "Mara Ellsworth", "phone": "617-555-0134"}],
        {"kinds": ["twin"], "decoys": 50, "prompts": 1, "beams": ()},
    ),
    "pii_check": Measuring(None, {**FEW_CANARIES, "types": ("phone",), "white_box": None}, model=weights, writes=True),
    "pii_insert": Measuring(None, FEW_CANARIES, model=weights, writes=True),
    "pii_tune": Measuring(
        [one.to_dict() for one in canaries_of(3, seed=0)], {"length": 1, "epochs": 1}, model=weights, writes=True
    ),
    "redact": Measuring([CASE], {"max_loss": 0.2}),
    "susceptibility": Measuring(["Who?"], {"contexts": ["Emma is by Poe.", "It rains."]}),
}
"""All that a meter has."""

OTHER: dict[str, Callable[[Inputs], Any]] = {
    "calibrate": lambda inputs: leakmeter.calibrate(epsilon=8, free="temperature", clip=10, subset_size=24),
    "check_installation": lambda inputs: leakmeter.check_installation(),
    "compare_runs": lambda inputs: leakmeter.compare_runs(inputs.run, inputs.other_run),
    "doctor": lambda inputs: leakmeter.doctor("toy"),
    "export_run": lambda inputs: leakmeter.export_run(inputs.run, inputs.out),
    "forget": lambda inputs: leakmeter.forget() is None,
    "gate": lambda inputs: leakmeter.gate(inputs.run, max="influence.max <= 100").holds,
    "list_models": lambda inputs: leakmeter.list_models(),
    "list_runs": lambda inputs: leakmeter.list_runs(inputs.run.path.parent),
    "list_studies": lambda inputs: leakmeter.list_studies(),
    "load_backend": lambda inputs: leakmeter.load_backend("toy"),
    "load_run": lambda inputs: leakmeter.load_run(inputs.run.path),
    "pii_extract": lambda inputs: leakmeter.pii_extract(inputs.mail, out="people.jsonl"),
    "pull_model": lambda inputs: leakmeter.pull_model(inputs.model_directory),
    "query": lambda inputs: len(leakmeter.query("select * from results", inputs.run.path.parent)),
    "rename_run": lambda inputs: leakmeter.rename_run(inputs.run, "first") is None,
    "save_report": lambda inputs: leakmeter.save_report("page.html", inputs.run),
    "schema": lambda inputs: leakmeter.schema("influence"),
    "study": lambda inputs: leakmeter.study("susceptibility_contexts", settings=STUDY),
    "tokens": lambda inputs: leakmeter.tokens("toy", [CASE]),
    "verify_run": lambda inputs: leakmeter.verify_run(inputs.run),
    "write_baseline": lambda inputs: leakmeter.write_baseline("baseline.json", inputs.run),
}


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inputs]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    # Where the default model lies, an installation is checked with it, for seconds.
    monkeypatch.setenv("LEAKMETER_CACHE", str(tmp_path / "cache"))
    yield Inputs()
    leakmeter.forget()


def test_all_functions_are_called_here() -> None:
    public = {name for name in leakmeter.__all__ if inspect.isroutine(getattr(leakmeter, name))}
    assert {*MEASURING, *OTHER} == public
    meter = leakmeter.Meter("toy")
    methods = {name for name in dir(meter) if not name.startswith("_")} - {"backend", "kept_model"}
    assert set(MEASURING) == methods


@pytest.mark.parametrize("of_meter", [False, True], ids=["function", "meter"])
@pytest.mark.parametrize("name", MEASURING)
def test_what_measures_with_a_model(name: str, of_meter: bool, inputs: Inputs) -> None:
    call = MEASURING[name]
    model, options = call.model(), {**call.options, **({"out": inputs.out} if call.writes else {})}
    if of_meter:
        assert getattr(leakmeter.Meter(model), name)(call.data, **options)
    else:
        assert getattr(leakmeter, name)(model, call.data, **options)


@pytest.mark.parametrize("name", OTHER)
def test_all_others(name: str, inputs: Inputs) -> None:
    assert OTHER[name](inputs)
