"""Groups of parts: a large run in few files, with the same content, whatever interrupts it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq
import pytest

from helpers import made_runs
from helpers.examples import few
from leakmeter.core.measure import Measurement
from leakmeter.engine.slices import complete
from leakmeter.engine.storage import rundir
from leakmeter.engine.storage.export import write as export
from leakmeter.engine.storage.parts import Part, cases_of_part, cases_of_run
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.schema import GROUP_PARTS, names_of, parts_in
from leakmeter.engine.storage.verify import verify
from leakmeter.errors import StoreError
from leakmeter.results.query import ask

N_PARTS = 11
CASES = tuple({"id": f"c{number}", "query": "Wer? 🙂", "context": "Bo ate."} for number in range(N_PARTS))
SPEC = replace(made_runs.SPEC, cases=CASES)
FOUR_EACH = [range(4), range(4, 8), range(8, 11)]


def part(number: int) -> Part:
    """A case, whose number of rows depends on its number."""
    case = CASES[number]
    return made_runs.texts_of(case), made_runs.readings_of(case["id"]) * (1 + number % 3)


def write(run: RunDirectory, number: int) -> None:
    texts, measurements = part(number)
    run.write_part(number, [texts], measurements)


def written(root: Path, numbers: Any = range(N_PARTS), *, finish: bool = True) -> RunDirectory:
    with RunDirectory(root / SPEC.id).opened(SPEC) as run:
        for number in numbers:
            write(run, number)
        if finish:
            run.finish(SPEC, N_PARTS)
    return run


def plain(parts: Iterator[Part] | list[Part]) -> list[Any]:
    def series(measurement: Measurement) -> tuple[Any, ...]:
        return (measurement.item, measurement.sample, measurement.piece, measurement.statistic, measurement.unit)

    return [(texts, [(series(m), m.values.tobytes()) for m in measurements]) for texts, measurements in parts]


def contents(run: RunDirectory) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.path.iterdir() if not path.name.startswith(".")}


EXPECTED = plain([part(number) for number in range(N_PARTS)])


@cache
def whole() -> dict[str, bytes]:
    """The files of the run in groups of four."""
    with TemporaryDirectory() as folder:
        return contents(written(Path(folder)))


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are full with four parts."""
    monkeypatch.setattr(rundir, "GROUP_PARTS", 4)


@pytest.mark.usefixtures("four")
def test_grouped_parts_are_those_that_were_written(tmp_path: Path) -> None:
    run = written(tmp_path)
    assert run.files == FOUR_EACH
    assert set(contents(run)) == {"spec.json", *(name for parts in FOUR_EACH for name in names_of(parts))}
    again = RunDirectory(run.path)
    assert again.parts == list(range(N_PARTS))
    assert plain(cases_of_run(again)) == EXPECTED
    assert plain(cases_of_part(again, 9)) == EXPECTED[9:10]
    assert verify(run.path).state == "whole"
    assert verify(run.path).n_files == 6


def test_groups_are_full_by_their_bytes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = written(tmp_path / "alone")
    assert alone.files == [range(number, number + 1) for number in range(N_PARTS)]
    sizes = [path.stat().st_size for path in alone.numbers]
    monkeypatch.setattr(rundir, "GROUP_BYTES", sum(sizes[:5]))
    run = written(tmp_path / "grouped")
    assert run.files[0] == range(5)
    assert plain(cases_of_run(run)) == EXPECTED


def test_queries_and_exports_do_not_see_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def seen(run: RunDirectory, place: Path) -> tuple[Any, ...]:
        rows = ask("SELECT * FROM measurements ORDER BY ALL", [run.path]).rows
        cases = ask("SELECT * FROM cases ORDER BY ALL", [run.path]).rows
        export(run.path, place)
        return repr(list(rows)), repr(list(cases)), place.read_bytes()

    alone = seen(written(tmp_path / "alone"), tmp_path / "alone.csv")
    monkeypatch.setattr(rundir, "GROUP_PARTS", 4)
    assert seen(written(tmp_path / "grouped"), tmp_path / "grouped.csv") == alone


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize("seed", few(range(4), 2))
def test_the_order_of_writing_does_not_matter(tmp_path: Path, seed: int) -> None:
    numbers = random.Random(seed).sample(range(N_PARTS), N_PARTS)
    with RunDirectory(tmp_path / "threads" / SPEC.id).opened(SPEC) as run:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda number: write(run, number), numbers))
        run.finish(SPEC, N_PARTS)
    assert contents(run) == contents(written(tmp_path / "any order", numbers)) == whole()


@pytest.mark.usefixtures("four")
def test_a_reader_follows_parts_that_are_grouped_meanwhile(tmp_path: Path) -> None:
    with RunDirectory(tmp_path / SPEC.id).opened(SPEC) as run:
        for number in range(3):
            write(run, number)
        reader = RunDirectory(run.path)
        assert plain(cases_of_part(reader, 2)) == EXPECTED[2:3]
        write(run, 3)
        assert reader.parts == [0, 1, 2, 3]
        other = RunDirectory(run.path)
        assert other.has_part(1)
        assert not other.has_part(4)
        for number in range(4, 8):
            write(run, number)
        assert plain([case for number in range(8) for case in cases_of_part(reader, number)]) == EXPECTED[:8]


