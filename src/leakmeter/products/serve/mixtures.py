"""The next token's distribution with a context, without it and mixed, for each λ and ε that a slider may have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from leakmeter.core.drive import drive
from leakmeter.core.item import Prepared
from leakmeter.core.record import JsonObject
from leakmeter.core.reductions import NextToken
from leakmeter.core.request import Request, Scores, Trial
from leakmeter.engine.loading import KeptModel
from leakmeter.errors import UsageError
from leakmeter.overriding import override
from leakmeter.privacy.decoding import Decoding
from leakmeter.products.serve.queue import Job
from leakmeter.products.serve.watching import cancellable
from leakmeter.report import blocks as b
from leakmeter.report import scale
from leakmeter.stats import logspace

LAMBDAS: Final = tuple(round(0.1 * number, 1) for number in range(21))
EPSILONS: Final = (0.01, 0.03, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)


@dataclass(frozen=True, slots=True)
class NextDistribution(NextToken):
    """log softmax(z) of the token after the response, nats: (prompt, 1, vocab)."""

    @override
    def reduce(self, rows: Any, targets: Any) -> Any:
        return logspace.log_softmax(rows, 1.0)


def table(kept: KeptModel, prepared: Prepared, at: int, job: Job) -> JsonObject:
    """What the sliders show of the token after the first `at` of the response."""
    item = prepared.item
    response = item.response or ()
    if not 0 <= at <= len(response):
        raise UsageError(f"at is {at}; the answer has {len(response)} tokens")
    request = Request((item.blank, item.prompt), tuple(response[:at]), NextDistribution())

    def trial() -> Trial[Scores]:
        (scores,) = yield [request]
        return scores

    with kept.lock, cancellable(kept, job):
        ((scores,), _) = drive(kept.backend, [trial()])
    bare, full = scores.values[:1, 0, :], scores.values[1:, 0, :]
    settings = [
        *(("lambda", value, Decoding(context_weight=value)) for value in LAMBDAS),
        *(("epsilon", value, Decoding(bound_nats=value / 2.0)) for value in EPSILONS),
    ]
    content: JsonObject = {"lambda": [], "epsilon": [], "n_tokens": len(response), "at": at}
    for kind, value, decoding in settings:
        job.check()
        mixed = decoding.mix(full, bare)
        content[kind].append(_shown(kept, kind, value, mixed, bare[0], full[0]))
    content["before"] = kept.backend.tokenizer.decode(list(response[:at])) if at else ""
    return content


def _shown(kept: KeptModel, kind: str, value: float, mixed: Any, bare: Any, full: Any) -> JsonObject:
    log_probs = mixed.log_probs[0]
    weight, loss = float(mixed.weight[0]), float(mixed.max_loss[0])
    cost = f"the largest loss of a token is {scale.nats_text(loss)}\u00a0nats"
    sentence = (
        f"λ = {value:g}: {cost}."
        if kind == "lambda"
        else f"ε = {value:g}: λ = {weight:.3g}; {cost}, and {scale.nats_text(2 * loss)} nats of ε are spent."
    )
    rows = []
    for token in map(int, np.argsort(-log_probs, kind="stable")[:8]):
        # White space is to be seen.
        text = kept.backend.tokenizer.decode([token]).replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")
        shares = [math.exp(float(row[token])) for row in (log_probs, bare, full)]
        rows.append(
            {
                "token": b.Untrusted(text, 24).shown or "nothing",
                "shares": [b.number_text(share, "share") for share in shares],
                "width": round(100 * min(1.0, shares[0])),
            }
        )
    return {"value": value, "said": sentence, "rows": rows}
