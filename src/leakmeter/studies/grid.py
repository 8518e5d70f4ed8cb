"""Factor studies: a TOML file to the cells of a grid, each a measurement of its own.

    title = "…"             what the table or figure is called
    reproduces = "Figure 8" of which paper, and where it differs
    measure = "decode"      the measure
    show = "factor"         what is drawn: see the `shows` of the measure's kind
    x = "cid_lambda"        for 'factor': what the figure's axis is
    [both]                  settings of both sizes
    [laptop]                settings of one size, which win
    [paper]

    [[laptop.cells]]        instead of a grid: the cells one by one, each with the same settings

A setting is `model`, `dataset`, a field of the measure, or what its kind adds: how many records (`records` of contexts,
`queries` behind exemplars, `relations` that queries are about, `subjects` whose values are asked for), `choice_seed`
(of their choice), fields of the prompt settings, for contexts `bertscore`, `bertscore_layer` and `factkb`, for
exemplars `shots` and `draw_seed`, for relations `entities`, `contexts`, `mentioning` and `draw_seed`, for people
`kinds`, `types` and `region`. A list of values makes it a factor, and a cell is one choice from every factor. Where a
setting may have no value, "none" stands for that; where it has several at once, commas part them.
`replicates` makes a factor of the seed of the draws: so many, from the one that is set.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final

from leakmeter.core import registry
from leakmeter.core.files import read_text
from leakmeter.core.instrument import Settings
from leakmeter.core.measure import Measure
from leakmeter.errors import DataError, UnknownNameError, UsageError
from leakmeter.studies.kind import Choice, Kind, field_types
from leakmeter.studies.quality import Quality
from leakmeter.studies.settings import factors_of, listed, meant, replicated, typed

SIZES: Final = ("laptop", "paper")
_HEADINGS: Final = ("title", "reproduces", "measure", "show")


def kind_of(measure: str) -> Kind:
    """What is particular to the studies of a measure.

    Raises:
        UnknownNameError: no measure of that name.
        UsageError: there are no studies of it.
    """
    kind: Kind | None = registry.instrument(measure).study
    if kind is None:
        raise UsageError(f"there are no studies of '{measure}'; measure it with its command, or give it a study")
    return kind


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement of a study: a model, records of a data set, and a measure with all its parameters."""

    number: int
    factors: Mapping[str, Any]
    """What tells it from the other cells."""
    model: str
    dataset: str
    choice: Choice
    settings: Settings
    measure: Measure
    name: str | None = None
    """What its files are called; by its number where it has none."""
    measure_name: str | None = None
    """Of its measure, where that is not the study's: others are held against it."""
    told_dataset: str | None = None
    """What its data set is called where that may be shown, if not by its name."""

    @property
    def n_records(self) -> int:
        """How many records are asked for."""
        return self.choice.n_records

    @property
    def told(self) -> dict[str, Any]:
        """All that determines its numbers but the records themselves."""
        told = {"model": self.model, "dataset": self.told_dataset or self.dataset, **asdict(self.choice)}
        return {**told, "settings": asdict(self.settings), "measure": self.measure.record()}

    @property
    def stem(self) -> str:
        """Of its files' names."""
        return self.name or f"cell-{self.number:02}"

    @property
    def label(self) -> str:
        """Its factors in words, behind its measure where that is not the study's."""
        words = [self.measure_name] if self.measure_name else []
        return ", ".join([*words, *(f"{name} {value}" for name, value in self.factors.items())]) or "the only cell"


@dataclass(frozen=True, slots=True)
class Study:
    """A study of one size: its cells, and what is made of them."""

    name: str
    title: str
    reproduces: str
    size: str
    measure: str
    """Name of the measure."""
    show: str
    x: str | None
    quality: Quality
    cells: tuple[Cell, ...] = field(repr=False)

    @property
    def seed(self) -> int:
        """Of the draws; the bootstrap has it too."""
        return self.kind.seed(self.cells[0])

    @property
    def kind(self) -> Kind:
        """What is particular to studies of this measure."""
        return kind_of(self.measure)


