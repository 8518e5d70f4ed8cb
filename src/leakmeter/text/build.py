"""A case to an item: tokenised once, cut into spans, each cut a prompt of its own."""

from __future__ import annotations

import re
import statistics
import unicodedata
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Final, Literal, get_args

from leakmeter.core.backend import Backend, Tokenizer, response_texts
from leakmeter.core.case import Case, Document, emission_texts
from leakmeter.core.item import IRRELEVANT, PLACEBO, ContextItem, Lazily, Looked, Prepared, Span
from leakmeter.core.measure import Measure
from leakmeter.core.plain import half_pair
from leakmeter.core.prompt import CONTEXT, QUERY, Piece, Prompt
from leakmeter.core.record import JsonObject
from leakmeter.core.registry import added_packs
from leakmeter.errors import UnknownNameError, UsageError, WindowError
from leakmeter.overriding import override
from leakmeter.text import controls, permissions, sensitive, spans, templates, units
from leakmeter.text.entities import FINDERS
from leakmeter.text.entities.mention import Recogniser
from leakmeter.text.irrelevant import form_of, irrelevant_text, language_of
from leakmeter.text.layout import LOOSE, Layout
from leakmeter.text.spans import Cover, Cuts

REGION: Final = "US"
Removal = Literal["drop", "mask", "retokenize"]
_KNOWN: Final = re.compile("[A-Za-z0-9]")
_FRAME_TOKENS: Final = 1_000
"""More than what a template of this house, or of a model, writes around a question."""
_TITLE_TOKENS: Final = 50
"""More than what it writes around a document, beside its name."""
_NOTHING_TO_REMOVE = (
    "nothing can be removed; mark the retrieved text with --context-from REGEX (a group of the user's "
    "turn), as a message of its own before it, of role 'tool' or with a 'name', or as 'context' in --data"
)


