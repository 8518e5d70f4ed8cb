"""Classification tasks: published columns and numberings, a user's own task, and what is wrong with a file."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from helpers.examples import few
from helpers.places import SHARED
from helpers.table_files import write_rows
from leakmeter.data import tasks
from leakmeter.errors import DataError, LeakmeterError, UnknownNameError, UsageError

DATA = SHARED / "data"
OWN = """
instruction = "Classify the tickets by whom they are for.\\n"
answer = "For"
label_column = "Team"

[fields]
Subject = "Subject"
body = "Ticket"

[labels]
1 = "Billing"
yes = "Repairs"
"""


def labels_of(folder: Path, name: str, column: str, values: list[Any], kind: str = "jsonl") -> list[str | None]:
    path = write_rows(folder, [{"text": f"Text {i}.", column: value} for i, value in enumerate(values)], kind)
    return [example.label for example in tasks.find(name).load(path, "train")]


def test_names_and_labels_that_the_instruction_names() -> None:
    assert tasks.names() == ["agnews", "dbpedia14", "trec"]
    for name in tasks.names():
        task = tasks.find(name).task
        assert task.name == name
        assert tasks.load_task(name) == tasks.find(name)
        places = [task.instruction.index(word) for word in task.words]
        assert places == sorted(places)
    with pytest.raises(UnknownNameError, match="no task named 'agnew'; did you mean 'agnews'"):
        tasks.load_task("agnew")


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
def test_a_title_and_a_description_are_one_text(tmp_path: Path, kind: str) -> None:
    rows = [
        {"Class Index": 3, "Title": "Fears for pension", "Description": " Unions are disappointed.\nAll of them."},
        {"Class Index": 4, "Title": "", "Description": "A second team."},
        {"Class Index": 1, "Title": "Talks", "Description": ""},
    ]
    examples = tasks.find("agnews").load(write_rows(tmp_path, rows, kind), "test")
    # A record without an id is called by its place, as in errors.
    lines = {"jsonl": ("line 1", "line 2", "line 3"), "csv": ("line 2", "line 4", "line 5")}
    places = lines.get(kind, ("record 1", "record 2", "record 3"))
    assert [(e.id, e.texts, e.label) for e in examples] == [
        (places[0], ("Fears for pension  Unions are disappointed.\nAll of them.",), "Business"),
        (places[1], ("A second team.",), "Technology"),
        (places[2], ("Talks",), "World"),
    ]


AROUND = [" Two spaces before it", "One behind it ", "\tA tab\t", "\n\nLines around it\r\n", "\u00a0A hard one\u3000"]


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet", "mappings", "hub"])
def test_texts_are_kept_white_space_and_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Whoever reads them, exemplars (with labels) and queries (without): a space is a token of the prompt."""
    own = tasks.task_of({"fields": {"text": "Review"}, "labels": ["Good", "Bad"]}, "task")
    known = [("agnews", ("title", "description")), ("agnews", ("text",)), ("dbpedia14", ("content",))]
    for (name, columns), labelled in product([*known, ("trec", ("text",)), ("own", ("text",))], (True, False)):
        data = own if name == "own" else tasks.find(name)
        word = data.task.words[0]
        rows = [{**dict.fromkeys(columns, text), "coarse" if name == "trec" else "label": word} for text in AROUND]
        if kind == "mappings":
            found = data.examples(rows, "rows", labelled=labelled)
        elif kind == "hub":
            monkeypatch.setattr(tasks, "records_of_hub", lambda *_, of=rows: of)
            found = replace(data, hub=tasks.Hub("somewhere", "default")).load(None, "train", labelled=labelled)
        else:
            found = data.load(write_rows(tmp_path, rows, kind), "train", labelled=labelled)
        assert [example.texts for example in found] == [(" ".join([text] * len(columns)),) for text in AROUND]
        assert {example.label for example in found} == {word}


