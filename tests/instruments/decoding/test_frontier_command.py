"""Sweeps of the toy model, by command and from Python: numbers of runs, the same bytes again, nothing done twice."""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakmeter
from helpers.command_line import assert_refused
from helpers.places import TESTS
from helpers.toy_chat import ToyChat
from leakmeter.commands.studies import quality
from leakmeter.engine.storage.parts import cases_of_run
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.errors import DataError
from leakmeter.privacy.draws import SEED_WARNING
from leakmeter.stats.stats import interval_of_mean, interval_of_mean_difference, mean
from leakmeter.text.overlap import rouge_l

pytestmark = pytest.mark.usefixtures("undrawn")

Call = Callable[..., Any]
N_CASES = 5
SWEPT = {"lambda": ("0.0", "0.5", "1.5"), "epsilon": ("0.5", "2.0", "8.0")}
COLUMN = {"lambda": "cid_lambda", "epsilon": "epsilon"}
kinds = pytest.mark.parametrize("kind", ["epsilon", pytest.param("lambda", marks=pytest.mark.long)])


def invented() -> list[dict[str, Any]]:
    rng = random.Random(0)
    words = "the ferry cat sat on mat Anna Ek called and rain fell in Graz".split()  # noqa: SIM905
    return [
        {
            "id": f"c{i}", "context": " ".join(rng.choices(words, k=12)), "query": "Who called?",
            "reference": f"the {rng.choice(words)} {rng.choice(words)} a e i o u",
        }
        for i in range(N_CASES)
    ]  # fmt: skip


def write_cases(path: Path, cases: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, cases)), encoding="utf-8")
    return path


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    return write_cases(tmp_path / "cases.jsonl", invented())


def words_of(data: Path, kind: str, *more: object) -> list[object]:
    words = ["decode", "frontier", "--data", data, "--model", "toy", "--max-new-tokens", 8]
    return [*words, f"--{kind}", *SWEPT[kind], *more]


def swept(ended: Any, out: str = "runs") -> Path:
    """Where a sweep that went well is kept."""
    assert ended.code == 0, ended.err
    (path,) = Path(out).glob("frontier-*")
    return path


def json_of(path: Path) -> Any:
    return json.loads(path.read_bytes())


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.glob("frontier-*/*")}


