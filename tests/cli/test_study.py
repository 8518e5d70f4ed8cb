"""`leakmeter study` with the toy model: tables, the same bytes again, nothing lost or done twice after a kill; existing
generations from a CSV file.
"""

from __future__ import annotations

import csv
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.examples import few
from helpers.places import TESTS
from leakmeter.commands import progress
from leakmeter.commands.studies.grid import shipped
from leakmeter.commands.studies.quality import Regurgitation
from leakmeter.engine.storage.export import write
from leakmeter.engine.storage.parts import cases_of_run
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.errors import UsageError
from leakmeter.report.console import LEFT_OUT
from leakmeter.stats.stats import interval_of_mean, mean

pytestmark = pytest.mark.usefixtures("undrawn")

Call = Callable[..., Any]
SAME_TOKEN = "labels 'Glad' and 'Gloomy' begin with the same token, so their first tokens do not distinguish them"
N_RECORDS = 6
LAMBDAS = ("0.5", "1.0", "2.0")


@pytest.fixture
def abstracts(tmp_path: Path) -> Path:
    """Invented abstracts as PubMedQA has them."""
    rng = random.Random(0)
    words = "the ferry cat sat on mat Anna Ek called and rain fell in Graz".split()  # noqa: SIM905
    records = {}
    for i in range(N_RECORDS):
        contexts = [" ".join(rng.choices(words, k=40)) + ".", "Bo ate."]
        records[str(100 + i)] = {"QUESTION": "Who called?", "CONTEXTS": contexts, "LONG_ANSWER": "Anna called."}
    path = tmp_path / "abstracts.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    return path


def words_of(name: str, data: Path, *more: str) -> list[str]:
    settings = ("model=toy", "max_new_tokens=12", *(f"cid_lambda={value}" for value in LAMBDAS))
    changes = [part for one in settings for part in ("--set", one) if name == "figure_8" or "lambda" not in one]
    return ["study", name, "--data", str(data), *changes, *more]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def study_of(out: Path) -> Path:
    (path,) = out.glob("study-*")
    return path


