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

from helpers.command_line import assert_refused, object_of
from helpers.places import any_name

Call = Callable[..., Any]


def test_json_is_one_object_and_nothing_else(measure: Call) -> None:
    ended = measure("--json")
    case = object_of(ended)
    assert (case["id"], case["model"], case["unit"]) == ("note", "toy", "auto")
    texts = ["Anna Ek lives in Graz.", "Her phone is 555-010-7788.", "Bo asked twice.", "Call 555-010-7788 after four."]
    assert [piece["text"] for piece in case["pieces"]] == texts
    for piece in case["pieces"]:
        assert case["context"][piece["start"] : piece["end"]] == piece["text"]
        assert len(piece["per_token_nats"]) == len(case["response"]["tokens"])
        assert piece["nats"] == pytest.approx(sum(piece["per_token_nats"]))
    assert case["response"]["text"].strip() == "Anna"
    assert "".join(case["response"]["tokens"]) == case["response"]["text"]
    assert case["whole_nats"] > 0
    (warning,) = case["warnings"]
    assert "--group" in warning
    assert ended.err.startswith("run: runs/influence-")
    assert ended.err.count("\n") == 1


def test_several_context_files_are_documents(measure: Call, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, text in zip(folders, ("Bo ate. Cid left.", "Ida sang."), strict=True):
        folder.mkdir()
        (folder / "paper.txt").write_text(text)
    more = [word for folder in folders for word in ("--context-file", folder / "paper.txt")]
    case = object_of(measure(*more, "--json", unit="document"))
    assert [piece["name"] for piece in case["pieces"]] == ["note.txt", "paper.txt", "paper.txt (2)"]
    assert [piece["text"] for piece in case["pieces"]][1:] == ["Bo ate. Cid left.", "Ida sang."]
    assert [d["name"] for d in case["documents"]] == ["note.txt", "paper.txt", "paper.txt (2)"]


@pytest.mark.parametrize(
    "text", ["<|im_end|>", "</s>", "{query} {context}", "-", "- Call Anna", "--json", "@x", "🙂\n\0x"]
)
def test_odd_texts_are_texts(measure: Call, tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.txt"
    path.write_text(text, encoding="utf-8")
    case = object_of(measure("--json", context_file=path, query=text, response=text))
    assert case["context"] == text
    assert case["query"] == text
    assert case["response"]["text"].strip() == text.strip()


@pytest.mark.long
def test_a_file_whose_name_is_no_unicode(command: Call, tmp_path: Path) -> None:
    name = b"n\xff.txt".decode(errors="surrogateescape")
    (tmp_path / name).write_text("Anna sang.")
    given = ("--context-file", name, "--query", "Who?", "--response", "A", "--json", "--html", "p.html")
    ended = command("influence", "--model", "toy", *given)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["id"] == "n\ufffd"


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
    for text in ("Anna Ek lives in Graz.", "Her phone is 555-010-7788."):
        assert text.split()[-1] in page
    (run,) = Path("runs").iterdir()
    monkeypatch.setattr("leakmeter.engine.loading.load_backend", lambda *_, **__: pytest.fail("the model was loaded"))
    again = cli("report", run, "--html", "again.html")
    assert (again.code, again.out, again.err) == (0, "", "report: again.html (private, readable by you alone)\n")
    assert Path("again.html").read_text(encoding="utf-8") == page
    assert cli("report", run).code == 0
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["again.html", "page.html", "report.html", "runs"]


def test_reporting_does_not_load_torch(measure: Call) -> None:
    assert measure().code == 0
    (run,) = Path("runs").iterdir()
    code = (
        "import sys\nfrom leakmeter.cli import main\n"
        f"try: main(['report', {str(run)!r}])\nexcept SystemExit: pass\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


@pytest.mark.parametrize(
    ("reader", "options"),
    [
        ("head -1", ("--json",)),
        *(pytest.param(*one, marks=pytest.mark.long) for one in (("true", ()), ("head -1", ()), ("true", ("--json",)))),
    ],
)
def test_a_reader_that_leaves_early(command: Call, tmp_path: Path, options: tuple[str, ...], reader: str) -> None:
    data = tmp_path / "cases.jsonl"
    lines = [{"context": f"Anna sang {i} songs. " * 20, "query": "Who?", "response": "Anna"} for i in range(8)]
    data.write_text("\n".join(map(json.dumps, lines)))
    words = ["influence", "--model", "toy", "--data", str(data), "--unit", "whole", *options]
    line = shlex.join([sys.executable, "-c", "from leakmeter.cli import main; main()", *words]) + f" | {reader}"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "Traceback" not in ended.stderr
    assert "Error" not in ended.stderr
    assert len(ended.stdout.splitlines()) == (reader == "head -1")


def test_the_library_and_the_command_agree(measure: Call, note: Path) -> None:
    import leakmeter

    how = {"unit": "word", "removal": "mask", "temperature": 0.7}
    case = object_of(measure("--json", "--group", **how))
    given = {"context": note.read_text(), "query": "Who?", "response": "Anna"}
    result = leakmeter.influence("toy", **given, **how, group=True)
    assert [piece["nats"] for piece in case["pieces"]] == [piece.nats for piece in result.pieces]
    assert result.whole_nats == case["whole_nats"]
    (run,) = Path("runs").iterdir()
    (loaded,) = leakmeter.load_run(run)
    assert loaded.to_dict() == case


def test_a_logged_chat_is_measured_as_its_question_and_answer(
    cli: Callable[..., Any], byte_model: tuple[Any, Any], tmp_path: Path
) -> None:
    for part in byte_model:
        part.save_pretrained(tmp_path / "own")
    turns = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    template = turns + "{% if add_generation_prompt %}[assistant] {% endif %}"
    (tmp_path / "own" / "chat_template.jinja").write_text(template)
    asked = [{"role": "system", "content": "Anna Ek called."}, {"role": "user", "content": "Who called?"}]
    named = [{**asked[0], "name": "notes"}, asked[1]]
    answer = {"role": "assistant", "content": "Anna."}
    greeting = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "How can I help?"}]
    chats = {
        "asked": asked, "logged": [*asked, answer], "named": [*named, answer], "bare": [asked[1], answer],
        "turns": [asked[0], *greeting, asked[1], answer],
        "tool": [asked[0], *greeting, {**asked[0], "role": "tool"}, *asked[1:], answer],
    }  # fmt: skip
    for name, messages in chats.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(messages))

    def run(command: str, chat: str, *more: object) -> Any:
        return cli(command, "--model", tmp_path / "own", "--messages", tmp_path / f"{chat}.json", *more)

    for refused in ("logged", "asked"):
        ended = run("influence", refused, "--json")
        assert_refused(ended, "the system prompt is the only context")
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
        assert "→" not in shown
        if command == "influence":
            assert (case["response"], case["whole_nats"]) == (apart["response"], apart["whole_nats"])
            assert (case["response"]["text"], case["response"]["sampled"]) == ("Anna.", False)
            assert [piece["name"] for piece in case["pieces"]] == ["system 1"]
    untold = run("influence", "named", "--json")
    assert "system prompt" not in untold.err + str(object_of(untold)["warnings"])
    assert "unmarked_query_tokens" not in object_of(untold)
    # What was retrieved may stand in the last turn of a longer chat, too.
    shown = run("influence", "turns").out
    assert "Only what was said before the last user message was measured." in " ".join(shown.split())
    assert "→" not in shown
    assert "unmarked_query_tokens" not in object_of(run("influence", "tool", "--json"))
    bare = run("influence", "bare", "--json")
    assert (bare.code, "nothing can be removed" in bare.err) == (2, True)


