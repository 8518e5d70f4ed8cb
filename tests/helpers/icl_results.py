"""Results of ICL influence built by hand: what reports and summaries are made of."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from helpers.susceptibility_cases import COST
from leakmeter.instruments.icl.result import LIKELIEST, ExemplarInfluence, IclResult, MovedToken, Vocabulary
from leakmeter.stats.stats import BELOW_NOISE


def exemplar(position: int, *signed: float, **more: Any) -> ExemplarInfluence:
    """One whose answers 'cat' and 'dog' move by so many nats."""
    loss = max(map(abs, signed))
    made = ExemplarInfluence(
        id=f"x{position}", position=position, text=f"Text: exemplar {position}\nAnswer: {('cat', 'dog')[position % 2]}",
        label=("cat", "dog")[position % 2], n_tokens=9, answer_nats=abs(signed[0]), answer_signed_nats=signed[0],
        answer_posterior=None, answer_posterior_note=LIKELIEST if abs(signed[0]) > 1e-5 else BELOW_NOISE,
        answer_below_noise_floor=abs(signed[0]) <= 1e-5, loss_nats=loss, rank=1, worst_posterior=None,
        worst_posterior_note=LIKELIEST if loss > 1e-5 else BELOW_NOISE, below_noise_floor=loss <= 1e-5,
        worst_label=("cat", "dog")[[abs(x) for x in signed].index(loss)], worst_label_nats=loss, signed_nats=signed,
        vocabulary=None, repeats=(),
    )  # fmt: skip
    return replace(made, **more)


def asked(id_: str = "q1", **more: Any) -> IclResult:
    """A query whose second exemplar moves 'dog' from 10 % to 20 %, and 'cat' from 90 % to 80 %."""
    exemplars = (exemplar(1, 0.1, -0.3), exemplar(2, math.log(0.8 / 0.9), math.log(2)), exemplar(3, 0.05, 0.1))
    made = IclResult(
        id=id_, model="toy", weights_sha256=None, dtype="float32", cost=COST, warnings=(), template="plain",
        query=f"Query {id_} meows.", context="…", space="labels", label_scoring="first-token", calibration=None,
        calibration_baseline="own", calibration_epsilon=1e-4, temperature=1.0, labels=("cat", "dog"),
        label_probabilities=(0.8, 0.2), label_mass=0.5, prediction="cat", gold="cat", is_right=True, answer="cat",
        answer_given=False, exemplars=exemplars, answer_nats=math.log(0.9 / 0.8), answer_exemplar="x2",
        loss_nats=math.log(2), worst_exemplar="x2", noise_floor_nats=1e-5, answer_noise_floor_nats=1e-5,
    )  # fmt: skip
    return replace(behind(made, *more.get("exemplars", exemplars)), **more)


def behind(case: IclResult, *exemplars: ExemplarInfluence) -> IclResult:
    """The case with other exemplars, and what is said of the largest of them."""
    revealed = max(exemplars, key=lambda one: one.answer_nats)
    worst = max(exemplars, key=lambda one: one.loss_nats)
    return replace(
        case, exemplars=exemplars, answer_nats=revealed.answer_nats, answer_exemplar=revealed.id,
        worst_exemplar=worst.id,
    )  # fmt: skip


def over_vocabulary(id_: str = "q1", **more: Any) -> IclResult:

    def entry(token: str, loss: float) -> MovedToken:
        return MovedToken(token=token, token_id=7, log_prob_nats=-9.0, log_prob_without_nats=-2.0, loss_nats=loss)

    moved = Vocabulary(farthest=entry(" mou\nse", 7.0), plausible=entry(" fish", 1.5))
    exemplars = (exemplar(1, 0.1, -0.3, vocabulary=moved), exemplar(2, 0.1, 0.2, loss_nats=7.0, vocabulary=moved))
    return asked(id_, **{"space": "vocabulary", "exemplars": exemplars, "loss_nats": 7.0, **more})
