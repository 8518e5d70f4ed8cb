"""What decoding says of responses, as blocks: a private report of everything, and a public one that may be published.

The public report is made of public results, which hold nothing that is a function of the context: no shades, no names
of cases, no command line, no run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from leakmeter.core.plain import counted
from leakmeter.core.quantity import clusters_of
from leakmeter.instruments.decoding.result import DecodedResponse, DecodeResult, PublicResult, ResponseGuarantee
from leakmeter.privacy.draws import sentences
from leakmeter.report import blocks as b
from leakmeter.report import pictures
from leakmeter.report.scale import at_most_text, nats_text, percent
from leakmeter.report.words import NO_GUARANTEE, given, mean_text, model_facts, scope
from leakmeter.stats.stats import posterior_from_even_odds

_FOUND: Final = {
    "drawn": "{scope}The response leaks {leaked}\u00a0nats of the context (per token at most {most}). No limit was "
    "set.",
    "given": "{scope}For the scoring model, this given response leaks {leaked}\u00a0nats of the context (per token at "
    "most {most}). No limit was set.",
    "one": "this answer leaked {leaked}\u00a0nats",
    "several": "{n:,} answers leaked {leaked} on average, and one {most}\u00a0nats",
}


class _Limit(NamedTuple):
    """How much a limit is worth. A bound is on the log-likelihood ratio of any two contexts, in either direction: a
    posterior's too."""

    below_nats: float
    verdict: Literal["", "good", "bad"]
    headline: str
    meaning: str
    """Where nothing is said of what leaked."""
    advice: str
    """A row of `ADVICE`."""


_SURE: Final = "An observer who starts from even odds between two contexts is at most {sure} sure afterwards."
_STRONG_NATS: Final = 1.0  # even odds become 73 %
_WEAK_NATS: Final = 3.0  # 95 %
_WORTHLESS_NATS: Final = 9.0  # 99.99 %
_LIMITS: Final = (
    _Limit(
        _STRONG_NATS,
        "good",
        "{scope}The limit is strong: {leaked}, and no more than {bound} were allowed, after which an observer is at "
        "most {sure} sure of the context.",
        _SURE,
        "bounded",
    ),
    _Limit(
        _WEAK_NATS,
        "",
        "{scope}The limit is moderate: {leaked}, and no more than {bound} were allowed, after which an observer is at "
        "most {sure} sure of the context.",
        _SURE,
        "bounded",
    ),
    _Limit(
        _WORTHLESS_NATS,
        "bad",
        "{scope}The limit is too weak to rely on, although {leaked}: it allowed {bound}\u00a0nats, after which an "
        "observer may be {sure} sure of the context.",
        "A weak limit: an observer who starts from even odds between two contexts may be {sure} sure afterwards.",
        "weak",
    ),
    _Limit(
        math.inf,
        "bad",
        "{scope}The limit rules nothing out: it allowed {bound}\u00a0nats, after which an observer may be certain of "
        "the context; {leaked}.",
        "A limit this large rules nothing out in practice: use a smaller --epsilon or fewer tokens.",
        "worthless",
    ),
)
_ALLOWED: Final = "{bound}. The observer starts from even odds between the two."
PRIVATE: Final = (
    "Private: publish only the response and its public part. λ, losses, the ε spent, a seed, the run's directory and "
    "its id depend on the context."
)
MEANING: Final = (
    "Between any two contexts, the probability of each token differs by at most a factor e^ε, and against no context "
    "by e^(ε/2). This was certified over the whole vocabulary before each token was drawn; it holds for all contexts, "
    "tokens and queries."
)
CONDITIONS: Final = (
    "The guarantee covers the tokens as they were drawn: from the whole distribution, without top-k, top-p or "
    "penalties. It covers the context, not the query or the template."
)
COUNTED: Final = (
    "Basic composition counts the tokens that were drawn; the two with a δ count the maximum that could have been "
    "drawn. All responses of a run are taken to be about one context."
)
ADVICE: Final = {
    "bounded": (
        "A limit below 3 nats",
        "publish the answer with its public part alone (`--public`), and not this report, which is private",
    ),
    "weak": (
        "A limit of 3 to 9 nats",
        "before others read the answer, draw another with a smaller limit for each token (`--epsilon`), or fewer "
        "tokens, and publish that with its public part alone (`--public`); this report is private",
    ),
    "worthless": (
        "A limit of 9 nats or more",
        "do not count on it: decode with a smaller limit for each token (`--epsilon`), or fewer tokens",
    ),
    "unbounded": (
        "No limit",
        "if others may read the answer, decode with a limit (`--epsilon`); `leakmeter decode frontier` shows what it "
        "costs",
    ),
    "influence": (
        "A response that leaks much",
        "find the piece of the context that it came from (`leakmeter influence`)",
    ),
}


