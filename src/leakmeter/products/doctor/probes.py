"""What the doctor asks a model about: texts of our own, harmless to any log, as token ids of the model's tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leakmeter.backends.served import fingerprint
from leakmeter.backends.served.dialect import SequenceToScore
from leakmeter.core.backend import Tokenizer

_REPEATING: Final = ("One cup of tea, one cup of milk, one cup of tea, ", "one cup of milk, one cup of tea.")
"""Its response repeats its prompt, so that a penalty on repetition shows."""
_OPEN: Final = "A list of things that I saw on my walk today: "
"""What may come next is open, so that draws differ."""
_CONTEXT: Final = (
    "The ferry to the island leaves at 7:40 from pier 3. ",
    "Tickets are sold on board. ",
    "Bicycles travel free of charge. ",
    "The crossing takes 35 minutes. ",
    "Dogs have to be kept on a lead. ",
    "The last boat returns at 21:15. ",
)
_MORE: Final = (
    "In winter the first boat sails an hour later, since the pier has to be cleared of ice. "
    "Visitors who stay overnight find two small hotels near the harbour and a camp site behind the dunes. "
    "A bakery opens early, sells rye bread, plum cake and coffee, and closes when its shelves are empty. "
    "From the lighthouse a path leads along the cliffs to a bay where seals rest at low tide. "
    "The museum shows nets, compasses and a model of the harbour as it was a hundred years ago. "
    "On market days farmers bring cheese, honey, apples and wool from the villages inland. "
    "Whoever wants to see the stars should walk north, away from the lamps of the town. "
)
_N_SHARED: Final = 48
_N_OWN: Final = 64
_N_RESPONSE: Final = 16
_N_NOISE: Final = 6
_QUERY: Final = "\nQuestion: When does the ferry leave, and from where?\nAnswer:"
_RESPONSE: Final = " The ferry leaves at 7:40 from pier 3."


@dataclass(frozen=True, slots=True)
class AblationProbe:
    """A context in pieces, for leave-one-out."""

    prompts: tuple[tuple[int, ...], ...]
    """The full prompt, and the prompt without each piece."""
    response: tuple[int, ...]

    @property
    def n_tokens(self) -> int:
        return sum(len(prompt) + len(self.response) for prompt in self.prompts)


@dataclass(frozen=True, slots=True)
class DoctorProbes:
    scored: tuple[SequenceToScore, ...]
    """Prompts and responses; the first is that which is asked again at the end."""
    repeating: SequenceToScore
    open: tuple[int, ...]
    case: AblationProbe
    noise: tuple[SequenceToScore, ...]
    """Sequences of more than 100 tokens that begin alike: a server takes other kernels where many are computed at once,
    and keeps the states of what they share."""


def probes_of(tokenizer: Tokenizer) -> DoctorProbes:
    def ids(text: str, *, first: bool = False) -> tuple[int, ...]:
        return (*(tokenizer.start_ids if first else ()), *tokenizer.encode_data(text, first=first).ids)

    pieces = [ids(text, first=not i) for i, text in enumerate(_CONTEXT)]
    query = ids(_QUERY)
    left = [pieces, *([*pieces[:i], *pieces[i + 1 :]] for i in range(1, len(pieces)))]
    text = (*(token for piece in pieces for token in piece), *ids(_MORE))
    # Each goes on from the common beginning at another place of the text. With equal lengths one server showed no noise
    # of requests side by side, and with these 0.3 nats.
    noise = []
    for i in range(_N_NOISE):
        start = _N_SHARED + 10 * i
        end = start + _N_OWN + i
        noise.append(SequenceToScore((*text[:_N_SHARED], *text[start:end]), text[end : end + _N_RESPONSE]))
    return DoctorProbes(
        tuple(fingerprint.probes(tokenizer)),
        SequenceToScore(ids(_REPEATING[0], first=True), ids(_REPEATING[1])),
        ids(_OPEN, first=True),
        AblationProbe(tuple((*(token for piece in some for token in piece), *query) for some in left), ids(_RESPONSE)),
        tuple(noise),
    )
