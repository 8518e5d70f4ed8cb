"""What is examined: a function for each check, written against the protocol that every dialect has.

A check returns what it found; `examine` catches and names what a request raises. Differences are compared with the
model's own noise, so that no noisy server is accused of a fault.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from statistics import fmean
from typing import Final

import numpy as np

from leakmeter.backends.served import fingerprint
from leakmeter.backends.served.dialect import (
    RequestSetting,
    SequenceToScore,
    check_log_probs,
    log_probs_of,
    sum_in_words,
)
from leakmeter.backends.served.load import TEXTS, has_tokenizer
from leakmeter.backends.served.noise import measured_noise
from leakmeter.core.plain import counted
from leakmeter.core.self_check import MOST_FLOOR_NATS
from leakmeter.products.doctor.probes import DoctorProbes
from leakmeter.products.doctor.report import FAULTS
from leakmeter.products.doctor.result import DoctorAgainst, DoctorNoise, DoctorSpeed, Status
from leakmeter.products.doctor.subject import CheckedModel, InProcess
from leakmeter.report.words import about_seconds
from leakmeter.stats.arrays import FloatArray

_LEAST_TOLERANCE: Final = 0.02
"""Nats that two ways to one log-probability may differ by, whatever the noise: bfloat16 does."""
_QUIET: Final = 1e-3
"""Nats a token up to which noise is that of float32, and is not spoken of."""
_WRONG: Final = 0.5
"""Mean nats a token from which two models have little to do with one another; Q4 moves it by less than 0.1."""
_N_DRAWS: Final = 64
_N_TOP: Final = 20
_TEMPERED: Final = 0.15
"""Mean nats a token by which draws at T = 0.5 differ at least from raw ones, and quantised weights never."""
_FORECAST_TOKENS: Final = 1000 * 10 * 292


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    sentence: str
    status: Status = "passed"
    fault: str | None = None
    advice: str = ""


@dataclass
class Examined:
    subject: CheckedModel
    probes: DoctorProbes
    against: CheckedModel | None = None
    noise: DoctorNoise | None = None
    uses_prefix_cache: bool | None = None
    compared: DoctorAgainst | None = None
    speed: DoctorSpeed | None = None
    first: list[FloatArray] = field(default_factory=list)
    """`first_probe` at the beginning."""

    @property
    def tolerance(self) -> float:
        return max(_LEAST_TOLERANCE, 3.0 * self.noise_alone)

    @property
    def noise_alone(self) -> float:
        """Nats that a log-probability moves by where requests come one at a time, as in all checks that compare."""
        if (noise := self.noise) is None:
            return 0.0
        return max(noise.repeat_nats, noise.order_nats, noise.cache_nats or 0.0, noise.split_nats or 0.0)

    @property
    def scored(self) -> tuple[SequenceToScore, ...]:
        """Probes, and the case's full prompt: in short prompts noise does not show."""
        return (*self.probes.scored, SequenceToScore(self.probes.case.prompts[0], self.probes.case.response))

    @cached_property
    def alone(self) -> list[FloatArray]:
        return [self.score(request) for request in self.scored]

    @cached_property
    def one_by_one(self) -> list[list[tuple[int, float]]]:
        """For each response some places, and the log-probability of the token there, scored alone."""
        return [
            [
                (
                    at,
                    self.score(
                        SequenceToScore((*request.prompt, *request.response[:at]), request.response[at : at + 1])
                    )[0],
                )
                for at in (0, 1, len(request.response) // 2, len(request.response) - 1)
            ]
            for request in self.scored
        ]

    @cached_property
    def in_process(self) -> DoctorNoise:
        """Noise of a model in this process."""
        return _noise_in_process(self)

    def first_probe(self) -> list[FloatArray]:
        """Answers to the first probe, asked three times."""
        return [self.score(self.probes.scored[0]) for _ in range(3)]

    def score(self, scored: SequenceToScore) -> FloatArray:
        """Log-probabilities of a response, checked whatever its dialect checks."""
        values = self.subject.dialect.target_log_probs(scored)
        return log_probs_of(np.asarray(values).tolist(), len(scored.response), self.subject.host)


def bad(fault: str, seen: str = "") -> DoctorFinding:
    sentence, todo = FAULTS[fault]
    return DoctorFinding(f"{sentence} {seen}".strip(), "failed", fault, todo)


def rows(examined: Examined) -> DoctorFinding:
    """(1) As many rows come back as tokens were sent."""
    n = [len(log_probs) for log_probs in examined.alone]
    return DoctorFinding(f"All {sum(n)} tokens of {len(n)} responses have a log-probability.")


def token_ids(examined: Examined) -> DoctorFinding:
    """(2) The server reads the ids that it is sent, and makes the same ids of a text."""
    subject = examined.subject
    if subject.is_local:
        return DoctorFinding("Model and tokenizer are in this process; no ids are sent.")
    texts = (*TEXTS, *(part for pair in fingerprint.PROBES for part in pair))
    is_same = has_tokenizer(subject.dialect, subject.tokenizer, texts)
    if is_same is None:
        return DoctorFinding(
            "The server does not report how it tokenises a text, so whether --tokenizer is the model's was not "
            "checked.",
            "note",
            advice="Compare with the served model's weights (--against): that reveals a wrong tokenizer.",
        )
    if not is_same:
        return bad("other_tokenizer")
    return DoctorFinding("Token ids come back as they were sent, without a start token; tokenizers agree.")


def places(examined: Examined) -> DoctorFinding:
    """(3) Each log-probability is that of its own place."""
    if (wrong := _one_by_one(examined)) or (wrong := _last_token_matters(examined)):
        if not examined.subject.is_local:
            return wrong
        # No server mixes rows up here: it is our own passes that go wrong, or a model that tells lengths apart.
        return _wrong_here(examined, wrong.sentence.removeprefix(FAULTS[wrong.fault or ""][0]).strip())
    sentence = "Tokens scored one by one have the same log-probabilities as together"
    if not examined.subject.dialect.abilities().samples:
        return DoctorFinding(f"{sentence}.")
    prompt = examined.probes.scored[0].prompt
    drawn = examined.subject.dialect.generate(prompt, n_tokens=4, temperature=0.0, seed=0, stop_ids=())
    if not drawn.ids:
        return DoctorFinding(f"{sentence}. The model ends its response at once, so generated tokens were not compared.")
    scored = examined.score(SequenceToScore(tuple(prompt), drawn.ids))
    if not drawn.log_probs:
        return DoctorFinding(
            f"{sentence}. The server returns no log-probabilities of generated tokens to compare with."
        )
    gaps = _gaps(scored, drawn.log_probs)
    if fmean(gaps) > _WRONG:
        return bad("off_by_one", f"Generated and then scored, tokens differ by {_nats(fmean(gaps))} on average.")
    within = _nats(max(gaps))
    return DoctorFinding(f"{sentence}, and generated tokens have the same as when they are scored (within {within}).")


def _wrong_here(examined: Examined, seen: str) -> DoctorFinding:
    """What is wrong with a model in this process: where passes that share work agree, it is not they."""
    noise = examined.in_process
    if max(noise.repeat_nats, noise.order_nats, noise.batch_nats, noise.cache_nats or 0.0) > _WRONG:
        found = bad("wrong_passes", seen)
        return replace(found, advice=_OF_WRONG_PASSES) if _is_exact(examined) else found
    found = bad("lengths", seen)
    dialect = examined.subject.dialect
    if not isinstance(dialect, InProcess) or (length := dialect.short_length) is None:
        return found
    sentence = f"It computes texts of more than {counted(length, 'token')} otherwise than shorter ones (LongRoPE)."
    return replace(
        found,
        sentence=f"{found.sentence} {sentence}",
        advice=f"Measure where prompt and response together have at most {counted(length, 'token')}, or where the "
        "prompt alone has more; or give another model.",
    )


def _is_exact(examined: Examined) -> bool:
    """Whether a model in this process computes with as many digits as there are."""
    return (examined.subject.settings or {}).get("precision") in ("float32", "float64")


def _one_by_one(examined: Examined) -> DoctorFinding | None:
    """A fault if tokens scored alone, behind those before them, have other log-probabilities than in the response.
    Rounding moves some too, with quantised weights by 0.3 nats; a wrong place moves all by several."""
    for group in zip(*examined.one_by_one, strict=True):
        cells = [(whole, at, value) for whole, (at, value) in zip(examined.alone, group, strict=True)]
        gap = fmean(_apart(value, whole[at]) for whole, at, value in cells)
        if gap <= _WRONG:
            continue
        sentence = f"Tokens scored alone differ by {_nats(gap)} on average."
        if fmean(_apart(value, whole[len(whole) - 1 - at]) for whole, at, value in cells) <= examined.tolerance:
            return bad("wrong_order", sentence)
        beside = fmean(
            min(_apart(value, whole[i]) for i in (at - 1, at + 1) if 0 <= i < len(whole)) for whole, at, value in cells
        )
        return bad("off_by_one" if beside <= examined.tolerance else "other_places", sentence)
    return None


def _last_token_matters(examined: Examined) -> DoctorFinding | None:
    """A fault if the prompt's last token has no effect on the first of the response, which is then read late."""
    moved = []
    for request, other in pairwise((*examined.probes.scored, examined.probes.scored[0])):
        changed = SequenceToScore((*request.prompt[:-1], other.response[-1]), request.response[:1])
        if changed.prompt != request.prompt:
            moved.append(
                _apart(
                    examined.score(changed)[0], examined.score(SequenceToScore(request.prompt, request.response[:1]))[0]
                )
            )
    if moved and max(moved) <= max(1e-6, examined.noise_alone):
        return bad(
            "off_by_one", "Changing the last token of the prompt does not change the next token's log-probability."
        )
    return None


def whole_rows(examined: Examined) -> DoctorFinding:
    """(4) Rows are distributions, and hold the given token's log-probability."""
    dialect, scored = examined.subject.dialect, examined.probes.scored[0]
    scored = SequenceToScore(scored.prompt, scored.response[:2])
    own = examined.score(scored)
    abilities = dialect.abilities()
    if abilities.whole_rows:
        log_probs = np.asarray(dialect.whole_rows(scored, range(2)), dtype=np.float64)
        check_log_probs(log_probs, examined.subject.host)
        log_sum = max(np.logaddexp.reduce(log_probs, axis=-1).tolist(), key=abs)
        gap = max(_gaps(log_probs[range(2), scored.response], own))
        seen = f"logsumexp of a whole row of {log_probs.shape[1]:,} tokens is 0 within {_nats(abs(log_sum))}"
    elif abilities.most_top:
        k = min(_N_TOP, abilities.most_top)
        entries = dialect.top_rows(scored, range(2), k)
        mass = max(math.fsum(map(math.exp, row.values())) for row in entries)
        log_sum = max(0.0, math.log(mass))
        gap = max(_gaps([row[token] for row, token in zip(entries, scored.response, strict=True)], own))
        seen = f"The server returns the {k} likeliest tokens of a row, with at most {min(mass, 1.0):.1%}"
    else:
        return DoctorFinding("The server returns only the given token of a row.", "skipped")
    if abs(log_sum) > _LEAST_TOLERANCE:
        return bad("not_normalised", f"Its probabilities sum to {sum_in_words(log_sum)}.")
    if gap > examined.tolerance:
        return bad("other_places", f"The given token's entry of a row differs by {_nats(gap)} from its own score.")
    return DoctorFinding(f"{seen}; a given token's entry is its log-probability (within {_nats(gap)}).")


def raw(examined: Examined) -> DoctorFinding:
    """(5) Neither a temperature nor penalties move log-probabilities, and draws follow them."""
    subject, tried = examined.subject, []
    scored = examined.probes.repeating
    for control, setting, fault in (
        ("temperature", RequestSetting(temperature=0.5), "tempered"),
        ("repetition_penalty", RequestSetting(repetition_penalty=1.5), "penalised"),
        ("presence_penalty", RequestSetting(presence_penalty=1.5), "penalised"),
    ):
        if control in subject.dialect.controls:
            ways = (setting, RequestSetting())
            moved, plain = (subject.dialect.probed_log_probs(scored, way).log_probs for way in ways)
            gap = max(_gaps(moved, plain))
            if gap > examined.tolerance:
                return bad(fault, f"A log-probability moves by {_nats(gap)}.")
            tried.append(control.replace("_", " "))
    if subject.dialect.abilities().samples:
        prompt = examined.probes.open
        drawn = subject.dialect.generate(prompt, n_tokens=16, temperature=0.5, seed=1, stop_ids=())
        if drawn.ids and drawn.log_probs:
            gap = fmean(_gaps(drawn.log_probs, examined.score(SequenceToScore(prompt, drawn.ids))))
            if gap > max(_TEMPERED, examined.tolerance):
                return bad(
                    "tempered",
                    f"For tokens drawn at T = 0.5, the server reports log-probabilities {_nats(gap)} away from their "
                    "score, on average.",
                )
            tried.append("temperature of draws")
        if subject.is_local:
            return DoctorFinding("Log-probabilities are computed here from the logits, at T = 1 and without penalties.")
        sigma = _draws(examined)
        if sigma is not None and sigma > 5.0:
            return bad("sampled_otherwise", f"{_N_DRAWS} draws are {sigma:.1f} standard deviations away.")
        if sigma is not None:
            tried.append(f"{_N_DRAWS} draws against the row that they come from")
    if not tried:
        return DoctorFinding("The dialect offers no way to check this.", "skipped")
    return DoctorFinding(f"Log-probabilities are raw. Tried: {', '.join(tried)}.")


def _draws(examined: Examined) -> float | None:
    """Standard deviations between draws of a next token and their row, by the mean of a token's log-probability, whose
    expectation changes first with the temperature. Tokens that are not among the likeliest count as the least likely of
    these."""
    dialect, prompt = examined.subject.dialect, examined.probes.open
    abilities = dialect.abilities()
    if abilities.most_top == 0:
        return None
    k = min(_N_TOP, abilities.most_top or _N_TOP)
    (values,) = dialect.top_rows(SequenceToScore(prompt, ()), range(1), k)
    p = np.exp(np.asarray([*values.values()]))
    least = min(values.values())
    scores, weights = np.asarray([*values.values(), least]), np.asarray([*p, max(0.0, 1.0 - p.sum())])
    mean = float(weights @ scores)
    spread = math.sqrt(max(float(weights @ (scores - mean) ** 2), 1e-12) / _N_DRAWS)

    def draw(seed: int) -> float | None:
        drawn = dialect.generate(prompt, n_tokens=1, temperature=1.0, seed=seed, stop_ids=())
        return values.get(drawn.ids[0], least) if drawn.ids else None

    assert examined.subject.connection is not None
    drawn = examined.subject.connection.in_order(draw, range(_N_DRAWS))
    # A server that leaves an end token out of what it tells has drawn one all the same: which, it does not say.
    log_probs = [log_prob for log_prob in drawn if log_prob is not None]
    return abs(float(np.mean(log_probs)) - mean) / spread if len(log_probs) > _N_DRAWS // 2 else None


def noise(examined: Examined) -> DoctorFinding:
    """(6) How far circumstances move a log-probability, and which do."""
    connection = examined.subject.connection
    if connection is None:
        examined.noise = examined.in_process
    elif _one_by_one(examined):
        return DoctorFinding("Not measured: tokens scored alone have log-probabilities of other positions.", "skipped")
    else:
        server_noise = measured_noise(examined.subject.dialect, connection, examined.probes.noise)
        examined.noise = DoctorNoise(
            repeat_nats=server_noise.repeat_nats,
            order_nats=server_noise.order_nats,
            batch_nats=server_noise.company_nats,
            cache_nats=server_noise.cache_nats,
            split_nats=server_noise.split_nats,
            floor_nats=server_noise.nats,
            response_floor_nats=max(server_noise.nats, server_noise.response_nats or 0.0),
        )
    return _noise_found(examined, examined.noise, is_local=connection is None)


def _noise_in_process(examined: Examined) -> DoctorNoise:
    subject, scored, alone = examined.subject, examined.scored, examined.alone
    prompts = [request.prompt for request in scored]
    # The engine forks the states of a prompt where another one parts from it: in the middle of a response, or in the
    # context where a piece is left out.
    case = examined.probes.case
    longer = [
        (*request.prompt, *request.response[: len(request.response) // 2], request.prompt[0]) for request in scored[:-1]
    ]
    longer.append((*case.prompts[-1], *case.response))
    ways = {
        "repeat": [examined.score(request) for request in scored],
        "order": [examined.score(request) for request in reversed(scored)][::-1],
        "batch": [subject.together(prompts, request.response)[i] for i, request in enumerate(scored)],
        "cache": [
            subject.together([long, request.prompt], request.response)[1]
            for long, request in zip(longer, scored, strict=True)
        ],
    }
    gaps = {name: [a - b for a, b in zip(scores, alone, strict=True)] for name, scores in ways.items()}
    most = {f"{name}_nats": max(float(np.abs(gap).max()) for gap in some) for name, some in gaps.items()}
    cells = zip(alone, examined.one_by_one, strict=True)
    split = max(_apart(whole[at], value) for whole, some in cells for at, value in some)
    floor = max(*most.values(), split)
    responses = [abs(float(gap.sum())) for some in gaps.values() for gap in some]
    return DoctorNoise(**most, split_nats=split, floor_nats=floor, response_floor_nats=max(floor, *responses))


_CAUSES_HERE: Final = {
    "repeat": "Look for dropout or random routing in the model, or give another one: nothing it says can be measured.",
    "split": "Give --dtype float32, or ignore influences below the floor.",
}
"""What to do about noise of a model in this process, where it is not what one does about wrong passes."""
_OF_WRONG_PASSES: Final = "Give another model, and report this one as a bug."
"""What to do about these where the numbers have all digits."""
_CAUSES: Final = {
    "repeat": ("the same request again", "Keep others off the server during a run, or turn on deterministic kernels."),
    "order": ("the order of requests", "Ask without the prefix cache where numbers matter more than time."),
    "batch": ("requests side by side", "Give --concurrency 1, or turn on batch-invariant kernels."),
    "split": (
        "how much of a sequence is computed at once",
        "Serve the model in float32, or ignore influences below the floor.",
    ),
    "cache": ("the prefix cache", "Ask without the prefix cache where numbers matter more than time."),
}


def _noise_found(examined: Examined, noise: DoctorNoise, *, is_local: bool) -> DoctorFinding:
    nats = {name: getattr(noise, f"{name}_nats") for name in _CAUSES}
    most: dict[str, float] = {name: value for name, value in nats.items() if value is not None}
    causes = "; ".join(f"{_CAUSES[name][0]} {_nats(value)}" for name, value in most.items())
    sentence = f"A log-probability moves by up to {_nats(noise.floor_nats)} a token: {causes}."
    worst = max(most, key=lambda name: most[name])
    if noise.repeat_nats > _WRONG:
        unstable = bad("unstable", sentence)
        return replace(unstable, advice=_CAUSES_HERE["repeat"]) if is_local else unstable
    if noise.floor_nats <= _QUIET:
        return DoctorFinding(sentence)
    if is_local and noise.floor_nats > _WRONG:
        return _wrong_here(examined, sentence)
    advice = _CAUSES_HERE.get(worst, FAULTS["wrong_passes"][1]) if is_local else _CAUSES[worst][1]
    if is_local and _is_exact(examined):
        advice = {"split": "Ignore influences below the floor."}.get(worst, _OF_WRONG_PASSES)
    fault = "unstable" if noise.repeat_nats > _QUIET else None
    if noise.floor_nats > MOST_FLOOR_NATS:
        sentence = f"{sentence} With so much noise no report can say that nothing was disclosed."
    return DoctorFinding(f"{sentence} Ignore influences below that.", "note", fault, advice)


def prefix_cache(examined: Examined) -> DoctorFinding:
    """(7) Whether what the server has read before spares it work."""
    subject, case = examined.subject, examined.probes.case
    scored = SequenceToScore(case.prompts[0], case.response)
    if not subject.dialect.reads_prefix_cache:
        examined.uses_prefix_cache = False
        return DoctorFinding(
            "The server uses no prefix cache for log-probabilities, so each sequence is computed in full."
        )
    if subject.is_local and isinstance(subject.dialect, InProcess):
        backend = subject.dialect.backend
        before = backend.n_tokens_run
        subject.together(case.prompts, case.response)
        n_run = backend.n_tokens_run - before
        examined.uses_prefix_cache = backend.capabilities.shares == "prefixes"
        if not examined.uses_prefix_cache:
            return DoctorFinding(
                f"Sequences share nothing, so each is computed in full: {n_run:,} of {case.n_tokens:,} tokens are run."
            )
        return DoctorFinding(f"Sequences share their prefixes: {n_run:,} of {case.n_tokens:,} tokens are run.")
    if "cache" in subject.dialect.controls:
        subject.dialect.probed_log_probs(scored, RequestSetting(reads_cache=True))
        n_cached = subject.dialect.probed_log_probs(scored, RequestSetting(reads_cache=True)).n_cached
        if n_cached is not None:
            examined.uses_prefix_cache = n_cached > 0
            seen = f"{n_cached:,} of {len(scored.prompt):,} tokens were kept"
            if n_cached:
                return DoctorFinding(f"The prefix cache is used: {seen}.")
            advice = "Turn it on: leave-one-out repeats a prompt once for each of its pieces."
            return DoctorFinding(f"The prefix cache is not used: {seen}.", "note", advice=advice)
    seconds = [_seconds(lambda: examined.score(scored)) for _ in range(3)]
    # The first time of three may be the first of all; the check before has asked for other texts.
    gain = seconds[0] / max(min(seconds[1:]), 1e-9)
    if gain < 1.5:
        return DoctorFinding("No sign of a prefix cache: repeating a prompt takes as long.", "note")
    examined.uses_prefix_cache = True
    return DoctorFinding(f"The prefix cache is used: the same prompt again is {gain:.1f} times as fast.")


def weights(examined: Examined) -> DoctorFinding:
    """(8) How far the model is from local weights, and what that does to an influence."""
    other, probes, case = examined.against, examined.probes, examined.probes.case
    if other is None:
        return DoctorFinding("No local weights were given; compare with --against hf:PATH.", "skipped")
    for text in TEXTS:
        ours, theirs = (subject.tokenizer.encode_data(text, first=True).ids for subject in (examined.subject, other))
        if ours != theirs:
            return bad("other_tokenizer", "The weights named by --against have another tokenizer.")
    gaps = [
        other.dialect.target_log_probs(scored) - own for scored, own in zip(probes.scored, examined.alone, strict=False)
    ]
    served, local = (subject.together(case.prompts, case.response) for subject in (examined.subject, other))
    gap = np.abs(np.concatenate([*gaps, (served - local).ravel()]))
    influence, theirs = ((log_probs[:1] - log_probs[1:]).sum(axis=1) for log_probs in (served, local))
    examined.compared = result = DoctorAgainst(
        model=other.name,
        n_tokens=len(gap),
        max_token_nats=float(gap.max()),
        mean_token_nats=float(gap.mean()),
        max_influence_nats=float(np.abs(influence - theirs).max()),
        largest_influence_nats=float(np.abs(influence).max()),
    )
    sentence = (
        f"Against the local weights a token's log-probability differs by up to {_nats(result.max_token_nats)} (mean "
        f"{_nats(result.mean_token_nats)}), a sentence's influence by up to {_nats(result.max_influence_nats)}; the "
        f"largest influence is {_nats(result.largest_influence_nats)}."
    )
    if result.mean_token_nats > _WRONG:
        return bad("other_weights", sentence)
    floor = examined.noise.floor_nats if examined.noise else 0.0
    if result.max_token_nats <= max(_QUIET, floor):
        return DoctorFinding(f"{sentence} It is the same model, within noise.")
    advice = "Measure the model that people use: a quantised or lower-precision model is another model."
    return DoctorFinding(sentence, "note", advice=advice)


def speed(examined: Examined) -> DoctorFinding:
    """(9) Tokens a second, and how long 1,000 cases would take."""
    case = examined.probes.case
    seconds = _seconds(lambda: examined.subject.together(case.prompts, case.response))
    per_second = case.n_tokens / max(seconds, 1e-9)
    examined.speed = DoctorSpeed(tokens_per_second=per_second, seconds_per_1000_cases=_FORECAST_TOKENS / per_second)
    return DoctorFinding(
        f"{per_second:,.0f} tokens a second; 1,000 cases of 8 pieces (10 sequences of 292 tokens each) would take "
        f"{about_seconds(examined.speed.seconds_per_1000_cases)}."
    )


def steady(examined: Examined) -> DoctorFinding:
    """(10) The model at the end is that of the beginning, and the server answered every request at once."""
    first, last = examined.first, examined.first_probe()
    within = max(max(_gaps(a, b)) for scores in (first, last) for a in scores for b in scores)
    between = min(max(_gaps(a, b)) for a in first for b in last)
    if between > max(_QUIET, 3.0 * within):
        return bad("changed", f"A log-probability has moved by {_nats(between)}.")
    return DoctorFinding("The same request has the same answer at the end as at the start.")


CHECKS: Final[tuple[tuple[int, str, Callable[[Examined], DoctorFinding]], ...]] = (
    (1, "Rows", rows),
    (6, "Noise floor", noise),
    (2, "Token ids", token_ids),
    (3, "Places", places),
    (4, "Whole rows", whole_rows),
    (5, "Raw", raw),
    (7, "Prefix cache", prefix_cache),
    (8, "Local weights", weights),
    (9, "Speed", speed),
    (10, "Steady", steady),
)
"""Number, name and function, in the order in which they are made: what comes after needs to know the noise."""


def _apart(log_prob: float, other: float) -> float:
    return 0.0 if log_prob == other else abs(float(log_prob) - float(other))


def _gaps(ours: Iterable[float], theirs: Iterable[float]) -> list[float]:
    return [_apart(value, other) for value, other in zip(ours, theirs, strict=True)]


def _nats(value: float) -> str:
    return f"{value:.2g} nats"


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
