"""Lists and records in the cells of tables, as Python, NumPy and pandas print them.

A frame's `to_csv` writes what `str` makes of a cell: a list of Python with commas, an array of NumPy without them, and
an array within either as a call of `array`. Of a long array NumPy prints the first and the last elements alone, and
what is missing is told, not guessed.
"""

from __future__ import annotations

import ast
import re
import tokenize
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from typing import Any, Final

from leakmeter.data.foreign import Unread, object_of, plain

_LONGEST: Final = 2_000_000
"""Characters; what Python parses takes a hundred times its length."""
_MOST_NESTED: Final = 64
_CLOSING: Final = {"[": "]", "(": ")", "{": "}"}
_MISSING: Final = ("None", "null", "nan", "NaN", "NaT", "NA")
_TRUTHS: Final = {"True": True, "False": False, "true": True, "false": False}
_INFINITE: Final = ("inf", "Infinity")
_OF_ONE_VALUE: Final = re.compile(
    r"(?:(?:np|numpy)\.(?:float|int|uint|str|bool|datetime|timedelta)\d*_?)|Decimal|UUID|Timestamp|Timedelta"
)
"""Scalars that print as a call with one value."""
_OPENS: Final = re.compile(r"\s*(?:[\[{]|array\()")
_OF_RECORDS: Final = re.compile(r"\s*(?:\[\s*\{\s*['\"]|\[\s*array\(|array\(\s*\[)")
"""How a list begins that is no sentence in brackets."""
_SERIES: Final = re.compile(r"\A(?:\S+ {2,}[^\n]*\n|\.\.\. *\n| *\n)")
_END_OF_SERIES: Final = re.compile(r"\n(?:Name: [^\n]*, )?(?:Length: \d+, )?dtype: [\w\[\]., ]+\Z")
_PANDAS_ARRAY: Final = re.compile(r"\A<\w*Array>\s*\[")
_ADVICE: Final = "write the table as JSON lines or Parquet, where a list stays one"


class _NotPrintedError(Exception):
    """What is no list or record that Python or NumPy prints."""


def printed(text: str) -> object:
    """The list or the record that a text is, as Python, NumPy or pandas prints it; the text itself where it is none.
    What was such a list and cannot be read any more is `Unread`.

    >>> printed("['Anna Ek called.' 'Soup at noon.']")
    ['Anna Ek called.', 'Soup at noon.']
    >>> printed("array([{'id': 'a'}, {'id': 'b'}], dtype=object)")
    [{'id': 'a'}, {'id': 'b'}]
    """
    if len(text) > _LONGEST:
        return text
    if not _OPENS.match(text):
        return _of_pandas(text)
    with (
        # A text may have what looks like an escape sequence and is none.
        warnings.catch_warnings(action="ignore"),
        suppress(_NotPrintedError, ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError),
    ):
        reader = _Reader(text)
        value = reader.value(0)
        if reader.is_at_end:
            is_one = reader.has_texts or not (reader.has_gaps or isinstance(value, Unread))
            return value if is_one else text
    if _OF_RECORDS.match(text) and text.rstrip().endswith(("]", ")")):
        return Unread("a list with a part that cannot be read", _ADVICE)
    return text


def _of_pandas(text: str) -> object:
    """A column or an array of pandas is printed with its texts cut."""
    stripped = text.strip()
    is_series = _SERIES.match(stripped) and _END_OF_SERIES.search(stripped[-400:])
    if is_series or _PANDAS_ARRAY.match(stripped):
        return Unread("a list that pandas shortened", _ADVICE)
    return text


