"""Who may know what: rules of a file of the user's, and what they say of one value that a recipient was told.

A **policy** has rules that allow and rules that forbid, and says who recipients are and whose documents are, where the
log does not. It is data: names, in which `*` stands for any characters, and nothing else. Of a value of a document a
recipient **may know** it where a rule allows it and none forbids it; what no rule allows is not allowed. A rule asks
for facts of the recipient and of the document. Where one of these is not known, and would decide, it is not known
whether the recipient may (three-valued logic of Kleene).

A run keeps of each case its facts and the rules that may apply to it, so that a report made later says the same.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from leakmeter.core.case import Case, Channel, Recipient
from leakmeter.core.files import parsed_toml, read_text
from leakmeter.core.plain import SELDOM
from leakmeter.core.record import Record
from leakmeter.errors import DataError

MayKnow = Literal["yes", "no", "unknown"]
WORDS: Final[dict[MayKnow | None, str]] = {"yes": "yes", "no": "no", "unknown": "not known", None: ""}
"""Whether the recipient may know it, in a table."""
ORDER: Final[dict[MayKnow | None, int]] = {"no": 0, "unknown": 1, None: 1, "yes": 2}
"""What comes first in lists."""
Belonging = Literal["recipient", "tenant", "reader"]

_WHAT: Final = "file of who may know what"
_TABLES: Final = ("allow", "forbid", "recipient", "document")
_OF_RECIPIENTS: Final = ("recipient", "channel", "role", "tenant", "subject")
_OF_DOCUMENTS: Final = ("document", "owner", "tenant", "readers")
_OF_RULES: Final = ("name", "recipient", "channel", "role", "tenant", "document", "owner", "of", "kind", "field")
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "allow": _OF_RULES,
    "forbid": _OF_RULES,
    "recipient": _OF_RECIPIENTS,
    "document": _OF_DOCUMENTS,
}
_TABLE: Final = "rule"
"""Column of a .csv file that says which table a line is of."""
_DELIMITERS: Final = ",;\t"
_SEVERAL: Final = "|"
"""Between several values of a cell."""
MOST_ENTRIES: Final = 10_000
"""Rules and facts of a policy."""
_MOST_VALUES: Final = 1_000
_LONGEST: Final = 500
"""Characters of a value."""
OWN_WORDS: Final = "own words"
THE_LOG: Final = "the log"
NO_RULE: Final = "no rule"


class Decision(NamedTuple):
    """Whether a recipient may know a value, and why."""

    allowed: MayKnow
    rule: str
    """What decided: the rule's name, such as 'allow 2'; 'no rule'; 'own words' of what the recipient said; 'the log',
    where that lists what the recipient may know; or the rule and which fact is missing."""


def _any() -> Any:
    """A condition that is there only where a rule has it."""
    return dataclass_field(default=(), metadata={SELDOM: True})


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRule(Record):
    """Who may, or may not, know what; an empty condition is met by anything."""

    number: int
    """Place among the rules that allow, or among those that forbid, from 1; 0 of what the log says."""
    allows: bool
    name: str | None = dataclass_field(default=None, metadata={SELDOM: True})
    recipient: tuple[str, ...] = _any()
    channel: tuple[str, ...] = _any()
    role: tuple[str, ...] = _any()
    tenant: tuple[str, ...] = _any()
    """Of the recipient."""
    document: tuple[str, ...] = _any()
    owner: tuple[str, ...] = _any()
    """Of the document."""
    of: Belonging | None = dataclass_field(default=None, metadata={SELDOM: True})
    """Whose the document has to be: the recipient's own, or its tenant's; or that the recipient is one of its
    readers."""
    kind: tuple[str, ...] = _any()
    field: tuple[str, ...] = _any()

    @property
    def called(self) -> str:
        return self.name or called(self.number, allows=self.allows)


def called(number: int, *, allows: bool) -> str:
    """A rule without a name of its own."""
    return f"{'allow' if allows else 'forbid'} {number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientFacts(Record):
    """What is known of a recipient, by the log and by the policy; None is not known."""

    id: str | None
    channel: Channel
    roles: tuple[str, ...] | None
    tenants: tuple[str, ...] | None
    subjects: tuple[str, ...] = ()
    """Owners whose documents are the recipient's own, beside those of its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFacts(Record):
    """What is known of a document beside its name."""

    owner: str | None = None
    tenant: str | None = None
    readers: tuple[str, ...] = ()
    """Ids, roles and tenants that may read it; empty where that is not known."""
    is_own_words: bool = False
    """Whether the recipient said it, earlier in the chat."""


