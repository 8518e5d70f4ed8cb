"""Runs of every instrument with one field of one file changed, and its hash made anew, as a forger would do it."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from helpers.command_line import Ended, run_command
from helpers.differentiable_toy import DifferentiableToy
from helpers.each_run import run_of_example
from leakmeter.core import registry

NOTE: Final = "Dr. Tovey Lindqvar sails at nine. Call 617-555-0134 for him. The boat is red. Call 617-555-0134."
CASES: Final = [{"id": name, "context": f"{NOTE} Ask {name}.", "query": "Who sails?"} for name in ("a", "b")]
LONG: Final = [
    {**case, "context": NOTE + "".join(f" Boat {i} is at pier {7 * i}." for i in range(12))} for case in CASES
]
MOODS: Final = [
    {"id": f"n{i}", "said": f"Boat {i} {('sank', 'came')[i % 2]}.", "mood": ("Up", "Low")[i % 2]} for i in range(6)
]
SAID: Final = [row["said"] for row in MOODS]
TASK: Final = {"name": "mood", "label_column": "mood", "labels": ["Up", "Low"], "fields": {"said": "Said"}}
QUERIES: Final = [{"id": f"q{i}", "query": f"Who owns boat {i}?"} for i in range(2)]
CONTEXTS: Final = [{"id": f"k{i}", "context": f"Boat {i} is of Ilvane."} for i in range(4)]
PEOPLE: Final = [{"name": f"{name} Dostrel", "phone": f"617-555-01{i}4"} for i, name in enumerate(("Ilvane", "Bo"))]
ODD: Final = (
    *(None, True, False, 0, -1, 3, 2**31, 2**63, 10**40, 10**400, -(10**400), 0.5, -0.5, 1e308, float("nan")),
    *(float("inf"), "", "x", "nobody knows", "\x00\x1b[31m", "\u2028", "9" * 4000, "x" * 200_000, "Infinity", "1"),
    *([], {}, [None], [0], ["x"], [[]], [[0, 1]], [[5, 2]], [{}], {"": ""}, {"a": {"b": [1]}}, [1, 2, 3, 4, 5, 6, 7]),
)
SPEC: Final = "spec.json"
_DECIDING: Final = ("measure", "params", "prompts", "model", "cases", "version")
"""Fields of a spec that make its id."""


@dataclass(frozen=True)
class Whole:
    """A run as it was measured."""

    path: Path
    baseline: Path

    @property
    def measure(self) -> str:
        return self.path.name.rpartition("-")[0]

    @property
    def bound(self) -> str:
        """One that holds, on the first quantity of the measure."""
        return f"{registry.instrument(self.measure).result.quantities[0].name}.max <= 1e300"


def made_runs(folder: Path) -> dict[str, Whole]:
    """A run of each instrument, and of each way of it that keeps other numbers, by its name."""
    import leakmeter as lm

    short = {"max_new_tokens": 4}
    drawn = {"samples": 1, **short}
    icl = {"task": TASK, "exemplars": MOODS[2:5], "label_scoring": "whole-sequence"}
    pairs, asked = [{"input": f"{i}?", "output": f"{i}!"} for i in range(4)], [{"input": "Who?"}, {"input": "When?"}]
    pii = {"kinds": ("twin",), "beams": (1, 2), "decoys": 50, "prompts": 2, "control_names": 1, "keep_values": True}
    audit = {"samples": 2, "seed": 3, "temperature": 2.0}
    behind = {"contexts": CONTEXTS}
    told: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "influence": (lm.influence, CASES, drawn),
        "influence, samples": (lm.influence, CASES, {"samples": 2, "group": True, **short}),
        "influence, entities": (lm.influence, CASES, {"unit": "entity", "swap": True, **drawn}),
        "influence, search": (lm.influence, LONG, {"search": "top:2", "audit": "0.9:2", **drawn}),
        "icl": (lm.icl, MOODS[:2], icl),
        "icl, vocabulary": (lm.icl, MOODS[:2], {"space": "vocabulary", **icl}),
        "icl, responses": (lm.icl_responses, asked, {"exemplars": pairs, **short}),
        "pii": (lm.pii, PEOPLE, pii),
        "susceptibility": (lm.susceptibility, QUERIES, {**behind, "answer_tokens": 3}),
        "fisher": (lm.fisher_susceptibility, QUERIES, {**behind, "probes": 4, "directions": 2}),
        "audit": (lm.generate, SAID, {"subset_size": 3, **audit, **short}),
        "audit, parts": (lm.generate, SAID, {**audit, "max_new_tokens": 101}),
        "redaction": (lm.redact, CASES, {"max_loss": 0.05, **drawn}),
        "decode": (lm.decode, CASES, {"samples": 2, "cid_lambda": 0.5, **short}),
        "decode, epsilon": (lm.decode, CASES, {"samples": 2, "epsilon": 1.0, "seed": 7, **short}),
    }
    out = folder / "runs"
    runs = {
        name: call(DifferentiableToy() if name == "fisher" else "toy", data, out=out, **options)
        for name, (call, data, options) in told.items()
    }
    others = set(registry.instruments()) - {run.measure for run in runs.values()}
    runs |= {name: run_of_example(name, out) for name in others}
    found = {}
    for name, run in runs.items():
        path = run.path
        found[name] = one = Whole(path, folder / f"{path.name}.json")
        ended = run_command(["gate", path, "--max", one.bound, "--allow-drawn", "--write-baseline", one.baseline])
        assert ended.code == 0, ended.err
    return found


@dataclass(frozen=True)
class Mutated:
    """A run with one change."""

    path: Path
    of: Whole
    """The run that it was before."""
    file: str
    change: str
    """What was changed, for who reads of it."""


def mutated(runs: Mapping[str, Whole], seed: int, number: int, folder: Path) -> Mutated:
    """A copy of one of the runs, in a new directory under an empty folder, with the change of this number."""
    draw = random.Random(f"{seed} {number}")
    of = runs[draw.choice(sorted(runs))]
    kind = draw.choices(("cases-", "measurements-", SPEC), (45, 35, 20))[0]
    file = draw.choice(sorted(path.name for path in of.path.iterdir() if path.name.startswith(kind)))
    path = folder / "runs" / of.path.name
    shutil.copytree(of.path, path)
    content = (path / file).read_bytes()
    changed, change = _in_parquet(content, draw) if kind == "measurements-" else _in_json(content, draw)
    (path / file).write_bytes(changed)
    if file != SPEC:
        spec = json.loads((path / SPEC).read_bytes())
        spec["files_sha256"][file] = hashlib.sha256(changed).hexdigest()
        (path / SPEC).write_text(json.dumps(spec), "utf-8")
    elif draw.random() < 0.5:
        path = _named_anew(path)
    return Mutated(path, of, file, f"{file}, {change}")


def _named_anew(path: Path) -> Path:
    """The directory under the name that its spec makes now, where it makes one."""
    record = json.loads((path / SPEC).read_bytes())
    if not isinstance(record, dict) or not {"id", *_DECIDING} <= record.keys() or not record["measure"]:
        return path
    told = {name: record[name] for name in _DECIDING}
    id_ = f"{record['measure']}-{hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]}"
    if re.fullmatch(r"\w+-\w{16}", id_) is None:
        return path
    (path / SPEC).write_text(json.dumps({**record, "id": id_}), "utf-8")
    return path.rename(path.with_name(id_))


def _in_json(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    value = json.loads(content)
    holder, key, place = _place(value, draw)
    what = draw.choice(("replaced", "replaced", "replaced", "replaced", "taken away", "doubled", "negated"))
    old = holder[key]
    if what == "negated" and isinstance(old, int | float):
        holder[key] = -1 - old
    elif what == "taken away":
        del holder[key]
    elif what == "doubled" and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(old))
    elif what == "doubled" and isinstance(old, list):
        old.extend(copy.deepcopy(old))
    else:
        odd = draw.choice([one for one in ODD if one is not old])
        holder[key], what = copy.deepcopy(odd), f"replaced by {repr(odd)[:20]}"
    return json.dumps(value).encode(), f"{place} {what}"


def _place(value: Any, draw: random.Random) -> tuple[Any, Any, str]:
    """A place in a value, as likely near the top as deep in it."""
    holder, key, place = value, draw.choice(_keys(value)), ""
    while True:
        place += f".{key}"
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or draw.random() < 0.25:
            return holder, key, place[1:]
        holder, key = inner, draw.choice(_keys(inner))


def _keys(value: Any) -> list[Any]:
    return list(value) if isinstance(value, dict) else list(range(len(value)))


def _in_parquet(content: bytes, draw: random.Random) -> tuple[bytes, str]:
    table = pq.read_table(pa.BufferReader(content))
    column = draw.choice(table.schema.names)
    rows = table.to_pylist()
    row = draw.randrange(len(rows))
    what = draw.choice(("value", "value", "value", "series", "null", "row", "series gone", "type", "column", "order"))
    change = f"{column} of row {row}, {what}"
    schema = table.schema

    def is_of_series(one: dict[str, Any], of: dict[str, Any] = rows[row]) -> bool:
        return all(one[key] == of[key] for key in ("item", "sample", "piece", "statistic"))

    if what in ("value", "series"):
        odd = _odd_cell(column, rows[row][column], draw)
        # Of a series all rows say the same, as if it had been written so.
        for one in [rows[row]] if what == "value" else [*filter(is_of_series, rows)]:
            one[column] = odd
        change += f" {repr(odd)[:20]}"
    elif what == "null":
        rows[row][column] = None
    elif what == "row":
        rows.insert(row, dict(rows[row])) if draw.random() < 0.5 else rows.pop(row)
    elif what == "series gone":
        rows = [one for one in rows if not is_of_series(one)]
    elif what == "order":
        other = draw.randrange(len(rows))
        rows[row], rows[other] = rows[other], rows[row]
    elif what == "column":
        schema = schema.remove(schema.get_field_index(column))
        rows = [{name: value for name, value in one.items() if name != column} for one in rows]
    else:
        type_ = draw.choice((pa.string(), pa.float64(), pa.int8(), pa.bool_(), pa.list_(pa.string())))
        schema = schema.set(schema.get_field_index(column), pa.field(column, type_))
        made = {pa.string(): "x", pa.float64(): 0.5, pa.int8(): 1, pa.bool_(): True}
        rows = [{**one, column: made.get(type_, ["x"])} for one in rows]
        change += f" {type_}"
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return sink.getvalue(), change


def _odd_cell(column: str, old: Any, draw: random.Random) -> Any:
    if column == "value":
        return draw.choice((float("nan"), float("inf"), -float("inf"), -old - 1.0, 0.5, 1e308, 1e9, 0.0, -1.0))
    if column in ("sample", "position"):
        return draw.choice((-1, old + 1, 2**31 - 1, 0, 5))
    return draw.choice(("", "x", "nobody knows", "token", "s1", "\x1b[31m", "x" * 100_000, "weight", "token id"))


def shown(run: Path) -> Ended:
    """The run shown in a terminal by the library, with its frames."""
    from leakmeter.engine.loading import load_run
    from leakmeter.errors import LeakmeterError

    out = io.StringIO()
    with redirect_stdout(out):
        try:
            loaded = load_run(run)
            loaded.show()
            loaded.to_frame()
            loaded.to_json()
            repr(loaded.quantities())
        except LeakmeterError as error:
            return Ended(2, out.getvalue(), f"leakmeter: {error}\n")
    return Ended(0, out.getvalue(), "")


def fell(ended: Ended, file: str) -> str | None:
    """Why an outcome on a run, of which this file was changed, is none that a user may meet; None where it is one.

    Code 1 is a bound that a number which was changed breaks.
    """
    if "internal error" in ended.err:
        return "unforeseen"
    if ended.code in (0, 1):
        return None
    lines = ended.err.splitlines()
    if ended.code != 2 or len(lines) != 1 or len(lines[0]) > 500:
        return f"code {ended.code}, {len(lines)} lines"
    if any(said in lines[0] for said in REFUSED):
        return None
    part = file.partition("-")[2].partition(".")[0] or r"\d+"
    # Of what two files say, either may be the wrong one.
    named = rf"damaged: (spec\.json|cases-{part}\.json|measurements-{part}\.parquet), \S.*: "
    return None if re.search(named, lines[0]) else "not named"


REFUSED: Final = ("have numbers that mean different things", "no measure named")
"""What is said of a whole run, and so of one whose settings were changed and its id with them."""


def calls(run: Mutated, folder: Path) -> Iterator[tuple[str, Callable[[], Ended]]]:
    """What is tried on a run that is alone in its directory, by name; written into a folder."""
    of, own = run.of, f"{run.of.measure}_results"
    words: dict[str, list[object]] = {
        "report": ["report", run.path, "--html", folder / "page.html", "--markdown", folder / "page.md"],
        "report of two": ["report", of.path, run.path, "--html", folder / "pages.html"],
        "gate": ["gate", run.path, "--max", of.bound, "--allow-drawn", "--write-baseline", folder / "baseline.json"],
        "gate, against": ["gate", run.path, "--allow-drawn", "--against", of.baseline],
        "compare": ["runs", "compare", of.path, run.path],
        "show": ["runs", "show", run.path],
        "list": ["runs", "list", "--runs", run.path.parent],
        "export": ["runs", "export", run.path, "--out", folder / "export"],
        "export, redacted": ["runs", "export", run.path, "--out", folder / "export.csv", "--redact"],
    }
    for view in ("measurements", "cases", "runs", "results", "pieces", "quantities", own):
        words[f"query {view}"] = ["runs", "query", f"select * from {view}", "--runs", run.path, "--json"]
    yield from ((name, partial(run_command, of_command)) for name, of_command in words.items())
    yield "terminal", partial(shown, run.path)
