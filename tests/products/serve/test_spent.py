"""What was spent of ε: charged before, on the disk, by several processes at once, and without a text."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakmeter.errors import StoreError, UsageError
from leakmeter.products.serve.spent import FILE, KEY_FILE, NANO, Spent, SpentError, coarse, nano

TEXT = "Ana Ek (№ 41) sings."
SPELLINGS = {
    "white space": "  Ana Ek\t(№ 41)  sings.\n",
    "zero-width space, byte order and direction marks": "\ufeffAna\u200b \u200eEk (№ 41) sings.",
    "joiners": "An\u200da\u200c E\u034fk (№\u2060 41) sings.",
    "soft hyphen": "Ana Ek (№ 41) si\u00adngs.",
    "variation selector, tag character": "Ana Ek (№\ufe0f 41) sings.\U000e0041",
    "fillers": "Ana Ek\u3164 (№ 41) sings.\uffa0",
    "NUL": "Ana Ek\0 (№ 41) sin\0gs.",
    "compatibility form": "Ana Ek (No 41) sings.",
    "lower case": "ana ek (№ 41) sings.",
    "one more full stop": "Ana Ek (№ 41) sings..",
    "no-break space": "Ana\u00a0Ek\u2003(№\u202f41)\u2028sings.",
    "full width": "Ａｎａ Ｅｋ （№ ４１） ｓｉｎｇｓ．",
    "other dashes and quotation marks": "“Ana Ek” – № 41 – sings…",
    "object, Braille blank, what could not be decoded": "\ufffcAna\u2800Ek (№ 41)\ufffd sings.",
    "private use": "\uf0b7 Ana Ek (№ 41) sings.",
    "accents as quotation marks": "`Ana Ek´ (№ 41) sings.",
    "a line that ends at a soft hyphen": "Ana Ek (№ 41) si\u00ad\nngs.",
    "a line that ends at a hyphen": "Ana Ek (№ 41) si-\nngs.",
    "unassigned": "Ana Ek\u0378 (№ 41) sings.",
}


def test_another_spelling_of_a_text_or_an_id_finds_the_same_budget_and_another_text_does_not(tmp_path: Path) -> None:
    spent = Spent(tmp_path / "kept", 1.0)
    spent.charge(spent.names_of(TEXT), NANO)
    for name, spelling in SPELLINGS.items():
        assert spent.names_of(spelling, spelling) == spent.names_of(TEXT, TEXT), name
        with pytest.raises(SpentError):
            spent.charge(spent.names_of(spelling), 1)
    assert spent.names_of("Zoe\u0301") == spent.names_of("Zo\u00e9")
    for other in ("Ana Ek (№ 42) sings.", "Aña Ek (№ 41) sings.", "🎵"):
        of_text, of_id = spent.names_of(other, TEXT)
        assert of_text != spent.names_of(TEXT)[0]
        assert of_id == spent.names_of(TEXT, TEXT)[1] != spent.names_of(TEXT, other)[1]
    # A text is no id.
    assert spent.names_of("x", "x")[0] != spent.names_of("x", "x")[1]


@given(text=st.text(max_size=60))
def test_spellings_that_were_alike_stay_alike(text: str) -> None:
    made = coarse(text)
    assert coarse(made) == made
    for form in ("NFC", "NFD", "NFKC"):
        assert coarse(unicodedata.normalize(form, text)) == made
    assert coarse(" ".join(text.split())) == made
    assert coarse(f" \u200b{text}\n.\ufeff") == made


def test_the_total_is_reached_exactly_and_all_documents_are_charged_or_none(tmp_path: Path) -> None:
    spent = Spent(tmp_path / "kept", 1.0)
    for _ in range(10):
        spent.charge(["z"], nano(0.1, up=True))
    for names in (["z"], ["a", "z"]):
        with pytest.raises(SpentError):
            spent.charge(names, 1)
    assert (spent.nats_of("z"), spent.nats_of("a")) == (1.0, 0.0)
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
        "import os, sys; from pathlib import Path; from leakmeter.products.serve.spent import Spent\n"
        "Spent(Path(sys.argv[1]), 1.0).charge(['a'], 10**9); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "kept")], check=False)
    assert Spent(tmp_path / "kept", 1.0).nats_of("a") == 1.0


def test_two_processes_and_their_threads_do_not_overspend(tmp_path: Path) -> None:
    code = (
        "import sys; from concurrent.futures import ThreadPoolExecutor; from pathlib import Path\n"
        "from leakmeter.products.serve.spent import Spent, SpentError\n"
        "spent = Spent(Path(sys.argv[1]), 1.0)\n"
        "def one(_):\n"
        "    try: spent.charge(['a'], 10**9 // 20)\n"
        "    except SpentError: return 0\n"
        "    return 1\n"
        "with ThreadPoolExecutor(4) as pool: print(sum(pool.map(one, range(20))))"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "kept")]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sum(int(process.communicate(timeout=60)[0]) for process in both) == 20
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
    with pytest.raises(StoreError, match="cannot be recorded"):
        spent.charge(["a"], 1)
    (folder / FILE).write_bytes(b"no database of any kind, and long enough to be read as one" * 40)
    with pytest.raises(StoreError):
        Spent(folder, 1.0)


@pytest.mark.parametrize("version", [1, 9])
def test_a_file_of_another_version_is_refused_and_left_as_it_is(version: int, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    Spent(folder, 1.0)
    with sqlite3.connect(folder / FILE) as database:
        database.execute(f"PRAGMA user_version = {version}")
    database.close()
    before = (folder / FILE).read_bytes()
    with pytest.raises(StoreError, match="another version"):
        Spent(folder, 1.0)
    assert (folder / FILE).read_bytes() == before


@pytest.mark.parametrize("nats", [0.0, -1.0, float("nan"), float("inf"), 1e7])
def test_amounts_without_meaning_are_refused(nats: float) -> None:
    with pytest.raises(UsageError):
        nano(nats, up=True)
