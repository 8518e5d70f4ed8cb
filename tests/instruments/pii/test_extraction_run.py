"""Files of documents to a file of people: what is read, what is written, and going on after a kill."""

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

import pandas as pd
import pyarrow as pa
import pytest
from filelock import FileLock

from helpers.extracted_words import Words
from helpers.places import TESTS
from leakmeter.errors import DataError, StoreError, UsageError
from leakmeter.instruments.pii.extraction import documents
from leakmeter.instruments.pii.extraction.documents import Bad, Document, documents_of, read_batches
from leakmeter.instruments.pii.extraction.finders import Relationships, Structured
from leakmeter.instruments.pii.extraction.run import N_PROBLEMS, extract
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


def read(path: Path, **kwargs: Any) -> list[Document | Bad]:
    return [one for batch in read_batches(path, 0, **kwargs) for one in documents_of(batch, "text")]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_BATCH_BYTES", 100)


# Measurement


def test_json_lines_and_text_compressed_or_not(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + lines_of("one", "zwei\nü") + b"\n  \n" + lines_of("")[:-1])
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress((tmp_path / "a.jsonl").read_bytes()))
    expected = [Document(1, 1, "one"), Document(2, 1, "zwei\nü"), Document(5, 1, "")]
    assert read(tmp_path / "a.jsonl") == read(tmp_path / "a.jsonl.gz") == expected
    (tmp_path / "b.txt").write_bytes("﻿Zoë\r\n\xa0\n\0 end".encode())
    (tmp_path / "b.txt.GZ").write_bytes(gzip.compress((tmp_path / "b.txt").read_bytes()))
    assert read(tmp_path / "b.txt") == read(tmp_path / "b.txt.GZ") == [Document(1, 1, "Zoë\r\n\xa0\n\0 end")]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".json", ".parquet", ".jsonl.zst"])
def test_tables_are_read_in_batches_of_rows(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_BATCH_ROWS", 3)
    texts = [f"ä, {n}\nend" for n in range(8)]
    frame = pd.DataFrame({"n": range(8), "text": texts})
    path = tmp_path / f"a{suffix}"
    if "csv" in suffix:
        frame.to_csv(path, index=False)
    elif "parquet" in suffix:
        frame.to_parquet(path)
    elif "zst" in suffix:
        path.write_bytes(pa.Codec("zstd").compress(lines_of(*texts), asbytes=True))
    else:
        path.write_text(json.dumps([{"text": text} for text in texts]))
    assert read(path) == [Document(n, 1, text) for n, text in enumerate(texts, 1)]
    _, second, third = read_batches(path, 0)
    assert list(read_batches(path, 0, line=second.next_line, offset=second.next_offset)) == [third]
    assert third.n_bytes_read == path.stat().st_size


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".txt", ".txt.gz"])
def test_reading_goes_on_where_any_batch_ended(tmp_path: Path, suffix: str, small_batches: None) -> None:
    texts = [f"ä{'x' * (37 * n % 230)}" for n in range(40)]
    content = lines_of(*texts) if "jsonl" in suffix else "\n\n".join(texts).encode()
    path = tmp_path / f"a{suffix}"
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    batches = list(read_batches(path, 0))
    assert len(batches) > 10
    for at, batch in enumerate(batches):
        left = list(read_batches(path, 0, line=batch.next_line, offset=batch.next_offset))
        assert [(one.line, one.lines) for one in left] == [(one.line, one.lines) for one in batches[at + 1 :]]
    assert batches[-1].n_bytes_read == path.stat().st_size
    assert b"".join(line for batch in batches for line in batch.lines if line) == content


