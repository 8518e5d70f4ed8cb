"""A model's chat template, rendered within bounds: it is a program of whoever made the model.

The transformers library renders it in a sandbox, from which it cannot reach files or the network, but in which it may
loop for days and build texts of any size. Here it has the same sandbox, with the same filters and functions, and ends
in `TooMuchError` where it takes too long or makes too much.
"""

from __future__ import annotations

import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, wraps
from types import FrameType
from typing import Any, Final

from jinja2 import Template
from jinja2.sandbox import ImmutableSandboxedEnvironment

from leakmeter.overriding import override

SECONDS_AT_MOST: Final = 20.0
MOST_CHARACTERS: Final = 2**26
"""Of a prompt, and of each text that is made on the way."""
_MOST_ITEMS: Final = 2**22
"""Of a list that is made on the way."""
_MOST_NUMBER: Final = 10**6
"""Largest number that a function, a filter or a format is given: it may be a width."""
_MOST_BITS: Final = 4096
_MOST_FILLED: Final = 1000
"""Characters that a filter may put into each line or element of a text."""
_WIDTH: Final = re.compile(r"\d{6,}|\*")
_FILLING: Final = frozenset(("indent", "wordwrap", "urlize", "xmlattr", "tojson", "translate"))


class TooMuchError(Exception):
    """A template takes too long or makes too much; says which."""


def rendered(tokenizer: Any, messages: Sequence[Mapping[str, Any]], *, answer: bool) -> str:
    """Messages as a prompt, by the chat template of a tokenizer of the transformers library.

    Raises:
        jinja2.TemplateError: it is no template, or refuses them.
        TooMuchError: see above.
    """
    template = _compiled(tokenizer.get_chat_template())
    asked = [dict(message) for message in messages]
    names = {"messages": asked, "tools": None, "documents": None, "add_generation_prompt": answer}
    parts, n = [], 0
    with _timed(template):
        for part in template.generate({**names, **tokenizer.special_tokens_map}):
            n += len(part)
            _check_characters(n)
            parts.append(part)
    return "".join(parts)


@lru_cache(maxsize=32)
def _compiled(source: str) -> Template:
    from transformers.utils.chat_template_utils import _compile_jinja_template

    library = _compile_jinja_template("").environment
    bounded = _Bounded(
        trim_blocks=library.trim_blocks,
        lstrip_blocks=library.lstrip_blocks,
        extensions=[type(extension) for extension in library.extensions.values()],
    )
    bounded.filters.update({name: _within_bounds(name, held) for name, held in library.filters.items()})
    bounded.globals.update(library.globals)
    template = bounded.from_string(source)
    # `~`, which no environment can intercept.
    template.root_render_func.__globals__.update(str_join=_joined, markup_join=_joined)
    return template


class _Bounded(ImmutableSandboxedEnvironment):
    # What is intercepted is not computed when the template is compiled, either.
    intercepted_binops = frozenset(("*", "**", "+", "%"))
    concat = staticmethod(lambda items: _joined(items))

    @override
    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            _check(_bits(left) * abs(right if isinstance(right, int) else 1) <= _MOST_BITS, "a number too large")
        elif operator == "*":
            for sized, times in ((left, right), (right, left)):
                if isinstance(times, int) and isinstance(sized, str | list | tuple):
                    _check_size(sized, len(sized) * times)
            _check(_bits(left) + _bits(right) <= _MOST_BITS, "a number too large")
        elif operator == "+" and isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
            _check_size(left, len(left) + len(right))
        elif operator == "%" and isinstance(left, str):
            _check_format(left)
        return super().call_binop(context, operator, left, right)

    @override
    def call(self, context: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        # The sandbox wraps the method that formats.
        method = getattr(function, "__wrapped__", function)
        if isinstance(owner := getattr(method, "__self__", None), str):
            _check_text_method(method.__name__, owner, args)
        _check_arguments(args, kwargs)
        return _checked(super().call(context, function, *args, **kwargs))


def _within_bounds(name: str, filter_: Callable[..., Any]) -> Callable[..., Any]:
    # Some are given their context, the environment or its settings first.
    n_before = int(hasattr(filter_, "jinja_pass_arg"))

    @wraps(filter_)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        value, *rest = args[n_before:]
        if name in ("join", "replace", "format", *_FILLING):
            text = value if isinstance(value, str) or name == "join" else str(value)
            _check_text_method(name, text, [*rest, *kwargs.values()])
        _check_arguments(rest, kwargs)
        return _checked(filter_(*args, **kwargs))

    return bounded


def _check_text_method(name: str, text: Any, args: Sequence[Any]) -> None:
    """Of those whose result may be as long as the product of what they are given."""
    texts = [arg for arg in args if isinstance(arg, str)]
    if name == "replace" and len(texts) >= 2:
        _check_characters(len(text) + text.count(texts[0]) * len(texts[1]))
    elif name == "join":
        # A method joins by its text what it is given, and a filter what it stands behind by what it is given.
        separator, joined = (text, args[0] if args else ()) if isinstance(text, str) and not texts else (texts, text)
        held = list(joined) if isinstance(joined, Sequence) else []
        between = len(separator) if isinstance(separator, str) else sum(map(len, separator))
        _check_characters(sum(len(str(item)) for item in held) + len(held) * between)
    elif name == "format":
        _check_format(text)
    elif name in _FILLING:
        _check(name != "translate", "a translated text")
        _check(all(len(filled) <= _MOST_FILLED for filled in texts), "a text too long")


def _check_arguments(args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
    for arg in (*args, *kwargs.values()):
        _check(not isinstance(arg, int) or abs(arg) <= _MOST_NUMBER, "a number too large")


def _check_format(text: str) -> None:
    _check(_WIDTH.search(text) is None, "a field too wide")


def _joined(items: Iterable[Any]) -> str:
    texts = [str(item) for item in items]
    _check_characters(sum(map(len, texts)))
    return "".join(texts)


def _checked(value: Any) -> Any:
    _check_time()
    if isinstance(value, str | list | tuple):
        _check_size(value, len(value))
    return value


def _check_size(value: Any, n: int) -> None:
    if isinstance(value, str):
        _check_characters(n)
    else:
        _check(n <= _MOST_ITEMS, f"a list of more than {_MOST_ITEMS:,} elements")


def _check_characters(n: int) -> None:
    _check(n <= MOST_CHARACTERS, f"a text of more than {MOST_CHARACTERS:,} characters")


def _check(is_within: bool, what: str) -> None:
    if not is_within:
        raise TooMuchError(f"makes {what}")


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


@contextmanager
def _timed(template: Template) -> Iterator[None]:
    """Ends the template's own code, line by line, when its time is over: no thread can be ended from outside."""
    own = template.root_render_func.__globals__

    def line(frame: FrameType, event: str, arg: Any) -> Any:
        _check_time()
        return line

    def called(frame: FrameType, event: str, arg: Any) -> Any:
        return line if frame.f_globals is own else None

    before = sys.gettrace()
    _clock.end = time.monotonic() + SECONDS_AT_MOST
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)
        _clock.end = math.inf


class _Clock(threading.local):
    end = math.inf


_clock: Final = _Clock()


def _check_time() -> None:
    if time.monotonic() > _clock.end:
        raise TooMuchError(f"takes more than {SECONDS_AT_MOST:g} s")
