"""Other people's names of fields: paths such as `docs[].page_content`, and the one that was probably meant; and the
texts that they hold, checked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from leakmeter.core.plain import half_pair, n_listed
from leakmeter.data.foreign import Unread, parsed
from leakmeter.data.printed import printed
from leakmeter.errors import DataError, UsageError

_KINDS = {type(None): "null", str: "a text", bool: "a truth value", int: "a number", float: "a number", list: "a list"}


def kind_of(value: object) -> str:
    """What a JSON value is that is no text."""
    return value.kind if isinstance(value, Unread) else _KINDS.get(type(value), "an object")


def checked_text(value: object, field: str, where: str) -> str:
    """A JSON value that has to be text that can be written as UTF-8."""
    if not isinstance(value, str):
        kind = kind_of(value)
        advice = f"; {value.advice}" if isinstance(value, Unread) and value.advice else ""
        raise DataError(f"{where}: '{field}' is {kind}, expected text{advice}")
    if (at := half_pair(value)) is not None:
        raise DataError(f"{where}: '{field}' holds half a surrogate pair at character {at}")
    return value


def parsed_json(content: str | bytes, where: str) -> Any:
    """What JSON says, one value on one line or several; of bytes in UTF-8."""
    try:
        text = content if isinstance(content, str) else content.decode()
        return json.loads(text, object_pairs_hook=partial(_of_distinct_names, where))
    except UnicodeDecodeError as error:
        raise DataError(f"{where} is not UTF-8 at byte {error.start + 1:,}") from None
    except json.JSONDecodeError as error:
        at = f"character {error.colno:,}" + (f" of line {error.lineno:,}" if "\n" in text.rstrip() else "")
        raise DataError(f"{where} is not JSON: {error.msg} at {at}") from None
    except (RecursionError, ValueError):
        raise DataError(f"{where} is JSON nested too deep, or with a number too long, to be read") from None


def _of_distinct_names(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; of two values under one name, a reader would see only the last."""
    held = dict(pairs)
    if len(held) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise DataError(f"{where}: an object has {listed([twice])} twice; give each value a name of its own")
    return held


def unused(name: str, names: Collection[str]) -> str:
    """The name, numbered if it is taken."""
    out, number = name, 2
    while out in names:
        out, number = f"{name} ({number})", number + 1
    return out