_NOTHING: Final = DocumentFacts()
_OF_TENANT: Final = PermissionRule(number=0, allows=True, of="tenant")


@dataclass(frozen=True, kw_only=True)
class Permissions(Record):
    """What decides of one case whether its recipient may know a value."""

    recipient: RecipientFacts
    documents: Mapping[str, DocumentFacts]
    """By name, those of which something is known."""
    rules: tuple[PermissionRule, ...]
    """Those that may apply to the recipient and one of the documents, and what the log says."""
    is_closed: bool
    """Whether what no rule allows is not allowed; else it is not known whether it is."""
    n_allow: int = 0
    """Rules of the policy that allow."""
    n_forbid: int = 0

    def may(self, document: str | None, *, kind: str | None, field: str | None = None) -> Decision:
        """Whether the recipient may know a value of a document.

        Args:
            document: its name; None where it is not known.
            kind: what the value is, such as 'phone'; None asks for the document as a whole.
            field: of a record, the path of the value's key; None elsewhere.
        """
        facts = self.documents.get(document or "", _NOTHING)
        if facts.is_own_words:
            return Decision("yes", OWN_WORDS)
        # A policy alone decides what the log's fields mean.
        by_log = None if self.n_allow or self.n_forbid else _by_log(self.recipient, facts)
        if by_log is not None and (by_log.allowed == "no" or not self.rules):
            return by_log
        allowing: PermissionRule | None = None
        unsure: Decision | None = None
        unsure_forbid: Decision | None = None
        for rule in self.rules:
            missing = self._missing(rule, document, facts, kind, field)
            if missing is None:
                continue
            if not rule.allows:
                if not missing:
                    return Decision("no", rule.called)
                unsure_forbid = unsure_forbid or _unknown(rule, missing)
            elif not missing:
                allowing = allowing or rule
            else:
                unsure = unsure or _unknown(rule, missing)
        if allowing is not None:
            return unsure_forbid or Decision("yes", allowing.called)
        if unsure is not None:
            return unsure
        if self.is_closed:
            return Decision("no", NO_RULE)
        return by_log or Decision("unknown", NO_RULE)

    def _missing(
        self, rule: PermissionRule, document: str | None, facts: DocumentFacts, kind: str | None, field: str | None
    ) -> str | None:
        """The fact without which it is not known whether a rule applies; empty where it does, None where not."""
        of_recipient, of_document = _of_recipient(rule, self.recipient), _of_document(rule, document, facts)
        of_value = (
            *_condition(rule.kind, None if kind is None else (kind.casefold(),), "kind of what is said"),
            *_condition(rule.field, None if field is None else _names_of_field(field), "field of a record"),
        )
        return _all_of((*of_recipient, *of_document, *_belonging(rule, self.recipient, facts), *of_value))


def _unknown(rule: PermissionRule, missing: str) -> Decision:
    return Decision("unknown", f"{rule.called}: {missing} not known")


_Condition = tuple[bool | None, str]
"""Whether it is met, None where that is not known, and the fact that it asks for."""


def _all_of(conditions: Iterable[_Condition]) -> str | None:
    conditions = tuple(conditions)
    if any(is_met is False for is_met, _ in conditions):
        return None
    return next((fact for is_met, fact in conditions if is_met is None), "")


def _condition(patterns: Sequence[str], values: Sequence[str] | None, fact: str) -> tuple[_Condition, ...]:
    """Whether one of some values, None where they are not known, fits one of the patterns; nothing without patterns."""
    if not patterns:
        return ()
    if values is None:
        return ((None, fact),)
    return ((any(matches(pattern, value) for pattern in patterns for value in values), fact),)


def _of_recipient(rule: PermissionRule, recipient: RecipientFacts) -> tuple[_Condition, ...]:
    return (
        *_condition(rule.channel, (recipient.channel,), "channel"),
        *_condition(rule.recipient, None if recipient.id is None else (recipient.id,), "recipient"),
        *_condition(rule.role, recipient.roles, "role of the recipient"),
        *_condition(rule.tenant, recipient.tenants, "tenant of the recipient"),
    )


def _of_document(rule: PermissionRule, document: str | None, facts: DocumentFacts) -> tuple[_Condition, ...]:
    return (
        *_condition(rule.document, None if document is None else (document,), "document"),
        *_condition(rule.owner, None if facts.owner is None else (facts.owner,), "owner of the document"),
    )


