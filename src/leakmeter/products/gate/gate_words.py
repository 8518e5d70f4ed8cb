"""Sentences and lines of a gate and of two compared runs, for the terminal and JUnit XML; they repeat no text. Ids are
in lines for the terminal alone."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias
from xml.etree import ElementTree

from leakmeter.core.plain import counted, excerpt, n_listed, plural
from leakmeter.core.quantity import COUNTED, SHARE, SHARE_OF_CASES, Check, Counterexample, Number, Quantity
from leakmeter.core.record import JsonObject
from leakmeter.report.scale import nats_in, nats_text, share_percent
from leakmeter.stats.aggregates import EXTREMES
from leakmeter.stats.arrays import FloatArray
from leakmeter.stats.stats import FEWEST_FOR_INTERVAL

_WITHIN: Final = {"<=": "at most", "<": "below", ">=": "at least", ">": "above"}
_TOLD: Final = {"holds": "holds ", "broken": "BROKEN", "undecided": "UNDECIDED"}
_ALLOWED: Final = {"<=": "allowed", "<": "allowed below", ">=": "asked for", ">": "asked for above"}
_BEYOND: Final = {"<=": "more than", "<": "not below", ">=": "less than", ">": "not above"}
_VALUE_AT_MOST: Final = 60
_NO_NUMBER: Final = re.compile(r"[^\d.e-]")
_ID_AT_MOST: Final = 40
_MOST_CASES: Final = 3
"""Counts that were none, of those that a headline names."""


def number_text(number: Number) -> str:
    """'7.31 [5.2, 9.9] nats over 120 cases', or '7.31 (5.2 to 9.9) nats over 3 cases, too few for an interval'."""
    unit = f"{number.unit} a case" if number.unit in COUNTED else number.unit
    few = "" if number.extremes is None else ", too few for an interval"
    return f"{value_text(number)} {unit} over {counted(number.n, 'case')}{few}"


def value_text(number: Number) -> str:
    """'7.31 [5.2, 9.9]', '7.31 (5.2 to 9.9)' where the ends are the least and the most of few, or 'at least 7.31'."""
    least = "at least " if number.is_lower_bound else ""
    if number.unit in COUNTED and number.interval is None and number.extremes is None:
        return f"{least}{_own(number.value, number.unit)}"
    ends = "" if number.extremes is None else f" ({' to '.join(map(nats_text, number.extremes))})"
    return f"{least}{nats_in(number.value, number.interval)}{ends}"


def found_text(name: str, number: Number, how: str = "") -> str:
    """What a bound is held against. Of a largest or smallest one it says so, so that nobody reads it as a sum. A share
    is in percent: '71 % of 14 people'."""
    is_share = number.unit.startswith(SHARE)
    if how not in EXTREMES:
        return f"{name} is {_share_text(number) if is_share else number_text(number)}"
    which = "the largest" if how == "max" else "the smallest"
    value = f"{_percent_in(number)} of {_shared(number)}" if is_share else f"{value_text(number)} {number.unit}"
    return f"{name} is {value}, {which} of {counted(number.n, 'case')}"


def _share_text(number: Number) -> str:
    """'71 % of 14 people', '67 % [39, 86] of 12 cases', or '12 % of tokens over 3 cases'."""
    few = "" if number.extremes is None else ", too few for an interval"
    if number.n_shared is not None or number.unit == SHARE_OF_CASES:
        n = number.n if number.n_shared is None else number.n_shared
        one = {"people": "person"}.get(_shared(number), _shared(number).removesuffix("s"))
        return f"{_percent_in(number)} of {n:,} {plural(n, one, _shared(number))}{few}"
    return f"{_percent_in(number)} of {_shared(number)} over {counted(number.n, 'case')}{few}"


def _shared(number: Number) -> str:
    """What a share is one of: 'people'."""
    return number.unit.removeprefix(SHARE)


def _percent_in(number: Number) -> str:
    """A share in percent, with its interval or its ends."""
    least = "at least " if number.is_lower_bound else ""
    ends = "" if number.extremes is None else f" ({' to '.join(map(_percent, number.extremes))})"
    interval = "" if number.interval is None else f" [{', '.join(map(_percent, number.interval))}]"
    return f"{least}{_percent(number.value)}{interval}{ends}"


def _percent(share: float) -> str:
    if not math.isfinite(share):
        return nats_text(share)
    return share_percent(share)


def _limit(number: Number, limit: float) -> str:
    """What is asked, in the unit of the number."""
    return f"{100 * limit:.10g}\u00a0%" if number.unit.startswith(SHARE) else f"{limit:.12g}"


def counted_text(quantity: Quantity, number: Number, values: FloatArray, allowed: str) -> str:
    """What a bound on the most that one answer has of something counted is held against: in how many answers there is
    any, the total, and the most in one. `allowed` is an `allowed_text`, and stands behind the total where none is
    allowed, in one answer or in all."""
    n_with, total, most = int((values > 0).sum()), f"{values.sum():,.0f}", f"{number.value:,.0f}"
    predicate = quantity.predicate or f"have {quantity.name}"
    known = f"{'is' if n_with == 1 else 'are'} known to {predicate}"
    said = known if number.is_lower_bound else _of_number(predicate, n_with)
    answers = f"{n_with:,} of {counted(number.n, 'answer')} {said}"
    if not n_with:
        return f"{answers} ({allowed})"
    least = "at least " * number.is_lower_bound
    in_all = f"{answers}, {least}{total} {COUNTED[number.unit] if total == '1' else number.unit} in total"
    if allowed.endswith(" 0"):
        return f"{in_all} ({allowed}). Most in one answer: {least}{most}"
    return f"{in_all}. Most in one answer: {least}{most} ({allowed})"


def allowed_text(operator: str, limit: float) -> str:
    return f"{_ALLOWED[operator]} {limit:.12g}"


def bound_sentence(
    found: str, number: Number, operator: str, limit: float, *, is_within: bool, holds: bool, has_interval: bool = True
) -> str:
    """`found` is a `found_text`. A bound that holds may ask for more than a value within it: for an interval, if it
    `has_interval`, which a number that is a lower bound does not show."""
    found += _more_digits(number, limit, is_enough=is_within and operator in ("<=", ">="))
    if holds:
        return f"{found}: {_WITHIN[operator]} {_limit(number, limit)}, as asked."
    if not is_within:
        return f"{found}: {_BEYOND[operator]} {_limit(number, limit)}."
    if not has_interval:
        extreme = "maximum" if operator in ("<=", "<") else "minimum"
        of_many = "equal numbers have" if math.isfinite(number.value) else "infinite numbers have"
        few = "one case has" if number.n == 1 else "so few cases have"
        conversations = "so few conversations have" if number.extremes is not None else of_many
        why = few if number.n < FEWEST_FOR_INTERVAL else conversations
        within = f"{_WITHIN[operator]} {_limit(number, limit)}"
        return f"{found}: {within}, but {why} no interval to check; bound the {extreme} instead."
    return f"{found}: {_WITHIN[operator]} {_limit(number, limit)}, but not all of its interval."


def _more_digits(number: Number, limit: float, *, is_enough: bool) -> str:
    """' (5.0004)' of a number that is rounded to its limit; nothing where the limit `is_enough`, or it is infinite."""
    times = 100.0 if number.unit.startswith(SHARE) else 1.0
    value, text = number.value, (_percent if times > 1.0 else nats_text)(number.value)
    if (
        is_enough
        or value == limit
        or not math.isfinite(value)
        or float(_NO_NUMBER.sub("", text.replace("−", "-"))) != limit * times
    ):
        return ""
    digits = next(n for n in range(4, 18) if float(f"{value * times:.{n}g}") != limit * times)
    return f" ({value * times:.{digits}g}\u00a0%)" if times > 1.0 else f" ({value:.{digits}g})"


def undecided_sentence(found: str, number: Number, operator: str, limit: float, undecided: str) -> str:
    """`undecided` is an `undecided_text`."""
    return f"{found}, and whether it is {_WITHIN[operator]} {_limit(number, limit)} is undecided: {undecided}."


def undecided_text(n_lower: int, why: str, advice: str) -> str:
    return f"for {counted(n_lower, 'case')} only a lower bound is known ({why}); {advice}"


def left_out_sentence(n_lower: int, noun: str, why: str) -> str:
    return f"{counted(n_lower, noun)} {'is' if n_lower == 1 else 'are'} left out: only a lower bound is known ({why})"


def regression_sentence(
    quantity: str, number: Number, floor: float, before: float, after: float, *, holds: bool
) -> str:
    verdict = "no worse than chance and noise allow" if holds else "worse by more than chance and noise allow"
    noise = f", with a noise floor of {nats_text(floor)}" if floor > 0.0 else ""
    return (
        f"{quantity} went from {nats_text(before)} to {nats_text(after)} on average, by {number_text(number)}{noise}: "
        f"{verdict}."
    )


def check_lines(checks: Sequence[Check]) -> list[str]:
    several = len({check.run for check in checks}) > 1
    lines = []
    for check in checks:
        run = f"run {check.run}: " if several else ""
        missing = f" {check.n_missing:,} without it." if check.n_missing else ""
        lines.append(f"{_TOLD[check.verdict]}  {run}{check.explained}{missing}")
        if check.worst:
            cases = ", ".join(f"{_case(item)} ({_own(item.value, check.found.unit)})" for item in check.worst)
            lines.append(f"        worst: {cases}")
    return lines


def _case(item: Counterexample) -> str:
    return f"case {item.number}" if item.id is None else excerpt(item.id, _ID_AT_MOST)


def _own(value: float, unit: str) -> str:
    """A case's own number: a count has no decimals, nor has what is 0 or 1."""
    is_whole = (unit in COUNTED or unit == SHARE_OF_CASES) and value.is_integer()
    return f"{value:,.0f}" if is_whole else nats_text(value)


