"""The score cache: what was put is found or is not, whatever happens to the file."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from helpers.examples import examples
from leakmeter.engine.scores import FILE_NAME, ScoreCache
from leakmeter.engine.storage.pseudonym import read_secret
from leakmeter.errors import StoreError

SECRET = bytes(range(32))
Make = Callable[..., ScoreCache]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "scores" / FILE_NAME


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def make(place: Path, told: list[str]) -> Iterator[Make]:
    made: list[ScoreCache] = []

    def cache(max_bytes: int = 2**30, secret: bytes = SECRET) -> ScoreCache:
        made.append(ScoreCache(place, secret, max_bytes, notify=told.append))
        return made[-1]

    yield cache
    for one in made:
        one.close()


def numbers(seed: int, n_bytes: int = 4000) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n_bytes // 4, 4)).astype(np.uint8)


def files(place: Path) -> list[Path]:
    return sorted(place.parent.iterdir())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50))
@given(
    key=st.binary(max_size=64),
    array=arrays.arrays(
        st.sampled_from(["f4", "f2", "f8", ">f4", "u2", "i8", "?", "c8"]), arrays.array_shapes(max_dims=3, max_side=5)
    ),
)
def test_what_was_put_is_found(make: Make, told: list[str], key: bytes, array: np.ndarray) -> None:
    cache = make()
    cache.clear()
    assert cache.get(key) is None
    cache.put(key, array)
    for other in (cache, make()):
        found = other.get(key)
        assert found is not None
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.tobytes() == array.tobytes()
        assert not found.flags.writeable
    assert told == []


def test_an_entry_stays_as_it_was_first_put_and_only_numbers_are_kept(make: Make, place: Path) -> None:
    cache = make()
    assert (cache.n_entries, cache.n_bytes) == (0, 0)
    cache.clear()
    # Nothing is made before it is needed.
    assert not place.parent.exists()
    whole = numbers(0)
    cache.put(b"k", whole.T[::2])
    cache.put(b"k", numbers(1))
    np.testing.assert_array_equal(cache.get(b"k"), whole.T[::2])
    assert cache.n_entries == 1
    for array in (np.array([{}], dtype=object), np.array(["text"]), np.zeros(1, dtype=[("a", "f4")])):
        with pytest.raises(TypeError, match="give one of numbers"):
            cache.put(b"k", array)


def test_files_are_made_private_and_tightened(make: Make, place: Path) -> None:
    before = os.umask(0)
    try:
        one = make()
        one.put(b"key", numbers(1))
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in files(place)} == {0o600}
    assert len(files(place)) > 1  # SQLite's own beside it
    one.close()
    place.chmod(0o666)
    place.parent.chmod(0o777)
    assert make().get(b"key") is not None
    assert [stat.S_IMODE(path.stat().st_mode) for path in (place, place.parent)] == [0o600, 0o700]


def test_what_belongs_to_somebody_else_is_not_used(
    make: Make, place: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.parent.mkdir(mode=0o700)
    elsewhere = place.parent.parent / "elsewhere"
    elsewhere.write_bytes(b"precious")
    place.symlink_to(elsewhere)
    assert make().get(b"key") is None
    assert ["continuing without the score cache" in line for line in told] == [True]
    assert elsewhere.read_bytes() == b"precious"
    place.unlink()
    place.write_bytes(b"")
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    assert make().get(b"key") is None
    assert "it belongs to another user" in told[1]


def test_another_secret_finds_nothing(make: Make, place: Path) -> None:
    cache, other = make(), make(secret=b"other")
    cache.put(b"a key that says much", numbers(0))
    assert other.get(b"a key that says much") is None
    cache.close()
    other.close()
    assert b"a key that says much" not in place.read_bytes()


@pytest.mark.parametrize(("n_bytes", "closes"), [(380_000, False), (600_000, True)])
def test_the_least_recently_used_go_first(make: Make, n_bytes: int, closes: bool) -> None:
    cache = make(max_bytes=10**6)
    for i in range(5):
        cache.put(b"%d" % i, numbers(i, 100_000))
    assert cache.n_entries == 5
    cache.get(b"0")
    cache.get(b"2")
    if closes:  # what another process used counts too
        cache.close()
        cache = make(max_bytes=10**6)
    cache.put(b"new", numbers(5, n_bytes))
    assert cache.n_bytes <= cache.max_bytes
    by_use = [1, 3, 4, 0, 2]
    left = [i for i in by_use if cache.get(b"%d" % i) is not None]
    assert 0 < len(left) < 5
    assert left == by_use[-len(left) :]
    assert cache.get(b"new") is not None
    cache.put(b"larger than the cap", numbers(1, 10**6))
    assert cache.get(b"larger than the cap") is None
    assert cache.get(b"new") is not None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(10))
@given(sizes=st.lists(st.integers(1, 300_000), min_size=5, max_size=40))
def test_the_file_never_outgrows_its_cap(make: Make, place: Path, sizes: list[int]) -> None:
    cache = make(max_bytes=10**6)
    for i, size in enumerate(sizes):
        cache.put(os.urandom(8), np.full(size, i, dtype=np.uint8))
        assert cache.n_bytes <= cache.max_bytes
    cache.close()
    assert place.stat().st_size <= 10**6


def test_clearing_leaves_nothing_on_the_disk(make: Make, place: Path) -> None:
    cache, reader = make(), make()
    secret_text = np.frombuffer(b"the patient is Anna" * 20_000, dtype=np.uint8)
    cache.put(b"k", secret_text)
    cache.put(b"l", numbers(0))
    assert reader.get(b"l") is not None
    cache.clear()
    assert (cache.n_entries, reader.get(b"k"), reader.get(b"l")) == (0, None, None)
    assert all(b"patient" not in path.read_bytes() for path in files(place))
    assert sum(path.stat().st_size for path in files(place)) < 300_000
    reader.put(b"k", numbers(1))
    np.testing.assert_array_equal(cache.get(b"k"), numbers(1))


def foreign(place: Path) -> None:
    place.unlink()
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE entries (name TEXT)")


@pytest.mark.parametrize(
    "damage",
    [
        lambda place: place.write_bytes(b"not a database at all" * 1000),
        lambda place: place.write_bytes(place.read_bytes()[: 2**14] + bytes(2**16)),
        lambda place: os.truncate(place, 2**14 + 100),
        lambda place: place.write_bytes(place.read_bytes()[: 2**14] + b"\xff" * 2**17),
        foreign,
        lambda place: os.truncate(place, 0),
    ],
    ids=["text", "zeros", "cut", "ones", "foreign", "empty"],
)
def test_a_damaged_file_is_replaced(make: Make, place: Path, told: list[str], damage: Callable[[Path], None]) -> None:
    before = make()
    for i in range(20):
        before.put(b"%d" % i, numbers(i, 20_000))
    before.close()
    damage(place)
    cache = make()
    for i in range(20):
        found = cache.get(b"%d" % i)
        assert found is None or found.tobytes() == numbers(i, 20_000).tobytes()
        cache.put(b"%d" % i, numbers(i, 20_000))
        np.testing.assert_array_equal(cache.get(b"%d" % i), numbers(i, 20_000))
    assert told == []
    cache.close()
    place.write_bytes(b"not a database at all" * 1000)
    cache = make()
    cache.clear()
    assert cache.n_entries == 0
    assert b"not a database" not in place.read_bytes()


@pytest.mark.parametrize("column", ["value", "checksum", "dtype", "shape", "name"])
def test_a_changed_entry_is_a_miss_and_removed(make: Make, place: Path, told: list[str], column: str) -> None:
    cache = make()
    cache.put(b"k", numbers(0))
    cache.put(b"l", numbers(1))
    cache.close()
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        if column == "name":
            # An index that leads to the wrong row.
            a, b = (name for (name,) in connection.execute("SELECT name FROM entries ORDER BY rowid"))
            for old, new in ((a, b"spare"), (b, a), (b"spare", b)):
                connection.execute("UPDATE entries SET name = ? WHERE name = ?", (new, old))
        else:
            connection.execute(f"UPDATE entries SET {column} = ?", (b"\xff\x01",))
    assert cache.get(b"k") is None
    assert cache.n_entries == 1
    cache.put(b"k", numbers(0))
    np.testing.assert_array_equal(cache.get(b"k"), numbers(0))
    assert told == []


def test_a_place_that_cannot_be_written_turns_the_cache_off(make: Make, place: Path, told: list[str]) -> None:
    place.parent.write_text("in the way", encoding="utf-8")
    cache = make()
    for i in range(3):
        assert cache.get(b"%d" % i) is None
        cache.put(b"%d" % i, numbers(i))
    (line,) = told
    assert line.startswith("continuing without the score cache '")
    assert "\n" not in line
    assert (cache.n_entries, cache.n_bytes) == (0, 0)
    place.parent.unlink()
    place.mkdir(parents=True)
    make().put(b"k", numbers(0))
    assert len(told) == 2
    with pytest.raises(StoreError, match=r"cannot be cleared: .*; delete it by hand"):
        make().clear()


def test_a_full_disk_turns_the_cache_off(place: Path) -> None:
    code = f"""
