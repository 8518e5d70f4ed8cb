"""How many ideas the house asks one to hold, a line each: `python tools/count_ideas.py [LINE ...]`; all by default."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src" / "leakmeter"
N_CASES = 3
N_CASES_OF_A_LOG = 60
"""More than a log has whose answers are all measured alike. The first ten cases of a run, and one in a hundred of the
others, measure noise: two prefix trees more."""
N_DRAWN = 5
"""Tokens of a response that is drawn."""
MODEL = "smollm2-135m"
SHARED_NAMES: dict[str, str] = {}
"""Public names of classes that may have more than one definition, and why."""
IMPORTERS = ("import_module", "__import__", "import_string", "resolve_name")
IMPORT_BY_NAME = {
    "core/folder.py": "modules that lie in a folder that is imported",
    "__init__.py": "names of the package's own stub, whose imports tools read",
}
"""Files that may import a module by a text, and why."""
PROBES = ("getattr", "hasattr")
PROBED = ("backend", "measure", "reduction", "dialect", "settings", "class", "kind", "model")
"""Last word of what a variable or an attribute is called that is one, or the class of one."""
OF_LIBRARIES = ("backends/hf", "models")
"""Where a `model` is one of the transformers library, whose attributes differ."""


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


NOTE = ("Anna lives in Graz. Bo lives in Oslo.",)
THREE_NOTES = ("Anna lives in Graz. She likes tea.", "Bo lives in Oslo. He likes rain.", "Cy lives in Rome. It is hot.")


def of_influence(
    owner: Any,
    name: str,
    n_cases: int = N_CASES,
    *,
    texts: Sequence[str] = NOTE,
    response: str | None = "In Graz.",
    **options: Any,
) -> float:
    """Calls a case of `leakmeter.influence` of so many on the default model: the toy model has no prefix trees."""
    import leakmeter
    from leakmeter.core.case import Case, Document

    documents = tuple(Document(f"note {number}", text) for number, text in enumerate(texts))
    cases = [Case(f"case {number}", documents, "Where does Anna live?", response) for number in range(n_cases)]
    meter = leakmeter.Meter(MODEL)
    with counted(owner, name) as calls:
        meter.influence(cases, **options)
    return len(calls) / n_cases


def trials_a_case() -> float:
    from leakmeter.instruments.influence.measure import Influence

    return of_influence(Influence, "trial")


def prefix_trees_a_case() -> float:
    from leakmeter.core import tree

    return of_influence(tree, "_lay_out")


def prefix_trees_a_case_of_a_log() -> float:
    from leakmeter.core import tree

    return of_influence(tree, "_lay_out", N_CASES_OF_A_LOG)


def prefix_trees_where_a_document_matters() -> float:
    from leakmeter.core import tree

    return of_influence(tree, "_lay_out", texts=THREE_NOTES)


def prefix_trees_where_a_response_is_drawn() -> float:
    from leakmeter.core import tree

    return of_influence(tree, "_lay_out", response=None, max_new_tokens=N_DRAWN)


def prefix_trees_of_a_search() -> float:
    from leakmeter.core import tree

    return of_influence(tree, "_lay_out", texts=THREE_NOTES, search="top:2")


def files_that_name(pattern: str) -> int:
    words = re.compile(pattern)
    return sum(words.search(path.read_text(encoding="utf-8")) is not None for path in SOURCE.rglob("*.py"))


def files_that_name_prediction() -> int:
    """Of what work takes; a label that is predicted, and the predictors of a regression, are other things."""
    return files_that_name(
        r"engine\.prediction|\bPredictor\b|load_predictor|predict(ed)?_(tree|seconds|cases)|core\.counting|\bCountingBackend\b"
    )


def files_that_name_half_widths() -> int:
    return files_that_name(r"(?i)half[ _-]?widths?|interval_noise|bounded_by_top")


def public_classes(source: Path = SOURCE) -> dict[str, list[str]]:
    """Names of public classes and type aliases at the top of modules, and the modules that define each."""
    return {name: at for name, at in classes(source).items() if not name.startswith("_")}


def private_classes(source: Path = SOURCE) -> dict[str, list[str]]:
    """The same of private ones, whose names begin with an underscore. Two modules may each have one of a name, since
    nobody reads it outside of them; but a word that means one thing everywhere means it there too."""
    return {name: at for name, at in classes(source).items() if name.startswith("_")}


def classes(source: Path = SOURCE) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        module = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
            if name := defined_type(node):
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


def string_imports(source: Path = SOURCE) -> Iterator[str]:
    """Files and lines where a module is imported by a text, or a text names one as 'package.module:name'."""
    for path in sorted(source.rglob("*.py")):
        name = str(path.relative_to(source))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in IMPORTERS
            named = (
                isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_module(node.value, path, source)
            )
            if (called and name not in IMPORT_BY_NAME) or named:
                yield f"{name}:{getattr(node, 'lineno', 0)}"


def _is_module(text: str, path: Path, source: Path) -> bool:
    """Whether a text is 'module:name' of a module here, from the top or from the folder of the text."""
    module, colon, name = text.partition(":")
    if not (colon and name.isidentifier() and module.strip(".").replace(".", "").isidentifier()):
        return False
    parts = module.strip(".").removeprefix("leakmeter.").split(".")
    return any(folder.joinpath(*parts).with_suffix(".py").exists() for folder in (source, path.parent))


def packages(source: Path = SOURCE) -> list[str]:
    return sorted(path.parent.name for path in source.glob("*/__init__.py"))


def checkable_protocols(source: Path = SOURCE) -> set[str]:
    """Names of protocols of ours that `isinstance` takes: it then asks an object for each of their attributes."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py")))
    nodes = (node for text in texts if "runtime_checkable" in text for node in ast.walk(ast.parse(text)))
    return {
        node.name
        for node in nodes
        if isinstance(node, ast.ClassDef) and "runtime_checkable" in map(_last_word, node.decorator_list)
    }


