"""Many short answers, each with three documents: what the command does with them, and what a plain loop does.

Ours is all that `leakmeter influence --unit document` measures of a case, one case at a time as the command does it:
the prompt and the prompt without each document, which the peers score too, and also each document alone, the bare
prompt, an irrelevant document as a placebo, and the noise. `leakmeter-same-prompts` is our engine with the peers'
prompts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks import peers
from benchmarks.base import Peer, Scenario, UnavailableError, scored
from benchmarks.vllm_engine import VllmEngine
from leakmeter.backends.hf import HfBackend
from leakmeter.core.case import Case, Document
from leakmeter.core.item import ContextItem
from leakmeter.core.loaded import LoadedCases, Plan
from leakmeter.core.prompt import Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request
from leakmeter.core.tree import chunk_of
from leakmeter.engine.ready import make_ready
from leakmeter.errors import LeakmeterError
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.result import InfluenceResult
from leakmeter.models import resolve
from leakmeter.text.build import PromptSettings

_SEED: Final = 6
_WORDS: Final = """
the a harbour ferry captain ladder orchard letter winter copper kettle garden window morning lantern cellar bridge
market stone river carried opened counted painted repaired followed found kept sold under over behind beside after
before without seven twelve forty red green quiet narrow heavy early late and but because while
"""


@dataclass(frozen=True)
class Sizes:
    """How many cases, and how long they are in tokens."""

    cases: int = 40
    documents: int = 3
    document: int = 150
    query: int = 12
    response: int = 60


_TINY: Final = Sizes(2, 3, 12, 4, 5)


def answers(backend: HfBackend, _: Path | None, tiny: bool = False) -> Scenario:
    """The scenario; its texts are words drawn at random."""
    sizes = _TINY if tiny else Sizes()
    rng = np.random.default_rng(_SEED)
    cases = [_case(backend, rng, f"c{number}", sizes) for number in range(sizes.cases)]
    settings, measure = PromptSettings(unit="document"), Influence(controls=0)
    items: list[ContextItem] = [settings.prepare(case, backend, measure).item for case in cases]
    prompts = [_of_peers(item) for item in items]
    responses = [item.response or () for item in items]

    def ours() -> np.ndarray:
        parts = list(make_ready(Plan("influence", measure, settings, LoadedCases(tuple(cases))), backend).measure())
        for _result in InfluenceResult.from_run(parts, asdict(measure)):
            pass
        rows = []
        for item, (_texts, measurements) in zip(items, parts, strict=True):
            found = {(each.statistic, each.piece): each.values for each in measurements}
            whole = found["log_prob", ""]
            rows += [whole, *(whole - found["without_this", span.name] for span in item.spans)]
        return np.concatenate(rows)

    requests = _requests(prompts, responses)
    sequences = [(prompt, response) for some, response in zip(prompts, responses, strict=True) for prompt in some]
    n_tokens = sum(len(prompt.ids) + len(response) for prompt, response in sequences)

    def peer(run: Callable[[], Sequence[np.ndarray]], n_tokens: int = n_tokens) -> Peer:
        return Peer(lambda: np.concatenate([rows.ravel() for rows in run()]), n_tokens=n_tokens)

    def padded(_: np.ndarray) -> Peer:
        pairs = list(zip(prompts, responses, strict=True))
        return peer(lambda: [peers.padded_case(backend.model, some, response) for some, response in pairs])

    def same_prompts(_: np.ndarray) -> Peer:
        return peer(lambda: [scored(backend, [request]) for request in requests], _tree_tokens(requests))

    def vllm(_: np.ndarray) -> Peer:
        try:
            directory = Path(resolve(backend.name, notify=lambda line: None, download=False).path)
        except LeakmeterError as error:
            raise UnavailableError(str(error)) from None
        engine = VllmEngine(directory, window=1 + max(len(prompt.ids) + len(y) for prompt, y in sequences))
        # All at once: that leaves it the choice of its batches.
        ids = [(prompt.ids.tolist(), list(y)) for prompt, y in sequences]
        return peer(lambda: [np.asarray(row) for row in engine.log_probs(ids)])

    n_ours = _tree_tokens(_requests([_asked(item) for item in items], responses))
    data = (
        f"random words: {sizes.cases} cases of {sizes.documents} documents of {sizes.document} tokens, answers of "
        f"{sizes.response}; ours runs {n_ours:,} tokens, and more for the noise"
    )
    others = {"padded-case": padded, "leakmeter-same-prompts": same_prompts, "vllm": vllm}
    # What the compared numbers need at least.
    return Scenario(ours, others, chunk_of(requests), data)


def _requests(prompts: Sequence[tuple[Prompt, ...]], responses: Sequence[Sequence[int]]) -> list[Request]:
    return [Request(some, tuple(y), TargetLogProbs()) for some, y in zip(prompts, responses, strict=True)]


def _tree_tokens(requests: Sequence[Request]) -> int:
    """What each request shares within itself is counted once."""
    return sum(chunk_of([request]).n_tree_tokens for request in requests)


def _of_peers(item: ContextItem) -> tuple[Prompt, ...]:
    """The prompt, and the prompt without each document."""
    return (item.prompt, *(item.cuts[span.name] for span in item.spans))


def _asked(item: ContextItem) -> tuple[Prompt, ...]:
    """What the measure scores first; for the noise it scores a little more."""
    irrelevant = [] if item.placebo_alone is None else [item.placebo_alone]
    alone = (item.alone[span.name] for span in item.spans)
    return (item.blank, *_of_peers(item), *alone, *irrelevant, *item.placebos)


def _case(backend: HfBackend, rng: np.random.Generator, id_: str, sizes: Sizes) -> Case:
    documents = tuple(Document(f"d{number}", _text(backend, rng, sizes.document)) for number in range(sizes.documents))
    query, response = (_text(backend, rng, n) for n in (sizes.query, sizes.response))
    return Case(id=id_, documents=documents, query=query, response=response)


def _text(backend: HfBackend, rng: np.random.Generator, n_tokens: int) -> str:
    """Words of as many tokens, or a few fewer."""
    words: list[str] = rng.choice(_WORDS.split(), n_tokens).tolist()

    def fits(n_words: int) -> bool:
        return len(backend.tokenizer.encode_joined([(" ".join(words[:n_words]), True)]).ids) <= n_tokens

    low, high = 1, n_tokens
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return " ".join(words[:low])