def advice(cases: Sequence[DecodeResult]) -> Iterator[b.Advice]:
    # Where the system prompt alone is the context, what the rest of the chat leaks is not known.
    cases = [case for case in cases if case.unmarked_query_tokens is None]
    met = set()
    for case in cases:
        if case.guarantee is None:
            met |= {"unbounded", "influence"}
        else:
            met.add(_limit_of(case.guarantee).advice)
    if cases:
        yield b.Advice.from_table(ADVICE.values(), [ADVICE[name] for name in met])


def _limit_of(guarantee: ResponseGuarantee) -> _Limit:
    return next((limit for limit in _LIMITS if guarantee.response.basic_nats < limit.below_nats), _LIMITS[-1])


def _limited(leaked: str, guarantee: ResponseGuarantee, scope_text: str = "") -> b.Headline:
    """What leaked beside its limit, and whether that is one."""
    limit, nats = _limit_of(guarantee), guarantee.response.basic_nats
    said = limit.headline.format(
        scope=scope_text, leaked=leaked, bound=at_most_text(nats), sure=percent(posterior_from_even_odds(nats), up=True)
    )
    # What was not measured may leak.
    return b.Headline(said, "" if scope_text and limit.verdict == "good" else limit.verdict)


def _headline(decoded: DecodedResponse, scope_text: str = "") -> b.Headline:
    leaked, guarantee = nats_text(decoded.ledger.whole_nats), decoded.guarantee
    if guarantee is not None:
        return _limited(_FOUND["one"].format(leaked=leaked), guarantee, scope_text)
    most = nats_text(max(decoded.ledger.per_token.loss_nats))
    found = "drawn" if decoded.response.sampled else "given"
    return b.Headline(_FOUND[found].format(scope=scope_text, leaked=leaked, most=most))


def bound(guarantee: ResponseGuarantee) -> str:
    """What is guaranteed of a response, without anything private."""
    response = guarantee.response
    return (
        f"{counted(response.n_tokens, 'token')} at {at_most_text(guarantee.epsilon_nats)}\u00a0nats each: "
        f"at most {at_most_text(response.basic_nats)}\u00a0nats between any two contexts"
    )


def means(guarantee: ResponseGuarantee) -> str:
    """What the bound of a response lets an observer know, and whether that is much."""
    nats = guarantee.response.basic_nats
    return _limit_of(guarantee).meaning.format(sure=percent(posterior_from_even_odds(nats), up=True))


def settings(case: DecodeResult | PublicResult) -> dict[str, str]:
    facts = {
        **model_facts(case),
        "Temperature": f"{case.temperature:g}",
        "Tokens": f"{case.min_new_tokens} to {case.max_new_tokens}",
    }
    if case.guarantee is not None:
        epsilon, largest = case.guarantee.epsilon_nats, case.guarantee.lambda_max
        return facts | {"ε a token": f"{epsilon:g} nats", "Largest λ": f"{largest:g}"}
    return facts | {"Decoding λ": f"{case.cid_lambda:g}"} if isinstance(case, DecodeResult) else facts


