"""What prose names is there: files, modules and functions in pages, docstrings, comments and the table of breaks."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from helpers.places import DOCS, ROOT, TESTS
from leakmeter.cli import program

SOURCE = ROOT / "src" / "leakmeter"
PACKAGES = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
FOLDERS = ("benchmarks", "deploy", "docs", "examples", "locks", "src", "tests", "tools")
FILE = re.compile(r"(?<![\w/.-])((?:[\w.-]+/)*[\w-]+\.(?:py|j2|css|js))\b(?![\w/])")
ROOM = re.compile(rf"(?<![\w/.`-])((?:{'|'.join((*PACKAGES, *FOLDERS))})/\w[\w/]*\w)(?![\w/.-])")
DOTTED = re.compile(rf"(?<![\w/.-])(?:leakmeter\.)?((?:{'|'.join(PACKAGES)})\.[a-z_][\w.]*\w)(?![\w(])")
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]+)/?`")
PLACED = re.compile(rf"`(?:leakmeter\.)?((?:{'|'.join(PACKAGES)})(?:\.\w+)*:[A-Za-z_][\w.]*)`")
"""As 'core.reductions:mix_with_first'."""
SHORT = re.compile(r"`([a-z_]\w*)((?:\.\w+)+)`")
"""A name behind that of its module alone, without the packages that it is in."""
NOT_MODULES = {
    *("cyclopts", "io", "langchain_core", "pyarrow", "rich", "scipy", "time"),
    # An object that a reader has at hand, or a field of a file.
    *("__init__", "leakmeter", "model", "request", "source", "tokenizer"),
}
"""What such a name may begin with that is no module of ours."""
COMMENT = re.compile(r"(?:^|[ \t])(# .*)$", re.MULTILINE)
DATA = re.compile(r"\.(?:csv|html|j2|jsonl?|md|parquet|png|py|safetensors|sqlite|toml|txt|xml|yml)$")
"""Ends of files that users have and runs write."""
NOT_OURS = {
    *("path/to/folder", "DIR/run1", "receipts/ID.json", "samples/log.jsonl", ".github/workflows/leakage.yml"),
    *("cnn_dailymail/validation_subset.jsonl", "pubmedqa/ori_pqal.json", "src/llama-vocab.cpp"),
    *("leakmeter-answer/1", "n/a", "nvidia.com/gpu"),
}
"""Paths of users and of other projects, and names that have a slash."""


@cache
def texts_of(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple(_texts_of(path))


def _texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Prose with its line: of a module its docstrings and comments, of a page what stands outside of its blocks."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield 1, re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for comment in COMMENT.finditer(text):
        yield 1 + text.count("\n", 0, comment.start(1)), comment[1]


@cache
def files() -> tuple[Path, ...]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    return tuple(path.relative_to(ROOT) for path in (*found, *ROOT.iterdir()))


@cache
def ends() -> frozenset[str]:
    """Paths of all files and folders, from whatever folder one begins."""
    return frozenset("/".join(path.parts[i:]) for path in files() for i in range(len(path.parts)))


@cache
def is_defined(dotted: str) -> bool:
    """Whether 'stats.ranks.auc' is a module, or a name that the module stats/ranks.py has."""
    parts = dotted.split(".")
    for folder in (SOURCE, TESTS):
        place = folder
        for i, part in enumerate(parts):
            if (place / part).is_dir():
                place /= part
                continue
            module, names = (place / f"{part}.py", parts[i + 1 :])
            if not module.exists():
                module, names = place / "__init__.py", parts[i:]
            text = module.read_text(encoding="utf-8") if module.exists() else ""
            if all(re.search(rf"\b{name}\b", text) for name in names) and text:
                return True
            break
        else:
            return True
    return False


def missing(text: str) -> list[str]:
    """What a text names that is not there; NAME stands for any."""
    named = [name for name in FILE.findall(text) if name not in ends()]
    named += [name for name in ROOM.findall(text) if not ends() & {name, f"{name}.py"}]
    named += [name for name in DOTTED.findall(text) if not DATA.search(name) and not is_defined(name)]
    named += [name for name in PATH.findall(text) if not ends() & {name, f"{name}.py"} and not FILE.fullmatch(name)]
    named += [name for name in PLACED.findall(text) if not is_defined(name.replace(":", "."))]
    return [name for name in named if "NAME" not in name and name not in NOT_OURS]


@cache
def modules_by_name() -> dict[str, list[str]]:
    """Packages and modules by their names alone, each with the path from the root of the package."""
    found: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if parts:
            found.setdefault(parts[-1], []).append(".".join(parts))
    return found


def missing_short(text: str) -> list[str]:
    """Names such as `dialect.reading` that no module of that name has, or whose module is gone."""
    return [
        head + rest
        for head, rest in SHORT.findall(text)
        if head not in NOT_MODULES
        and not DATA.search(rest)
        and not any(is_defined(module + rest) for module in modules_by_name().get(head, ()))
    ]


def test_what_docstrings_name_by_its_module_alone_is_there() -> None:
    assert missing_short("`dialect.reading`, `storage.schema`, `core.case.DECODINGS`, `spec.json`") == []
    gone = "`answered.reading`, `dialect.gone`, `checkup.report.gone`"
    assert missing_short(gone) == ["answered.reading", "dialect.gone", "checkup.report.gone"]
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in texts_of(path)
        for name in missing_short(text)
    ]
    assert found == []


def test_what_prose_names_is_there() -> None:
    pages = [DOCS, ROOT / "benchmarks", ROOT / "examples", TESTS]
    paths = [path for folder in (*pages, ROOT / "src", ROOT / "tools") for path in sorted(folder.rglob("*.py"))]
    paths += [path for folder in pages for path in sorted(folder.rglob("*.md"))]
    paths += [path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"]
    assert len(paths) > 800
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in paths
        if path != Path(__file__) and missing(path.read_text(encoding="utf-8"))
        for line, text in texts_of(path)
        for name in missing(text)
    ]
    assert found == []


def test_what_is_missing_is_seen() -> None:
    there = "See `core/files.py`, core/files, files.py, `stats.ranks.auc`, leakmeter.core.registry and ledger.sqlite."
    there += " `core/files`, `tests/core/`, `core.files:make_private`, `deploy/kubernetes`."
    assert missing(there) == []
    gone = "See `core/gone.py`, core/gone, `stats.ranks.gone`, leakmeter.core.gone, core.gone.name, `gone.py`."
    gone += " `core/gone`, `gone/`, `gone/gone/`, `core.files:gone`, `core.gone:files`."
    assert len(missing(gone)) == 11


def test_tests_that_a_break_names_are_there() -> None:
    table = tomllib.loads((TESTS / "mutants" / "breaks.toml").read_text(encoding="utf-8"))
    tests = [str(path.relative_to(ROOT)) for path in TESTS.rglob("test_*.py")]
    likely = {word: one["name"] for group in table.values() for one in group for word in one["likely"]}
    assert len(likely) > 50
    assert {word: name for word, name in likely.items() if not any(word in path for path in tests)} == {}


@dataclass
class Module:
    """What a module of the source says, read once."""

    texts: list[str] = field(default_factory=list)
    classes: set[str] = field(default_factory=set)
    """Names of classes and of types."""
    names: set[str] = field(default_factory=set)
    """Every name, and words of texts without backticks: columns and fields are texts in places."""


@cache
def modules() -> dict[Path, Module]:
    found = {path: Module() for path in sorted(SOURCE.rglob("*.py"))}
    for path, module in found.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            own = vars(node)
            for key in ("id", "attr", "arg", "name", "asname", "module"):
                if isinstance(value := own.get(key), str):
                    module.names.update(value.split("."))
            if isinstance(node, ast.ClassDef):
                module.classes.add(node.name)
            elif isinstance(node, ast.Assign):
                module.classes.update(target.id for target in node.targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                module.texts.append(node.value)
                module.names.update(re.findall(r"\w+", node.value) if "`" not in node.value else ())
    return found


CAPITALS = re.compile(r"[A-Z][a-z0-9]+[A-Z]")
"""What every class's name of two words has."""


