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
from collections.abc import Iterator
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
            forms = [*_forms(name, function, imports, is_method=self_)]
            told = ["@overload\n" + form for form in forms] if len(forms) > 1 else forms
            (methods if self_ else plain).extend(told)
    lines = "".join(
        f"from {where} import {name.rpartition('_')[2]}{f' as {name}' if '_' in name else ''}\n"
        for where, name in sorted((at, of) for of, at in imports.items())
    )
    inner = "\n".join("".join(f"    {line}\n" for line in one.splitlines()) for one in methods)
    return f"{ABOUT}\n{lines}\nclass MeterMethods:\n{inner}\n" + "\n".join(plain)


def _forms(name: str, function: Any, imports: dict[str, str], *, is_method: bool) -> Iterator[str]:
    """The function as it is called with data, and with a single case where it can be."""
    signature = inspect.signature(function.on if is_method else function)
    parameters = list(signature.parameters.values())
    module = inspect.getmodule(function)
    returned = str(signature.return_annotation)
    one, _, many = returned.partition(" | ")
    reading = {name for part in function.parts.values() if part.kind.__name__ == "CaseNames" for name in part.names}
    if not function.case:
        yield _form(name, function, parameters, returned, imports, module, is_method=is_method)
        return
    with_data = [one for one in parameters if one.name not in function.case]
    alone = [one for one in parameters if one.name != "data" and one.name not in reading - {"context_from"}]
    required = [one.replace(default=inspect.Parameter.empty) if one.name == "data" else one for one in with_data]
    # A parameter without default cannot stand behind one that has one.
    if not is_method:
        required = [one.replace(default=inspect.Parameter.empty) if one.name == "model" else one for one in required]
    yield _form(name, function, required, many, imports, module, is_method=is_method)
    yield _form(name, function, alone, one, imports, module, is_method=is_method)


def _form(
    name: str,
    function: Any,
    parameters: list[Any],
    returned: str,
    imports: dict[str, str],
    module: Any,
    *,
    is_method: bool,
) -> str:
    told, starred = ["self"] if is_method else [], False
    for one in parameters:
        if one.name == "model" and is_method:
            continue
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            told.append("*")
            starred = True
        text = _named(str(one.annotation), _defining(one.name, function, module), imports)
        default = "" if one.default is inspect.Parameter.empty else f" = {_default(one.default)}"
        told.append(f"{one.name}: {text}{default}")
    returned = _named(returned, module, imports)
    summary = (inspect.getdoc(function) or "").splitlines()[0]
    inside = "".join(f"    {one},\n" for one in told)
    return f'def {name}(\n{inside}) -> {returned}:\n    """{summary}"""\n'


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