def test_a_study_gives_table_figure_and_items(cli: Call, abstracts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Six records have intervals here.
    monkeypatch.setattr("leakmeter.stats.stats.FEWEST_FOR_INTERVAL", N_RECORDS)
    monkeypatch.setenv("COLUMNS", "400")
    ended = cli(*words_of("figure_8", abstracts, "--set", "factkb=nobody/none", "--explain"))
    assert ended.code == 0, ended.err
    # Quality without its model is left out in one line, whatever the number of cells.
    (line,) = [line for line in ended.err.splitlines() if "FactKB" in line]
    assert line.startswith("factkb is left out: FactKB needs the model 'nobody/none', which is not on this machine")
    assert "FactKB" not in ended.out
    path = study_of(Path("runs"))
    assert path.stat().st_mode & 0o777 == 0o700
    table = (path / "table.md").read_text(encoding="utf-8")
    # A terminal has the rows of the Markdown as a table, and where it is narrow each row by itself; nothing is cut.
    marked = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    lines = [line.split() for line in ended.out.splitlines()]
    for cells in (marked[0], *marked[2:]):
        assert " ".join(cells).split() in lines
    monkeypatch.setenv("COLUMNS", "60")
    brief = cli(*words_of("figure_8", abstracts, "--set", "factkb=nobody/none")).out
    assert brief.splitlines()[-1].strip() == LEFT_OUT
    assert max(map(len, brief.splitlines())) <= 60
    spoken = " ".join(brief.split())
    assert all(" ".join(f"{head} {cell}".split()) in spoken for head, cell in zip(marked[0], marked[2], strict=True))
    assert not any(said in brief for said in ("|", "seed: 0", "command: "))
    shown = ("command: leakmeter study run figure_8", "seed: 0", "models: toy (weights not hashed", "6 of pubmedqa")
    assert all(said in table for said in shown), table
    rows = rows_of(path / "table.csv")
    assert [row["cid_lambda"] for row in rows] == list(LAMBDAS)
    for number, row in enumerate(rows):
        items = rows_of(path / f"cell-{number:02}.csv")
        assert [item["id"] for item in items] == [str(100 + i) for i in range(N_RECORDS)]
        nats = [float(item["whole_nats"]) for item in items]
        # The table is the statistics of the items, which are the losses that came with the drawing.
        assert float(row["nats"]) == mean(nats)
        interval = interval_of_mean(nats, seed=0)
        assert (float(row["nats_low"]), float(row["nats_high"])) == interval
        run = RunDirectory(Path("runs") / json.loads((path / f"cell-{number:02}.json").read_bytes())["run"])
        for (_, measurements), value in zip(cases_of_run(run), nats, strict=True):
            (loss,) = [r.values for r in measurements if r.statistic == "loss"]
            assert float(loss.sum()) == value
        assert {item["references"] for item in items} == {"Anna called."}
    assert rows[0]["difference_nats"] == ""
    assert float(rows[2]["difference_nats"]) == pytest.approx(float(rows[2]["nats"]) - float(rows[0]["nats"]))
    page = (path / "generations.html").read_text(encoding="utf-8")
    assert page.count('<details class="line"') == N_RECORDS
    assert page.count('<div class="text tokens"') == N_RECORDS * len(LAMBDAS)
    assert "Anna called." in page
    again = cli("study", "regurgitation", "--csv", path / "cell-00.csv", "--json")
    assert json.loads(again.out)["repeat_published"]["prompts"] == int(rows[0]["repeat_published"])


def test_a_study_costs_nothing_dry_or_finished(cli: Call, abstracts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = words_of("figure_8", abstracts)
    ended = cli(*short, "--dry-run")
    assert (ended.code, "nothing was measured" in ended.out, Path("runs").exists()) == (0, True, False)
    # What is left is said first, and `run` is the same command.
    ended = cli("study", "run", *short[1:], "--explain")
    assert ended.code == 0, ended.err
    first = ended.err.splitlines()[1]
    assert first == "0 of 3 cells are measured; 18 records are left"
    monkeypatch.setattr("leakmeter.engine.loading.load", None)
    # A command that was killed while it wrote the table, its process gone.
    left_over = study_of(Path("runs")) / "table.json.2999999999.cb1118d9af85c5e4.partial"
    left_over.touch()
    again = cli(*short, "--explain")
    assert (again.code, again.out, "are measured" in again.err) == (0, ended.out, False)
    assert not left_over.exists()
    assert (study_of(Path("runs")) / "table.md").exists()


@pytest.mark.long
def test_a_damaged_note_of_a_cell_costs_reading_its_run_again(cli: Call, abstracts: Path) -> None:
    assert cli(*words_of("figure_8", abstracts)).code == 0
    path = study_of(Path("runs"))
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    for number, content in enumerate((b"", b'{"model": "toy", "run": 1}', b"[]")):
        (path / f"cell-{number:02}.json").write_bytes(content)
    assert cli(*words_of("figure_8", abstracts)).code == 0
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert len(list(Path("runs").glob("decode-*"))) == len(LAMBDAS)


def test_the_figure_is_drawn_or_asked_for(cli: Call, abstracts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "matplotlib", None)
        ended = cli(*words_of("figure_8", abstracts))
        assert ended.code == 0
        assert "charts need matplotlib, which is not installed: pip install matplotlib\n" in ended.err
        assert not (study_of(Path("runs")) / "figure.png").exists()
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert cli(*words_of("figure_8", abstracts)).code == 0
    assert (study_of(Path("runs")) / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (study_of(Path("runs")) / "figure.svg").read_bytes()


def test_pieces_are_placed_by_their_first_tokens(cli: Call, abstracts: Path) -> None:
    ended = cli(*words_of("figure_3", abstracts))
    assert ended.code == 0, ended.err
    rows = rows_of(study_of(Path("runs")) / "table.csv")
    blocks = [int(row["first_token"]) for row in rows if row["unit"] == "ngram:32"]
    assert blocks == [32 * i for i in range(len(blocks))]
    assert "peak" in ended.out


@pytest.mark.long
def test_a_study_that_is_killed_ends_like_one_left_alone(abstracts: Path, tmp_path: Path) -> None:
    # A cell of it has a part for each record; those of drawn responses have several records in one.
    settings = ("model=toy", "max_new_tokens=3", "records=3")
    words = ["study", "run", "figure_3", "--data", str(abstracts), *(w for one in settings for w in ("--set", one))]
    command = [sys.executable, str(TESTS / "helpers" / "nursery.py"), str(tmp_path), "20", "3", *words]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert (told["wrong"], told["killed"]) == (None, 20)
    # Kills came at different moments, some of them in the midst of a cell.
    assert len(set(told["parts"])) > 3
    for number in range(told["studies"]):
        out = tmp_path / str(number)
        assert len(list(out.glob("*/measurements-*.parquet"))) == 3 * 4
        calm = tmp_path / "calm"
        assert sorted(p.name for p in out.iterdir()) == sorted(p.name for p in calm.iterdir())
        one, other = ({p.name: p.read_bytes() for p in study_of(folder).iterdir()} for folder in (calm, out))
        assert one == other
        assert exported(calm) == exported(out)


def exported(out: Path) -> dict[str, bytes]:
    """Every run under a directory in its canonical form."""
    found: dict[str, bytes] = {}
    for run in sorted(path for path in out.iterdir() if not path.name.startswith("study-")):
        with tempfile.TemporaryDirectory() as made:
            write(run, Path(made))
            found |= {f"{run.name}/{file.name}": file.read_bytes() for file in Path(made).iterdir()}
    return found


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--set", "records"], "--set records is not NAME=VALUE"),
        (["--set", "colour=red"], "no setting of a study named 'colour'"),
        (["--data", "cnn_dm=x.json"], "does not name its data set; write NAME=FILE"),
        (["--size", "huge"], "no size named 'huge'"),
    ],
)
def test_what_cannot_be_used_is_one_line(cli: Call, abstracts: Path, more: list[str], told: str) -> None:
    nowhere = ("study", "figure_8", "--data", "nowhere.json", "--set", "model=toy")
    no_file = "data file 'nowhere.json' cannot be read: No such file or directory\n"
    for words, said in ((words_of("figure_8", abstracts, *more), told), (nowhere, no_file)):
        ended = cli(*words)
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert said in ended.err
        assert not Path("runs").exists()


def test_replicates_have_a_table_over_seeds(cli: Call, abstracts: Path) -> None:
    ended = cli(*words_of("figure_2c", abstracts, "--set", "replicates=3"))
    assert ended.code == 0, ended.err
    assert "\nOver seeds\n" in ended.out
    path = study_of(Path("runs"))
    rows, seeds = rows_of(path / "table.csv"), rows_of(path / "seeds.csv")
    assert {(int(row["position"]), int(row["n"])) for row in rows} == {(i, N_RECORDS) for i in range(12)}
    own = [float(row["nats"]) for row in rows if row["position"] == "4"]
    (row,) = [row for row in seeds if (row["position"], row["value"]) == ("4", "nats")]
    assert len(set(own)) == 3
    assert float(row["mean"]) == pytest.approx(statistics.mean(own), rel=1e-12)
    assert float(row["mean_std"]) == pytest.approx(statistics.stdev(own), rel=1e-12)
    assert (float(row["least"]), float(row["most"]), row["n_seeds"]) == (min(own), max(own), "3")


def test_studies_that_ship_are_listed(cli: Call) -> None:
    rows = {row["name"]: row for row in map(json.loads, cli("study", "list", "--json").out.splitlines())}
    assert list(rows) == shipped()
    row = rows["icl_figure_3"]
    assert row["data"] == ["agnews", "agnews.train", "dbpedia14", "dbpedia14.train", "trec", "trec.train"]
    assert (row["laptop"], row["paper"]) == ({"cells": 15, "records": 100}, {"cells": 45, "records": 500})
    shown = cli("study", "list").out
    assert all(name in shown for name in rows)


@pytest.fixture
def moods(cli: Call) -> list[str]:
    """A study of exemplars of an invented task in this directory, with the toy model."""
    Path("mood.toml").write_text('labels = ["Glad", "Sad"]\n[fields]\nsaid = "Said"\n', encoding="utf-8")
    for name, n in (("new", 9), ("old", 6)):
        lines = "".join(f"{name} {i} ha,{('Glad', 'Sad')[i % 2]}\n" for i in range(n))
        Path(f"{name}.csv").write_text(f"said,label\n{lines}", encoding="utf-8")
    data = ("--data", "mood.toml=new.csv", "--data", "mood.toml.train=old.csv")
    settings = ("model=toy", "dataset=mood.toml", "label_scoring=whole-sequence")
    return [*data, *(part for one in settings for part in ("--set", one))]


@pytest.mark.parametrize("name", few(["icl_figure_1", "icl_figure_4"]))
def test_a_study_of_exemplars(cli: Call, moods: list[str], name: str) -> None:
    ended = cli("study", name, *moods, "--out", "one", "--explain")
    assert ended.code == 0, ended.err
    assert "mood.toml: 9 queries are available, and the study asks for 100; all are used" in ended.err
    path = study_of(Path("one"))
    table = (path / "table.md").read_text(encoding="utf-8")
    for said in ("seeds of queries and exemplars: 0 and 0", "queries: 9 of mood.toml", "Pairs", "Holm"):
        assert said in ended.out
        assert said in table
    rows, items = rows_of(path / "table.csv"), rows_of(path / "cell-00.csv")
    pairs = rows_of(path / "comparisons.csv")
    assert len(items) == 9 * 4
    if name == "icl_figure_1":
        assert [row["exemplar_position"] for row in rows] == ["1", "2", "3", "4"]
        of_first = [float(item["exemplar_loss_nats"]) for item in items if item["exemplar_position"] == "1"]
        assert float(rows[0]["position_nats"]) == pytest.approx(mean(of_first), abs=1e-12)
        assert len(pairs) == 6
    else:
        assert [row["calibration"] for row in rows] == ["none", "blank"]
        of_queries = {item["id"]: float(item["loss_nats"]) for item in items}
        assert float(rows[0]["loss_nats"]) == pytest.approx(mean(list(of_queries.values())), abs=1e-12)
        (pair,) = pairs
        assert (pair["calibration"], pair["less"], pair["n"]) == ("blank", "none", "9")
    assert not (path / "generations.html").exists()
    # The same seed gives the same bytes.
    assert cli("study", name, *moods, "--out", "two", "--explain").out == ended.out
    one, two = ({file.name: file.read_bytes() for file in study_of(Path(out)).iterdir()} for out in ("one", "two"))
    assert one == two


def test_a_dry_run_of_exemplars_predicts_a_group(cli: Call, moods: list[str]) -> None:
    ended = cli("study", "icl_figure_3", *moods, "--set", "shots=1", "--set", "shots=2", "--dry-run")
    assert ended.code == 0, ended.err
    assert "from the first 8 queries of each" in " ".join(ended.out.split())
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--set", "shots=9"], "needs 9 exemplars, and there are 6 besides the query itself"),
        (["--data", "trec=x.csv"], "--data names 'trec', which this study does not use"),
        (["--data", "old.csv"], "does not name its data set; write NAME=FILE, where NAME is one of agnews, agnews."),
    ],
)
def test_what_exemplars_cannot_be_is_one_line(cli: Call, moods: list[str], more: list[str], told: str) -> None:
    ended = cli("study", "icl_figure_1", *moods, *more)
    assert ended.code == 2
    (error,) = [line for line in ended.err.splitlines() if line.startswith("leakmeter: ")]
    assert told in error
    assert not list(Path(".").glob("runs/icl-*"))