class Names:
    """Names that are given out, each once; in constant time, however often one is asked for."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def own(self, name: str) -> str:
        """The name, numbered if it is taken, and taken from now on."""
        number = self._numbers.get(name, 1)
        out = name if number == 1 else f"{name} ({number})"
        while out in self._taken:
            number += 1
            out = f"{name} ({number})"
        self._numbers[name] = number + 1 if number > 1 else 2
        self._taken.add(out)
        return out


Fields = Mapping[str, object]
"""A record: values by the names of their fields, as a file or the hub has them."""


@dataclass(frozen=True, slots=True)
class Selected:
    """Of a list the elements that have this value under this key."""

    key: str
    value: str


Step = str | int | Selected | None
"""A name, a number of an element, a choice of elements, and None for each element."""
_STEP = re.compile(r"(?P<name>[^.\[\]]+)|\[(?P<index>(?:-?\d{1,9})?)\]|\[(?P<key>[^.\[\]=]+)=(?P<value>[^\[\]=]+)\]")
_MOST_LISTED = 20
_WHOLE = re.compile(r"(-?[0-9]{1,17})\.0")


def pairs_of(mapping: str | Iterable[str] | Mapping[str, str] | None) -> list[tuple[str, str]]:
    """Fields and paths of `--map`: 'query=question,context=docs[].text', several such texts, or a dict of the same."""
    if mapping is None:
        return []
    if isinstance(mapping, Mapping):
        return [(str(field), str(path)) for field, path in mapping.items()]
    texts = [mapping] if isinstance(mapping, str) else mapping
    words = [word.strip() for text in texts for word in text.split(",") if word.strip()]
    if lone := next((word for word in words if "=" not in word), None):
        raise UsageError(f"--map: {lone[:60]!r} is not FIELD=PATH; as in --map query=question,context=docs[].text")
    return [(word.partition("=")[0].strip(), word.partition("=")[2].strip()) for word in words]


def mapping_of(
    mapping: str | Iterable[str] | Mapping[str, str] | None, known: Collection[str] | None = None
) -> dict[str, str]:
    """Each field's path in the data (see `pairs_of`); an empty path for a field to leave out. `known` is None where
    there may be any field."""
    return checked_pairs(pairs_of(mapping), known)


def checked_pairs(pairs: Iterable[tuple[str, str]], known: Collection[str] | None = None) -> dict[str, str]:
    out: dict[str, str] = {}
    for field, path in pairs:
        if known is not None and field not in known:
            guess = nearest(field, known)
            hint = f"; did you mean '{guess}'?" if guess else ";"
            raise UsageError(f"--map: there is no field '{field}'{hint} known: {', '.join(known)}")
        if field in out:
            each = "; measure each in a run of its own" if field == "response" else ""
            raise UsageError(f"--map: field '{field}' is given twice{each}")
        if path:
            steps_of(path)
        out[field] = path
    return out


def value_at(fields: Fields, path: str, where: str) -> object:
    """What stands at a path: names with dots between them, `[]` for each of a list, `[0]` for one of it,
    `[type=text]` for those with this value under this key. A name that the record has as it is written, dots and all,
    comes first. Where a cell of a table holds a list or an object as text, it is read."""
    if path in fields:
        return fields[path]
    return _follow(fields, steps_of(path), path, where)


def mapped(fields: Fields, mapping: Mapping[str, str], where: str) -> dict[str, object]:
    """The record with fields by the names that leakmeter knows; all others stay."""
    out = dict(fields)
    for field, path in mapping.items():
        out.pop(field, None)
        # What moved is not there under its old name too, unless that is another field's.
        if path and path not in mapping:
            out.pop(path, None)
    return out | {field: value_at(fields, path, where) for field, path in mapping.items() if path}


def renamed(names: Collection[str], wanted: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Fields that are there under another of their names: wanted name to the one that stands there, without regard to
    case, spaces, hyphens and underscores."""
    spelled = {_letters(name): name for name in reversed(list(names))}
    out: dict[str, str] = {}
    for field, aliases in wanted.items():
        if field not in names:
            spelling = next((spelled[key] for key in map(_letters, (field, *aliases)) if key in spelled), None)
            if spelling is not None and spelling not in wanted:
                out[field] = spelling
    return out


def nearest(name: str, known: Collection[str], *, at_least: float = 60.0) -> str | None:
    """The known name that is spelled most alike, if one is near: `at_least` is a share of letters, in per cent."""
    from rapidfuzz import fuzz, process

    best = process.extractOne(name, known, scorer=fuzz.ratio, processor=_letters, score_cutoff=at_least)
    return None if best is None else str(best[0])


def suggested(names: Collection[str], missing: Iterable[str], wanted: Mapping[str, Sequence[str]]) -> str | None:
    """A `--map` that gives what is missing, as far as some field's name is near."""
    free = [name for name in names if name not in wanted and is_name(name)]
    pairs: list[str] = []
    for field in missing:
        spellings = (field, *wanted.get(field, ()))
        column = renamed(free, {field: spellings}).get(field)
        column = column or next((near for word in spellings if (near := _suggestion(word, free)) is not None), None)
        if column is not None:
            free.remove(column)
            pairs.append(f"{field}={column}")
    return f"--map {','.join(pairs)}" if pairs else None


def _suggestion(word: str, names: Collection[str]) -> str | None:
    near = nearest(word, names)
    if near is None or _letters(word) in _letters(near):
        return near
    return nearest(word, [near], at_least=75.0)


def listed(names: Iterable[object]) -> str:
    """Names of fields for an error; those of a table without a heading are texts, which are not repeated."""
    shown = [str(name) for name in names]
    if not all(map(is_name, shown)):
        return "names that are texts, perhaps because the table has no heading"
    n = n_listed(len(shown), _MOST_LISTED)
    more = f" and {len(shown) - n} more" if len(shown) > n else ""
    return (", ".join(f"'{name}'" for name in shown[:n]) or "nothing") + more


