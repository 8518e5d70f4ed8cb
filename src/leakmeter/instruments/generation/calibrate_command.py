"""`leakmeter audit calibrate`: the temperature, clip or subset size that keeps a promise; nothing is loaded or run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from leakmeter.commands import output
from leakmeter.commands.options import Flag
from leakmeter.errors import UsageError
from leakmeter.privacy import calibrate as search
from leakmeter.privacy.calibrate import Free, Target, Unreachable
from leakmeter.privacy.private_voting import Adjacency, NormaliseBy, Voting
from leakmeter.privacy.rdp import promised

_ADJACENCIES: Final[tuple[Adjacency, ...]] = ("add-remove", "replace-one")
_MOST: Final = 1e9
"""Of any number that is given; beyond it, and below its inverse, a promise is no longer told from rounding."""


def calibrate(
    *,
    target_epsilon: float,
    free: Free,
    clip: float | None = None,
    subset_size: int | None = None,
    temperature: float | None = None,
    sequences: int = 50,
    max_tokens: int = 40,
    delta: float = 1e-5,
    adjacency: Adjacency = "add-remove",
    normalise_by: NormaliseBy = "fixed",
    json: Flag = False,
) -> None:
    """Find the temperature, clip or subset size at which private token generation keeps a promise.

    Nothing is loaded or run: a promise depends on these three, on how many tokens there may be, and on nothing else.

    Parameters
    ----------
    target_epsilon
        ε that may be promised at most at delta, nats, of all sequences together.
    free
        Which of the three is sought, and left out; the other two are given.
    clip
        c: a vote lies between −c and c, nats.
    subset_size
        s: how many exemplars vote on each token.
    temperature
        τ of the votes' average.
    sequences
        Sequences drawn from the same exemplars.
    max_tokens
        Most tokens of each.
    delta
        δ of the promise, above 0 and below 1.
    adjacency
        What the target is for: add-remove, an exemplar more or less; or replace-one, another in its place. Both are
        told.
    normalise_by
        What a sum of votes without an exemplar is divided by: fixed, as many as before; present, those that are left.
    json
        Print one JSON object instead.
    """
    voting = _voting(free, {"clip": clip, "subset-size": subset_size, "temperature": temperature}, normalise_by)
    given = {"target-epsilon": target_epsilon, "clip": clip, "subset-size": subset_size, "temperature": temperature}
    _check(given | {"sequences": sequences, "max-tokens": max_tokens})
    target = Target(target_epsilon, delta, sequences * max_tokens, adjacency)
    found = search.calibrate(voting, free, target)
    if isinstance(found, Unreachable):
        raise UsageError(str(found))
    settings = asdict(found.voting)
    told = {
        "free": free,
        "value": settings[free.replace("-", "_")],
        "target_epsilon": target_epsilon,
        "adjacency": adjacency,
        "delta": delta,
        **settings,
        "sequences": sequences,
        "max_tokens": max_tokens,
        "n_tokens": target.n_tokens,
        "promises": {name: _promise(found.voting, target, name) for name in _ADJACENCIES},
    }
    if json:
        output.print_json(told)
        return

    from leakmeter.instruments.generation.calibration import report
    from leakmeter.report import console

    output.console().print(console.view(report(told)))


def _voting(free: Free, given: Mapping[str, float | None], normalise_by: NormaliseBy) -> Voting:
    """The two that are given, and anything in the place of the third.

    Raises:
        UsageError: one is missing, or the free one is given.
    """
    if given[free] is not None:
        raise UsageError(f"--{free} is what --free {free} looks for; leave it out")
    missing = [f"--{name}" for name, value in given.items() if value is None and name != free]
    if missing:
        raise UsageError(f"--free {free} needs {' and '.join(missing)}; give a value")
    values: dict[str, Any] = {name.replace("-", "_"): value for name, value in given.items() if name != free}
    return Voting(**values, **{free.replace("-", "_"): 2}, normalise_by=normalise_by)


def _check(given: Mapping[str, float | None]) -> None:
    """Refuse numbers that no search can work with, and fewer than one of what is counted.

    Raises:
        UsageError: one of them.
    """
    for name, number in given.items():
        least = 1 if name in ("sequences", "max-tokens") else 1.0 / _MOST
        if number is not None and not least <= number <= _MOST:
            raise UsageError(f"{name} is {number:g}; it has to be from {least:g} to {_MOST:g}")


def _promise(voting: Voting, target: Target, adjacency: Adjacency) -> dict[str, Any]:
    sensitivity = voting.sensitivity(adjacency)
    kept = target.promised(sensitivity)
    each, most = (float(limit) for limit in promised(sensitivity, [kept.order, float("inf")]))
    return {
        "epsilon": kept.epsilon,
        "order": kept.order,
        "rdp_nats": kept.rdp,
        "rdp_per_token_nats": each,
        "max_per_token_nats": most,
        "rho": kept.rho,
        "pure_epsilon": kept.pure_epsilon,
    }