def report(cases: Sequence[DecodeResult]) -> b.Report:
    """Everything, for readers who may see the context."""
    bounded = any(case.guarantee is not None for case in cases)
    several = len(cases) > 1
    blocks: list[b.Block] = []
    if several:
        blocks += [*_findings(cases), *advice(cases), *([b.Warning(PRIVATE)] if bounded else [])]
    blocks.append(_chart(cases))
    return b.Report(
        "Leakage of the contexts into these responses" if several else "Leakage of the context into this response",
        "decode",
        blocks,
        lead="A language model draws from a mixture of its distributions with and without the context. The difference "
        "of a token's log-probability under the two is what the token reveals of the context, in nats.",
        sections=[
            b.Section(
                b.Untrusted(case.id, 80),
                list(_private(case, warned=several)),
                b.cells(_INDEX, case),
                weight=case.ledger.whole_nats,
            )
            for case in cases
        ],
        index=b.heads(_INDEX),
        index_caption="Responses, largest leakage first" if several else "",
        sections_left_out="that leak less",
        again="Without a seed, the same command draws again, and its loss adds to this one." if bounded else "",
        guide_to="context",
        scripted=False,
    )


def public_report(cases: Sequence[PublicResult]) -> b.Report:
    """Responses, what is guaranteed of them, and what the model says of them without the context."""
    several = len(cases) > 1
    most = max(case.guarantee.response.basic_nats for case in cases)
    n = f"{len(cases):,} responses leaks"
    headline = f"Guaranteed: each of {n} at most {at_most_text(most)}\u00a0nats between any two contexts."
    return b.Report(
        "Responses with a guarantee" if several else "A response with a guarantee",
        "decode",
        [b.Headline(headline)] if several else [],
        lead="A language model was given a context, which is not shown here, and a query. Each token of the response "
        "was drawn from a mixture of the model's distributions with and without the context, with a weight of the "
        "context that kept every token of the vocabulary within a bound. This page shows the response, the bound, and "
        "the probabilities of the response without the context.",
        # By number: a name may tell of the context.
        sections=[
            b.Section(
                str(number),
                list(_public(case)),
                (case.guarantee.response.basic_nats, b.Untrusted(case.text, 60)),
            )
            for number, case in enumerate(cases, 1)
        ],
        index=(b.Column("Bound", "nats", "nats"), b.Column("Text")),
        case=("response", "responses"),
        scripted=False,
        is_signed=False,
    )


def _findings(cases: Sequence[DecodeResult]) -> Iterator[b.Block]:
    values = [case.ledger.whole_nats for case in cases]
    leaked, most = mean_text(values, clusters_of(cases)), nats_text(max(values))
    guarantees = [case.guarantee for case in cases if case.guarantee is not None]
    if len(guarantees) == len(cases):
        weakest = max(guarantees, key=lambda guarantee: guarantee.response.basic_nats)
        yield _limited(_FOUND["several"].format(n=len(cases), leaked=leaked, most=most), weakest, scope(cases))
        yield b.Text(_ALLOWED.format(bound=bound(weakest)))
    else:
        yield b.Headline(
            f"{scope(cases)}{len(cases):,} responses leak {leaked} of their contexts on average, and one "
            f"{most}\u00a0nats."
        )
    yield from map(b.Text, given(cases))


_INDEX: Final[b.Columns[DecodeResult]] = [
    (b.Column("Leaks", "nats", "nats", shade=True), lambda case: case.ledger.whole_nats),
    (b.Column("Spent", "nats"), lambda case: case.ledger.spent_nats),
    (b.Column("Bound", "nats"), lambda case: None if case.guarantee is None else case.guarantee.response.basic_nats),
    (b.Column("Response"), lambda case: b.Untrusted(case.response.text, 60)),
]


# ---- private --------------------------------------------------------------------------------------------------------
def _private(case: DecodeResult, *, warned: bool) -> Iterator[b.Block]:
    responses, guarantee = case.responses, case.guarantee
    yield _headline(responses[0], scope([case]))
    said = [NO_GUARANTEE] if guarantee is None else [_ALLOWED.format(bound=bound(guarantee)), *_together(guarantee)]
    yield from b.front([*said, *([] if warned else given([case]))])
    if not warned:
        yield from advice([case])
        if guarantee is not None:
            yield b.Warning(PRIVATE)
    yield from b.warnings_of(case.warnings)
    if case.truncated_tokens:
        yield b.Warning(
            f"{case.truncated_tokens} tokens of the context did not fit the model's window and were dropped."
        )
    for number, decoded in enumerate(responses, 1):
        yield from _response(decoded, number, len(responses))
    if guarantee is not None:
        yield b.Details("What is guaranteed", _guaranteed(guarantee, len(responses)), told=True)
    texts = [b.Text(b.Untrusted(case.context), "prose", heading="Context")]
    if case.query:
        texts.append(b.Text(b.Untrusted(case.query), "prose", heading="Query"))
    yield b.Details("Context and query", texts)
    yield b.Details("Settings", b.facts_of(settings(case)))


