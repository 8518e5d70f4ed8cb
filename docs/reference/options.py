"""What the site's lists of parameters say of options that dataclasses give a function: an extension of griffe."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from typing import Any

from griffe import Expr, Extension, Function, Parameter, ParameterKind, Parameters, get_annotation

MADE_BY = ("function", "function_of_cases", "plain_function")
"""Decorators of `leakmeter.commands.call`."""


class Options(Extension):
    """Types and defaults of such options, which are in a function's signature at run time alone."""

    def on_function(self, *, func: Function, **_: Any) -> None:
        if not any(str(decorator.value).partition("(")[0] in MADE_BY for decorator in func.decorators):
            return
        shown = inspect.signature(getattr(import_module(func.module.path), func.name))

        def linked(annotation: str) -> str | Expr | None:
            return get_annotation(ast.parse(annotation, mode="eval").body, parent=func.module)

        func.returns = linked(shown.return_annotation)
        func.parameters = Parameters(
            *(
                Parameter(
                    one.name,
                    annotation=linked(one.annotation),
                    kind=ParameterKind(one.kind.description),
                    default=None if one.default is one.empty else repr(one.default).replace("Ellipsis", "..."),
                )
                for one in shown.parameters.values()
            )
        )
