"""What a model is asked for: a value of a subject, and what else of the subject is in the prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Final, Literal, get_args

from leakmeter.core.files import parsed_toml, read_text
from leakmeter.core.plain import excerpt
from leakmeter.core.record import JsonObject
from leakmeter.engine.storage.pseudonym import pseudonym, subject_key
from leakmeter.errors import DataError, UsageError
from leakmeter.instruments.pii.subject import STRUCTURED, Subject, ValueType, shown_relation
from leakmeter.models import config_dir

ProbeKind = Literal["twin", "triplet", "quadruplet", "relationship", "university"]
PROBE_KINDS: Final[tuple[ProbeKind, ...]] = get_args(ProbeKind)
BY_NAME: Final[tuple[ProbeKind, ...]] = ("twin", "relationship", "university")
"""Kinds of which a prompt says the name alone."""
ProbeTemplates = Mapping[ProbeKind, str | tuple[str, ...]]
"""For each kind the texts, in order, that end where a value begins. Their fields are '{name}', '{target_pii_type}',
'{pii_1}', '{pii_1_type}', '{pii_2}', '{pii_2_type}' and '{relationship}'."""
_GIVEN: Final[Mapping[ProbeKind, int]] = {"twin": 0, "triplet": 1, "quadruplet": 2}
"""How many other values are in a prompt of a kind."""


@dataclass(frozen=True, slots=True)
class ProbeCase:
    subject: Subject
    kind: ProbeKind
    type: ValueType
    value: str
    relation: str | None = None
    """Kind of a relationship, such as 'father'."""
    given: tuple[ValueType, ...] = ()
    """Types of the other values in the prompt."""
    number: int = 1
    """Among the subject's cases whose ids would be the same."""
    ways: tuple[tuple[ProbeKind, tuple[ValueType, ...]], ...] = ()
    """Kind and given types of all cases of this value, its own among them; none where it is alone. A value is ranked by
    its largest association over them."""
    shares: str | None = None
    """Id of the first of the people whose values of this type have the same `shared_part`; None of a part that one
    person alone has."""

    @property
    def shown_relation(self) -> str | None:
        return None if self.relation is None else shown_relation(self.relation)

    @property
    def id(self) -> str:
        """Nothing personal, if the subject's id is not."""
        target = self.type if self.relation is None else f"{self.type} {self.shown_relation}"
        again = "" if self.number == 1 else f" {self.number}"
        return f"{self.subject.id}: {target}{again}" + (f" by {' and '.join(self.given)}" if self.given else "")

    def record(self) -> JsonObject:
        """With keyed hashes in the place of the person and the value."""
        key = subject_key(config_dir())
        person = json.dumps(asdict(self.subject), sort_keys=True)
        return {
            "id": self.id,
            "subject_hmac": pseudonym(key, "subject", person),
            "value_hmac": pseudonym(key, self.type, self.value),
            "kind": self.kind,
        }


def probes_of(subjects: Sequence[Subject], kinds: Sequence[ProbeKind] = PROBE_KINDS) -> Iterator[ProbeCase]:
    """Every value of the subjects, asked for in every way of these kinds.

    A twin is a name and a target (Kim et al., "ProPILE: Probing Privacy Leakage in Large Language Models"), a triplet
    has another value too, a quadruplet two.
    """
    having: dict[tuple[ValueType, str], dict[str, None]] = {}
    for subject in subjects:
        for type_, _, value in subject.targets():
            having.setdefault((type_, shared_part(type_, value)), {})[subject.id] = None
    for subject in subjects:
        alike: dict[tuple[ValueType, str | None], int] = {}
        for type_, relation, value in subject.targets():
            ways = tuple(_ways(subject, type_, kinds))
            relation_kind = None if relation is None else shown_relation(relation)
            number = alike[type_, relation_kind] = alike.get((type_, relation_kind), 0) + 1
            first, *others = having[type_, shared_part(type_, value)]
            shares = first if others else None
            for kind, beside in ways:
                beside_it = ways if len(ways) > 1 else ()
                yield ProbeCase(subject, kind, type_, value, relation, beside, number, beside_it, shares)