def is_name(text: str) -> bool:
    """Whether this may be the name of a field, rather than a text."""
    return 0 < len(text) <= 40 and text.count(" ") <= 3 and text.isprintable()


def parsed_cell(value: object) -> object:
    """A list or an object that a table holds as text, in JSON or as Python and its libraries print it; anything else as
    it is."""
    if not isinstance(value, str):
        return value
    held = parsed(value) if value.lstrip()[:1] in ("[", "{") else value
    held = printed(value) if held is value else held
    return held if isinstance(held, list | dict | Unread) else value


def whole_id(value: object, *, is_table: bool) -> object:
    """An id as a whole number, where pandas made a float of it: of a column with an empty cell it makes all of them
    such, and a table of text has '7.0' then. Anything else as it is."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if is_table and isinstance(value, str) and (match := _WHOLE.fullmatch(value.strip())):
        return match[1]
    return value


def parsed_list(value: object) -> object:
    """A list that a table holds as text; anything else as it is, an object too."""
    cell = parsed_cell(value)
    return cell if isinstance(cell, list | Unread) else value


def steps_of(path: str) -> list[Step]:
    """The steps of a path; `UsageError` of what is none."""
    out: list[Step] = []
    cursor = 0
    for match in _STEP.finditer(path):
        between = path[cursor : match.start()]
        if between != ("." if match["name"] is not None and out else ""):
            break
        cursor = match.end()
        if match["name"] is not None:
            out.append(match["name"])
        elif match["key"] is not None:
            out.append(Selected(match["key"], match["value"]))
        else:
            out.append(int(match["index"]) if match["index"] else None)
    if cursor != len(path) or not out:
        raise UsageError(
            f"--map: {path[:60]!r} is not a path; write it as in question, item.answer, docs[].text, choices[0].text "
            "or content[type=text].text"
        )
    return out


def _follow(value: Any, steps: Sequence[Step], path: str, where: str) -> Any:
    for number, step in enumerate(steps):
        value = parsed_cell(value)
        rest = steps[number + 1 :]
        if step is None or isinstance(step, Selected):
            if not isinstance(value, list):
                shown = "[]" if step is None else f"[{step.key}={step.value}]"
                raise DataError(f"{where}: --map {path}: the part before '{shown}' is not a list")
            if isinstance(step, Selected):
                value = _selected(value, step, path, where)
                if rest and isinstance(rest[0], int):
                    continue
            results = [_follow(element, rest, path, where) for element in value]
            is_flat = any(inner is None or isinstance(inner, Selected) for inner in rest)
            is_of_lists = bool(rest) and bool(results) and all(isinstance(inner, list) for inner in results)
            return [element for inner in results for element in inner] if is_flat or is_of_lists else results
        if isinstance(step, int):
            if not isinstance(value, list) or not -len(value) <= step < len(value):
                raise DataError(f"{where}: --map {path}: there is no list with an element [{step}]")
            value = value[step]
            continue
        if not isinstance(value, Mapping):
            raise DataError(f"{where}: --map {path}: the parent of '{step}' is not an object")
        if step not in value:
            names = [str(name) for name in value]
            near = nearest(step, [name for name in names if is_name(name)])
            hint = f"; did you mean '{near}'?" if near else ""
            raise DataError(f"{where}: --map {path}: there is no '{step}'{hint}; there is {listed(names)}")
        value = value[step]
    return value


def _selected(value: Sequence[Any], step: Selected, path: str, where: str) -> list[Any]:
    chosen = [held for held in value if isinstance(held, Mapping) and str(held.get(step.key)) == step.value]
    if not chosen:
        kinds = dict.fromkeys(
            kind for held in value if isinstance(held, Mapping) and isinstance(kind := held.get(step.key), str)
        )
        there = f"; there is {listed(kinds)}" if kinds else ""
        raise DataError(f"{where}: --map {path}: no element has the {step.key} '{step.value}'{there}")
    return chosen


def _letters(name: str) -> str:
    return re.sub(r"[\s_\-]+", "", name.casefold())
