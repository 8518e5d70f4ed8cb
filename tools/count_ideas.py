"""How many ideas the house asks one to hold, a line each: `python tools/count_ideas.py [LINE ...]`; all by default."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src" / "leakmeter"
N_CASES = 3
SHARED_NAMES: dict[str, str] = {}
"""Public names of classes that may have more than one definition, and why."""


@contextmanager
def counted(owner: Any, name: str) -> Iterator[list[str]]:
    """The callables by which a function or method is called meanwhile."""
    calls: list[str] = []
    usual = getattr(owner, name)

    def counting(*given: Any, **named: Any) -> Any:
        calls.append(name)
        return usual(*given, **named)

    setattr(owner, name, counting)
    try:
        yield calls
    finally:
        setattr(owner, name, usual)


def of_influence(owner: Any, name: str) -> float:
    """Calls a case of `leakmeter.influence` of a few cases on the toy model."""
    import leakmeter
    from leakmeter.core.case import Case, Document

    cases = [
        Case(f"case {number}", (Document("note", "Anna lives in Graz. Bo lives in Oslo."),), "Where?", "In Graz.")
        for number in range(N_CASES)
    ]
    with counted(owner, name) as calls:
        leakmeter.influence("toy", cases)
    return len(calls) / N_CASES


def trials_a_case() -> float:
    from leakmeter.instruments.influence.measure import Influence

    return of_influence(Influence, "trial")


def prefix_trees_a_case() -> float:
    from leakmeter.core import tree

    return of_influence(tree, "_lay_out")


def files_that_name(pattern: str) -> int:
    words = re.compile(pattern)
    return sum(words.search(path.read_text(encoding="utf-8")) is not None for path in SOURCE.rglob("*.py"))


def files_that_name_prediction() -> int:
    """Of what work takes; a label that is predicted is another thing."""
    return files_that_name(
        r"engine\.prediction|[Pp]redictor|PlanningBackend|predicted_(tree|seconds|cases)|forecast|on_prediction|"
        r"KeptPrediction|longest_trial|\bpredict_cases|engine\.counting|core\.counting"
    )


def public_classes(source: Path = SOURCE) -> dict[str, list[str]]:
    """Names of public classes and type aliases at the top of modules, and the modules that define each."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        module = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
            if (name := defined_type(node)) and not name.startswith("_"):
                found[name].append(module)
    return dict(found)


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of a module, and what stands in its conditions."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from statements([*node.body, *node.orelse])


def defined_type(node: ast.stmt) -> str:
    """The name of a class or of a type alias, which is in capitals and small letters; else empty."""
    if isinstance(node, ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target = node.target
    else:
        return ""
    is_variable = isinstance(node.value, ast.Call) and ast.unparse(node.value.func).endswith(("TypeVar", "ParamSpec"))
    name = target.id if isinstance(target, ast.Name) and not is_variable else ""
    return name if re.match(r"_*[A-Z]\w*[a-z]", name) else ""


def names_with_several_definitions() -> dict[str, list[str]]:
    return {name: at for name, at in public_classes().items() if len(at) > 1 and name not in SHARED_NAMES}


LINES: dict[str, Callable[[], float]] = {
    "trials a case": trials_a_case,
    "prefix trees a case": prefix_trees_a_case,
    "files that name prediction": files_that_name_prediction,
    "public class names with more than one definition": lambda: len(names_with_several_definitions()),
}


def main(names: list[str]) -> None:
    for name in names or LINES:
        print(f"{name}: {LINES[name]():g}")


if __name__ == "__main__":
    main(sys.argv[1:])
