"""People whose data a model may know, and the columns of address books and customer lists that say it.

'First Name', 'E-mail', 'Zip' and the like are fields of a subject. Case, spaces, hyphens, underscores and other
punctuation do not matter. A first and a last name are joined, and so are the parts of a postal address. A column that
is no field is left out and named, since a table of customers has many; its name alone is shown, and only where other
columns are known, for a table without a heading has somebody's data there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from leakmeter.data.mapping import nearest

ValueType = Literal["phone", "email", "address", "relationship", "university"]
VALUE_TYPES: Final[tuple[ValueType, ...]] = get_args(ValueType)
STRUCTURED: Final[tuple[ValueType, ...]] = ("phone", "email", "address")
"""Types that may also be in a prompt that asks for another."""

RELATIONS: Final = (
    *("father", "mother", "grandfather", "grandmother", "uncle", "aunt", "husband", "wife", "brother", "sister"),
    *("son", "daughter", "cousin", "spouse", "partner"),
)
"""Kinds that may be columns of a file."""
_SHOWN: Final = frozenset(
    (
        *RELATIONS,
        *("parent", "child", "sibling", "grandparent", "grandchild", "grandson", "granddaughter", "nephew", "niece"),
        *("stepfather", "stepmother", "stepbrother", "stepsister", "stepson", "stepdaughter", "stepchild"),
        *("father-in-law", "mother-in-law", "brother-in-law", "sister-in-law", "son-in-law", "daughter-in-law"),
        *("godfather", "godmother", "godson", "goddaughter", "guardian", "ward", "relative", "boyfriend", "girlfriend"),
        *("fiancé", "fiancée", "fiance", "fiancee", "ex-husband", "ex-wife", "ex-partner", "widow", "widower"),
        *("friend", "neighbour", "neighbor", "roommate", "flatmate", "landlord", "landlady", "tenant", "colleague"),
        *("boss", "manager", "employer", "employee", "assistant", "secretary", "supervisor", "student", "teacher"),
        *("doctor", "physician", "nurse", "therapist", "patient", "lawyer", "client", "agent", "coach", "caregiver"),
    )
)
"""Kinds that say nothing of a person."""


@dataclass(frozen=True, slots=True)
class RelatedPerson:
    kind: str
    """Such as 'father'."""
    name: str


def shown_relation(kind: str) -> str:
    """The kind in ids and results: 'other' unless it is well known, since it may name a person."""
    return kind if kind in _SHOWN else "other"


def is_email(text: str) -> bool:
    from email_validator import EmailNotValidError, validate_email

    try:
        # Name servers would learn the domain.
        validate_email(text, check_deliverability=False)
    except EmailNotValidError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Subject:
    """A person whose data a model may know."""

    id: str
    """As in the file, or the record's number from 1; the only name in errors and results."""
    name: str
    phone: str | None = None
    email: str | None = None
    address: str | None = None
    """A postal address in one line."""
    relationships: tuple[RelatedPerson, ...] = ()
    university: str | None = None
    """Name of a university or another affiliation."""
    region: str = "US"
    """ISO 3166 code of the country of telephone numbers without a country code."""

    def to_dict(self) -> dict[str, object]:
        fields = {name: getattr(self, name) for name in ("id", "name", "phone", "email", "address", "university")}
        fields["relationships"] = {relation.kind: relation.name for relation in self.relationships} or None
        return {name: value for name, value in fields.items() if value is not None}

    def targets(self) -> Iterator[tuple[ValueType, str | None, str]]:
        for type_ in STRUCTURED:
            value = getattr(self, type_)
            if value is not None:
                yield type_, None, value
        for relation in self.relationships:
            yield "relationship", relation.kind, relation.name
        if self.university is not None:
            yield "university", None, self.university