def _belonging(rule: PermissionRule, recipient: RecipientFacts, facts: DocumentFacts) -> tuple[_Condition, ...]:
    if rule.of == "tenant":
        if recipient.tenants == ():
            return ((False, ""),)
        if recipient.tenants is None:
            return ((None, "tenant of the recipient"),)
        # A tenant is a name of the log's, and no pattern.
        is_theirs = None if facts.tenant is None else facts.tenant in recipient.tenants
        return ((is_theirs, "tenant of the document"),)
    if rule.of is None:
        return ()
    if rule.of == "reader":
        return (_reading(recipient, facts),)
    if facts.owner is None:
        return ((None, "owner of the document"),)
    if facts.owner in (recipient.id, *recipient.subjects):
        return ((True, ""),)
    return ((None if recipient.id is None else False, "recipient"),)


def _reading(recipient: RecipientFacts, facts: DocumentFacts) -> _Condition:
    """Whether the recipient is among the readers of a document, by id, role or tenant."""
    if not facts.readers:
        return None, "readers of the document"
    if {recipient.id, *(recipient.roles or ()), *(recipient.tenants or ())} & {*facts.readers}:
        return True, ""
    if recipient.id is None:
        return None, "recipient"
    if recipient.roles is None or recipient.tenants is None:
        return None, f"{'role' if recipient.roles is None else 'tenant'} of the recipient"
    return False, ""


def _by_log(recipient: RecipientFacts, facts: DocumentFacts) -> Decision | None:
    """What the log itself says where there is no policy: owners may know their documents, readers what they may read,
    and a tenant what is the tenant's; None where it says nothing of a document."""
    if facts.owner is not None and facts.owner in (recipient.id, *recipient.subjects):
        return Decision("yes", THE_LOG)
    ((is_of_tenant, tenant),) = _belonging(_OF_TENANT, recipient, facts)
    if facts.readers:
        is_met, fact = _reading(recipient, facts)
        own_names = {recipient.id, *(recipient.tenants or ())}
        # A role is one of every tenant's: it opens no document of another tenant.
        if is_met and is_of_tenant is False and not own_names & {*facts.readers}:
            is_met = False
    elif facts.tenant is not None:
        is_met, fact = is_of_tenant, tenant
    else:
        return None
    if is_met is None:
        return Decision("unknown", f"{THE_LOG}: {fact} not known")
    return Decision("yes" if is_met else "no", THE_LOG)


def _log_decides(known: Recipient, documents: Iterable[DocumentFacts]) -> bool:
    """Whether the log says who was answered, and of a document who may read it, whose tenant's it is, or that it is
    about the recipient."""
    if known.id is None and known.tenant is None and not known.roles:
        return False
    own = {known.id, *known.subjects} - {None}
    return any(facts.readers or facts.tenant is not None or facts.owner in own for facts in documents)


def _names_of_field(path: str) -> tuple[str, str]:
    """A field by its path, and by its last key."""
    path = path.casefold()
    return path, path.rpartition(".")[2].partition("[")[0]


def matches(pattern: str, text: str) -> bool:
    """Whether a text is as a pattern says, in which `*` stands for any characters, and all else for itself.

    >>> matches("hr/*", "hr/112"), matches("hr/*/pay", "hr/112/pay"), matches("hr", "hr/112")
    (True, True, False)
    """
    first, *others = pattern.split("*")
    if not others:
        return pattern == text
    *middle, last = others
    at, end = len(first), len(text) - len(last)
    if at > end or not (text.startswith(first) and text.endswith(last)):
        return False
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


