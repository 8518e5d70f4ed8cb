"""Whether leakmeter works where it is installed: versions of libraries, and the engine against a slow way.

What is found is pasted into bug reports: no path, no name of a user or of a machine, and no message of another library
goes into it.
"""

from __future__ import annotations

import math
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from leakmeter.core.record import Record, Unbounded
from leakmeter.errors import LeakmeterError
from leakmeter.models import DEFAULT_MODEL, KNOWN_MODELS, cached_model
from leakmeter.products.doctor.probes import probes_of
from leakmeter.products.doctor.subject import CheckedModel

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

_TOY: Final = "toy"
BOUND_NATS: Final = {_TOY: 1e-9, DEFAULT_MODEL: 1e-3}
"""Largest difference of a token that passes; 5.4e-5 was the largest in the tests of the engine, in float32."""

_ADVICE: Final = "Install the versions of constraints.txt in a new environment; if that does not help, report it."


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationResult(Record):
    """Whether leakmeter works where it is installed."""

    version: str
    """Of leakmeter."""
    python: str
    system: str
    libraries: dict[str, str]
    """Version of every library that leakmeter needs, by name; 'missing' of one that is not there."""
    model: str
    """Whose log-probabilities were compared: the default model where it is on this machine, else the toy."""
    max_token_nats: Unbounded | None
    """Largest difference of a token's log-probability between the engine and the slow way; None where it failed."""
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        return not self.problems

    def to_text(self) -> str:
        """What to paste into a bug report."""
        libraries = ", ".join(f"{name} {version}" for name, version in self.libraries.items())
        gap = "not compared" if self.max_token_nats is None else f"at most {self.max_token_nats:.1g} nats apart"
        return (
            f"leakmeter {self.version}, {self.python}, {self.system}\nlibraries: {libraries}\n"
            f"log-probabilities of {self.model}, by the engine and by a plain pass: {gap}\n"
            + "".join(f"{problem}\n" for problem in self.problems)
            + ("Passed: leakmeter works here.\n" if self.is_sound else "This installation has a problem.\n")
        )


def check_installation() -> InstallationResult:
    """Check the installation: versions of libraries, and numbers of the engine.

    Returns:
        What was checked, with nothing private in it.

    Examples:
        >>> import leakmeter
        >>> leakmeter.check_installation().is_sound
        True
    """
    needed = _requirements()
    versions = {name: _version(name) for name in sorted({*needed, "tokenizers"})}
    gap, model, problems = None, _TOY, []
    for name, allowed in needed.items():
        if not allowed.contains(versions[name] or "0", prereleases=True):
            problems.append(f"{name} is {versions[name] or 'missing'}: `pip install '{name}{allowed}'`.")
    with suppress(OSError):
        model = DEFAULT_MODEL if cached_model(KNOWN_MODELS[DEFAULT_MODEL]) else _TOY
    try:
        gap = _largest_gap(model)
    except (LeakmeterError, ImportError, OSError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        problems.append(f"Log-probabilities could not be computed ({type(error).__name__}). {_ADVICE}")
    if gap is not None and not gap <= BOUND_NATS[model]:
        problems.append(
            f"Log-probabilities differ by {gap:.1g} nats; at most {BOUND_NATS[model]:g} is allowed. Numbers of this "
            f"installation are wrong. {_ADVICE}"
        )
    return InstallationResult(
        version=metadata.version("leakmeter"),
        python=f"{sys.implementation.name} {sys.version.split()[0]}",
        system=sysconfig.get_platform(),
        libraries={name: version or "missing" for name, version in versions.items()},
        model=model,
        max_token_nats=gap,
        problems=tuple(problems),
    )


def _requirements() -> dict[str, SpecifierSet]:
    from packaging.requirements import Requirement

    needed = map(Requirement, metadata.requires("leakmeter") or ())
    return {
        requirement.name: requirement.specifier
        for requirement in needed
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    }


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _largest_gap(model: str) -> float:
    """Largest difference of a token's log-probability, nats; infinite where there is NaN."""
    from leakmeter.backends.hf.plain_pass import plain_log_probs  # for the toy too: torch has to be importable
    from leakmeter.engine.loading import load_backend

    backend: Any = load_backend(model, dtype=None if model == _TOY else "float32", cache=False, notify=lambda _: None)
    case = probes_of(backend.tokenizer).case
    prompts = case.prompts[:3]  # the full one and two with a piece removed: a tree with branches, in a second or two
    slow: Any = partial(_plain_sums, backend) if model == _TOY else partial(plain_log_probs, backend.model)
    sums = np.asarray([slow(prompt, case.response) for prompt in prompts])
    gap = np.abs(CheckedModel.from_backend(backend).together(prompts, case.response) - sums)
    return float(np.where(np.isnan(gap), np.inf, gap).max())


def _plain_sums(toy: Any, prompt: Sequence[int], response: Sequence[int]) -> list[float]:
    ids = np.asarray([*prompt, *response])
    log_probs = []
    for n, token in enumerate(response, len(prompt)):
        logits = toy.logits(ids[:n], np.arange(n)).tolist()
        top = max(logits)
        log_probs.append(logits[token] - top - math.log(math.fsum(math.exp(logit - top) for logit in logits)))
    return log_probs
