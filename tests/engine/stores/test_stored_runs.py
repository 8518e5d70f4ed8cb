"""Runs in an object store, through the command line and a real S3 API on this machine, with faults."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from obstore.store import MemoryStore

import leakmeter
from helpers import made_runs
from helpers.command_line import PROGRAM, Ended
from helpers.examples import few
from helpers.made_runs import SPEC
from helpers.s3_server import Faults, environment, make_bucket, s3_server
from leakmeter.core import urls
from leakmeter.engine.storage import rundir, stored
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.engine.storage.schema import names_of
from leakmeter.engine.storage.stored import StoredRun
from leakmeter.engine.stores import objects as stores
from leakmeter.engine.stores.lease import held
from leakmeter.engine.stores.objects import Objects
from leakmeter.errors import StoreError

Call = Callable[..., Ended]
ASKED = {"query": "Who?", "response": "Anna"}
CASES = [{"id": f"c{i}", "context": f"Anna sang {i} songs. Bo ate.", **ASKED} for i in range(4)]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, Faults]]:
    with s3_server() as (address, faults):
        make_bucket(address, "bucket")
        yield address, faults


@pytest.fixture
def faults(server: tuple[str, Faults]) -> Faults:
    return server[1]


@pytest.fixture
def root(server: tuple[str, Faults], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty directory of runs; of its copies nothing is left."""
    for name, value in environment(server[0]).items():
        monkeypatch.setenv(name, value)
    server[1].clear()
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setenv("LEAKMETER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    monkeypatch.setattr(stores, "_RETRIES", {"max_retries": 1})
    yield f"s3://bucket/{tmp_path.name}/runs"
    assert [path for path in (tmp_path / "cache" / "stores").rglob("*") if path.name != ".lock"] == []
    for path in list(urls._copies):
        urls.forget_copy(Path(path))
    assert list(copies.iterdir()) == []


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, CASES)), encoding="utf-8")
    return path


@pytest.fixture
def measure(cli: Call, data: Path) -> Call:
    return lambda out, *more: cli("influence", "--data", data, "--model", "toy", "--out", out, *more)


@pytest.fixture
def local(measure: Call, tmp_path: Path) -> Path:
    """The same run on the disk."""
    assert measure(tmp_path / "local").code == 0
    (path,) = (tmp_path / "local").iterdir()
    return path


def exported(cli: Call, run: object, folder: Path) -> list[bytes]:
    assert cli("runs", "export", run, "--out", folder).code == 0
    return [file.read_bytes() for file in sorted(folder.iterdir())]


def names(root: str, run: str) -> list[str]:
    return [one.name for one in Objects(f"{root}/{run}").under()]


PARTS = [([made_runs.texts_of(case)], made_runs.readings_of(case["id"])) for case in made_runs.CASES]
PARTS_OF_4 = [*(f"cases-0000{n}.json" for n in range(4)), *(f"measurements-0000{n}.parquet" for n in range(4))]


def test_a_run_in_a_store_is_read_as_others(root: str, measure: Call, cli: Call, local: Path, tmp_path: Path) -> None:
    ended = measure(root, "--html", tmp_path / "page.html")
    url = f"{root}/{local.name}"
    assert (ended.code, f"run: {url}\n" in ended.err) == (0, True)
    assert url in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert names(root, local.name) == [*PARTS_OF_4, "spec.json"]
    assert exported(cli, url, tmp_path / "a") == exported(cli, local, tmp_path / "b")
    assert measure(root).code == 0
    assert sorted(names(root, local.name)) == [".confirmed", *PARTS_OF_4, "spec.json"]
    listed = json.loads(cli("runs", "list", "--runs", root, "--json").out)
    assert (listed["name"], listed["state"], listed["n_cases"]) == (local.name, "complete", 4)
    shown = json.loads(cli("runs", "show", "influence-", "--runs", root, "--json").out)
    assert (shown["directory"], shown["measurements"]) == (url, 300)
    for verified in (cli("runs", "verify", "--runs", root), cli("runs", "verify", url)):
        assert (verified.code, verified.out) == (0, f"whole       {local.name}  8 files\n")
    asked = "select id, query from cases order by id"
    assert cli("query", asked, "--runs", root, "--csv").out == cli("query", asked, "--runs", local, "--csv").out
    bounds = ("--max", "influence.max <= 100", "--json")
    assert cli("gate", url, *bounds).out == cli("gate", local, *bounds).out
    assert cli("gate", "--latest", "--runs", root, *bounds).code == 0
    assert cli("gate", url, "--max", "influence.max <= 0").code == 1
    assert cli("report", url, "--html", tmp_path / "again.html").code == 0
    assert url in (tmp_path / "again.html").read_text(encoding="utf-8")
    assert cli("runs", "compare", url, local).code == 0


