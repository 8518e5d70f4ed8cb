"""What was spent of ε: charged before, on the disk, by several processes at once, and without a text."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from leakmeter.errors import StoreError, UsageError
from leakmeter.serve.spent import FILE, KEY_FILE, NANO, Spent, SpentError, nano


def test_equal_texts_are_one_document_whatever_their_white_space(tmp_path: Path) -> None:
    spent = Spent(tmp_path / "kept", 1.0)
    assert spent.names_of("Ana is 41.\n") == spent.names_of("  Ana  is\t41.")
    assert spent.names_of("Zoe\u0301") == spent.names_of("Zo\u00e9")
    assert spent.names_of("Ana is 41.") != spent.names_of("Ana is 42.")
    assert spent.names_of("ana is 41.") != spent.names_of("Ana is 41.")
    with_id = spent.names_of("Ana is 41.", "note 1")
    assert with_id[:1] == spent.names_of("Ana is 41.")
    assert with_id[1:] == spent.names_of("Ana is 42.", "note 1")[1:]
    # A text is no id.
    assert spent.names_of("x", "x")[0] != spent.names_of("x", "x")[1]


def test_the_total_is_reached_exactly_and_never_exceeded(tmp_path: Path) -> None:
    spent = Spent(tmp_path / "kept", 1.0)
    tenth = nano(0.1, up=True)
    for _ in range(10):
        spent.charge(["a"], tenth)
    with pytest.raises(SpentError):
        spent.charge(["a"], 1)
    assert spent.nats_of("a") == 1.0
    spent.charge(["b"], NANO)


def test_all_documents_are_charged_or_none(tmp_path: Path) -> None:
    spent = Spent(tmp_path / "kept", 1.0)
    spent.charge(["z"], NANO)
    with pytest.raises(SpentError):
        spent.charge(["a", "z"], 1)
    assert spent.nats_of("a") == 0.0
    spent.charge(["b", "b"], NANO)
    assert spent.nats_of("b") == 1.0


def test_a_restart_forgets_nothing_and_gives_back_what_was_not_drawn(tmp_path: Path) -> None:
    Spent(tmp_path / "kept", 1.0).charge(["a"], NANO)
    again = Spent(tmp_path / "kept", 1.0)
    with pytest.raises(SpentError):
        again.charge(["a"], 1)
    again.give_back(["a"], NANO // 4)
    again.charge(["a"], NANO // 4)
    assert Spent(tmp_path / "kept", 2.0).nats_of("a") == 1.0


def test_a_process_that_is_killed_gives_nothing_back(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from leakmeter.serve.spent import Spent\n"
        "Spent(Path(sys.argv[1]), 1.0).charge(['a'], 10**9); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "kept")], check=False, env=os.environ)
    assert Spent(tmp_path / "kept", 1.0).nats_of("a") == 1.0


def test_two_processes_and_their_threads_do_not_overspend(tmp_path: Path) -> None:
    code = (
        "import sys; from concurrent.futures import ThreadPoolExecutor; from pathlib import Path\n"
        "from leakmeter.serve.spent import Spent, SpentError\n"
        "spent = Spent(Path(sys.argv[1]), 1.0)\n"
        "def one(_):\n"
        "    try: spent.charge(['a'], 10**9 // 20)\n"
        "    except SpentError: return 0\n"
        "    return 1\n"
        "with ThreadPoolExecutor(4) as pool: print(sum(pool.map(one, range(20))))"
    )
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(
            lambda _: subprocess.run(
                [sys.executable, "-c", code, str(tmp_path / "kept")], check=True, capture_output=True, text=True
            ),
            range(2),
        )
    assert sum(int(one.stdout) for one in done) == 20
    assert Spent(tmp_path / "kept", 1.0).nats_of("a") == 1.0


def test_the_file_holds_no_text_and_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    spent = Spent(folder, 1.0)
    spent.charge(spent.names_of("Ana is 41.", "note 1"), 1)
    content = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"Ana" not in content
    assert b"note" not in content
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in (FILE, KEY_FILE)} == {0o600}
    assert Spent(tmp_path / "other", 1.0).names_of("Ana is 41.") != spent.names_of("Ana is 41.")


def test_a_lost_key_or_file_is_told_and_budgets_do_not_begin_anew(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    spent = Spent(folder, 1.0)
    key = (folder / KEY_FILE).read_bytes()
    (folder / KEY_FILE).unlink()
    with pytest.raises(StoreError, match="another key"):
        Spent(folder, 1.0)
    (folder / KEY_FILE).write_bytes(key)
    Spent(folder, 1.0)
    (folder / FILE).unlink()
    with pytest.raises(StoreError, match="cannot be kept"):
        spent.charge(["a"], 1)
    (folder / FILE).write_bytes(b"no database of any kind, and long enough to be read as one" * 40)
    with pytest.raises(StoreError):
        Spent(folder, 1.0)


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    Spent(folder, 1.0)
    with sqlite3.connect(folder / FILE) as database:
        database.execute("PRAGMA user_version = 9")
    database.close()
    with pytest.raises(StoreError, match="another version"):
        Spent(folder, 1.0)


@pytest.mark.parametrize("nats", [0.0, -1.0, float("nan"), float("inf"), 1e7])
def test_amounts_without_meaning_are_refused(nats: float) -> None:
    with pytest.raises(UsageError):
        nano(nats, up=True)