@kinds
def test_the_table_is_the_statistics_of_the_runs(
    cli: Call, cases: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Five cases have intervals here.
    monkeypatch.setattr("leakmeter.stats.stats.FEWEST_FOR_INTERVAL", N_CASES)
    ended = cli(*words_of(cases, kind, "--samples", 2))
    path = swept(ended)
    assert path.stat().st_mode & 0o777 == 0o700
    rows = rows_of(path / "table.csv")
    assert [row[COLUMN[kind]] for row in rows] == list(SWEPT[kind])
    scores = []
    for row, value in zip(rows, SWEPT[kind], strict=True):
        items = rows_of(path / f"{kind}-{value}.csv")
        assert [(item["id"], item["sample"]) for item in items] == [(f"c{i}", str(j)) for i in range(5) for j in (0, 1)]
        run = RunDirectory(Path("runs") / json_of(path / f"{kind}-{value}.json")["run"])
        sums: dict[str, list[float]] = defaultdict(list)
        for measurement in (measurement for _, found in cases_of_run(run) for measurement in found):
            sums[measurement.statistic].append(float(measurement.values.sum()))
        losses = sums["loss"]
        assert [float(item["whole_nats"]) for item in items] == losses
        # Responses of a case are averaged first: it is over cases that intervals are taken.
        nats = np.reshape(losses, (N_CASES, 2)).mean(axis=1)
        assert float(row["nats"]) == pytest.approx(mean(nats), rel=1e-14)
        interval = (float(row["nats_low"]), float(row["nats_high"]))
        assert interval == pytest.approx(interval_of_mean(nats, seed=0), rel=1e-14)
        rouge = np.reshape([rouge_l(item["generations"], item["references"]).f1 for item in items], (N_CASES, 2))
        scores.append(rouge.mean(axis=1))
        assert float(row["rouge_l_f1"]) == pytest.approx(mean(scores[-1]), rel=1e-14)
        if kind == "epsilon":
            spent, promised = sums["spent_epsilon"], sums["promised_epsilon"]
            assert (float(row["spent_nats_most"]), float(row["guaranteed_nats_most"])) == (max(spent), max(promised))
            assert max(spent) <= max(promised) == 8 * float(value)
            # A token's loss is at most half of what it spends.
            assert all(2 * loss <= one + 1e-12 for loss, one in zip(losses, spent, strict=True))
    told = json_of(path / "frontier.json")
    choice = told["choices"]["rouge_l_f1"]
    best = [row[COLUMN[kind]] for row in told["settings"]].index(choice["best"])
    assert scores[best].mean() == pytest.approx(max(score.mean() for score in scores), rel=1e-14)
    for row, score in zip(rows, scores, strict=True):
        if score is scores[best]:
            assert row["rouge_l_f1_less_best"] == ""
            continue
        assert float(row["rouge_l_f1_less_best"]) == pytest.approx(float((score - scores[best]).mean()), rel=1e-12)
        ends = [row[f"rouge_l_f1_less_best{end}"] for end in ("_low", "_high")]
        # What is drawn may differ by as much in all cases: then there is no interval.
        of_difference = interval_of_mean_difference(score, scores[best], seed=0)
        if of_difference is None:
            assert ends == ["", ""]
        else:
            assert list(map(float, ends)) == pytest.approx(of_difference, rel=1e-12)
    assert choice["sentence"] in " ".join(ended.out.split())
    assert choice["sentence"] in (path / "table.md").read_text(encoding="utf-8")
    assert sum(row["rouge_l_f1_knee_share"] for row in told["settings"]) + choice["no_knee_share"] == pytest.approx(1.0)


def test_every_setting_draws_with_the_same_numbers(cli: Call, cases: Path) -> None:
    """Neighbours that mix alike then say the same: what differs between settings comes from the settings."""
    path = swept(cli(*words_of(cases, "lambda", "1.5000000001", "--records", 2)))
    one, two = (rows_of(path / f"lambda-{value}.csv") for value in ("1.5", "1.5000000001"))
    assert [item["generations"] for item in one] == [item["generations"] for item in two]


@pytest.mark.long
def test_the_same_command_gives_the_same_bytes(cli: Call, cases: Path) -> None:
    for kind, out in [("lambda", "one"), ("lambda", "two"), ("epsilon", "bounded-one"), ("epsilon", "bounded-two")]:
        swept(cli(*words_of(cases, kind, "--out", out)), out)
    assert contents(Path("one")) == contents(Path("two")) != {}
    # With a bound the seed is drawn, and kept: another directory draws anew, this one does not.
    one, two = contents(Path("bounded-one")), contents(Path("bounded-two"))
    assert one["secret.json"] != two["secret.json"]
    assert one["epsilon-8.0.csv"] != two["epsilon-8.0.csv"]
    assert sorted(one) == sorted(two)
    swept(cli(*words_of(cases, "epsilon", "--out", "bounded-one")), "bounded-one")
    assert contents(Path("bounded-one")) == one


@pytest.mark.long
@kinds
def test_a_finished_sweep_loads_no_model_and_a_longer_one_only_measures_what_is_new(
    cli: Call, cases: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stamps() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in Path("runs").glob("decode-*/measurements-*.parquet")}

    swept(cli(*words_of(cases, kind)))
    before = stamps()
    with monkeypatch.context() as patched:
        patched.setattr("leakmeter.engine.loading.load", None)
        swept(cli(*words_of(cases, kind)))
    path = swept(cli(*words_of(cases, kind, "4")))
    assert len(rows_of(path / "table.csv")) == 4
    after = stamps()
    assert {path: after[path] for path in before} == before
    # Responses are drawn together, save under ε.
    assert len(after) == 4 * (N_CASES if kind == "epsilon" else 1)
    if kind == "epsilon":
        told = [json_of(spec)["params"] for spec in Path("runs").glob("decode-*/spec.json")]
        assert {(one["nonce"], one["seed"]) for one in told} == {(json_of(path / "secret.json")["nonce"], None)}


@pytest.mark.long
def test_a_sweep_killed_again_and_again_ends_like_one_left_alone(cases: Path, tmp_path: Path) -> None:
    # With a seed: of what the operating system draws, two sweeps have nothing in common.
    words = map(str, words_of(cases, "epsilon", "--seed", 5))
    command = [sys.executable, str(TESTS / "helpers" / "nursery.py"), str(tmp_path), "5", "3", *words]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert (told["wrong"], told["killed"]) == (None, 5)
    for number in range(told["studies"]):
        out = tmp_path / str(number)
        assert len(list(out.glob("*/measurements-*.parquet"))) == N_CASES * 3
        assert contents(out) == contents(tmp_path / "calm") != {}


def test_a_named_data_set_is_cut_and_framed_as_the_paper_has_it(cli: Call, tmp_path: Path) -> None:
    records = {str(i): {"QUESTION": "Who?", "CONTEXTS": ["Anna sang."], "LONG_ANSWER": "Anna."} for i in range(4)}
    path = tmp_path / "abstracts.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    words = ("--data", f"pubmedqa={path}", "--records", 3, "--model", "toy", "--lambda", "0.5", "1")
    table = swept(cli("decode", "frontier", *words, "--max-new-tokens", 3)) / "table.csv"
    assert rows_of(table)[0]["n"] == "3"
    for spec in Path("runs").glob("decode-*/spec.json"):
        prompts = json_of(spec)["prompts"]
        assert (prompts["template"], prompts["max_context_tokens"], prompts["truncate"]) == ("document", 2048, True)


def test_kinds_have_values_of_their_own(cli: Call, cases: Path) -> None:
    words = ("decode", "frontier", "--data", cases, "--records", 2, "--model", "toy", "--max-new-tokens", 2)
    told = json.loads(cli(*words, "--json", "--epsilon").out)
    assert [row["epsilon"] for row in told["settings"]] == [0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0]
    assert all(row["guaranteed_nats_most"] <= 2 * row["epsilon"] for row in told["settings"])
    # One sweep, in whatever order and however often its values are given; λ = 0 tells nothing.
    for values in (("1", "0", "2"), ("2", "1", "0.0", "1")):
        ended = cli(*words, "--lambda", *values, "--json")
        nats = [row["nats"] for row in json.loads(ended.out)["settings"]]
        assert nats[0] == pytest.approx(0.0, abs=1e-14)
        assert nats[2] > nats[1] > 0.0
    assert len(list(Path("runs").glob("decode-*"))) == 7 + 3


def test_the_figure_and_page_are_drawn_or_asked_for(cli: Call, cases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "matplotlib", None)
        ended = cli(*words_of(cases, "lambda"))
        path = swept(ended)
        assert "charts need matplotlib, which is not installed: pip install matplotlib\n" in ended.err
        assert not (path / "figure.png").exists()
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    page = Path("frontier.html")
    assert swept(cli(*words_of(cases, "lambda", "--html", page))) == path
    assert (path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (path / "figure.svg").read_bytes()
    text = page.read_text(encoding="utf-8")
    assert text.index('class="finding"') < text.index("What to do") < text.index("<svg") < text.index("<table")
    assert page.stat().st_mode & 0o777 == 0o600
    assert cli(*words_of(cases, "lambda", "--html", cases)).code == 2


def test_secrets_are_neither_printed_nor_written_but_where_they_belong(cli: Call, cases: Path) -> None:
    words = [*words_of(cases, "epsilon"), "--records", 2]
    seeded, drawn = cli(*words, "--seed", 987654321), cli(*words, "--out", "drawn")
    assert seeded.err.splitlines()[0] == SEED_WARNING
    paths = swept(seeded), swept(drawn, "drawn")
    assert not (paths[0] / "secret.json").exists()
    for ended, seed in ((seeded, "987654321"), (drawn, str(json_of(paths[1] / "secret.json")["nonce"]))):
        assert seed not in ended.out + ended.err
        for path in paths:
            for name in ("table.md", "table.csv", "frontier.json", "figure.svg"):
                assert seed.encode() not in (path / name).read_bytes()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((), "nothing to sweep; give one of lambda and epsilon"),
        (("--lambda", "1", "--epsilon", "1"), "lambda and epsilon do not go together"),
        (("--lambda", "much"), 'Invalid value for --lambda: unable to convert "much" into float'),
        (("--epsilon", "501"), "epsilon is 501.0 for a token; it has to be above 0 and at most 500"),
        (("--epsilon", "1", "--dtype", "bfloat16"), "dtype is 'bfloat16'; epsilon is certified from logits"),
        (("--lambda", "1", "--lambda-max", "2"), "lambda-max needs a bound"),
        (("--lambda", "1", "--records", "0"), "records is 0; it has to be 1 or more"),
        (("--lambda", "1", "--template", "nonesuch"), "no template named 'nonesuch'"),
    ],
)
def test_what_cannot_be_swept_is_one_line(cli: Call, cases: Path, more: tuple[str, ...], told: str) -> None:
    assert_refused(cli("decode", "frontier", "--data", cases, "--model", "toy", *more), told)
    assert not list(Path().glob("runs/decode-*"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"reference": None}, "case 'c4' of '{}' has no 'reference' (the text of a good response)"),
        ({"reference": "  "}, "case 'c4' of '{}' has no 'reference'"),
        ({"reference": 3}, "{}, line 5: 'reference' is a number, expected text"),
        ({"response": "Anna"}, "case 'c4' of '{}' has a response, but this command draws responses; leave it out"),
        ({"context": None}, "{}, line 5: it has neither 'context', the retrieved texts, nor"),
        (None, "holds no case"),
    ],
)
def test_cases_that_cannot_be_used_are_one_line(
    cli: Call, tmp_path: Path, changes: dict[str, Any] | None, told: str
) -> None:
    *others, last = invented()
    changed = {name: value for name, value in {**last, **(changes or {})}.items() if value is not None}
    data = write_cases(tmp_path / "cases.jsonl", [] if changes is None else [*others, changed])
    assert_refused(cli("decode", "frontier", "--data", data, "--model", "toy", "--lambda"), told.format(data))
    assert not Path("runs").exists()