def _last_word(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def probes(text: str, probed: Sequence[str] = PROBED, protocols: Collection[str] = ()) -> Iterator[tuple[int, str]]:
    """Lines and expressions of a module's text. To read each field of a dataclass by its name is no probe: only a name
    that is written out, or one that an object passes on for another (`__getattr__`), may be missing. To ask whether an
    object is one of these protocols is one."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            yield from (
                (call.lineno, ast.unparse(call))
                for call in ast.walk(node)
                if isinstance(call, ast.Call) and _is_probe(call, probed)
            )
        elif isinstance(node, ast.Call) and (
            (_is_probe(node, probed) and isinstance(node.args[1], ast.Constant)) or _asks_for_protocol(node, protocols)
        ):
            yield node.lineno, ast.unparse(node)


def _asks_for_protocol(node: ast.Call, protocols: Collection[str]) -> bool:
    if not (isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass")):
        return False
    names = (one for one in ast.walk(node.args[1]) if isinstance(one, ast.Name | ast.Attribute))
    return any(_last_word(one) in protocols for one in names)


def _is_probe(node: ast.AST, probed: Sequence[str]) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PROBES):
        return False
    asked = node.args[0]
    # Of `getattr(getattr(backend, "model", None), "device")` the inner one is a probe too.
    name = asked.attr if isinstance(asked, ast.Attribute) else asked.id if isinstance(asked, ast.Name) else ""
    return name.rpartition("_")[2] in probed


def all_probes(source: Path = SOURCE) -> list[str]:
    """Files, lines and expressions of the probes in the program."""
    found = []
    protocols = checkable_protocols(source)
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source).as_posix()
        probed = PROBED[:-1] if name.startswith(OF_LIBRARIES) else PROBED
        found += [
            f"{name}:{line}: {what}" for line, what in probes(path.read_text(encoding="utf-8"), probed, protocols)
        ]
    return found


def files_of_an_instrument(source: Path = SOURCE) -> list[Path]:
    """Files that an instrument needs: parts that every instrument has, and modules outside of its folder that name it.

    Counted at the instrument that fewest modules name: what others have beside that, one can do without.
    """
    folders = [path.parent for path in sorted(source.glob("instruments/*/__init__.py")) if "INSTRUMENT" in _read(path)]
    parts = set.intersection(*({path.name for path in folder.iterdir() if path.is_file()} for folder in folders))
    folder, outside = min(
        ((folder, _modules_that_name(folder, source)) for folder in folders), key=lambda one: len(one[1])
    )
    return [*(folder / name for name in sorted(parts)), *outside]


def _modules_that_name(folder: Path, source: Path) -> list[Path]:
    """Modules outside of an instrument's folder with its package, or with a text that is its name."""
    called = "|".join([folder.name, *re.findall(r'^    name = "(\w+)"$', _read(folder / "__init__.py"), re.MULTILINE)])
    named = re.compile(rf"""\binstruments(?:[./]| import ){folder.name}\b|["'](?:{called})["']""")
    modules = [path for path in sorted(source.rglob("*.py*")) if path.suffix in (".py", ".pyi")]
    return [path for path in modules if folder not in path.parents and named.search(_read(path))]


REPORTING = ("report", "words", "sentences", "headline", "charts", "attribution", "conversations")
"""Modules of an instrument that say and draw what was found, beside those whose names end in "_report"."""


def lines_of_reports(source: Path = SOURCE) -> dict[str, int]:
    """Lines of these modules, by their paths in `instruments`."""
    paths = [path for path in sorted((source / "instruments").rglob("*.py"))
             if path.stem in REPORTING or path.stem.endswith("_report")]  # fmt: skip
    return {str(path.relative_to(source / "instruments")): len(_read(path).splitlines()) for path in paths}


def is_generated(path: Path) -> bool:
    """Whether tests write the module anew, as it says."""
    return "LEAKMETER_SNAPSHOTS" in _read(path)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


REASONS = {
    "prefix trees a case": "1 of what is measured, 2 of the noise floor: the same sequences in other company, and with "
    "tokens that run alone, which one tree would join again",
    "prefix trees a case, of a log": "1 of what is measured; 2 of noise in the first ten cases and in one of a hundred",
    "prefix trees a case, where a document matters": "these 3; 1 of its sentences left out; 1 of its sentences alone, "
    "where none of them accounts for it: which ones, the scores before say",
    "prefix trees a case, where a response is drawn": f"these 3; 1 for each of {N_DRAWN} tokens, since each depends on "
    "the one before: a sequence that is one token longer",
    "prefix trees a case, of a search": "1 screens all pieces; 3 score its first ones exactly, two, one and one, until "
    "the others cannot reach them; 1 of these alone and of controls; 2 of noise",
}
"""Why some figures are what they are."""
LINES: dict[str, Callable[[], float]] = {
    "trials a case": trials_a_case,
    "prefix trees a case": prefix_trees_a_case,
    "prefix trees a case, of a log": prefix_trees_a_case_of_a_log,
    "prefix trees a case, where a document matters": prefix_trees_where_a_document_matters,
    "prefix trees a case, where a response is drawn": prefix_trees_where_a_response_is_drawn,
    "prefix trees a case, of a search": prefix_trees_of_a_search,
    "probes of models, measures, reductions, dialects and settings": lambda: len(all_probes()),
    "files that name prediction": files_that_name_prediction,
    "files that name half widths": files_that_name_half_widths,
    "imports hidden in texts": lambda: len(list(string_imports())),
    "top-level packages": lambda: len(packages()),
    "public class names with more than one definition": lambda: len(names_with_several_definitions()),
    "files for a new instrument": lambda: len(files_of_an_instrument()),
    "lines of the instruments' reports": lambda: sum(lines_of_reports().values()),
    "generated files of these": lambda: sum(map(is_generated, files_of_an_instrument())),
}


def main(names: list[str]) -> None:
    for name in names or LINES:
        reason = f" ({REASONS[name]})" if name in REASONS else ""
        print(f"{name}: {LINES[name]():g}{reason}")


if __name__ == "__main__":
    main(sys.argv[1:])
