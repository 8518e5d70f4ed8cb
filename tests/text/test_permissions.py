"""Who may know what: files of rules, names with stars, and what is decided where something is not known."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from leakmeter.core.case import Case, Channel, Document, Emission, Message, Recipient
from leakmeter.core.own_words import has_block
from leakmeter.errors import DataError
from leakmeter.text import permissions
from leakmeter.text.permissions import Decision, Permissions, Policy, matches, permissions_of

TOML = """
[[recipient]]
recipient = "ana"
role = "nurse"
tenant = ["ward-3", "ward-4"]
subject = "patient-17"

[[document]]
document = "notes/ward-3/*"
tenant = "ward-3"

[[allow]]
name = "own ward"
of = "tenant"

[[allow]]
document = ["leaflets/*", "hours"]

[[allow]]
of = "recipient"

[[forbid]]
role = "nurse"
kind = ["account", "salary"]
"""
CSV = """rule,recipient,role,tenant,subject,document,of,kind,name
recipient,ana,nurse,ward-3|ward-4,patient-17,,,,
document,,,ward-3,,notes/ward-3/*,,,
allow,,,,,,tenant,,own ward

allow,,,,,leaflets/*|hours,,,
,,,,,,recipient,,
forbid,,nurse,,,,,account|salary,
"""


def policy(text: str, folder: Path, suffix: str = ".toml") -> Policy:
    file = folder / f"policy{suffix}"
    file.write_text(text, encoding="utf-8")
    return permissions.read(str(file))


def of_case(
    policy: Policy | None, *documents: Document, recipient: Recipient | None = None, **more: Any
) -> Permissions:
    found = permissions_of(Case("1", documents, "Who?", "Ann", recipient=recipient, **more), policy)
    assert found is not None
    return found


def doc(name: str, **whose: str) -> Document:
    return Document(name, "text", **whose)


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("hr/1", "hr/1", True), ("hr/1", "hr/12", False), ("hr/*", "hr/", True), ("*", "", True), ("*", "any", True),
        ("a*b*c", "a-b-b-c", True), ("a*b*c", "acb", False), ("*.md", "x.md", True), ("ab*ba", "aba", False),
        ("hr/[12]", "hr/1", False), ("h?/1", "hr/1", False), ("h?/1", "h?/1", True), ("HR/*", "hr/1", False),
        ("**", "x", True), ("a.c", "abc", False),
    ],
)  # fmt: skip
def test_a_star_stands_for_any_characters_and_all_else_for_itself(pattern: str, text: str, fits: bool) -> None:
    assert matches(pattern, text) is fits


def test_a_table_and_a_toml_file_say_the_same(tmp_path: Path) -> None:
    of_toml = policy(TOML, tmp_path)
    assert policy(CSV, tmp_path, ".csv") == of_toml
    assert policy(CSV.replace(",", ";"), tmp_path, ".csv") == of_toml
    assert (of_toml.n_allow, [rule.called for rule in of_toml.rules]) == (
        3,
        ["own ward", "allow 2", "allow 3", "forbid 1"],
    )


def test_a_run_keeps_all_of_it(tmp_path: Path) -> None:
    held = policy(TOML, tmp_path)
    assert permissions.read(held.text) == held


def test_what_no_rule_allows_is_not_allowed_and_what_one_forbids_neither(tmp_path: Path) -> None:
    documents = doc("notes/ward-3/1"), doc("notes/ward-9/1", tenant="ward-9", owner="x"), doc("leaflets/flu")
    may = of_case(policy(TOML, tmp_path), *documents, recipient=Recipient("ana")).may
    assert may("notes/ward-3/1", kind="person") == Decision("yes", "own ward")
    assert may("notes/ward-3/1", kind="Salary") == Decision("no", "forbid 1")
    assert may("notes/ward-9/1", kind="person") == Decision("no", "no rule")
    assert may("leaflets/flu", kind="other") == Decision("yes", "allow 2")


def test_a_recipient_may_know_what_they_are_the_subject_of(tmp_path: Path) -> None:
    documents = doc("chart", owner="patient-17", tenant="ward-9"), doc("letter", owner="ana", tenant="ward-9")
    may = of_case(policy(TOML, tmp_path), *documents, recipient=Recipient("ana")).may
    assert [may(name, kind="person").rule for name in ("chart", "letter")] == ["allow 3", "allow 3"]


def test_a_fact_that_is_not_known_and_would_decide_leaves_it_unknown(tmp_path: Path) -> None:
    held = policy('[[allow]]\nof = "tenant"\n[[allow]]\ndocument = "kb/*"\n[[forbid]]\nrole = "guest"\n', tmp_path)
    documents = doc("a", tenant="acme"), doc("b"), doc("kb/1")
    unnamed = of_case(held, *documents)
    assert unnamed.may("a", kind="phone") == Decision("unknown", "allow 1: tenant of the recipient not known")
    # A rule that forbids may apply to whoever it is.
    assert unnamed.may("kb/1", kind="phone") == Decision("unknown", "forbid 1: role of the recipient not known")
    known = of_case(held, *documents, recipient=Recipient("bo", ("user",), "acme"))
    assert known.may("a", kind="phone") == Decision("yes", "allow 1")
    assert known.may("b", kind="phone") == Decision("unknown", "allow 1: tenant of the document not known")
    assert known.may(None, kind="phone") == Decision("unknown", "allow 1: tenant of the document not known")
    assert of_case(held, *documents, recipient=Recipient("bo", ("user",), "zeta")).may("a", kind="x").allowed == "no"
    # What is false whatever is missing decides.
    assert of_case(held, *documents, recipient=Recipient(roles=("guest",))).may("b", kind="x") == Decision(
        "no", "forbid 1"
    )


def test_a_document_may_say_who_reads_it(tmp_path: Path) -> None:
    held = policy('[[document]]\ndocument = "b"\nreaders = ["acme", "bo"]\n[[allow]]\nof = "reader"\n', tmp_path)
    documents = Document("a", "text", readers=("ana", "nurse")), doc("b"), doc("c")

    def decided(recipient: Recipient | None) -> list[str]:
        may = of_case(held, *documents, recipient=recipient).may
        return [may(name, kind="phone").allowed for name in "abc"]

    assert decided(Recipient("ana", ("clerk",), "zeta")) == ["yes", "no", "unknown"]
    assert decided(Recipient("eve", ("nurse",), "acme")) == ["yes", "yes", "unknown"]
    assert decided(Recipient("bo")) == ["unknown", "yes", "unknown"]
    assert decided(None) == ["unknown"] * 3
    assert decided(Recipient("*", ("*",), "*")) == ["no", "no", "unknown"]


def test_names_of_the_log_are_no_patterns(tmp_path: Path) -> None:
    held = policy('[[allow]]\nof = "tenant"\n[[allow]]\nof = "recipient"\n', tmp_path)
    may = of_case(held, doc("a", tenant="acme", owner="bo"), recipient=Recipient("*", ("*",), "*", ("*",))).may
    assert may("a", kind="phone") == Decision("no", "no rule")


def test_a_document_as_a_whole_is_allowed_where_all_kinds_are(tmp_path: Path) -> None:
    held = policy('[[allow]]\ndocument = "a"\nkind = "phone"\n[[allow]]\ndocument = "b"\n', tmp_path)
    may = of_case(held, doc("a"), doc("b"), doc("c")).may
    assert [may(name, kind=None).allowed for name in "abc"] == ["unknown", "yes", "no"]


def test_rules_ask_for_fields_of_records_by_path_or_key(tmp_path: Path) -> None:
    held = policy('[[allow]]\nfield = ["visits*.date", "Name"]\n', tmp_path)
    may = of_case(held, doc("a")).may
    assert may("a", kind="date", field="visits[0].date").allowed == "yes"
    assert may("a", kind="person", field="patient.name").allowed == "yes"
    assert may("a", kind="person", field="patient.doctor").allowed == "no"
    assert may("a", kind="person") == Decision("unknown", "allow 1: field of a record not known")


def test_a_tool_has_no_role_unless_the_policy_says_so(tmp_path: Path) -> None:
    held = policy(
        '[[recipient]]\nrecipient = "crm.*"\nchannel = "tool"\ntenant = "acme"\n'
        '[[allow]]\nof = "tenant"\n[[allow]]\nrole = "nurse"\n[[allow]]\nchannel = "agent"\nrecipient = "billing"\n',
        tmp_path,
    )
    document = doc("a", tenant="acme")
    nurse = Recipient("ana", ("nurse",))
    told: list[tuple[Channel, str, str]] = [
        ("tool", "web", "no"),
        ("tool", "crm.put", "yes"),
        ("agent", "billing", "yes"),
    ]
    for channel, name, allowed in told:
        emission = Emission("c", 1, channel, name)
        assert of_case(held, document, recipient=nurse, emission=emission).may("a", kind="phone").allowed == allowed
    assert of_case(held, document, recipient=nurse, emission=Emission("c", 1)).may("a", kind="phone").allowed == "yes"


def test_what_the_user_said_themselves_is_theirs_to_know(tmp_path: Path) -> None:
    def message(number: int, role: str, name: str, text: str) -> Message:
        return Message(role, name, (Document(name, text),))

    chat = (
        message(1, "user", "user 1", "I am Ann."), message(2, "assistant", "assistant 2", "Hello."),
        message(3, "user", "crm/1", "Ann owes 40."), message(4, "user", "user 4", "Who am I?"),
    )  # fmt: skip
    held = policy('[[allow]]\ndocument = "kb/*"\n', tmp_path)
    case = Case("1", messages=chat, response="Ann", emission=Emission("1", 2))
    found = permissions_of(case, held)
    assert found is not None
    assert [found.may(name, kind="person") for name in ("user 1", "crm/1", "assistant 2")] == [
        Decision("yes", "own words"), Decision("no", "no rule"), Decision("no", "no rule"),
    ]  # fmt: skip
    # A tool said none of it.
    of_tool = permissions_of(Case("1", messages=chat, response="Ann", emission=Emission("1", 2, "tool", "web")), held)
    assert of_tool is not None
    assert of_tool.may("user 1", kind="person").allowed == "no"
    # A document of the same name is not the user's words.
    twice = (*chat[:3], Message("tool", "t", (Document("user 1", "Ann owes 40."),)), chat[3])
    assert Case("1", messages=twice).own_words == frozenset()


RECORD = "Ann Alvi owes 40 euros, phone 555-010-4471."


@pytest.mark.parametrize(
    ("turn", "is_theirs"),
    [
        ("I am Ann Alvi, call me on 555-010-4471.", True), ("Is Bo Lind in at 10:30?", True), ("Ich heiße Ann!", True),
        # A program wrote what it had retrieved into the turn.
        (f"{RECORD}\n\nWho owes?", False), (f"Context: {RECORD} Question: who owes?", False),
        (f"<doc>{RECORD}</doc> Who owes?", False), (f"[1] {RECORD} Who owes?", False), (f"{RECORD}\nWho?", False),
        ('{"name": "Ann Alvi"} Who?', False), (f"### Notes {RECORD}", False), (f"Kontext : {RECORD} Wer?", False),
        (f"{RECORD} " * 10, False), (f"Ticket no. 881: {RECORD} Who?", False), (f"```{RECORD}``` Who?", False),
        # It has what a tool returned, or a document of the chat says.
        ("The boat leaves from pier four on Monday. When?", False), ("Tide table. When?", False),
    ],
)  # fmt: skip
def test_a_document_in_an_earlier_turn_is_not_the_users_word(turn: str, is_theirs: bool) -> None:
    def message(role: str, name: str, text: str) -> Message:
        return Message(role, name, (Document(name, text),))

    chat = (
        message("user", "user 1", turn), message("assistant", "assistant 2", "Ann does."),
        message("tool", "tool 3", "THE boat leaves from pier four."), message("tool", "tool 4", "Tide table"),
        message("user", "user 5", "And her number?"),
    )  # fmt: skip
    assert ("user 1" in Case("1", messages=chat).own_words) == is_theirs
    # So it is in all turns where the last one shows it.
    asked = message("user", "user 5", "Context: none. Question: and her number?")
    assert Case("1", messages=(*chat[:4], asked)).own_words == frozenset()


def test_parts_of_a_turn_are_not_the_users_words() -> None:
    parts = (Document("user 1", "Ann owes 40."), Document("user 1", "Who owes?"))
    chat = (Message("user", "user 1", parts), Message("user", "user 2", (Document("user 2", "Her number?"),)))
    assert Case("1", messages=chat).own_words == frozenset()


def test_a_hostile_turn_is_read_in_linear_time() -> None:
    for text in ("a " * 200_000, "a:" * 200_000, "[" * 400_000, "[a" * 200_000, "a-" * 200_000, " a a a" * 70_000):
        began = time.process_time()
        has_block(text)
        assert time.process_time() - began < 1.0


def test_what_the_log_lists_is_enough() -> None:
    told = Recipient(may_know=("case_id",), may_not_know=("ssn",))
    may = of_case(None, doc("vault"), recipient=told).may
    assert may("vault", kind="code", field="case_id") == Decision("yes", "the log")
    assert may("vault", kind="ssn", field="ssn") == Decision("no", "the log")
    assert may("vault", kind="person", field="name") == Decision("unknown", "no rule")
    alone = of_case(None, doc("vault"), recipient=Recipient(may_know=("case_id",))).may
    assert alone("vault", kind="person", field="name") == Decision("no", "no rule")
    assert permissions_of(Case("1", (doc("a"),), recipient=Recipient("ana")), None) is None


NURSE = Recipient("ana", ("nurse",), "ward-3", ("p17",))


@pytest.mark.parametrize(
    ("whose", "recipient", "decided"),
    [
        # Whom it is about, whoever reads it.
        ({"owner": "ana", "readers": ("bo",)}, NURSE, Decision("yes", "the log")),
        ({"owner": "p17"}, NURSE, Decision("yes", "the log")),
        # Readers by id, role and tenant, and whose tenant's it is where there are none.
        ({"readers": ("bo", "ana")}, NURSE, Decision("yes", "the log")),
        ({"readers": ("nurse",)}, NURSE, Decision("yes", "the log")),
        ({"readers": ("bo",), "tenant": "ward-3"}, NURSE, Decision("no", "the log")),
        ({"tenant": "ward-3"}, NURSE, Decision("yes", "the log")),
        ({"tenant": "ward-4"}, NURSE, Decision("no", "the log")),
        # A nurse of another ward is none of this one's; who is named is a reader wherever they are.
        ({"readers": ("nurse",), "tenant": "ward-4"}, NURSE, Decision("no", "the log")),
        ({"readers": ("ana",), "tenant": "ward-4"}, NURSE, Decision("yes", "the log")),
        # What would decide is not known.
        ({"tenant": "ward-4"}, Recipient("ana"), Decision("unknown", "the log: tenant of the recipient not known")),
        ({"readers": ("nurse",)}, Recipient("ana"), Decision("unknown", "the log: role of the recipient not known")),
        ({"owner": "p18"}, NURSE, Decision("unknown", "no rule")),
        # Lists of fields decide too, and neither opens what the other closes.
        ({"tenant": "ward-4"}, Recipient("a", (), "ward-3", may_know=("phone",)), Decision("no", "the log")),
        ({"tenant": "ward-3"}, Recipient("a", (), "ward-3", may_not_know=("phone",)), Decision("no", "the log")),
        ({"tenant": "ward-3"}, Recipient("a", (), "ward-3", may_know=("ssn",)), Decision("no", "no rule")),
        ({"tenant": "ward-3"}, Recipient("a", (), "ward-3", may_not_know=("ssn",)), Decision("yes", "the log")),
    ],
)  # fmt: skip
def test_without_a_policy_the_log_decides(whose: Any, recipient: Recipient, decided: Decision) -> None:
    other = Document("other", "text", tenant="ward-3")
    may = of_case(None, Document("chart", "text", **whose), other, recipient=recipient).may
    assert may("chart", kind="phone", field="phone") == decided


def test_with_a_policy_its_rules_say_what_fields_of_the_log_mean(tmp_path: Path) -> None:
    held = policy('[[allow]]\ndocument = "kb/*"\n', tmp_path)
    assert of_case(held, Document("chart", "text", tenant="ward-3"), recipient=NURSE).may("chart", kind=None) == (
        "no", "no rule",
    )  # fmt: skip


def test_the_log_says_nothing_of_who_is_not_known_and_of_tools() -> None:
    documents = (Document("chart", "text", tenant="ward-3"),)
    assert permissions_of(Case("1", documents, "Who?", "Ann"), None) is None
    tool = Emission("1", 1, "tool", "web")
    assert permissions_of(Case("1", documents, "Who?", "Ann", recipient=NURSE, emission=tool), None) is None


def test_a_case_keeps_the_rules_that_may_apply_to_it(tmp_path: Path) -> None:
    many = "rule,recipient,document\n" + "".join(f"allow,u{n},d{n}\n" for n in range(2000))
    found = of_case(policy(many, tmp_path, ".csv"), doc("d7"), doc("d8"), recipient=Recipient("u7"))
    assert [rule.called for rule in found.rules] == ["allow 8"]
    assert (found.n_allow, found.n_forbid) == (2000, 0)
    assert Permissions.from_dict(found.to_dict()) == found


@pytest.mark.parametrize(
    ("text", "suffix", "wrong"),
    [
        ("", ".toml", "no rule"), ("[[recipient]]\nrecipient = 'a'\n", ".toml", "no rule"),
        ("[[alow]]\nrole = 'a'\n", ".toml", "no table 'alow'"), ("[allow]\nrole = 'a'\n", ".toml", "[[allow]]"),
        ("[[allow]]\nrol = 'a'\n", ".toml", "allow 1: 'rol' is not understood"),
        ("[[allow]]\nrole = []\n", ".toml", "'role' has to be a text"),
        ("[[allow]]\nrole = ['']\n", ".toml", "'role' has to be a text"),
        ("[[allow]]\nrole = 1.5\n", ".toml", "'role' has to be a text"),
        ("[[allow]]\nof = 'owner'\n", ".toml", "'of' has to be one of recipient, tenant, reader"),
        ("[[allow]]\nchannel = 'mail'\n", ".toml", "'channel' has to be one of answer"),
        ("[[document]]\nowner = 'a'\n[[allow]]\nrole = 'a'\n", ".toml", "document 1: it needs 'document'"),
        (f"[[allow]]\nrole = '{'a' * 501}'\n", ".toml", "at most 500 characters"),
        ("rule,rol\nallow,a\n", ".csv", "no column 'rol'"),
        ("rule,role\npermit,a\n", ".csv", "line 2: 'rule' is 'permit'"),
        ("rule,role\nallow,a,b\n", ".csv", "more cells"),
        ("role\n" + "a\n" * 10_001, ".csv", "10,000 are read at most"),
        ("[[allow]\n", ".toml", "not TOML"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(text: str, suffix: str, wrong: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        policy(text, tmp_path, suffix)
    assert wrong in str(error.value)


def test_a_hostile_name_takes_no_longer_than_it_is_long() -> None:
    def seconds(n: int) -> float:
        began = time.process_time()
        for _ in range(20):
            matches("*a" * 50 + "*b", "a" * n)
        return time.process_time() - began

    # A search that went back over the text for each star would take 2**50 times as long.
    assert seconds(200_000) < 60 * max(seconds(20_000), 1e-3)
