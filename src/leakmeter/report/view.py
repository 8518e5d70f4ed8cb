"""A case as the page's template wants it: every number already a string, every colour already a class.

The template only loops and escapes. Class names are `h0` … `h20` for colours and `w0` … `w100` for lengths, because
the page's content security policy allows no style attributes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from leakmeter.core.plain import visible
from leakmeter.report import scale, words
from leakmeter.report.shade import Case, by_nats, excerpt, leader, piece_heat, stretches, strongest

View = dict[str, Any]


def case_view(case: Case, number: int, shared: Mapping[str, str]) -> View:
    """All that the page shows of one case; settings in `shared` are told once for all cases and left out here."""
    pieces = case["pieces"]
    units, values = by_nats(case, "unit"), by_nats(case, "value")
    first = leader(case)
    floor, placebo = case["noise_floor_nats"], case.get("placebo_nats")
    return {
        "anchor": f"c{number}",
        "id": excerpt(case["id"], 80),
        "verdict": words.verdict(case),
        "posterior": words.posterior(case),
        "lead": words.lead(case),
        "lead_text": "" if first is None else excerpt(pieces[first]["text"], 120),
        "strongest": "" if first is None else excerpt(pieces[first]["text"], 40),
        "whole": scale.nats_text(case["whole_nats"]),
        "whole_cell": scale.nats_cell(case["whole_nats"]),
        "whole_heat": scale.heat(case["whole_nats"], floor),
        "whole_width": scale.percent_of_axis(case["whole_nats"]),
        "response_line": excerpt(case["response"]["text"], 72),
        "provenance": words.provenance(case),
        "query": visible(case["query"]),
        "blocks": _blocks(case),
        "tokens": [
            token_view(token, nats, case["noise_floor_per_token_nats"])
            for token, nats in zip(case["response"]["tokens"], case["whole_per_token"], strict=True)
        ],
        "units": [_row(case, i) for i in units],
        "repeated": [_row(case, i) for i in values],
        "floor": scale.nats_text(floor),
        "floor_width": scale.percent_of_axis(floor),
        "placebo": None if placebo is None else words.placebo(case),
        "placebo_width": 0 if placebo is None else scale.percent_of_axis(placebo),
        "over_samples": over_samples(case, "whole_"),
        "swaps": any(p.get("swapped_nats") is not None for p in pieces),
        "per_piece_samples": any(p.get("mean_nats") is not None for p in pieces),
        "samples": [_sample(case, sample) for sample in case.get("samples") or []],
        "whole_samples": _strip(case),
        "warnings": [visible(warning) for warning in words.warnings(case)],
        "settings": {name: text for name, text in settings(case).items() if shared.get(name) != text},
        "data": _data(case),
    }


def origin_view(command: str | None, run: Mapping[str, Any] | None) -> View:
    """Where a page's cases came from, as its template wants it.

    Args:
        command: the command line; None where it is not told.
        run: what is said of the run, by name; None where nothing is.
    """
    return {
        "command": None if command is None else visible(command),
        "run": {visible(str(name)): visible(str(value)) for name, value in (run or {}).items()},
    }


def settings(case: Case) -> dict[str, str]:
    """How the case was measured, by the words shown beside it."""
    cost = case.get("cost") or {}
    told = {
        "Model": case["model"],
        "Weights (SHA-256)": case.get("weights_sha256") or "not recorded",
        "Number type": case["dtype"],
        "Prompt template": case["template"],
        "Unit of context": case["unit"],
        "Removal": f"{case['removal']}: {words.REMOVALS.get(case['removal'], 'as named')}",
        "Temperature": f"{case['temperature']:g}",
        "Decoding λ": f"{case['cid_lambda']:g}",
        "Response": words.provenance(case),
        "Noise floor": f"{scale.nats_text(case['noise_floor_nats'])}\u00a0nats; "
        f"{scale.nats_text(case['noise_floor_per_token_nats'])} a token",
    }
    if cost:
        saved = words.saving(case)
        told["Cost"] = f"{cost['requests']} requests, {cost['tree_tokens']} tokens run" + (
            f", {saved} saved against {cost['naive_tokens']} one by one" if saved else ""
        )
    predicted = words.prediction(case)
    if predicted is not None:
        told["Predicted"] = predicted
    halvings = words.halvings(case)
    if halvings is not None:
        told["Memory"] = halvings
    return {name: visible(text) for name, text in told.items()}


def shared_settings(cases: Sequence[Case]) -> dict[str, str]:
    """The settings on which all cases agree."""
    first = settings(cases[0])
    for case in cases[1:]:
        other = settings(case)
        first = {name: text for name, text in first.items() if other.get(name) == text}
    return first


def over_samples(numbers: Case, prefix: str) -> str | None:
    """Mean, 95 % interval and worst in nats; None where nothing was sampled again."""
    if numbers.get(f"{prefix}mean_nats") is None:
        return None
    said = scale.nats_text(numbers[f"{prefix}mean_nats"])
    interval, worst = numbers.get(f"{prefix}interval_nats"), numbers.get(f"{prefix}worst_nats")
    if interval is not None:
        said += f" [{scale.nats_text(interval[0])}, {scale.nats_text(interval[1])}]"
    return said if worst is None else f"{said}, worst {scale.nats_text(worst)}"


def _blocks(case: Case) -> list[View]:
    """The context, one block a document; what lies between documents has no name."""
    several = len(case.get("documents") or []) > 1
    blocks = []
    for document, group in groupby(stretches(case), lambda s: s.document if several else None):
        name = "" if document is None else excerpt(case["documents"][document]["name"], 80)
        spans: list[View] = []
        for stretch in group:
            top = strongest(case, stretch.units)
            piece = None if top is None else case["pieces"][top]
            spans.append(
                {
                    "text": stretch.text,
                    "units": " ".join(map(str, stretch.units)),
                    "mentioned": " ".join(map(str, stretch.values)),
                    "heat": 0 if piece is None else piece_heat(piece),
                    "title": "" if piece is None else f"{excerpt(piece['name'], 40)}: {scale.nats_cell(piece['nats'])}",
                }
            )
        # The blank line between two documents needs no block of its own.
        if name or any(span["text"].strip() for span in spans):
            blocks.append({"name": name, "spans": spans})
    return blocks


def token_view(token: str, nats: float, floor_nats: float) -> View:
    """A response token by its nats; a space before a word apart from it."""
    text = visible(token)
    # A space before a word stays outside the shading: at a line's end it would hang there as a sliver of colour.
    word = text.lstrip(" ")
    gap = text[: len(text) - len(word)] if word else ""
    return {
        "gap": gap,
        "text": text[len(gap) :].replace("\n", "↵\n"),
        "heat": scale.heat(nats, floor_nats),
        "nats": scale.nats_cell(nats),
    }


def _row(case: Case, index: int) -> View:
    piece = case["pieces"][index]
    return {
        "index": index,
        "name": excerpt(piece["name"], 24),
        "document": excerpt(piece["document"], 40) if piece["document"] and len(case["documents"]) > 1 else "",
        "text": excerpt(piece["text"], 120),
        "mentions": len(piece.get("spans") or [0]),
        "nats": scale.nats_cell(piece["nats"]),
        "swapped": scale.NOT_MEASURED if piece.get("swapped_nats") is None else scale.nats_cell(piece["swapped_nats"]),
        "heat": piece_heat(piece),
        "width": scale.percent_of_axis(piece["nats"]),
        "signed": scale.signed_cell(piece["signed_nats"]),
        "only": scale.nats_cell(piece["only_this_nats"]),
        "posterior": words.posterior_cell(piece),
        "samples": over_samples(piece, "") or scale.NOT_MEASURED,
        "quiet": piece["below_noise_floor"],
        "flags": [visible(flag) for flag in words.flags(piece)],
    }


def _sample(case: Case, sample: Case) -> View:
    """One sampled response: its nats and the unit it owes most to."""
    nats = {i: x for i, x in enumerate(sample["nats"]) if case["pieces"][i]["kind"] == "unit"}
    top = max(nats, key=lambda i: (nats[i], -i), default=None)
    return {
        "text": excerpt(sample["text"], 160),
        "whole": scale.nats_cell(sample["whole_nats"]),
        "heat": scale.heat(sample["whole_nats"], case["noise_floor_nats"]),
        "width": scale.percent_of_axis(sample["whole_nats"]),
        "top": "" if top is None else excerpt(case["pieces"][top]["name"], 40),
        "top_nats": "" if top is None else scale.nats_cell(nats[top]),
    }


def _strip(case: Case) -> View | None:
    """Places, 0 to 1000, of all samples on the axis, for a small drawing; None where nothing was sampled again."""
    if case.get("whole_mean_nats") is None:
        return None
    interval = case.get("whole_interval_nats") or [case["whole_mean_nats"]] * 2
    low, high = (_place(x) for x in interval)
    return {
        "dots": [_place(sample["whole_nats"]) for sample in case.get("samples") or []],
        "mean": _place(case["whole_mean_nats"]),
        "low": low,
        "wide": max(2, high - low),
        "ticks": [(_place(tick), f"{tick:g}") for tick in scale.TICKS_NATS],
    }


def _place(nats: float) -> int:
    return round(1000 * scale.position(nats))


def _data(case: Case) -> str:
    """Numbers for the script as JSON: totals, signed nats a token, noise floor; no text of the case at all."""
    pieces = case["pieces"]
    return script_json(
        {
            "f": _short(case["noise_floor_per_token_nats"]),
            "n": _shorts(0.0 if p["below_noise_floor"] else p["nats"] for p in pieces),
            "w": _shorts(_signed(case["whole_per_token"], case["whole_signed_per_token"])),
            "t": [_shorts(_signed(p["per_token"], p["signed_per_token"])) for p in pieces],
        }
    )


def script_json(value: object) -> str:
    """JSON that cannot end the script element it stands in, nor a JavaScript line."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _signed(sizes: Sequence[float], signs: Sequence[float]) -> Iterable[float]:
    return (math.copysign(size, sign) for size, sign in zip(sizes, signs, strict=True))


def _shorts(numbers: Iterable[float]) -> list[float | int | None]:
    return [_short(number) for number in numbers]


def _short(number: float) -> float | int | None:
    """Three significant digits, which is all the page shows; JSON has no word for infinity or nan."""
    if not math.isfinite(number):
        return None
    short = float(f"{number:.3g}")
    return int(short) if short == int(short) else short
