"""What programs call to see a case's tokens: `leakmeter.tokens`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from leakmeter.commands.call import CaseOptions, FunctionOptions, function_of_cases
from leakmeter.core.backend import Backend
from leakmeter.core.case import Case
from leakmeter.core.loaded import LoadedCases
from leakmeter.core.measure import Measure, Measurement
from leakmeter.core.plain import several
from leakmeter.core.request import Scores, Trial
from leakmeter.core.tree import Chunk
from leakmeter.engine.loading import tell
from leakmeter.engine.options import ModelOptions
from leakmeter.errors import CapabilityError, UsageError
from leakmeter.overriding import override
from leakmeter.text.build import PreparedContext, PromptSettings
from leakmeter.text.tokens import TokensResult, tokens_of

if TYPE_CHECKING:
    from leakmeter.core.backend import Tokenizer
    from leakmeter.engine.loading import KeptModel


class TokensOptions(FunctionOptions, PromptSettings, CaseOptions):
    without: str | Sequence[str] = ()
    skip_bad: bool = False


class TokensCall(ModelOptions, TokensOptions): ...


@function_of_cases(TokensOptions, TokensCall)
def tokens(model: KeptModel, data: Any, options: TokensOptions) -> list[TokensResult]:
    """Show the prompts that cases are measured with: the rendered text, its token ids, and the piece of each token.

    It needs the tokenizer of a model and not its weights.

    Args:
        model: as in `influence`; a served model needs `tokenizer` and is asked nothing.
        data: many cases, as in `influence`.
        context: of a single case: one text, several documents, or documents by name.
        query: what the model is asked.
        response: what it answered.
        messages: a chat instead of context and query.
        without: names of pieces, such as 's2', whose joint removal is shown.
        prompts: how prompts are made and cut, as in `influence`.
        names: what the fields of the data are called.
        how: whether cases that cannot be used are left out.

    Returns:
        The tokens of a single case; of data a list with those of each.

    Raises:
        LeakmeterError: something cannot be used as given; the message says what to do.

    Examples:
        >>> import leakmeter
        >>> one = leakmeter.tokens("toy", context="Ana is 41. She sings.", query="Who?", template="{context} {query}")
        >>> one.rendered
        'Ana is 41. She sings. Who?'
        >>> "".join(token.text for token in one.tokens if token.piece == "s2")
        ' She sings.'
    """
    prompts = options.part(PromptSettings)
    cases = options.cases(data, skip_bad=options.skip_bad)
    without = several(options.without)
    results, kept = tokenised(cases, prompts.resolved(), model.tokenizer, model=model.name, without=without)
    for line in (*kept.notes, *kept.problems[:1]):
        tell(line)
    return results


class _Tokenizing(Backend):
    """A model's tokenizer without the model."""

    dtype = "none"

    def __init__(self, name: str, tokenizer: Tokenizer) -> None:
        self.name, self.tokenizer = name, tokenizer

    @override
    def score(self, chunk: Chunk) -> list[Scores]:
        raise CapabilityError(f"of '{self.name}' only the tokenizer is loaded")


@dataclass(frozen=True)
class _AsInfluence(Measure):
    """Cases are cut as influence cuts them."""

    @property
    @override
    def documents_first(self) -> bool:
        return True

    @override
    def trial(self, item: Any) -> Trial[list[Measurement]]:
        yield []
        return []


def tokenised(
    loaded: LoadedCases[Case],
    prompts: PromptSettings,
    tokenizer: Tokenizer,
    *,
    model: str,
    without: Sequence[str] = (),
) -> tuple[list[TokensResult], LoadedCases[Case]]:
    """The tokens of cases, and those cases; `prompts` are resolved. The joint removal of the pieces in `without` is
    shown."""
    if prompts.truncate:
        raise UsageError("truncate needs the model's window, which is not loaded here; give max-context-tokens instead")
    if prompts.swap:
        raise UsageError("swap is refused here: prompts with surrogate values are not shown; leave it out")
    prepared, kept = loaded.prepared(_Tokenizing(model, tokenizer), prompts, _AsInfluence())
    return [
        tokens_of(cast("PreparedContext", prepared_case), case.response, tokenizer, model=model, without=without)
        for prepared_case, case in zip(prepared, kept.cases, strict=True)
    ], kept