ENDINGS = ("measurements-00002.parquet", ".lease", "begun.json", "cases-00002.json", "spec.json")


@pytest.mark.parametrize("ending", few(ENDINGS))
def test_a_put_that_fails_half_way_costs_its_part_alone(
    ending: str, root: str, measure: Call, cli: Call, local: Path, faults: Faults, tmp_path: Path
) -> None:
    faults.add("PUT", ending, "half", times=2)
    ended = measure(root)
    assert (ended.code, ended.err) == (2, f"leakmeter: '{root}/{local.name}': it answered with HTTP status 500\n")
    here = set(names(root, local.name))
    n_done = {".lease": 0, "begun.json": 0, "spec.json": 4}.get(ending, 2)
    assert {name for name in here if name.startswith("m")} == {*PARTS_OF_4[4 : 4 + n_done]}
    assert ("begun.json" in here) == (n_done > 0)
    if n_done:
        assert cli("runs", "verify", "--runs", root).out.startswith(f"unfinished  {local.name}  {2 * n_done} files")
        assert cli("runs", "query", "select 1", "--runs", root).code == 2
    faults.clear()
    assert measure(root).code == 0
    written = {path.rpartition("/")[2] for method, path in faults.requests if method == "PUT"}
    assert {name for name in written if name.startswith("m")} == {*PARTS_OF_4[4 + n_done :]}
    assert names(root, local.name) == [*PARTS_OF_4, "spec.json"]
    assert cli("runs", "verify", "--runs", root).code == 0
    assert exported(cli, f"{root}/{local.name}", tmp_path / "a") == exported(cli, local, tmp_path / "b")


@pytest.mark.long  # waits before it asks again
def test_puts_whose_answers_are_lost_are_ours(root: str, measure: Call, cli: Call, local: Path, faults: Faults) -> None:
    for ending in (".lease", "cases-00001.json", "measurements-00002.parquet", "spec.json"):
        faults.add("PUT", ending, "lost")
    assert measure(root).code == 0
    assert cli("runs", "verify", f"{root}/{local.name}").code == 0


def test_a_second_driver_is_refused(root: str, measure: Call, cli: Call, local: Path) -> None:
    url = f"{root}/{local.name}"
    with held(Objects(url), ".lease", "in use"):
        ended = measure(root)
        assert ended.code == 2
        assert ended.err.startswith(f"leakmeter: run '{url}' is being written by another process; wait for it to end; ")
        assert names(root, local.name) == [".lease"]
    assert measure(root).code == 0
    assert cli("runs", "verify", url).code == 0


RAN_OUT = json.dumps({"token": "another", "until": 0}).encode()
DIES = """
import os, signal
from leakmeter.engine.storage.stored import StoredRun
real = StoredRun._write
def write(self, path, content):
    if path.name == {at!r}:
        self._sent(path.name, content[:40])
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, path, content)
StoredRun._write = write
from leakmeter.cli import main
main()
"""


@pytest.mark.long  # a process of its own
@pytest.mark.parametrize("at", ["cases-00002.json", "begun.json"])
def test_a_driver_that_was_killed_is_followed_when_its_lease_ran_out(
    at: str, root: str, measure: Call, cli: Call, data: Path, local: Path, tmp_path: Path, faults: Faults
) -> None:
    command = [PROGRAM[0], "-c", DIES.format(at=at), "influence", "--data", data, "--model", "toy", "--out", root]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    url = f"{root}/{local.name}"
    refused = measure(root)
    assert (refused.code, "if it was killed, its lease runs out in" in refused.err) == (2, True)
    assert cli("runs", "list", "--runs", root).code == 0
    Objects(url).put(".lease", RAN_OUT)
    faults.clear()
    assert measure(root).code == 0
    written = [path for method, path in faults.requests if method == "PUT" and path.endswith("00001.json")]
    assert len(written) == (at == "begun.json")
    assert exported(cli, url, tmp_path / "a") == exported(cli, local, tmp_path / "b")
    assert cli("runs", "verify", url).code == 0


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Objects:
    monkeypatch.setenv("LEAKMETER_CACHE", str(tmp_path / "cache"))
    return Objects("s3://bucket/" + SPEC.id, MemoryStore())