class Killed(BaseException):
    pass


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize("change", few(sorted(range(52), key=lambda n: n % 3), 18))
def test_a_kill_at_any_change_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: int) -> None:
    left = change

    def dying(act: Callable[..., Any]) -> Callable[..., Any]:
        def acted(*arguments: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return act(*arguments, **more)

        return acted

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "_write", dying(RunDirectory._write))
        patch.setattr(Path, "unlink", dying(Path.unlink))
        # What a kill does not run: clearing up.
        patch.setattr(RunDirectory, "_abandon", lambda run: None)
        with pytest.raises(Killed):
            written(tmp_path / "killed")
    path = tmp_path / "killed" / SPEC.id
    assert verify(path).state in ("unfinished", "whole") or change == 0
    run = RunDirectory(path)
    assert plain([case for number in run.parts for case in cases_of_part(run, number)]) == EXPECTED[: len(run.parts)]
    with RunDirectory(tmp_path / "killed" / SPEC.id).opened(SPEC) as run:
        for number in range(N_PARTS):
            if not run.has_part(number):
                write(run, number)
        run.finish(SPEC, N_PARTS)
    assert contents(run) == whole()


@pytest.mark.usefixtures("four")
def test_a_group_that_is_gone_is_missed_and_measured_again(tmp_path: Path) -> None:
    run = written(tmp_path)
    missing = run.path / names_of(range(4, 8))[1]
    missing.unlink()
    assert verify(run.path).findings == (f"{missing.name}: missing",)
    with pytest.raises(StoreError, match=f"damaged: {missing.name}, all of it: is missing"):
        list(cases_of_run(RunDirectory(run.path)))
    with RunDirectory(tmp_path / SPEC.id).opened(SPEC) as run:
        assert [number for number in range(N_PARTS) if not run.has_part(number)] == [4, 5, 6, 7]
        for number in range(4, 8):
            write(run, number)
        run.finish(SPEC, N_PARTS)
    assert contents(run) == whole()


@pytest.mark.usefixtures("four")
def test_slices_group_their_own_parts(tmp_path: Path) -> None:
    runs = [RunDirectory(tmp_path / SPEC.id) for _ in range(2)]
    with runs[0].opened_slice(SPEC, 1, 2, N_PARTS) as first, runs[1].opened_slice(SPEC, 2, 2, N_PARTS) as second:
        for number in range(5, N_PARTS):
            write(second, number)
        for number in range(5):
            write(first, number)
    ours = [range(4), range(4, 5), range(5, 9)]
    assert RunDirectory(tmp_path / SPEC.id).files == [*ours, range(9, 10), range(10, 11)]
    run = complete([tmp_path / SPEC.id])
    assert run.files == [*ours, range(9, 11)]
    assert plain(cases_of_run(run)) == EXPECTED
    assert verify(run.path).state == "whole"


@pytest.mark.usefixtures("four")
def test_slices_of_two_directories_come_together(tmp_path: Path) -> None:
    for number, numbers in ((1, range(5)), (2, range(5, N_PARTS))):
        with RunDirectory(tmp_path / str(number) / SPEC.id).opened_slice(SPEC, number, 2, N_PARTS) as run:
            for part_number in numbers:
                write(run, part_number)
    run = complete([tmp_path / "1" / SPEC.id, tmp_path / "2" / SPEC.id])
    assert plain(cases_of_run(run)) == EXPECTED
    assert contents(run).keys() == whole().keys()


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize(
    ("rows", "why"),
    [
        *((of, "is missing") for of in (None, "[")),
        *((of, "has to be a number of rows for each part") for of in ("[1]", "[1, 1, 1, -1]", "[1, 1, 1, true]")),
        *((of, "has to cut the rows between two series") for of in ("[1, 1, 1, 1]", "[1, 24, 36, 12]")),
    ],
)
def test_damaged_groups_are_refused(tmp_path: Path, rows: str | None, why: str) -> None:
    run = written(tmp_path, range(4), finish=False)
    (path,) = run.numbers
    table = pq.read_table(path)
    metadata = {} if rows is None else {"part_rows": rows}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    with pytest.raises(StoreError, match=f"{path.name}, part_rows: {why}"):
        RunDirectory(run.path).read_measurements(2)


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize("texts", ["{}", "[]", "[[], [], []]", "[[], [], [], 1]", '[[], [], [], [{"id": 1}]]'])
def test_damaged_texts_of_groups_are_refused(tmp_path: Path, texts: str) -> None:
    run = written(tmp_path, range(4), finish=False)
    (run.path / names_of(range(4))[0]).write_text(texts, encoding="utf-8")
    with pytest.raises(StoreError, match=r"is damaged: cases-00000-00003\.json"):
        RunDirectory(run.path).read_texts(3)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("cases-00007.json", range(7, 8)),
        ("measurements-00000-00511.parquet", range(512)),
        ("measurements-100000-100511.parquet", range(100_000, 100_512)),
        *((name, None) for name in (
            "measurements-00000-99999.parquet", "measurements-00000-00000.parquet", "measurements-00003-00001.parquet",
            "measurements-00007.json", "cases-7.json", "cases-000007.json", "spec.json",
            f"measurements-00000-{GROUP_PARTS:05}.parquet", "cases-00000.json.1.partial",
        )),
    ],
)  # fmt: skip
def test_names_of_files_say_their_parts(name: str, parts: range | None) -> None:
    assert parts_in(name) == parts
    assert parts is None or name in names_of(parts)


def test_a_spec_whose_files_do_not_hold_all_parts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rundir, "GROUP_PARTS", 4)
    run = written(tmp_path)
    spec = json.loads((run.path / "spec.json").read_text())
    hashes = spec["files_sha256"]
    for change in (
        {name: digest for name, digest in hashes.items() if "00004" not in name},
        {name.replace("00004-", "00003-"): digest for name, digest in hashes.items()},
        {name.replace("measurements-00004", "measurements-00005"): digest for name, digest in hashes.items()},
    ):
        (run.path / "spec.json").write_text(json.dumps({**spec, "files_sha256": change}))
        with pytest.raises(StoreError, match=r"damaged: spec.json, (n_parts|files_sha256): "):
            RunDirectory(run.path).read_spec()
