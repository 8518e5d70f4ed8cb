"""`leakmeter influence` and `leakmeter report` where all is well, with the toy model."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import PROGRAM, assert_refused, object_of
from helpers.examples import few
from helpers.places import any_name
from helpers.report_checks import flat

Call = Callable[..., Any]


def test_json_is_one_object_and_nothing_else(measure: Call) -> None:
    ended = measure("--json")
    case = object_of(ended)
    assert (case["id"], case["model"], case["unit"]) == ("note", "toy", "auto")
    texts = ["Anna Ek lives in Graz.", "Her phone is 555-010-7788.", "Bo asked twice.", "Call 555-010-7788 after four."]
    for piece, text in zip(case["pieces"], texts, strict=True):
        assert case["context"][piece["start"] : piece["end"]] == piece["text"] == text
        assert len(piece["per_token_nats"]) == len(case["response"]["tokens"])
        assert piece["nats"] == pytest.approx(sum(piece["per_token_nats"]))
    assert case["response"]["text"].strip() == "Anna"
    assert "".join(case["response"]["tokens"]) == case["response"]["text"]
    assert case["whole_nats"] > 0
    (warning,) = case["warnings"]
    assert "--group" in warning
    # A slow machine also says what it is doing.
    *_, last = ended.err.splitlines()
    assert last.startswith("run: runs/influence-")


def test_several_context_files_are_documents(measure: Call, tmp_path: Path) -> None:
    more: list[object] = []
    for folder, text in ((tmp_path / "one", "Bo ate. Cid left."), (tmp_path / "two", "Ida sang.")):
        folder.mkdir()
        (folder / "paper.txt").write_text(text)
        more += ["--context-file", folder / "paper.txt"]
    case = object_of(measure(*more, "--json", unit="document"))
    assert [piece["text"] for piece in case["pieces"]][1:] == ["Bo ate. Cid left.", "Ida sang."]
    for named in (case["pieces"], case["documents"]):
        assert [one["name"] for one in named] == ["note.txt", "paper.txt", "paper.txt (2)"]


@pytest.mark.parametrize(
    "text", ["<|im_end|>", "</s>", "{query} {context}", "-", "- Call Anna", "--json", "@x", "🙂\n\0x"]
)
def test_odd_texts_are_texts(measure: Call, tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.txt"
    path.write_text(text, encoding="utf-8")
    case = object_of(measure("--json", context_file=path, query=text, response=text))
    assert (case["context"], case["query"]) == (text, text)
    assert case["response"]["text"].strip() == text.strip()


@pytest.mark.long
def test_a_file_whose_name_is_no_unicode(command: Call, tmp_path: Path) -> None:
    name = b"n\xff.txt".decode(errors="surrogateescape")
    (tmp_path / name).write_text("Anna sang.")
    given = ("--context-file", name, "--query", "Who?", "--response", "A", "--json", "--html", "p.html")
    ended = command("influence", "--model", "toy", *given)
    assert (ended.returncode, json.loads(ended.stdout)["id"]) == (0, "n\ufffd"), ended.stderr


@pytest.mark.long
@any_name
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_terminal_encoding_will_do(command: Call, tmp_path: Path, encoding: str) -> None:
    (tmp_path / "c.txt").write_text("Zoë 🙂 sang.", encoding="utf-8")
    given = ("influence", "--model", "toy", "--context-file", "c.txt", "--query", "Wër?", "--response", "Zoë 🙂")
    environment = {"PYTHONIOENCODING": encoding}
    ended = command(*given, "--json", environment=environment, text=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["context"] == "Zoë 🙂 sang."
    assert command(*given, environment=environment, text=False).returncode == 0


def test_the_page_and_the_page_again_without_the_model(
    measure: Call, cli: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = measure(html="page.html")
    assert ended.err.splitlines()[1] == "report: page.html (private, readable by you alone)"
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Graz." in page
    assert "555-010-7788." in page
    (run,) = Path("runs").iterdir()
    monkeypatch.setattr("leakmeter.engine.loading.load", lambda *_, **__: pytest.fail("the model was loaded"))
    again = cli("report", run, "--html", "again.html")
    assert (again.code, again.out, again.err) == (0, "", "report: again.html (private, readable by you alone)\n")
    assert Path("again.html").read_text(encoding="utf-8") == page
    code = (
        f"import sys\nfrom leakmeter.cli import main\ntry: main(['report', {str(run)!r}])\nexcept SystemExit: pass\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert alone.stdout == "[]\n"
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["again.html", "page.html", "report.html", "runs"]


@pytest.mark.parametrize(
    ("reader", "options"), few([("head -1", ("--json",)), ("true", ()), ("head -1", ()), ("true", ("--json",))])
)
def test_a_reader_that_leaves_early(tmp_path: Path, options: tuple[str, ...], reader: str) -> None:
    lines = [{"context": f"Anna sang {i} songs. " * 20, "query": "Who?", "response": "Anna"} for i in range(8)]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = ["influence", "--model", "toy", "--data", "cases.jsonl", "--unit", "whole", *options]
    line = shlex.join([*PROGRAM, *words]) + f" | {reader}"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "Traceback" not in ended.stderr
    assert "Error" not in ended.stderr
    assert len(ended.stdout.splitlines()) == (reader == "head -1")


def test_a_logged_chat_is_measured_as_its_question_and_answer(
    cli: Call, byte_model: tuple[Any, Any], tmp_path: Path
) -> None:
    for part in byte_model:
        part.save_pretrained(tmp_path / "own")
    turns = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    template = turns + "{% if add_generation_prompt %}[assistant] {% endif %}"
    (tmp_path / "own" / "chat_template.jinja").write_text(template)
    system, user = {"role": "system", "content": "Anna Ek called."}, {"role": "user", "content": "Who called?"}
    answer = {"role": "assistant", "content": "Anna."}
    greeting = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "How can I help?"}]
    chats = {
        "asked": [system, user], "logged": [system, user, answer], "named": [{**system, "name": "notes"}, user, answer],
        "bare": [user, answer], "turns": [system, *greeting, user, answer],
        "tool": [system, *greeting, {**system, "role": "tool"}, user, answer],
    }  # fmt: skip

    def run(command: str, chat: str, *more: object) -> Any:
        path = tmp_path / f"{chat}.json"
        path.write_text(json.dumps(chats[chat]))
        return cli(command, "--model", tmp_path / "own", "--messages", path, *more)

    for refused in ("logged", "asked"):
        assert_refused(run("influence", refused, "--json"), "the system prompt is the only context")
    meant = ("--context-from", "system")
    apart = object_of(run("influence", "asked", "--json", *meant, "--response", "Anna."))
    unmarked = "nly context is the system prompt; the rest of the chat, 11 tokens, counts as the query"
    for command, chat, more in (
        ("influence", "logged", ()), ("redact", "logged", ("--max-loss", "1")), ("decode", "asked", ()),
    ):  # fmt: skip
        told = run(command, chat, "--json", *meant, *more)
        case = object_of(told)
        assert (unmarked in case["warnings"][0], unmarked in told.err) == (True, True)
        assert case["unmarked_query_tokens"] == 11
        shown = run(command, chat, *meant, *more).out
        assert "Only the system prompt was measured." in shown
        # What was found calls for something; that nothing else was found says nothing.
        assert [line[2:37] for line in shown.splitlines() if line.startswith("→")] == (
            ["Personal or secret data disclosed: "] if command == "influence" else []
        )
        if command == "influence":
            assert (case["response"], case["whole_nats"]) == (apart["response"], apart["whole_nats"])
            assert (case["response"]["text"], case["response"]["sampled"]) == ("Anna.", False)
            assert [piece["name"] for piece in case["pieces"]] == ["system 1"]
    untold = run("influence", "named", "--json")
    assert "system prompt" not in untold.err + str(object_of(untold)["warnings"])
    assert "unmarked_query_tokens" not in object_of(untold)
    # What was retrieved may stand in the last turn of a longer chat, too.
    shown = run("influence", "turns").out
    assert "Only what was said before the last user message was measured." in flat(shown)
    assert "→ Personal or secret data disclosed: " in shown
    assert "unmarked_query_tokens" not in object_of(run("influence", "tool", "--json"))
    assert_refused(run("influence", "bare", "--json"), "nothing can be removed")


def test_entities_and_their_surrogates(measure: Call) -> None:
    how = {"unit": "entity", "response": "Call 555-010-7788"}
    case, again, other = (object_of(measure("--json", "--swap", **how, swap_seed=seed)) for seed in (None, None, 4))
    name, phone = case["pieces"]
    assert name["name"] == "person1"
    assert (phone["name"], phone["n_mentions"], phone["repeated"], phone["rank"]) == ("phone1", 2, "verbatim", 1)
    assert phone["swapped_nats"] > 0
    assert phone["surrogate"] != "555-010-7788"
    assert again == case
    assert other["pieces"][1]["surrogate"] != phone["surrogate"]


def test_terminal_and_page_show_both_numbers(measure: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    shown = measure("--swap", unit="entity", html="report.html").out
    for said in ("Without it", "surrogate", "phone1", "2 mentions, not", "repeated", "surrogate:"):
        assert said in shown
    page = Path("report.html").read_text(encoding="utf-8")
    for said in ("With a surrogate", "2 mentions, not repeated", "surrogate: "):
        assert said in page
    assert "With a surrogate" not in measure(unit="entity", html="plain.html").out
    assert "With a surrogate" not in Path("plain.html").read_text(encoding="utf-8")


def test_what_is_found_is_escaped(measure: Call, tmp_path: Path) -> None:
    note = tmp_path / "hostile.txt"
    note.write_text("Key <img src=x onerror=alert(1)> [bold]x[/]\x1b[31m. Key <img src=y>.", encoding="utf-8")
    patterns = tmp_path / "patterns.txt"
    patterns.write_text("tag = <img[^>]*>\nmark = \\[bold\\]x\\[/\\]\x1b\\[31m\n", encoding="utf-8")
    given = {"context_file": note, "entity_patterns": patterns, "unit": "entity", "html": "h.html"}
    shown = measure("--swap", **given).out
    assert "\x1b" not in shown
    assert "[bold]x[/]" in shown
    page = Path("h.html").read_text(encoding="utf-8")
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "\x1b" not in page


def test_a_run_is_known_by_its_patterns(measure: Call, tmp_path: Path) -> None:
    patterns = tmp_path / "patterns.txt"
    patterns.write_text("# comment\nplace = Graz\n", encoding="utf-8")
    case = object_of(measure("--json", unit="entity", entity_patterns=patterns))
    assert [piece["name"] for piece in case["pieces"]] == ["person1", "place1", "phone1"]
    (spec,) = (json.loads(path.read_text()) for path in Path("runs").glob("*/spec.json"))
    assert spec["prompts"]["entity_patterns"] == "place = Graz"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"region": "XX"}, "no region named 'XX'"), ({"ner": "nowhere"}, "recogniser 'nowhere'"),
        ({"entity_patterns": "nowhere.txt"}, "entity patterns 'nowhere.txt' cannot be read"),
        ({"entity_patterns": "x = ("}, "entity patterns, line 1"),
        ({"entity_patterns": "x = y", "unit": None}, "entity-patterns is for personal data; give unit 'entity' with"),
    ],
)  # fmt: skip
def test_personal_data_that_cannot_be_used_is_one_line(measure: Call, options: dict[str, Any], message: str) -> None:
    assert_refused(measure(**{"unit": "entity", **options}), message)
    assert not Path("runs").exists()
