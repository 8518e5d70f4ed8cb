"""Pages of the site that are made of the code and of the notebooks: commands, public names, fields, terms and lists.

They are made when the site is built and never written into the checkout.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import leakmeter
from leakmeter import runs
from leakmeter.cli import program
from leakmeter.core import registry
from leakmeter.core.quantity import Quantity
from leakmeter.data.traces.answer import Reason
from leakmeter.report.glossary import TERMS, Term
from leakmeter.results.query import VIEWS, all_views
from leakmeter.results.views import SqlColumn
from leakmeter.text.entities.packs.checksums import CHECKSUMS

PACKS = Path(leakmeter.__file__).parent / "text" / "entities" / "packs"
NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))
ABOUT_COMMANDS = """# Command line

`leakmeter COMMAND --help` says the same in a terminal. [Exit codes](../environment.md).

"""
ABOUT_TERMS = """# Glossary

The terms of reports, each in one line. [Concepts](../concepts.md) defines the quantities.

| term | meaning |
| --- | --- |
"""
ABOUT_FIELDS = """# Fields of results

What `--json` prints, a table a command, made of its JSON schema (`leakmeter runs schema
NAME`). In Python the fields have the same names.
A missing value is null; infinity is the text "Infinity".

"""
ABOUT_COLUMNS = """# Columns of SQL views

