"""The library: people's data, and how likely a model finds each value among decoys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakmeter.commands.call import CallOptions, FunctionOptions, RowNames, function, measured
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.engine.loading import LoadOptions, tell
from leakmeter.errors import UsageError
from leakmeter.instruments.pii.canaries import FOLDER, Check, Insertion
from leakmeter.instruments.pii.measure import TOGETHER, Pii
from leakmeter.instruments.pii.probe import PROBE_KINDS, ProbeKind, ProbeTemplates, probes_of
from leakmeter.instruments.pii.prompts import ProbeSettings
from leakmeter.instruments.pii.settings import Finds, FineTuning, Scope, SoftPromptTuning

if TYPE_CHECKING:
    from leakmeter.backends.hf.backend import HfBackend
    from leakmeter.core.backend import Backend
    from leakmeter.engine.loading import KeptModel
    from leakmeter.instruments.pii.check import Checked
    from leakmeter.instruments.pii.extraction import Extracted
    from leakmeter.instruments.pii.result import PiiResult
    from leakmeter.instruments.pii.subject import ValueType
    from leakmeter.instruments.pii.subjects import Loaded
    from leakmeter.instruments.pii.tuning.soft_prompt import Tuned
    from leakmeter.results.results import Results


class PiiOptions(FunctionOptions, CallOptions, RowNames, ProbeSettings, Pii):
    kinds: Sequence[ProbeKind] = PROBE_KINDS
    templates: ProbeTemplates | None = None
    soft_prompt: str | Path | None = None  # type: ignore[assignment]  # a file here, its hash in the settings
    region: str = "US"
    beams: tuple[int, ...] = Pii.beams
    soft_tokens: int = field(default=0, init=False)


class PiiCall(LoadOptions, PiiOptions): ...


@function(PiiOptions, PiiCall)
def pii(model: KeptModel, data: Any, options: PiiOptions) -> Results[PiiResult]:
    """Score people's values with a model, and rank each value among decoys.

    Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models", Section 3; see `instruments.pii.measure`
    and `instruments.pii.result`. Scores are never kept in the score cache.

    Args:
        model: see `influence`.
        data: people: a file, a frame, records with `name` and any of `phone`, `email`, `address`, `university`,
            `relationships`, `id`, or the columns of an address book, or `Subject`s; see
            `instruments.pii.subjects.load_subjects`.
        kinds: of probes.
        templates: texts in the place of the published ones, of the kinds that are named.
        soft_prompt: file of `leakmeter pii tune`, made from other people's values.
        region: ISO 3166 code of the country that telephone numbers without a country code are of.
        measure: `beams`, widths of the beam searches that try to extract a value; none generates nothing; and
            `decoy_test`, 'full' to score all decoys of every value.
        settings: how values are asked for, and with what they are compared.
        names: what the fields of the data are called.
        how: as of `influence`. A run that is kept holds scores and keyed hashes alone, unless `keep_values` is set.

    Returns:
        A `Results`, or with `out` a `Run`, with a result for each value and kind of probe.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> people = [{"name": "Mara Ellsworth", "phone": "617-555-0134"}]
        >>> found = leakmeter.pii("toy", people, kinds=["twin"], decoys=50, prompts=1, beams=())
        >>> len(found)
        1
    """
    if data is None:
        raise UsageError("there are no subjects; give some as data, the second parameter")
    settings = replace(options.part(ProbeSettings), templates=options.templates)
    measure = replace(options.part(Pii), beams=tuple(options.beams))
    people = people_of(data, map=options.map, region=options.region, skip_bad=options.skip_bad)
    cases = tuple(probes_of(people.subjects, tuple(options.kinds)))
    if not cases:
        kinds = ", ".join(options.kinds)
        raise UsageError(f"these people have none of the values that kinds {kinds} need; give other kinds")
    with model.lock, ExitStack() as lasting:
        backend = lasting.enter_context(model.without_cache())
        if options.soft_prompt is not None:
            from leakmeter.instruments.pii.tuning.vectors import behind, reading_soft_prompt

            settings = behind(Path(options.soft_prompt), settings)
            lasting.enter_context(reading_soft_prompt(backend, Path(options.soft_prompt)))
        loaded = LoadedCases(cases, people.problems, options.skip_bad)
        return measured(model, Plan("pii", measure, settings, loaded, TOGETHER), options)


class PiiTuneOptions(FunctionOptions, RowNames, SoftPromptTuning):
    out: str | Path
    validation: Any = None
    type: ValueType = "phone"
    region: str = "US"
    skip_bad: bool = False


class PiiTuneCall(LoadOptions, PiiTuneOptions): ...


@function(PiiTuneOptions, PiiTuneCall)
def pii_tune(model: KeptModel, data: Any, options: PiiTuneOptions) -> Tuned:
    """Tune a soft prompt on some people, to probe the model for others' values (white box).

    Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models", Section 3.2. The model's weights stay as
    they are. `pii` asks for other people's values behind it.

    Args:
        model: see `influence`; one of the transformers library.
        data: people to tune on, as of `pii`; a fifth of them is kept to choose the epoch by, without `validation`.
        out: file for the soft prompt. It is private: it was made from these people's values.
        validation: other people to choose the epoch by.
        type: what is asked for: 'phone', 'email', 'address', 'relationship' or 'university'.
        region: see `pii`.
        tuning: how; see `instruments.pii.settings.SoftPromptTuning`.
        names: what the fields of the data are called.
        how: `skip_bad` leaves out records that cannot be used.

    Returns:
        The soft prompt, and what each epoch gave.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.core.files import check_outside_runs
    from leakmeter.instruments.pii.tuning.soft_prompt import examples_of, tune_into, tuned_on_and_others

    out, tuning = Path(options.out), options.part(SoftPromptTuning)
    check_outside_runs(out, "soft prompt")
    load = partial(people_of, map=options.map, region=options.region, skip_bad=options.skip_bad)
    people = load(data).subjects
    validation = None if options.validation is None else load(options.validation).subjects
    some, apart = tuned_on_and_others(people, validation, options.type, seed=tuning.seed)
    with model.lock:
        backend = weights_of(model.backend, "tune for")
        tuned_on, others = (examples_of(group, options.type, backend.tokenizer) for group in (some, apart))
        return tune_into(out, backend, tuned_on, others, tuning)


