"""Any bytes give a result, or an error for users of one line: every reader of files, templates, patterns and SQL.

Five seconds in all, shared by the fuzzers; LEAKMETER_FUZZ_SECONDS gives them more (`make fuzz`), and
LEAKMETER_FUZZ_SEED other inputs. What was found lies in `corpus`, a folder a fuzzer, and is tried first.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

from helpers import logged_formats, logged_traffic
from helpers.each_run import copied, runs_by_name, runs_of_each
from helpers.fuzzing import SECONDS, SECRET, as_json, fuzz, holds, json_files, spoilt_bytes, spoilt_values
from helpers.llama_gguf import write_gguf
from helpers.logged_traffic import WRITERS, exchanges
from helpers.measured_runs import run as measured_run
from leakmeter.commands.studies.grid import load_study
from leakmeter.core.case import Document
from leakmeter.data.cases import cases_of, logged_case
from leakmeter.data.tasks import load_task
from leakmeter.data.traces import TraceReader
from leakmeter.engine.loading import load_run
from leakmeter.engine.storage.catalogue import complete_runs, entries
from leakmeter.engine.storage.verify import verify
from leakmeter.errors import LeakmeterError
from leakmeter.instruments.generation import command
from leakmeter.instruments.pii.probe import load_templates
from leakmeter.instruments.pii.subjects import load_subjects
from leakmeter.instruments.susceptibility.case import load_contexts, load_queries
from leakmeter.instruments.susceptibility.relations import load_relations
from leakmeter.models.gguf import convert
from leakmeter.products.gate.baseline import baseline_of, hold_against, read_baseline
from leakmeter.products.ledger.keys import Keys
from leakmeter.products.ledger.store import SUBJECTS, Ledger
from leakmeter.products.ledger.subjects import read_edits
from leakmeter.products.ledger.tables import checksum
from leakmeter.results.limits import QueryLimits
from leakmeter.results.query import ask
from leakmeter.text.entities import pattern
from leakmeter.text.entities.fields import find as said_fields
from leakmeter.text.entities.find import find
from leakmeter.text.structured import fields_of, stretches
from leakmeter.text.templates import FilledTemplate, resolved

CORPUS: Final = Path(__file__).with_name("corpus")
SAMPLES: Final = Path(__file__).parents[2] / "src" / "leakmeter" / "data" / "samples"
STUDIES: Final = SAMPLES.parents[1] / "commands" / "studies" / "papers"
KEY: Final = b"k" * 32


@dataclass(frozen=True)
class Target:
    """What is fuzzed: contents, and what reads one from a folder that is empty before."""

    contents: st.SearchStrategy[bytes]
    read: Callable[[bytes, Path], object]


CASES: Final = (
    {"id": "a", "query": "Who?", "context": [{"name": "note", "text": SECRET}, SECRET], "response": SECRET},
    {"query": "Who?", "context": SECRET, "reference": SECRET, "decoding": "greedy", "response": "Dora."},
    {"query": "Who?", "context": {"one": SECRET, "two": "Bo ate."}},
    {"messages": [{"role": "user", "content": SECRET}, {"role": "assistant", "content": [{"type": "text"}]}]},
    {
        "custom_id": "1",
        "body": {"messages": [{"role": "user", "content": SECRET}]},
        "response": {"body": {"choices": [{"message": {"content": SECRET}}, {"message": {"content": "no"}}]}},
    },
    {"query_str": "Who?", "source_nodes": [{"node": {"text": SECRET, "metadata": {"title": "t"}}}], "response": SECRET},
    {"question": "Who?", "context": SECRET, "answers": {"text": [SECRET], "answer_start": [0]}, "title": "t"},
    {"title": "t", "paragraphs": [{"context": SECRET, "qas": [{"id": "1", "question": "Who?", "answers": [SECRET]}]}]},
    {"user_input": "Who?", "retrieved_contexts": [SECRET], "response": SECRET, "reference": SECRET},
    {"input": "Who?", "source_documents": [{"kwargs": {"page_content": SECRET}}], "result": {"content": SECRET}},
    {"data": [{"query": "Who?", "context": SECRET}]},
    {"query": ["Who?", "Where?"], "context": [SECRET, SECRET]},
    {"a": {"query": "Who?", "context": SECRET}, "b": {"query": "Where?", "context": SECRET}},
)
LINES: Final = b"".join(as_json(one) + b"\n" for one in CASES[:3])
TABLE: Final = f'id,query,context,response\n1,Who?,"{SECRET}\nIt is said.",\n2,"Wh""o?",{SECRET},{SECRET}\n'.encode()


def _file(name: str, content: bytes, folder: Path) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _cases(name: str, content: bytes, folder: Path) -> None:
    for skip_bad in (False, True):
        cases_of(_file(name, content, folder), skip_bad=skip_bad)


def _parquet() -> tuple[bytes, ...]:
    made = []
    for compression in ("none", "zstd", "snappy"):
        sink = io.BytesIO()
        rows = [{"id": str(i), "query": "Who?", "context": SECRET, "response": SECRET} for i in range(5)]
        pq.write_table(pa.Table.from_pylist(rows), sink, compression=compression)
        made.append(sink.getvalue())
    return tuple(made)


def _traces(name: str, content: bytes, folder: Path) -> None:
    path = _file("log.jsonl", content, folder)
    for format_ in (None, name.removesuffix("_batch")):
        for one in TraceReader(path, format=format_):
            assert SECRET in repr(one) or "\n" not in repr(one)


def _trace_files(name: str) -> st.SearchStrategy[bytes]:
    records = logged_traffic.records(WRITERS[name], exchanges(2, words=8))
    lines = st.lists(spoilt_values(tuple(records)).map(as_json), min_size=1, max_size=3).map(b"\n".join)
    return st.one_of(lines, spoilt_bytes((b"\n".join(map(as_json, records)), as_json(records))))


def _subjects(name: str, content: bytes, folder: Path) -> None:
    for skip_bad in (True, False):
        load_subjects(_file(name, content, folder), skip_bad=skip_bad)


def _queries(content: bytes, folder: Path) -> None:
    path = _file("queries.jsonl", content, folder)
    try:
        load_contexts(path)
    except LeakmeterError as error:
        assert SECRET not in str(error)  # noqa: PT017 - the next one may raise too
    load_queries(path)


def _edits(content: bytes, folder: Path) -> None:
    _file(SUBJECTS, content, folder)
    read_edits(Ledger(folder, Keys(KEY)))


def _read_by(read: Callable[[Any], object], name: str, of: type = Path) -> Callable[[bytes, Path], object]:
    """A file of that name is read from its path, as a path or as a text."""
    return lambda content, folder: read(of(_file(name, content, folder)))


EDITS: Final = b'[[same]]\nsubjects = ["a1", "b2"]\n[[apart]]\nsubjects = ["c3"]\n'


def _baseline() -> dict[str, Any]:
    return baseline_of([measured_run([1.0, 2.0, None])], ("leak", "leak.right"), KEY).to_dict()


def _held_against(path: Path) -> None:
    hold_against(measured_run([1.0, 2.0, 3.0]), 1, read_baseline(path), KEY)


_SEPARATOR: Final = b"\0\0a file of a run\0\0"


def _run_files(*, receipts: bool) -> tuple[bytes, ...]:
    """Each file of each run, with the names of both before it."""
    out = []
    for run, folder in runs_by_name().items():
        if run.startswith(("decode", "private_generation")) == receipts:
            out += [
                _SEPARATOR.join((run.encode(), path.name.encode(), path.read_bytes()))
                for path in sorted(folder.glob("[!.]*"))
            ]
    return tuple(out)


@st.composite
def _spoilt_run(draw: st.DrawFn, *, receipts: bool) -> bytes:
    run, name, content = draw(st.sampled_from(_run_files(receipts=receipts))).split(_SEPARATOR)
    if name.endswith(b".json") and draw(st.integers(0, 3)):
        content = as_json(draw(spoilt_values((json.loads(content),))))
    else:
        content = draw(spoilt_bytes((content,)))
    return _SEPARATOR.join((run, name, content))


def _run(content: bytes, folder: Path) -> None:
    """A run of which one file was changed, and then its hash too, as nobody but a forger would."""
    parts = content.split(_SEPARATOR)
    if len(parts) != 3 or parts[0].decode() not in runs_by_name():
        return
    run, name, held = parts[0].decode(), parts[1].decode(), parts[2]
    path = copied(run, folder)
    (path / name).write_bytes(held)
    holds(partial(_read_run, path))
    if name != "spec.json":
        spec = json.loads((path / "spec.json").read_bytes())
        spec["files_sha256"][name] = hashlib.sha256(held).hexdigest()
        (path / "spec.json").write_text(json.dumps(spec), "utf-8")
        holds(partial(_read_run, path))


def _read_run(path: Path) -> None:
    verify(path)
    list(entries(path.parent))
    loaded = load_run(path)
    for case in loaded.cases:
        # What may be published of a bounded decoding: its receipt.
        _ = getattr(case, "public", None)
    loaded.report()


@cache
def _ledger() -> bytes:
    with tempfile.TemporaryDirectory() as made:
        ledger = Ledger(Path(made, "ledger"), Keys(KEY))
        mention = {"content": "c", "entity": "e", "kind": "person", "n_mentions": 1, "words": ["w"], "initials": []}
        measured = {"score": "s", "unit": "document", "n_tokens": 2, "kept": True}
        kept = {"score": "s", "kept": json.dumps({"texts": {"context": SECRET}, "params": {}, "measurements": []})}
        ledger.commit({"mentions": [mention], "measured": [measured], "texts": [kept]}, model={"name": "toy"})
        return ledger.file.read_bytes()


def _spoilt_ledger() -> st.SearchStrategy[bytes]:
    """Files, and values of cells in JSON."""
    cells = (
        *(("ledger", name) for name in ("model", "mark", "n_commits")),
        *(("tombstones", name) for name in ("kind", "n_rows")),
        *(("mentions", name) for name in ("content", "n_mentions", "words")),
        *(("texts", name) for name in ("score", "kept")),
    )
    held = st.one_of(
        json_files({"name": SECRET}).map(lambda content: content.decode("utf-8", "replace")),
        *(st.none(), st.text(max_size=20), st.integers(-(2**63), 2**63 - 1), st.floats()),
    )
    spoilt = st.tuples(st.sampled_from(cells), held).map(lambda cell: _SEPARATOR + json.dumps(cell).encode())
    return st.one_of(spoilt_bytes((_ledger(),)), spoilt)


def _read_ledger(content: bytes, folder: Path) -> None:
    ledger = Ledger(folder, Keys(KEY))
    if content.startswith(_SEPARATOR):
        (table, column), value = json.loads(content[len(_SEPARATOR) :])
        ledger.file.write_bytes(_ledger())
        with closing(sqlite3.connect(ledger.file)) as database, database:
            database.execute("INSERT INTO tombstones VALUES ('document', '2026-01-01', 1)")
            database.execute(f"UPDATE {table} SET {column} = ?", (value,))
            for number, *values, _ in database.execute("SELECT * FROM mentions").fetchall():
                database.execute("UPDATE mentions SET checksum = ? WHERE number = ?", (checksum(values), number))
    else:
        ledger.file.write_bytes(content)
    for read in (ledger.verify, ledger.read, ledger.texts, partial(ledger.part, "s")):
        holds(read)


def _template(content: bytes, folder: Path) -> None:
    given = content.decode("utf-8", "surrogateescape")
    for template in (given, f"@{_file('template.txt', content, folder)}"):
        try:
            text = resolved(template)
        except LeakmeterError:
            if template == given:
                continue
            raise
        if text is not None and text.count("{context}") == 1 and text.count("{query}") <= 1:
            filled = FilledTemplate("own", text, [Document("a", SECRET), Document("b", "Bo {query}.")], "Who?")
            joined = "".join(segment.text for segment in filled.segments([SECRET, "Bo {query}."]))
            assert SECRET in joined
            assert 0 <= filled.place() <= len(joined)


def _patterns(content: bytes, folder: Path) -> None:
    held = pattern.resolved(str(_file("patterns.txt", content, folder)))
    text = f"{SECRET} of MRN-12345, aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"
    assert held is not None
    find(text, [(0, len(text))], region="US", patterns=pattern.parse(held))


PATTERNS: Final = (
    b"mrn = MRN-\\d{5}\n# known\nname = (?P<value>[A-Z][a-z]+) [A-Z]\n",
    b"a = (a+)+b\nb = (?i)dora|(x{1,20}){1,20}\nc = (?<=D)ora(?!x)\n",
)


def _entities(content: bytes, folder: Path) -> None:
    text = content.decode("utf-8", "replace")
    found = find(text, [(0, len(text) // 2), (len(text) // 2, len(text))], region="DE")
    for entity in found:
        assert all(0 <= start < end <= len(text) for start, end in entity.mentions)


def _fields(content: bytes, folder: Path) -> None:
    text = content.decode("utf-8", "replace")
    end = 0
    for stretch in stretches(text):
        assert end <= stretch.start <= stretch.end <= len(text)
        at = stretch.start
        for field in stretch.fields:
            assert at <= field.pair[0] <= field.value[0] <= field.value[1] <= field.pair[1] <= stretch.end
            assert field.path
            at = field.pair[1]
        end = stretch.end
    answer = text[::2]
    for said in said_fields(answer, fields_of(text), "US"):
        assert 0 <= said.start < said.end <= len(answer)


RECORDS: Final = (
    b'USER DATA:\n{"name": "Dora Haas", "n": [1, 2.5e3, {"k": "[\'a\', \'b\']"}], "j": "{\\"x\\": \\"\\\\u00e9\\"}"}',
    b"{'a': True, 'd': date(2026, 5, 3), 1: (None, u'x'), 's': '2026-05-03', 'm': 173746}",
    b'name,score,city\nDora,612,"Graz, A"\nBo,,Wien\n\n| a | b |\n|---|:-:|\n| 1 | x \\| y |\n',
)
TEXTS: Final = (
    b"Call Dr. Dora Haas at +1 202 555 0143 or dora.haas@example.com, 12 Main Street, Springfield, IL 62701.",
    "Frau Müller, geb. 3.4.1981, wohnt in der Hauptstraße 5, 8010 Graz; Tel. 0316/123456.".encode(),
)


@cache
def _queried() -> list[Path]:
    return [path for path in complete_runs(runs_of_each())[0] if path.name.startswith(("influence", "decode"))]


_WORDS: Final = (
    *("select", "*", "from", "measurements", "cases", "runs", "where", "group by", "order by", "limit", "1", "-1", "0"),
    *("count(*)", "avg(value)", "value", "item", "piece", "texts", "'x'", "''", "(", ")", ",", ";", "--", "/*", "*/"),
    *("union all", "join", "on", "using", "with t as", "recursive", "cast(", "as", "integer", "::json", "->>", "'$.a'"),
    *("read_csv('/etc/passwd')", "read_text('*')", "glob('*')", "attach 'x'", "copy", "pragma", "install httpfs"),
    *("range(10)", "unnest([1, 2])", "null", "1e400", "nan", "interval", "date '2020-13-01'", "\x00", "\u2028", "🙂"),
    *('"', "$1", "?", "{", "}", "x -> x", "case when", "end", "distinct", "having", "lateral", "pivot", "results"),
    *("pieces", "error(texts)", "cast(texts as integer)", "texts::date", "strptime(texts, '%')"),
    "regexp_matches(texts, '(')",
)
_WHOLE_QUERIES: Final = (
    b"select item, avg(value) from measurements where unit = 'nats' group by item order by 1",
    b"select texts->>'$.query' from cases join runs on cases.run = runs.id where n_cases > 1",
    b"with t as (select * from results) select count(*) from t",
)


def _query(content: bytes, folder: Path) -> None:
    answer = ask(content.decode("utf-8", "replace"), _queried(), QueryLimits(memory="200MB", max_seconds=2))
    for _ in zip(answer.rows, range(1000), strict=False):
        pass


@cache
def _ggufs() -> tuple[bytes, ...]:
    with tempfile.TemporaryDirectory() as made:
        path = Path(made, "tiny.gguf")
        named = {"model": "gpt2", "pre": "default", "merges": ["a b"], "bos_token_id": 2}
        write_gguf(path, ["a", "b", "<s>", "ab"], [1, 1, 3, 1], **named)
        return (path.read_bytes()[:2000],)


def _sql() -> st.SearchStrategy[bytes]:
    words = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=14)
    made = st.one_of(words, words.map(lambda some: ["select", *some])).map(" ".join)
    return st.one_of(made.map(lambda text: text.encode("utf-8", "replace")), spoilt_bytes(_WHOLE_QUERIES))


def _files(*paths: Path) -> st.SearchStrategy[bytes]:
    return spoilt_bytes(tuple(path.read_bytes() for path in paths))


def _targets() -> dict[str, Callable[[], Target]]:
    rows = json_files(*CASES)
    lines = st.one_of(
        st.lists(spoilt_values(CASES).map(as_json), min_size=1, max_size=3).map(b"\n".join), spoilt_bytes((LINES,))
    )
    logs = logged_formats.records(SECRET)
    conversations = st.lists(spoilt_values(logs).map(as_json), min_size=1, max_size=3).map(b"\n".join)
    tables = spoilt_bytes((TABLE, TABLE.replace(b",", b";"), TABLE.replace(b",", b"\t")))
    return {
        "lines": lambda: Target(lines, partial(_cases, "cases.jsonl")),
        "json": lambda: Target(rows, partial(_cases, "cases.json")),
        "conversations": lambda: Target(conversations, partial(_cases, "log.jsonl")),
        "archives": lambda: Target(spoilt_bytes((logged_formats.eval_archive(SECRET),)), partial(_cases, "log.eval")),
        "csv": lambda: Target(tables, partial(_cases, "cases.csv")),
        "unknown": lambda: Target(st.one_of(rows, lines, tables), partial(_cases, "cases")),
        "packed": lambda: Target(
            st.one_of(lines.map(gzip.compress), spoilt_bytes((gzip.compress(LINES, mtime=0),))),
            partial(_cases, "cases.jsonl.gz"),
        ),
        "parquet": lambda: Target(spoilt_bytes(_parquet()), partial(_cases, "cases.parquet")),
        "chat": lambda: Target(json_files(*CASES[3:5], CASES[3]["messages"]), _read_by(logged_case, "chat.json")),
        **{
            f"traces_{name}": partial(lambda of: Target(_trace_files(of), partial(_traces, of)), name)
            for name in WRITERS
        },
        "subjects": lambda: Target(
            st.one_of(_files(SAMPLES / "subjects.toml"), spoilt_bytes((EDITS,))), partial(_subjects, "people.toml")
        ),
        "subjects_json": lambda: Target(
            json_files([{"name": "Dora Haas", "phone": "+12025550143", "relationships": {"father": SECRET}}]),
            partial(_subjects, "people.json"),
        ),
        "probes": lambda: Target(
            spoilt_bytes((b'twin = ["Call {name} at", "x"]\n',)), _read_by(load_templates, "p.toml")
        ),
        "relations": lambda: Target(
            _files(*sorted((SAMPLES / "relations").iterdir())), _read_by(load_relations, "r.toml", str)
        ),
        "queries": lambda: Target(
            spoilt_bytes(tuple((SAMPLES / name).read_bytes()[:2000] for name in ("queries.jsonl", "contexts.jsonl"))),
            _queries,
        ),
        "study": lambda: Target(_files(*sorted(STUDIES.glob("*.toml"))), _read_by(load_study, "study.toml", str)),
        "audit": lambda: Target(_files(SAMPLES / "generate.toml"), _read_by(command._read, "generate.toml")),
        "task": lambda: Target(_files(SAMPLES / "tickets.toml"), _read_by(load_task, "task.toml", str)),
        "edits": lambda: Target(spoilt_bytes((EDITS,)), _edits),
        "baseline": lambda: Target(json_files(_baseline()), _read_by(_held_against, "baseline.json")),
        "run": lambda: Target(_spoilt_run(receipts=False), _run),
        "receipt": lambda: Target(_spoilt_run(receipts=True), _run),
        "ledger": lambda: Target(_spoilt_ledger(), _read_ledger),
        "template": lambda: Target(spoilt_bytes((b"Notes: {context}\n\nQ: {query}\n", b"{context}")), _template),
        "patterns": lambda: Target(spoilt_bytes(PATTERNS), _patterns),
        "entities": lambda: Target(spoilt_bytes(TEXTS), _entities),
        "fields": lambda: Target(st.one_of(spoilt_bytes(RECORDS), json_files(*CASES)), _fields),
        "query": lambda: Target(_sql(), _query),
        "gguf": lambda: Target(
            spoilt_bytes(_ggufs()),
            lambda content, folder: convert(
                _file("own.gguf", content, folder), folder / "converted", gguf_sha256="0" * 64, source={}
            ),
        ),
    }


TARGETS: Final = _targets()


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.filterwarnings("default")
def test_any_bytes_give_a_result_or_an_error_of_one_line(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]()
    n_tried = 0

    def check(content: bytes) -> None:
        nonlocal n_tried
        n_tried += 1
        folder = tmp_path / str(n_tried)
        folder.mkdir()
        try:
            holds(partial(target.read, content, folder))
        finally:
            shutil.rmtree(folder)

    for found in sorted((CORPUS / name).glob("*")):
        check(found.read_bytes())
    assert fuzz(target.contents, check, SECONDS / len(TARGETS)) > 0


def test_the_corpus_is_of_fuzzers_that_there_are() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= set(TARGETS)