def test_a_text_is_taken_before_its_parts_and_a_content_without_its_title() -> None:
    row: dict[str, Any] = {"text": "All.", "title": "A", "description": "B", "label": 0, "id": 7}
    (example,) = tasks.find("agnews").examples([row])
    assert (example.id, example.texts) == ("7", ("All.",))
    row = {"title": "Abbott", "content": "Abbott makes coaches.", "label": 13}
    (example,) = tasks.find("dbpedia14").examples([row])
    assert (example.texts, example.label) == (("Abbott makes coaches.",), "Book")


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_numbers_count_from_one_under_class_index_and_from_zero_under_label(tmp_path: Path, kind: str) -> None:
    news, things = (list(tasks.find(name).task.words) for name in ("agnews", "dbpedia14"))
    later = ["Abbreviation", "Entity", "Description", "Person", "Location", "Number"]
    earlier = ["Description", "Entity", "Abbreviation", "Person", "Number", "Location"]
    for name, column, values, words in (
        ("agnews", "Class Index", [1, 2, 3, 4], news),
        ("agnews", "label", [0, 1, 2, 3], news),
        ("agnews", "label", [0.0, 1.0, 2.0, 3.0], news),
        ("dbpedia14", "label", list(range(14)), things),
        ("dbpedia14", "class index", list(range(1, 15)), things),
        # The hub numbers questions in two orders.
        ("trec", "coarse_label", list(range(6)), later),
        ("trec", "label-coarse", list(range(6)), earlier),
        ("trec", "label_coarse", list(range(6)), earlier),
        # By published name and by word in any case.
        ("agnews", "label", ["sci/tech", "Technology", " WORLD "], ["Technology", "Technology", "World"]),
        ("dbpedia14", "label", ["OfficeHolder", "politician"], ["Politician"] * 2),
        ("trec", "coarse", ["ABBR", "Abbreviation", "hum"], ["Abbreviation", "Abbreviation", "Person"]),
    ):
        assert labels_of(tmp_path, name, column, values, kind) == words
    # Elsewhere a number may be one of the fifty finer types.
    with pytest.raises(DataError, match=r" [12]: 'label' is '3', expected one of 'NUM', .*'ABBR'$"):
        labels_of(tmp_path, "trec", "label", [3], kind)


def test_records_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Mock(return_value=[{"text": "Atom?", "label": 26, "label_coarse": 0, "label_coarse_original": "DESC"}])
    monkeypatch.setattr(tasks, "records_of_hub", asked)
    for split in ("train", "test"):
        (example,) = tasks.find("trec").load(None, split)
        assert example.label == "Description"
    names = [("trec.train", "SetFit/TREC-QC", "default", "train"), ("trec", "SetFit/TREC-QC", "default", "test")]
    assert [tuple(call.args) for call in asked.call_args_list] == names


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"text": "A.", "label": 4}, "line 1: 'label' is '4', expected one of 'World', 'Sports', 'Business', "),
        ({"text": "A.", "label": 4}, "'Sci/Tech', a number from 0 to 3"),
        ({"text": "A.", "class index": 0}, "'class index' is '0', expected one of"),
        ({"text": "A.", "class index": 0}, "a number from 1 to 4"),
        *(({"text": "A.", "label": of}, f"'label' is '{of}'") for of in (-1, 0.5, True)),
        ({"text": "A.", "label": ["World"]}, "'label' is \"['World']\""),
        ({"text": "A.", "label": "a\nb" + "c" * 99}, "'label' is 'a\\nb" + "c" * 37 + "…', expected"),
        ({"text": "A.", "label": " "}, "'label' is empty, expected one of"),
        ({"text": "A.", "Topic": 1}, "line 1 has no column 'class index' or 'label'; it has 'text', 'topic'"),
        ({"body": "A.", "label": 1}, "has no column 'text' or 'title' with 'description'; it has 'body', 'label'"),
        ({"text": " ", "label": 1}, "line 1 has no text"),
        ({"text": 5, "label": 1}, "'text' is a number, expected text"),
        ({"text": "\ud800", "label": 1}, "'text' holds half a surrogate pair"),
        ({"id": "a", "text": "A.", "label": 1}, "id 'a' is used by two records"),
        ('"3","Anna Berg was let go","She appeals."\n"1","B","C"\n', "the first line of the file does not look lik"),
    ],
)
def test_a_bad_record_is_one_line(tmp_path: Path, row: dict[str, Any] | str, told: str) -> None:
    if isinstance(row, str):  # a file without a heading, which is not recited
        (tmp_path / "data.csv").write_text(row, encoding="utf-8")
        path = str(tmp_path / "data.csv")
    else:
        path = write_rows(tmp_path, [row, row])
    with pytest.raises(DataError) as ended:
        tasks.find("agnews").load(path, "train")
    said = str(ended.value)
    assert told in said
    assert ("\n" in said, path in said, "Anna" in said) == (False, True, False)


