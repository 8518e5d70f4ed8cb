"""Run directories: written once, whole or not at all, and never misread."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers.made_runs import SPEC
from helpers.places import TESTS
from leakmeter.core.files import write_whole
from leakmeter.core.measure import NATS, Measurement
from leakmeter.engine.storage import rundir
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.schema import SCHEMA, to_table
from leakmeter.errors import StoreError

CASES = ({"id": "1", "text": "🙂\n"}, {"id": "2", "text": "b"})


def measurement(values: Sequence[float], item: str = "1", piece: str = "s1") -> Measurement:
    return Measurement(item, 0, piece, "without_this", NATS, np.asarray(values, dtype=np.float64))


def as_plain(measurements: Sequence[Measurement]) -> list[tuple[Any, ...]]:
    return [(r.item, r.sample, r.piece, r.statistic, r.unit, r.values.tobytes(), r.values.dtype) for r in measurements]


MEASUREMENTS = st.builds(
    Measurement,
    item=st.text(max_size=5),
    sample=st.integers(0, 2**31 - 1),
    piece=st.text(max_size=8),
    statistic=st.sampled_from(["whole", "without_this", "noise"]),
    unit=st.sampled_from(["nats", "token id"]),
    values=arrays(np.float64, st.integers(1, 12)),
)


@given(measurements=st.lists(MEASUREMENTS, min_size=1, max_size=12))
def test_parts_come_back_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, measurements: list[Measurement]) -> None:
    table = to_table(measurements)
    assert table.schema.equals(SCHEMA)
    each = [(r, *pair) for r in measurements for pair in enumerate(r.values.tolist())]
    rows = [(r.item, r.sample, r.piece, r.statistic, position, value, r.unit) for r, position, value in each]
    assert repr([tuple(row.values()) for row in table.to_pylist()]) == repr(rows)
    directory = RunDirectory(tmp_path_factory.mktemp("run"))
    directory.write_part(3, [CASES[0]], measurements)
    cases, again = directory.read_part(3)
    assert cases == [CASES[0]]
    assert as_plain(again) == as_plain(measurements)


def test_a_part_of_several_row_groups_comes_back(tmp_path: Path) -> None:
    # Parquet cuts at about a million rows; a series may lie across the cut.
    measurements = [measurement(np.arange(400_000) + 0.5, item=f"i{n}", piece=f"s{n}") for n in range(3)]
    directory = RunDirectory(tmp_path)
    directory.write_part(0, [CASES[0]], measurements)
    assert as_plain(directory.read_part(0)[1]) == as_plain(measurements)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A complete run of two parts."""
    with RunDirectory(tmp_path / "runs" / SPEC.id).opened(SPEC) as directory:
        for number, case in enumerate(CASES):
            directory.write_part(number, [case], [measurement([0.5, -0.25], item=case["id"])])
        directory.finish(SPEC, 2)
    return directory.path


def test_a_run_is_complete_when_its_spec_is_there(finished: Path) -> None:
    directory = RunDirectory(finished)
    assert finished.name == SPEC.id
    assert directory.is_complete
    assert finished.stat().st_mode & 0o777 == 0o700
    told = directory.read_spec()
    assert (told["id"], told["n_parts"], told["measure"]) == (SPEC.id, 2, "handmade")
    assert sorted(told["files_sha256"]) == sorted(p.name for p in finished.iterdir() if p.name[0] in "cm")
    parts = [name for kind in ("cases-0000{}.json", "measurements-0000{}.parquet") for name in map(kind.format, (0, 1))]
    assert sorted(p.name for p in finished.iterdir()) == [".lock", *parts, "spec.json"]


def test_until_it_is_complete_a_run_says_what_it_measures(tmp_path: Path) -> None:
    with RunDirectory(tmp_path / SPEC.id).opened(SPEC) as directory:
        begun = directory.read_begun()
        assert (begun["id"], begun["n_cases"], begun["params"]) == (SPEC.id, 2, SPEC.params)
        # No texts: a disk that is full should fail at the first part.
        assert "cases" not in begun
        for number, case in enumerate(CASES):
            directory.write_part(number, [case], [measurement([1.0])])
            assert directory.parts == list(range(number + 1))
        directory.finish(SPEC, 2)
        assert directory.read_begun() == {}
        # A kill may come between the two.
        (directory.path / "begun.json").write_bytes(b"{}")
    with RunDirectory(tmp_path / SPEC.id).opened(SPEC) as directory:
        assert not (directory.path / "begun.json").exists()
        (directory.path / "measurements-00001.parquet").unlink()
        directory.write_part(1, [CASES[1]], [measurement([1.0])])
        assert directory.read_begun()["n_cases"] == 2
    for content in (b"", b"[]", b"[" * 100_000):
        (directory.path / "begun.json").write_bytes(content)
        assert directory.read_begun() == {}