def prose_of(text: str) -> str:
    """A text without its code and the exceptions that it lists; nothing of less than three words."""
    if not CAPITALS.search(text) or len(text.split()) < 3 or re.fullmatch(r"[\w.]+(?: \| [\w.]+)+", text):
        return ""
    code = r"^\s*(?:Raises:|[A-Z]\w+Error:|>>>).*$|^    .*[(=|].*$"
    return re.sub(code, "", re.sub(r"`[^`]+`", "", text), flags=re.MULTILINE)


def bare(text: str, names: set[str]) -> list[str]:
    words = re.findall(r"(?<![\w.])_?[A-Z]\w+(?![\w(\[])(?!\.\w)", text)
    return [word for word in words if word in names and not word.endswith("Error")]


def test_no_text_has_a_class_s_name_in_the_place_of_a_word() -> None:
    """A name that was replaced everywhere is replaced in sentences too: 'NumberOf of spans'."""
    # Of two words or more: nobody writes such a name for another reason.
    names = {name for module in modules().values() for name in module.classes}
    names = {name for name in names if re.fullmatch(r"_?(?:[A-Z][a-z0-9]+){2,}", name)}
    assert len(names) > 200
    found = [
        f"{path.relative_to(ROOT)}: {word} in {text[:80]!r}"
        for path, module in modules().items()
        for text in module.texts
        for word in bare(prose_of(text), names)
    ]
    pages = (path for path in (*DOCS.rglob("*.md"), *ROOT.glob("*.md")))
    found += [
        f"{path.relative_to(ROOT)}: {word}"
        for path in pages
        for _, text in texts_of(path)
        for word in bare(re.sub(r"`[^`]+`", "", text), names)
    ]
    assert found == []
    assert bare("NumberOf of spans, as Counter counts", {"NumberOf"}) == ["NumberOf"]


