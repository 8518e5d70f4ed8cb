"""Files: whole or not at all, private, through no link of somebody else's, and over nothing that is needed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import make_dataclass
from pathlib import Path

import pytest

from helpers.places import any_name
from leakmeter.core import files
from leakmeter.errors import StoreError

posix = pytest.mark.skipif(os.name == "nt", reason="modes and links as POSIX has them")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names_in(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir()]


@posix
def test_what_is_written_is_its_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(b"before")
    path.chmod(0o666)
    files.write_whole(path, b"after")
    assert (path.read_bytes(), mode(path)) == (b"after", 0o600)
    with files.replacing(path) as temporary:
        assert mode(temporary) == 0o600
        temporary.write_bytes(b"again")
        assert path.read_bytes() == b"after"
    assert (path.read_bytes(), mode(path)) == (b"again", 0o600)
    before = os.umask(0o027)
    try:
        files.write_whole(path, b"for all", public=True)
    finally:
        os.umask(before)
    assert mode(path) == 0o640
    assert names_in(tmp_path) == ["page.html"]


@pytest.mark.parametrize("error", [OSError(28, "full"), KeyboardInterrupt()])
def test_what_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(b"before")

    def fail(handle: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(error)):
        files.write_whole(path, b"after")
    with pytest.raises(type(error)), files.replacing(path) as temporary:
        temporary.write_bytes(b"after")
    assert path.read_bytes() == b"before"
    assert names_in(tmp_path) == ["page.html"]


@posix
def test_links_in_a_shared_directory_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever knows where a file will be written lays links there beforehand, under every name that can be guessed."""
    shared, victim = tmp_path / "shared", tmp_path / "victim"
    shared.mkdir()
    shared.chmod(0o1777)
    victim.write_bytes(b"precious")
    path = shared / "report.html"
    pid = os.getpid()
    for end in ("", ".partial", f".{pid}.partial", f".{pid}", ".tmp"):
        (shared / f"report.html{end}").symlink_to(victim)
    files.write_whole(path, b"private")
    assert victim.read_bytes() == b"precious"
    assert (path.read_bytes(), path.is_symlink(), mode(path)) == (b"private", False, 0o600)
    # Even the random name, were it guessed, is not written through.
    guesses = iter(["guessed", "not guessed", "a third"])
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: next(guesses))
    (shared / f"report.html.{pid}.guessed.partial").symlink_to(victim)
    files.write_whole(path, b"private too")
    assert victim.read_bytes() == b"precious"
    assert path.read_bytes() == b"private too"
    # A file that is opened where it lies is opened through no link either.
    for name, target in (("people.jsonl", victim), ("dangling", tmp_path / "made")):
        (shared / name).symlink_to(target)
        with pytest.raises(OSError, match="symbolic link"):
            files.open_private(shared / name, os.O_RDWR)
    files.try_place(shared / "dangling")
    assert not (tmp_path / "made").exists()


@any_name
@posix
def test_names_of_partial_files_cannot_be_guessed(tmp_path: Path) -> None:
    seen: set[str] = set()
    for _ in range(20):
        with files.replacing(tmp_path / ("ń" * 127)) as temporary:
            seen.add(temporary.name)
    assert len(seen) == 20
    assert all(name.endswith(".partial") and f".{os.getpid()}." in name for name in seen)