def test_texts_are_written_before_numbers_and_the_spec_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def write(path: Path, content: bytes, *, lasting: bool) -> None:
        assert lasting
        order.append(path.name)
        write_whole(path, content)

    monkeypatch.setattr(rundir, "write_whole", write)
    with RunDirectory(tmp_path / SPEC.id).opened(SPEC) as directory:
        for number in range(2):
            directory.write_part(number, [CASES[number]], [measurement([1.0])])
            assert directory.has_part(number)
            assert not directory.has_part(number + 1)
            assert not directory.is_complete
        directory.finish(SPEC, 2)
    parts = (f"{kind}-0000{i}" for i in range(2) for kind in ("cases", "measurements"))
    assert [name.partition(".")[0] for name in order] == ["begun", *parts, "spec"]


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "removed": Path.unlink,
    "other text": lambda path: path.write_bytes(path.read_bytes() + b" "),
    "other part": lambda path: path.write_bytes(path.with_name(path.name.replace("1", "0")).read_bytes()),
    "emptied": lambda path: path.write_bytes(b""),
    "directory": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("name", ["cases-00001.json", "measurements-00001.parquet"])
@pytest.mark.parametrize(
    ("damage", "complete"),
    [*((one, True) for one in DAMAGES), *((one, False) for one in DAMAGES if "other" not in one)],
)
def test_a_damaged_part_is_named_with_its_run(finished: Path, name: str, damage: str, complete: bool) -> None:
    if not complete:
        (finished / "spec.json").unlink()
    DAMAGES[damage](finished / name)
    directory = RunDirectory(finished)
    assert directory.read_part(0)[0] == [CASES[0]]
    with pytest.raises(StoreError) as caught:
        directory.read_part(1)
    message = str(caught.value)
    assert message.startswith(f"run '{finished}' is damaged: {name}, all of it: ")
    assert message.endswith("remove that directory and run again")


def test_what_is_something_else_is_refused(finished: Path) -> None:
    spec = (finished / "spec.json").read_bytes()
    for content in (b"", b"{", b"[]", b"{}", b'{"n_parts": 2}', b"\xff\xfe"):
        (finished / "spec.json").write_bytes(content)
        with pytest.raises(StoreError, match=f"run '{finished}' is damaged: spec.json, "):
            RunDirectory(finished).read_spec()
    (finished / "spec.json").write_bytes(spec)
    for content in (b"{}", b"5", b'["a"]', b"null", b"\xff", b"["):
        (finished / "cases-00000.json").write_bytes(content)
        with pytest.raises(StoreError, match=f"run '{finished}' is damaged: cases-00000.json, all of it: "):
            RunDirectory(finished).read_part(0)
    (finished / "spec.json").unlink()
    for content in (b"{}", b"["):
        (finished / "cases-00001.json").write_bytes(content)
        with pytest.raises(StoreError, match=f"run '{finished}' is damaged: cases-00001.json, all of it: "):
            RunDirectory(finished).read_part(1)
    (finished / "cases-00001.json").write_text('[{"id": "2"}]', encoding="utf-8")
    pq.write_table(pa.table({"a": [1]}), finished / "measurements-00001.parquet")
    with pytest.raises(StoreError, match=f"run '{finished}' is damaged: measurements-00001.parquet, item: is missing"):
        RunDirectory(finished).read_part(1)
    for path in (finished, finished / "missing", finished / "cases-00001.json"):
        with pytest.raises(StoreError):
            RunDirectory(path).read_spec()


def test_a_part_written_anew_makes_the_run_incomplete_until_it_is_finished(finished: Path) -> None:
    (finished / "measurements-00001.parquet").unlink()
    with RunDirectory(finished.parent / SPEC.id).opened(SPEC) as directory:
        assert directory.is_complete
        assert not directory.has_part(1)
        directory.write_part(1, [{"id": "2", "text": "new"}], [measurement([2.0])])
        assert not directory.is_complete
        directory.finish(SPEC, 2)
    assert RunDirectory(finished).read_part(1)[0] == [{"id": "2", "text": "new"}]


HOLD = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from helpers.made_runs import SPEC
from leakmeter.engine.storage.rundir import RunDirectory
with RunDirectory(Path(sys.argv[1]) / SPEC.id).opened(SPEC):
    print("held", flush=True)
    sys.stdin.read()