def test_a_dry_run_tells_the_whole_sweep_and_writes_nothing(cli: Call, cases: Path) -> None:
    dry = [cli(*words_of(cases, "lambda", *more, "--dry-run", "--json")).out for more in ((), ("2", "3", "4"))]
    one, all_ = (json.loads(told)["tree_tokens"] for told in dry)
    assert all_ == 2 * one > 0
    ended = cli(*words_of(cases, "epsilon", "--dry-run"))
    assert "nothing was measured" in ended.out
    assert f"3 settings, 5 cases: at most {one:,} tokens" in ended.out
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("n", "values", "told"),
    [(1, ("0", "1"), "1 case cannot tell"), (5, ("0", "1"), "5 cases cannot tell"), (5, ("1",), "one setting")],
)
def test_too_few_cases_or_a_single_setting_are_measured_and_recommend_nothing(
    cli: Call, cases: Path, n: int, values: tuple[str, ...], told: str
) -> None:
    words = ("--data", cases, "--records", n, "--model", "toy", "--max-new-tokens", 4)
    ended = cli("decode", "frontier", *words, "--lambda", *values)
    assert told in ended.out
    text = (swept(ended) / "frontier.json").read_text(encoding="utf-8")
    choice = json.loads(text)["choices"]["rouge_l_f1"]
    assert (choice["ship"], choice["knee"], choice["no_knee_share"]) == (None, None, None)
    assert "NaN" not in text