@dataclass(frozen=True, kw_only=True)
class PromptSettings(templates.TemplateOptions):
    """How prompts are made and cut."""

    unit: str | None = None
    """Ablation unit: auto, ngram:N, ngram:N:STRIDE, word, sentence, line, paragraph, entity, document, message or
    whole. auto, the default of influence without a search, measures documents, then the sentences of those that matter.
    Elsewhere the default is sentence, or message for chats in which nothing is marked as retrieved."""
    removal: Removal = "drop"
    """How pieces are ablated: drop cuts their tokens out, mask leaves their positions empty, retokenize renders and
    tokenises the remaining text again."""
    group: bool = False
    """Also measure each repeated value with all its mentions ablated."""
    max_context_tokens: int | None = None
    """Cut the end off a context of more tokens than this, whatever the window, and report it."""

    region: str = REGION
    """ISO code of the country whose telephone numbers, addresses and dates are expected."""
    entity_patterns: str | None = None
    """With unit entity: file of further patterns to recognise, one line TYPE = REGEX each."""
    ner: str | None = None
    """With unit entity: recogniser of names, dates and other personal data, a local directory with a model of
    transformers for token classification, or with a spaCy pipeline."""
    swap: bool = False
    """With unit entity: also replace each value by a surrogate value of the same type."""
    swap_seed: int = 0
    """Seed of the surrogate values."""
    sensitive: str | None = None
    """File of values that are personal or secret to you: a .csv table with a column for each type of value, or lines
    TYPE = REGEX."""
    allowed: str | None = None
    """File of who may know what, .toml or .csv: disclosures are then told apart by whether their recipient may know
    them."""
    pack: tuple[str, ...] | None = None
    """File of further recognisers, a TOML pack of a language or a domain; repeat for several."""

    def __post_init__(self) -> None:
        if self.removal not in get_args(Removal):
            raise UnknownNameError("removal", str(self.removal), get_args(Removal))
        if self.max_context_tokens is not None and self.max_context_tokens < 1:
            raise UsageError(f"max-context-tokens is {self.max_context_tokens}; it has to be 1 or more")
        if self.unit != "entity":
            for name in ("entity_patterns", "ner", "swap"):
                if getattr(self, name):
                    raise UsageError(f"{name.replace('_', '-')} is for personal data; give unit 'entity' with it")
        if isinstance(self.pack, str):
            raise UsageError("pack is a text; it has to be a list of files")
        if self.swap_seed < 0:
            raise UsageError(f"swap-seed is {self.swap_seed}; it has to be 0 or more")

    @property
    def libraries(self) -> tuple[str, ...]:
        return FINDERS if self.unit == "entity" else ()

    def resolved(self) -> PromptSettings:
        if self.unit is not None:
            units.parse(self.unit)
        settings = replace(self, template=templates.resolved(self.template))
        if settings.allowed is not None:
            settings = replace(settings, allowed=permissions.read(settings.allowed).text)
        if settings.sensitive is not None:
            sensitive.read(settings.sensitive)
        settings = replace(settings, pack=_packs(settings.pack) or None)
        if settings.region != REGION:
            from leakmeter.text.entities import phone

            phone.check_region(settings.region)
        if settings.unit != "entity":
            return settings
        from leakmeter.text.entities import pattern, phone

        phone.check_region(settings.region)
        return replace(settings, entity_patterns=pattern.resolved(settings.entity_patterns))

    def model_record(self) -> JsonObject:
        record: JsonObject = {}
        if self.ner is not None:
            from leakmeter.models.recogniser import recogniser_fingerprint

            record["recogniser"] = recogniser_fingerprint(self.ner)
        if self.sensitive is not None:
            record["sensitive_sha256"] = sensitive.read(self.sensitive).sha256
        return record

    def check_measure(self, measure: Measure) -> None:
        """Refuse a unit that says in which order pieces are measured, for what measures in another."""
        if self.unit == units.AUTO and not measure.documents_first:
            raise UsageError(
                f"unit '{units.AUTO}' is for influence without a search, which measures documents, then the sentences "
                "of those that matter; give another unit, such as sentence"
            )

    def with_controls(self, cases: Sequence[Case], measure: Measure) -> Sequence[Case]:
        """Each with contexts of other cases that share nothing with its answer; see `controls`."""
        if not measure.n_controls:
            return cases
        return controls.WithControls(cases, measure.n_controls, region=self.region, packs=_packs(self.pack))

    def look(self, case: Case, backend: Backend, measure: Measure) -> Looked:
        """Refuse what `prepare` would refuse of a case. Where texts alone do not show that there is
        nothing to refuse, the case's own prompt is tokenised."""
        _check_given(case, measure)
        _check_texts(case)
        settings = replace(self, unit=self.unit_of(case))
        is_drawn = case.response is None
        if _fits_surely(case, settings, backend.window, measure.max_new_tokens):
            return Looked(is_drawn=is_drawn)
        laid_out = _laid_out(case, backend.tokenizer, settings, backend.window, measure.max_new_tokens)
        if not case.has_unmarked_context:
            return Looked(is_drawn=is_drawn)
        names = tuple(document.name for document in laid_out.layout.documents)
        return Looked(names, laid_out.layout.prompt().n_tokens(QUERY), is_drawn)

    def prepare(self, case: Case, backend: Backend, measure: Measure) -> PreparedContext:
        _check_given(case, measure)
        recognise = None
        if self.ner is not None:
            from leakmeter.models.recogniser import load_recogniser

            recognise = load_recogniser(self.ner)
        self.check_measure(measure)
        default = units.AUTO if measure.documents_first else "sentence"
        return prepare(
            case,
            backend.tokenizer,
            replace(self, unit=self.unit_of(case, default)),
            window=backend.window,
            n_reserved=measure.max_new_tokens,
            recognise=recognise,
            levels=measure.levels,
            n_controls=measure.n_controls,
        )

    def unit_of(self, case: Case, default: str = "sentence") -> str:
        whole_turns = case.messages and not any(message.retrieved for message in case.messages)
        return self.unit or ("message" if whole_turns else default)


def _check_given(case: Case, measure: Measure) -> None:
    if case.response is not None and measure.samples > 1:
        raise UsageError(f"case '{case.id}' has a response, so none is drawn; leave it out, or give samples 1")


def _packs(files: Sequence[str] | None) -> tuple[str, ...]:
    """Texts of packs of the user and of other packages."""
    if not files and not added_packs():
        return ()
    from leakmeter.text.entities.packs import pack

    return pack.resolved(files or ())


