"""A query by itself, and behind each of its contexts.

start, query                         Q: Who wrote the Almanac of Tides?⏎A:
start, context, separator, query     Mara Ellsworth wrote the Almanac of Tides.⏎Q: Who wrote …?⏎A:

Each prompt is tokenised as one string, so the query's first tokens may depend on what stands before it. The papers do
not say what they put between the two; the code of Du et al. joins them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from leakmeter.core.backend import Backend, Tokenizer
from leakmeter.core.item import Prepared
from leakmeter.core.measure import Measure
from leakmeter.core.prompt import CONTEXT, FRAME, QUERY, Prompt
from leakmeter.core.record import JsonObject
from leakmeter.core.registry import Example, PlainSettings
from leakmeter.errors import UsageError, WindowError
from leakmeter.instruments.susceptibility.case import Context, Query, QueryCase
from leakmeter.instruments.susceptibility.measure import ContextSet, QueryItem
from leakmeter.overriding import override
from leakmeter.text.build import check_unicode
from leakmeter.text.joined import TextStretch, prompt_of
from leakmeter.text.templates import check_plain_or_chat, plain_or_chat, user_turn

TOGETHER: Final = 8
"""Queries that are scored together: each context that stands before all of them is run once for the eight."""
_TEXT_KEPT: Final = 300
"""Characters of a context that a run keeps, for people to tell it by: the same contexts stand before many queries."""


@dataclass(frozen=True, kw_only=True)
class QuerySettings(PlainSettings):
    """How queries are put behind contexts."""

    template: str | None = "plain"
    """plain, or chat for context and query in one user message; None for chat where the model has it."""
    separator: str = "\n"
    """What stands between a context and the query."""

    def __post_init__(self) -> None:
        check_plain_or_chat(self.template, "queries")

    def prepare(self, case: QueryCase, backend: Backend, measure: Measure) -> PreparedQuery:
        n_new = measure.max_new_tokens
        prepared = prepare_query(case, backend.tokenizer, self, window=backend.window, n_reserved=n_new)
        measure.check(prepared.item)
        return prepared


@dataclass(frozen=True, slots=True)
class PreparedQuery(Prepared):
    case: QueryCase
    separator: str

    @override
    def texts(self) -> JsonObject:
        """Known facts of the query, and the contexts: long ones are cut off.

        A context states no answer where it does not name the entity asked about, nor to a closed query, whose answer
        is 'yes' or the like.
        """
        query, known = self.case.query, self.case.known
        is_closed, entity = known.get("openness") == "closed", known.get("entity", "")
        return {
            "separator": self.separator,
            "answers": [answer.name for answer in query.answers],
            "answer": query.answer,
            "factors": known,
            "contexts": [
                {
                    **asdict(context),
                    "text": text if len(text) <= _TEXT_KEPT else f"{text[:_TEXT_KEPT].rstrip()}…",
                    "answer": None if is_closed or entity not in text else context.answer,
                }
                for context in self.case.contexts
                for text in (context.text,)
            ],
        }


def prepare_query(
    case: QueryCase, tokenizer: Tokenizer, settings: QuerySettings, *, window: int | None, n_reserved: int
) -> PreparedQuery:
    """Tokenise a query, each of its contexts, of which there may be none, and its answers as they follow it.

    An answer follows behind a space, unless the prompt ends in white space. Of an answer's forms, one that begins with
    all of another is left out: whatever is written so is counted with the other. `n_reserved` tokens are kept free for
    an answer that is still to be written.
    """
    _check_texts(case, settings)
    template = plain_or_chat(settings.template, tokenizer)
    is_chat = template == "chat"
    _, after = user_turn(tokenizer) if is_chat else ("", "")
    query = TextStretch("query", QUERY, case.query.text)
    separator = TextStretch("separator", FRAME, settings.separator, True)

    def written(*stretches: TextStretch) -> Prompt:
        return prompt_of(stretches, tokenizer, chat=is_chat)

    bare = written(query)
    prompts = tuple(
        written(TextStretch("context", CONTEXT, preceding.text), separator, query) for preceding in case.contexts
    )
    answers = _answer_ids(case, tokenizer, end=after or case.query.text)
    n_after = max([n_reserved, *(len(form) for forms in answers for form in forms)])
    _check_window(case, bare, prompts, n_after, window)
    weights = _shares([context.weight for context in case.contexts], case.id)
    item = QueryItem(
        id=case.id,
        prompt=bare,
        response=None,
        stop_ids=tokenizer.stop_ids,
        window=window,
        contexts=ContextSet(
            prompts=prompts,
            weights=weights,
            answers=answers,
        ),
    )
    return PreparedQuery(item, "", (), case.query.text, template, "context", 0, case, settings.separator)


def _shares(weights: Sequence[float], id_: str) -> tuple[float, ...]:
    total = sum(weights)
    shares = tuple(weight / total for weight in weights)
    # Where the sum is infinite, all are 0.
    if not all(shares):
        raise UsageError(
            f"case '{id_}': the weights of its contexts, {min(weights):g} to {max(weights):g}, are too large, or too "
            "far apart, to be added up; give shares, such as 0.25 and 0.75"
        )
    return shares


def _answer_ids(case: QueryCase, tokenizer: Tokenizer, *, end: str) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Token ids of each form of each answer behind a prompt with this end."""
    space = "" if end[-1].isspace() else " "
    answer_ids: list[tuple[tuple[int, ...], ...]] = []
    for number, answer in enumerate(case.query.answers, 1):
        forms = [tokenizer.encode_data(space + form, first=False).ids for form in answer.forms]
        if not forms or not all(forms):
            raise UsageError(
                f"case '{case.id}': answer {number} has no form, or one that the model's tokenizer does not know"
            )
        # Sorted, a form that begins with another stands behind it.
        kept: list[tuple[int, ...]] = []
        for form in sorted(forms):
            if not any(form[: len(other)] == other for other in kept):
                kept.append(form)
        answer_ids.append(tuple(kept))
    for i, forms_of_one in enumerate(answer_ids):
        for j, forms_of_other in enumerate(answer_ids):
            if i != j and any(longer[: len(other)] == other for longer in forms_of_one for other in forms_of_other):
                raise UsageError(
                    f"case '{case.id}': a form of answer {i + 1} begins with the tokens of one of answer {j + 1}, so "
                    "the model cannot distinguish them; give one of them another wording"
                )
    return tuple(answer_ids)


