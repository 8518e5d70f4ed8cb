"""What a back end is: one method that scores, what it can do besides (`Capabilities`), and defaults for the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from leakmeter.core.needs import ItemNeeds
from leakmeter.core.record import JsonObject
from leakmeter.core.request import DrawRequest, GradientRequest, Gradients, Request, Responses, Scores, VectorPlace
from leakmeter.core.self_check import Passes, Recomputed
from leakmeter.core.tree import Chunk, chunk_of
from leakmeter.errors import CapabilityError, UsageError

if TYPE_CHECKING:
    from leakmeter.core.cost import Sent


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids and the characters [start, end) each came from; zero-width or shared ranges are possible."""

    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]


class Tokenizer(Protocol):
    """Text to ids and back, telling data from template."""

    @property
    def start_ids(self) -> tuple[int, ...]:
        """Ids that the model expects before a plain prompt, such as BOS; may be empty."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Ids that end a response."""

    @property
    def has_chat_template(self) -> bool:
        """Whether `render_chat` works."""

    def encode_data(self, text: str, *, first: bool) -> Encoded:
        """Encode untrusted text: strings that look like special tokens stay text.

        Args:
            text: any text.
            first: whether it stands at the very start of the prompt; some tokenizers put a space there.
        """

    def encode_joined(self, parts: Sequence[tuple[str, bool]]) -> Encoded:
        """Encode a whole prompt as one string, as a server does.

        Args:
            parts: text and whether it is a template's, in order. Special tokens are special where they lie within
                template text; strings in data that look like them stay text, also where template text completes them.

        Returns:
            Ids, without start tokens but for those that the template writes, and characters of the joined text. Without
            such strings in data the ids are those of the joined text.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Ids to text, special tokens included."""

    def render_chat(self, messages: Sequence[Mapping[str, Any]], *, answer: bool) -> str:
        """Messages to the text of the model's chat template, followed by the opening of an answer if asked.

        Raises:
            UsageError: the template refuses these messages.
        """


def response_texts(ids: Sequence[int], tokenizer: Tokenizer) -> JsonObject:
    """A response's text, without what ended it, and the text that each token adds."""
    visible = ids[:-1] if ids and ids[-1] in tokenizer.stop_ids else ids
    tokens: list[str] = []
    # A character may take several tokens: it is shown at the one that completes it.
    start, shown = 0, ""
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[start:end])
        if text.endswith("�") and end < len(ids):
            tokens.append("")
            continue
        tokens.append(text[len(shown) :])
        shown = text
        if end - start > 64:
            start, shown = end - 1, tokenizer.decode(ids[end - 1 : end])
    return {"text": tokenizer.decode(visible), "tokens": tokens}


Sharing = Literal["prefixes", "sequences", "nothing"]
"""What is run once: a token of the prefix tree, a different sequence, or a prompt, however often it is asked."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do besides scoring whole prompts, as it says itself before anything is asked of it."""

    masks: bool = True
    """Whether positions of a prompt may have gaps."""
    hides_pieces: bool = False
    """Whether it can hide a piece of a prompt from the tokens behind it."""
    draws_responses: bool = False
    """Whether it draws whole responses (`draw`), where its rows do not let them be drawn here."""
    differentiates: bool = False
    """Whether it says how its distributions move with the vectors it reads (`differentiate`)."""
    is_remote: bool = False
    """Whether it is out of our hands: it may change meanwhile (`confirm`), and its noise has to be measured."""
    shares: Sharing = "nothing"
    most_rows: int | None = None
    """Rows that there is room for at a time; None for any number."""


