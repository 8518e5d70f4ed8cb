"""Files of documents to a file of people: what is read, what is written, and what a kill leaves."""

from __future__ import annotations

import errno
import functools
import gzip
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pyarrow as pa
import pytest

from helpers.extracted_words import Words
from helpers.places import TESTS
from leakmeter.data import documents, streamed
from leakmeter.data.documents import Bad, DocumentText, documents_of
from leakmeter.errors import DataError, StoreError, UsageError
from leakmeter.instruments.pii import extraction
from leakmeter.instruments.pii.extraction import Relationships, Structured, extract
from leakmeter.instruments.pii.subject import Subject
from leakmeter.instruments.pii.subjects import load_subjects
from leakmeter.text.entities import address, email, phone

STRUCTURED = Structured(
    email.find, functools.partial(phone.find, region="US"), functools.partial(address.find, region="US")
)


def lines_of(*texts: Any) -> bytes:
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


def records(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def read(path: Path) -> list[DocumentText | Bad]:
    return [document for _, document in documents_of([path], "text")]


# Reading


def test_json_lines_and_text_compressed_or_not(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + lines_of("one", "zwei\nü") + b"\n  \n" + lines_of("")[:-1])
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress((tmp_path / "a.jsonl").read_bytes()))
    expected = [DocumentText(1, 1, "one"), DocumentText(2, 1, "zwei\nü"), DocumentText(5, 1, "")]
    assert read(tmp_path / "a.jsonl") == read(tmp_path / "a.jsonl.gz") == expected
    (tmp_path / "b.txt").write_bytes("﻿Zoë\r\n\xa0\n\0 end".encode())
    (tmp_path / "b.txt.GZ").write_bytes(gzip.compress((tmp_path / "b.txt").read_bytes()))
    assert read(tmp_path / "b.txt") == read(tmp_path / "b.txt.GZ") == [DocumentText(1, 1, "Zoë\r\n\xa0\n\0 end")]


@pytest.mark.parametrize("suffix", [".csv.gz", ".json", ".parquet", ".parquet.gz", ".jsonl.zst"])
def test_tables_are_read_row_by_row(tmp_path: Path, suffix: str) -> None:
    texts = [f"ä, {n}\nend" for n in range(8)]
    path, frame = tmp_path / f"a{suffix}", pd.DataFrame({"n": range(8), "text": texts})
    if "csv" in suffix:
        frame.to_csv(path, index=False)
    elif "parquet" in suffix:
        packed = frame.to_parquet()
        path.write_bytes(gzip.compress(packed) if suffix.endswith(".gz") else packed)
    elif "zst" in suffix:
        path.write_bytes(pa.Codec("zstd").compress(lines_of(*texts), asbytes=True))
    else:
        path.write_text(json.dumps([{"text": text} for text in texts]))
    assert read(path) == [DocumentText(n, 1, text) for n, text in enumerate(texts, 1)]


def test_hostile_texts_are_data(tmp_path: Path) -> None:
    names = ["{0} %s", "<script>", "\ud800", "\0", "<|endoftext|>", "[bold]x[/bold]", "\u202e\n"]
    (tmp_path / "a.jsonl").write_bytes(lines_of(*(f"Ada Vale {name} <a@x.example> 1 2 3 4 5 6" for name in names)))
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\x00\x80 ada@x.example " + b"\xf0\x9f" + b"\n" * 5)
    result = extract([tmp_path / "a.jsonl", tmp_path / "b.txt"], tmp_path / "out.jsonl", Words())
    assert result.n_documents == 8
    assert extract([tmp_path / "a.jsonl"], tmp_path / "other.jsonl", STRUCTURED).n_documents == 7


def test_a_long_document_is_read_in_parts(tmp_path: Path) -> None:
    text = "one@x.example\n" + "word " * 20_000 + "two@x.example\n"
    (tmp_path / "a.jsonl").write_bytes(lines_of("none", text))
    (tmp_path / "b.txt").write_text(text.replace("@x", "@y") + "three@y.example", encoding="utf-8")
    result = extract([tmp_path / "a.jsonl", tmp_path / "b.txt"], tmp_path / "out.jsonl", Words())
    ids = [one["id"] for one in records(tmp_path / "out.jsonl")]
    assert ids == ["1:2", "1:2.3", "2:1", "2:2.2", "2:2.2/2"]
    assert (result.n_documents, result.n_subjects, result.n_duplicates) == (4, 5, 0)


