"""What a run is of: all that determines its numbers, and what explains them."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any, Final

from leakmeter.backends.base import Backend
from leakmeter.core.case import recorded
from leakmeter.core.measure import Measure, params_of
from leakmeter.instruments.pii.probe import ProbeCase
from leakmeter.instruments.pii.prompts import ProbeSettings
from leakmeter.instruments.susceptibility.prompts import spec_of_question
from leakmeter.instruments.susceptibility.question import QuestionCase
from leakmeter.models import config_dir
from leakmeter.models.recogniser import recogniser_fingerprint
from leakmeter.runs.measure import AnyCase, Settings
from leakmeter.runs.pseudonym import pseudonym, subject_key
from leakmeter.runs.spec import RunSpec
from leakmeter.text.build import PromptSettings

_FINDERS: Final = ("phonenumbers", "pyap2", "faker")
"""Libraries that say what personal data is, and invent other."""


def spec_of(
    measure: Measure,
    name: str,
    settings: Settings,
    backend: Backend,
    device: str,
    cases: Sequence[AnyCase],
    *,
    group_size: int = 1,
    command: str | None = None,
    problems: Sequence[str] = (),
) -> RunSpec:
    """The spec of measuring these cases; more than one scored together are part of how they are prompted."""
    recogniser = settings.ner if isinstance(settings, PromptSettings) else None
    finds = isinstance(settings, ProbeSettings) or (isinstance(settings, PromptSettings) and settings.unit == "entity")
    return RunSpec(
        measure=name,
        params=params_of(measure),
        prompts=asdict(settings) if group_size == 1 else {**asdict(settings), "group_size": group_size},
        model={
            "name": backend.name,
            "weights_sha256": backend.weights_sha256,
            **backend.identity,
            "dtype": backend.dtype,
            "device": device,
            "memory_bytes": getattr(backend, "memory_bytes", None),
            **({} if recogniser is None else {"recogniser": recogniser_fingerprint(recogniser)}),
        },
        cases=tuple(_recorded(cases)),
        version=metadata.version("leakmeter"),
        environment={
            "python": platform.python_version(),
            "machine": platform.machine(),
            **{name: metadata.version(name) for name in ("torch", "transformers", "tokenizers", "numpy")},
            **{name: metadata.version(name) for name in _FINDERS if finds},
        },
        command=command,
        problems=tuple(problems),
    )


def _recorded(cases: Sequence[AnyCase]) -> Iterator[dict[str, Any]]:
    key: bytes | None = None
    for case in cases:
        if isinstance(case, QuestionCase):
            yield spec_of_question(case)
        elif isinstance(case, ProbeCase):
            key = key or subject_key(config_dir())
            yield spec_of_probe(case, key)
        else:
            yield recorded(case)


def spec_of_probe(case: ProbeCase, key: bytes) -> dict[str, Any]:
    """A case as a run's spec has it: keyed hashes stand for the person and the value, so that both can be told again.

    Args:
        case: what was asked.
        key: the user's; see `runs.pseudonym`.
    """
    person = json.dumps(asdict(case.subject), sort_keys=True)
    return {
        "id": case.id,
        "subject_hmac": pseudonym(key, "subject", person),
        "value_hmac": pseudonym(key, case.type, case.value),
        "kind": case.kind,
    }