class Backend(ABC):
    """One language model. All that it has to do is to score; what else it can, its `capabilities` say. A subclass sets
    `name`, `dtype` and `tokenizer`."""

    name: str
    """As results carry it."""
    dtype: str
    """Precision of the weights, such as 'float32'."""
    tokenizer: Tokenizer
    window: int | None = None
    """Most tokens a sequence may have, or None for no limit."""
    weights_sha256: str | None = None
    """Hash of the weights, or None where it is not known."""
    memory_bytes: int | None = None
    """Memory beside the model that it was allowed, where that moves last digits."""
    n_tokens_run: int = 0
    """Tokens put through the model so far."""
    n_halvings: int = 0
    """How often memory ran out so far, and the work went on in smaller parts."""

    @classmethod
    def named(
        cls, rest: str, *, dtype: str | None = None, device: str | None = None, memory: str | None = None
    ) -> Backend:
        """The model that `--model NAME:REST` stands for, NAME being that of the back end."""
        raise UsageError(f"{cls.__name__} makes no model of a name such as '{rest}'; make one in Python, and give that")

    @property
    def capabilities(self) -> Capabilities:
        """What it can do as it is set now."""
        return Capabilities()

    @property
    def identity(self) -> Mapping[str, str | None]:
        """Hashes of what else decides the numbers, by name: configuration, tokenizer, chat template."""
        return {}

    @property
    def device(self) -> str:
        """Where it computes."""
        return "cpu"

    @property
    def machine(self) -> JsonObject:
        """Processor and threads, where they decide last digits."""
        return {}

    @property
    def arithmetic(self) -> Mapping[str, str]:
        """What decides last digits beside the precision, in words."""
        return {}

    @property
    def passes(self) -> Passes | None:
        """How it runs sequences, where it can hold what it gave against plain passes: shared, where prompts share work;
        plain, where each is run alone and whole. None where it cannot."""
        return None

    @property
    def short_length(self) -> int | None:
        """Most tokens of a text that is computed as short ones are; None where all are computed alike, or nobody can
        tell."""
        return None

    @abstractmethod
    def score(self, chunk: Chunk) -> list[Scores]:
        """Answer every request of the chunk, in order.

        Raises:
            CapabilityError: the model cannot answer one.
            ScoreError: the model gave NaN for a request.
        """

    @property
    def refusal(self) -> Callable[[Chunk], None] | None:
        """What raises a `CapabilityError` for a chunk that could not be answered, and can be sent to another process;
        None where all that fits the window is answered."""
        return None

    def check(self, chunk: Chunk) -> None:
        """Refuse a chunk that could not be answered, before anything is scored."""
        if self.refusal is not None:
            self.refusal(chunk)

    def check_place(self, place: VectorPlace) -> None:  # noqa: B027 - where nothing is differentiated, there are no places
        """Refuse a place that the model does not have, with a `CapabilityError`."""

    def draw(self, requests: Sequence[DrawRequest]) -> list[Responses]:
        """Answer every request for whole responses, in order."""
        raise CapabilityError(f"'{self.name}' draws no whole responses; draw them token by token from its rows")

    def differentiate(self, requests: Sequence[GradientRequest], contexts: Chunk) -> list[Gradients]:
        """Answer every request for gradients, in order.

        Args:
            requests: what is asked.
            contexts: for each context of each request whose `runs_contexts` holds, in order, the tokens whose states
                are wanted; its branches say how they are found without running a token twice.

        Raises:
            CapabilityError: the model has no such place, or cannot be differentiated.
            ScoreError: the model gave NaN for a request.
        """
        raise no_gradients(self.name)

    def interruptible(self, check: Callable[[], None]) -> AbstractContextManager[None]:
        """Meanwhile `check` is called as often as the model's code allows; what it raises ends the work under way."""
        return nullcontext()

    def without_cache(self) -> AbstractContextManager[None]:
        """Meanwhile nothing is found in the score cache, and nothing is put there."""
        return nullcontext()

    # ---- held against plain passes (`core/self_check`): nothing unless `passes` says how ----

    def begin_self_check(self, seed: int) -> None:  # noqa: B027
        """From here on, remember a random sequence of the first round that is scored, and one of those after it."""

    def end_self_check(self) -> Recomputed:
        """Recompute these sequences; no rows where nothing was scored that a plain pass could give, or where there is
        no memory for one.

        Raises:
            WrongPassError: it differs by more than the precision's tolerance.
            ModelError: two plain passes of it differ by as much.
        """
        return Recomputed()

    def drop_self_check(self) -> None:  # noqa: B027
        """Remember nothing more."""

    def pass_plainly(self) -> None:
        """Use plain passes alone from here on, and forget what was kept of the others since `begin_self_check`."""
        raise CapabilityError(f"'{self.name}' has one way to run a sequence")

    # ---- a model out of our hands (`Capabilities.is_remote`) ----

    @property
    def concurrency(self) -> int:
        """Requests under way at a time, on which the noise depends."""
        return 1

    def confirm(self) -> None:  # noqa: B027 - a model here stays the one it is
        """Ask whether the model is still the one that `identity` tells.

        Raises:
            ModelError: it is another.
        """

    def measured_noise(self, items: Sequence[Any]) -> Any:
        """The noise of a log-probability: a dataclass of nats, the largest as `nats`, and the `concurrency`."""
        raise CapabilityError(f"'{self.name}' computes here, and has no noise of a server's")

    def to_be_sent(self, requests: Sequence[Request]) -> Sent:
        """What a chunk's requests have the server asked."""
        raise CapabilityError(f"'{self.name}' computes here, and sends nothing")

    def to_be_sent_beside(self, items: Sequence[Any], n_parts: int) -> Sent:
        """What a run of items in so many parts has the server asked beside them."""
        raise CapabilityError(f"'{self.name}' computes here, and sends nothing")


def check_needs(backend: Backend, needed: ItemNeeds) -> None:
    """Refuse what a back end cannot answer.

    Raises:
        CapabilityError: in one line, what cannot be had, and which model to give.
    """
    can = backend.capabilities
    if needed.gradients is not None:
        if not can.differentiates:
            raise no_gradients(backend.name)
        backend.check_place(needed.gradients.place)
    asked = needed.asked(draws=can.draws_responses, hides=can.hides_pieces)
    if backend.refusal is not None and asked:
        backend.check(chunk_of(asked))
    if needed.masks and not can.masks:
        raise no_masks(backend.name)


def no_gradients(name: str) -> CapabilityError:
    return CapabilityError(
        f"'{name}' gives no gradients, which Fisher susceptibility needs; give a model of the transformers library, or "
        "measure by Monte Carlo"
    )


def no_masks(name: str) -> CapabilityError:
    return CapabilityError(
        f"'{name}' has no explicit positions, recurrent states, or states that cannot be forked, so nothing can be "
        "masked in place; give --removal drop"
    )


class FeatureCache(Protocol):
    """Keeps arrays under keys from one run to the next; what was put in may be gone, but is never another."""

    def get(self, key: bytes) -> npt.NDArray[np.generic] | None:
        """The array put under a key, or None; not to be written to."""

    def put(self, key: bytes, array: npt.NDArray[Any]) -> None:
        """Keep an array of numbers under a key."""

    def remove(self, key: bytes) -> None:
        """Forget the array under a key, if there is one."""