CASES = [
    {"id": f"c{i}", "context": f"the ferry {word} sat on the mat", "query": "Who?", "reference": f"{word} a e i"}
    for i, word in enumerate(("cat", "Anna", "rain"))
]


def test_python_and_the_command_line_agree(cli: Call) -> None:
    found = leakmeter.frontier("toy", CASES, lambdas=[0, 1, 2], max_new_tokens=6, samples=2, temperature=0.7)
    assert repr(found) == f"<Frontier of 3 settings: {found.recommendation}>"
    assert os.listdir() == []
    words = ("--data", write_cases(Path("cases.jsonl"), CASES), "--model", "toy", "--lambda", 0, 1, 2)
    ended = cli("decode", "frontier", *words, "--max-new-tokens", 6, "--samples", 2, "--temperature", 0.7)
    told = json_of(swept(ended) / "frontier.json")
    mine = json.loads(found.to_json())
    del told["model"]["memory_bytes"]
    assert mine == told
    assert found.to_frame()["nats"].tolist() == [row["nats"] for row in told["settings"]]
    assert found.recommendation == told["choices"]["rouge_l_f1"]["sentence"]


def test_bounds_draw_anew_unless_seeded(capsys: pytest.CaptureFixture[str]) -> None:
    def told(seed: int | None) -> list[Any]:
        found = leakmeter.frontier("toy", CASES[:2], epsilons=[8.0], max_new_tokens=6, seed=seed)
        return [row["nats"] for row in found.settings]

    assert told(None) != told(None)
    assert capsys.readouterr().err == ""
    assert told(5) == told(5)
    assert capsys.readouterr().err == f"{SEED_WARNING}\n" * 2