class PiiInsertOptions(FunctionOptions, FineTuning, Insertion):
    out: str | Path


class PiiInsertCall(LoadOptions, PiiInsertOptions): ...


@function(PiiInsertOptions, PiiInsertCall)
def pii_insert(model: KeptModel, data: Any, options: PiiInsertOptions) -> Path:
    """Fine-tune a copy of a model on documents of canaries (people who do not exist), and hold others out.

    With the copy a probe can be put to the test: does it tell those who were inserted from those who were not? The same
    call goes on after an interruption.

    Args:
        model: see `influence`; one of the transformers library, which stays as it is.
        data: none; canaries are invented.
        out: directory to write, which must not be there yet. It loads like any model; its folder `canaries` has a file
            for each number of documents that they stand in, and `held_out.jsonl`.
        canaries: how many, in how many documents; see `instruments.pii.canaries.Insertion`.
        fine_tuning: how; see `instruments.pii.settings.FineTuning`.

    Returns:
        The directory.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.instruments.pii.check import insert

    _refuse_data(data)
    canaries, fine_tuning, out = options.part(Insertion), options.part(FineTuning), Path(options.out)
    with model.lock:
        backend = weights_of(model.backend, "fine-tune")
        insert(canaries.groups, out, out / FOLDER, backend, fine_tuning, seed=canaries.seed)
    return out


class PiiCheckOptions(FunctionOptions, FineTuning, Check):
    out: str | Path


class PiiCheckCall(LoadOptions, PiiCheckOptions): ...


@function(PiiCheckOptions, PiiCheckCall)
def pii_check(model: KeptModel, data: Any, options: PiiCheckOptions) -> Checked:
    """Insert canaries into a copy of a model, and measure which scores separate them from others.

    Each score's AUC is the probability that one that was inserted scores above one that was not: 0.5 where a score
    tells nothing. The same call goes on after an interruption.

    Args:
        model: see `influence`; one of the transformers library, which stays as it is.
        data: none; canaries are invented.
        out: directory for the copy, the canaries and what was measured.
        check: which canaries are inserted, and how they are asked for; see `instruments.pii.canaries.Check`.
        fine_tuning: how; see `instruments.pii.settings.FineTuning`.

    Returns:
        AUC of each score, with intervals, and the points of their curves.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.
    """
    from leakmeter.instruments.pii.check import Steps, checked

    _refuse_data(data)
    with model.lock:
        backend = weights_of(model.backend, "fine-tune")
        return checked(options.part(Check), options.part(FineTuning), backend, Path(options.out), Steps())


def pii_extract(
    files: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    find: Finds = "structured",
    field: str = "text",
    region: str = "US",
    ner: str | None = None,
    qa: str | None = None,
    universities: str | Path | None = None,
    scope: Scope = "sentence",
    skip_bad: bool = False,
) -> Extracted:
    """Find people and their data in documents, and write a file that `pii` reads.

    JSON lines and plain text are read as a stream and need not fit in memory. The output is private, and is there when
    it is complete.

    Args:
        files: JSON lines, JSON, CSV, Parquet or plain text (.txt, .md), packed or not.
        out: file of people to write; a new name that ends in .jsonl.
        find: 'structured' (people of whom a document has name, telephone number, e-mail and postal address),
            'relationships', or 'universities'.
        field: of JSON objects, the one that is the text.
        region: ISO code of the country whose numbers and addresses are looked for.
        ner: recogniser of names, a directory or a spaCy pipeline; without one, names beside e-mail addresses, behind
            'Name:', and before "'s father" are found.
        qa: question-answering model, a directory or hf:ORG/NAME, that checks relatives' names.
        universities: file of names, one a line or a CSV column 'name', for universities.
        scope: where a person's name has to stand for a university to be theirs: 'sentence' or 'document'.
        skip_bad: leave out lines that hold no document, and name them in `problems`.

    Returns:
        How many people and documents, and the file.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter, tempfile
        >>> from pathlib import Path
        >>> text = "Mara Ellsworth <mara@ellsworth.example>, 617-555-0134, 12 Elm Street, Springfield, IL 62704"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     said = Path(folder, "mail.txt")
        ...     size = said.write_text(text)
        ...     found = leakmeter.pii_extract(said, out=Path(folder, "people.jsonl"))
        >>> found.n_documents
        1
    """
    from leakmeter.instruments.pii.extraction import extract, extractor_of

    listed = None if universities is None else Path(universities)
    extractor = extractor_of(find, region, ner, qa, listed, scope)
    paths = [files] if isinstance(files, str | Path) else list(files)
    return extract(paths, out, extractor, field=field, skip_bad=skip_bad)


def weights_of(backend: Backend, needed_for: str) -> HfBackend:
    from leakmeter.backends.hf.backend import HfBackend

    if not isinstance(backend, HfBackend):
        raise UsageError(f"'{backend.name}' has no weights to {needed_for}; give a model of the transformers library")
    return backend


def people_of(data: Any, *, map: str | Sequence[str] | Mapping[str, str] | None, region: str, skip_bad: bool) -> Loaded:
    """`load_subjects`, with a line on standard error that names columns left out."""
    from leakmeter.instruments.pii.subject import left_out
    from leakmeter.instruments.pii.subjects import load_subjects

    loaded = load_subjects(data, map=map, region=region, skip_bad=skip_bad)
    if loaded.ignored:
        tell(left_out(loaded.ignored))
    return loaded


def _refuse_data(data: Any) -> None:
    if data is not None:
        raise UsageError("canaries are invented, so data are not used; leave data out")