@dataclass(frozen=True, kw_only=True)
class Policy(Record):
    """What a file says of who may know what."""

    rules: tuple[PermissionRule, ...] = ()
    recipients: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    """Who recipients are: values by key, of those whose id is among `recipient`."""
    documents: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    """Whose documents are."""

    @property
    def n_allow(self) -> int:
        return sum(rule.allows for rule in self.rules)

    @property
    def text(self) -> str:
        """All of it, as a run keeps it; `read` takes it again."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def of_recipient(self, channel: Channel, name: str | None, known: Recipient) -> RecipientFacts:
        """What is known of a recipient, by the log and by this; `name` is that of a tool, an agent or a memory."""
        is_person = channel == "answer"
        id_ = known.id if is_person else name
        own: dict[str, list[str]] = {"role": [], "tenant": [], "subject": []}
        is_listed = False
        for entry in self.recipients:
            of_channel = entry.get("channel", ())
            if of_channel and not any(matches(pattern, channel) for pattern in of_channel):
                continue
            if id_ is not None and any(matches(pattern, id_) for pattern in entry.get("recipient", ())):
                is_listed = True
                for key, values in own.items():
                    values += entry.get(key, ())
        # A tool or an agent has no role of a person's.
        is_known = is_listed or not is_person
        log = known if is_person else Recipient()
        tenants = own["tenant"] if log.tenant is None else [log.tenant]
        roles = tuple(dict.fromkeys((*log.roles, *own["role"])))
        return RecipientFacts(
            id=id_,
            channel=channel,
            roles=roles if roles or is_known else None,
            tenants=tuple(tenants) if tenants or is_known else None,
            subjects=tuple(dict.fromkeys((*log.subjects, *own["subject"]))),
        )

    def of_document(self, name: str, known: DocumentFacts) -> DocumentFacts:
        """What is known of a document: what the log knows of it comes first."""
        owner, tenant, readers = known.owner, known.tenant, known.readers
        for entry in self.documents:
            if any(matches(pattern, name) for pattern in entry["document"]):
                owner = owner if owner is not None else next(iter(entry.get("owner", ())), None)
                tenant = tenant if tenant is not None else next(iter(entry.get("tenant", ())), None)
                readers = readers or tuple(entry.get("readers", ()))
        return replace(known, owner=owner, tenant=tenant, readers=readers)


_EMPTY: Final = Policy()


def permissions_of(case: Case, policy: Policy | None) -> Permissions | None:
    """What decides of a case what its recipient may know; None where neither a policy nor the log says anything."""
    own_words = case.own_words if case.channel == "answer" else ()
    # Parts of one document are known by the first.
    documents = {
        document.name: DocumentFacts(
            owner=document.owner,
            tenant=document.tenant,
            readers=document.readers,
            is_own_words=document.name in own_words,
        )
        for document in reversed(case.context_documents)
    }
    name = None if case.emission is None else case.emission.recipient
    return permissions_for(case.channel, name, case.recipient or Recipient(), documents, policy)


def permissions_for(
    channel: Channel,
    name: str | None,
    known: Recipient,
    documents: Mapping[str, DocumentFacts],
    policy: Policy | None,
) -> Permissions | None:
    """The same of a recipient, known by `name` where it is no person, and of documents by their names."""
    # Whom the log has as the recipient is the person who is answered, and no tool.
    told = known.lists if channel == "answer" else (None, None)
    log_decides = channel == "answer" and _log_decides(known, documents.values())
    if policy is None and told == (None, None) and not log_decides:
        return None
    held = policy or _EMPTY
    recipient = held.of_recipient(channel, name, known)
    facts = {document: held.of_document(document, of_log) for document, of_log in documents.items()}
    rules = [
        rule
        for rule in held.rules
        if _all_of(_of_recipient(rule, recipient)) is not None
        and any(
            _all_of((*_of_document(rule, name, of_name), *_belonging(rule, recipient, of_name))) is not None
            for name, of_name in facts.items()
        )
    ]
    of_log = [
        PermissionRule(number=0, allows=allows, name=THE_LOG, field=tuple(name.casefold() for name in names))
        for allows, names in zip((True, False), told, strict=True)
        if names
    ]
    return Permissions(
        recipient=recipient,
        documents={document: of_name for document, of_name in facts.items() if of_name != _NOTHING},
        rules=(*of_log, *rules),
        # Where the log lists what is allowed and what is forbidden, it says nothing of the rest.
        is_closed=policy is not None or (told[0] is not None and told[1] is None),
        n_allow=held.n_allow,
        n_forbid=len(held.rules) - held.n_allow,
    )


def read(allowed: str) -> Policy:
    """The policy of a .toml or .csv file, or of the text that a run keeps of one.

    Raises:
        DataError: it is none, or says what is not understood.
    """
    if allowed.startswith("{"):
        return _of_kept(allowed)
    return _parsed(read_text(Path(allowed), _WHAT), allowed)


@lru_cache(maxsize=4)
def _of_kept(text: str) -> Policy:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError("the policy that is kept with the run is not JSON; measure again") from None
    return Policy.from_dict(value)


@lru_cache(maxsize=4)
def _parsed(text: str, path: str) -> Policy:
    where = f"{_WHAT} '{path}'"
    entries = list(_of_csv(text, where) if Path(path).suffix.lower() == ".csv" else _of_toml(text, where))
    if len(entries) > MOST_ENTRIES:
        raise DataError(f"{where} has {len(entries):,} rules and facts; {MOST_ENTRIES:,} are read at most")
    of_tables: dict[str, list[dict[str, tuple[str, ...]]]] = {table: [] for table in _TABLES}
    for table, entry, at in entries:
        of_tables[table].append(_checked(table, entry, at))
    if not (of_tables["allow"] or of_tables["forbid"]):
        raise DataError(f"{where} has no rule; give [[allow]] tables, or lines of a table with a column '{_TABLE}'")
    rules = [
        _rule(number, values, allows=table == "allow")
        for table in ("allow", "forbid")
        for number, values in enumerate(of_tables[table], 1)
    ]
    return Policy(rules=tuple(rules), recipients=tuple(of_tables["recipient"]), documents=tuple(of_tables["document"]))


def _of_toml(text: str, where: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    for table, held in parsed_toml(text, where).items():
        if table not in _TABLES:
            raise DataError(f"{where}: there is no table '{table[:40]}'; known: {', '.join(_TABLES)}")
        if not isinstance(held, list) or not all(isinstance(entry, Mapping) for entry in held):
            raise DataError(f"{where}: '{table}' has to be written [[{table}]], a table for each rule or fact")
        for number, entry in enumerate(held, 1):
            yield table, entry, f"{where}, {table} {number}"


def _of_csv(text: str, where: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    heading = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=heading.count)
    try:
        rows = list(csv.DictReader(io.StringIO(text), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise DataError(f"{where} is not a table: {error}") from None
    for number, row in enumerate(rows, 2):
        at = f"{where}, line {number}"
        if None in row:
            raise DataError(f"{at} has more cells than there are headings")
        cells = {(key or "").strip(): (cell or "").strip() for key, cell in row.items()}
        if not any(cells.values()):
            continue
        table = cells.pop(_TABLE, "") or "allow"
        if table not in _TABLES:
            raise DataError(f"{at}: '{_TABLE}' is '{table[:40]}'; it has to be one of {', '.join(_TABLES)}")
        for key in cells:
            if key not in {*_OF_RULES, *_OF_RECIPIENTS, *_OF_DOCUMENTS}:
                known = dict.fromkeys((_TABLE, *_OF_RULES, *_OF_RECIPIENTS))
                raise DataError(f"{where}: there is no column '{key[:40]}'; known: {', '.join(known)}")
        yield table, {key: cell.split(_SEVERAL) for key, cell in cells.items() if cell}, at


def _checked(table: str, entry: Mapping[str, Any], where: str) -> dict[str, tuple[str, ...]]:
    values: dict[str, tuple[str, ...]] = {}
    for key, held in entry.items():
        if key not in _KEYS[table]:
            raise DataError(f"{where}: '{key[:40]}' is not understood; known: {', '.join(_KEYS[table])}")
        several = held if isinstance(held, list) else [held]
        texts = [str(value) if isinstance(value, int) and not isinstance(value, bool) else value for value in several]
        if not texts or not all(isinstance(value, str) and value.strip() for value in texts):
            raise DataError(f"{where}: '{key}' has to be a text, or a list of texts, none of them empty")
        if len(texts) > _MOST_VALUES or max(map(len, texts)) > _LONGEST:
            raise DataError(
                f"{where}: '{key}' has to be at most {_MOST_VALUES:,} texts of at most {_LONGEST} characters each"
            )
        values[key] = tuple(value.strip() for value in texts)
    named = table if table in ("recipient", "document") else None
    if named is not None and named not in values:
        raise DataError(f"{where}: it needs '{named}', whom or what it is about")
    for key in ("name", "of"):
        if len(values.get(key, ())) > 1:
            raise DataError(f"{where}: '{key}' has to be one text")
    if not {*values.get("of", ())} <= {*get_args(Belonging)}:
        raise DataError(f"{where}: 'of' has to be one of {', '.join(get_args(Belonging))}")
    for channel in values.get("channel", ()):
        if channel not in get_args(Channel):
            raise DataError(f"{where}: 'channel' has to be one of {', '.join(get_args(Channel))}")
    return values


def _rule(number: int, values: Mapping[str, tuple[str, ...]], *, allows: bool) -> PermissionRule:
    name, of = values.get("name", ()), values.get("of", ())
    conditions: dict[str, Any] = {key: value for key, value in values.items() if key not in ("name", "of")}
    for key in ("kind", "field"):
        conditions[key] = tuple(value.casefold() for value in values.get(key, ()))
    return PermissionRule(
        number=number,
        allows=allows,
        name=name[0] if name else None,
        of=cast(Belonging, of[0]) if of else None,
        **conditions,
    )