def test_the_output_is_for_the_user_alone_bad_lines_are_counted_and_a_person_is_written_once(tmp_path: Path) -> None:
    texts, most = ["zoë@x.example ZOË@x.example", "zoe@x.example", "Zoë@X.example"], extraction.N_PROBLEMS
    (tmp_path / "a.jsonl").write_bytes(b"{\n" * (most + 5) + lines_of(*texts))
    before = os.umask(0)
    try:
        result = extract([tmp_path / "a.jsonl"], tmp_path / "out.jsonl", Words(), skip_bad=True)
    finally:
        os.umask(before)
    assert {path.name for path in tmp_path.iterdir()} == {"a.jsonl", "out.jsonl"}
    assert stat.S_IMODE((tmp_path / "out.jsonl").stat().st_mode) == 0o600
    assert (result.n_bad, len(result.problems), result.n_duplicates) == (most + 5, most, 2)
    assert result.problems[1].startswith(f"'{tmp_path / 'a.jsonl'}', line 2: it is not JSON")
    assert [one["id"] for one in records(tmp_path / "out.jsonl")] == [f"1:{most + 6}", f"1:{most + 7}"]


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".txt.zst"])
def test_text_is_read_in_chunks_that_end_at_blank_lines(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_CHUNK_BYTES", 100)
    paragraphs = [f"ä{'x' * (37 * n % 230)}" for n in range(1, 41)]
    content = "\n\n".join(paragraphs).encode()
    path = tmp_path / f"a{suffix}"
    packed = {".gz": gzip.compress, ".zst": lambda text: pa.Codec("zstd").compress(text, asbytes=True)}
    path.write_bytes(packed.get(path.suffix, bytes)(content))
    found = [document for document in read(path) if isinstance(document, DocumentText)]
    assert len(found) > 10
    assert "".join(document.text for document in found).encode() == content
    lines = content.decode().split("\n")
    assert all(document.text.partition("\n")[0] == lines[document.line - 1] for document in found)
    read_bytes: list[tuple[int, int]] = []
    assert list(documents.documents_of([path], "text", lambda *counts: read_bytes.append(counts)))
    assert read_bytes[-1] == (path.stat().st_size,) * 2


def test_bad_lines_are_told_by_number_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "MOST_LINE", 1000)
    bad = [b'{"text": "secret', b"[1]", b'{"secret": 1}', b'{"text": 7}', b'{"text": "\xff"}', b"[" * 900, b"9" * 5000]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([lines_of("one").strip(), *bad, lines_of("two").strip()]))
    found = read(tmp_path / "a.jsonl")
    assert [one for one in found if isinstance(one, DocumentText)] == [
        DocumentText(1, 1, "one"),
        DocumentText(9, 1, "two"),
    ]
    told = [one for one in found if isinstance(one, Bad)]
    assert [one.line for one in told] == [*range(2, 9)]
    assert not any("secret" in one.reason for one in told)
    assert told[-1].reason == "it is longer than 1,000 bytes"
    monkeypatch.undo()
    with pytest.raises(DataError, match=r"line 2: it is not JSON: .*; skip bad lines") as caught:
        extract([tmp_path / "a.jsonl"], tmp_path / "out.jsonl", Words())
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("word", ["1 ", "a@b.co ", "A", "A. ", "12 Oak St, ", "Ada Vale's father "])
def test_no_text_takes_forever(word: str) -> None:
    text = word * (50_000 // len(word))
    start = time.process_time()
    for extractor in (STRUCTURED, Relationships()):
        list(extractor(text + " Ada Vale <a@x.example> (415) 555-0134"))
    # Measured: at most 2 s on a slow core; a search that goes wrong takes minutes.
    assert time.process_time() - start < 30


# Writing


def test_what_is_written_loads_as_subjects(tmp_path: Path) -> None:
    blocks = [
        f"Bo\n{given} Vale <{given.lower()}@x.example>\nTel. (415) 555-01{n}\n{n} Oak Street\nReno, NV 89501\n"
        for n, given in enumerate(["Ada", "Zoë", "Ines", "Ada"], 34)
    ]
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines_of(*blocks, "nobody")))
    (tmp_path / "b.txt").write_text("Ada Ek's father, Bo, met Bo Quill's aunt, Ines Ek.", encoding="utf-8")
    out = tmp_path / "people.jsonl"
    seen: list[tuple[int, int]] = []
    result = extract([tmp_path / "a.jsonl.gz"], out, STRUCTURED, progress=lambda done, of: seen.append((done, of)))
    # The fourth is the first again, with another telephone number.
    assert (result.n_documents, result.n_subjects, result.n_duplicates, result.n_bad) == (5, 3, 1, 0)
    subjects = load_subjects(out).subjects
    assert subjects[1] == Subject("1:2", "Zoë Vale", "(415) 555-0135", "zoë@x.example", "35 Oak Street, Reno, NV 89501")
    n_bytes = (tmp_path / "a.jsonl.gz").stat().st_size
    assert seen == [(n_bytes, n_bytes)] * 5
    extract([tmp_path / "b.txt"], tmp_path / "relatives.jsonl", Relationships())
    found = load_subjects(tmp_path / "relatives.jsonl").subjects
    told = [(one.id, one.name, one.relationships[0].name) for one in found]
    assert told == [("1:1", "Ada Ek", "Bo"), ("1:1/2", "Bo Quill", "Ines Ek")]