def _check_texts(case: QueryCase, settings: QuerySettings) -> None:
    texts = [
        ("query", case.query.text),
        *((f"context '{preceding.id}'", preceding.text) for preceding in case.contexts),
    ]
    for noun, text in texts:
        check_unicode(case.id, noun, text)
        if not text.strip():
            raise UsageError(f"case '{case.id}': the {noun} is empty; leave it out")
    check_unicode(case.id, "separator", settings.separator)
    for answer in case.query.answers:
        for form in answer.forms:
            check_unicode(case.id, "answer", form)
    for context in case.contexts:
        if not 0 < context.weight < float("inf"):
            raise UsageError(
                f"case '{case.id}': context '{context.id}' has weight {context.weight}; it has to be above 0"
            )


def _check_window(case: QueryCase, bare: Prompt, prompts: Sequence[Prompt], n_after: int, window: int | None) -> None:
    if window is None:
        return
    lengths = [len(prompt.ids) + n_after for prompt in (bare, *prompts)]
    n_tokens = max(lengths)
    if n_tokens > window:
        at = lengths.index(n_tokens)
        behind = f" behind context '{case.contexts[at - 1].id}'" if at else ""
        raise WindowError(
            f"case '{case.id}'{behind} needs {n_tokens:,} tokens ({bare.n_tokens(QUERY):,} of its query, {n_after} of "
            f"an answer) and {window:,} fit the model's window; give shorter texts"
        )


def example(id_: str, response: str | None) -> Example:
    texts = ("the patient writes to the clinic.", "the clinic writes back.", "the patient writes on the same day.")
    contexts = tuple(Context(f"c{i}", text) for i, text in enumerate(texts))
    return Example(QuerySettings(), QueryCase(id_, Query(id_, f"who writes to {id_}?"), contexts))
