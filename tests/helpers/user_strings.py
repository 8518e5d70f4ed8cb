"""Every text that users can see, each on one line: help, quantities, columns, fields, errors, and all other sentences.

They are gathered from the program itself, and from the source where they are written; `{…}` stands for what is put
into a text when it is shown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from cyclopts import App

import leakmeter
from helpers.places import ROOT
from leakmeter.cli import program
from leakmeter.core import registry
from leakmeter.core.quantity import Quantity
from leakmeter.results.query import all_views
from leakmeter.runs import all_printed, printed

SOURCE: Final = ROOT / "src" / "leakmeter"
HOLE: Final = "{…}"
_WORDS: Final = re.compile(r"[^\W\d_]{2,}[,;:]?'? '?[^\W\d_]{2,}")
"""Two words, one after the other: what has none is a name, a pattern or a number."""
_CODE: Final = re.compile(
    r"\(\?[:<=!P]|\\[sdwb.]|\w\|\w+ \w+\|\w|^\(?(?:BEGIN|CREATE|DELETE|DROP|INSERT|PRAGMA|SELECT|UPDATE|WHERE)\b|"
    r"^\w+ (?:INTEGER PRIMARY|WHERE) |^<|^:root|^default-src|^text/|^[A-Z]{2}(?: [A-Z]{2})+$|^[a-z]{2}_[A-Z]{2}\b|"
    # Lists of words, as of names; a sentence ends with a full stop.
    r"^(?:[^\s,;:?]+ ){14,}[^\s,;:?]*[^\s,;:?.]$"
)
"""What is read by programs, and by nobody else: patterns, SQL, styles, locales."""
_PARAMETERS: Final = re.compile(r"\n\s*(?:Parameters\n\s*-+|Args:)\n")
"""Where a docstring begins to list options, of which each has a line of its own."""
_TEXTS: Final = (ast.Constant, ast.JoinedStr, ast.BinOp)
_TEMPLATE: Final = re.compile(r"\{[{%#].*?[}%#]\}|<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL)


def one_line(text: str) -> str:
    return " ".join(text.split())


def all_strings() -> list[str]:
    """Sorted, each once, with the kind of text in front."""
    found = {*_help(), *_quantities(), *_columns(), *_fields()}
    for path in sorted(SOURCE.rglob("*.py")):
        found |= set(of_source(path.read_text(encoding="utf-8")))
    for path in sorted(SOURCE.rglob("*.j2")):
        found |= set(_of_page(path.read_text(encoding="utf-8")))
    return sorted(found)


def _help() -> Iterator[str]:
    """A line a command, and a line an option however many commands have it."""
    left: list[tuple[tuple[str, ...], App]] = [((), program(all_options=True))]
    for words, app in left:
        within = (name for name in app if not name.startswith("-"))
        # A command has its own, longer help where it is the one that is asked for.
        left += [((*words, name), app[name] if words else program([name])[name]) for name in within]
        yield f"help {' '.join(('leakmeter', *words))}: {one_line(_PARAMETERS.split(str(app.help or ''))[0])}"
        for argument in app.assemble_argument_collection(parse_docstring=True) if app.default_command else ():
            if argument.parameter.help and argument.show:
                yield f"option {argument.names[0]}: {one_line(argument.parameter.help)}"


def _quantities() -> Iterator[str]:
    for measure in registry.instruments():
        for one in registry.instrument(measure).result.quantities:
            usual = f"{one.usual or 'no'} aggregate by default" if isinstance(one, Quantity) else "of a run"
            yield f"quantity {one.name} ({one.unit}; {one.worse} is worse; {usual}): {one_line(one.about)}"
            if isinstance(one, Quantity) and one.lower_bound is not None:
                yield f"quantity {one.name}, a lower bound: {one_line(one.lower_bound.why)}; {one.lower_bound.advice}"


def _columns() -> Iterator[str]:
    for view, columns in all_views().items():
        for column in columns:
            yield f"column {view}.{column.name} ({column.type}): {one_line(column.about)}"


def _fields() -> Iterator[str]:
    """Of the schemas of what `--json` prints."""
    for name in all_printed():
        schema = leakmeter.schema(name)
        for within, part in ((printed(name).__module__.split(".")[-2], schema), *schema.get("$defs", {}).items()):
            for field, about in part.get("properties", {}).items():
                if "description" in about:
                    yield f"field {within}.{field}: {one_line(about['description'])}"


def of_source(source: str) -> Iterator[str]:
    """Texts of a module that hold two words or more: 'error: …' where they are raised, else 'text: …'."""
    left: list[tuple[ast.AST, str]] = [(ast.parse(source), "text")]
    for node, kind in left:
        if isinstance(node, _TEXTS) and (text := shown(node)) is not None:
            line = one_line(text)
            if _WORDS.search(line.replace(HOLE, "")) and not _CODE.search(line):
                yield f"{kind}: {line}"
            # Of expressions that fill the holes of a text, what is not shown in it.
            holes = (child.value for child in ast.walk(node) if isinstance(child, ast.FormattedValue))
            left += [(hole, kind) for hole in holes if shown(hole) is None]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a text that stands alone is documentation
        else:
            if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _called(node).endswith("Error")):
                kind = "error"
            # As `ast.iter_child_nodes`, which takes twice as long.
            for value in vars(node).values():
                if isinstance(value, list):
                    left += [(child, kind) for child in value if isinstance(child, ast.AST)]
                elif isinstance(value, ast.AST) and not isinstance(value, ast.Name | ast.expr_context | ast.operator):
                    left.append((value, kind))


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "id", getattr(call.func, "attr", "")))


def shown(node: ast.AST) -> str | None:
    """What an expression puts into a text; None of what is no text. Alternatives are {one|other}."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(_shown_or_hole, parts))
        case ast.FormattedValue(value=value):
            return shown(value)
        case ast.IfExp(body=body, orelse=orelse) if shown(body) is not None or shown(orelse) is not None:
            return f"{{{_shown_or_hole(body)}|{_shown_or_hole(orelse)}}}"
        case ast.BinOp(left=left, op=ast.Add(), right=right) if shown(left) is not None or shown(right) is not None:
            return _shown_or_hole(left) + _shown_or_hole(right)
    return None


def _shown_or_hole(node: ast.AST) -> str:
    text = shown(node)
    return HOLE if text is None else text


def _of_page(template: str) -> Iterator[str]:
    for text in _TEMPLATE.sub("\n", template).splitlines():
        if _WORDS.search(text):
            yield f"page: {one_line(text)}"
