"""Factor studies: a TOML file to the cells of a grid, each a measurement of its own.

    title = "…"             what the table or figure is called
    reproduces = "Figure 8" of which paper, and where it differs
    measure = "decode"      the measure
    show = "factor"         what is drawn: see `SHOWS`
    x = "cid_lambda"        for 'factor': what the figure's axis is
    [both]                  settings of both sizes
    [laptop]                settings of one size, which win
    [paper]

A setting is `model`, `dataset`, `records` (how many), `choice_seed` (of their choice; the first ones without it), a
field of the prompt settings or of the measure, or one of `bertscore`, `bertscore_layer`, `factkb`. A list of values
makes it a factor, and a cell is one choice from every factor.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any, Final

from leakmeter import plugins
from leakmeter.data import named
from leakmeter.data.text import read_text
from leakmeter.errors import DataError, UnknownNameError, UsageError
from leakmeter.measures.base import Measure
from leakmeter.prompts.build import PromptSettings
from leakmeter.studies.quality import Quality

SIZES: Final = ("laptop", "paper")
SHOWS: Final = {
    "factor": "a mean for each cell, over x",
    "position": "a mean for each position of the response",
    "piece": "a mean for each piece of the context, in its order",
}
_OWN: Final = {"model": str, "dataset": str, "records": int, "choice_seed": int}
_HEADINGS: Final = ("title", "reproduces", "measure", "show")


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement of a study: a model, records of a data set, and a measure with all its parameters."""

    number: int
    factors: Mapping[str, Any]
    """What tells it from the other cells."""
    model: str
    dataset: str
    n_records: int
    choice_seed: int | None
    settings: PromptSettings
    measure: Measure
    name: str | None = None
    """What its files are called; by its number where it has none."""

    @property
    def stem(self) -> str:
        """Of its files' names."""
        return self.name or f"cell-{self.number:02}"

    @property
    def label(self) -> str:
        """Its factors in words."""
        return ", ".join(f"{name} {value}" for name, value in self.factors.items()) or "the only cell"


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
        return int(getattr(self.cells[0].measure, "seed", 0) or 0)


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
    if told["show"] not in SHOWS:
        raise UnknownNameError("show", told["show"], SHOWS)
    settings: dict[str, Any] = {**_table(told, "both", where), **_table(told, size, where)}
    for setting, values in (changes or {}).items():
        typed = [_typed(value) for value in values]
        settings[setting] = typed[0] if len(typed) == 1 else typed
    return _study(name, told, size, settings)


def _table(told: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    found = told.get(name, {})
    if not isinstance(found, dict):
        raise DataError(f"{where}: [{name}] is no table of settings")
    return found


def _study(name: str, told: Mapping[str, Any], size: str, given: Mapping[str, Any]) -> Study:
    kind = plugins.find("measures", told["measure"])
    of_prompt, of_measure, of_quality = ({f.name: f for f in fields(one)} for one in (PromptSettings, kind, Quality))
    known = [*_OWN, *of_prompt, *of_measure, *of_quality]
    factors: dict[str, list[Any]] = {}
    for setting, value in given.items():
        if setting not in known:
            raise UnknownNameError("setting of a study", setting, known)
        values = value if isinstance(value, list) else [value]
        if not values:
            raise UsageError(f"setting '{setting}' has no value; give at least one")
        if setting in of_quality and len(values) > 1:
            raise UsageError(f"setting '{setting}' cannot be a factor; give one value")
        wanted = _OWN.get(setting) or _kind_of({**of_prompt, **of_measure, **of_quality}[setting])
        factors[setting] = [_checked(setting, one, wanted) for one in values]
    for setting in ("model", "dataset", "records"):
        if setting not in factors:
            raise UsageError(f"the study does not say '{setting}'; add it, or give --set {setting}=VALUE")
    x = told.get("x")
    if told["show"] == "factor" and x not in factors:
        raise UsageError(f"the study's x is '{x}'; it has to be one of its settings")
    quality = Quality(**{key: factors.pop(key)[0] for key in of_quality if key in factors})
    varying = [setting for setting, values in factors.items() if len(values) > 1 or setting == x]
    cells = []
    for number, choice in enumerate(itertools.product(*factors.values())):
        chosen = dict(zip(factors, choice, strict=True))
        dataset = named.find(chosen["dataset"])
        if chosen["records"] < 1:
            raise UsageError(f"records is {chosen['records']}; it has to be 1 or more")
        defaults = {
            "unit": "whole",
            "template": dataset.template,
            "truncate": True,
            "max_context_tokens": dataset.max_context_tokens,
        }
        cells.append(
            Cell(
                number=number,
                factors={setting: chosen[setting] for setting in varying},
                model=chosen["model"],
                dataset=chosen["dataset"],
                n_records=chosen["records"],
                choice_seed=chosen.get("choice_seed"),
                settings=PromptSettings(**{**defaults, **{k: v for k, v in chosen.items() if k in of_prompt}}),
                measure=kind(**{"seed": 0, **{k: v for k, v in chosen.items() if k in of_measure}}),
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
        cells=tuple(cells),
    )


def _kind_of(one: Field[Any]) -> type:
    """The type of a dataclass field, of its annotation's text: 'float | None' is a float."""
    name = str(one.type).split(" | ")[0]
    return {"int": int, "float": float, "bool": bool}.get(name, str)


def _checked(setting: str, value: Any, wanted: type) -> Any:
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        # 1 and 1.0 are one parameter, and have to give one run.
        return float(value)
    if wanted is str and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        raise UsageError(f"setting '{setting}' is {value!r}; it has to be {words[wanted]}")
    return value


def _typed(text: str) -> Any:
    """What is typed after --set, read as TOML reads a value; text where it is none."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, (int, float, bool, str)) else text