@dataclass(frozen=True, slots=True)
class PreparedContext(Prepared):
    """An item of a context and a query, and the texts it came from."""

    decoding: str | None = field(default=None, kw_only=True)
    """How the response was chosen, where it was given and that is known."""
    recognised: tuple[sensitive.SensitiveRange, ...] = field(default=(), kw_only=True)
    """Where the context says what packs of the user know."""
    sensitive: tuple[sensitive.SensitiveRange, ...] | None = field(default=None, kw_only=True)
    """Where it says what a list of the user's holds; None without a list."""
    region: str = field(default=REGION, kw_only=True)
    """Of telephone numbers and dates."""
    control_words: Mapping[str, Sequence[int]] = field(default_factory=dict, kw_only=True)
    """See `controls.words_of_some`."""

    emission: JsonObject | None = field(default=None, kw_only=True)
    """See `core.case.emission_texts`."""
    permissions: permissions.Permissions | None = field(default=None, kw_only=True)
    """What decides whether the recipient may know a value; None where nobody says who may."""

    @override
    def texts(self) -> JsonObject:
        texts: JsonObject = {} if self.decoding is None else {"decoding": self.decoding}
        if self.emission is not None:
            texts["emission"] = self.emission
        if self.permissions is not None:
            texts["permissions"] = self.permissions.to_dict()
        if self.control_words:
            texts["control_words"] = {name: list(words) for name, words in self.control_words.items()}
        return {**texts, **_sensitive_texts(self.sensitive, self.recognised, self.region)}


def _sensitive_texts(
    places: Sequence[sensitive.SensitiveRange] | None, recognised: Sequence[sensitive.SensitiveRange], region: str
) -> JsonObject:
    texts: JsonObject = {} if places is None else {"sensitive": [list(place) for place in places]}
    if recognised:
        texts["recognised"] = [list(place) for place in recognised]
    return texts if region == REGION else {**texts, "region": region}


def prepare(
    case: Case,
    tokenizer: Tokenizer,
    settings: PromptSettings,
    *,
    window: int | None,
    n_reserved: int,
    recognise: Recogniser | None = None,
    levels: bool = False,
    n_controls: int = 0,
) -> PreparedContext:
    """Tokenise a case and cut it; `n_reserved` tokens of the window are kept free for a response still to be sampled.
    With `levels`, paragraphs and documents that units stand in are spans too; of unit 'auto', documents of two or more
    sentences are, where there are several. With `n_controls`, a case without controls has irrelevant texts in its
    answer's language and form instead, up to three. `WindowError` for more tokens than fit, without `truncate`."""
    _check_texts(case)
    laid_out = _laid_out(case, tokenizer, settings, window, n_reserved)
    unit, template, layout, query = laid_out.unit, laid_out.template, laid_out.layout, laid_out.query
    response, n_after, n_before = laid_out.response, laid_out.n_after, laid_out.n_before
    spare = None if window is None else window - layout.n_tokens - n_after
    bounds = tuple(
        (document.name, *chars) for document, chars in zip(layout.documents, layout.document_ranges, strict=True)
    )
    packs = _packs(settings.pack)
    if unit.kind == "entity":
        covers = spans.of_entities(
            layout, region=settings.region, patterns=settings.entity_patterns, packs=packs, recognise=recognise
        )
    else:
        covers = spans.of_units(layout, unit)
    larger = spans.around(layout, unit) if levels else []
    if unit.kind == units.AUTO:
        larger = spans.documents_of(layout, covers)
        larger += spans.of_other_fields(layout, covers, case.response or "") if case.response else []
    # An irrelevant text of another language would make any answer unlikely; without controls it is English, and numbers
    # are those of earlier versions.
    answer = case.response or layout.context
    language = language_of(answer, f"{query}\n{layout.context}") if n_controls else "en"
    item = _item(case.id, layout, covers, larger, settings, response, spare, tokenizer, window, language)
    others: tuple[Document, ...] = ()
    if n_controls:
        others = case.control_contexts or tuple(
            Document(f"{IRRELEVANT} {number}", irrelevant_text(language, form_of(answer), 2 * number - 2))
            for number in range(1, min(n_controls, 3) + 1)
        )
        item = replace(item, controls=_control_prompts(others, layout, window, n_after))
    n_cut = n_before - len(layout.tokens)
    places = None if settings.sensitive is None else tuple(sensitive.read(settings.sensitive).find(layout.context))
    policy = None if settings.allowed is None else permissions.read(settings.allowed)
    prepared = PreparedContext(
        item,
        layout.context,
        bounds,
        query,
        template,
        settings.unit_of(case),
        n_cut,
        removal=settings.removal,
        decoding=case.decoding,
        sensitive=places,
        recognised=_recognised(layout.context, packs),
        region=settings.region,
        control_words=controls.words_of_some(others, case.response),
        emission=emission_texts(case),
        permissions=permissions.permissions_of(case, policy),
    )
    return replace(prepared, item=replace(item, texts_of=partial(_texts_of, prepared, tokenizer)))


