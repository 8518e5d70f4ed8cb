"""What is logged is read again by the reader of logs: the same documents, at their places in the messages."""

from __future__ import annotations

from pathlib import Path

from leakmeter import traces
from leakmeter.integrations import AnswerLog, log_answer

TEXTS = {"call-1": "Anna Ek called at nine.", "menu": "Soup is <|im_end|> served\u2028at noon. \x1b[31m {x} %s"}


def test_documents_recipient_and_settings_come_back(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path / "answers.jsonl", strict=True)
    system = "Notes:\n" + "\n---\n".join(TEXTS.values())
    told = {"recipient": "desk 4", "model": "invented-7b", "answer": "Anna Ek.", "trace_id": "t", "span_id": "s"}
    sent = [("system", system), ("user", "Who?")]
    log_answer(log, messages=sent, documents=TEXTS, **told, temperature=0.7, response_id="r", hidden_calls=2)
    # A line that a full disk cut, and the next one.
    with log.path.open("ab") as file:
        file.write(b"\n")
    (found,) = traces.TraceReader(log.path)
    assert isinstance(found, traces.LoggedAnswer)
    assert {name: getattr(found, name) for name in told} == told
    assert (found.sampling.temperature, found.response_id, found.n_hidden_calls) == (0.7, "r", 2)
    assert [(one.id, one.text) for one in found.documents] == list(TEXTS.items())
    for one in found.documents:
        (place,) = one.places
        assert found.messages[place.message].content[place.start : place.end] == one.text


def test_what_was_cut_or_has_no_text_is_refused(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path / "answers.jsonl", strict=True)
    log_answer(log, messages=[("user", "Who?")], documents=[{"id": "call-1"}], answer="Anna Ek.")
    log_answer(log, messages=[("user", "Who?")], documents={"call-1": "Anna Ek called at nine."}, answer="Anna Ek.")
    assert [type(one) for one in traces.TraceReader(log.path)] == [traces.Refused, traces.Refused]


def test_roles_and_settings_go_by_one_name(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path / "answers.jsonl", strict=True)
    said = {"SystemMessage": "Anna Ek called at nine.", "Human": "Who?", "AIMessageChunk": "?", "User": "So?"}
    given = {"topP": "0.9", "max_new_tokens": 7, "best_of": 3, "model_kwargs": {"topK": 4}}
    documents = ["Anna Ek called at nine."]
    log_answer(log, messages=list(said.items()), documents=documents, answer="Anna Ek.", sampling=given)
    (found,) = traces.TraceReader(log.path)
    assert isinstance(found, traces.LoggedAnswer)
    assert [one.role for one in found.messages] == ["system", "user", "assistant", "user"]
    sampling = found.sampling
    assert (sampling.top_p, sampling.max_tokens, sampling.top_k, sampling.constrained) == (0.9, 7, 4, True)
