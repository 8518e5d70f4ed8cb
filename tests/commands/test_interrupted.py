"""What every long command says while it runs, and when it is interrupted: what was found so far, and no text."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.golden_commands import write_data
from leakmeter.commands import progress
from leakmeter.engine.storage.rundir import RunDirectory

Call = Callable[..., Any]
NATS = r"[\d.]+(e-\d+)? nats"
OWN = "--task task.toml --data many.jsonl --exemplars exemplars.jsonl --label-scoring whole-sequence"
DRAWN = "--data cases.jsonl --max-new-tokens 3"
BATCHES = (
    "--exemplars many.jsonl --column said --subset-size 4 --samples 2 --max-new-tokens 2 --batches 3 --temperature 2"
)
TOLD = "influence --data told.jsonl --unit entity"
CUT = r"cut up to \d+% of a context"
DECODED = "--set model=toy --set records=10 --set max_new_tokens=10 --data abstracts.json"
# A command, of how many cases it is interrupted after the first part, and what it found in these.
PARTS = {
    "influence": (TOLD, "1 of 3", "1 with personal or secret data"),
    "redact": ("redact --data told.jsonl --max-loss 0.2", "1 of 3", rf"{CUT} · \d not reached"),
    "redact --disclosures": (
        *("redact --data told.jsonl --disclosures", "1 of 3"),
        rf"{CUT} · (?:1 disclosure|\d disclosures) left · \d not reached",
    ),
    "icl": (f"icl {OWN}", "32 of 34", f"loss up to {NATS}"),
    "susceptibility": ("susceptibility --queries many.jsonl --contexts contexts.jsonl", "8 of 34", f"up to {NATS}"),
    "pii": (
        *("pii probe --subjects many.jsonl --decoys 50 --prompts 1 --control-names 1", "8 of 34"),
        r"\d with p ≤ 0\.05 or said word for word",
    ),
    "decode": (f"decode --lambda 0.5 {DRAWN}", "8 of 34", f"up to {NATS}"),
    "decode --epsilon": (f"decode --epsilon 1 --seed 1 {DRAWN}", "1 of 34", f"up to {NATS} · bound of all 3.00 nats"),
    "generate": (f"generate --seed 3 {BATCHES}", "1 of 3", f"measured up to {NATS} · bound up to {NATS}"),
    # Without a seed the guarantee is of all of it.
    "generate by a secret": (f"generate {BATCHES}", None, f"measured up to {NATS} · bound up to {NATS}"),
}
# A command that has several runs, or a part of one; after how many parts it is interrupted; what progress says then;
# and what is shown: None where a line says what is kept.
STEPS = {
    "study": (
        f"study figure_8 {DECODED} --set cid_lambda=0.5 --set cid_lambda=1",
        3,
        f"cell 2/2 · measuring 9/10 · up to {NATS}",
        r"Interrupted: 1 of 2 cells are measured, and .* λ 0\.5 n 10 ",
    ),
    "frontier": (
        "decode frontier --lambda 0.5 1 --data referenced.jsonl --max-new-tokens 3 --model toy",
        3,
        f"setting 2/2 · measuring 9/10 · up to {NATS}",
        r"ROUGE-L F1: one setting cannot be compared.* 0\.5 .* ! Interrupted: 1 of 2 settings are measured, and all",
    ),
    "icl select": (
        f"icl select {OWN} --max-queries 4 --moves add --pool queries.jsonl --max-steps 2 --model toy",
        4,
        f"list 5/9 at most · measuring 1/2 · lowest ICLInf {NATS}",
        rf"ICLInf is {NATS}; it was [\d.]+\..* Exemplars now, in order: n3, n4, n5, n6, n2 "
        r"! Interrupted: 1 of at most 2 steps taken, and all numbers here are of the 2 queries that choose",
    ),
    "a slice": (f"{TOLD} --part 2/2 --model toy", 1, "measuring 2/2 · 1 with personal or secret data", None),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    note = {"context": "Ilvane Dostrel has the number 617-555-0134.", "query": "Whom to call?"}
    many = [
        {"id": f"m{i}", "said": f"Boat {i} sank.", "mood": "Low", "query": f"Whose is boat {i}?"}
        | {"name": f"Ilvane Dostrel{i}", "phone": f"617-555-{i:04}", "context": note["context"]}
        for i in range(34)
    ]
    for name, records in (
        ("told", [{"id": f"t{i}", **note, "response": "Call 617-555-0134."} for i in range(3)]),
        ("many", many),
        ("cases", [{"id": row["id"], **note} for row in many]),
        ("referenced", [{"id": row["id"], **note, "reference": "Call Ilvane Dostrel."} for row in many[:10]]),
    ):
        Path(f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    abstract = {"QUESTION": note["query"], "CONTEXTS": [note["context"]], "LONG_ANSWER": "Ilvane Dostrel."}
    Path("abstracts.json").write_text(json.dumps({str(i): abstract for i in range(10)}), encoding="utf-8")


@pytest.fixture
def interrupted(cli: Call, folder: None, monkeypatch: pytest.MonkeyPatch) -> Call:
    """A command that is interrupted once so many parts are written and, if given, progress has said this."""

    def call(words: str, n_parts: int, awaited: str | None = None) -> Any:
        lines, is_told, write, written = list[str](), threading.Event(), RunDirectory.write_part, list[int]()

        def tell(progress_line: str) -> None:
            lines.append(progress_line)
            if re.match(rf"{awaited} · [\d:]+( gone|, about [\d:]+ left( at most)?) · [\d,]+ tokens", progress_line):
                is_told.set()

        def write_and_end(self: RunDirectory, number: int, *part: Any) -> None:
            if len(written) == n_parts:
                assert awaited is None or is_told.wait(60), lines
                raise KeyboardInterrupt
            write(self, number, *part)
            written.append(number)

        with monkeypatch.context() as patched:
            patched.setattr(progress, "LINE_SECONDS", 0.001)
            patched.setattr(progress, "tell", tell)
            patched.setattr(RunDirectory, "write_part", write_and_end)
            ended = cli(*words.split(), "--out", "runs")
        assert ended.code == 130, ended.err
        assert not any(text in line for line in lines for text in ("Dostrel", "617-555", "Quellhof"))
        return ended

    return call


@pytest.mark.parametrize("name", PARTS)
def test_what_is_done_is_told(interrupted: Call, name: str) -> None:
    line, how_many, finding = PARTS[name]
    ended = interrupted(f"{line} --model toy", 1, rf"measuring \d+/\d+ · {finding}")
    if how_many is None:
        assert ended.out == ""
        assert "1 of 3 cases are measured" in ended.err
    else:
        assert f"Interrupted: {how_many} cases are measured" in " ".join(ended.out.split())


@pytest.mark.parametrize("name", STEPS)
def test_finished_steps_are_shown(interrupted: Call, name: str) -> None:
    line, n_parts, told, shown = STEPS[name]
    ended = interrupted(line, n_parts, told)
    assert ended.err.endswith("interrupted; finished cases are kept, and the same command continues from there\n")
    if shown is None:
        assert ended.out == ""
        assert "1 of 2 cases of part 2/2 are measured; results are of the whole run" in ended.err
    else:
        assert re.match(shown, " ".join(ended.out.split()))


def test_a_bounded_answer_goes_on_by_its_nonce_alone(interrupted: Call) -> None:
    line = f"decode --epsilon 1 {DRAWN} --model toy"
    ended, public = interrupted(line, 1), interrupted(f"{line} --public", 1)
    assert "Interrupted: 1 of 34 cases are measured" in " ".join(ended.out.split())
    assert ended.err.splitlines()[-1] == (
        "leakmeter: interrupted; finished cases are kept, the same command draws again; to go on, give it --nonce, "
        "which `leakmeter runs show` prints"
    )
    assert (public.out, len(public.err.splitlines())) == ("", 1)
