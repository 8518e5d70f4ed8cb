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
import sys
import tomllib
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final

from leakmeter.commands.studies.kind import RecordChoice, StudyKind, field_types
from leakmeter.commands.studies.quality import Quality
from leakmeter.core import registry
from leakmeter.core.files import parsed_toml, read_text
from leakmeter.core.measure import Measure
from leakmeter.core.record import JsonObject
from leakmeter.core.registry import Settings
from leakmeter.errors import DataError, UnknownNameError, UsageError, options_named

SIZES: Final = ("laptop", "paper")
_COUNTS: Final = (
    *("batches", "cases", "examples", "n", "people", "queries", "records", "relations", "samples", "subjects"),
    *("sequences", "texts"),
)
"""What people call the number of whatever a study measures."""
_HEADINGS: Final = ("title", "reproduces", "measure", "show")
_DEFAULTS: Final = {"seed": 0, "controls": 0}
"""Of measures that have such a setting. Tables are of sums over pieces, which nothing is held against."""


def kind_of(measure: str) -> StudyKind:
    kind: StudyKind | None = registry.instrument(measure).study
    if kind is None:
        raise UsageError(f"there are no studies of '{measure}'; measure it with its command, or give it a study")
    return kind


@dataclass(frozen=True, slots=True)
class StudyCell:
    """One measurement of a study: a model, records of a data set, and a measure with all its parameters."""

    number: int
    factors: Mapping[str, object]
    """Settings that differ between cells."""
    model: str
    dataset: str
    choice: RecordChoice
    settings: Settings
    measure: Measure
    name: str | None = None
    """Of its files; None for its number."""
    measure_name: str | None = None
    """Where its measure is not the study's: others are compared with it."""
    shown_dataset: str | None = None
    """The data set's name in public, where it is another."""

    @property
    def n_records(self) -> int:
        return self.choice.n_records

    @property
    def record(self) -> JsonObject:
        """All that determines its numbers beside the records."""
        return {
            "model": self.model,
            "dataset": self.shown_dataset or self.dataset,
            **asdict(self.choice),
            "settings": asdict(self.settings),
            "measure": self.measure.record(),
        }

    @property
    def stem(self) -> str:
        return self.name or f"cell-{self.number:02}"

    @property
    def label(self) -> str:
        words = [self.measure_name] if self.measure_name else []
        return ", ".join([*words, *(f"{name} {value}" for name, value in self.factors.items())]) or "the only cell"


@dataclass(frozen=True, slots=True)
class Study:
    """A study of one size."""

    name: str
    title: str
    reproduces: str
    size: str
    measure: str
    show: str
    x: str | None
    quality: Quality
    cells: tuple[StudyCell, ...] = field(repr=False)

    @property
    def seed(self) -> int:
        return self.kind.seed(self.cells[0])

    @property
    def kind(self) -> StudyKind:
        return kind_of(self.measure)


def shipped() -> list[str]:
    folder = resources.files("leakmeter.commands.studies") / "papers"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def settings_of(measure: str) -> dict[str, str]:
    """Every setting of studies of a measure, and its annotation."""
    kind = kind_of(measure)
    of_quality = field_types(Quality) if kind.has_quality else {}
    counted = kind.counted or kind.records
    of_measure = field_types(registry.instrument(measure).measure)
    return {"model": "str", "dataset": "str", counted: "int", **kind.settings, **of_measure, **of_quality}


def settings_named(study: Study) -> AbstractContextManager[None]:
    """Within, errors say '--set label_scoring=whole-sequence' of what is an option of a measure's own command."""
    known = settings_of(study.measure)
    return options_named(lambda name, value: f"--set {name}={value or '…'}" if name in known else None)


def load_study(source: str, size: str = "laptop", changes: Mapping[str, Sequence[str]] | None = None) -> Study:
    """One of `shipped()`, or a path that ends in '.toml'; `size` is 'laptop' or 'paper'.

    `changes` are settings and their values as they are typed, which win over the file's; several values make a factor.
    """
    if source.endswith(".toml"):
        name, text, where = Path(source).stem, read_text(Path(source), "study file"), f"study file '{source}'"
    elif source in shipped():
        path = resources.files("leakmeter.commands.studies") / "papers" / f"{source}.toml"
        name, text, where = source, path.read_text(encoding="utf-8"), f"study '{source}'"
    else:
        raise UnknownNameError("study", source, shipped())
    if size not in SIZES:
        raise UnknownNameError("size", size, SIZES)
    file = parsed_toml(text, where)
    for heading in _HEADINGS:
        if not isinstance(file.get(heading), str):
            raise DataError(
                f"{where} has no text '{heading}'; expected {', '.join(_HEADINGS)}, [both], [laptop], [paper]"
            )
    if unknown := sorted(file.keys() - {*_HEADINGS, "x", "both", *SIZES}):
        raise UnknownNameError(f"heading of {where}", unknown[0], [*_HEADINGS, "x", "both", *SIZES])
    kind = kind_of(file["measure"])
    if file["show"] not in kind.shows:
        raise UnknownNameError("show", file["show"], kind.shows)
    settings: JsonObject = {}
    for heading in ("both", size):
        if not isinstance(table := file.get(heading, {}), dict):
            raise DataError(f"{where}: [{heading}] is no table of settings")
        settings |= table
    for setting, values in (changes or {}).items():
        read = [_typed(value) for value in values]
        settings[setting] = read[0] if len(read) == 1 else read
    return _study(name, file, size, settings)


