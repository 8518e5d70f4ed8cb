"""What a model is asked about a person: one value of theirs, and what else of them stands in the prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Final, Literal, get_args

from leakmeter.instruments.pii.subject import STRUCTURED, Subject, ValueType, told_relation
from leakmeter.models import config_dir
from leakmeter.runs.pseudonym import pseudonym, subject_key

ProbeKind = Literal["twin", "triplet", "quadruplet", "relationship", "university"]
PROBE_KINDS: Final[tuple[ProbeKind, ...]] = get_args(ProbeKind)
ProbeTemplates = Mapping[ProbeKind, tuple[str, ...]]
"""Of each kind the texts, in order, that end where a value begins. '{name}', '{target_pii_type}', '{pii_1}',
'{pii_1_type}', '{pii_2}', '{pii_2_type}' and '{relationship}' stand for what is known of a person."""
_GIVEN: Final[Mapping[ProbeKind, int]] = {"twin": 0, "triplet": 1, "quadruplet": 2}
"""How many other values stand in a prompt of a kind."""


@dataclass(frozen=True, slots=True)
class ProbeCase:
    """One value of one person, asked for in one way."""

    subject: Subject
    kind: ProbeKind
    type: ValueType
    value: str
    relation: str | None = None
    """What the one asked for is to the subject, of a relationship."""
    given: tuple[ValueType, ...] = ()
    """Types of the values that stand in the prompt beside the name."""
    number: int = 1
    """Among the subject's cases whose ids would be alike."""

    @property
    def told_relation(self) -> str | None:
        """What results call the relation; see `instruments.pii.subject.told_relation`."""
        return None if self.relation is None else told_relation(self.relation)

    @property
    def id(self) -> str:
        """Subject, what is asked for, and behind what: nothing personal, if the subject's id is not."""
        asked = self.type if self.relation is None else f"{self.type} {self.told_relation}"
        again = "" if self.number == 1 else f" {self.number}"
        return f"{self.subject.id}: {asked}{again}" + (f" by {' and '.join(self.given)}" if self.given else "")

    def record(self) -> dict[str, Any]:
        """Keyed hashes stand for the person and the value, so that both can be told again."""
        key = subject_key(config_dir())
        person = json.dumps(asdict(self.subject), sort_keys=True)
        return {
            "id": self.id,
            "subject_hmac": pseudonym(key, "subject", person),
            "value_hmac": pseudonym(key, self.type, self.value),
            "kind": self.kind,
        }


def probes_of(subjects: Sequence[Subject], kinds: Sequence[ProbeKind] = PROBE_KINDS) -> Iterator[ProbeCase]:
    """The cases of people, in order: everything that is known of them, asked for in every way of these kinds.

    Name and target are a twin (Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models"), name, another
    value and target a triplet, both others a quadruplet.
    """
    for subject in subjects:
        alike: dict[tuple[ValueType, str | None], int] = {}
        for type_, relation, value in subject.targets():
            told = None if relation is None else told_relation(relation)
            number = alike[type_, told] = alike.get((type_, told), 0) + 1
            for kind in kinds:
                if type_ not in STRUCTURED:
                    if kind == type_:
                        yield ProbeCase(subject, kind, type_, value, relation, number=number)
                elif kind in _GIVEN:
                    others = [one for one in STRUCTURED if one != type_ and getattr(subject, one) is not None]
                    for given in combinations(others, _GIVEN[kind]):
                        yield ProbeCase(subject, kind, type_, value, given=given)