def run_in(memory: Objects) -> StoredRun:
    return StoredRun("s3://bucket", SPEC.id, "", memory)


def write_parts(run: RunDirectory) -> None:
    for number, part in enumerate(PARTS):
        if not run.has_part(number):
            run.write_part(number, *part)


def test_who_lost_the_lease_stops_and_harms_nothing(memory: Objects) -> None:
    other = json.dumps({"token": "another", "until": 1e12}).encode()
    before: list[object] = []

    def work() -> None:
        with run_in(memory).opened(SPEC) as run:
            run.write_part(0, *PARTS[0])
            memory.put(".lease", other)
            run._leases[0].renew()  # type: ignore[attr-defined]
            before.extend(memory.under())
            run.write_part(1, *PARTS[1])

    with pytest.raises(StoreError, match="ran out and could not be renewed"):
        work()
    assert list(memory.under()) == before
    assert (memory.get(".lease") or ())[0] == other


def test_groups_take_the_place_of_parts(memory: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rundir, "GROUP_PARTS", 2)
    with RunDirectory(tmp_path / "local" / SPEC.id).opened(SPEC) as directory:
        write_parts(directory)
        directory.finish(SPEC, len(PARTS))
    with run_in(memory).opened(SPEC) as run:
        run.write_part(0, *PARTS[0])
        assert {file.name for file in memory.under()} >= set(names_of(range(1)))
        run.write_part(1, *PARTS[1])
        names = {file.name for file in memory.under()}
        assert names >= set(names_of(range(2)))
        assert names.isdisjoint({*names_of(range(1)), *names_of(range(1, 2))})
    with run_in(memory).opened(SPEC) as run:
        assert run.parts == [0, 1]
        run.finish(SPEC, len(PARTS))
    stored_files = {file.name: (memory.get(file.name) or ())[0] for file in memory.under()}
    assert stored_files == {path.name: path.read_bytes() for path in directory.path.glob("[!.]*")}


ANOTHERS = ("measurements-00000.parquet", "cases-00000.json measurements-00000.parquet", "spec.json")


@pytest.mark.parametrize("names", [*map(str.split, ANOTHERS)], ids=ANOTHERS)
def test_two_that_write_one_part_do_not_mix(memory: Objects, names: list[str]) -> None:
    """As if a lease were no help: what another wrote is never written over."""
    with run_in(memory).opened(SPEC) as run:
        for name in names:
            memory.create(name, b"of another")

        def work() -> None:
            run.write_part(0, *PARTS[0])
            run.finish(SPEC, 1)

        with pytest.raises(StoreError, match=rf"'{names[0]}' of run .* was written by another process"):
            work()
    assert {(memory.get(name) or ())[0] for name in names} == {b"of another"}


def test_a_run_is_not_finished_over_what_another_changed(memory: Objects) -> None:
    with run_in(memory).opened(SPEC) as run:
        write_parts(run)
        memory.put("cases-00001.json", b"[]")
        with pytest.raises(StoreError, match=r"'cases-00001.json' .* was written by another"):
            run.finish(SPEC, len(PARTS))
    assert memory.get("spec.json") is None
    assert memory.get("begun.json") is not None


def test_nothing_is_left_where_nothing_came_to_be(memory: Objects, tmp_path: Path) -> None:
    def work() -> None:
        with run_in(memory).opened(SPEC) as run:
            assert oct(run.path.stat().st_mode)[-3:] == "700"
            raise RuntimeError

    with pytest.raises(RuntimeError):
        work()
    assert memory.under() == []
    assert list((tmp_path / "cache" / "stores").iterdir()) == []


def test_a_part_that_was_removed_from_a_complete_run_is_measured_again(memory: Objects) -> None:
    for _ in range(2):
        with run_in(memory).opened(SPEC) as run:
            write_parts(run)
            if not run.is_complete:
                run.finish(SPEC, len(PARTS))
        memory.delete("measurements-00000.parquet")
    with run_in(memory).opened(SPEC) as run:
        assert run.is_complete
        assert not run.has_part(0)