def setting_line(name: str, first: Any, second: Any) -> str:
    """A setting that two runs have otherwise; what may not be shown is the same word in both."""
    values = "other values, not shown" if first == second else f"{_setting(first)}, then {_setting(second)}"
    return f"{excerpt(name, _VALUE_AT_MOST)}: {values}"


def _setting(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return excerpt("none" if value is None else str(value), _VALUE_AT_MOST)


def incomparable_line(settings: Sequence[JsonObject]) -> str:
    listed = "; ".join(setting_line(setting["name"], setting["first"], setting["second"]) for setting in settings)
    return f"No verdict: the numbers mean different things ({listed})"


NO_DIFFERENCE: Final = "no difference beyond chance"
VERDICT_RULE: Final = (
    "A number is worse or better, or higher or lower where neither is better, if the 95\u00a0% interval of its "
    "difference leaves out 0, the difference is above the noise of both runs, and the paired test agrees: p of "
    "Wilcoxon’s signed-rank test, by Holm’s rule among these numbers, is below 0.05. All else is "
    f"{NO_DIFFERENCE}."
)
_SAYS: Final = {
    ("leak", "worse"): "leaks more",
    ("leak", "better"): "leaks less",
    ("quality", "worse"): "is worse",
    ("quality", "better"): "is better",
    ("neither", "higher"): "is higher",
    ("neither", "lower"): "is lower",
}

_CHANGED: Final = "{changed:,} of {cases} changed; on average, "
_UNCHANGED: Final = "As far as {cases} can show, "
_ONLY: Final = "{cases} in {run} and not in {other} ({n:,} of {pairs})."
_MORE: Final = "{cases} more often in {run} than in {other} ({n:,} of {pairs})."
_FEW: Final = " {cases}: more can show smaller differences."
ComparisonOutcome: TypeAlias = Literal["worse", "better", "moved", "alike", "none"]
"""Of a second run: worse in some number, or discloses more in some case; else better in some number; neither, but
higher or lower in some; in no number different beyond chance; nothing could be tested, or the runs cannot be
compared."""
COMPARISON_ADVICE: Final[Mapping[ComparisonOutcome, tuple[str, str]]] = {
    "worse": (
        "The second run is worse in some number, or discloses more in some case",
        "read the cases that changed most, and do not ship what the second run measured before you know why",
    ),
    "better": (
        "The second run is better in some number, worse in none, and discloses more in no case",
        "read the cases that changed, then ship; `leakmeter gate --write-baseline` keeps the second run as what later "
        "ones are held against",
    ),
    "moved": (
        "A number is higher or lower, of which neither is better",
        "read the cases that changed most: what the number means decides whether that is good",
    ),
    "alike": (
        "No number moved beyond chance",
        "read the cases that changed: one of them may matter although the average does not move; measure more cases to "
        "see smaller differences",
    ),
}
_ALIKE: Final = {
    (False, True): "leaks as much as",
    (False, False): "does not differ from",
    (True, True): "is not shown to leak more or less than",
    (True, False): "is not shown to differ from",
}
"""By whether cases changed, and whether all numbers are of leakage."""


def comparison_headline(comparison: JsonObject, first: str = "A", second: str = "B") -> str:
    """What `products.gate.compare.Comparison.to_dict` says in one sentence of two runs by their names."""
    if comparison["incomparable"]:
        return incomparable_line(comparison["incomparable"])
    # What an average hides comes first.
    told = "".join(
        f"{form.format(**words)} "
        for form, words in (
            *((_ONLY, _words(comparison, group, second, first)) for group in _only_in(comparison, "second", "first")),
            *((_MORE, _words(comparison, group, second, first)) for group in _more_in_second(comparison)),
            *((_ONLY, _words(comparison, group, first, second)) for group in _only_in(comparison, "first", "second")),
        )
    )
    average = "On average, " * bool(told)
    tested = [row for row in comparison["quantities"] if row["p_value"] is not None]
    if not tested:
        return f"{told}No verdict: {first} and {second} have no number that can be tested."
    n, noun = len(tested), "number" if len(tested) == 1 else "numbers"
    by_words = {
        words: rows
        for (sense, verdict), words in _SAYS.items()
        if (rows := [row for row in tested if (row["sense"], row["verdict"]) == (sense, verdict)])
    }
    parts = [f"{words}{{}} in {len(rows):,}{{}}: {', '.join(map(_by, rows))}" for words, rows in by_words.items()]
    if parts:
        others = "".join(f"; it {part.format('', '')}" for part in parts[1:])
        return f"{told}{average}{second} {parts[0].format(f' than {first}', f' of {n:,} {noun}')}{others}."
    pairs, changed = comparison["n_pairs"], len(comparison["changed"])
    # A test that finds no difference does not show that there is none where cases changed.
    is_leak = all(row["sense"] == "leak" for row in tested)
    alike = _ALIKE[bool(changed), is_leak]
    cases = counted(pairs, "case")
    opening = _CHANGED.format(changed=changed, cases=cases) if changed else _UNCHANGED.format(cases=cases)
    few = _FEW.format(cases=cases) if pairs < FEWEST_FOR_INTERVAL else ""
    begin = told + average if told else opening
    return f"{begin}{second} {alike} {first}: {NO_DIFFERENCE} in {n:,} of {n:,} {noun}.{few}"


_Group: TypeAlias = tuple[str, list[str]]
"""What the answers of some cases do, and the ids of these cases."""


def _words(comparison: JsonObject, group: _Group, run: str, other: str) -> JsonObject:
    predicate, ids = group
    cases = f"{_first_of(ids)} {_of_number(predicate, len(ids))}"
    return {"cases": cases, "n": len(ids), "pairs": counted(comparison["n_pairs"], "case"), "run": run, "other": other}


def _only_in(comparison: JsonObject, run: str, other: str) -> list[_Group]:
    """The cases of which something is counted in one run that the other has not, where more of it is worse: an average
    hides them."""
    counts = {
        row["quantity"]: row.get("predicate") or f"have {row['quantity']}"
        for row in comparison["quantities"]
        if row["worse"] == "more" and row["sense"] == "leak" and row["unit"] in COUNTED
    }
    return _grouped(comparison, counts | comparison["deciding"], lambda number: number[other] == 0 < number[run])


def _more_in_second(comparison: JsonObject) -> list[_Group]:
    """The cases of which the first run discloses something of what decides, and the second more of it."""
    return _grouped(comparison, comparison["deciding"], lambda number: 0 < number["first"] < number["second"])


def _grouped(
    comparison: JsonObject, predicates: Mapping[str, str], applies: Callable[[JsonObject], bool]
) -> list[_Group]:
    by_quantity: dict[str, list[str]] = {}
    for case in comparison["changed"]:
        numbers = [number["quantity"] for number in case["numbers"] if applies(number)]
        known = [name for name in numbers if name in predicates]
        # What decides comes before all else. Of several the narrowest: 'influence.disclosures.personal' says more than
        # 'influence.disclosures'.
        quantity = max(known, key=lambda name: (name in comparison["deciding"], len(name)), default=None)
        if quantity is not None:
            by_quantity.setdefault(quantity, []).append(excerpt(case["id"], _ID_AT_MOST))
    return [(predicates[quantity], ids) for quantity, ids in by_quantity.items()]


def _of_number(predicate: str, n: int) -> str:
    """'discloses the context' of one, 'disclose the context' of several."""
    if n != 1:
        return predicate
    verb, space, rest = predicate.partition(" ")
    return f"{'has' if verb == 'have' else f'{verb}s'}{space}{rest}"


def _first_of(ids: Sequence[str]) -> str:
    n = n_listed(len(ids), _MOST_CASES)
    return ", ".join(ids[:n]) + (f" and {len(ids) - n:,} more" if len(ids) > n else "")


def comparison_outcome(comparison: JsonObject) -> ComparisonOutcome:
    tested = [row for row in comparison["quantities"] if row["p_value"] is not None]
    if comparison["incomparable"]:
        return "none"
    numbers = (number for case in comparison["changed"] for number in case["numbers"])
    if any(number["quantity"] in comparison["deciding"] and number["first"] < number["second"] for number in numbers):
        return "worse"
    if not tested:
        return "none"
    verdicts = {row["verdict"] for row in tested}
    if "worse" in verdicts or "better" in verdicts:
        return "worse" if "worse" in verdicts else "better"
    return "moved" if verdicts & {"higher", "lower"} else "alike"


def _by(row: JsonObject) -> str:
    return f"{excerpt(row['quantity'], _VALUE_AT_MOST)} (by {nats_text(abs(row['difference']))} {row['unit']})"


def changed_text(number: JsonObject) -> str:
    """'influence 4.05 → 101 nats'."""
    first, second = (_own(number[name], number["unit"]) for name in ("first", "second"))
    unit = "" if number["unit"] in COUNTED else f" {number['unit']}"
    return f"{excerpt(number['quantity'], _VALUE_AT_MOST)} {first} → {second}{unit}"


def left_out_line(left_out: JsonObject) -> str:
    return f"{left_out['quantity']}: {left_out_sentence(left_out['n_pairs'], 'pair', left_out['why'])}"


def to_junit(checks: Sequence[Check]) -> bytes:
    """JUnit XML in UTF-8; the same checks give the same bytes.

    Each test case has its number as properties: value, or 'value at least', the ends of its interval where it has one,
    unit, and cases. A broken claim is a failure, one that is undecided an error.
    """
    verdicts = Counter(check.verdict for check in checks)
    failures, errors = str(verdicts["broken"]), str(verdicts["undecided"])
    counts = {"name": "leakmeter gate", "tests": str(len(checks)), "failures": failures, "errors": errors}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {**counts, "skipped": "0", "time": "0"})
    for check in checks:
        about = {"name": check.claim, "classname": f"leakmeter.run-{check.run}", "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", about)
        number = check.found
        values = {"value at least" if number.is_lower_bound else "value": repr(number.value)}
        if number.interval is not None:
            values |= {"low": repr(number.interval[0]), "high": repr(number.interval[1])}
        values |= {"unit": number.unit, "cases": str(number.n), "cases without": str(check.n_missing)}
        properties = ElementTree.SubElement(case, "properties")
        for name, value in values.items():
            ElementTree.SubElement(properties, "property", {"name": name, "value": value})
        if not check.holds:
            tag, type_ = ("error", "undecided") if check.undecided else ("failure", "bound")
            failure = ElementTree.SubElement(case, tag, {"type": type_, "message": check.explained})
            failure.text = f"{check.explained} {check.about}"
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'.encode()
