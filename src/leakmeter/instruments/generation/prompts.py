"""Prompts to write a text like an exemplar's, one exemplar a prompt.

opening           Given a label of news type, generate the chosen type of news accordingly.
e1                ⏎⏎News Type: Sports⏎Text: Galaxy, Crew Play to 0-0 Tie …
heading, query    ⏎⏎News Type: Sports
answer            ⏎Text:

They are those of a task (`exemplars`) whose query is the label, and whose answer is the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakmeter.core import registry
from leakmeter.core.backend import Backend, Tokenizer
from leakmeter.core.item import ContextItem, Prepared
from leakmeter.core.limits import refuse_bad
from leakmeter.core.measure import Measure
from leakmeter.core.prompt import CONTEXT
from leakmeter.core.registry import PlainSettings
from leakmeter.errors import UsageError, WindowError
from leakmeter.text.build import check_unicode
from leakmeter.text.exemplars import ExemplarCase, LabelledText, Task, Writer, written
from leakmeter.text.templates import check_plain_or_chat, plain_or_chat


@dataclass(frozen=True, kw_only=True)
class GenerationSettings(PlainSettings):
    """How prompts are made; the format is that of Table 3."""

    instruction: str = "Given a label of news type, generate the chosen type of news accordingly."
    """The prompt's first lines, which are public; may be empty."""
    label_heading: str = "News Type"
    """Heading of the label, which is public too; without a label it is not there."""
    text_heading: str = "Text"
    """Heading of the text."""
    template: str | None = "plain"
    """plain, or chat for all of it in one user message; None for chat where the model has it. The paper does not say
    which it took."""

    def __post_init__(self) -> None:
        check_plain_or_chat(self.template, "exemplars")

    def prepare(self, case: ExemplarCase, backend: Backend, measure: Measure) -> Prepared:
        n_new = measure.max_new_tokens
        return prepare_generation(case, backend.tokenizer, self, window=backend.window, n_reserved=n_new)


def batches_of(
    examples: Sequence[LabelledText], size: int, *, label: str | None = None, most: int | None = None, parts: int = 1
) -> list[ExemplarCase]:
    """Cut examples into disjoint batches, in their order; what fills no batch is left out.

    An exemplar that stands in one batch alone has a part in the samples of no other: the guarantee of several batches
    together is the weakest of one. Without a label all that have none are taken. `parts` are the cases of each batch,
    which draw some of its samples each.
    """
    n = 1 if most is None else most
    refuse_bad((size >= 1, "subset-size", size, "1 or more"), (n >= 1, "batches", n, "1 or more"))
    chosen = [example for example in examples if example.label == label]
    n_batches = min(len(chosen) // size, len(chosen) if most is None else most)
    if n_batches < n:
        noun = "exemplars" if label is None else f"exemplars with label '{label}'"
        amount = f"{size:,}" if most in (None, 1) else f"{most} times {size:,}"
        raise UsageError(
            f"{amount} {noun} are needed, and there are {len(chosen):,}; give more of them, or a smaller subset-size"
        )
    return [
        ExemplarCase(
            f"batch {i + 1}{f', part {part + 1}' if parts > 1 else ''}",
            tuple(chosen[i * size : (i + 1) * size]),
            LabelledText("", (), label),
        )
        for i in range(n_batches)
        for part in range(parts)
    ]


def prepare_generation(
    case: ExemplarCase, tokenizer: Tokenizer, settings: GenerationSettings, *, window: int | None, n_reserved: int
) -> Prepared:
    """Tokenise a batch of exemplars; they are the spans, named e1, e2 and so on, and `alone` has a prompt with each.

    Exemplars have the query's label, or none as the query has none; the query has no texts. Several texts of an
    exemplar are lines of one. `n_reserved` tokens are kept free for what is to be written.
    """
    _check_texts(case)
    label = case.query.label
    query = () if label is None else (label,)
    fields = () if label is None else (("label", settings.label_heading),)
    task = Task("generation", settings.instruction, fields, settings.text_heading, ())
    template = plain_or_chat(settings.template, tokenizer)
    texts = [LabelledText(example.id, query, "\n".join(example.texts)) for example in case.exemplars]
    writer = Writer(task, texts, tokenizer, chat=template == "chat")
    parts, context, documents = written(writer, case.exemplars, [f"e{i}" for i in range(1, len(texts) + 1)], query)
    alone = parts["alone"]
    longest = max(alone, key=lambda name: len(alone[name].ids))
    n_tokens = len(alone[longest].ids) + n_reserved
    if window is not None and n_tokens > window:
        raise WindowError(
            f"case '{case.id}' needs {n_tokens:,} tokens for exemplar {longest} "
            f"({alone[longest].n_tokens(CONTEXT):,} of it, {n_reserved:,} of what is written) and {window:,} fit the "
            "model's window; give shorter texts"
        )
    item = ContextItem(id=case.id, **parts, placebos=(), response=None, stop_ids=tokenizer.stop_ids, window=window)
    return Prepared(item, context, documents, label or "", template, "exemplar", 0)


def _check_texts(case: ExemplarCase) -> None:
    if not case.exemplars:
        raise UsageError(f"case '{case.id}' has no exemplars; give at least one")
    for example in case.exemplars:
        label = f"exemplar '{example.id}'"
        if example.label != case.query.label:
            raise UsageError(
                f"case '{case.id}': the {label} has label {example.label!r}, but texts with label {case.query.label!r} "
                "are generated; exemplars of a batch share their label"
            )
        if not any(text.strip() for text in example.texts):
            raise UsageError(f"case '{case.id}': the {label} is empty; leave it out")
        for text in (*example.texts, example.label or ""):
            check_unicode(case.id, label, text)


def example(id_: str, response: str | None) -> registry.Example:
    texts = ("the patient writes to the clinic.", f"the clinic writes back to {id_}.")
    exemplars = tuple(LabelledText(f"x{i}", (text,), None) for i, text in enumerate(texts))
    case = ExemplarCase(id_, exemplars, LabelledText(id_, (), None))
    return registry.Example(GenerationSettings(), case, {"max_new_tokens": 6, "sequences": 2})