def test_queries_may_do_without_labels() -> None:
    rows: list[dict[str, Any]] = [{"text": "A.", "label": 1}, {"text": "B.", "label": None}]
    rows += [{"text": "C.", "label": ""}, {"text": "D."}]
    news = tasks.find("agnews")
    assert [example.label for example in news.examples(rows, labelled=False)] == ["Sports", None, None, None]
    with pytest.raises(DataError, match="record 2: 'label' is empty"):
        news.examples(rows)
    with pytest.raises(DataError, match="'label' is 'Weather'"):
        news.examples([{"text": "A.", "label": "Weather"}], labelled=False)


def test_a_task_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "tickets.toml"
    path.write_text(OWN, encoding="utf-8-sig")
    own = tasks.load_task(str(path))
    task = own.task
    assert (task.name, task.instruction) == ("tickets", "Classify the tickets by whom they are for.")
    assert task.fields == (("subject", "Subject"), ("body", "Ticket"))
    assert (task.answer, task.label_column, task.words) == ("For", "team", ("Billing", "Repairs"))
    rows = [
        {"SUBJECT": "Bill", "Body": "It is wrong.", "Team": 1},
        {"SUBJECT": "", "Body": "It leaks.", "Team": "repairs"},
        {"SUBJECT": "Help", "Body": "", "Team": "Yes"},
    ]
    examples = own.load(write_rows(tmp_path, rows, "csv"), "train")
    assert [e.texts for e in examples] == [("Bill", "It is wrong."), ("", "It leaks."), ("Help", "")]
    assert [e.label for e in examples] == ["Billing", "Repairs", "Repairs"]
    with pytest.raises(DataError, match=r"has no column 'team'; it has 'subject', 'body'$"):
        own.load(write_rows(tmp_path, [{"subject": "A", "body": "B"}]), "train")
    with pytest.raises(UsageError, match="task 'tickets' is not published; give a file of its train records"):
        own.load(None, "train")


def test_what_ones_own_task_may_leave_out(tmp_path: Path) -> None:
    path = tmp_path / "mood.TOML"
    path.write_text('labels = ["Good", "Bad"]\n[fields]\ntext = "Review"', encoding="utf-8")
    task = tasks.load_task(str(path)).task
    assert (task.name, task.instruction, task.answer, task.label_column) == ("mood", "", "Answer", "label")
    assert task.labels == (("Good", "Good"), ("Bad", "Bad"))


def test_columns_make_a_task(tmp_path: Path) -> None:
    moods: dict[str, str | None] = {"Fine.": "good", "Poor.": " Bad ", "Good!": "GOOD", "So so.": "mixed", "?": None}
    rows: list[dict[str, Any]] = [{"user_review": text, "Mood": mood} for text, mood in moods.items()]
    columns = {"text": "user_review", "label": "Mood"}
    made = tasks.task_of_columns([rows[:3], rows[3:]], **columns)
    assert made.task.words == ("good", "Bad", "mixed")
    assert made.task.instruction == "Classify each text as good, Bad, or mixed."
    assert (made.task.fields, made.task.answer) == ((("user_review", "User review"),), "Mood")
    found = made.examples(write_rows(tmp_path, rows[:3], "csv"))
    assert [(one.id, one.label) for one in found] == [("line 2", "good"), ("line 3", "Bad"), ("line 4", "good")]
    assert tasks.task_of_columns([rows[:2]], **columns, instruction="").task.instruction == ""
    paths = {"text": "ticket.body", "label": "team"}
    nested = [{"ticket": {"body": "A."}, "team": 1.0}, {"ticket": {"body": "B."}, "team": 0}]
    mapped = tasks.task_of_columns([nested], mapping=paths)
    assert (mapped.task.words, mapped.task.instruction) == (("1", "0"), "Classify each text as 1 or 0.")
    assert [one.texts for one in mapped.examples(nested, mapping=paths)] == [("A.",), ("B.",)]
    # A query may do without what a mapping names for exemplars.
    (bare,) = mapped.examples([{"ticket": {"body": "C."}}], labelled=False, mapping=paths)
    assert (bare.texts, bare.label) == (("C.",), None)
    for wrong, missing in (({"text": "body", "label": "Mood"}, "body"), ({"text": "user_review"}, "label")):
        with pytest.raises(DataError, match=rf"record 1 has no column '{missing}'; it has .*--text-column"):
            tasks.task_of_columns([rows], **wrong)