def test_bad_lines_are_told_by_number_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_LINE_BYTES", 1000)
    bad = [b'{"text": "secret', b"[1]", b'{"secret": 1}', b'{"text": 7}', b'{"text": "\xff"}', b"[" * 900, b"9" * 5000]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([lines_of("one").strip(), *bad, lines_of("two").strip()]))
    found = read(tmp_path / "a.jsonl")
    assert [one for one in found if isinstance(one, Document)] == [Document(1, 1, "one"), Document(9, 1, "two")]
    told = [one for one in found if isinstance(one, Bad)]
    assert [one.line for one in told] == list(range(2, 9))
    assert not any("secret" in one.reason for one in told)
    assert told[-1].reason.startswith("it is longer than")
    (tmp_path / "a.txt").write_bytes(b"one\n" + b"9" * 5000 + b"\ntwo")
    assert read(tmp_path / "a.txt") == [Bad(2, told[-1].reason), Document(1, 1, "one\n\ntwo")]
    with pytest.raises(DataError, match=r"line 2: it is not JSON: .*; skip bad lines") as caught:
        extract([tmp_path / "a.jsonl"], tmp_path / "out.jsonl", Words())
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_hostile_texts_are_data(tmp_path: Path) -> None:
    names = ["{0} %s", "<script>", "\ud800", "\0", "<|endoftext|>", "[bold]x[/bold]", "\u202e\n"]
    (tmp_path / "a.jsonl").write_bytes(lines_of(*(f"Ada Vale {name} <a@x.example> 1 2 3 4 5 6" for name in names)))
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\x00\x80 ada@x.example " + b"\xf0\x9f" + b"\n" * 5)
    result = extract([tmp_path / "a.jsonl", tmp_path / "b.txt"], tmp_path / "out.jsonl", Words())
    assert result.n_documents == 8
    assert extract([tmp_path / "a.jsonl"], tmp_path / "other.jsonl", STRUCTURED).n_documents == 7


@pytest.mark.parametrize(
    "text",
    [
        "1 " * 25_000,
        "a@b.co " * 7_000,
        "A" * 50_000,
        "A. " * 16_000,
        "12 Oak St, " * 4_500,
        "Ada Vale's father " * 2_700,
    ],
    ids=["digits", "emails", "letters", "initials", "streets", "relatives"],
)
def test_no_text_takes_forever(text: str) -> None:
    start = time.process_time()
    for extractor in (STRUCTURED, Relationships()):
        list(extractor(text + " Ada Vale <a@x.example> (415) 555-0134"))
    # Measured: at most 2 s on a slow core; a search that goes wrong takes minutes.
    assert time.process_time() - start < 30


def test_a_long_document_is_read_in_parts(tmp_path: Path) -> None:
    text = "one@x.example\n" + "word " * 20_000 + "two@x.example\n"
    (tmp_path / "a.jsonl").write_bytes(lines_of("none", text))
    (tmp_path / "b.txt").write_text(text.replace("@x", "@y") + "three@y.example", encoding="utf-8")
    result = extract([tmp_path / "a.jsonl", tmp_path / "b.txt"], tmp_path / "out.jsonl", Words())
    ids = [one["id"] for one in records(tmp_path / "out.jsonl")]
    assert ids == ["1:2", "1:2.3", "2:1", "2:2.2", "2:2.2/2"]
    assert (result.n_documents, result.n_subjects, result.n_duplicates) == (4, 5, 0)


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
    assert seen == [(n_bytes, n_bytes)]
    extract([tmp_path / "b.txt"], tmp_path / "relatives.jsonl", Relationships())
    told = [
        (one.id, one.name, one.relationships[0].name) for one in load_subjects(tmp_path / "relatives.jsonl").subjects
    ]
    assert told == [("1:1", "Ada Ek", "Bo"), ("1:1/2", "Bo Quill", "Ines Ek")]


def test_files_are_for_the_user_alone_and_the_state_has_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines_of("ada@x.example") + b"{\n")
    before = os.umask(0)
    try:
        extract([tmp_path / "a.jsonl"], tmp_path / "out.jsonl", Words(), skip_bad=True)
    finally:
        os.umask(before)
    made = [path for path in tmp_path.iterdir() if path.name != "a.jsonl"]
    assert {path.name for path in made} == {"out.jsonl", "out.jsonl.state", ".out.jsonl.lock"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in made)
    assert "ada" not in (tmp_path / "out.jsonl.state").read_text(encoding="utf-8").lower()