@pytest.mark.long
def test_bertscore_without_its_model_is_left_out_in_one_line(cli: Call, cases: Path) -> None:
    words = ("--data", cases, "--records", 2, "--model", "toy", "--max-new-tokens", 2, "--lambda", "1")
    ended = cli("decode", "frontier", *words, "--bertscore", "nobody/none")
    assert ended.code == 0
    (line,) = [line for line in ended.err.splitlines() if "bertscore" in line]
    assert line.startswith("bertscore_f1 is left out: BERTScore needs ")
    assert "BERTScore" not in ended.out


def test_bertscore_is_a_utility_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an encoder at hand; here one that counts letters."""

    def scored(responses: list[str], references: list[str], model: str, *, layer: int | None) -> list[float]:
        assert (model, layer) == ("counts", None)
        return [len(response) / 100.0 for response in responses]

    monkeypatch.setattr(quality, "bertscore_f1", scored)
    found = leakmeter.frontier("toy", CASES, lambdas=[0, 2], max_new_tokens=6, bertscore="counts")
    assert set(found.choices) == {"rouge_l_f1", "bertscore_f1"}
    assert found.settings[0]["bertscore_f1"] > 0
    assert [line.partition(":")[0] for line in found.recommendation.splitlines()] == ["ROUGE-L F1", "BERTScore F1"]


def test_what_is_context_in_chats_can_be_said_in_both_doors(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [[{"role": "system", "content": f"Anna {i} called."}, {"role": "user", "content": "Who?"}] for i in range(2)]
    chats = [{"id": f"c{i}", "reference": "Anna a e i", "messages": one} for i, one in enumerate(said)]
    with pytest.raises(DataError, match="context_from='system'"):
        leakmeter.frontier(ToyChat(), chats, lambdas=[0, 1], max_new_tokens=2)
    found = leakmeter.frontier(ToyChat(), chats, lambdas=[0, 1], max_new_tokens=2, context_from="system")
    monkeypatch.setattr("leakmeter.engine.loading.load", lambda *given, **options: ToyChat())
    words = ("--data", write_cases(Path("cases.jsonl"), chats), "--model", "toy", "--lambda", 0, 1)
    ended = cli("decode", "frontier", *words, "--max-new-tokens", 2, "--context-from", "system")
    told = json_of(swept(ended) / "frontier.json")
    assert [row["nats"] for row in told["settings"]] == pytest.approx([row["nats"] for row in found.settings])
