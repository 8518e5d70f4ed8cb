"""What every measure and every back end is, found by file name: a new plug-in is tested by being there."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from helpers.differentiable_toy import DifferentiableToy
from leakmeter.backends.toy import Toy
from leakmeter.core import measure as units
from leakmeter.core import registry
from leakmeter.core.backend import Backend
from leakmeter.core.drive import drive, settled
from leakmeter.core.measure import Measure, Measurement
from leakmeter.core.request import Asked, GradientRequest, Request
from leakmeter.core.tree import chunk_of, chunk_of_contexts
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.results.result import Result

MEASURES = registry.instruments()
BACKENDS = registry.backends()
UNITS = {
    *(units.NATS, units.NATS_PER_SQUARE, units.TOKEN_ID, units.WEIGHT, units.LABEL, units.COUNT),
    *("hit", "edits", "edits per character"),
}
measures = pytest.mark.parametrize("name", MEASURES)
responses = pytest.mark.parametrize("response", ["the clinic.", None])


@cache
def item(name: str, id_: str = "one", response: str | None = None) -> Any:
    """An instrument's example, tokenised for the toy model."""
    example = registry.instrument(name).example(id_, response)
    return example.settings.prepare(example.case, Toy(), quick(name)).item


def quick(name: str, **parameters: Any) -> Measure:
    kind = registry.instrument(name).measure
    known = {field.name for field in dataclasses.fields(kind)}
    small = registry.instrument(name).example().parameters
    made: Measure = kind(**{**small, **{key: value for key, value in parameters.items() if key in known}})
    return made


@cache
def alone(name: str, id_: str, response: str | None) -> list[Measurement]:
    """What a measure says of its example by itself."""
    (measurements,), _ = drive(DifferentiableToy(), [quick(name, samples=2, seed=3).trial(item(name, id_, response))])
    return measurements


def answered(toy: DifferentiableToy, asked: Sequence[Asked]) -> list[Any]:
    """Answers in the order of the requests, of scores and of gradients."""
    scores = iter(toy.score(chunk_of([one for one in asked if isinstance(one, Request)])))
    of_gradients = [one for one in asked if isinstance(one, GradientRequest)]
    gradients = iter(toy.differentiate(of_gradients, chunk_of_contexts(of_gradients)))
    return [next(gradients if isinstance(one, GradientRequest) else scores) for one in asked]


def plain(measurements: Sequence[Measurement]) -> list[tuple[Any, ...]]:
    return [(r.item, r.sample, r.piece, r.statistic, r.unit, r.values.tobytes()) for r in measurements]


def test_there_are_plugins_and_an_unknown_one_is_guessed() -> None:
    assert {"influence", "toy", "hf"} <= {*MEASURES, *BACKENDS}
    assert not [name for name in (*MEASURES, *BACKENDS) if name.startswith("_") or name == "base"]
    with pytest.raises(UnknownNameError, match="no measure named 'influense'; did you mean 'influence'"):
        registry.instrument("influense")
    with pytest.raises(UnknownNameError, match="no back end named 'toi'; did you mean 'toy'"):
        registry.backend("toi")


def test_other_packages_add_theirs_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(name="mine", value="leakmeter.backends.toy:Toy", group="leakmeter.backends")
    monkeypatch.setattr(registry, "_others", lambda group: (point,) if group == point.group else ())
    assert "mine" in registry.backends()
    assert "mine" not in registry.instruments()
    assert registry.backend("mine") is Toy
    point = EntryPoint(name="mine", value="leakmeter.backends.toy:ByteTokenizer", group="leakmeter.backends")
    with pytest.raises(UsageError, match="ByteTokenizer; it has to be a class that inherits"):
        registry.backend("mine")


@measures
def test_a_measure_is_a_frozen_dataclass_of_documented_parameters(name: str) -> None:
    kind = registry.instrument(name).measure
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert kind.__doc__
    assert "nats" in kind.__doc__
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    said = {
        ast.unparse(before.target)
        for before, after in pairwise(tree.body)
        if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    }
    assert said == {field.name for field in dataclasses.fields(kind)}