@dataclass(frozen=True, slots=True)
class _LaidOut:
    """A case's own prompt, which fits the window."""

    unit: units.Unit
    template: str
    layout: Layout
    query: str
    response: tuple[int, ...] | None
    n_after: int
    """Tokens that are kept free behind the prompt."""
    n_before: int
    """Tokens of the context before it was cut."""


def _laid_out(
    case: Case, tokenizer: Tokenizer, settings: PromptSettings, window: int | None, n_reserved: int
) -> _LaidOut:
    unit = units.parse(settings.unit_of(case))
    template, layout, query = _layout(case, tokenizer, settings, unit)
    response = _response_ids(case, layout, tokenizer)
    n_after = n_reserved if response is None else len(response)
    n_before = len(layout.tokens)
    if not n_before:
        raise UsageError(f"case '{case.id}': the model's tokenizer knows none of the context's characters")
    # A shortened text is tokenised anew, and may come out longer than what was cut.
    while settings.max_context_tokens is not None and (over := len(layout.tokens) - settings.max_context_tokens) > 0:
        layout = layout.shortened(over)
    if not layout.tokens:
        raise UsageError(f"case '{case.id}': a context cut to {settings.max_context_tokens} tokens has no text left")
    if window is not None and layout.n_tokens + n_after > window:
        layout = _fitted(case, layout, n_after, window, truncate=settings.truncate)
    return _LaidOut(unit, template, layout, query, response, n_after, n_before)


def _fits_surely(case: Case, settings: PromptSettings, window: int | None, n_reserved: int) -> bool:
    """Whether texts alone show that a case can be measured: each is there, has letters that every tokenizer knows, and
    all are far from filling the window. A chat's template may refuse it for more reasons."""
    if case.messages or settings.unit == "message" or settings.max_context_tokens is not None or not case.query.strip():
        return False
    context = [document.text for document in case.documents]
    has_response = case.response is None or _KNOWN.search(case.response)
    if not has_response or not any(map(_KNOWN.search, context)):
        return False
    if window is None:
        return True
    texts = (*context, case.query, case.response or "", settings.template or "")
    n_names = sum(_TITLE_TOKENS + 4 * len(document.name) for document in case.documents)
    n_drawn = n_reserved if case.response is None else 0
    return _FRAME_TOKENS + n_names + n_drawn + sum(map(_most_tokens, texts)) <= window


def _most_tokens(text: str) -> int:
    """More than any tokenizer makes of a text: one of each byte, also where it writes characters as others."""
    if text.isascii():
        return len(text) + 1
    return max(len(text.encode()), len(unicodedata.normalize("NFKD", text).encode())) + 1


def _texts_of(prepared: PreparedContext, tokenizer: Tokenizer, response: Sequence[int]) -> JsonObject:
    """What finds disclosures while a case is measured reads the same texts as a report does."""
    return {
        **prepared.texts(),
        "context": prepared.context,
        "query": prepared.query,
        "documents": [{"name": name, "start": start, "end": end} for name, start, end in prepared.documents],
        "spans": [asdict(span) for span in prepared.item.spans],
        "sampled": prepared.item.response is None,
        "responses": [response_texts(response, tokenizer)],
    }


def _recognised(context: str, packs: Sequence[str]) -> tuple[sensitive.SensitiveRange, ...]:
    if not packs:
        return ()
    from leakmeter.text.entities.packs import pack

    return tuple(pack.places(context, packs))


def _check_texts(case: Case) -> None:
    texts = [("query", case.query), ("response", case.response or "")]
    texts += [("context", document.text) for document in case.documents]
    texts += [(f"message '{message.name}'", part.text) for message in case.messages for part in message.parts]
    for noun, text in texts:
        check_unicode(case.id, noun, text)


def check_unicode(case_id: str, noun: str, text: str) -> None:
    """Refuse, and say where, a text that cannot be written as UTF-8."""
    if (at := half_pair(text)) is not None:
        raise UsageError(
            f"case '{case_id}': the {noun} is no valid Unicode (half a surrogate pair, or a byte that is no UTF-8) "
            f"at character {at:,}"
        )


