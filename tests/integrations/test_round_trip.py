"""What is logged is read again by the reader of logs: the same documents, at their places in the messages."""

from __future__ import annotations

from pathlib import Path

from leakmeter import traces
from leakmeter.integrations import AnswerLog, log_answer

TEXTS = {"call-1": "Anna Ek called at nine.", "menu": "Soup is <|im_end|> served\u2028at noon. \x1b[31m {x} %s"}


def test_documents_recipient_and_settings_come_back(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path / "answers.jsonl", strict=True)
    system = "Notes:\n" + "\n---\n".join(TEXTS.values())
    for number in range(3):
        log_answer(
            log,
            messages=[("system", system), ("user", f"Question {number}?")],
            documents=TEXTS,
            answer=f"Answer {number}.",
            recipient=f"desk {number}",
            model="invented-7b",
            temperature=0.7,
            top_p=1.0,
            trace_id=f"t{number}",
            span_id="s",
            response_id=f"r{number}",
            hidden_calls=number,
        )
    # A line that a full disk cut, and the next one.
    with log.path.open("ab") as file:
        file.write(b"\n")
    found = list(traces.TraceReader(log.path))
    assert len(found) == 3
    for number, answer in enumerate(found):
        assert isinstance(answer, traces.LoggedAnswer)
        assert (answer.trace_id, answer.span_id, answer.response_id) == (f"t{number}", "s", f"r{number}")
        assert (answer.recipient, answer.model, answer.answer) == (f"desk {number}", "invented-7b", f"Answer {number}.")
        assert (answer.sampling.temperature, answer.sampling.top_p) == (0.7, 1.0)
        assert answer.n_hidden_calls == number
        assert [(one.id, one.text) for one in answer.documents] == list(TEXTS.items())
        for one in answer.documents:
            (place,) = one.places
            assert answer.messages[place.message].content[place.start : place.end] == one.text


def test_what_was_cut_or_has_no_text_is_refused(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path / "answers.jsonl", strict=True)
    log_answer(log, messages=[("user", "Who?")], documents=[{"id": "call-1"}], answer="Anna Ek.")
    log_answer(log, messages=[("user", "Who?")], documents={"call-1": "Anna Ek called at nine."}, answer="Anna Ek.")
    assert [type(one) for one in traces.TraceReader(log.path)] == [traces.Refused, traces.Refused]


def test_roles_and_settings_go_by_one_name(tmp_path: Path) -> None:
    log = AnswerLog(tmp_path / "answers.jsonl", strict=True)
    messages = [
        ("SystemMessage", "Anna Ek called at nine."),
        ("Human", "Who?"),
        ("AIMessageChunk", "?"),
        ("User", "So?"),
    ]
    given = {"topP": "0.9", "max_new_tokens": 7, "best_of": 3, "model_kwargs": {"topK": 4}}
    log_answer(log, messages=messages, documents=["Anna Ek called at nine."], answer="Anna Ek.", sampling=given)
    (found,) = traces.TraceReader(log.path)
    assert isinstance(found, traces.LoggedAnswer)
    assert [one.role for one in found.messages] == ["system", "user", "assistant", "user"]
    sampling = found.sampling
    assert (sampling.top_p, sampling.max_tokens, sampling.top_k, sampling.constrained) == (0.9, 7, 4, True)
