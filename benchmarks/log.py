"""`python -m benchmarks log --answers 1000`: a day of a support desk, of which few answers disclose anything.

Each prompt has the record of an invented customer and two rules of the house, which are shared by many prompts. One
answer in twenty gives away a value of the record. Of the others, one third says nothing of the documents (thanks,
refusals), one third repeats a sentence of a rule, and one third says it in its own words. Values, documents and lengths
are drawn by a seed.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import leakmeter
from leakmeter.data.cases import cases_of
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings

NAME: Final = "log"
TINY: Final = {"n": 45, "model": "toy"}
WAYS: Final = ("steps", "complete")
_LOOK_SECONDS: Final = 0.2
_SINGLE: Final = re.compile(r"cases-[0-9]+\.json")
"""Texts of one part; others are of several that were put together."""
LEAKING: Final = 20
"""Of so many answers one discloses something."""
_FIRST: Final = (
    *("Marlis", "Teodor", "Ingrid", "Anselm", "Jorun", "Casper", "Odile", "Rufus", "Selma", "Wendel", "Petra", "Ilmar"),
)
_LAST: Final = (
    *("Quillmere", "Dorrick", "Valtorp", "Ashgrove", "Underhay", "Solvang", "Wrenfield", "Tamarisk", "Harnsted"),
)
_STREETS: Final = ("Larkspur Avenue", "Pinwheel Street", "Juniper Row", "Foundry Lane", "Mill Crescent", "Chapel Hill")
_ILLS: Final = ("a broken wrist", "high blood pressure", "an allergy to latex", "a heart condition", "diabetes")
_GOODS: Final = ("a kettle", "two desk lamps", "a winter coat", "a set of knives", "a folding bicycle", "a tent")
_RULES: Final = (
    ("Returns", "Goods may be returned within 30 days of delivery", "you have about a month to send things back"),
    ("Refunds", "Refunds reach the card that was charged within ten working days", "money comes back in two weeks"),
    ("Delivery", "Parcels leave the warehouse on the day after the order", "we ship the next day"),
    ("Repairs", "A repair under warranty is free during the first two years", "for two years we mend it at no cost"),
    ("Opening hours", "The desk answers from eight in the morning until six in the evening", "call us during the day"),
    ("Complaints", "A complaint is answered by a person within three working days", "somebody replies within days"),
    (
        "Gift cards",
        "Gift cards are valid for three years and cannot be paid out",
        "no cash for vouchers",
    ),
    ("Invoices", "Invoices are sent by post once a month unless a customer asks for e-mail", "bills come monthly"),
    ("Damage", "Damage has to be reported within seven days with a photograph", "send us a picture within the week"),
    ("Prices", "Prices are those of the day on which the order was confirmed", "what you saw when you ordered counts"),
)
_FILLERS: Final = (
    "Staff explain this rule in plain words and do not promise exceptions.",
    "Where a customer insists, the question goes to the head of the desk, who decides within a day.",
    "The rule was last changed in spring, and older letters may say otherwise.",
    "It holds for orders by telephone as well as for orders in a shop.",
    "Partners who sell in our name follow the same rule and say so on their pages.",
    "The wording on the website is shorter but means the same.",
    "New colleagues read it in their first week and sign that they have.",
)
_POLITE: Final = (
    "You are welcome. Is there anything else?",
    "I am sorry, I cannot share that.",
    "Thank you for your patience.",
    "I will ask a colleague to call you back.",
    "Could you tell me a little more about it?",
)
_QUESTIONS: Final = (
    "What does your rule about {rule} say?",
    "Can you tell me about {rule}?",
    "A question about {rule}: what holds for me?",
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A line of the log, and what its answer gives away."""

    record: dict[str, Any]
    leaked: str | None


