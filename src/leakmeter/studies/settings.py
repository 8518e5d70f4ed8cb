"""Settings as they are written, in a study's file or behind `--set`, to the values that factors have."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from typing import Any

from leakmeter.errors import DataError, UnknownNameError, UsageError


def replicated(given: Mapping[str, Any], setting: str) -> Mapping[str, Any]:
    """Settings with as many seeds as `replicates` says, from the one that is set.

    Raises:
        UsageError: a number that cannot be had, or several seeds already.
    """
    n = given.get("replicates", 1)
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise UsageError(f"setting 'replicates' is {n!r}; it has to be a whole number of 1 or more")
    settings = {name: value for name, value in given.items() if name != "replicates"}
    if n == 1:
        return settings
    first = settings.get(setting, 0)
    if not isinstance(first, int):
        raise UsageError(f"setting '{setting}' has values, and replicates are {n}; give one seed, or no replicates")
    return {**settings, setting: list(range(first, first + n))}


def listed(cells: Any, known: Mapping[str, str], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Settings of cells that are written one by one, checked; a single empty one where they are a grid.

    Raises:
        DataError: no list of tables with the same settings.
        UnknownNameError: no such setting.
        UsageError: a value that a setting cannot have, or one that is set elsewhere too.
    """
    if not isinstance(cells, list) or not cells or not all(isinstance(cell, dict) for cell in cells):
        raise DataError("'cells' of the study are no list of tables; write [[laptop.cells]] before each")
    for number, cell in enumerate(cells, 1):
        if cell.keys() != cells[0].keys():
            raise DataError(f"cell {number} of the study has other settings than the first; give each the same ones")
        for setting, value in cell.items():
            if setting not in known:
                raise UnknownNameError("setting of a study", setting, known)
            if setting in given or isinstance(value, list):
                raise UsageError(
                    f"setting '{setting}' of cell {number} has to have one value there, and none elsewhere"
                )
    return [{name: _checked(name, value, known[name]) for name, value in cell.items()} for cell in cells]


def factors_of(given: Mapping[str, Any], known: Mapping[str, str], fixed: Collection[str]) -> dict[str, list[Any]]:
    """The values of each setting, checked; `fixed` ones have one.

    Raises:
        UnknownNameError: no such setting.
        UsageError: a value that a setting cannot have.
    """
    factors: dict[str, list[Any]] = {}
    for setting, value in given.items():
        if setting not in known:
            raise UnknownNameError("setting of a study", setting, known)
        values = value if isinstance(value, list) else [value]
        if not values:
            raise UsageError(f"setting '{setting}' has no value; give at least one")
        if setting in fixed and len(values) > 1:
            raise UsageError(f"setting '{setting}' cannot be a factor; give one value")
        factors[setting] = [_checked(setting, one, known[setting]) for one in values]
    return factors


def _checked(setting: str, value: Any, annotation: str) -> Any:
    if meant(value, annotation) is None:
        return value
    # 'float | None' is a float, and what is no number is text.
    wanted = {"int": int, "float": float, "bool": bool}.get(annotation.split(" | ")[0], str)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        # 1 and 1.0 are one parameter, and have to give one run.
        return float(value)
    if wanted is str and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        raise UsageError(f"setting '{setting}' is {value!r}; it has to be {words[wanted]}")
    return value


def meant(value: Any, annotation: str) -> Any:
    """A value as a dataclass takes it: TOML has no word for no value, and a list of values is a factor."""
    if annotation.startswith("tuple[") and isinstance(value, str):
        parts = () if value == "none" else tuple(part.strip() for part in value.split(",") if part.strip())
        return tuple(map(_whole, parts)) if annotation.startswith("tuple[int") else parts
    return None if value == "none" and annotation.endswith(" | None") else value


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"'{text}' is no whole number; expected some, parted by commas") from None


def typed(text: str) -> Any:
    """What is typed after --set, read as TOML reads a value; text where it is none."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, (int, float, bool, str)) else text