import resource, numpy as np
from pathlib import Path
from leakmeter.engine.scores import ScoreCache
told = []
cache = ScoreCache(Path({str(place)!r}), b"s", notify=told.append)
cache.put(b"small", np.arange(100))
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
cache.put(b"large", np.zeros(2**21, dtype=np.uint8))
cache.put(b"more", np.zeros(100))
assert cache.get(b"large") is None
print(len(told), told[0])
"""
    ended = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout.startswith("1 continuing without the score cache '"), ended
    assert ended.stderr == ""
    cache = ScoreCache(place, b"s")
    np.testing.assert_array_equal(cache.get(b"small"), np.arange(100))
    cache.close()


def write_many(place: str, first: int) -> None:
    cache = ScoreCache(Path(place), SECRET, 3 * 10**6, notify=lambda line: pytest.fail(line))
    for i in range(60):
        cache.put(b"%d" % (first + i), numbers(first + i, 30_000))
        found = cache.get(b"%d" % (60 - i))
        assert found is None or found.tobytes() == numbers(60 - i, 30_000).tobytes()
    cache.close()


@pytest.mark.long
def test_several_processes_at_once(make: Make, place: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write_many, args=(str(place), first)) for first in (0, 30, 60)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    cache = make()
    assert cache.n_entries > 40
    assert cache.n_bytes <= 3 * 10**6
    for i in range(120):
        found = cache.get(b"%d" % i)
        assert found is None or found.tobytes() == numbers(i, 30_000).tobytes()


def test_several_threads_at_once(make: Make, told: list[str]) -> None:
    cache = make()

    def work(first: int) -> None:
        for i in range(first, first + 50):
            cache.put(b"%d" % i, numbers(i))
            cache.get(b"%d" % (i - 20))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, (0, 25)))
    assert cache.n_entries == 75
    assert told == []


def test_it_is_closed_when_nobody_holds_it(place: Path) -> None:
    cache = ScoreCache(place, SECRET)
    cache.put(b"k", numbers(0))
    assert len(files(place)) > 2
    del cache
    gc.collect()
    assert place in files(place)
    assert not [path for path in files(place) if path.name.endswith("-wal")]


def test_the_secret_is_drawn_once_and_kept_private(tmp_path: Path) -> None:
    path = tmp_path / "config" / "leakmeter" / "scores.secret"
    secret = read_secret(path)
    assert len(secret) == 32
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    assert read_secret(path) == secret == path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(b"cut")
    with pytest.raises(StoreError, match="has 3 bytes instead of 32; restore it from a copy"):
        read_secret(path)
    assert path.read_bytes() == b"cut"
    # A cache can be filled anew.
    assert len(read_secret(path, replaces_damaged=True)) == 32
    assert read_secret(path) != secret
    pipe = tmp_path / "pipe.secret"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no regular file"):
        read_secret(pipe)
    assert read_secret(tmp_path / "other") != read_secret(path)


def test_processes_that_start_together_share_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "config" / "scores.secret"
    code = (
        "from pathlib import Path\nfrom leakmeter.engine.storage.pseudonym import read_secret\n"
        f"print(read_secret(Path({str(path)!r})).hex())"
    )
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({process.communicate()[0] for process in running}) == 1