The columns of `leakmeter runs query`, a table a view, made of the code. [Runs](../runs.md#query) has examples;
`leakmeter runs query --schema` prints these columns and those of each instrument's own views.

"""
ABOUT_QUANTITIES = """# Quantities

The numbers that `leakmeter gate` bounds and `quantities` in SQL has, a table an instrument, made of the code. The
aggregate in brackets is the default; other quantities need one, as in `influence.mean`. [A gate](../gate.md#bounds)
says how bounds are written.

"""
ABOUT_RECOGNISERS = """# Recognisers

The [packs](../recognisers.md) that are part of leakmeter, and the checksums that a pack may name, made of the code.

"""
ABOUT_REASONS = """# Why a call is refused

Why a call of [logged traffic](../traces.md) is refused, by the word that reports and JSON have for it.

| reason | meaning |
| --- | --- |
"""
ABOUT_NAMES = """# Python

Everything public of `leakmeter`, made of its docstrings. All log-probabilities are natural: nats.

"""


def commands_page() -> str:
    """Every command, as cyclopts describes it from the functions and dataclasses that it is made of."""
    names = [name for name in program() if not name.startswith("-")]
    # A command has its own, longer help where it is the one that was asked for.
    pages = [program([name])[name].generate_docs(heading_level=2, usage_name=f"leakmeter {name}") for name in names]
    # The list of commands below says the same as the contents of a group.
    return ABOUT_COMMANDS + "\n".join(re.sub(r"## Table of Contents\n\n( *- .*\n)+\n", "", page) for page in pages)


def notebook_page(path: Path) -> str:
    """A notebook with its outputs: texts, tables and pictures."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [_output(output) for output in cell["outputs"]]
    return "\n\n".join([*parts, ""])


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f'<img alt="Plot" src="data:image/png;base64,{data["image/png"].strip()}">'
    if "text/html" in data:
        page = re.sub(r"<style.*?</style>|\n\s*", "", "".join(data["text/html"]), flags=re.DOTALL)
        # The corner of a DataFrame's table heads nothing.
        return page.replace("<th></th>", "<td></td>")
    text = "".join(data.get("text/plain", output.get("text", "")))
    return f"```text\n{text.rstrip()}\n```"


def terms_page() -> str:
    """Every term that a report explains."""
    rows = (f"| {term.name} | {term.gloss.replace('|', chr(92) + '|')} |\n" for term in sorted(TERMS, key=_by_name))
    return ABOUT_TERMS + "".join(rows)


def _by_name(term: Term) -> str:
    return term.name.casefold()


def fields_page() -> str:
    """The fields of each kind of result, and of the objects within it."""
    return ABOUT_FIELDS + "\n".join(_fields_of(name) for name in runs.all_printed())


def _fields_of(name: str) -> str:
    schema = runs.schema(name)
    tables = [f"## {name}\n", *_table(schema)]
    for part, within in schema.get("$defs", {}).items():
        if within.get("properties"):
            tables += [f"### {name}: {part}\n", *_table(within)]
    return "\n".join(tables)


def _table(schema: dict[str, Any]) -> list[str]:
    rows = [
        f"| `{field}` | {' '.join(about.get('description', '').split()).replace('|', chr(92) + '|')} |"
        for field, about in schema["properties"].items()
    ]
    return ["| field | meaning |", "| --- | --- |", *rows, ""]


def columns_page() -> str:
    """The columns of the views that runs of all instruments have."""
    views = all_views()
    return ABOUT_COLUMNS + "\n".join(_columns_of(name, views) for name in ("pieces", "quantities", *VIEWS))


def _columns_of(view: str, views: Mapping[str, Sequence[SqlColumn]]) -> str:
    rows = (f"`{column.name}` {column.type} | {column.about}\n" for column in views[view])
    return f"## {view}\n\n`{view}` | meaning\n--- | ---\n{''.join(rows)}"


def quantities_page() -> str:
    """What of the results of each instrument can be bounded."""
    tables = []
    for name in registry.instruments():
        rows = [
            f"| `{one.name}`{f' ({one.usual})' if isinstance(one, Quantity) and one.usual else ''} | {one.unit} "
            f"| {_cell(one.about)}{' Less is worse.' if one.worse == 'less' else ''} |\n"
            for one in registry.instrument(name).result.quantities
        ]
        tables.append(f"## {name}\n\n| quantity | unit | meaning |\n| --- | --- | --- |\n{''.join(rows)}")
    return ABOUT_QUANTITIES + "\n".join(tables)


def recognisers_page() -> str:
    """Every pack with the kinds of its recognisers, and every checksum."""
    packs = []
    for path in sorted(PACKS.glob("*.toml")):
        pack = tomllib.loads(path.read_text(encoding="utf-8"))
        kinds = dict.fromkeys(one["kind"] for one in pack["recogniser"])
        packs.append(f"| `{path.name}` | {_cell(pack['about'])} | {', '.join(map(_cell, kinds))} |\n")
    sums = (f"| `{name}` | {_cell(' '.join((check.__doc__ or '').split()))} |\n" for name, check in CHECKSUMS.items())
    return (
        f"{ABOUT_RECOGNISERS}## Packs\n\n| pack | what it is | kinds |\n| --- | --- | --- |\n{''.join(packs)}\n"
        f"## Checksums\n\n| name | what is checked |\n| --- | --- |\n{''.join(sums)}"
    )


def reasons_page() -> str:
    """Why a call of a log is refused."""
    return ABOUT_REASONS + "".join(f"| `{reason.value}` | {_cell(reason.sentence)} |\n" for reason in Reason)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def names_page() -> str:
    """A directive for each public name, at the place where it is defined: functions, then what they return."""
    public = {name: getattr(leakmeter, name) for name in leakmeter.__all__ if not name.startswith("__")}
    blocks = []
    for name, found in sorted(public.items(), key=lambda one: (inspect.isclass(one[1]), one[0])):
        where = f"{found.__module__}.{found.__qualname__}"
        block = f'::: {where}\n    options:\n      heading: "leakmeter.{name}"\n      toc_label: "{name}"\n'
        # The options of a function that dataclasses give are in its signature at run time alone.
        if hasattr(found, "__signature__"):
            block += f"      show_signature: false\n\n{signature_of(name, found)}"
        blocks.append(block)
    return ABOUT_NAMES + "\n".join(blocks)


def signature_of(name: str, function: Any) -> str:
    """Every parameter of a function, as `help` shows it, a line each."""
    shown = inspect.signature(function)
    # Annotations are texts here, in quotes.
    lines: list[str] = []
    for one in shown.parameters.values():
        if one.kind is one.KEYWORD_ONLY and "    *," not in lines:
            lines.append("    *,")
        lines.append(re.sub(r": '(.+?)'( = |$)", r": \1\2", f"    {one}") + ",")
    returned = str(shown.return_annotation).strip("'")
    return "\n".join(["```python", f"{name}(", *lines, f") -> {returned}", "```", ""])


def on_config(config: Any) -> Any:
    """Called by mkdocs with its settings: the results are those of their list, in its order and under its words."""
    listed = (Path(config.docs_dir) / "results" / "README.md").read_text(encoding="utf-8")
    (section,) = [entry["Results"] for entry in config.nav if "Results" in entry]
    pages = re.findall(r"^\| \[(.+?)\]\((\w+\.md)\)", listed, re.MULTILINE)
    section += [{title: f"results/{page}"} for title, page in pages]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs with the files that it found."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "reference/cli.md", content=commands_page()))
    files.append(File.generated(config, "reference/api.md", content=names_page()))
    for path in NOTEBOOKS:
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook_page(path)))
    files.append(File.generated(config, "reference/glossary.md", content=terms_page()))
    files.append(File.generated(config, "reference/fields.md", content=fields_page()))
    files.append(File.generated(config, "reference/columns.md", content=columns_page()))
    files.append(File.generated(config, "reference/quantities.md", content=quantities_page()))
    files.append(File.generated(config, "reference/recognisers.md", content=recognisers_page()))
    files.append(File.generated(config, "reference/reasons.md", content=reasons_page()))
    return files