def _response(decoded: DecodedResponse, number: int, n: int) -> Iterator[b.Block]:
    """The text in colours of what each token leaked, and the sum beside its limit. What a token spent has no colour:
    each spends nearly all it may."""
    place = f" {number} of {n}" if n > 1 else ""
    given_text = "" if decoded.response.sampled else ", given"
    segments = [
        b.Segment(b.Untrusted(token), nats, note=note)
        for token, nats, note in zip(
            decoded.response.tokens, decoded.ledger.per_token.loss_nats, _notes(decoded), strict=True
        )
    ]
    yield b.ShadedText(
        [b.Passage(segments)],
        f"Response{place}{given_text}, shaded by what each token leaks, nats",
        floor_said_nats=0.0 if number == n else None,
        style="tokens",
    )
    if number > 1:
        yield b.Text(_headline(decoded).text)
    if decoded.guarantee is not None:
        yield _bars(decoded, decoded.guarantee)
    yield b.Details("Every token in numbers", [_numbers(decoded.response.tokens, _columns(decoded))])


def _columns(decoded: DecodedResponse) -> dict[str, Sequence[float]]:
    per_token = decoded.ledger.per_token
    return {
        "λ": per_token.weight,
        "leaked": per_token.loss_nats,
        "largest possible loss": per_token.max_loss_nats,
        **({} if per_token.spent_nats is None else {"spent ε": per_token.spent_nats}),
        "log p with context": per_token.log_prob_nats,
        "without": per_token.bare_log_prob_nats,
    }


def _notes(decoded: DecodedResponse) -> list[str]:
    """What each token leaked and spent, where a reader points at it."""
    per_token, guarantee = decoded.ledger.per_token, decoded.guarantee
    leaked = [f"leaked {nats_text(nats)}" for nats in per_token.loss_nats]
    if guarantee is None or per_token.spent_nats is None:
        return leaked
    most = nats_text(guarantee.epsilon_nats)
    spent = per_token.spent_nats
    return [f"{said}; spent {nats_text(nats)} of {most}" for said, nats in zip(leaked, spent, strict=True)]


def _bars(decoded: DecodedResponse, guarantee: ResponseGuarantee) -> b.Chart:
    """What the response leaked, and what its tokens spent, beside what was guaranteed."""
    ledger, most = decoded.ledger, guarantee.response.basic_nats
    spent = 0.0 if ledger.spent_nats is None else ledger.spent_nats
    rows = [(name, nats, nats_text(nats)) for name, nats in (("leaked", ledger.whole_nats), ("spent", spent))]
    limit = b.Guide(most, f"guaranteed: at most {at_most_text(most)}", across="x")
    title = f"Spent {nats_text(spent)} of {nats_text(most)} guaranteed nats; leaked {nats_text(ledger.whole_nats)}"
    return pictures.bars("spent", title, b.Axis("nats"), rows, [limit])


def _shown(token: str) -> b.Untrusted:
    return b.Untrusted(token.replace("\n", "↵").strip(" ") or "␣", 60)


def _numbers(
    tokens: Sequence[str], columns: Mapping[str, Sequence[float]], caption: str = "", *, detail: bool = False
) -> b.Table:
    heads = (b.Column("#", "count"), b.Column("Token"), *(b.Column(name, "nats") for name in columns))
    rows = [
        b.Row((number, _shown(token), *numbers))
        for number, (token, *numbers) in enumerate(zip(tokens, *columns.values(), strict=True), 1)
    ]
    n = len(rows)
    return b.Table(heads, rows, caption, rest=("token", "tokens"), first=n, first_on_pages=n, detail=detail)