def test_bad_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{\n" * (N_PROBLEMS + 5) + lines_of("ada@x.example"))
    result = extract([tmp_path / "a.jsonl"], tmp_path / "out.jsonl", Words(), skip_bad=True)
    assert (result.n_bad, len(result.problems), result.n_subjects) == (N_PROBLEMS + 5, N_PROBLEMS, 1)
    assert result.problems[1].startswith(f"'{tmp_path / 'a.jsonl'}', line 2: it is not JSON")


def test_a_damaged_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    content = b"".join(lines_of(f"n{n}@x.example {os.urandom(200).hex()}") for n in range(2000))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content)[:-100_000])
    (tmp_path / "b.jsonl").write_bytes(lines_of("ada@x.example"))
    paths = [tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl"]
    with pytest.raises(DataError, match="the file is damaged here or behind"):
        extract(paths, tmp_path / "out.jsonl", Words())
    result = extract(paths, tmp_path / "out.jsonl", Words(), skip_bad=True)
    ids = [one["id"] for one in records(tmp_path / "out.jsonl")]
    assert result.n_bad == 1
    assert 500 < result.n_documents == result.n_subjects == len(set(ids))
    assert ids[-1] == "2:1"


def test_the_output_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines_of("ada@x.example"))
    out = tmp_path / "out.jsonl"
    for paths, message in (
        ([], "no files"),
        ([tmp_path / "a.pdf"], "no known kind"),
        ([tmp_path / "b.txt"], "cannot be"),
    ):
        with pytest.raises(UsageError, match=message):
            extract(paths, out, Words())
    with pytest.raises(UsageError, match="workers is 0"):
        extract([tmp_path / "a.jsonl"], out, Words(), workers=0)
    with pytest.raises(UsageError, match=r"has to end in '\.jsonl'"):
        extract([tmp_path / "a.jsonl"], tmp_path / "out.csv", Words())
    with pytest.raises(UsageError, match="cannot be handed to another process"):
        extract([tmp_path / "a.jsonl"], out, lambda text: [], workers=2)
    out.unlink(missing_ok=True)
    (tmp_path / "out.jsonl.state").unlink(missing_ok=True)
    out.write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        extract([tmp_path / "a.jsonl"], out, Words())
    assert out.read_text() == "mine"
    out.unlink()
    extract([tmp_path / "a.jsonl"], out, Words(), settings={"region": "US"})
    with pytest.raises(UsageError, match="other settings"):
        extract([tmp_path / "a.jsonl"], out, Words(), settings={"region": "GB"})
    (tmp_path / "a.jsonl").write_bytes(lines_of("bo@x.example", "x"))
    with pytest.raises(UsageError, match="changed since"):
        extract([tmp_path / "a.jsonl"], out, Words(), settings={"region": "US"})
    (tmp_path / "out.jsonl.state").write_text("{}")
    with pytest.raises(StoreError, match="cannot be read as the state"):
        extract([tmp_path / "a.jsonl"], out, Words())
    with pytest.raises(StoreError, match="cannot be written"):
        extract([tmp_path / "a.jsonl"], tmp_path / "a.jsonl" / "out.jsonl", Words())


# Going on


