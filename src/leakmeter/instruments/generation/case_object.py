"""Readings of private generation to one plain object: promise, verdict, who paid most, and how good the texts are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from leakmeter.core.measurement import Measurement
from leakmeter.instruments.generation import text_quality
from leakmeter.instruments.generation.audited import Audited
from leakmeter.privacy.draws import draws_of
from leakmeter.privacy.mechanism import Guarantee
from leakmeter.privacy.verdict import Comparison, paper_figure

VERBATIM: Final = 5
"""Tokens from which on a run that an exemplar has too counts as copied."""
_DISTINCT: Final = (1, 2, 3)
_NO_SEED: Final = (
    "These sequences were drawn with seed 0, which everybody knows: nothing is promised of them. Of what "
    "`PrivateGeneration.seeded` draws nobody knows it."
)
_REPEATS: Final = "Some exemplars say the same: leaving one out leaves the others in, and each may read near zero."


def case_object(
    texts: Mapping[str, Any], measurements: Sequence[Measurement], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Texts and measurements of a batch to one plain object: what `--json` prints and reports are drawn from.

    `public` is all that may be published; everything else is a function of the exemplars, but for the promise and the
    settings. Null stands for an infinite number; as an order it stands for ∞.

    Args:
        texts: what the measurements are about (see `runs.measure.texts_of`).
        measurements: of this batch.
        params: of the measure.
    """
    audited = Audited.of(texts, measurements, params)
    settings = _settings(texts, params, audited)
    # A text that was not drawn by the mechanism has no promise, nor has one whose draws anybody can repeat.
    has_promise = texts["sampled"] and not _has_known_seed(params)
    promise = _promise(audited, has_promise)
    return {
        **{name: texts[name] for name in ("id", "model", "weights_sha256", "dtype", "template", "query")},
        **settings,
        "sequences": [_sequence(i, texts, audited) for i in range(len(audited.lengths))],
        "promise": promise,
        "verdict": _verdict(texts, audited),
        "by_order": _by_order(audited),
        "paper_convention": _paper(audited),
        "exemplars": _exemplars(texts, audited),
        "text_quality": _quality(texts, audited),
        "public": _public(texts, settings, promise, params) if has_promise else None,
        "seed": params["seed"],
        "draws": draws_of(params) if texts["sampled"] else None,
        "cost": texts["cost"],
        "warnings": _warnings(texts, params),
    }


def _settings(texts: Mapping[str, Any], params: Mapping[str, Any], audited: Audited) -> dict[str, Any]:
    voting = {"name": "private voting", **{key: params[key] for key in ("clip", "temperature", "normalise_by")}}
    return {
        "mechanism": params["mechanism"] or voting,
        "subset_size": len(audited.names),
        "n_sequences": len(audited.lengths),
        **{name: params[name] for name in ("min_new_tokens", "max_new_tokens", "delta")},
        "adjacency": "add-remove",
        "sampled": texts["sampled"],
    }


def _promise(audited: Audited, has_promise: bool) -> dict[str, Any]:
    """What is promised of the texts, whatever they came to be, and what their tokens cost, which is no guarantee."""
    return {
        "order": audited.whole.order,
        "guarantee": _numbers(audited.whole) if has_promise else None,
        "spent": _numbers(audited.spent),
        "per_token": [
            {"order": _plain(order), "nats": _plain(nats)}
            for order, nats in zip(audited.orders, audited.verdict.promised_per_token, strict=True)
        ],
    }


def _numbers(told: Guarantee) -> dict[str, Any]:
    return {
        "n_tokens": told.n_tokens,
        "epsilon": _plain(told.epsilon),
        "delta": told.delta,
        "order": told.order,
        "rdp_nats": _plain(told.rdp),
        "pure_epsilon": _plain(told.pure_epsilon),
    }


def _sequence(number: int, texts: Mapping[str, Any], audited: Audited) -> dict[str, Any]:
    start = sum(audited.lengths[:number])
    rows = slice(start, start + audited.lengths[number])
    losses = audited.losses[rows, :, audited.at]
    shares = audited.shares[rows]
    told_most = shares.max(axis=2).argmax(axis=1)
    return {
        **texts["responses"][number],
        "token_ids": audited.series[number, "", "token"].astype(int).tolist(),
        "per_token": {
            "log_prob_nats": [_plain(x) for x in audited.series[number, "", "log_prob"]],
            "bare_log_prob_nats": [_plain(x) for x in audited.series[number, "", "bare_log_prob"]],
            "most_nats": [_plain(x) for x in losses.max(axis=1)],
            "most_exemplar": [audited.names[i] for i in losses.argmax(axis=1)],
            "share_of_promise": [_plain(x) for x in shares.max(axis=(1, 2))],
            "share_exemplar": [audited.names[i] for i in told_most],
        },
        "perplexity": _plain(text_quality.perplexity(audited.series[number, "", "bare_log_prob"])),
    }


def _verdict(texts: Mapping[str, Any], audited: Audited) -> dict[str, Any]:
    """Whether anything measured is above its promise, and what."""
    found = audited.verdict
    return {
        "holds": found.holds,
        "failures": [_compared(one, texts, audited) for one in found.failures],
        "worst_token": _compared(audited.worst_token(range(len(audited.names))), texts, audited),
    }