def _layout(case: Case, tokenizer: Tokenizer, settings: PromptSettings, unit: units.Unit) -> tuple[str, Layout, str]:
    if case.messages:
        if settings.template not in (None, "chat"):
            raise UsageError("messages use the model's own chat template; leave out --template")
        if case.asking is None:
            raise UsageError(f"case '{case.id}' has no message of role 'user' that could be the query")
        writing: templates.Writing = templates.Chat(case.messages, case.asking, tokenizer, case.begun)
    else:
        if unit.kind == "message":
            raise UsageError("unit 'message' needs a chat; give --messages")
        name, text = templates.choose(settings.template, tokenizer)
        has_query = text is None or "{query}" in text
        query = case.query if has_query else ""
        if has_query and not query.strip():
            raise UsageError(f"case '{case.id}' has an empty query; give a query")
        documents = [document for document in case.documents if document.text.strip()]
        writing = (
            templates.OneTurn(documents, query, tokenizer)
            if text is None
            else templates.FilledTemplate(name, text, documents, query)
        )
    if case.messages and not writing.documents:
        raise UsageError(f"case '{case.id}' is a chat with only a query: {_NOTHING_TO_REMOVE}")
    if not any(document.text.strip() for document in writing.documents):
        raise UsageError(f"case '{case.id}' has an empty context, so there is no influence to measure")
    if case.messages and not writing.query.strip():
        raise UsageError(f"case '{case.id}' has an empty query: its last user message is empty")
    return writing.rendering, Layout(writing, tokenizer), writing.query


def _response_ids(case: Case, layout: Layout, tokenizer: Tokenizer) -> tuple[int, ...] | None:
    if case.response is None:
        return None
    if not case.response.strip():
        raise UsageError(
            f"case '{case.id}' has an empty response: leave it out, or give no responses and --samples 1 to draw them"
        )
    ids = tokenizer.encode_data(response_text(case.response, layout), first=False).ids
    if not ids:
        raise UsageError(f"case '{case.id}': the model's tokenizer knows none of the response's characters")
    return ids


def response_text(response: str, layout: Layout) -> str:
    """What is tokenised of a response: after "Answer:" it begins with the space that a model would write."""
    joined = not layout.segments[-1].text[-1].isspace() and not response[0].isspace()
    return (" " if joined else "") + response


def _fitted(case: Case, layout: Layout, n_after: int, window: int, *, truncate: bool) -> Layout:
    n_context = len(layout.tokens)
    n_asked = layout.n_tokens - n_context
    leaves_room = n_asked + n_after < window
    if leaves_room and truncate:
        fitted: Layout | None = layout
        while fitted is not None and (over := fitted.n_tokens + n_after - window) > 0:
            fitted = fitted.shortened(over) if over < len(fitted.tokens) else None
        if fitted is not None and fitted.tokens:
            return fitted
    if leaves_room and not truncate:
        advice = "shorten the context, or have its end cut off with --truncate"
    elif n_after < n_asked:
        advice = "the query, with its template, leaves no room for a context: shorten the query"
    elif case.response is None:
        advice = "the response to be sampled leaves no room for a context: give a smaller --max-new-tokens"
    else:
        advice = "the response leaves no room for a context: shorten the response"
    raise WindowError(
        f"case '{case.id}' needs {layout.n_tokens + n_after:,} tokens ({n_context:,} of context, {n_asked:,} of query "
        f"and template, {n_after:,} of response) and {window:,} fit the model's window",
        advice,
    )