def test_hints_say_how_a_study_is_told(cli: Call, moods: list[str]) -> None:
    """Labels that begin with the same token: `leakmeter icl` has an option for that, a study a setting."""
    Path("mood.toml").write_text('labels = ["Glad", "Gloomy"]\n[fields]\nsaid = "Said"\n', encoding="utf-8")
    for name in ("new", "old"):
        Path(f"{name}.csv").write_text("said,label\n" + "ha,Glad\nho,Gloomy\n" * 4, encoding="utf-8")
    words, hint = ["study", "icl_figure_1", *moods[:-2]], "give --set label_scoring=whole-sequence\n"
    ended = cli(*words)
    assert (ended.code, ended.err.splitlines()[-1] + "\n") == (2, f"leakmeter: {SAME_TOKEN}; {hint}")
    assert f"{SAME_TOKEN}; {hint}" in cli(*words, "--dry-run").err
    assert cli(*words, *moods[-2:]).code == 0
    data = {"mood.toml": "new.csv", "mood.toml.train": "old.csv"}
    settings = {"model": "toy", "dataset": "mood.toml"}
    with pytest.raises(UsageError, match=re.escape("give settings={'label_scoring': 'whole-sequence'}")):
        leakmeter.study("icl_figure_1", data=data, settings=settings, out="again")