# ---- both -----------------------------------------------------------------------------------------------------------
def _together(guarantee: ResponseGuarantee) -> Iterator[str]:
    """What all responses of the run have together, if they are about one context."""
    n, nats = guarantee.session.n_responses, at_most_text(guarantee.session.basic_nats)
    if n > 1:
        yield f"All {n:,} responses of the run together: at most {nats}\u00a0nats of one context."


def _guaranteed(guarantee: ResponseGuarantee, n_responses: int) -> list[b.Block]:
    response, session = guarantee.response, guarantee.session
    composed = {"response 1" if n_responses > 1 else "this response": response}
    if session.n_responses > 1:
        composed[f"all {session.n_responses} of the run"] = session
    columns = (
        b.Column("Together"),
        b.Column("Tokens"),
        b.Column("Basic composition", "number"),
        b.Column("PLD", "number"),
        b.Column("RDP", "number"),
    )
    rows = [
        b.Row(
            (
                name,
                f"{total.n_tokens} of ≤ {total.n_tokens_max}",
                *map(at_most_text, (total.basic_nats, total.pld_nats, total.rdp_nats)),
            )
        )
        for name, total in composed.items()
    ]
    delta = f"δ = {response.delta:g}".replace("e-0", "e-")
    caption = f"At most, nats; PLD: privacy loss distributions, RDP: Rényi divergences, both with {delta}"
    told = (MEANING, *sentences(guarantee.draws.to_dict()), CONDITIONS, COUNTED, guarantee.note or "")
    return [b.Table(columns, rows, caption), *(b.Text(sentence, detail=True) for sentence in told if sentence)]


# ---- public ---------------------------------------------------------------------------------------------------------
def _public(case: PublicResult) -> Iterator[b.Block]:
    responses = case.responses
    yield b.Headline(f"Guaranteed: {bound(case.guarantee)}.")
    yield from b.front([means(case.guarantee), *_together(case.guarantee)])
    for number, response in enumerate(responses, 1):
        place = f" {number} of {len(responses)}" if len(responses) > 1 else ""
        # No shades: they would tell of the context.
        yield b.Text(b.Untrusted("".join(response.tokens)), "prose", heading=f"Response{place}")
        if number > 1:
            yield b.Text(f"Guaranteed: {bound(response.guarantee)}.")
    yield b.HeadedBlocks("What is guaranteed", _guaranteed(case.guarantee, len(responses)))
    for number, response in enumerate(responses, 1):
        place = f" of response {number}" if len(responses) > 1 else ""
        columns = {"guaranteed ε": response.bound_nats, "log p without context": response.bare_log_prob_nats}
        yield _numbers(response.tokens, columns, f"Each token{place}, nats", detail=True)
    yield b.Details("Settings", b.facts_of(settings(case)))


# ---- figures --------------------------------------------------------------------------------------------------------
def _chart(cases: Sequence[DecodeResult]) -> b.Chart:
    worst = max(cases, key=lambda case: case.ledger.whole_nats)
    others = [case for case in cases if case is not worst][:200]
    series = [
        b.ChartSeries(
            "line", _added_up(case.ledger.per_token.loss_nats), name="" if number else "other cases", faded=True
        )
        for number, case in enumerate(others)
    ]
    losses = worst.ledger.per_token
    series.append(
        b.ChartSeries("line", _added_up(losses.loss_nats), name="leaked, by the case that leaks most", colour=b.HOUSE)
    )
    if worst.guarantee is not None:
        each = worst.guarantee.epsilon_nats
        n = max(len(case.response.tokens) for case in cases)
        series.append(b.ChartSeries("line", _added_up(losses.spent_nats or ()), name="spent by it", colour=4))
        series.append(b.ChartSeries("line", (0.0, each * n), (0.0, n), name="guaranteed at most", colour=6))
    panel = b.Panel(b.Axis("tokens of the response", whole=True), b.Axis("added up", "nats"), series)
    return b.Chart("loss", "Leakage of contexts into responses", [panel], panel_inches=(6.4, 4.2), on="files")


def _added_up(nats: Sequence[float]) -> list[float]:
    """Sums of the nats of 0, 1, … tokens; an infinite one ends the line."""
    return [value if math.isfinite(value) else math.nan for value in accumulate(nats, initial=0.0)]