def test_what_a_killed_process_left_half_written_is_removed_and_a_living_ones_stays(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    own = [f"table.md.{os.getpid()}.{'0' * 16}.partial", f"table.md.{os.getpid()}.partial"]
    left = [f"table.md.{ended.pid}.{'ab' * 8}.partial", f"table.md.{ended.pid}.partial", "table.md.partial"]
    for name in (*own, *left, "table.md"):
        (tmp_path / name).write_text("half", encoding="utf-8")
    files.clear_left_over(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*own, "table.md"}


@posix
def test_a_directory_that_others_may_use_is_tightened(tmp_path: Path) -> None:
    made = tmp_path / "new" / "own"
    files.make_private(made)
    assert mode(made) == 0o700
    for was in (0o777, 0o755, 0o710):
        made.chmod(was)
        files.make_private(made)
        assert mode(made) == 0o700
    # One that the user named may be read by others, and is never changed.
    made.chmod(0o755)
    files.make_private(made, named=True)
    assert mode(made) == 0o755
    for was in (0o775, 0o757, 0o1777):
        made.chmod(was)
        with pytest.raises(OSError, match="other users can write to that directory"):
            files.make_private(made, named=True)
        assert mode(made) == was


@posix
def test_a_directory_that_cannot_be_made_private_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir(mode=0o755)
    link.symlink_to(folder)
    with pytest.raises(OSError, match="it is a link"):
        files.make_private(link)
    files.make_private(link, named=True)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(OSError, match="it belongs to another user"):
        files.make_private(folder)
    (folder / "file").touch()
    with pytest.raises(OSError, match="it belongs to another user"):
        files.open_private(folder / "file", os.O_RDWR)
    assert mode(folder) == 0o755
    monkeypatch.undo()
    # A file that others may read is tightened when it is opened.
    (folder / "file").chmod(0o666)
    os.close(files.open_private(folder / "file", os.O_RDWR))
    assert mode(folder / "file") == 0o600


def test_inputs_are_found_under_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    note, other = Path("in/note.txt"), Path("other.txt")
    note.write_text("Anna sang.")
    other.write_text("Bo ate.")
    Path("hard.txt").hardlink_to(note)
    Path("soft.txt").symlink_to(note)
    Path("linked").symlink_to("in")
    same = ("in/note.txt", "./in/../in/note.txt", tmp_path / "in/note.txt", "hard.txt", "soft.txt", "linked/note.txt")
    for place in same:
        for given in ([note], note, [[None, "x", (other, note)]], str(note), f"@{note}"):
            with pytest.raises(
                StoreError, match="an input of this command and would be overwritten; give another name"
            ):
                files.check_place(Path(place), "report", given)
    for place in ("in/new.html", "other.html", "soft.html"):
        files.check_place(Path(place), "report", [note, other, Path("in")])
    for name in ("in/note.txt", "linked/note.txt"):
        with pytest.raises(StoreError, match=rf"report '{name}' is a file of 'in', which is an input"):
            files.check_place(Path(name), "report", [Path("in")])


def test_files_among_what_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "c"):
        Path(name).touch()
    Path("folder").mkdir()

    options = make_dataclass("Options", ["path", "text", "more", "none"])
    given = options(Path("a"), "@b", ["c", "x\0y", "z" * 5000, 7, b"a"], None)
    found = files.files_among([given, Path("folder"), Path("missing")])
    assert list(found) == [Path("a"), Path("b"), Path("c"), Path("folder")]
    # Words that happen to be names of directories are no files that are read.
    assert list(files.files_among(["", "@", ".", "folder", "/"])) == []


def test_nothing_is_written_into_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, begun, torn, kept = (
        tmp_path / "runs" / f"{name}-0123456789abcdef" for name in ("influence", "decode", "icl", "study-mine-laptop")
    )
    own, link = tmp_path / "project", tmp_path / "link"
    for folder, name, text in (
        (run, "spec.json", f'{{\n "id": "{run.name}",\n "measure": "influence"}}'),
        (begun, "begun.json", f'{{"id": "{begun.name}", "measure": "decode"}}'),
        (torn, "measurements-00000.parquet", ""),
        (kept, "table.md", ""),
        (own, "spec.json", '{"openapi": "3.1.0"}'),
    ):
        folder.mkdir(parents=True)
        (folder / name).write_text(text, encoding="utf-8")
    link.symlink_to(run)
    monkeypatch.chdir(run)
    inside = (run / "spec.json", run / "new.html", run, link / "spec.json", Path("x.html"), begun / "x", torn / "x")
    for place in inside:
        with pytest.raises(StoreError, match="is inside the run '"):
            files.check_outside_runs(place, "report")
    monkeypatch.chdir(tmp_path)
    # What only looks like one is none: a specification of the user's own, beside which a report may lie.
    for place in (own / "report.html", own / "spec.json", tmp_path / "runs" / "report.html", tmp_path / "report.html"):
        files.check_outside_runs(place, "report")
    # Nor are files of studies written over, beside which a report may lie.
    with pytest.raises(StoreError, match=r"report '.*table.md' is a file of 'study-mine-laptop-0123456789abcdef'"):
        files.check_outside_runs(kept / "table.md", "report")
    files.check_outside_runs(kept / "report.html", "report")
    # Loops of links lead nowhere.
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    files.check_place(tmp_path / "loop", "report", [tmp_path / "other"])


def test_trying_a_place_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(b"before")
    stamp = path.stat().st_mtime_ns
    with path.open("rb") as before:
        lowest = before.fileno()
    files.try_place(path)
    files.try_place(tmp_path / "new.html")
    with files.replacing(tmp_path / "other.html"):
        pass
    (tmp_path / "other.html").unlink()
    with path.open("rb") as after:
        assert after.fileno() == lowest  # no handle is left open
    assert names_in(tmp_path) == ["page.html"]
    assert path.stat().st_mtime_ns == stamp
    with pytest.raises(OSError, match="No such file"):
        files.try_place(tmp_path / "no" / "page.html")


def test_a_file_that_may_not_be_written_is_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    files.try_place(path)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    files.try_place(path)
    path.write_bytes(b"before")
    with pytest.raises(PermissionError):
        files.try_place(path)
    assert path.read_bytes() == b"before"


def test_many_writers_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda number: files.write_whole(path, b"abc"[number % 3 :][:1] * 1000), range(60)))
    assert len(set(path.read_bytes())) == 1
    assert names_in(tmp_path) == ["table.md"]


@posix
def test_a_folder_and_a_pipe_are_no_regular_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, reason in ((tmp_path, "Is a directory"), (tmp_path / "pipe", "no regular file")):
        with pytest.raises(OSError, match=reason), files.regular_file(path):
            pass