"""


def refused(root: Path, said: str, spec: Any = SPEC) -> None:
    with pytest.raises(StoreError, match=said), RunDirectory(root / spec.id).opened(spec):
        pass


def test_two_processes_do_not_write_one_run(tmp_path: Path) -> None:
    path, command = tmp_path / SPEC.id, [sys.executable, "-c", HOLD, str(tmp_path), str(TESTS)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        refused(tmp_path, f"^run '{path}' is being written by another process; wait for it to end$")
        other = replace(SPEC, version="other")
        with RunDirectory(tmp_path / other.id).opened(other):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with RunDirectory(path).opened(SPEC) as directory:
        directory.write_part(0, [CASES[0]], [measurement([1.0])])


def test_what_a_kill_left_half_written_is_removed(tmp_path: Path) -> None:
    path = tmp_path / SPEC.id
    path.mkdir(parents=True)
    for name in ("cases-00000.json.partial", "measurements-00000.parquet.partial", "spec.json.partial"):
        (path / name).write_bytes(b"half")
    with RunDirectory(tmp_path / SPEC.id).opened(SPEC) as directory:
        assert not directory.has_part(0)
        assert not directory.is_complete
        assert sorted(p.name for p in path.iterdir()) == [".lock", "begun.json"]


def test_the_lock_is_given_back_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), RunDirectory(tmp_path / SPEC.id).opened(SPEC):
        raise RuntimeError
    with RunDirectory(tmp_path / SPEC.id).opened(SPEC):
        pass


def test_a_directory_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    refused(file / "runs", "run directory .* cannot be written: Not a directory")
    refused(file, "cannot be written")
    assert file.read_text() == "x"


def test_a_full_disk_is_a_store_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with RunDirectory(tmp_path / SPEC.id).opened(SPEC) as directory:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="cannot be written: No space left on device"):
            directory.write_part(0, [CASES[0]], [measurement([1.0])])
        assert not directory.has_part(0)
        with pytest.raises(StoreError, match="cannot be written"):
            directory.finish(SPEC, 0)
        assert not directory.is_complete
    monkeypatch.undo()
    with pytest.raises(StoreError, match=r"holds no complete run \(no spec.json\); run the same command again"):
        directory.read_spec()


def test_a_directory_that_others_may_use_is_tightened_or_refused(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    with RunDirectory(root / SPEC.id).opened(SPEC) as directory:
        directory.write_part(0, [CASES[0]], [measurement([1.0])])
    assert (root.stat().st_mode & 0o777, directory.path.stat().st_mode & 0o777) == (0o700, 0o700)
    assert {path.stat().st_mode & 0o777 for path in directory.path.glob("[a-z]*")} == {0o600}
    directory.path.chmod(0o777)
    with RunDirectory(root / SPEC.id).opened(SPEC):
        assert directory.path.stat().st_mode & 0o777 == 0o700
    # The directory that runs lie in is the user's own affair: they may share it, or have other things in it.
    root.chmod(0o1777)
    directory.path.chmod(0o700)
    with RunDirectory(root / SPEC.id).opened(SPEC):
        assert root.stat().st_mode & 0o7777 == 0o1777
    # A link that somebody else laid under a run's name, which follows from what is measured.
    other = replace(SPEC, version="9.9.9")
    (root / other.id).symlink_to(tmp_path)
    refused(root, "cannot be written: it is a link", other)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_what_ends_before_a_part_is_finished_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    root = tmp_path / "deep" / "runs"

    def fail(*, n_parts: int) -> None:
        with RunDirectory(root / SPEC.id).opened(SPEC) as directory:
            assert (directory.path / "begun.json").exists()
            (directory.path / "cases-00001.json").write_text("[]", encoding="utf-8")
            for number in range(n_parts):
                directory.write_part(number, [CASES[0]], [measurement([1.0])])
            raise error

    with pytest.raises(type(error)):
        fail(n_parts=0)
    assert not list(tmp_path.iterdir())
    root.mkdir(parents=True)
    with pytest.raises(type(error)):
        fail(n_parts=0)
    assert not list(root.iterdir())
    with pytest.raises(type(error)):
        fail(n_parts=1)
    left = RunDirectory(root / SPEC.id)
    assert left.has_part(0)
    assert left.read_begun()["measure"] == "handmade"


def test_no_run_is_made_in_a_run(finished: Path) -> None:
    for root in (finished, finished / "more"):
        refused(root, "is inside the run")
    assert not (finished / "more").exists()
