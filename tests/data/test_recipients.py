"""Who received an answer, and whose documents are, as data say it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from leakmeter.core.case import Case, Recipient
from leakmeter.data.cases import cases_of
from leakmeter.errors import DataError

ROW = {"context": "It rains.", "query": "Weather?", "response": "Rain"}


def read(row: dict[str, Any], **how: Any) -> Case:
    (case,) = cases_of([row], **how).cases
    return case


@pytest.mark.parametrize(
    ("said", "recipient"),
    [
        ("ana", Recipient("ana")), (17, Recipient("17")), (None, None), ("", None), ({}, None),
        ({"id": "ana", "role": "nurse", "tenant": 3}, Recipient("ana", ("nurse",), "3")),
        ({"role": ["a", "b"], "subject": "p1"}, Recipient(None, ("a", "b"), None, ("p1",))),
        ({"may_know": ["x"], "may_not_know": []}, Recipient(may_know=("x",), may_not_know=())),
    ],
)  # fmt: skip
def test_a_row_says_who_received_its_answer(said: object, recipient: Recipient | None) -> None:
    assert read({**ROW, "recipient": said}).recipient == recipient


@pytest.mark.parametrize("said", [{"name": "Ana"}, {"id": ["a"]}, {"role": [1.5]}, True, ["ana"]])
def test_what_is_no_recipient_is_refused(said: object) -> None:
    with pytest.raises(DataError, match="recipient"):
        read({**ROW, "recipient": said})


def test_the_parts_of_a_recipient_may_stand_anywhere() -> None:
    row = {"q": "Weather?", "d": ["It rains."], "a": "Rain", "user": {"id": "ana", "groups": ["nurse"]}, "org": "acme"}
    names = "query=q,context=d,response=a,recipient=user.id,recipient.role=user.groups,recipient.tenant=org"
    assert read(row, map=names).recipient == Recipient("ana", ("nurse",), "acme")
    assert read(row, map="query=q,context=d,response=a").recipient is None


def test_documents_say_whose_they_are() -> None:
    documents = [
        {"name": "a", "text": "It rains.", "owner": "p1"},
        {"name": "b", "text": "It snows.", "owner": "", "metadata": {"tenant": 1}},
        {"name": "c", "text": "It hails."},
    ]
    case = read({**ROW, "context": documents})
    assert [(part.owner, part.tenant) for part in case.documents] == [("p1", None), (None, "1"), (None, None)]


def test_documents_say_who_may_read_them() -> None:
    documents = [
        {"name": "a", "text": "It rains.", "readers": ["ana", "nurse"]},
        {"name": "b", "text": "It snows.", "metadata": {"acl": "all staff"}},
    ]
    assert [part.readers for part in read({**ROW, "context": documents}).documents] == [("ana", "nurse"), ()]
    row = {"q": "Weather?", "a": "Rain", "d": documents}
    case = read(row, map="query=q,context=d,response=a,context.readers=metadata.acl")
    assert [part.readers for part in case.documents] == [("ana", "nurse"), ("all staff",)]
    with pytest.raises(DataError, match="readers"):
        read({**ROW, "context": [{"text": "x", "readers": [{"id": "ana"}]}]})


def test_whose_documents_are_may_stand_under_other_names() -> None:
    row = {"q": "Weather?", "a": "Rain", "d": [{"text": "It rains.", "meta": {"org": "acme"}}, {"text": "It snows."}]}
    case = read(row, map="query=q,context=d,response=a,context.tenant=meta.org")
    assert [part.tenant for part in case.documents] == ["acme", None]
    # Of texts it stands beside them.
    beside = {"q": "Weather?", "a": "Rain", "d": ["It rains.", "It snows."], "org": "acme"}
    case = read(beside, map="query=q,context=d,response=a,context.tenant=org")
    assert [(part.name, part.tenant) for part in case.documents] == [("d1", "acme"), ("d2", "acme")]
    (note,) = (
        note for note in cases_of([row], map="query=q,context=d,response=a,context.owner=who").notes if "who" in note
    )
    assert "no document or message has it" in note


def test_a_table_has_a_column_of_recipients(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("context,query,response,recipient\nIt rains.,Weather?,Rain,ana\n", encoding="utf-8")
    (case,) = cases_of(file).cases
    assert case.recipient == Recipient("ana")


def test_a_case_that_says_nothing_of_it_is_recorded_as_before() -> None:
    record = read(ROW).record()
    assert "recipient" not in record
    assert [set(document) for document in record["documents"]] == [{"name", "text"}]
    assert read({**ROW, "recipient": "ana"}).record()["recipient"]["id"] == "ana"


def test_every_turn_of_a_conversation_has_the_recipient() -> None:
    messages = [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "function": {"name": "sky", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "It rains."},
        {"role": "assistant", "content": "Rain."},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "content": "Rain still."},
    ]
    cases = cases_of([{"messages": messages, "recipient": {"id": "ana", "role": "nurse"}}]).cases
    assert len(cases) == 2
    assert {case.recipient for case in cases} == {Recipient("ana", ("nurse",))}


def test_the_record_of_another_tool_may_call_something_else_a_recipient() -> None:
    row = {"question": "Weather?", "documents": [{"content": "It rains."}], "answer": "Rain"}
    assert read({**row, "recipient": {"mail": "a@b.example"}}).recipient is None
    assert read({**row, "recipient": "ana"}).recipient == Recipient("ana")


def test_agentleak_says_which_fields_its_user_may_know() -> None:
    vault = {"name": "Ann Lee", "ssn": "078-05-1120"}
    row = {
        "id": "t1",
        "messages": [
            {"role": "system", "content": f"USER DATA:\n{json.dumps(vault)}"},
            {"role": "user", "content": "Who?"},
            {"role": "assistant", "content": "Ann Lee"},
        ],
        "vault": vault,
        "allowed_set": {"fields": ["name"], "forbidden_fields": ["ssn"]},
    }
    assert read(row).recipient == Recipient(may_know=("name",), may_not_know=("ssn",))
    assert read({**row, "allowed_set": None}).recipient is None
    with pytest.raises(DataError, match="have to be lists"):
        read({**row, "allowed_set": {"fields": "name"}})