class _Reader:
    """Reads values from the tokens of a text, each once, and no further than what may be such a value goes."""

    def __init__(self, text: str) -> None:
        self._all = self._tokens_of(text)
        self._ahead: deque[tokenize.TokenInfo] = deque()
        self.has_texts = False
        """Whether a text or a record was read."""
        self.has_gaps = False
        """Whether a list had no comma between two elements."""

    @staticmethod
    def _tokens_of(text: str) -> Iterator[tokenize.TokenInfo]:
        between = (tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER)
        for token in tokenize.generate_tokens(StringIO(text.strip()).readline):
            if token.type == tokenize.ERRORTOKEN:
                raise _NotPrintedError
            if token.type not in between:
                yield token

    def _peek(self, n: int = 0) -> str:
        """The text of the token that stands next, or `n` behind it; an empty one at the end."""
        while len(self._ahead) <= n:
            token = next(self._all, None)
            if token is None:
                return ""
            self._ahead.append(token)
        return self._ahead[n].string

    @property
    def is_at_end(self) -> bool:
        return not self._peek()

    @property
    def _next(self) -> str:
        return self._peek()

    def _take(self) -> tokenize.TokenInfo:
        if self.is_at_end:
            raise _NotPrintedError
        return self._ahead.popleft()

    def _expect(self, text: str) -> None:
        if self._take().string != text:
            raise _NotPrintedError

    def value(self, depth: int) -> Any:
        """The value that stands next."""
        if depth > _MOST_NESTED:
            raise _NotPrintedError
        token = self._take()
        if token.type == tokenize.STRING:
            self.has_texts = True
            return plain(ast.literal_eval(token.string), "")
        if token.type == tokenize.NUMBER:
            return ast.literal_eval(token.string)
        if token.type == tokenize.NAME:
            return self._named(token.string, depth)
        if token.string in ("-", "+"):
            return self._signed(token.string)
        if token.string == "[":
            return self._list("]", depth)
        if token.string == "(":
            return self._list(")", depth)
        if token.string == "{":
            return self._record(depth)
        if token.string == "<":
            # pandas prints a missing value so.
            self._expect("NA")
            self._expect(">")
            return None
        raise _NotPrintedError

    def _signed(self, sign: str) -> Any:
        token = self._take()
        if token.string in _INFINITE:
            return float(sign + token.string)
        if token.type != tokenize.NUMBER:
            raise _NotPrintedError
        number = ast.literal_eval(token.string)
        return -number if sign == "-" else number

    def _list(self, closing: str, depth: int) -> list[Any] | Unread:
        """Elements with commas between all of them, or between none, as NumPy prints them."""
        elements: list[Any] = []
        n_commas = n_gaps = 0
        was_cut = ended_by_comma = False
        while self._next != closing:
            if elements and not ended_by_comma:
                n_gaps += 1
            if self._next == "...":
                self._take()
                was_cut = True
                elements.append(None)
            else:
                elements.append(self.value(depth + 1))
            ended_by_comma = self._next == ","
            if ended_by_comma:
                self._take()
                n_commas += 1
        self._take()
        self.has_gaps |= n_gaps > 0
        if was_cut:
            return Unread("a list that NumPy shortened with '...'", _ADVICE)
        if n_commas and n_gaps:
            return Unread("a list in which a comma is missing between two elements", _ADVICE)
        return elements

    def _record(self, depth: int) -> dict[str, Any] | Unread:
        self.has_texts = True
        pairs: list[tuple[str, Any]] = []
        while self._next != "}":
            key = self.value(depth + 1)
            self._expect(":")
            if isinstance(key, list | dict | Unread):
                raise _NotPrintedError
            pairs.append((str(key), self.value(depth + 1)))
            if self._next == ",":
                self._take()
            elif self._next != "}":
                raise _NotPrintedError
        self._take()
        return object_of(pairs)

    def _named(self, name: str, depth: int) -> Any:
        while self._next == ".":
            self._take()
            name = f"{name}.{self._take().string}"
        if self._next == "(":
            return self._called(name, depth)
        if name in _MISSING:
            return None
        if name in _TRUTHS:
            return _TRUTHS[name]
        if name in _INFINITE:
            return float("inf")
        raise _NotPrintedError

    def _called(self, name: str, depth: int) -> Any:
        """An array is its elements, a scalar its value."""
        self._expect("(")
        arguments = self._arguments(depth)
        if name.rpartition(".")[2] == "array" and len(arguments) == 1:
            return arguments[0]
        if _OF_ONE_VALUE.fullmatch(name) and arguments:
            return arguments[0]
        if name.startswith("datetime."):
            return Unread("a time as Python prints it")
        raise _NotPrintedError

    def _arguments(self, depth: int) -> list[Any]:
        """Without those that have a name, such as an array's `dtype`."""
        out: list[Any] = []
        while self._next != ")":
            if self._peek(1) == "=":
                self._take()
                self._take()
                self._passed_over()
            else:
                out.append(self.value(depth + 1))
            if self._next == ",":
                self._take()
            elif self._next != ")":
                raise _NotPrintedError
        self._take()
        return out

    def _passed_over(self) -> None:
        """Up to the comma or the bracket behind an argument."""
        open_: list[str] = []
        while open_ or self._next not in (",", ")"):
            string = self._take().string
            if string in _CLOSING:
                open_.append(_CLOSING[string])
            elif open_ and string == open_[-1]:
                open_.pop()