def shipped() -> list[str]:
    """Names of the studies that come with leakmeter."""
    folder = resources.files("leakmeter.studies") / "papers"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_study(source: str, size: str = "laptop", changes: Mapping[str, Sequence[str]] | None = None) -> Study:
    """A study by its name, or from a TOML file.

    Args:
        source: a name of `shipped()`, or a path that ends in '.toml'.
        size: 'laptop' or 'paper'.
        changes: settings to values as they are typed, which win over the file's; several make a factor.

    Raises:
        UnknownNameError: no such study, size, setting, measure or data set.
        DataError: not a study file.
        UsageError: a value that a setting cannot have.
    """
    if source.endswith(".toml"):
        name, text, where = Path(source).stem, read_text(Path(source), "study file"), f"study file '{source}'"
    elif source in shipped():
        path = resources.files("leakmeter.studies") / "papers" / f"{source}.toml"
        name, text, where = source, path.read_text(encoding="utf-8"), f"study '{source}'"
    else:
        raise UnknownNameError("study", source, shipped())
    if size not in SIZES:
        raise UnknownNameError("size", size, SIZES)
    try:
        told = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{where} is not TOML: {error}") from None
    for heading in _HEADINGS:
        if not isinstance(told.get(heading), str):
            raise DataError(
                f"{where} has no text '{heading}'; expected {', '.join(_HEADINGS)}, [both], [laptop], [paper]"
            )
    if unknown := sorted(told.keys() - {*_HEADINGS, "x", "both", *SIZES}):
        raise UnknownNameError(f"heading of {where}", unknown[0], [*_HEADINGS, "x", "both", *SIZES])
    shows = kind_of(told["measure"]).shows
    if told["show"] not in shows:
        raise UnknownNameError("show", told["show"], shows)
    settings: dict[str, Any] = {**_table(told, "both", where), **_table(told, size, where)}
    for setting, values in (changes or {}).items():
        read = [typed(value) for value in values]
        settings[setting] = read[0] if len(read) == 1 else read
    return _study(name, told, size, settings)


def _table(told: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    found = told.get(name, {})
    if not isinstance(found, dict):
        raise DataError(f"{where}: [{name}] is no table of settings")
    return found


def _study(name: str, told: Mapping[str, Any], size: str, given: Mapping[str, Any]) -> Study:
    measure, kind = registry.instrument(told["measure"]).measure, kind_of(told["measure"])
    of_measure, of_quality = field_types(measure), field_types(Quality) if kind.has_quality else {}
    counted = kind.counted or kind.records
    known = {"model": "str", "dataset": "str", counted: "int", **kind.settings, **of_measure, **of_quality}
    given = dict(given)
    single = listed(given.pop("cells", [{}]), known, given)
    factors = factors_of(replicated(given, kind.replicated), known, fixed=of_quality)
    for setting in ("model", "dataset", counted):
        if setting not in {**factors, **single[0]}:
            raise UsageError(f"the study does not say '{setting}'; add it, or give --set {setting}=VALUE")
    x = told.get("x")
    if told["show"] == "factor" and x not in {**factors, **single[0]}:
        raise UsageError(f"the study's x is '{x}'; it has to be one of its settings")
    quality = Quality(**{key: meant(factors.pop(key)[0], known[key]) for key in of_quality if key in factors})
    values = {**{name: [cell[name] for cell in single] for name in single[0]}, **factors}
    varying = [name for name, of in values.items() if name == x or any(value != of[0] for value in of)]
    cells = []
    for number, (own, choice) in enumerate(itertools.product(single, itertools.product(*factors.values()))):
        shown = {**own, **dict(zip(factors, choice, strict=True))}
        chosen = {setting: meant(value, known[setting]) for setting, value in shown.items()}
        shown["dataset"] = told_dataset = kind.told_dataset(chosen["dataset"])
        cells.append(
            Cell(
                number=number,
                factors={setting: shown[setting] for setting in varying},
                model=chosen["model"],
                dataset=chosen["dataset"],
                choice=kind.choice(chosen),
                settings=kind.prompts(chosen),
                measure=kind.measure(
                    measure(**{key: value for key, value in {"seed": 0, **chosen}.items() if key in of_measure}), chosen
                ),
                told_dataset=told_dataset,
            )
        )
    return Study(
        name=name,
        title=told["title"],
        reproduces=told["reproduces"],
        size=size,
        measure=told["measure"],
        show=told["show"],
        x=x,
        quality=quality,
        cells=(*cells, *kind.yardsticks(cells)),
    )
