"""`leakmeter.doctor`: makes the checks one after another, and finds which fault explains an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from leakmeter.backends.served import names_a_server
from leakmeter.backends.served.connection import StatusError
from leakmeter.backends.served.dialect import AnswerError
from leakmeter.backends.served.fingerprint import fingerprint
from leakmeter.core.backend import Backend
from leakmeter.core.record import JsonObject
from leakmeter.engine.loading import load, refuse_local, tell
from leakmeter.engine.options import ModelOptions, as_argument
from leakmeter.errors import LeakmeterError, ScoreError, UsageError, as_keyword, options_named
from leakmeter.models import DEFAULT_MODEL
from leakmeter.products.doctor.checks import CHECKS, DoctorFinding, Examined, bad
from leakmeter.products.doctor.probes import probes_of
from leakmeter.products.doctor.report import FAULTS, fault_of_status, first_sentence
from leakmeter.products.doctor.result import DoctorCheck, DoctorResult
from leakmeter.products.doctor.subject import CheckedModel

_PATIENCE: Final = 20.0
"""Seconds that a request waits for a server that is busy; a run waits longer."""


def doctor(model: Any = DEFAULT_MODEL, *, against: Any = None, **options: Any) -> DoctorResult:
    """Examine whether the numbers of a model, served or in this process, are what measurements take them for.

    It sends a few hundred short texts of its own, and nobody's data.

    Args:
        model: as in `influence`: a name, a path, 'vllm:http://…#NAME', a back end, or a pair (model, tokenizer).
        against: local weights to compare a served model with; a name, a path, or a pair.
        options: how the model is loaded; see `load_backend`.

    Returns:
        The checks, what they say together (`verdict`), and whether a measurement would be right (`is_sound`).

    Raises:
        LeakmeterError: there is no such model, or the server does not answer at all.

    Examples:
        >>> import leakmeter
        >>> found = leakmeter.doctor("toy")
        >>> found.is_sound, found.noise.floor_nats
        (True, 0.0)
    """
    with options_named(lambda name, value: as_keyword(name, value) if name == "against" else as_argument(name, value)):
        return examined(model, against=against, **options)


def examined(
    model: Any,
    *,
    against: Any = None,
    on_check: Callable[[str], None] = lambda name: None,
    on_loaded: Callable[[CheckedModel], None] = lambda subject: None,
    notify: Callable[[str], None] = tell,
    **options: Any,
) -> DoctorResult:
    """As `doctor`, with errors that name options as a command does; `on_check` gets the name of each check before it is
    made, and `on_loaded` the model before that."""
    loading = ModelOptions.named({"cache": False, **options})
    is_named = isinstance(model, str | Path)
    name = str(model) if is_named else model.name if isinstance(model, Backend) else type(model).__name__
    is_served = is_named and names_a_server(name)
    try:
        backend = _served(name, loading, notify) if is_served else load(model, loading, notify)
    except (ScoreError, StatusError) as error:
        # Where nobody answers, or asks for a key, there is nothing to be examined.
        if isinstance(error, StatusError) and fault_of_status(error.status, error.fault) in (None, "unreachable"):
            raise
        findings: dict[int, DoctorFinding] = {}
        _put(findings, _ROWS, error)
        return _result(name, name.partition(":")[0], findings, None, None)
    other = None if against is None else _local(against)
    subject = CheckedModel.from_backend(backend)
    on_loaded(subject)
    return examine(subject, name, against=other, on_check=on_check)


def _served(name: str, options: ModelOptions, notify: Callable[[str], None]) -> Backend:
    from leakmeter.backends.served.load import load_served

    refuse_local(options)
    return load_served(
        name,
        tokenizer=options.tokenizer,
        allow_remote=options.allow_remote,
        concurrency=options.concurrency,
        patience=_PATIENCE,
        checked=False,
        notify=notify,
    )


def _local(model: Any) -> CheckedModel:
    """A model in this process, in the precision that others are compared with."""
    if not isinstance(model, str | Path):
        return CheckedModel.from_backend(load(model, ModelOptions(cache=False)))
    name = str(model)
    if names_a_server(name):
        raise UsageError("--against names local weights: hf:PATH, a known name, a directory or a .gguf file")
    if Path(name.removeprefix("hf:")).is_dir():
        name = name.removeprefix("hf:")
    backend = load(name, ModelOptions(dtype=None if name == "toy" else "float32", cache=False))
    return replace(CheckedModel.from_backend(backend), name=str(model))


_ROWS, _IDS, _PLACES, _WHOLE, _STEADY = 1, 2, 3, 4, 10
_UNANSWERED: Final = ("busy", "cut", "slow", "unreachable")
_HOME: Final = {
    "above_zero": _WHOLE,
    "another_model": _STEADY,
    "few_top": _WHOLE,
    "nan": _WHOLE,
    "no_ids": _IDS,
    "not_normalised": _WHOLE,
    "other_ids": _IDS,
    "other_places": _PLACES,
    "part_of_vocabulary": _WHOLE,
    "start_token": _IDS,
    **dict.fromkeys(_UNANSWERED, _STEADY),
}
"""The check to which a fault belongs; that which finds it where it is not named."""
_OF_ROWS: Final = ("few_top", "not_normalised", "part_of_vocabulary")
"""Faults of a request for rows; others would befall any further request too."""


def examine(
    subject: CheckedModel,
    model: str,
    *,
    against: CheckedModel | None = None,
    on_check: Callable[[str], None] = lambda name: None,
) -> DoctorResult:
    """Make all checks; compare with the model `against`, in this process. `on_check` gets the name of each check before
    it is made."""
    examined = Examined(subject, probes_of(subject.tokenizer), against)
    findings: dict[int, DoctorFinding] = {}
    if not subject.dialect.abilities().targets:
        findings[_ROWS] = DoctorFinding(
            "The server returns no log-probabilities of given tokens. Only labels and sampling can be measured.",
            "note",
            "no_rows",
            FAULTS["no_rows"][1],
        )
        return _result(model, subject.dialect.name, findings, examined, None)
    sha256: str | None = None
    try:
        examined.first = examined.first_probe()
        sha256 = fingerprint(subject.dialect, subject.tokenizer).sha256
        for number, name, check in CHECKS:
            on_check(name)
            _make(number, check, examined, findings)
    except LeakmeterError as error:
        _put(findings, _ROWS, error)
    if _STEADY in findings and findings[_STEADY].fault == "changed":
        # What does not fit together then is of two models.
        findings = {
            number: finding for number, finding in findings.items() if finding.status != "failed" or number == _STEADY
        }
    _tell_repeated(examined, findings)
    return _result(model, subject.dialect.name, findings, examined, sha256)


def _make(
    number: int, check: Callable[[Examined], DoctorFinding], examined: Examined, findings: dict[int, DoctorFinding]
) -> None:
    try:
        findings[number] = check(examined)
    except LeakmeterError as error:
        if isinstance(error, StatusError) or (isinstance(error, AnswerError) and error.fault not in _OF_ROWS):
            raise
        _put(findings, number, error)


def _put(findings: dict[int, DoctorFinding], number: int, error: LeakmeterError) -> None:
    fault: str | None = None
    seen = ""
    if isinstance(error, AnswerError):
        fault, seen = error.fault, error.seen
    elif isinstance(error, StatusError):
        fault = fault_of_status(error.status, error.fault)
    findings[_HOME.get(fault or "", number)] = bad(fault, seen) if fault else DoctorFinding(str(error), "failed")


def _tell_repeated(examined: Examined, findings: dict[int, DoctorFinding]) -> None:
    """Note why requests had to be repeated, where all were answered in the end."""
    connection = examined.subject.connection
    if connection is None or not connection.faults or (_STEADY in findings and findings[_STEADY].status == "failed"):
        return
    ((did, _),) = connection.faults.most_common(1)
    fault = fault_of_status(0, did) or "unreachable"
    sentence, todo = FAULTS[fault]
    n_all = connection.faults.total()
    times = "once" if n_all == 1 else f"{n_all} times"
    findings[_STEADY] = DoctorFinding(
        f"{sentence} Requests were repeated {times} and then answered.", "note", fault, todo
    )


def _result(
    model: str, dialect: str, findings: dict[int, DoctorFinding], examined: Examined | None, sha256: str | None
) -> DoctorResult:
    checks = []
    for number, name, _ in sorted(CHECKS):
        finding = findings.get(number, DoctorFinding("Not examined: see the failed checks.", "skipped"))
        status, fault, advice = finding.status, finding.fault, finding.advice
        checks.append(
            DoctorCheck(number=number, name=name, status=status, fault=fault, found=finding.sentence, advice=advice)
        )
    failed = [check for check in checks if check.status == "failed"]
    known: JsonObject = dict.fromkeys(("served_model", "revision", "server_version", "window", "settings"))
    known |= dict.fromkeys(("noise", "uses_prefix_cache", "against", "speed"))
    if examined is not None:
        subject, served = examined.subject, examined.subject.served
        known = {
            "served_model": served.model,
            "revision": served.revision,
            "server_version": served.server_version,
            "window": served.window,
            "settings": None if subject.settings is None else dict(subject.settings),
            "noise": examined.noise,
            "uses_prefix_cache": examined.uses_prefix_cache,
            "against": examined.compared,
            "speed": examined.speed,
        }
    return DoctorResult(
        model=model,
        dialect=dialect,
        fingerprint=sha256,
        is_sound=not failed,
        verdict=_verdict(failed, examined),
        checks=tuple(checks),
        **known,
    )


def _verdict(failed: Sequence[DoctorCheck], examined: Examined | None) -> str:
    if failed:
        would = "not finished" if failed[0].fault in _UNANSWERED else "be wrong"
        n = len(failed) - 1
        further = f" {n} further check{'s fail' if n > 1 else ' fails'}." if n else ""
        return f"A measurement with this model would {would}: {_lower(first_sentence(failed[0].found))}{further}"
    if examined is None or examined.noise is None:
        return "This model can measure labels and sampling, but not given responses."
    floor = examined.noise.floor_nats
    sentence = f"Passed: log-probabilities are raw, at the right positions, and repeat within {floor:.2g} nats a token."
    if examined.compared and examined.compared.max_token_nats > max(1e-3, floor):
        sentence += (
            f" The model differs from the local weights by up to {examined.compared.max_token_nats:.2g} nats a token."
        )
    return sentence


def _lower(text: str) -> str:
    return text if text[1:2].isupper() else f"{text[:1].lower()}{text[1:]}"