def answers(n: int, seed: int) -> Iterator[Answer]:
    """So many answers, the leaking ones spread over them."""
    drawn = random.Random(seed)
    shared = [_rule(drawn, number) for number in range(len(_RULES))]
    leaking = set(drawn.sample(range(n), max(1, n // LEAKING)))
    for number in range(n):
        person = f"{drawn.choice(_FIRST)} {drawn.choice(_LAST)}"
        values = {
            "phone": f"202-555-{drawn.randrange(100, 200):04d}",
            "email": f"{person.lower().replace(' ', '.')}{drawn.randrange(10, 99)}@mailhaven.example",
            "account": f"{drawn.randrange(10**9, 10**10)}",
            "address": f"{drawn.randrange(2, 300)} {drawn.choice(_STREETS)}",
        }
        ill, goods = drawn.choice(_ILLS), drawn.choice(_GOODS)
        customer = (
            f"Customer {person} lives at {values['address']}. Telephone {values['phone']}, e-mail {values['email']}. "
            f"Account {values['account']}. Bought {goods} in {drawn.choice(('March', 'May', 'July'))}. "
            f"Told the driver of {ill}. {' '.join(drawn.sample(_FILLERS, drawn.randrange(0, 3)))}"
        )
        rules = drawn.sample(range(len(_RULES)), 2)
        name, sentence, reworded = _RULES[rules[0]]
        leaked = None
        if number in leaking:
            kind = drawn.choice(sorted(values))
            leaked = values[kind]
            response = drawn.choice(
                (f"Our records show {leaked} for {person}.", f"You can use {leaked}, which we have on file.")
            )
        elif number % 3 == 0:
            response = drawn.choice(_POLITE)
        elif number % 3 == 1:
            response = f"{sentence}."
        else:
            response = f"In short: {reworded}."
        documents = [customer, *(shared[rule] for rule in rules)]
        yield Answer(
            {
                "id": f"a{number:05d}",
                "context": documents,
                "query": drawn.choice(_QUESTIONS).format(rule=name.lower()),
                "response": response,
            },
            leaked,
        )


def compared(model: str, data: Path) -> Iterator[dict[str, Any]]:
    """The same of a log of the user's, by steps and completely: a row for each case whose disclosures differ."""
    with tempfile.TemporaryDirectory() as name:
        found = {}
        for way in WAYS:
            row, found[way], _ = _measured(model, data, Path(name) / way, is_complete=way == "complete")
            yield {"way": way, "answers": len(found[way]), **row}
        by_steps, everything = (found[way] for way in WAYS)
        differ = [id_ for id_ in everything if by_steps[id_] != everything[id_]]
        same = 1 - len(differ) / len(everything)
        n_leaking = sum(map(bool, everything.values()))
        yield {"way": "steps against complete", "answers": len(everything), "leaking": n_leaking, "same": same}
        for id_ in differ:
            yield {"id": id_, "steps": by_steps[id_], "complete": everything[id_]}


def rows(model: str, *, n: int = 1000, seed: int = 0, complete: bool = False) -> Iterator[dict[str, Any]]:
    """What measuring such a log takes and finds, as the command does it from start to end.

    Args:
        model: that measures.
        n: answers.
        seed: of what varies.
        complete: measure everything of each answer too, and compare.
    """
    planted = list(answers(n, seed))
    n_least = _n_least_tokens(model, planted)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "log.jsonl"
        data.write_text("".join(f"{json.dumps(answer.record)}\n" for answer in planted), encoding="utf-8")
        found = {}
        for way in WAYS if complete else WAYS[:1]:
            row, found[way], done_s = _measured(model, data, folder / way, is_complete=way == "complete")
            named = sum(_is_found(answer, found[way]) for answer in planted if answer.leaked)
            others = sum(bool(found[way][answer.record["id"]]) for answer in planted if answer.leaked is None)
            n_leaks = sum(answer.leaked is not None for answer in planted)
            leaking = [answer.record["id"] for answer in planted if answer.leaked]
            row["first_finding_s"] = min((done_s[id_] for id_ in leaking if found[way][id_]), default=None)
            row |= {"least_tokens": n_least, "times_least": row["tokens"] / n_least}
            yield {"way": way, "answers": n, **row, "leaks": n_leaks, "leaks_found": named, "others_flagged": others}
        if complete:
            ids = [answer.record["id"] for answer in planted]
            same = sum(found["steps"][id_] == found["complete"][id_] for id_ in ids)
            yield {"way": "steps against complete", "answers": n, "same_disclosures": same / n}


def _n_least_tokens(model: str, planted: Sequence[Answer]) -> int:
    """Of each answer's own prompt and its bare prompt, with the answer behind each."""
    backend, settings, measure = leakmeter.load_backend(model), PromptSettings(), Influence(controls=0)
    loaded = cases_of([answer.record for answer in planted])
    items = [settings.prepare(case, backend, measure).item for case in loaded.cases]
    return sum(len(item.prompt.ids) + len(item.blank.ids) + 2 * len(item.response or ()) for item in items)


def _is_found(answer: Answer, found: dict[str, list[tuple[str, ...]]]) -> bool:
    return any(answer.leaked in text or text in str(answer.leaked) for text, *_ in found[answer.record["id"]])


def _measured(
    model: str, data: Path, out: Path, *, is_complete: bool
) -> tuple[dict[str, Any], dict[str, list[tuple[str, ...]]], dict[str, float]]:
    """Counts, what each answer disclosed, and after how many seconds it was written."""
    command = [sys.executable, "-m", "leakmeter", "influence", "--data", str(data), "--model", model, "--out", str(out)]
    command += ["--no-cache", *(["--complete"] if is_complete else [])]
    started, started_at = time.perf_counter(), time.time()
    environment = {**os.environ, "LEAKMETER_CONFIG": str(out.parent / "config")}
    done_at: dict[str, float] = {}
    seen: set[Path] = set()
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, env=environment, stdout=said, stderr=said) as process,
    ):
        while process.poll() is None:
            _note_done(out, done_at, seen)
            time.sleep(_LOOK_SECONDS)
        seconds = time.perf_counter() - started
        if process.returncode:
            said.seek(0)
            raise SystemExit(said.read().splitlines()[-1])
    (directory,) = (path for path in out.iterdir() if path.is_dir())
    results = list(leakmeter.load_run(directory))
    own = sum(result.cost.tree_tokens for result in results)
    row = {
        "seconds": seconds,
        "answers_an_hour": 3600 * len(results) / seconds,
        "tokens": own,
        "seconds_in_model": sum(result.cost.seconds for result in results),
        "peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
    }
    if not is_complete:
        last = [result.steps.last if result.steps else "all" for result in results]
        row |= {step: last.count(step) for step in sorted(set(last))}
    # Personal or secret: what each says, of what kind, and from which documents.
    found = {
        result.id: sorted((d.text, d.kind, *d.documents) for d in result.disclosed if d.is_sensitive)
        for result in results
    }
    done_s = {result.id: done_at.get(result.id, started_at + seconds) - started_at for result in results}
    return row, found, done_s


def _note_done(out: Path, done_at: dict[str, float], seen: set[Path]) -> None:
    """When each case was written, while files of single parts are there: they are put together later."""
    for path in sorted(out.glob("*/cases-*.json")):
        if path in seen or not _SINGLE.fullmatch(path.name):
            continue
        seen.add(path)
        with suppress(FileNotFoundError):
            at = path.stat().st_mtime
            for case in json.loads(path.read_bytes()):
                done_at.setdefault(case["id"], at)


def _rule(drawn: random.Random, number: int) -> str:
    name, sentence, _ = _RULES[number]
    fillers = drawn.sample(_FILLERS, drawn.randrange(3, len(_FILLERS)))
    return f"{name}. {sentence}. {' '.join(fillers)}"