@cache
def options_of() -> dict[str, set[str]]:
    """Commands, 'runs query', and their options."""
    found: dict[str, set[str]] = {}
    left = [((name,), program([name])[name]) for name in program() if not name.startswith("-")]
    for words, app in left:
        left += [((*words, one), app[one]) for one in app if not one.startswith("-")]
        arguments = app.assemble_argument_collection() if app.default_command else ()
        found[" ".join(words)] = {name for argument in arguments for name in argument.names}
    return found


def wrong_command(line: str) -> str | None:
    """What `leakmeter LINE` has that is no command or option; capitals and files stand for a command of the user's."""
    words = line.split()
    chain: list[str] = []
    while len(chain) < len(words) and " ".join([*chain, words[len(chain)]]) in options_of():
        chain.append(words[len(chain)])
    if not chain:
        return None if re.match(r"--(?:help|version)\b|[A-Z]+\b", line) else words[0]
    known = {*options_of()[" ".join(chain)], "--help", "--help-all"}
    if not options_of()[" ".join(chain)] and words[len(chain) :] and re.fullmatch("[a-z]+", words[len(chain)]):
        return words[len(chain)]
    options = (word.partition("=")[0] for word in words if word.startswith("--"))
    return next((option for option in options if option not in known), None)


def test_commands_that_prose_names_are_there() -> None:
    paths = [
        *SOURCE.rglob("*.py"),
        *DOCS.rglob("*.md"),
        *(path for path in ROOT.glob("*.md") if path.stem != "CHANGELOG"),
    ]
    lines = {
        (str(path.relative_to(ROOT)), " ".join(line.split()))
        for path in paths
        for line in re.findall(r"`leakmeter ([^`{}]+)`", path.read_text(encoding="utf-8"))
    }
    assert len(lines) > 100
    assert [(path, line) for path, line in sorted(lines) if wrong_command(line)] == []
    wrong = ("query --schema", "runs quary", "runs query --scheme", "regurgitation --csv")
    assert [wrong_command(line) for line in wrong] == ["query", "quary", "--scheme", "regurgitation"]


OTHERS = {"ArrowInvalid", "LEAKMETER_SNAPSHOTS", "LLMResult", "get_dispatcher", "read_table", "to_numpy"}
"""Names of other libraries and of tests that the source does not use as such."""
MADE = {"plausible_noise", "promised_max_divergence", "renyi_2"}
"""Names of measurements that are put together."""
NAMED = re.compile(r"`([a-z]\w*_\w+|_?[A-Z]\w+)(?:\(\))?`")
ANNOTATED = re.compile(r"`\w+: (_?[A-Z]\w*[a-z]\w*)")
"""The class in `source: CaseSource | None = None`."""


def missing_names(text: str, there: set[str], own: set[str]) -> list[str]:
    """Names in backticks that are not there, and classes of annotations that the module itself does not have."""
    of_module = [name for name in ANNOTATED.findall(text) if name not in own]
    return [*(name for name in NAMED.findall(text) if name not in there), *of_module]


def test_functions_and_classes_that_docstrings_name_are_there() -> None:
    there = {name for module in modules().values() for name in module.names}
    there |= {part for path in ends() for part in re.split(r"[/.]", path)} | OTHERS | MADE
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path, module in modules().items()
        for line, text in texts_of(path)
        for name in missing_names(text, there, module.names)
    ]
    assert found == []


def test_which_names_of_docstrings_are_looked_for() -> None:
    gone = "`read_rows()`, `NumberOf`, `_AsIs`, `BACKENDS`, `Gone`"
    names = ["read_rows", "NumberOf", "_AsIs", "BACKENDS", "Gone"]
    assert missing_names(gone, set(), set()) == names
    assert missing_names("`x`, `--a_b`, `A`, `TOOL: ARGUMENTS`", set(), set()) == []
    assert missing_names("`source: Source | None`, `source: CaseSource`", {"Source"}, {"CaseSource"}) == ["Source"]