def _study(name: str, file: JsonObject, size: str, settings: JsonObject) -> Study:
    measure, kind = registry.instrument(file["measure"]).measure, kind_of(file["measure"])
    of_measure, of_quality = field_types(measure), field_types(Quality) if kind.has_quality else {}
    counted = kind.counted or kind.records
    types = settings_of(file["measure"])
    for setting in settings:
        if setting not in types and setting not in ("cells", "replicates"):
            meant = f"how many {counted} are measured is '{counted}'" if setting in _COUNTS else ""
            raise UnknownNameError("setting of a study", setting, types, meant=meant)
    remaining = dict(settings)
    single = _listed(remaining.pop("cells", [{}]), types, remaining)
    factors = _factors_of(_replicated(remaining, kind.replicated), types, fixed=of_quality)
    for setting in ("model", "dataset", counted):
        if setting not in {**factors, **single[0]}:
            raise UsageError(f"the study has no '{setting}'; add it, or give --set {setting}=VALUE")
    x = file.get("x")
    if file["show"] == "factor" and x not in {**factors, **single[0]}:
        raise UsageError(f"the study's x is '{x}'; it has to be one of its settings")
    quality = Quality(**{key: _meant(factors.pop(key)[0], types[key]) for key in of_quality if key in factors})
    values = {**{name: [cell[name] for cell in single] for name in single[0]}, **factors}
    varying = [name for name, options in values.items() if name == x or any(value != options[0] for value in options)]
    cells = []
    for number, (own, choice) in enumerate(itertools.product(single, itertools.product(*factors.values()))):
        shown = {**own, **dict(zip(factors, choice, strict=True))}
        chosen = {setting: _meant(value, types[setting]) for setting, value in shown.items()}
        shown["dataset"] = shown_dataset = kind.shown_dataset(chosen["dataset"])
        cells.append(
            StudyCell(
                number=number,
                factors={setting: shown[setting] for setting in varying},
                model=chosen["model"],
                dataset=chosen["dataset"],
                choice=kind.choice(chosen),
                settings=kind.prompts(chosen),
                measure=kind.measure(
                    measure(**{key: value for key, value in {**_DEFAULTS, **chosen}.items() if key in of_measure}),
                    chosen,
                ),
                shown_dataset=shown_dataset,
            )
        )
    return Study(
        name=name,
        title=file["title"],
        reproduces=file["reproduces"],
        size=size,
        measure=file["measure"],
        show=file["show"],
        x=x,
        quality=quality,
        cells=(*cells, *kind.references(cells)),
    )


def _replicated(written: JsonObject, setting: str) -> JsonObject:
    """Settings with consecutive seeds, as many as `replicates` says."""
    n = written.get("replicates", 1)
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise UsageError(f"setting 'replicates' is {n!r}; it has to be a whole number of 1 or more")
    settings = {name: value for name, value in written.items() if name != "replicates"}
    if n == 1:
        return settings
    first = settings.get(setting, 0)
    if not isinstance(first, int):
        raise UsageError(f"setting '{setting}' has values, and replicates are {n}; give one seed, or no replicates")
    return {**settings, setting: list(range(first, first + n))}


def _listed(cells: Any, known: Mapping[str, str], settings: JsonObject) -> list[JsonObject]:
    """Checked settings of cells that are written one by one; of a grid a single empty one."""
    if not isinstance(cells, list) or not cells or not all(isinstance(cell, dict) for cell in cells):
        raise DataError("'cells' of the study are no list of tables; write [[laptop.cells]] before each")
    for number, cell in enumerate(cells, 1):
        if cell.keys() != cells[0].keys():
            raise DataError(f"cell {number} of the study has other settings than the first; give each the same ones")
        for setting, value in cell.items():
            if setting not in known:
                raise UnknownNameError("setting of a study", setting, known)
            if setting in settings or isinstance(value, list):
                raise UsageError(
                    f"setting '{setting}' of cell {number} has to have one value there, and none elsewhere"
                )
    return [{name: _checked(name, value, known[name]) for name, value in cell.items()} for cell in cells]


def _factors_of(settings: JsonObject, known: Mapping[str, str], fixed: Collection[str]) -> dict[str, list[Any]]:
    """The values of each setting, checked; `fixed` ones have one."""
    factors: dict[str, list[Any]] = {}
    for setting, value in settings.items():
        values = value if isinstance(value, list) else [value]
        if not values:
            raise UsageError(f"setting '{setting}' has no value; give at least one")
        if setting in fixed and len(values) > 1:
            raise UsageError(f"setting '{setting}' cannot be a factor; give one value")
        factors[setting] = [_checked(setting, level, known[setting]) for level in values]
    return factors


def _checked(setting: str, value: Any, annotation: str) -> Any:
    if _meant(value, annotation) is None:
        return value
    # 'float | None' is a float, and what is no number is text.
    kind = {"int": int, "float": float, "bool": bool}.get(annotation.split(" | ")[0], str)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        # 1 and 1.0 are one parameter, and have to give one run.
        if abs(value) <= sys.float_info.max:
            return float(value)
        raise UsageError(f"setting '{setting}' is a number of {len(str(abs(value))):,} digits; give a smaller one")
    if kind is str and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        raise UsageError(f"setting '{setting}' is {value!r}; it has to be {words[kind]}")
    return value


def _meant(value: Any, annotation: str) -> Any:
    """A value as a dataclass takes it: TOML has no None, and a list of values is a factor."""
    if annotation.startswith("tuple[") and isinstance(value, str):
        parts = () if value == "none" else tuple(part.strip() for part in value.split(",") if part.strip())
        return tuple(map(_whole, parts)) if annotation.startswith("tuple[int") else parts
    return None if value == "none" and annotation.endswith(" | None") else value


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"'{text}' is no whole number; expected some, parted by commas") from None


def _typed(text: str) -> Any:
    """A value after --set, read as TOML, else as text."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (RecursionError, ValueError):
        return text
    return value if isinstance(value, (int, float, bool, str)) else text