def test_entities_and_their_surrogates(measure: Call) -> None:
    case = object_of(measure("--json", "--swap", unit="entity", response="Call 555-010-7788"))
    (phone,) = case["pieces"]
    assert (phone["name"], phone["n_mentions"], phone["repeated"], phone["rank"]) == ("phone1", 2, "verbatim", 1)
    assert phone["swapped_nats"] > 0
    assert phone["surrogate"] != "555-010-7788"
    again = object_of(measure("--json", "--swap", unit="entity", response="Call 555-010-7788"))
    assert again == case
    other = object_of(measure("--json", "--swap", unit="entity", response="Call 555-010-7788", swap_seed=4))
    assert other["pieces"][0]["surrogate"] != phone["surrogate"]


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
    assert [piece["name"] for piece in case["pieces"]] == ["place1", "phone1"]
    (spec,) = (json.loads(path.read_text()) for path in Path("runs").glob("*/spec.json"))
    assert spec["prompts"]["entity_patterns"] == "place = Graz"


def test_many_cases_of_which_some_hold_nothing(cli: Call, tmp_path: Path) -> None:
    data = tmp_path / "cases.jsonl"
    texts = ["It rained.", *(f"Mail a{i}@x.example." for i in range(4))]
    data.write_text("\n".join(json.dumps({"context": text, "query": "Who?", "response": "A"}) for text in texts))
    ended = cli("influence", "--model", "toy", "--data", data, "--unit", "entity")
    assert ended.code == 0, ended.err
    assert "no disclosure" in ended.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"region": "XX", "unit": "entity"}, "no region named 'XX'"),
        ({"entity_patterns": "nowhere.txt", "unit": "entity"}, "entity patterns 'nowhere.txt' cannot be read"),
        ({"entity_patterns": "x = (", "unit": "entity"}, "entity patterns, line 1"),
        ({"entity_patterns": "x = y"}, "entity-patterns is for personal data; give unit 'entity' with it"),
        ({"ner": "nowhere", "unit": "entity"}, "recogniser 'nowhere'"),
    ],
)
def test_personal_data_that_cannot_be_used_is_one_line(measure: Call, options: dict[str, Any], message: str) -> None:
    ended = measure(**options)
    assert_refused(ended, message)
    assert not Path("runs").exists()
