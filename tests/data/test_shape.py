"""Cases of records of any shape, as `--map` says it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from leakmeter.core.case import Case, Document
from leakmeter.data.cases import cases_of
from leakmeter.errors import DataError, UsageError

CALLS = [
    {"call_id": "a", "q": "Who?", "a": "An", "notes": "Anna rang.", "files": [{"body": "In Graz.", "at": {"f": "p"}}]},
    {"call_id": "b", "q": "Who?", "a": "Bo", "notes": "", "files": [{"body": "In Bonn.", "at": {"f": "r"}}]},
]  # fmt: skip
HITS = [{"piece": "Anna rang.", "file": "p"}, {"piece": "Bo slept.", "file": "r"}]
CALLS_MAP = "id=call_id,query=q,response=a,context=notes,context=files,context.text=body,context.name=at.f"
TURNS = ("guest", "Hi."), ("desk", "Hello."), ("guest", "Notes: Anna rang. Question: Who?"), ("desk", "Anna.")
CHAT: dict[str, Any] = {
    "preamble": "Be brief.",
    "turns": [{"who": who, "says": says, "at": at} for at, (who, says) in enumerate(TURNS, 1)],
}
MARKER = "Notes:(.*)Question:"
CHAT_MAP = "messages=turns,messages.role=who,messages.content=says,messages.user=guest,messages.assistant=desk"


def refusal(data: Any, kind: type[Exception] = DataError, **how: Any) -> str:
    with pytest.raises(kind) as caught:
        cases_of(data, **how)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_several_fields_are_one_context_and_documents_have_the_names_that_are_pointed_at() -> None:
    expected = (
        Case("a", (Document("notes", "Anna rang."), Document("p", "In Graz.")), "Who?", "An"),
        Case("b", (Document("r", "In Bonn."),), "Who?", "Bo"),
    )
    assert cases_of(CALLS, map=CALLS_MAP).cases == expected
    assert cases_of({"exported": 1, "id": "e", "calls": CALLS}, map=f"cases=calls,{CALLS_MAP}").cases == expected
    # Texts of a list are numbered, and an object of texts has their names.
    record = {"query": "Who?", "a": ["x", "y"], "b": {"c": "z"}, "d": {"text": "w", "title": "t"}, "e": None}
    (case,) = cases_of([record], map="context=a,context=b,context=d,context=e").cases
    assert [(d.name, d.text) for d in case.documents] == [("a 1", "x"), ("a 2", "y"), ("c", "z"), ("t", "w")]


def test_a_name_alone_may_be_pointed_at() -> None:
    record = {"query": "Who?", "context": [{"text": "Anna rang.", "where": 7}, "Bo slept."]}
    (case,) = cases_of([record], map="context=context,context.name=where").cases
    assert case.documents == (Document("7", "Anna rang."), Document("d2", "Bo slept."))


@pytest.mark.parametrize(
    ("data", "path", "ids"),
    [
        ({"x": {"calls": CALLS}}, "x.calls", ["1", "2"]),
        ({"x": {"one": CALLS[0], "two": CALLS[1]}}, "x", ["one", "two"]),
        ([{"s": CALLS[:1]}, {"s": CALLS}], "s", ["1.1", "2.1", "2.2"]),
        ([{"id": "k", "s": [{"t": CALLS[:1]}, {"t": CALLS[1:]}]}, {"id": "l", "s": [{"t": CALLS}]}], "s[].t",
         ["k.1", "k.2", "l.1", "l.2"]),
    ],
)  # fmt: skip
def test_cases_are_in_a_list_of_each_record(data: Any, path: str, ids: list[str]) -> None:
    assert [case.id for case in cases_of(data, map=f"cases={path},query=q,context=files[].body").cases] == ids


def test_what_is_beside_the_list_is_said_of_each_case() -> None:
    data = {"context": "Anna rang.", "asked": [{"query": "Who?"}, {"query": "When?", "context": "At nine."}]}
    texts = [case.documents[0].text for case in cases_of([data], map="cases=asked").cases]
    assert texts == ["Anna rang.", "At nine."]


def test_a_chat_has_its_own_words_for_roles_and_a_system_prompt_elsewhere() -> None:
    roles = {"guest": "user", "desk": "assistant"}
    turns = [{"role": roles[who], "content": says} for who, says in TURNS]
    brief = {"role": "system", "content": "Be brief."}
    (expected,) = cases_of([{"messages": [brief, *turns]}], context_from=MARKER).cases
    loaded = cases_of([CHAT], map=f"{CHAT_MAP},system=preamble", context_from=MARKER)
    assert loaded.cases == (expected,)
    said = "chats of 4 messages of 3 to 15 characters; marked context of 10 characters; responses of 5"
    earlier = "data: 1 other emission came before anything was read, so that there is nothing to measure"
    assert loaded.notes == (earlier, f"data: --map reads {said}")
    bare = [{"role": who, "content": says} for who, says in TURNS]
    mapping = "messages=messages,messages.user=guest,messages.assistant=desk"
    (case,) = cases_of([{"messages": bare}], map=mapping, context_from=MARKER).cases
    assert case.response == "Anna."


@pytest.mark.parametrize(
    ("record", "proposal"),
    [
        ({"meta": 1, "calls": CALLS}, "cases=calls,id=call_id,query=…,context=notes,response=…"),
        (
            {"id": 3, "x": {"list": [{"question": "Who?", "hits": HITS, "answer": "A"}]}},
            "cases=x.list,query=question,context=hits,context.text=piece,context.name=file,response=answer",
        ),
        (CHAT, f"{CHAT_MAP},system=preamble"),
        ({"kind": "x", "p": {"docs": {"it-7": {"plain": "Anna rang."}, "it-8": {"plain": "Bo."}}, "candidates": CALLS}},
         "cases=p.candidates,id=call_id,query=…,context=docs,context.text=plain,response=…"),
        ({"user_id": 1, "talk_id": 2, "talk": CHAT["turns"], "conversation": CHAT["turns"]},
         f"id=talk_id,{CHAT_MAP.replace('turns', 'conversation')}"),
    ],
)  # fmt: skip
def test_the_proposal_has_what_the_shape_needs(record: dict[str, Any], proposal: str) -> None:
    said = refusal([record])
    assert proposal in said
    if "…" not in proposal:
        (given,) = shlex.split(said.partition("give --map ")[2])
        assert cases_of([record], map=given, context_from=MARKER if "messages" in given else None).cases


def test_what_a_shape_cannot_read_is_said_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(CHAT) + "\n", encoding="utf-8")
    for mapping, problem in {
        "cases=preamble": ": --map cases: expected a list of records at 'preamble'",
        "messages=turns,messages.role=who,messages.content=says": ": no message has the role 'user'; the "
        "roles are 'guest', 'desk': name them in --map, as in messages.user=customer,messages.assistant=agent",
        "messages=preamble,messages.user=guest": ": --map messages=preamble: expected a list of messages",
        "messages=turns": ", message 1 is not an object with 'role' and 'content'; name them in --map, as "
        "in messages.role=speaker,messages.content=text",
        "cases=turns,query=says": "; name the fields with --map cases=turns,query=says,context=…,response=… and",
    }.items():
        assert problem in refusal(path, map=mapping).removeprefix(f"{path}, line 1")
    for mapping, problem in {
        "system=preamble": "'system' is the system prompt of a chat; give messages=PATH too",
        "context.text=": "'context.text' needs a value, as in context.text=NAME",
        "context.txt=a": "there is no field 'context.txt'; did you mean 'context.text'?",
        "context=a,context=b[": "'b[' is not a path",
        "cases=a,cases=b": "field 'cases' is given twice",
    }.items():
        assert problem in refusal(path, UsageError, map=mapping)


def test_documents_by_id_and_all_that_is_beside_the_list_are_read() -> None:
    docs = {"it-7": {"plain": "Anna rang.", "head": "IT"}, "it-8": {"plain": "Bo slept.", "head": "IT"}}
    log = {"type": "answered", "payload": {"asked": "Who?", "docs": docs, "candidates": [{"says": "Anna."}]}}
    mapping = "cases=payload.candidates,query={},context={},context.text=plain,response=says"
    for query, context in (("asked", "docs"), ("payload.asked", "payload.docs")):
        (case,) = cases_of([log], map=mapping.format(query, context)).cases
        expected = (Document("it-7", "Anna rang."), Document("it-8", "Bo slept."))
        assert (case.query, case.response, case.documents) == ("Who?", "Anna.", expected)
    bare = {"query": "Who?", "context": {"a": {"text": "Anna rang."}, "b": {"text": "Bo slept."}}}
    assert [document.name for document in cases_of([bare]).cases[0].documents] == ["a", "b"]


def test_an_id_beside_the_list_is_numbered() -> None:
    data = [{"sid": "S-1", "calls": CALLS}, {"sid": "S-2", "calls": CALLS[:1]}]
    cases = cases_of(data, map="cases=calls,id=sid,query=q,context=files[].body").cases
    assert [case.id for case in cases] == ["S-1.1", "S-1.2", "S-2.1"]
    nested = [{"calls": [{**call, "meta": {"id": call["call_id"]}} for call in CALLS]}]
    cases = cases_of(nested, map="cases=calls,id=meta.id,query=q,context=files[].body").cases
    assert [case.id for case in cases] == ["a", "b"]


def test_lists_in_the_place_of_texts_are_answered_with_what_reads_them() -> None:
    session = {"docs": ["Anna rang."], "said": [{"q": "Who?", "a": "Anna."}, {"q": "When?", "a": "At nine."}]}
    said = refusal([session], map="query=said[0].q,context=docs,response=said[].a")
    assert "is a list, expected text; take one with response=PATH[0], or say with ca" in said
    said = refusal([session])
    assert "cases=said,query=…,context=docs,response=…" in said
    assert "q, a" in said
    assert cases_of([session], map="cases=said,query=q,context=docs,response=a").cases[1].response == "At nine."


def test_named_groups_are_documents_and_documents_that_the_query_repeats_are_announced() -> None:
    asked = "KB1: Anna Ek rang at nine from the harbour office. KB2: Bo slept. Who?"
    pattern = "KB1:(?P<kb_1>.*)KB2:(?P<kb_2>.*)Who"
    (case,) = cases_of([{"query": asked, "response": "Anna."}], context_from=pattern).cases
    assert [(part.name, part.text) for part in case.messages[0].parts if part.name.startswith("kb")] == [
        ("kb_1", "Anna Ek rang at nine from the harbour office."), ("kb_2", "Bo slept."),
    ]  # fmt: skip
    row = {"query": asked, "context": ["Anna Ek rang at nine\nfrom the harbour office."], "response": "Anna."}
    (note,) = cases_of([row]).notes
    assert note.startswith("data: in 1 of 1 case the query repeats text of the documents")


def test_names_of_texts_are_in_columns_beside_them() -> None:
    row = {"q": "Who?", "t1": "IT", "b1": "Anna rang.", "t2": "HR", "b2": "Bo slept.", "a": "Anna."}
    mapping = "query=q,response=a,context=b1,context.name=t1,context=b2,context.name=t2"
    (case,) = cases_of([row], map=mapping).cases
    assert [document.name for document in case.documents] == ["IT", "HR"]
    (case,) = cases_of([row], map="query=q,response=a,context=b1,context.name=t1").cases
    assert [document.name for document in case.documents] == ["IT"]
    wrong = "query=q,response=a,context=b1,context.name=t3"
    assert "there is no 't3'; there is 'q', 't1'" in refusal([row], map=wrong)
    wrong = "query=q,context=b1,context.name=t1,context.name=t2"
    assert "2 context.name for 1 context; give one, or one for each" in refusal([row], UsageError, map=wrong)


VERLAUF = [["Anweisung", "Sei kurz."], ["Fundstelle", "Anna rief an."], ["Mitarbeiter", "Wer?"]]


def test_pairs_of_role_and_text_are_a_chat_with_roles_of_any_name() -> None:
    log = {"Zeit": "10:00", "Verlauf": [*VERLAUF, ["Bot", "Anna."]]}
    assert "messages.user=Anweisung|Fundstelle|Mitarbeiter|Bot'; of the roles between" in refusal([log])
    two = {"Zeit": "10:00", "Verlauf": [["Mitarbeiter", "Wer?"], ["Bot", "Anna."]]}
    assert "messages=Verlauf,messages.user=Mitarbeiter,messages.assistant=Bot" in refusal([two])
    roles = "messages.system=Anweisung,messages.tool=Fundstelle,messages.user=Mitarbeiter"
    (case,) = cases_of([{**log, "Verlauf": VERLAUF, "a": "Anna."}], map=f"messages=Verlauf,response=a,{roles}").cases
    assert [message.role for message in case.messages] == ["system", "tool", "user"]
    with pytest.raises(DataError, match=r"role 'Anweisung' is none of .*name the roles in --map"):
        cases_of([log], map="messages=Verlauf")


def test_elements_by_number_of_lists_of_several_lengths_are_announced() -> None:
    longer = [*VERLAUF[:1], ["Mitarbeiter", "Hallo?"], *VERLAUF[1:]]
    logs = [{"v": chat, "a": "Anna."} for chat in (VERLAUF, longer)]
    notes = cases_of(logs, map="query=v[2][1],context=v[1][1],response=a").notes
    assert notes[-1].startswith("data: lists at v have 3 to 4 elements, so v[1][1] may be something else")
    assert len(cases_of(logs, map="query=v[-1][1],context=v[-2][1],response=a").notes) == 1


def test_an_object_in_the_place_of_a_text_names_its_parts() -> None:
    row = {"query": "Who?", "context": "Anna rang.", "answers": {"red": "Anna.", "blue": "Bo."}}
    said = "it has 'red', 'blue': take one with response=PATH.NAME"
    assert said in refusal([row], map="response=answers")
    said = "'response' is given twice; measure each in a run of its own"
    assert said in refusal([row], UsageError, map="response=answers.red,response=answers.blue")


def test_what_is_beside_every_level_is_said_of_each_case() -> None:
    log = {
        "tenant": "t", "sessions": [
            {"sid": "s1", "docs": "Anna rang.", "turns": [{"q": "Who?"}, {"q": "When?"}]},
            {"sid": "s2", "docs": "Bo slept.", "turns": []},
            {"sid": "s3", "docs": "Cy sang.", "turns": [{"q": "What?"}]},
        ],
    }  # fmt: skip
    cases = cases_of([log], map="cases=sessions[].turns,id=sid,query=q,context=docs").cases
    assert [(case.id, case.query, case.documents[0].text) for case in cases] == [
        ("s1.1", "Who?", "Anna rang."), ("s1.2", "When?", "Anna rang."), ("s3.3", "What?", "Cy sang."),
    ]  # fmt: skip
    with pytest.raises(DataError, match=r"--map cases: expected a list of records at 'answers'"):
        cases_of([{"answers": {"red": {"q": "Who?"}, "blue": "Bo."}}], map="cases=answers,query=q,context=q")


@pytest.mark.parametrize("wrong", ["context.name=title", "context.text=body", "messages.tool=clerk"])
def test_nothing_that_a_mapping_says_is_ignored_in_silence(wrong: str) -> None:
    row = {"q": "Who?", "a": "Anna rang.", "b": "Bo slept."}
    mapping = "query=q,context=a,context=b"
    if wrong.startswith("messages"):
        row, mapping = {"m": CHAT["turns"]}, CHAT_MAP.replace("=turns", "=m")
    notes = cases_of([row], map=f"{mapping},{wrong}", context_from=MARKER if "m" in row else None).notes
    assert f"data: --map {wrong}: no document or message has it" in notes