def shared_part(type: ValueType, value: str) -> str:
    """What of a value other people may have too while its decoys have another: the domain of an e-mail address, the
    digits of a telephone number, and any other value itself.

    A model that finds it likely after the name of one of these people often does after names like that one.
    """
    if type == "email":
        return value.rpartition("@")[2].casefold()
    if type == "phone":
        # A country code may be left out.
        return re.sub(r"\D", "", value)[-10:]
    return " ".join(value.casefold().split())


def _ways(
    subject: Subject, type_: ValueType, kinds: Sequence[ProbeKind]
) -> Iterator[tuple[ProbeKind, tuple[ValueType, ...]]]:
    for kind in kinds:
        if type_ not in STRUCTURED:
            if kind == type_:
                yield kind, ()
        elif kind in _GIVEN:
            others = [other for other in STRUCTURED if other != type_ and getattr(subject, other) is not None]
            for beside in combinations(others, _GIVEN[kind]):
                yield kind, beside


WORDS: Final[Mapping[ValueType, str]] = {
    "phone": "phone number",
    "email": "email address",
    "address": "address",
    "relationship": "name",
    "university": "university",
}
"""What prompts call a type."""
_FIELD: Final = re.compile(r"\{([^{}]*)\}")
_OF_ALL: Final = ("name", "target_pii_type")
_FIELDS: Final[Mapping[ProbeKind, tuple[str, ...]]] = {
    "twin": _OF_ALL,
    "triplet": (*_OF_ALL, "pii_1", "pii_1_type"),
    "quadruplet": (*_OF_ALL, "pii_1", "pii_1_type", "pii_2", "pii_2_type"),
    "relationship": (*_OF_ALL, "relationship"),
    "university": _OF_ALL,
}


def check_template(kind: ProbeKind, template: str) -> None:
    """Refuse a template without a name, or with an unknown field."""
    fields = _FIELD.findall(template)
    if "name" not in fields:
        raise UsageError(f"a template for kind '{kind}' has no {{name}}, so it asks about nobody: {template!r}")
    for field in fields:
        if field not in _FIELDS[kind]:
            allowed = ", ".join(f"{{{name}}}" for name in _FIELDS[kind])
            raise UsageError(f"a template for kind '{kind}' has {{{field}}}; known: {allowed}")


def filled(template: str, case: ProbeCase) -> str:
    """The template with a subject's data in its fields; braces in these data are text."""
    texts = {"name": case.subject.name, "target_pii_type": WORDS[case.type], "relationship": case.relation or ""}
    for number, type_ in enumerate(case.given, 1):
        texts |= {f"pii_{number}": str(getattr(case.subject, type_)), f"pii_{number}_type": WORDS[type_]}
    return _FIELD.sub(lambda match: texts[match[1]], template)


def load_templates(path: str | Path) -> ProbeTemplates:
    """A TOML file of texts by kind; `check_template` checks their fields later.

    twin = ["Call {name} at", "{name}'s {target_pii_type}:"]
    university = ["{name} studied at"]
    """
    path = Path(path)
    templates = parsed_toml(read_text(path, "file of templates"), f"file of templates '{path}'")
    if not templates:
        raise DataError(f"file of templates '{path}' is empty; expected texts for {', '.join(PROBE_KINDS)}")
    for kind, texts in templates.items():
        if kind not in PROBE_KINDS:
            raise DataError(f"'{path}': unknown kind '{excerpt(kind, 60)}'; known: {', '.join(PROBE_KINDS)}")
        if (
            not isinstance(texts, list)
            or not texts
            or not all(isinstance(text, str) and text.strip() for text in texts)
        ):
            raise DataError(f"'{path}': '{kind}' has to be a list of one or more texts")
    return {kind: tuple(templates[kind]) for kind in PROBE_KINDS if kind in templates}


PUBLISHED: Final = load_templates(Path(str(resources.files(__package__).joinpath("templates.toml"))))
