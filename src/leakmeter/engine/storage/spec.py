from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib import metadata
from typing import Final, Self

from leakmeter.core.backend import Backend
from leakmeter.core.case import control_choice
from leakmeter.core.measure import Measure
from leakmeter.core.record import JsonObject
from leakmeter.core.registry import AnyCase, Settings
from leakmeter.errors import UsageError

MOST_NAME: Final = 80
"""Characters of a run's name."""
_PLACE: Final = re.compile(r".*?, (?=(?:line|record|row) [0-9])", re.DOTALL)
"""Before a row's place, the file that it is of."""
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


def is_word(text: str) -> bool:
    """Whether a text is one word, such as a measure's name, and no sentence."""
    return _WORD.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A run: what determines its numbers, and what explains them. The former make its id."""

    measure: str
    params: JsonObject
    prompts: JsonObject
    """Unit, removal, template and the like, given and defaulted."""
    model: JsonObject
    """Name, hashes of weights, configuration, tokenizer and chat template, dtype, device and memory_bytes."""
    cases: tuple[JsonObject, ...]
    """The cases themselves: texts as they were given."""
    version: str
    """Of leakmeter."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Versions of Python and of the libraries that compute; for the reader, not part of the id."""
    command: str | None = None
    """The command line, for the reader."""
    problems: tuple[str, ...] = ()
    """Lines of the data that were left out; `left_out` is of the id."""
    name: str | None = None
    """What the user calls the run."""
    data: str | None = None
    """Files that the cases came from, as they were given, for the reader; None where they may name people."""
    left_out: str | None = None
    """SHA-256 of `problems` without names of files; None where there are none, and of runs that
    earlier versions wrote."""

    @classmethod
    def from_record(cls, record: JsonObject) -> Self:
        values = {spec_field.name: record[spec_field.name] for spec_field in fields(cls) if spec_field.name in record}
        return cls(**{**values, "cases": tuple(record["cases"]), "problems": tuple(record.get("problems", ()))})

    def deciding(self) -> JsonObject:
        record = self.record()
        for name in ("environment", "command", "problems", "name", "data"):
            del record[name]
        return record

    def record(self) -> JsonObject:
        """All fields, not copied: a run may have many cases."""
        record = {spec_field.name: getattr(self, spec_field.name) for spec_field in fields(self)}
        if self.left_out is None:
            # The id of a run without bad cases does not depend on there being such a field.
            del record["left_out"]
        return record

    @property
    def id(self) -> str:
        """'<measure>-' and 16 hexadecimal digits: equal for runs that compute the same numbers and leave out the same
        cases."""
        text = json.dumps(self.deciding(), sort_keys=True, ensure_ascii=True)
        return f"{self.measure}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def checked_name(name: str | None) -> str | None:
    """Refuses a name that is empty, longer than a line, or holds what no line can."""
    if name is not None and not (name.strip() and len(name) <= MOST_NAME and name.isprintable()):
        raise UsageError(f"a run's name is one line of 1 to {MOST_NAME} characters; give another name")
    return name


def spec_of(
    measure: Measure,
    name: str,
    settings: Settings,
    backend: Backend,
    cases: Sequence[AnyCase],
    *,
    group_size: int = 1,
    command: str | None = None,
    problems: Sequence[str] = (),
    label: str | None = None,
    data: str | None = None,
) -> RunSpec:
    """The spec of measuring these cases; more than one scored together are part of how they are prompted."""
    return RunSpec(
        measure=name,
        params=measure.record(),
        prompts={
            **asdict(settings),
            **({} if group_size == 1 else {"group_size": group_size}),
            **control_choice(cases),
        },
        model={
            "name": backend.name,
            "weights_sha256": backend.weights_sha256,
            **backend.identity,
            "dtype": backend.dtype,
            # Where a server computes, it does not say.
            "device": None if backend.dtype == "served" else backend.device,
            "memory_bytes": backend.memory_bytes,
            **backend.machine,
            **settings.model_record(),
        },
        cases=tuple(case.record() for case in cases),
        version=metadata.version("leakmeter"),
        environment={
            **libraries_of(),
            **{name: _version(name) for name in settings.libraries},
        },
        command=command,
        problems=tuple(problems),
        name=label,
        data=data,
        left_out=_hash_of(problems) if problems else None,
    )


def _hash_of(problems: Sequence[str]) -> str:
    said = [_PLACE.sub("", problem, count=1) for problem in problems]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def libraries_of() -> dict[str, str]:
    """Versions of Python and of the libraries that compute, and the kind of machine."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: _version(name) for name in ("torch", "transformers", "tokenizers", "numpy")},
    }


@cache
def _version(library: str) -> str:
    """A library's version; to parse its metadata takes a millisecond."""
    return metadata.version(library)