def _compared(one: Comparison, texts: Mapping[str, Any], audited: Audited) -> dict[str, Any]:
    """A comparison, naming exemplar, sequence and token; the latter two are null for a total."""
    span = texts["spans"][one.exemplar]
    sequence, token = (None, None) if one.token is None else audited.place(one.token)
    said = None if sequence is None else texts["responses"][sequence]["tokens"][token]
    return {
        "exemplar": span["name"],
        "exemplar_id": span["document"],
        "sequence": sequence,
        "token": token,
        "token_text": said,
        "order": _plain(one.order),
        "measured_nats": _plain(one.measured),
        "promised_nats": _plain(one.promised),
        "ratio": _plain(one.ratio),
    }


def _by_order(audited: Audited) -> list[dict[str, Any]]:
    """Promised and measured of all tokens together, at each order."""
    found = audited.verdict
    return [
        {
            "order": _plain(order),
            "promised_nats": _plain(found.promised[k]),
            "measured_nats": _plain(found.measured[k]),
            "ratio": _plain(found.ratio[k]),
            "exemplar": audited.names[found.worst_exemplar[k]],
            "sum_of_maxima_nats": _plain(found.sum_of_maxima[k]),
            "worst_token_ratio": _plain(found.worst_tokens[k].ratio),
        }
        for k, order in enumerate(audited.orders)
    ]


def _paper(audited: Audited) -> dict[str, Any]:
    """ε as the paper gives it, which is no verdict, beside that of a mechanism that tells nothing."""
    figure = paper_figure(float(audited.verdict.sum_of_maxima[audited.at]), audited.whole.order, audited.whole.delta)
    return {
        "order": figure.order,
        "delta": figure.delta,
        "sum_of_maxima_nats": _plain(figure.sum_of_maxima),
        "epsilon": _plain(figure.epsilon),
        "zero_leak_epsilon": _plain(figure.zero_leak_epsilon),
        "promised_epsilon": _plain(audited.whole.epsilon),
    }


def _exemplars(texts: Mapping[str, Any], audited: Audited) -> list[dict[str, Any]]:
    """Each exemplar and what all tokens told of it, in the order of the batch; rank 1 paid most at the promise's α*."""
    totals = audited.verdict.per_exemplar[:, audited.at]
    ranks = {int(i): rank for rank, i in enumerate(np.argsort(-totals, kind="stable"), 1)}
    numbers = range(len(audited.lengths))
    out = []
    for i, (name, span) in enumerate(zip(audited.names, texts["spans"], strict=True)):
        runs = [audited.series[k, name, "verbatim"] for k in numbers]
        out.append(
            {
                "name": name,
                "position": i + 1,
                "id": span["document"],
                "text": "\n\n".join(texts["context"][start:end] for start, end in span["ranges"]),
                "n_tokens": span["n_tokens"],
                "repeats": list(span["repeats"]),
                "measured_nats": _plain(totals[i]),
                "ratio": _plain(totals[i] / audited.verdict.promised[audited.at]),
                "rank": ranks[i],
                "by_order_nats": [_plain(nats) for nats in audited.verdict.per_exemplar[i]],
                "worst_token": _compared(audited.worst_token([i]), texts, audited),
                "copied_tokens": int(sum((run >= VERBATIM).sum() for run in runs)),
            }
        )
    return out


def _quality(texts: Mapping[str, Any], audited: Audited) -> dict[str, Any]:
    """How good the texts are, and what of them stands in an exemplar word for word."""
    numbers = range(len(audited.lengths))
    ids = [audited.series[i, "", "token"].astype(int).tolist() for i in numbers]
    runs = [np.stack([audited.series[i, name, "verbatim"] for name in audited.names]) for i in numbers]
    n_copied = sum(int((of.max(axis=0) >= VERBATIM).sum()) for of in runs)
    bare = np.concatenate([audited.series[i, "", "bare_log_prob"] for i in numbers])
    return {
        "perplexity": _plain(text_quality.perplexity(bare)),
        **{f"distinct_{n}": _plain(text_quality.distinct(ids, n)) for n in _DISTINCT},
        "verbatim_from_tokens": VERBATIM,
        "verbatim_share": n_copied / sum(audited.lengths),
        "longest_verbatim_tokens": int(max(of.max() for of in runs)),
        "verbatim": [
            {
                "sequence": i,
                "start": start,
                "end": end,
                "longest_run": int(of[k, start:end].max()),
                "text": "".join(texts["responses"][i]["tokens"][start:end]),
                "exemplar": name,
            }
            for i, of in zip(numbers, runs, strict=True)
            for k, name in enumerate(audited.names)
            for start, end in text_quality.stretches(of[k].tolist(), VERBATIM)
        ],
    }


def _public(
    texts: Mapping[str, Any], settings: Mapping[str, Any], promise: Mapping[str, Any], params: Mapping[str, Any]
) -> dict[str, Any]:
    """What may be published."""
    return {
        **{name: texts[name] for name in ("model", "weights_sha256", "dtype", "template", "query")},
        **settings,
        "texts": [response["text"] for response in texts["responses"]],
        "guarantee": promise["guarantee"],
        "draws": draws_of(params),
    }


def _warnings(texts: Mapping[str, Any], params: Mapping[str, Any]) -> list[str]:
    out = []
    if texts["sampled"] and _has_known_seed(params):
        out.append(_NO_SEED)
    if any(span["repeats"] for span in texts["spans"]):
        out.append(_REPEATS)
    return out


def _has_known_seed(params: Mapping[str, Any]) -> bool:
    """Whether the draws are those that a measure makes where nobody gives it random numbers."""
    return params["seed"] is None and params.get("nonce") is None


def _plain(value: Any) -> float | None:
    """JSON has no word for infinity: null stands for it."""
    return float(value) if np.isfinite(value) else None