@pytest.fixture
def many(tmp_path: Path) -> list[Path]:
    """Two files of which every third document repeats a person; and who is in them is known."""
    texts = [f"n{n if n % 3 else 0}@x.example m{n}@x.example" for n in range(60)]
    (tmp_path / "a.jsonl").write_bytes(lines_of(*texts[:30]))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines_of(*texts[30:])))
    return [tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"]


class Killed(BaseException):
    """As sudden as a kill, within one process."""


def test_going_on_after_any_part_gives_the_same_file(
    tmp_path: Path, many: list[Path], small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leakmeter.instruments.pii.extraction import run

    whole = extract(many, tmp_path / "whole.jsonl", Words())
    expected = (tmp_path / "whole.jsonl").read_bytes()
    assert whole.n_subjects == 60 + 40 + 1
    write = run.write_state
    # Before and after each write of the state, which is where a kill could lose or repeat something; the first write,
    # before anything is found, is not among them.
    for when in ("before", "after"):
        for n_parts in (1, 2, 5, 17):
            out = tmp_path / f"{when}{n_parts}.jsonl"
            left = [n_parts + 1]

            def mortal(path: Path, state: Any, left: list[int] = left, when: str = when) -> None:
                left[0] -= 1
                if when == "after":
                    write(path, state)
                if left[0] == 0:
                    raise Killed
                if when == "before":
                    write(path, state)

            with monkeypatch.context() as patch:
                patch.setattr(run, "write_state", mortal)
                with pytest.raises(Killed):
                    extract(many, out, Words())
            with out.open("ab") as file:
                file.write(b'{"id": "half a rec')
            assert extract(many, out, Words()).n_subjects == whole.n_subjects
            assert out.read_bytes() == expected
            # Complete: nothing is read again.
            assert extract(many, out, Words(), progress=lambda done, of: pytest.fail("read again")).n_documents == 60


def test_a_full_disk_is_one_line_and_goes_on(
    tmp_path: Path, many: list[Path], small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    extract(many, tmp_path / "whole.jsonl", Words())
    out = tmp_path / "out.jsonl"
    left = [9]

    def fsync(handle: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreError, match="cannot be written: No space left"):
        extract(many, out, Words())
    extract(many, out, Words())
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_two_cannot_write_the_same(tmp_path: Path, many: list[Path]) -> None:
    with FileLock(tmp_path / ".out.jsonl.lock"), pytest.raises(StoreError, match="another process"):
        extract(many, tmp_path / "out.jsonl", Words())


def test_an_output_that_lost_something_is_refused(tmp_path: Path, many: list[Path]) -> None:
    out = tmp_path / "out.jsonl"
    extract(many, out, Words())
    out.write_bytes(out.read_bytes()[:-1])
    with pytest.raises(StoreError, match="begin again"):
        extract(many, out, Words())


def test_an_output_that_was_changed_is_refused(tmp_path: Path, many: list[Path], small_batches: None) -> None:
    out = tmp_path / "out.jsonl"

    def stop(done: int, of: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        extract(many, out, Words(), progress=stop)
    out.write_bytes(b"#" + out.read_bytes())
    with pytest.raises(StoreError, match="was changed"):
        extract(many, out, Words())


def test_the_same_person_is_written_once(tmp_path: Path) -> None:
    texts = ["zoë@x.example ZOË@x.example", "zoe@x.example", "Zoë@X.example"]
    (tmp_path / "a.jsonl").write_bytes(lines_of(*texts))
    result = extract([tmp_path / "a.jsonl"], tmp_path / "out.jsonl", Words())
    assert [one["id"] for one in records(tmp_path / "out.jsonl")] == ["1:1", "1:2"]
    assert result.n_duplicates == 2


SCRIPT = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from leakmeter.instruments.pii.extraction import documents
from leakmeter.instruments.pii.extraction.run import extract
from helpers.extracted_words import Words
documents._BATCH_BYTES = 100
def slowly(done, of):
    print(done, flush=True)
    time.sleep(0.05)
extract([Path(p) for p in sys.argv[2:]], Path(sys.argv[1]), Words(), progress=slowly)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_process_is_followed_by_another(tmp_path: Path, many: list[Path], small_batches: None) -> None:
    extract(many, tmp_path / "whole.jsonl", Words())
    out = tmp_path / "out.jsonl"
    script = SCRIPT.format(tests=str(TESTS))
    command = [sys.executable, "-c", script, str(out), *map(str, many)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert 0 < out.stat().st_size < (tmp_path / "whole.jsonl").stat().st_size
    extract(many, out, Words())
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_workers_write_the_same_file(tmp_path: Path, many: list[Path], small_batches: None) -> None:
    extract(many, tmp_path / "one.jsonl", Words())
    # Structured travels too: its finders are functions of modules.
    result = extract(many, tmp_path / "two.jsonl", Words(), workers=2)
    assert result.n_documents == 60
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    extract(many, tmp_path / "none.jsonl", STRUCTURED, workers=2)
    (tmp_path / "bad.jsonl").write_bytes(lines_of("x") + b"{\n")
    with pytest.raises(DataError, match="line 2"):
        extract([tmp_path / "bad.jsonl"], tmp_path / "bad_out.jsonl", Words(), workers=2)
