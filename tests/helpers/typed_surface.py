"""`leakmeter/_typed.pyi`: what type checkers and editors read of functions whose options are fields of dataclasses.

It is made from the functions' signatures, so that no default or type is written twice; a test compares it with the
file, and with LEAKMETER_SNAPSHOTS=1 writes it.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

from leakmeter.engine.loading import LOAD_OPTIONS
from leakmeter.instruments import HOME

ABOUT = '''"""Signatures of the functions, for editors and type checkers; made by tests/helpers/typed_surface.py."""
'''
BESIDE = {"tokens": "leakmeter.commands.tokens"}
"""Those that are no instrument's, and no method of a meter."""
_WORD = re.compile(r"(?<![\w.'\"])[A-Za-z_]\w*")


def functions() -> dict[str, Any]:
    """The public functions whose options are fields of dataclasses."""
    found = {name: getattr(importlib.import_module(at), name) for name, at in sorted((HOME | BESIDE).items())}
    return {name: one for name, one in found.items() if hasattr(one, "parts")}


def stub() -> str:
    """The whole file."""
    imports: dict[str, str] = {"Any": "typing", "overload": "typing"}
    methods, plain = [], []
    for name, function in functions().items():
        for self_ in (True, False) if hasattr(function, "on") and name not in BESIDE else (False,):
            forms = _forms(name, function, imports, is_method=self_)
            told = ["@overload\n" + form for form in forms] if len(forms) > 1 else forms
            (methods if self_ else plain).extend(told)
    lines = "".join(
        f"from {where} import {name.rpartition('_')[2]}{f' as {name}' if '_' in name else ''}\n"
        for where, name in sorted((at, of) for of, at in imports.items())
    )
    inner = "\n".join("".join(f"    {line}\n" for line in one.splitlines()) for one in methods)
    return f"{ABOUT}\n{lines}\nclass MeterMethods:\n{inner}\n" + "\n".join(plain)


def _forms(name: str, function: Any, imports: dict[str, str], *, is_method: bool) -> list[str]:
    """The function as it is called with data, and with a single case where it can be."""
    signature = inspect.signature(function.on if is_method else function)
    parameters = [one for one in signature.parameters.values() if not (is_method and one.name == "model")]
    module, empty = inspect.getmodule(function), inspect.Parameter.empty
    summary = (inspect.getdoc(function) or "").splitlines()[0]

    def form(given: list[inspect.Parameter], returned: str) -> str:
        told, starred = ["self"] if is_method else [], False
        for one in given:
            if one.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
                told.append("*")
                starred = True
            text = _named(str(one.annotation), _defining(one.name, function, module), imports)
            told.append(f"{one.name}: {text}" + ("" if one.default is empty else f" = {_default(one.default)}"))
        inside = "".join(f"    {one},\n" for one in told)
        return f'def {name}(\n{inside}) -> {_named(returned, module, imports)}:\n    """{summary}"""\n'

    if not function.case:
        return [form(parameters, str(signature.return_annotation))]
    one, _, many = str(signature.return_annotation).partition(" | ")
    reading = {name for part in function.parts.values() if part.kind.__name__ == "CaseNames" for name in part.names}
    # A parameter without default cannot stand behind one that has one.
    required = [
        one.replace(default=empty) if one.name in ("data", "model") else one
        for one in parameters
        if one.name not in function.case
    ]
    alone = [one for one in parameters if one.name != "data" and one.name not in reading - {"context_from"}]
    return [form(required, many), form(alone, one)]


def _default(value: Any) -> str:
    simple = value is None or isinstance(value, bool | int | float | str) or value == ()
    return repr(value).replace("'", '"') if simple else "..."


def _defining(parameter: str, function: Any, module: Any) -> Any:
    """The module whose names an annotation is written in."""
    if parameter in LOAD_OPTIONS:
        return importlib.import_module("leakmeter.engine.loading")
    for part in function.parts.values():
        if parameter in part.names:
            # A field may be of a base class in another module.
            of = next(kind for kind in part.kind.__mro__ if parameter in inspect.get_annotations(kind))
            return inspect.getmodule(of)
    return module


def _named(annotation: str, module: Any, imports: dict[str, str]) -> str:
    """An annotation with names that are imported, one that is taken by another thing with its module's in front."""

    def found(match: re.Match[str]) -> str:
        name = match[0]
        if hasattr(builtins, name):
            return name
        where = _imported(module.__name__).get(name, module.__name__)
        if imports.setdefault(name, where) != where:
            imports[f"{where.split('.')[-2]}_{name}"] = where
            return f"{where.split('.')[-2]}_{name}"
        return name

    # What stands in quotation marks is a value of a Literal.
    parts = re.split(r"('[^']*'|\"[^\"]*\")", annotation)
    return "".join(part if number % 2 else _WORD.sub(found, part) for number, part in enumerate(parts))


@cache
def _imported(module: str) -> dict[str, str]:
    """Names that a module imports, for type checkers too, and from where."""
    path = Path(str(importlib.import_module(module).__file__))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
