"""Which disclosures a recipient may know: counts of many cases, and what reports say of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from leakmeter.core.plain import counted, n_listed, plural
from leakmeter.instruments.influence.disclosures import Disclosure
from leakmeter.text.permissions import MayKnow, called

if TYPE_CHECKING:
    from leakmeter.instruments.influence.result import InfluenceResult

_LISTED: Final = 8
"""Rules that a sentence names."""
ALLOWED: Final[dict[MayKnow, str]] = {"no": "not allowed", "unknown": "not known", "yes": "allowed"}
"""The same before what is disclosed, in that order."""
MAY_NOT: Final = "to recipients who are not allowed to know them"
ONE_MAY_NOT: Final = "to a recipient who is not allowed to know it"


def apart(cases: Sequence[InfluenceResult]) -> list[list[InfluenceResult]]:
    """Cases of which somebody says who may know what, and those of which nobody does, where there are any."""
    judged = [case for case in cases if case.policy is not None]
    others = [case for case in cases if case.policy is None]
    return [some for some in (judged, others) if some]


def is_judged(cases: Iterable[InfluenceResult]) -> bool:
    """Whether a policy, or the log, says of some case who may know what."""
    return any(case.policy is not None for case in cases)


def withheld(disclosures: Iterable[Disclosure]) -> list[Disclosure]:
    """Those that are not known to be allowed: all where nobody says who may know what."""
    return [disclosure for disclosure in disclosures if disclosure.allowed != "yes"]


def n_unauthorised(case: InfluenceResult) -> float | None:
    """Disclosures to a recipient who may not know them; None of a case of which nobody says who may."""
    return None if case.policy is None else float(sum(leak.allowed == "no" for leak in case.disclosed))


def is_unsure(case: InfluenceResult) -> bool:
    """Whether of some disclosure it is not known whether its recipient may know it, or nobody says who may."""
    return any(leak.allowed in ("unknown", None) for leak in case.disclosed)


def rest_text(disclosures: Iterable[Disclosure]) -> str:
    """'14 allowed; 2 undecided', of what is not forbidden; empty where there is nothing."""
    counts = Counter(disclosure.allowed for disclosure in disclosures)
    parts = [f"{counts['yes']:,} allowed"] if counts["yes"] else []
    parts += [f"{counts['unknown']:,} undecided"] if counts["unknown"] else []
    return "; ".join(parts)


def further(cases: Sequence[InfluenceResult]) -> Iterator[str]:
    """Sentences: what of other content recipients may not know, and why it is not known of some."""
    judged = [case for case in cases if case.policy is not None]
    if not judged:
        return
    if n := len(cases) - len(judged):
        yield f"Of {counted(n, 'response')} nobody says who may know what: neither a policy nor the log."
    leaks = [leak for case in judged for leak in case.disclosed]
    other = [leak for leak in leaks if not leak.is_sensitive]
    if n := sum(leak.allowed == "no" for leak in other):
        rest = rest_text(other)
        whom = plural(n, ONE_MAY_NOT, MAY_NOT)
        yield f"Other content: {counted(n, 'span')} {whom}{'; ' if rest else ''}{rest}."
    if missing := Counter(_missing(leak) for leak in leaks if leak.allowed == "unknown"):
        facts = ", ".join(f"{fact} ({n:,})" for fact, n in missing.most_common(_LISTED))
        yield f"Undecided, since something is missing: {facts}."


def _missing(leak: Disclosure) -> str:
    """The fact without which it is not known; without the rule's name, which is a text of the user's."""
    _, colon, rest = (leak.rule or "").rpartition(": ")
    return rest.removesuffix(" not known") if colon else "a rule that says so"


def unmatched(cases: Sequence[InfluenceResult]) -> Iterator[str]:
    """Rules that fit no recipient and document of any case: a name in them may be misspelled."""
    policies = [case.policy for case in cases if case.policy is not None]
    if not policies:
        return
    most = max(policies, key=lambda policy: policy.n_allow + policy.n_forbid)
    rules = [called(number, allows=True) for number in range(1, most.n_allow + 1)]
    rules += [called(number, allows=False) for number in range(1, most.n_forbid + 1)]
    used = {name for policy in policies for name in policy.matched}
    unused = [name for name in rules if name not in used]
    if unused:
        n = n_listed(len(unused), _LISTED)
        more = f" and {len(unused) - n:,} more" if len(unused) > n else ""
        fits = plural(len(unused), "fits", "fit")
        yield (
            f"{len(unused):,} of {counted(len(rules), 'rule')} {fits} no recipient and document of these cases: "
            f"{', '.join(unused[:n])}{more}."
        )