def test_the_call_that_made_a_study_makes_it_again(moods: list[str]) -> None:
    data = {"mood.toml": "new.csv", "mood.toml.train": "old.csv"}
    settings = {"model": "toy", "dataset": "mood.toml", "label_scoring": "whole-sequence", "queries": [2, 3]}
    made = leakmeter.study("icl_figure_1", data=data, settings=settings, dtype="float64").path
    command = json.loads((made / "table.json").read_bytes())["command"]
    assert eval(command, {"leakmeter": leakmeter}).path == made  # noqa: S307 - what the study wrote


WORDS = [f"w{i}" for i in range(40)]
HEADING = ("generations", "contexts", "references")
ROWS = [
    (" ".join(WORDS[:30]), " ".join(WORDS), "w1 w2"),
    ("nothing of it", " ".join(WORDS), "nothing"),
    ('quotes "here"\nand lines', "quotes and\nlines", 'say "x"'),
    ("", "something", "some"),
]


@pytest.fixture
def generations(tmp_path: Path) -> Callable[..., Path]:
    """A CSV file of rows under a heading."""

    def write(rows: Sequence[Sequence[str]] = ROWS, heading: Sequence[str] = HEADING) -> Path:
        path = tmp_path / "generations.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([heading, *rows])
        return path

    return write


