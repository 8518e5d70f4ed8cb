"""Bounds on leakage as assertions of a test suite; `leakmeter.pytest_plugin` has the fixture for pytest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from leakmeter.core.plain import counted, excerpt, n_listed
from leakmeter.errors import UsageError
from leakmeter.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from leakmeter.instruments.influence.disclosures import Disclosure
    from leakmeter.instruments.influence.result import InfluenceResult, PieceInfluence
    from leakmeter.meter import Meter

__all__ = ["assert_leakage", "assert_no_disclosure"]

_LISTED: Final = 10
"""Pieces that a failure names."""
_EXCERPT: Final = 60


def assert_leakage(
    case: Any,
    *,
    max_nats: float | None = None,
    max_posterior: float | None = None,
    model: Any = DEFAULT_MODEL,
    meter: Meter | None = None,
    show_text: bool = False,
    **options: Any,
) -> Sequence[InfluenceResult]:
    """Assert that no piece of a context has more influence on the response than a bound allows.

    The influence of a piece is τ_i of Flemings et al., "Estimating Privacy Leakage of Augmented Contextual Knowledge in
    Language Models", Definition 3.2; with `samples` the largest over the responses. The posterior is Bayes' rule on the
    signed sum, from even odds.

    Args:
        case: a case as a mapping with 'context' and 'query' or 'messages', and 'response'; several cases, as
            `influence` takes them; or results of `influence`.
        max_nats: the most influence of a piece, nats.
        max_posterior: the most that an observer of the response may believe that a piece was there, above 0.5 and below
            1. Only of responses that are drawn from the scoring model: of a given one no posterior follows.
        model: see `influence`; loaded once for all calls that name the same.
        meter: a `Meter` in its place.
        show_text: name pieces with an excerpt of their text, keys and passwords masked; else the failure, which a CI
            log may publish, has their names and numbers alone.
        options: of `influence`, such as `unit`, `template` or `samples`.

    Returns:
        The results, for further assertions.

    Raises:
        AssertionError: a piece is above a bound; says which, by how much, and with which noise floor and posterior.
        UsageError: no bound, or one that lies below the noise floor, where a measurement cannot tell it from chance;
            `max_posterior` of a response that was given; or no piece is above a bound, but a search did not score all
            of them: nothing is known of the others.

    Examples:
        >>> from leakmeter.testing import assert_leakage
        >>> case = {"context": "Ana is 41. She sings.", "query": "How old is Ana?", "response": "41"}
        >>> found = assert_leakage(case, max_nats=5, model="toy")
        >>> assert_leakage(case, max_nats=0.01, model="toy", unit="whole")
        Traceback (most recent call last):
        AssertionError: 1 of 1 piece leaks more than the bound allows
          case '1', piece whole: ... nats, bound 0.01 nats; ...
    """
    __tracebackhide__ = True  # pytest then shows the line that called
    from leakmeter.instruments.influence.findings import telling

    _check_bounds(max_nats, max_posterior)
    results = tuple(_results(case, model, meter, options))
    for result in results:
        _check_drawn(result, max_posterior)
        _check_noise(result, max_nats, max_posterior)
    broken = [
        _line(result, piece, max_nats, max_posterior, show_text=show_text)
        for result in results
        for piece in telling(result)
        if _is_above(piece, max_nats, max_posterior)
    ]
    if broken:
        n = sum(len(result.pieces) for result in results)
        verb = "leaks" if len(broken) == 1 else "leak"
        plural = "" if n == 1 else "s"
        raise _failure(f"{len(broken)} of {n} piece{plural} {verb} more than the bound allows", broken)
    _check_complete(results)
    return results


def assert_no_disclosure(
    answer: Any,
    context: Any = None,
    query: str = "",
    *,
    allowed: str | None = None,
    recipient: str | Mapping[str, Any] | None = None,
    max_nats: float = 3.0,
    only_personal: bool = True,
    model: Any = DEFAULT_MODEL,
    meter: Meter | None = None,
    show_text: bool = False,
    **options: Any,
) -> Sequence[InfluenceResult]:
    """Assert that an answer gives nothing personal or secret away of the context that it was given after.

    A disclosure is a span of the answer whose log-probability the context raised beyond noise and an irrelevant text;
    see `leakmeter.instruments.influence.disclosures`.

    Args:
        answer: what was answered; or, without a context, a case as a mapping, several cases, or results, as
            `assert_leakage` takes them.
        context: one text, several documents, or documents by name.
        query: what was asked.
        allowed: file of who may know what (`--allowed`): what the recipient may know does not count, and what nobody
            knows whether they may does.
        recipient: who is answered, as the field of data: an id, or a mapping with 'id', 'role', 'tenant' and
            'subject'; of cases it stands in each.
        max_nats: the most that a disclosure may have, nats, with signs: 3 nats make it 20 times as likely with the
            context as without it, 5 nats 150 times. 3 at least, which is the least that is called one.
        only_personal: whether only what a list (`sensitive`), a recogniser or a shape calls personal or secret counts;
            False counts content of any kind.
        model: see `influence`; loaded once for all calls that name the same.
        meter: a `Meter` in its place.
        show_text: name disclosures with their words, keys and passwords masked; else the failure, which a CI log may
            publish, has kinds and numbers alone.
        options: of `influence`, such as `sensitive`, `unit` or `template`.

    Returns:
        The results, for further assertions.

    Raises:
        AssertionError: something is disclosed; says what, of which document, and by how much.
        UsageError: nothing that small counts as a disclosure; or nothing was found where not all could be: numbers are
            too uncertain (see `core.self_check.doubt`), or only the first of several drawn responses was searched.

    Examples:
        >>> from leakmeter.testing import assert_no_disclosure
        >>> results = assert_no_disclosure("41", "Ana is 41. She sings.", "How old is Ana?", model="toy")
    """
    __tracebackhide__ = True
    from leakmeter.instruments.influence.disclosures import LEAST_NATS

    if not max_nats >= LEAST_NATS:
        raise UsageError(
            f"max_nats is {max_nats:g}; below {LEAST_NATS:g} nats nothing counts as a disclosure; give more"
        )
    if context is None and recipient is not None:
        raise UsageError("recipient is of an answer with its context; give each case its own")
    own = {} if recipient is None else {"recipient": recipient}
    case = answer if context is None else {"context": context, "query": query, "response": answer, **own}
    results = tuple(_results(case, model, meter, options if allowed is None else {**options, "allowed": allowed}))
    broken = [
        _disclosed(result, disclosure, show_text=show_text)
        for result in results
        for disclosure in result.disclosed
        if disclosure.is_sensitive or not only_personal
        if disclosure.allowed != "yes"
        # Of what is known by its words alone, nats say nothing.
        if disclosure.most_nats > max_nats or disclosure.evidence == "words"
    ]
    if broken:
        noun = "something personal or secret" if only_personal else "content of the context"
        n = "1 disclosure" if len(broken) == 1 else f"{len(broken)} disclosures"
        raise _failure(f"{n} of {noun}", broken)
    _check_complete(results)
    _check_all_could_be_found(results)
    return results


def _failure(head: str, broken: Sequence[str]) -> AssertionError:
    n = n_listed(len(broken), _LISTED)
    more = [f"  … and {len(broken) - n} more"] if len(broken) > n else []
    return AssertionError("\n".join([head, *broken[:n], *more]))


def _without_secrets(text: str, result: InfluenceResult) -> str:
    from leakmeter.text.entities.secrets import find, hidden

    return excerpt(hidden(text, (*result.secrets, *find(text, by_shape=True))), _EXCERPT)


def _disclosed(result: InfluenceResult, disclosure: Disclosure, *, show_text: bool) -> str:
    from leakmeter.instruments.influence.disclosure_report import strength
    from leakmeter.report.scale import percent

    text = f" {_without_secrets(disclosure.text, result)!r}" if show_text else ""
    document = "" if disclosure.document is None else f" of document {excerpt(disclosure.document, _EXCERPT)}"
    is_shown = disclosure.nats > disclosure.floor_nats and disclosure.posterior is not None
    sure = f", {percent(disclosure.posterior)} sure" if is_shown else ""
    may = {
        "no": "; the recipient may not know it",
        "unknown": "; whether the recipient may know it is not known",
    }
    return (
        f"  case {excerpt(result.id, _EXCERPT)!r}: {disclosure.kind}{text}, {disclosure.relation}{document}: "
        f"{strength(disclosure)}{sure}{may.get(disclosure.allowed or '', '')}".replace("\u00a0", " ")
    )


def _results(case: Any, model: Any, meter: Meter | None, options: dict[str, Any]) -> Iterable[InfluenceResult]:
    from leakmeter.instruments.influence.command import influence
    from leakmeter.instruments.influence.result import InfluenceResult
    from leakmeter.results.results import Results

    if isinstance(case, InfluenceResult | Results):
        if options or meter is not None:
            raise UsageError("the case is already measured; leave out meter and options, or give the case itself")
        results = [case] if isinstance(case, InfluenceResult) else list(case)
        if not all(isinstance(result, InfluenceResult) for result in results):
            raise UsageError("these are results of another instrument; give those of influence")
        return results
    data = [case] if isinstance(case, dict) else case
    found_all: Any = influence(model, data, **options) if meter is None else meter.influence(data, **options)
    return list(found_all)


def _check_bounds(max_nats: float | None, max_posterior: float | None) -> None:
    if max_nats is None and max_posterior is None:
        raise UsageError("nothing to check the leakage against; give max_nats, max_posterior or both")
    if max_nats is not None and not max_nats > 0:
        raise UsageError(f"max_nats is {max_nats}; it has to be above 0")
    if max_posterior is not None and not 0.5 < max_posterior < 1:
        raise UsageError(f"max_posterior is {max_posterior}; it has to be above 0.5 and below 1")


def _check_drawn(result: InfluenceResult, max_posterior: float | None) -> None:
    if max_posterior is not None and not result.response.sampled:
        raise UsageError(
            f"max_posterior is a bound on responses that are drawn, and that of case {excerpt(result.id, _EXCERPT)!r} "
            "was given: no posterior follows of what another model may have written; give max_nats"
        )


def _check_noise(result: InfluenceResult, max_nats: float | None, max_posterior: float | None) -> None:
    """Refuse a bound that a measurement without any leakage may break."""
    from leakmeter.report.scale import nats_text
    from leakmeter.stats.stats import posterior_from_even_odds

    floor = result.noise_floor_nats
    floor_text = f"the noise floor of case {result.id!r}, {nats_text(floor)} nats"
    if max_nats is not None and max_nats < floor:
        raise UsageError(f"max_nats is {max_nats:g} and below {floor_text}, so chance alone may break it; give more")
    if max_posterior is not None and max_posterior < posterior_from_even_odds(floor):
        least = posterior_from_even_odds(floor)
        raise UsageError(f"max_posterior is {max_posterior:g} and below {least:.4g}, that of {floor_text}; give more")


def _check_complete(results: Iterable[InfluenceResult]) -> None:
    """Refuse to say of pieces that were not scored that they are within a bound."""
    left = [len(result.search.pieces) for result in results if result.search is not None and result.search.pieces]
    if left:
        raise UsageError(
            f"no scored piece leaks more than the bound allows, but a search did not score {sum(left):,} pieces of "
            f"{counted(len(left), 'case')}; leave search out"
        )


def _check_all_could_be_found(results: Iterable[InfluenceResult]) -> None:
    """Refuse to say that nothing is disclosed of a response in which not all that is could be found."""
    from leakmeter.instruments.influence.context import doubt

    for result in results:
        why, advice = doubt(result), "give dtype='float32', or another model"
        if why is None and len(result.samples) > 1:
            why = f"only the first of {len(result.samples):,} drawn responses was searched"
            advice = "give each as a case of its own"
        if why is not None:
            case, clause = excerpt(result.id, _EXCERPT), why.replace("\u00a0", " ")
            raise UsageError(
                f"no disclosure above the bound was found, but case {case!r} does not show that there is none: "
                f"{clause}; {advice}"
            )


def _is_above(piece: PieceInfluence, max_nats: float | None, max_posterior: float | None) -> bool:
    is_above = max_nats is not None and not _nats(piece) <= max_nats
    believed = max_posterior is not None and piece.posterior is not None and piece.posterior > max_posterior
    return is_above or believed


def _nats(piece: PieceInfluence) -> float:
    """Influence on the response that it influences most."""
    return piece.nats if piece.worst_nats is None else piece.worst_nats


def _line(
    result: InfluenceResult,
    piece: PieceInfluence,
    max_nats: float | None,
    max_posterior: float | None,
    *,
    show_text: bool,
) -> str:
    from leakmeter.report.scale import nats_text, percent

    kind = f" ({piece.entity_type})" if piece.entity_type else ""
    text = f" {_without_secrets(piece.text, result)!r}" if show_text else ""
    bounds = [] if max_nats is None else [f"bound {max_nats:g} nats"]
    bounds += [] if max_posterior is None else [f"bound on the posterior {max_posterior:g}"]
    placebo = "" if result.placebo_nats is None else f", placebo {nats_text(result.placebo_nats)} nats"
    # Of a response that was given there is none.
    posterior = ""
    if result.response.sampled:
        posterior = f"; posterior {piece.posterior_note if piece.posterior is None else percent(piece.posterior)}"
    return (
        f"  case {excerpt(result.id, _EXCERPT)!r}, piece {excerpt(piece.name, _EXCERPT)}{kind}{text}: "
        f"{nats_text(_nats(piece))} nats, {', '.join(bounds)}; noise floor {nats_text(result.noise_floor_nats)} nats"
        f"{placebo}{posterior}"
    )