def test_what_is_read_while_a_run_is_written_is_whole(memory: Objects) -> None:
    """Texts without numbers and numbers without texts of an unfinished run are left where they are."""
    for name in ("begun.json", "cases-00000.json", "measurements-00000.parquet", "cases-00001.json", ".lease", "a/b"):
        memory.put(name, b"{}")
    memory.put("measurements-00002.parquet", b"")
    found = [one.name for one in stored._readable(memory)]
    assert found == ["begun.json", "cases-00000.json", "measurements-00000.parquet"]


@pytest.mark.long  # a dozen commands
def test_slices_in_a_store_are_one_run(root: str, measure: Call, cli: Call, local: Path, tmp_path: Path) -> None:
    url = f"{root}/{local.name}"
    assert measure(root, "--part", "2/2").code == 0
    missing = cli("runs", "complete", "influence-", "--runs", root)
    assert (missing.code, "--part 1/2" in missing.err) == (2, True)
    others = measure(root, "--part", "1/3")
    assert (others.code, f"run '{url}' was begun in 2 slices" in others.err) == (2, True)
    with held(Objects(url), ".slice-1-of-2.lease", "in use"):
        for refused, what in ((measure(root, "--part", "1/2"), "part 1/2"), (measure(root), "a slice")):
            assert refused.code == 2
            assert f"{what} of run '{url}' is being written by another process" in refused.err
    ended = measure(root, "--part", "1/2")
    assert (ended.code, f"leakmeter runs complete {url}\n" in ended.err) == (0, True)
    Objects(url).put(".slice-9-of-9.lease", RAN_OUT)
    assert cli("runs", "complete", url).err == f"run: {url}\n"
    assert names(root, local.name) == [*PARTS_OF_4, "spec.json"]
    assert exported(cli, url, tmp_path / "a") == exported(cli, local, tmp_path / "b")
    assert cli("runs", "complete", url).code == 0


@pytest.mark.long
def test_slices_of_store_and_disk_are_joined(root: str, measure: Call, cli: Call, local: Path, tmp_path: Path) -> None:
    assert measure(root, "--part", "1/2").code == 0
    assert measure(tmp_path / "other", "--part", "2/2").code == 0
    url, other = f"{root}/{local.name}", tmp_path / "other" / local.name
    assert cli("runs", "complete", url, other).code == 0
    assert cli("runs", "verify", url).code == 0
    assert cli("runs", "complete", other, url).code == 2
    assert exported(cli, url, tmp_path / "a") == exported(cli, local, tmp_path / "b")


def test_functions_write_and_read_runs_in_a_store(root: str, local: Path, tmp_path: Path) -> None:
    run = leakmeter.influence("toy", CASES, out=root)
    again = leakmeter.load_run(f"{root}/{local.name}")
    assert [one.to_dict() for one in run] == [one.to_dict() for one in again]
    assert oct(run.path.parent.stat().st_mode)[-3:] == "700"
    assert len(list((tmp_path / "copies").iterdir())) == 2
    del run, again
    assert list((tmp_path / "copies").iterdir()) == []


def test_what_cannot_be_kept_in_a_store_is_refused(root: str, cli: Call, tmp_path: Path) -> None:
    abstracts = tmp_path / "abstracts.json"
    record = {"QUESTION": "Who?", "CONTEXTS": ["Anna Ek sang.", "Bo ate."], "LONG_ANSWER": "Anna."}
    abstracts.write_text(json.dumps({"1": record}), encoding="utf-8")
    study = ("study", "figure_8", "--data", abstracts, "--set", "model=toy")
    for words in (study, ("generate", "--model", "toy")):
        refused = cli(*words, "--out", root)
        assert (refused.code, "is in an object store, which keeps only runs of cases" in refused.err) == (2, True)
    assert list(Path.cwd().iterdir()) == []


def test_what_is_not_there_is_said_in_one_line(root: str, measure: Call, cli: Call, faults: Faults) -> None:
    for refused, said in (
        (measure("s3://nowhere/x"), "'s3://nowhere/x': there is no such bucket"),
        (cli("runs", "query", "select 1", "--runs", "s3://nowhere/x"), "there is no such bucket"),
        (cli("runs", "query", "select 1", "--runs", root), f"nothing exists at '{root}'"),
        (cli("report", f"{root}/influence-1"), f"nothing exists at '{root}/influence-1'"),
        (measure("s3://key:hush@bucket/x"), "credentials in the environment"),
    ):
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
        assert said in refused.err
        assert "hush" not in refused.err
    faults.add("GET", "/bucket", "denied")
    assert "access is denied" in measure(root).err
    assert not Path("s3:").exists()