def test_published_outputs_are_counted(cli: Call, generations: Callable[..., Path]) -> None:
    ended = cli("study", "regurgitation", "--csv", generations(), "--json")
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    hits = {"repeat_published": 1, "repeat_stated": 2, "rouge_published": 2, "rouge_stated": 2}
    assert told["n"] == 4
    assert {name: told[name]["prompts"] for name in hits} == hits
    assert told["repeat_published"]["share"] == 0.25
    # ROUGE-L F1: 2·2/32, 2/4, 0 and 0 for no words.
    assert told["rouge_l_f1"]["mean"] == pytest.approx((4 / 32 + 0.5) / 4)
    table = cli("study", "regurgitation", "--csv", generations()).out
    assert "Repeat prompts, as published" in table
    assert "4 responses" in table
    # A long context is no matter.
    long = cli("study", "regurgitation", "--csv", generations([("a b", "a " * 200_000, "a")]), "--json")
    assert json.loads(long.out)["n"] == 1


def test_published_outputs_as_json_lines(cli: Call, generations: Callable[..., Path]) -> None:
    lines = [json.dumps(dict(zip(HEADING, row, strict=True))) for row in ROWS]
    Path("outputs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    ended = cli("study", "regurgitation", "--csv", "outputs.jsonl", "--json")
    assert (ended.code, ended.out) == (0, cli("study", "regurgitation", "--csv", generations(), "--json").out)
    for written, told in (
        (
            '{"prediction": "a", "contexts": "b"}',
            "data file 'bad.jsonl' has no column 'generations'; it has 'prediction'",
        ),
        (f'{lines[0]}\n{{"generations": "a"}}', "line 2 has no column 'contexts'; it has 'generations'"),
        ('{"generations": ["a"], "contexts": "b"}', "line 1: 'generations' is no text"),
        ("", "bad.jsonl"),
    ):
        Path("bad.jsonl").write_text(written, encoding="utf-8")
        ended = cli("study", "regurgitation", "--csv", "bad.jsonl")
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert told in ended.err


def test_thresholds_are_options(cli: Call, generations: Callable[..., Path]) -> None:
    for option, value, name, hits in (
        ("--repeat-words", 30, "repeat_published", 0),
        ("--repeat-share", 1.0, "repeat_stated", 1),
        ("--rouge", 0.99, "rouge_published", 2),
    ):
        told = json.loads(cli("study", "regurgitation", "--csv", generations(), option, value, "--json").out)
        assert told[name]["prompts"] == hits, option
    ended = cli("study", "regurgitation", "--csv", generations(), "--rouge", 2)
    assert ended.code == 2
    assert "rouge is 2.0; it has to be from 0 to 1" in ended.err


@pytest.mark.parametrize("missing", HEADING)
def test_a_missing_column_is_one_line_that_names_it(cli: Call, generations: Callable[..., Path], missing: str) -> None:
    heading = [name if name != missing else "other" for name in HEADING]
    ended = cli("study", "regurgitation", "--csv", generations(heading=heading), "--json")
    assert (ended.code, ended.err.count("\n")) == (0 if missing == "references" else 2, 1)
    assert f"has no column '{missing}'" in ended.err
    assert ended.code or "rouge_l_f1" not in json.loads(ended.out)


def test_an_interrupted_count(cli: Call, generations: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts, lines = Regurgitation.verdicts, list[str]()

    def verdicts_and_end(self: Regurgitation, response: str, context: str) -> dict[str, bool]:
        if response == ROWS[2][0]:
            raise KeyboardInterrupt
        return verdicts(self, response, context)

    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "tell", lines.append)
    monkeypatch.setattr(Regurgitation, "verdicts", verdicts_and_end)
    ended = cli("study", "regurgitation", "--csv", generations())
    assert ended.code == 130
    assert "Interrupted: 2 of 4 responses are measured, and all numbers here are for these." in ended.out
    assert "50.00" in ended.out
    assert ended.err == "leakmeter: interrupted; nothing is kept, and the same command starts again\n"
    assert [line.partition(" · under")[0] for line in lines] == [
        f"responses: {n} of 4 · 1 repeat their contexts, as published" for n in (1, 2)
    ]


def test_quality_models_that_are_not_at_hand_are_left_out(cli: Call, generations: Callable[..., Path]) -> None:
    ended = cli("study", "regurgitation", "--csv", generations(), "--factkb", "nobody/none", "--json")
    assert ended.code == 0
    assert ended.err.startswith("left out: FactKB needs the model 'nobody/none'")
    assert "factkb" not in json.loads(ended.out)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty; expected a heading and rows"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"generations,contexts\n", "has a heading and no rows"),
        (b"generations,contexts\na\n", "line 2: a row of 1 cells under a heading of 2"),
        (b'generations,contexts\n"a,b\n', "line 2"),
        (b"generations,contexts\n\xff,b\n", "is not UTF-8: byte 0xff at offset 21"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_file_is_one_line(cli: Call, tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "bad.csv"
    if content is not None:
        path.write_bytes(content)
    ended = cli("study", "regurgitation", "--csv", path)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert told in ended.err