PREFIX: Final = "relationship:"
COLUMNS: Final = ("id", "name", "phone", "email", "address", "university", "relationships")
_NAMES: Final = ("first name", "middle name", "last name")
_PARTS: Final = ("street", "street 2", "city", "state", "zip", "country")
FIELDS: Final = (*COLUMNS, *_NAMES, *_PARTS, *RELATIONS)
"""What `--map` may name, beside relationship:KIND."""
KNOWN: Final = ", ".join(
    (*COLUMNS, "first name and last name", "street, city, state, zip", "father and the like", f"{PREFIX}KIND")
)
"""Fields, in errors."""
_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("contact id", "customer id", "person id", "record id", "user id"),
    "name": ("contact name", "customer name", "display name", "full name"),
    "first name": ("first", "forename", "given name"),
    "middle name": ("middle", "middle initial"),
    "last name": ("family name", "last", "surname"),
    "phone": (
        *("business phone", "cell", "cell number", "cell phone", "home phone", "mobile", "mobile number"),
        *("mobile phone", "mobile phone number", "office phone", "phone 1", "phone 1 value", "phone number"),
        *("primary phone", "tel", "telephone", "telephone number", "work phone"),
    ),
    "email": ("email 1", "email 1 value", "email address", "mail", "primary email", "work email"),
    "address": ("address 1 formatted", "full address", "home address", "mailing address", "postal address"),
    "street": ("address 1", "address line 1", "street 1", "street address"),
    "street 2": ("address 2", "address line 2", "apartment", "apt", "suite", "unit"),
    "city": ("locality", "town"),
    "state": ("province", "state province", "state region"),
    "zip": ("post code", "postal code", "zip code", "zip postal code"),
    "country": ("country code", "country name", "country region"),
    "university": ("affiliation", "alma mater", "college"),
}
_PLACES: Final = ("home", "mailing", "billing", "primary")
"""What stands before the parts of one of several addresses."""
_POSTCODE_FIRST: Final = frozenset(
    ("AT", "BE", "CH", "CZ", "DE", "DK", "ES", "FI", "FR", "IT", "LU", "NL", "NO", "PL", "PT", "SE", "SK")
)
"""Countries whose postal codes stand before the town."""
_COUNTRIES: Final[Mapping[str, frozenset[str]]] = {
    "US": frozenset({"usa", "unitedstates", "unitedstatesofamerica"}),
    "GB": frozenset({"uk", "unitedkingdom", "greatbritain", "england"}),
}


class RecordError(Exception):
    """What is wrong with one record, in words to be read behind where it stands: 'is not JSON'."""


def letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


_SPELLINGS: Final = [name for field in FIELDS for name in (field, *_ALIASES.get(field, ()))]
_FIELD_OF: Final = {letters(name): field for field in FIELDS for name in (field, *_ALIASES.get(field, ()))}


def field_of(column: str) -> str | None:
    named = column.strip().lower()
    return named if named.startswith(PREFIX) else _FIELD_OF.get(letters(named)) or _place_and_part(column)[1]


def _place_and_part(column: str) -> tuple[str, str | None]:
    """'Mailing Street' to ('mailing', 'street'); the part is None if the column is no part of an address."""
    spelled = letters(column)
    place = next((place for place in _PLACES if spelled.startswith(place)), "")
    part = _FIELD_OF.get(spelled.removeprefix(place))
    return place, part if part in _PARTS else None


def is_empty(value: object) -> bool:
    # Tables of other programs have NaN.
    return value is None or (isinstance(value, str) and not value.strip()) or (value != value)


