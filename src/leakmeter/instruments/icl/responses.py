"""Exemplars of inputs and outputs, and a free response: what influence measures, each exemplar ablated in turn.

Nothing here is a label: the loss is that of the response that was given or drawn, Σ_t of its tokens, and there is no
worst case to take a maximum over. So a case is one of `leakmeter influence`, whose context is the exemplars.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leakmeter.core.backend import Backend
from leakmeter.core.item import ContextItem
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.core.measure import Measure
from leakmeter.core.prompt import CONTEXT, QUERY, Prompt
from leakmeter.core.registry import PlainSettings
from leakmeter.data.mapping import checked_text, mapping_of
from leakmeter.data.tasks import heading_of, missing_column, read_examples
from leakmeter.errors import DataError, UsageError, WindowError
from leakmeter.instruments.icl.given import choose_queries, draw_cases, fixed_cases
from leakmeter.instruments.icl.prompts import check_exemplars
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PreparedContext, check_unicode, placebo_of, placebos
from leakmeter.text.exemplars import EXEMPLAR, ExemplarCase, LabelledText, Task, Writer, written
from leakmeter.text.templates import check_plain_or_chat, plain_or_chat


def check_either(exemplars: Any, pool: Any) -> None:
    if (exemplars is None) == (pool is None):
        raise UsageError("give either exemplars, which precede every query, or a pool to draw them from")


def response_plan(
    measure: Influence, task: Task, template: str | None,
    *,
    data: Any, exemplars: Any, pool: Any, map: Any, max_queries: int | None, shots: int, seed: int, skip_bad: bool,
) -> Plan:  # fmt: skip
    """Queries behind the exemplars, or behind some drawn for each; sources as of `data.rows.read_rows`. Exemplars are
    the same in many cases: none is held against those of others."""
    check_either(exemplars, pool)
    if measure.controls not in (0, Influence.controls):
        raise UsageError(f"controls is {measure.controls}, and exemplars are held against no others; leave it out")
    ((column, _),) = task.fields
    mapping = mapping_of(map, ("id", column, task.label_column))
    queries = free_examples(task, data, needs_output=False, mapping=mapping)
    if max_queries is not None:
        queries = choose_queries(queries, max_queries, seed)
    examples = free_examples(task, pool if exemplars is None else exemplars, needs_output=True, mapping=mapping)
    if exemplars is None:
        cases = draw_cases(examples, queries, shots=shots, seed=seed)
    else:
        cases = fixed_cases(examples, queries)
    loaded = LoadedCases(tuple(cases), skip_bad=skip_bad)
    return Plan("influence", replace(measure, controls=0), ResponseSettings(task, template), loaded)


def free_form(input_column: str, output_column: str, instruction: str | None) -> Task:
    """The task of data with a column of inputs and one of outputs, whose names are the headings of the prompt."""
    if input_column.lower() == output_column.lower():
        raise UsageError(f"column '{input_column}' cannot hold inputs and outputs; name two columns")
    fields = ((input_column.lower(), heading_of(input_column)),)
    return Task(
        "free-form",
        (instruction or "").strip(),
        fields,
        heading_of(output_column),
        (),
        label_column=output_column.lower(),
    )


def free_examples(
    task: Task, data: Any, *, needs_output: bool, mapping: Mapping[str, str] | None = None
) -> list[LabelledText]:
    """Inputs with their outputs as labels; the output of a query is its response."""
    ((column, _),), output = task.fields, task.label_column
    examples: list[LabelledText] = []
    needed = (column, output) if needs_output else (column,)
    text_field = None if needs_output else column
    for id_, fields, where in read_examples(data, None, mapping=mapping, needed=needed, text_field=text_field):
        for name in needed:
            if name not in fields:
                hint = "name the columns with --input-column and --output-column"
                raise DataError(f"{missing_column(fields, [repr(name)], where)}; {hint}")
            if not checked_text(fields[name], name, where).strip():
                raise DataError(f"{where}: '{name}' is empty")
        raw_output = fields.get(output)
        text = None if raw_output is None else checked_text(raw_output, output, where)
        examples.append(LabelledText(id_, (str(fields[column]),), text if text and text.strip() else None))
    return examples


@dataclass(frozen=True, slots=True)
class ResponseSettings(PlainSettings):
    """How prompts of exemplars and a free response are made."""

    task: Task
    template: str | None = "plain"
    """plain, or chat for all of it in one user message; None for chat where the model has it."""

    def __post_init__(self) -> None:
        check_plain_or_chat(self.template, "exemplars")

    def prepare(self, case: ExemplarCase, backend: Backend, measure: Measure) -> PreparedContext:
        """Its label is the response, None to have one drawn."""
        task, exemplars, query = self.task, case.exemplars, case.query.texts
        _check_texts(case)
        if case.query.label is not None and measure.samples > 1:
            raise UsageError(f"case '{case.id}' has a response, so none is drawn; leave it out, or give samples 1")
        tokenizer, window = backend.tokenizer, backend.window
        template = plain_or_chat(self.template, tokenizer)
        writer = Writer(task, exemplars, tokenizer, chat=template == "chat")
        response = None if case.query.label is None else writer.label_ids(case.query.label)
        if response == ():
            raise UsageError(f"case '{case.id}': the model's tokenizer knows none of the response's characters")
        parts, context, documents = written(writer, exemplars, [example.id for example in exemplars], query)
        prompt: Prompt = parts["prompt"]
        n_after = measure.max_new_tokens if response is None else len(response)
        spare = None if window is None else window - len(prompt.ids) - n_after
        if spare is not None and spare < 0:
            raise WindowError(
                f"case '{case.id}' needs {len(prompt.ids) + n_after:,} tokens ({prompt.n_tokens(CONTEXT):,} of "
                f"exemplars, {prompt.n_tokens(QUERY):,} of its query, {n_after:,} of its response) and {window:,} fit "
                "the model's window; give fewer shots or shorter texts"
            )
        placed = placebos(prompt, parts["spans"], spare, tokenizer)
        item = ContextItem(
            id=case.id,
            **parts,
            placebos=placed,
            placebo_alone=writer.prompt_around(placebo_of(placed[0]), query) if placed else None,
            response=response,
            stop_ids=tokenizer.stop_ids,
            window=window,
        )
        return PreparedContext(item, context, documents, query[0], template, EXEMPLAR, 0)


def _check_texts(case: ExemplarCase) -> None:
    check_exemplars(case)
    texts: Sequence[tuple[str, str]] = [
        ("query", case.query.texts[0]),
        ("response", case.query.label or ""),
        *(
            (f"exemplar '{exemplar.id}'", text)
            for exemplar in case.exemplars
            for text in (*exemplar.texts, exemplar.label or "")
        ),
    ]
    for noun, text in texts:
        if not text.strip() and noun != "response":
            raise UsageError(f"case '{case.id}': the {noun} is empty")
        check_unicode(case.id, noun, text)
