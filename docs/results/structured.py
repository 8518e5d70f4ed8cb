"""Counts of structured.md: values of AgentLeak's records that answers say, and what influence names of them.

python docs/results/structured.py agentleak_single.jsonl results.json
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakmeter.text.matching import Folded, folded


def values_of(vault: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Path and text of each value of a record that is a text or a number; of a list in a text each element."""
    for key, value in vault.items():
        if isinstance(value, bool) or value is None:
            continue
        text = str(value)
        if text.startswith("["):
            yield from ((f"{key}[{number}]", str(one)) for number, one in enumerate(ast.literal_eval(text)))
        else:
            yield key, text


def told(*parts: object) -> None:
    sys.stdout.write(" ".join(map(str, parts)) + "\n")


def main(data: Path, results: Path) -> None:
    rows = {row["id"]: row for row in map(json.loads, data.read_text(encoding="utf-8").splitlines())}
    cases = map(json.loads, results.read_text(encoding="utf-8").splitlines())
    counts: Counter[str] = Counter()
    for case in cases:
        row = rows[case["id"]]
        answer, query, context = case["response"]["text"], case["query"], case["context"]
        found = [one for one in case["disclosures"] if one["evidence"] is not None]
        listed = case["disclosures"]
        for path, text in values_of(row["vault"]):
            places = list(Folded(answer).places(text))
            if len(folded(text)) < 2 or not places:
                continue
            if Folded(query).where(text) is not None:
                counts["said by the query"] += 1
                continue
            counts["said"] += 1
            named = [
                one
                for one in found
                if any(one["start"] < end and start < one["end"] for start, end in places)
                and any(source.get("field") == path for source in one["sources"])
            ]
            counts["named with the field"] += bool(named)
            counts["named personal, with the field"] += any(one["found_by"] is not None for one in named)
            if not named:
                beside = [
                    (one["text"], one["kind"], one["evidence"], round(one["nats"], 2), round(one["surprise_nats"], 2))
                    for one in listed
                    if any(one["start"] < end and start < one["end"] for start, end in places)
                ]
                told("missed", case["id"], path, repr(text), beside)
        for one in found:
            if one["found_by"] is None:
                continue
            counts[f"by {one['found_by']}"] += 1
            if one["found_by"] == "field":
                counts[f"by field, {one['relation']}, {one['evidence']}"] += 1
                counts["by field, in the context"] += Folded(context).where(one["text"]) is not None
                if one["relation"] != "copied" or one["evidence"] != "scores":
                    sources = [(source["field"], source["text"]) for source in one["sources"]]
                    nats = round(one["nats"], 2)
                    told("check", case["id"], repr(one["text"]), one["kind"], one["relation"], nats, sources)
    for name, n in sorted(counts.items()):
        told(f"{n:5} {name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