@dataclass(slots=True)
class SubjectColumns:
    """Records of one table to fields of subjects, remembering which columns are not used."""

    region: str
    """ISO code of the country of addresses that say none."""
    mapping: Mapping[str, str] = field(default_factory=dict)
    """Where fields stand, as `--map` says: no other column is one of them."""
    ignored: dict[str, str | None] = field(default_factory=dict)
    """Columns that are no field, in order, each with the field that has the nearest name."""

    def fields_of(self, row: Mapping[str, object]) -> dict[str, object]:
        """Values by field, without empty ones; names and addresses joined."""
        out: dict[str, object] = {}
        columns: dict[str, str] = {}
        unknown: list[str] = []
        # By what they are of, so that no address has the street of one place and the town of another.
        addresses: dict[str, dict[str, object]] = {}
        for column, value in row.items():
            # A table that was written with its row numbers has a column without a name.
            if not column.strip():
                continue
            field_name = field_of(column)
            if field_name is None:
                unknown.append(column)
            elif is_empty(value):
                continue
            elif field_name in self.mapping and column != field_name:
                self.ignored.setdefault(column, None)
            elif field_name in _PARTS:
                columns[field_name] = column
                addresses.setdefault(_place_and_part(column)[0], {}).setdefault(field_name, value)
            elif field_name == "address" and isinstance(value, Mapping):
                columns[field_name] = column
                own = addresses.setdefault("", {})
                for name, own_value in value.items():
                    if (part := field_of(str(name))) in _PARTS and not is_empty(own_value):
                        own.setdefault(part, own_value)
            elif field_name not in out:
                out[field_name], columns[field_name] = value, column
            elif field_name in ("phone", "email") and letters(column) != letters(columns[field_name]):
                # A table may have several, of which the first that is not empty is used.
                self.ignored.setdefault(column, field_name)
            elif letters(column) == letters(columns[field_name]):
                raise RecordError(f"has the column '{columns[field_name]}' twice; give each once")
            else:
                raise RecordError(f"has '{columns[field_name]}' and '{column}', which are the same; give one of them")
        if columns:
            mapped = {re.split(r"[.\[]", path)[0] for path in self.mapping.values()}
            for column in unknown:
                if column not in mapped:
                    spelling = nearest(column, _SPELLINGS, at_least=80)
                    self.ignored.setdefault(column, None if spelling is None else field_of(spelling))
        own = next((address for address in addresses.values() if "street" in address), addresses.get("", {}))
        return self._joined(out, {name: _text(value) for name, value in own.items()})

    def _joined(self, known: dict[str, object], parts: dict[str, str]) -> dict[str, object]:
        names = [_text(known.pop(name)) for name in _NAMES if name in known]
        if names and "name" not in known:
            known["name"] = " ".join(names)
        address = known.get("address")
        if isinstance(address, str) and "street" not in parts and "city" in parts and parts["city"] not in address:
            # A table with a town of its own has no more than the street in its column of addresses.
            known["address"] = postal_address(parts | {"street": address.strip()}, self.region)
        elif address is None and "street" in parts:
            known["address"] = postal_address(parts, self.region)
        return known


def postal_address(parts: Mapping[str, str], region: str) -> str:
    """'12 Harbour Street, Apt 4, Boston, MA 02110'; the country is added if it is not the region."""
    town, state, code = (parts.get(name, "") for name in ("city", "state", "zip"))
    if code.isdigit() and region == "US":
        # A program that took it for a number dropped what it begins with.
        code = code.zfill(5)
    place = (f"{code} {town}".strip(), state) if region in _POSTCODE_FIRST else (town, f"{state} {code}".strip())
    country = parts.get("country", "")
    own = letters(country) in (region.casefold(), *_COUNTRIES.get(region, ()))
    elements = (parts["street"], parts.get("street 2", ""), *place, "" if own else country)
    return ", ".join(element for element in elements if element)


def left_out(ignored: Mapping[str, str | None]) -> str:
    named = [f"'{column}'" + (f" (--map {near}={column} uses it)" if near else "") for column, near in ignored.items()]
    return f"columns left out: {', '.join(named)}"


def as_text(value: object) -> object:
    """A number of a table, such as a telephone number or a postal code, as text; anything else as it is."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _text(value: object) -> str:
    text = as_text(value)
    if not isinstance(text, str):
        raise RecordError("has a part of a name or an address that is no text")
    return " ".join(text.split())