def test_a_damaged_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    content = b"".join(lines_of(f"n{n}@x.example {os.urandom(200).hex()}") for n in range(2000))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content)[:-100_000])
    (tmp_path / "b.jsonl").write_bytes(lines_of("ada@x.example"))
    paths = [tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl"]
    with pytest.raises(DataError, match="the file is damaged here or later"):
        extract(paths, tmp_path / "out.jsonl", Words())
    result = extract(paths, tmp_path / "out.jsonl", Words(), skip_bad=True)
    ids = [one["id"] for one in records(tmp_path / "out.jsonl")]
    assert result.n_bad == 1
    assert 500 < result.n_documents == result.n_subjects == len(set(ids))
    assert ids[-1] == "2:1"


def test_the_output_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines_of("ada@x.example"))
    out = tmp_path / "out.jsonl"
    out.write_text("mine")
    for names, to, error, message in (
        *(([], out, UsageError, "no files"), (["a.pdf"], out, UsageError, "no known kind")),
        *((["b.txt"], out, UsageError, "cannot be"), (["a.jsonl"], out, UsageError, "exists already")),
        (["a.jsonl"], tmp_path / "out.csv", UsageError, r"has to end in '\.jsonl'"),
        (["a.jsonl"], tmp_path / "a.jsonl" / "out.jsonl", StoreError, "cannot be written"),
    ):
        with pytest.raises(error, match=message):
            extract([tmp_path / name for name in names], to, Words())
    assert out.read_text() == "mine"


# What goes wrong on the way


@pytest.fixture
def many(tmp_path: Path) -> list[Path]:
    """Two files of which every third document repeats a person."""
    texts = [f"n{n if n % 3 else 0}@x.example m{n}@x.example" for n in range(60)]
    (tmp_path / "a.jsonl").write_bytes(lines_of(*texts[:30]))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines_of(*texts[30:])))
    return [tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"]


def test_a_full_disk_is_one_line_and_leaves_nothing(
    tmp_path: Path, many: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = set(tmp_path.iterdir())
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with pytest.raises(StoreError, match="cannot be written: No space left"):
        extract(many, tmp_path / "out.jsonl", Words())
    assert set(tmp_path.iterdir()) == before


SCRIPT = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from leakmeter.instruments.pii.extraction import extract
from helpers.extracted_words import Words
def slowly(done, of):
    print(done, flush=True)
    time.sleep(0.05)
extract([Path(p) for p in sys.argv[2:]], Path(sys.argv[1]), Words(), progress=slowly)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_after_a_kill_the_same_begins_anew_and_no_half_file_stays(tmp_path: Path, many: list[Path]) -> None:
    extract(many, tmp_path / "whole.jsonl", Words())
    before = set(tmp_path.iterdir())
    (tmp_path / "other.1.partial").touch()  # of something else
    out = tmp_path / "out.jsonl"
    command = [sys.executable, "-c", SCRIPT.format(tests=str(TESTS)), str(out), *map(str, many)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not out.exists()
    assert len(set(tmp_path.iterdir()) - before) == 2
    extract(many, out, Words())
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert set(tmp_path.iterdir()) - before == {out, tmp_path / "other.1.partial"}