def test_a_task_and_records_that_a_caller_holds() -> None:
    own = tasks.task_of({"fields": {"Text": "Review"}, "labels": ("Good", "Bad"), "label_column": "Mood"}, "task")
    assert own.task.name == "own"
    rows: list[dict[str, Any]] = [{"TEXT": "Fine.", "Mood": "good"}, {"text": "Poor."}]
    found = own.examples(rows, "queries", labelled=False)
    told = [("record 1", ("Fine.",), "Good"), ("record 2", ("Poor.",), None)]
    assert [(one.id, one.texts, one.label) for one in found] == told
    # The answer that was given is a label.
    answers = [{"text": "A.", "response": "bad"}, {"text": "B.", "response": ""}, {"text": "C."}]
    assert [one.answer for one in own.examples(answers, labelled=False, answered=True)] == ["Bad", None, None]
    assert [one.answer for one in own.examples(answers, labelled=False)] == [None] * 3
    with pytest.raises(DataError, match=r"record 1: 'response' is 'Awful', expected one of 'Good', 'Bad'$"):
        own.examples([{"text": "A.", "response": "Awful"}], labelled=False, answered=True)
    with pytest.raises(DataError, match=r"^queries, record 2 has no column 'mood'; it has 'text'$"):
        own.examples(rows, "queries")
    with pytest.raises(DataError, match=r"^pool: it has no record$"):
        own.examples([], "pool")
    with pytest.raises(DataError, match=r"^task has no 'labels', or an empty one; expected, for example"):
        tasks.task_of({"fields": {"text": "Review"}}, "task")
    with pytest.raises(DataError, match=r"^task: 'fields' has to be a table"):
        tasks.task_of({"fields": [("text", "Review")], "labels": ["a"]}, "task")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = ", "is not TOML: "),
        ("fields = {}", "has no 'fields', or an empty one; expected, for example"),
        ('fields = {t = "T"}', "has no 'labels', or an empty one; expected, for example"),
        ('labels = ["a"]\nfields = "t"', "'fields' has to be a table of names and words"),
        ('labels = "a"\nfields = {t = "T"}', "'labels' has to be a table"),
        ('labels = [1, 2]\nfields = {t = "T"}', "'labels' is a number, expected text"),
        ('labels = ["a", " "]\nfields = {t = "T"}', "'labels' has to be a word or a few on one line"),
        ('labels = ["a", "A"]\nfields = {t = "T"}', "label 'a' is named twice"),
        ('labels = {a = 1}\nfields = {t = "T"}', "'labels.a' is a number, expected text"),
        ('labels = ["a"]\nfields = {t = "T", T = "U"}', "column 't' is named twice"),
        ('labels = ["a"]\nfields = {label = "T"}', "column 'label' is named twice"),
        ('labels = ["a"]\nfields = {t = "T"}\nanswer = ""', "'answer' has to be a word"),
        ('labels = ["a"]\nfields = {t = "T"}\ninstruction = 3', "'instruction' is a number, expected text"),
        ('labels = ["a"]\nfields = {t = "T"}\nshots = 4', "unknown key 'shots'; known: name, instruction, answer"),
    ],
)
def test_a_bad_task_file_is_one_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(told)) as ended:
        tasks.load_task(str(path))
    assert "\n" not in str(ended.value)
    with pytest.raises(LeakmeterError, match=r"task file .*none\.toml. cannot be read"):
        tasks.load_task(str(tmp_path / "none.toml"))


PUBLISHED = few(
    [
        ("trec", "test", "test.csv", 500, ("Description", 138)),
        ("agnews", "train", "train_sample.csv", 4991, None),
        ("agnews", "test", "test.csv", 7600, ("World", 1900)),
        ("dbpedia14", "test", "test.csv", 4898, None),
        ("dbpedia14", "train", "train_sample.csv", 4200, ("Film", 300)),
        ("trec", "train", "train.csv", 5452, ("Abbreviation", 86)),
    ],
    2,
)


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared samples are not here")
@pytest.mark.parametrize(("name", "split", "file", "n", "label"), PUBLISHED)
def test_the_published_files_are_read(name: str, split: str, file: str, n: int, label: tuple[str, int] | None) -> None:
    examples = tasks.find(name).load(str(DATA / name / file), split)
    counts = Counter(example.label for example in examples)
    assert len(examples) == n
    assert set(counts) == set(tasks.find(name).task.words)
    assert label is None or counts[label[0]] == label[1]
    # Both numberings mean the same: words that only one kind of news would say, from 1 and from 0.
    news = {"touchdown": "Sports", "crude": "Business", "Baghdad": "World", "Linux": "Technology"}
    for word, kind in news.items() if name == "agnews" else ():
        said = Counter(example.label for example in examples if word in example.texts[0])
        assert said.most_common(1)[0][0] == kind, word