def _item(
    case_id: str,
    layout: Layout,
    covers: list[Cover],
    larger: list[Cover],
    settings: PromptSettings,
    response: tuple[int, ...] | None,
    spare: int | None,
    tokenizer: Tokenizer,
    window: int | None,
    language: str,
) -> ContextItem:
    swaps: Mapping[str, Prompt] = {}
    if settings.swap:
        covers, swaps = spans.swapped(
            layout, covers, region=settings.region, seed=settings.swap_seed, case_id=case_id, spare=spare
        )
    # Of a context that is removed as a whole nothing is said elsewhere.
    values = spans.of_values(layout) if settings.group or len(covers) > 1 else []
    repeated = spans.repeated_in(layout, covers, values)
    if settings.group:
        named_values = spans.not_entities(values, [cover for cover in covers if cover.entity is not None])
        covers = covers + _named_apart(named_values, covers)
    larger = _named_apart(larger, covers)
    if settings.unit == units.AUTO and larger:
        # A document of one sentence is that sentence.
        of_documents = {cover.document for cover in larger if cover.kind == "document"}
        beside = [cover for cover in covers if cover.kind == "unit" and cover.document not in of_documents]
        whole = [cover for cover in larger if cover.kind == "document"]
        repeated_by = spans.repeated_in(layout, [*whole, *beside], values)
        repeated |= {cover.name: repeated_by[cover.name] for cover in whole}
    covers = covers + larger
    prompt = layout.prompt({edge for cover in covers for part in cover.tokens for edge in part})
    numbers = [int(piece.name[1:]) for piece in prompt.pieces if piece.name.startswith("t") and piece.role == CONTEXT]
    named = [_span(layout, numbers, cover, repeated.get(cover.name, ())) for cover in covers]
    covered = {span.name: (cover, span) for cover, span in zip(covers, named, strict=True)}
    cut = Cuts(layout, prompt, settings.removal, covered)
    placed = placebos(prompt, named, spare, tokenizer, language)
    return ContextItem(
        id=case_id,
        prompt=prompt,
        spans=tuple(named),
        cuts=Lazily(covered, lambda name: cut((name,))),
        alone=Lazily(covered, lambda name: layout.alone(covered[name][1].ranges)),
        blank=layout.blank(),
        placebos=placed,
        placebo_alone=layout.blank_with(placebo_of(placed[0])) if placed else None,
        response=response,
        stop_ids=tokenizer.stop_ids,
        swaps=swaps,
        cut_together=cut,
        window=window,
    )


def _control_prompts(
    contexts: Sequence[Document], layout: Layout, window: int | None, n_after: int
) -> dict[str, Prompt]:
    """The prompt with each control in the place of its context, cut to the context's length, and to the window."""
    n_characters, n_tokens = len(layout.context), layout.n_tokens
    prompts: dict[str, Prompt] = {}
    for control in contexts:
        text = control.text
        while text:
            other = layout.with_context(controls.shortened(text, n_characters))
            # As long as the prompt that it stands beside, so that it fits where that one does, and costs no more.
            over = other.n_tokens - (n_tokens if window is None else min(n_tokens, window - n_after))
            if over <= 0:
                prompts[control.name] = other.prompt()
                break
            text = controls.shortened(text, len(text) * max(len(other.tokens) - over, 0) // max(len(other.tokens), 1))
    return prompts


def _named_apart(new: Sequence[Cover], covers: Sequence[Cover]) -> list[Cover]:
    names = {cover.name for cover in covers}
    named: list[Cover] = []
    for added in new:
        name = added.name
        while name in names:
            name = f"{name} ({added.kind})"
        names.add(name)
        named.append(replace(added, name=name))
    return named


def _span(layout: Layout, numbers: Sequence[int], cover: Cover, repeated: tuple[str, ...]) -> Span:
    held = (numbers[bisect_left(numbers, a) : bisect_left(numbers, b)] for a, b in cover.tokens)
    pieces = tuple(dict.fromkeys(f"t{n}" for part in held for n in part))
    return Span(
        name=cover.name,
        kind=cover.kind,
        ranges=cover.chars,
        pieces=tuple(dict.fromkeys((*pieces, *layout.frames_of(cover.owners), *layout.loose_beside(cover.tokens)))),
        document=cover.document,
        n_tokens=cover.n_tokens,
        repeats=repeated,
        entity=cover.entity,
        field=cover.field,
    )


def placebos(
    prompt: Prompt, named: Sequence[Span], spare: int | None, tokenizer: Tokenizer, language: str = "en"
) -> tuple[Prompt, ...]:
    """The prompt with an irrelevant piece of a unit's median length at the start, middle and end of the context."""
    sizes = [span.n_tokens for span in named if span.kind == "unit"]
    n = max(1, round(statistics.median(sizes))) if sizes else 0
    if not n or (spare is not None and n > spare):
        return ()
    text = tokenizer.encode_data(f" {irrelevant_text(language, 'prose')}", first=False).ids
    ids = (text * (n // len(text) + 1))[:n]
    context = [i for i, p in enumerate(prompt.pieces) if p.role == CONTEXT and not p.name.startswith(("#", LOOSE))]
    middle = context[len(context) // 2]
    # Between two documents, where a piece of the first would stand.
    while middle > context[0] and prompt.pieces[middle - 1].name.startswith(LOOSE):
        middle -= 1
    places = dict.fromkeys((context[0], middle, context[-1] + 1))
    return tuple(prompt.with_inserted(at, Piece(PLACEBO, CONTEXT, ids)) for at in places)


def placebo_of(prompt: Prompt) -> Piece:
    return next(piece for piece in prompt.pieces if piece.name == PLACEBO)