@measures
def test_a_measure_stands_on_its_defaults(name: str) -> None:
    measure = registry.instrument(name).measure()
    assert isinstance(measure, Measure)
    assert measure.max_new_tokens >= 0
    assert inspect.isgenerator(measure.trial(item(name)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(measure, dataclasses.fields(measure)[0].name, None)  # type: ignore[arg-type]


@measures
@responses
def test_readings_are_finite_and_have_known_units(name: str, response: str | None) -> None:
    measurements = alone(name, "one", response)
    assert measurements
    statistics = list(registry.instrument(name).measure.statistics.all())
    units = {str(statistic): statistic.unit for statistic in statistics}
    families = tuple(statistic for statistic in statistics if statistic.family)
    for measurement in measurements:
        # Each means what its measure declares.
        is_member = measurement.statistic.startswith(families) if families else False
        assert is_member or measurement.unit == units[measurement.statistic]
        assert measurement.item == item(name).id
        assert measurement.unit in UNITS
        assert (measurement.values.dtype, measurement.values.ndim) == (np.float64, 1)
        assert len(measurement.values) > 0
        assert np.isfinite(measurement.values).all()
    assert len({(r.sample, r.statistic, r.piece) for r in measurements}) == len(measurements)


@measures
@responses
def test_interleaved_trials_do_not_disturb_each_other(name: str, response: str | None) -> None:
    trials = [quick(name, samples=2, seed=3).trial(item(name, id_, response)) for id_ in ("one", "two")]
    together, _ = drive(DifferentiableToy(), trials)
    assert [*map(plain, together)] == [plain(alone(name, id_, response)) for id_ in ("one", "two")]


@measures
@responses
def test_the_same_seed_and_the_same_scores_give_the_same_bytes(name: str, response: str | None) -> None:
    toy, heard = DifferentiableToy(), []
    trial = settled(toy, quick(name, samples=2, seed=3).trial(item(name, response=response)))
    requests = next(trial)
    try:
        while True:
            heard.append((requests, answered(toy, requests)))
            requests = trial.send(heard[-1][1])
    except StopIteration as end:
        first = end.value
    # Without a model: a trial's state is the answers it has received.
    trial = settled(toy, quick(name, samples=2, seed=3).trial(item(name, response=response)))
    assert next(trial) == heard[0][0]
    for (_, answers), (asked, _) in pairwise(heard):
        assert trial.send(answers) == asked
    with pytest.raises(StopIteration) as again:
        trial.send(heard[-1][1])
    assert plain(first) == plain(again.value.value) == plain(alone(name, "one", response))


@measures
def test_a_measure_reaches_the_command_line_by_its_fields(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from leakmeter.cli import main, program

    command = name.replace("_", "-")
    if command not in program():
        pytest.skip(f"there is no command 'leakmeter {command}'")
    words = [command, "probe"] if name == "pii" else [command]
    with pytest.raises(SystemExit):
        main([*words, "--help-all"])
    said = capsys.readouterr().out
    for field in dataclasses.fields(registry.instrument(name).measure):
        assert f"--{field.name.replace('_', '-')}" in said


@measures
def test_a_result_is_the_only_class_of_its_module_that_is_made_of_a_run(name: str) -> None:
    kind = registry.instrument(name).result
    assert issubclass(kind, Result)
    assert not inspect.isabstract(kind)
    made = [value for value in vars(inspect.getmodule(kind)).values() if inspect.isclass(value)]
    assert [value for value in made if hasattr(value, "from_run")] == [kind]
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert re.fullmatch(r"[a-z_]+-\d+", kind.schema)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_back_end_keeps_the_contract(name: str) -> None:
    kind = registry.backend(name)
    assert issubclass(kind, Backend)
    assert not inspect.isabstract(kind)
    source = textwrap.dedent(inspect.getsource(kind))
    assigned = {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    assert Backend.__abstractmethods__ == {"score"}
    assert {"name", "dtype", "tokenizer"} - assigned - set(dir(kind)) == set()
    assert callable(kind.score)
    assert list(inspect.signature(kind.score).parameters) == ["self", "chunk"]
    assert kind.__doc__


def test_the_toy_is_a_back_end() -> None:
    toy = Toy()
    assert isinstance(toy, Backend)
    assert (toy.name, toy.dtype, toy.window) == ("toy", "float64", None)
