"""Fields of a text: what JSON objects and lists, Python literals, CSV and Markdown tables say, and where.

A tool's result, a row or a record may be a whole document, or stand within prose. A **stretch** is such a part of a
text; its **fields** are its values, each with the path that leads to it and the key that says what it is:

    USER DATA: {"name": "Anna Ek", "tests": [{"kind": "ferritin", "value": 612}]}

    name             Anna Ek
    tests[0].kind    ferritin
    tests[0].value   612

A string that holds JSON or a Python literal itself is taken apart too. What is cut off, or broken, is read as far as it
goes.
Texts are hostile: time and memory are linear in their length, whatever they nest, repeat or leave open.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, pairwise
from typing import Final, Literal

import regex

TextRange = tuple[int, int]
"""Characters [start, end)."""
FieldKind = Literal["text", "number", "boolean", "nothing"]

_DEEPEST: Final = 64
"""Levels of objects and lists; what is deeper is not read."""
_DEEPEST_TEXT: Final = 3
"""Levels of texts that hold a record themselves."""
_LONGEST_KEY: Final = 60
"""Characters of a key in a path."""
_LONGEST_PATH: Final = 160
_MOST_COLUMNS: Final = 200

_SPACE = re.compile(r"\s*+")
STRING: Final = re.compile(
    r"""[bBuUrR]{0,2}(?:"(?P<double>[^"\\]*+(?:\\.[^"\\]*+)*+)"|'(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*+)')""", re.DOTALL
)
QUOTE: Final = re.compile(r"""[bBuUrR]{0,2}(["'])""")
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*+(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?(?![\w.])")
_WORD = re.compile(r"(?:true|false|True|False)(?!\w)")
_NOTHING = re.compile(r"(?:null|None|NaN|nan|undefined|-?Infinity|-?inf)(?!\w)")
_CALL = re.compile(r"[A-Za-z_][\w.]{0,60}\([^()\n]{0,200}\)")
"""What Python writes of a date or a decimal number."""
_ESCAPE = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\n)|(.))""", re.DOTALL)
_WORDS_OF_KEY = regex.compile(r"\p{N}+|\p{Lu}?[\p{Ll}\p{M}]+|\p{Lu}+(?!\p{Ll})|[^\W\d_\p{Lu}\p{Ll}]+")
_OPENS = re.compile(r"[\[{]")
_CLOSING: Final = {"{": "}", "[": "]", "(": ")"}
_MEANT: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", **dict(zip("\"'\\/", "\"'\\/", strict=True))}
_NAME_OF_COLUMN = re.compile(r"[^\W\d_](?:[\w./%#()-]| (?! )){0,39}")
_BAR = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r":?-++:?")
_LONGEST_RULE: Final = 20_000
_LINE = re.compile(r"[^\n]*\n?")
_HOLDS = re.compile(r"\s*+[\[{]")


@dataclass(frozen=True, slots=True)
class Field:
    """A value of a record, and the key that says what it is."""

    path: str
    """Keys that lead to it: 'patient.diagnosis', 'flights[0].price'."""
    key: str
    """The last name of the path: of an element of a list the list's; empty where there is none."""
    text: str
    """The value as it is meant: without quotes, and with escaped characters as what they stand for."""
    kind: FieldKind
    value: TextRange
    """Characters of the value, without quotes; empty where the value is."""
    pair: TextRange
    """Characters that go when the field is removed: key, value and the comma behind; of a cell its value."""

    def shifted(self, n_characters: int) -> Field:
        start, end = self.value
        first, last = self.pair
        return replace(
            self, value=(start + n_characters, end + n_characters), pair=(first + n_characters, last + n_characters)
        )


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a text that has fields."""

    start: int
    end: int
    fields: tuple[Field, ...]
    """In order; no two share a character of their pairs."""
    is_table: bool = False
    """Whether line breaks part its rows."""


def fields_of(context: str, documents: Collection[TextRange] = ()) -> list[Field]:
    """Every field of a context, in order, none of prose; without documents of the whole as one."""
    return [
        field.shifted(start)
        for start, end in documents or [(0, len(context))]
        for stretch in stretches(context[start:end])
        for field in stretch.fields
    ]


@lru_cache(maxsize=16)
def stretches(text: str) -> tuple[Stretch, ...]:
    """The parts of a text that have fields, in order, none overlapping; none in prose."""
    found: list[Stretch] = []
    at = 0
    for literal in _literals(text):
        found += _tables(text, at, literal.start)
        found.append(literal)
        at = literal.end
    found += _tables(text, at, len(text))
    return tuple(_numbered(text, found))


def parts_of(key: str) -> list[str]:
    """The words of a key: of 'creditScore', 'credit_score' and 'Credit score' the same, but for case."""
    return [match.group() for match in _WORDS_OF_KEY.finditer(key)]


def _numbered(text: str, found: Sequence[Stretch]) -> Iterator[Stretch]:
    """JSON Lines are rows: '[0].name', '[1].name'."""
    run: list[Stretch] = []
    for stretch, after in zip(found, [*found[1:], None], strict=False):
        run.append(stretch)
        are_rows = after is not None and text[stretch.start] == text[after.start] == "{"
        if after is not None and are_rows and not text[stretch.end : after.start].strip(", \t\r\n"):
            continue
        for number, row in enumerate(run):
            paths = [_path(f"[{number}]" if len(run) > 1 else "", field.path) for field in row.fields]
            yield replace(
                row, fields=tuple(replace(field, path=path) for field, path in zip(row.fields, paths, strict=True))
            )
        run = []


def _path(before: str, key: str) -> str:
    """A path and what comes behind it; of a long one its end."""
    path = f"{before}{key}" if key.startswith("[") or not before or not key else f"{before}.{key}"
    return path if len(path) <= _LONGEST_PATH else f"…{path[1 - _LONGEST_PATH :]}"


# ------------------------------------------------------------------------------------------- JSON and Python literals


def literals(text: str) -> Iterator[TextRange]:
    """Characters of the objects and lists of a text that have strings."""
    for start, outcome in _outcomes(text):
        if outcome.is_record or (outcome.is_whole and outcome.n_quoted):
            yield start, outcome.end


def _literals(text: str) -> Iterator[Stretch]:
    for start, outcome in _outcomes(text):
        if outcome.is_record or (outcome.is_whole and _is_all(text, start, outcome.end)):
            yield Stretch(start, outcome.end, tuple(outcome.fields))


def _outcomes(text: str) -> Iterator[tuple[int, _Outcome]]:
    """What objects and lists have fields, each with where it begins."""
    reader = _Reader(text)
    at = 0
    while opening := _OPENS.search(text, at):
        at = opening.start()
        outcome = reader.read(at)
        if outcome.fields:
            yield at, outcome
        # What could not be read may stand before a record; it is not read twice.
        at = max(outcome.end, at + 1)


def _is_all(text: str, start: int, end: int) -> bool:
    return not text[:start].strip() and not text[end:].strip()


@dataclass(slots=True)
class _Level:
    """An object or a list that is open."""

    closing: str
    path: str
    key: str
    """Of its elements."""
    n: int = 0
    """Elements so far."""


@dataclass(slots=True)
class _Outcome:
    end: int
    """Where reading ended, or could not go on."""
    fields: list[Field]
    n_pairs: int
    n_quoted: int
    is_whole: bool
    """Whether what opened was closed."""

    @property
    def is_record(self) -> bool:
        """Whether it is a record wherever it stands: '[1, 2]' within prose is none, nor is '{name}'."""
        return self.n_pairs > 0 or (self.is_whole and self.n_quoted > 1 and self.n_quoted == len(self.fields))


class _Reader:
    """Reads objects, lists and tuples of a text as JSON or Python writes them."""

    def __init__(self, text: str, depth: int = 0) -> None:
        self._text = text
        self._depth = depth
        self._unclosed = dict.fromkeys("\"'", len(text))
        """Behind which place no such quote closes."""

    def read(self, start: int) -> _Outcome:
        """What begins at a bracket, as far as it can be read."""
        text = self._text
        levels = [_Level(_CLOSING[text[start]], "", "")]
        out = _Outcome(start + 1, [], 0, 0, is_whole=False)
        while levels:
            level = levels[-1]
            at = self._skip(out.end)
            out.end = at
            if at >= len(text):
                return out
            if text[at] == level.closing:
                levels.pop()
                out.end = at + 1
                if levels:
                    out.end = self._comma(out.end, levels[-1].closing)
                    if out.end < 0:
                        out.end = at + 1
                        return out
                continue
            begin = at
            key: str | None = None
            if level.closing == "}" and (named := self._key(at)) is not None:
                key, at = named
            element = f"[{level.n}]" if level.closing != "}" or key is None else ""
            level.n += 1
            path = _path(level.path, element if key is None else _short(key))
            name = level.key if key is None else key
            if at < len(text) and text[at] in _CLOSING:
                if len(levels) >= _DEEPEST:
                    out.end = begin
                    return out
                inner = self._skip(at + 1)
                if inner < len(text) and text[inner] == _CLOSING[text[at]]:
                    end = self._comma(inner + 1, level.closing)
                    out.fields.append(Field(path, name, "", "nothing", (inner, inner), (begin, max(end, inner + 1))))
                    out.n_pairs += key is not None
                    out.end = max(end, inner + 1)
                    if end < 0:
                        return out
                    continue
                levels.append(_Level(_CLOSING[text[at]], path, name))
                out.n_pairs += key is not None
                out.end = at + 1
                continue
            scalar = self._scalar(at)
            if scalar is None:
                out.end = begin
                if key is not None or level.closing != "}":
                    self._cut(out, begin, at, path, name, is_pair=key is not None)
                return out
            value, end, kind, is_quoted = scalar
            out.n_pairs += key is not None
            out.n_quoted += is_quoted
            after = self._comma(end, level.closing)
            fields = self._within(path, name, value, is_quoted=is_quoted)
            if not fields:
                fields = [
                    Field(path, name, self._meant(value, is_quoted=is_quoted), kind, value, (begin, max(after, end)))
                ]
            out.fields += fields
            out.end = max(after, end)
            if after < 0:
                return out
        out.is_whole = True
        return out

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        assert match is not None
        return match.end()

    def _comma(self, at: int, closing: str) -> int:
        """Behind the comma that follows, or where nothing but the closing bracket or the end does; -1 elsewhere."""
        text = self._text
        behind = self._skip(at)
        if behind >= len(text) or text[behind] == closing:
            return at
        return behind + 1 if text[behind] == "," else -1

    def _string(self, at: int) -> re.Match[str] | None:
        quote = QUOTE.match(self._text, at)
        if quote is None or quote.end() > self._unclosed[quote[1]]:
            return None
        match = STRING.match(self._text, at)
        if match is None:
            self._unclosed[quote[1]] = min(self._unclosed[quote[1]], quote.end() - 1)
        return match

    def _key(self, at: int) -> tuple[str, int] | None:
        """A key, and where its value begins."""
        match = self._string(at)
        if match is None:
            number = _NUMBER.match(self._text, at)
            if number is None:
                return None
            key, end = number.group(), number.end()
        else:
            span = match.span("double" if match["double"] is not None else "single")
            key, end = self._meant(span, is_quoted=True), match.end()
        colon = self._skip(end)
        if colon >= len(self._text) or self._text[colon] != ":":
            return None
        return key, self._skip(colon + 1)

    def _scalar(self, at: int) -> tuple[TextRange, int, FieldKind, bool] | None:
        """Characters of a value, where it ends, what it is, and whether it is quoted."""
        match = self._string(at)
        if match is not None:
            span = match.span("double" if match["double"] is not None else "single")
            return span, match.end(), "text" if span[0] < span[1] else "nothing", True
        kinds: tuple[tuple[re.Pattern[str], FieldKind], ...] = (
            (_NUMBER, "number"),
            (_WORD, "boolean"),
            (_NOTHING, "nothing"),
            (_CALL, "text"),
        )
        for pattern, kind in kinds:
            if found := pattern.match(self._text, at):
                return found.span(), found.end(), kind, False
        return None

    def _cut(self, out: _Outcome, begin: int, at: int, path: str, key: str, *, is_pair: bool) -> None:
        """A value that the end of the text cuts off."""
        text = self._text
        quote = QUOTE.match(text, at)
        if quote is None or quote.end() >= len(text) or text.find("\n", at) >= 0:
            return
        value = (quote.end(), len(text))
        out.fields.append(Field(path, key, self._meant(value, is_quoted=True), "text", value, (begin, len(text))))
        out.n_pairs += is_pair
        out.end = len(text)

    def _meant(self, value: TextRange, *, is_quoted: bool) -> str:
        raw = self._text[slice(*value)]
        return "".join(part for part, _ in parts_meant(raw)) if is_quoted and "\\" in raw else raw

    def _within(self, path: str, key: str, value: TextRange, *, is_quoted: bool) -> list[Field]:
        """Fields of a record that a text holds."""
        if not is_quoted or self._depth >= _DEEPEST_TEXT or not _HOLDS.match(self._text, *value):
            return []
        raw = self._text[slice(*value)]
        parts = list(parts_meant(raw)) if "\\" in raw else []
        meant = "".join(part for part, _ in parts) if parts else raw
        start = self._skip_in(meant)
        outcome = _Reader(meant, self._depth + 1).read(start)
        if not outcome.fields or not outcome.is_whole or meant[outcome.end :].strip():
            return []
        # Where each character of what is meant begins among those that are written.
        places = [at for part, at in parts for at in range(at, at + len(part))] if parts else list(range(len(raw)))
        places.append(len(raw))
        return [
            replace(
                field,
                path=_path(path, field.path),
                key=field.key or key,
                value=_among(places, field.value, value[0]),
                pair=_among(places, field.pair, value[0]),
            )
            for field in outcome.fields
        ]

    @staticmethod
    def _skip_in(text: str) -> int:
        return len(text) - len(text.lstrip())


def _among(places: Sequence[int], chars: TextRange, start: int) -> TextRange:
    return places[chars[0]] + start, places[chars[1]] + start


def parts_meant(raw: str) -> Iterator[tuple[str, int]]:
    """Parts of a text within quotes as they are meant, and where each begins."""
    at = 0
    pair: tuple[int, int] | None = None
    for match in _ESCAPE.finditer(raw):
        if at < match.start():
            yield raw[at : match.start()], at
            pair = None
        at = match.end()
        code = match[1] or match[2]
        if code is None:
            # Python keeps the backslash before what means nothing, as models do in 'C:\\Tobias'.
            meant = "" if match[3] else _MEANT.get(match[4], match.group())
            yield meant, match.start()
            continue
        number = int(code, 16)
        # Half a pair means nothing by itself, and cannot be written.
        if 0xD800 <= number < 0xDC00:
            pair = (number, match.start())
        elif 0xDC00 <= number < 0xE000:
            if pair is not None:
                yield chr(0x10000 + ((pair[0] - 0xD800) << 10) + number - 0xDC00), pair[1]
            pair = None
        else:
            yield chr(number), match.start()
    if at < len(raw):
        yield raw[at:], at


def _short(key: str) -> str:
    """A key in a path: in one line, and of a long one the beginning."""
    key = " ".join(key[: 2 * _LONGEST_KEY].split()) or '""'
    return key if len(key) <= _LONGEST_KEY else f"{key[: _LONGEST_KEY - 1]}…"


# -------------------------------------------------------------------------------------------------------------- tables


@dataclass(frozen=True, slots=True)
class _Row:
    start: int
    end: int
    """Without the line break."""
    cells: tuple[TextRange, ...]


def _tables(text: str, start: int, end: int) -> Iterator[Stretch]:
    """CSV and Markdown tables in a part of a text."""
    lines = [match.span() for match in _LINE.finditer(text, start, end) if match.end() > match.start()]
    lines = [(a, b - (text[b - 1] == "\n") - (text[max(b - 2, a) : b] == "\r\n")) for a, b in lines]
    if start and lines and text[start - 1] != "\n":
        # A record ends within this line.
        lines = lines[1:]
    if end < len(text) and lines and lines[-1][1] == end:
        lines = lines[:-1]
    is_all = start == 0 and end == len(text)
    number = 0
    while number + 1 < len(lines):
        rows = _markdown(text, lines, number) or _separated(text, lines, number, is_all=is_all)
        if not rows:
            number += 1
            continue
        names = [_cell(text, cell)[0] for cell in rows[0].cells]
        yield Stretch(rows[0].start, rows[-1].end, tuple(_cells(text, names, rows[1:])), is_table=True)
        while number < len(lines) and lines[number][0] <= rows[-1].start:
            number += 1


def _cells(text: str, names: Sequence[str], rows: Sequence[_Row]) -> Iterator[Field]:
    for number, row in enumerate(rows):
        for name, cell in zip(names, row.cells, strict=False):
            value, inner = _cell(text, cell)
            if inner[0] < inner[1]:
                path = _path(f"[{number}]" if len(rows) > 1 else "", _short(name))
                yield Field(path, name, value, _kind_of(value), inner, inner)


def _cell(text: str, cell: TextRange) -> tuple[str, TextRange]:
    """What a cell says, and its characters, without the space and the quotes around it."""
    start, end = cell
    inner = text[start:end]
    start, end = start + len(inner) - len(inner.lstrip()), end - (len(inner) - len(inner.rstrip()))
    if end - start >= 2 and text[start] == text[end - 1] == '"':
        return text[start + 1 : end - 1].replace('""', '"'), (start + 1, end - 1)
    return text[start:end], (start, max(start, end))


def _kind_of(text: str) -> FieldKind:
    if _NUMBER.fullmatch(text):
        return "number"
    if _WORD.fullmatch(text):
        return "boolean"
    return "nothing" if not text or _NOTHING.fullmatch(text) else "text"


def _markdown(text: str, lines: Sequence[TextRange], first: int) -> list[_Row]:
    start, end = lines[first + 1]
    if end - start > _LONGEST_RULE or text.find("|", *lines[first]) < 0 or text.find("|", start, end) < 0:
        return []
    rule, head = _piped(text, start, end), _piped(text, *lines[first])
    if not rule.cells or not head.cells or not all(_RULE.fullmatch(text[a:b].strip()) for a, b in rule.cells):
        return []
    rows = [head]
    for number in range(first + 2, len(lines)):
        line = lines[number]
        if text.find("|", *line) < 0:
            break
        rows.append(_piped(text, *line))
    return rows if len(rows) > 1 else []


def _piped(text: str, start: int, end: int) -> _Row:
    bars = (match.start() for match in _BAR.finditer(text, start, end))
    cells = [(a + 1, b) for a, b in pairwise([start - 1, *islice(bars, _MOST_COLUMNS + 1), end])]
    if cells and not text[slice(*cells[0])].strip():
        cells = cells[1:]
    if cells and not text[slice(*cells[-1])].strip():
        cells = cells[:-1]
    return _Row(start, end, tuple(cells[:_MOST_COLUMNS]))


def _separated(text: str, lines: Sequence[TextRange], first: int, *, is_all: bool) -> list[_Row]:
    """A header of names, and rows of as many cells: of prose with commas there is hardly ever one."""
    line = text[slice(*lines[first])]
    sign = next((sign for sign in "\t;," if sign in line), None)
    if sign is None:
        return []
    names = [_cell(text, cell)[0] for cell in _cut_at(text, *lines[first], sign)]
    n = len(names)
    has_names = 1 < n <= _MOST_COLUMNS and all(map(_NAME_OF_COLUMN.fullmatch, names)) and len({*names}) == n
    if not has_names or (sign != "\t" and f"{sign} " in line):
        return []
    rows = [_Row(*lines[first], tuple(_cut_at(text, *lines[first], sign)))]
    for number in range(first + 1, len(lines)):
        start, end = lines[number]
        cells = _cut_at(text, start, end, sign)
        if len(cells) != n:
            break
        rows.append(_Row(start, end, tuple(cells)))
    if len(rows) > 2 or (len(rows) == 2 and n > 2):
        return rows
    # Two lines with a comma each may be prose, unless the text is nothing else.
    is_alone = is_all and first == 0 and not any(text[a:b].strip() for a, b in lines[len(rows) :])
    is_prose = len(rows) == 2 and f"{sign} " in text[rows[1].start : rows[1].end]
    return rows if len(rows) == 2 and is_alone and not is_prose else []


def _cut_at(text: str, start: int, end: int, sign: str) -> list[TextRange]:
    """Cells of a line; a sign within quotes parts none."""
    cells: list[TextRange] = []
    at = start
    while at <= end and len(cells) <= _MOST_COLUMNS:
        stop = at
        if text.startswith('"', at, end) and (closed := _QUOTED.match(text, at, end)):
            stop = closed.end()
        stop = text.find(sign, stop, end)
        stop = end if stop < 0 else stop
        cells.append((at, stop))
        at = stop + 1
    return cells


_QUOTED = re.compile(r'"[^"]*+(?:""[^"]*+)*+"')
