"""`leakmeter generate`: settings with a guarantee; texts drawn, measured, judged and told with the toy model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import leakmeter
from helpers.command_line import as_options, assert_refused, lines_of, objects_of, without_seconds
from helpers.generation_items import Mistaken
from leakmeter.backends.toy import Toy
from leakmeter.errors import LeakmeterError
from leakmeter.instruments.generation import command as audit_command
from leakmeter.instruments.generation.calibration import rounded
from leakmeter.instruments.generation.command import Options
from leakmeter.instruments.generation.result import GenerationDraws, OwnMechanism, PrivateGenerationResult
from leakmeter.privacy.clipped_logits import Adjacency, Aggregation, average
from leakmeter.privacy.mechanism import BoundedCid, ClippedLogitAggregation
from leakmeter.privacy.rdp import guarantee
from leakmeter.results.results import Results
from leakmeter.stats.arrays import IntArray

Call = Callable[..., Any]
TICKETS = 'task = "tickets"\nexemplars = "tickets"\n'
TEXTS = [f"The ferry no. {i} sails at {i} to {'Aland' if i % 2 else 'Brac'}." for i in range(7)]


@pytest.fixture
def calibrate(cli: Call) -> Call:
    """`leakmeter generate calibrate` with the paper's settings; more options win, None drops one."""

    def call(free: str, target: object, *more: object, **named: object) -> Any:
        usual: dict[str, object] = {"clip": 10, "subset_size": 50, "temperature": 4.8 if free == "none" else 2}
        usual.pop(free.replace("-", "_"), None)
        return cli("generate", "calibrate", *as_options({"epsilon": target, "free": free} | usual | named), *more)

    return call


@pytest.mark.parametrize(
    ("free", "target", "printed", "order"),
    [("temperature", 10, "4.80", 3), ("clip", 5, "2.34", 5), ("subset-size", 50, "36", 2)],
)
def test_the_papers_settings_to_every_digit(
    calibrate: Call, free: str, target: float, printed: str, order: int
) -> None:
    """A row each of Tables 4, 5 and 6: target, setting as printed, and α*."""
    told = json.loads(calibrate(free, target, "--json").out)
    assert f"{told['value']:.{len(printed.partition('.')[2])}f}" == printed
    kept, replaced = told["guarantees"]["add-remove"], told["guarantees"]["replace-one"]
    assert kept["order"] == order
    assert kept["epsilon"] <= target
    voting = Aggregation(told["clip"], told["subset_size"], told["temperature"])
    for one, sensitivity in ((kept, voting.sensitivity()), (replaced, voting.sensitivity("replace-one"))):
        whole = guarantee(sensitivity, 2000, 1e-5)
        assert (one["epsilon"], one["order"], one["rdp_nats"]) == (whole.epsilon, whole.order, whole.rdp_nats)
        assert one["rdp_nats"] == pytest.approx(2000 * one["rdp_per_token_nats"])
        assert one["pure_epsilon"] == pytest.approx(2000 * one["max_per_token_nats"])
    assert replaced["rho"] == pytest.approx(4 * kept["rho"])


@pytest.mark.parametrize("free", ["temperature", "clip", "subset-size"])
@pytest.mark.parametrize(("adjacency", "how"), [("add-remove", "more or less"), ("replace-one", "replaced by another")])
def test_what_is_printed_keeps_the_guarantee(calibrate: Call, free: str, adjacency: Adjacency, how: str) -> None:
    ended = calibrate(free, 7.77, "--adjacency", adjacency)
    assert ended.code == 0, ended.err
    assert all(len(line) <= 80 for line in ended.out.splitlines())
    name, value = ended.out.split(":")[0].rsplit(" ", 1)
    settings = {"clip": 10.0, "subset-size": 50, "temperature": 2.0, name.lower().replace(" ", "-"): float(value)}
    voting = Aggregation(settings["clip"], int(settings["subset-size"]), settings["temperature"])
    kept = guarantee(voting.sensitivity(adjacency), 2000, 1e-5)
    said = " ".join(ended.out.split())
    told = float(said.split("guarantees ε = ")[1].split(" ")[0])
    assert kept.epsilon * (1 - 1e-9) <= told <= 7.77
    assert f"an exemplar {how}." in said


@given(st.floats(1e-9, 1e9), st.integers(1, 9))
def test_rounding_is_to_the_side_asked_for(value: float, digits: int) -> None:
    below, above = (float(rounded(value, digits, up=up)) for up in (False, True))
    assert below <= value <= above
    assert above - below <= 10.0 ** (1 - digits) * value * 1.0001


@pytest.mark.parametrize(
    ("free", "target", "more", "said"),
    [
        ("temperature", 0.05, {}, "cannot be guaranteed: with orders up to 100 the epsilon of every"),
        ("clip", 5, {"delta": 0}, "delta is 0.0; it has to be above 0 and below 1"),
        ("clip", -1, {}, "epsilon is -1; it has to be from 1e-09"),
        ("temperature", 5, {"clip": "nan"}, "clip is nan; it has to be above 0"),
        ("temperature", 5, {"subset_size": 1, "normalise_by": "present"}, "subset-size is 1; it has to be 2 or more"),
        ("temperature", 5, {"samples": -2, "max_new_tokens": -2}, "samples is -2; it has to be from 1"),
        ("temperature", 1e300, {}, "epsilon is 1e+300; it has to be from 1e-09 to 1e+09"),
        ("temperature", 5, {"clip": None}, "--free temperature needs --clip; give a value"),
        ("clip", 5, {"clip": 2}, "--clip is the setting that --free clip searches for; leave it out"),
        ("tau", 5, {}, 'Invalid value "tau" for --free. Choose from: "temperature", "clip", "subset-size".'),
    ],
)
def test_what_cannot_be_calibrated_is_one_line(calibrate: Call, free: str, target: float, more: Any, said: str) -> None:
    assert_refused(calibrate(free, target, **more), said)


def test_calibrating_loads_no_model() -> None:
    code = (
        "import sys\nfrom leakmeter.cli import main\n"
        "try: main('generate calibrate --epsilon 10 --free clip --subset-size 50 --temperature 2'.split())\n"
        "except SystemExit: pass\n"
        "print([name for name in ('torch', 'transformers', 'pyarrow', 'tokenizers') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A configuration, and texts beside it."""
    folder = tmp_path / "mine"
    folder.mkdir()
    notes = "".join(f"n{i},{text}\n" for i, text in enumerate(TEXTS))
    (folder / "notes.csv").write_text(f"id,note\n{notes}", encoding="utf-8")
    (folder / "generate.toml").write_text(
        'model = "toy"\nexemplars = "notes.csv"\ncolumn = "note"\ninstruction = "Write a notice."\n'
        "subset_size = 3\nepsilon = 8\nsamples = 4\nmax_new_tokens = 60\n",
        encoding="utf-8",
    )
    return folder / "generate.toml"


@pytest.fixture
def audit(cli: Call, mine: Path) -> Call:
    """`leakmeter generate --config …` with further options."""
    return lambda *more, **named: cli("generate", "--config", mine, *as_options(named), *more)


def test_the_sample_works_end_to_end(cli: Call) -> None:
    ended = cli("generate", "--model", "toy", "--max-new-tokens", 9, "--html", "audit.html", "--explain")
    assert ended.code == 0, ended.err
    # What the toy writes may hold characters of no width.
    assert all(cell_len(line) <= 80 for line in ended.out.split("\n"))
    said = " ".join(ended.out.split())
    assert said.startswith("No violation found: no measurement is above its bound.")
    for words in (
        *("never prove it", "Guarantee ε = 14.0 at δ = 1e-5, for up to 18 tokens", "exemplars of a batch 24"),
        "It is no guarantee: the length of a text is itself private.",
    ):
        assert words in said
    texts = resources.files("leakmeter.data.samples").joinpath("tickets.csv").read_text(encoding="utf-8")
    (result,) = leakmeter.load_run(next(Path("runs").glob("private_generation-*")))
    assert all(one.text.removeprefix("Ticket: ") in texts for one in result.exemplars)
    assert "guarantee against measurement" in Path("audit.html").read_text(encoding="utf-8")


def test_batches_of_a_configuration_are_audited_apart(audit: Call, capsys: pytest.CaptureFixture[str]) -> None:
    warning = "a seeded run has no guarantee unless the seed stays secret"
    how: dict[str, Any] = {"seed": 5, "max_new_tokens": 12}
    ended = audit("--json", **how)
    assert warning in ended.err
    cases, told = objects_of(ended)
    dry = json.loads(audit("--dry-run", "--json", **how).out)
    assert dry["at_most"] is True
    assert dry["tree_tokens"] >= sum(case["cost"]["tree_tokens"] for case in cases)
    assert [case["id"] for case in cases] == ["batch 1", "batch 2"]
    assert [[one["id"] for one in case["exemplars"]] for case in cases] == [["n0", "n1", "n2"], ["n3", "n4", "n5"]]
    assert (told["n_batches"], told["n_texts"], told["holds"]) == (2, 8, True)
    assert 8 - 1e-9 < told["guarantee"]["epsilon"] <= 8
    assert told["guarantee"]["n_tokens"] == 48
    for case in cases:
        assert len(case["samples"]) == case["n_samples"] == 4
        assert case["bounds"]["spent"]["n_tokens"] == sum(len(one["token_ids"]) for one in case["samples"])
    # From Python it is the same.
    made = leakmeter.generate("toy", TEXTS, instruction="Write a notice.", subset_size=3, epsilon=8, samples=4, **how)
    assert warning in capsys.readouterr().err
    texts = [[one["text"] for one in case["samples"]] for case in cases]
    assert [list(result.texts) for result in made] == texts
    assert texts[0] != texts[1]
    assert json.loads(json.dumps(made.summary.to_dict())) == told


def test_another_question_has_another_nonce(audit: Call) -> None:
    for n in (1, 2):
        objects_of(audit("--json", samples=1, max_new_tokens=n))
    nonces = {json.loads(path.read_bytes())["params"]["nonce"] for path in Path("runs").glob("*/spec.json")}
    assert len(nonces) == 2
    assert min(nonces) >= 2**96


def test_an_option_wins_over_its_key(audit: Call) -> None:
    (case,), told = objects_of(audit("--json", subset_size=7, samples=1, max_new_tokens=5, temperature=3, clip=2))
    used = {"name": "clipped-logit aggregation", "clip": 2.0, "temperature": 3.0, "normalise_by": "fixed"}
    assert (case["mechanism"], case["subset_size"], told["guarantee"]["n_tokens"]) == (used, 7, 5)


@pytest.mark.parametrize("seed", [None, pytest.param(5, marks=pytest.mark.long)])
def test_an_interrupted_audit_goes_on(audit: Call, monkeypatch: pytest.MonkeyPatch, seed: int | None) -> None:
    """With a seed it ends as if it had not been interrupted; without, what was left is drawn, and nothing twice."""
    given: dict[str, int] = {"max_new_tokens": 20, **({} if seed is None else {"seed": seed})}
    first, _ = objects_of(audit("--json", **given))
    (run,), kept = (list(Path("runs").glob(f"{name}-*")) for name in ("private_generation", "generate"))
    assert [path.stat().st_mode & 0o777 for path in kept] == ([0o700] if seed is None else [])
    stamps = {path.name: path.stat().st_mtime_ns for path in run.glob("measurements-*")}
    assert objects_of(audit("--json", **given))[0] == first
    assert len(stamps) >= 2
    gone = sorted(stamps)[len(stamps) // 2 :]
    for name in ("spec.json", *gone):
        (run / name).unlink()
    score, calls = Toy.score, iter(range(5))

    def interrupted(self: Toy, chunk: Any) -> Any:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return score(self, chunk)

    with monkeypatch.context() as patched:
        patched.setattr(Toy, "score", interrupted)
        ended = audit("--json", **given)
    assert ended.code == 130
    assert json.loads(lines_of(ended)[0]) == first[0]
    again, _ = objects_of(audit("--json", **given))
    same = [without_seconds(now) == without_seconds(then) for now, then in zip(again, first, strict=True)]
    assert same == [True, seed is not None]
    assert {path.name for path in Path("runs").iterdir()} == {path.name for path in (run, *kept)}
    assert all((run / name).stat().st_mtime_ns == stamps[name] for name in stamps.keys() - set(gone))


def test_only_what_may_be_published_is_told_in_public(audit: Call, cli: Call) -> None:
    # A seed of its own, so that what is drawn holds none of the words that are looked for.
    seed = 987654321987654321
    given = {"seed": seed, "max_new_tokens": 12}
    # Without one, a nonce would be kept: a prediction keeps none.
    assert audit("--dry-run", max_new_tokens=12).code == 0
    assert not Path("runs").exists()
    cases, _ = objects_of(audit("--json", **given))
    ended = audit("--public", "--json", "--html", "public.html", **given)
    told = [json.loads(line) for line in lines_of(ended)]
    assert told == [case["publishable"] for case in cases]
    # The seed's warning apart, nothing is said that depends on the exemplars.
    assert ended.err.splitlines()[1:] == ["run: in 'runs', and private, its name included", "report: public.html"]
    assert audit("--public", "--dry-run", **given).code == 2
    assert [one["texts"] for one in told] == [[each["text"] for each in case["samples"]] for case in cases]
    shown = audit("--public", **given).out
    (run,) = Path("runs").glob("private_generation-*")
    assert cli("report", run, "--public", "--html", "again.html").code == 0
    page = Path("public.html").read_text(encoding="utf-8")
    assert Path("again.html").read_text(encoding="utf-8") == page
    for said in (ended.out, shown, page):
        for secret in (str(seed), "Kept", "spent", "Spent", "(n0)", "ferry", "measured", run.name):
            assert secret not in said.split("</style>")[-1]
    assert cli("report", run, "--html", "private.html").code == 0
    assert "No violation found: no measurement" in Path("private.html").read_text(encoding="utf-8")


class OneHot(Toy):
    """Every prompt wants one of two tokens and nothing else, by where its ferry sails."""

    def logits(self, ids: IntArray, positions: IntArray) -> npt.NDArray[np.float64]:
        wanted = np.full(257, -40.0)
        wanted[97 + int(ord("B") in ids.tolist())] = 40.0
        return wanted


def test_a_broken_guarantee_is_named_and_is_exit_code_1(audit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakmeter.commands.options.RunOptions.load_backend", lambda self: OneHot())
    sound = audit(subset_size=7, max_new_tokens=5)
    assert sound.code == 0, sound.err
    assert sound.out.startswith("No violation found: ")
    # The clip is forgotten.
    monkeypatch.setattr(ClippedLogitAggregation, "vote", lambda self, rows: average(rows, self.aggregation))
    for path in Path("runs").glob("private_generation-*/*"):
        path.unlink()
    ended = audit(subset_size=7, max_new_tokens=5)
    assert ended.code == 1
    assert ended.out.startswith("Broken: a measurement is above its bound.")
    where = r"exemplar n\d, token \d of sample \d.* at order .*; and "
    assert re.match(f"leakmeter: a measurement exceeds its bound: {where}", ended.err.splitlines()[-1])
    public = audit("--public", subset_size=7, max_new_tokens=5)
    assert (public.code, public.out) == (1, "")
    assert "publish nothing from this run" in public.err
    assert "n0" not in public.err


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"subset_size": 8}, "8 exemplars are needed, and there are 7; give more of them, or a"),
        ({"batches": 3}, "3 times 3 exemplars are needed, and there are 7"),
        ({"epsilon": 0.01}, "epsilon 0.01 at delta 1e-05 cannot be guaranteed"),
        ({"epsilon": 1, "temperature": 1}, "epsilon and temperature are given together; give one of epsilon, temp"),
        ({"dtype": "bfloat16"}, "dtype is 'bfloat16'; in that precision a prompt's numbers depend on the other"),
        ({"column": "text"}, "notes.csv, line 2 has no column 'text'; it has 'id', 'note'"),
        ({"exemplars": "none.csv"}, "data file 'none.csv' cannot be read"),
        ({"task": "tickets"}, "column is for texts without a task"),
        ({"template": "foo"}, "no template for exemplars named 'foo'"),
    ],
)
def test_what_cannot_be_audited_is_one_line(audit: Call, named: dict[str, object], said: str) -> None:
    assert_refused(audit(**named), said)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clop = 2", "no key of configuration 'generate.toml' named 'clop'; did you mean 'clip'?"),
        ('clip = "wide"', "configuration 'generate.toml': 'clip' is 'wide'; it has to be a number"),
        ("clip = true", "configuration 'generate.toml': 'clip' is True; it has to be a number"),
        ("samples = 2.5", "configuration 'generate.toml': 'samples' is 2.5; it has to be a whole number"),
        ("label = 3", "configuration 'generate.toml': 'label' is 3; it has to be text"),
        ("clip", "configuration 'generate.toml' is not TOML"),
        ("clip = 2", "the guarantee is not set; give one of epsilon, temperature"),
        ("epsilon = 2", "no exemplars are given; give a file of exemplars"),
        (f"epsilon = 2\n{TICKETS}", "'tickets' has labels; give the one to generate: Billing, Delivery, Repairs, Acc"),
        (f'epsilon = 2\n{TICKETS}label = "Bill"', "no label named 'Bill'; did you mean"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_line(cli: Call, text: str, said: str) -> None:
    Path("generate.toml").write_text(text, encoding="utf-8")
    assert_refused(cli("generate", "--model", "toy", "--config", "generate.toml"), said)


def test_every_key_is_an_option_and_the_sample_has_only_keys(cli: Call) -> None:
    told = cli("generate", "--help-all").out
    keys = set(Options.__dataclass_fields__)
    assert all(f"--{key.replace('_', '-')}" in told for key in keys)
    found = audit_command.merged(None, Options())
    assert set(found.explicit) <= keys
    assert found.exemplars == audit_command.SAMPLE


NEWS = [{"label": i % 4, "text": f"News item {i}."} for i in range(24)]


def audited(exemplars: Any = TEXTS, **more: Any) -> Results[PrivateGenerationResult]:
    given = {"instruction": "Write a notice.", "samples": 2, "max_new_tokens": 4, **more}
    if not {"epsilon", "temperature", "mechanism"} & given.keys():
        given["epsilon"] = 8.0
    return leakmeter.generate(given.pop("model", "toy"), exemplars, **given)


def test_what_was_asked_for_is_guaranteed_and_kept(capsys: pytest.CaptureFixture[str]) -> None:
    made = audited(epsilon=8.0)
    (result,), told = made, made.summary.guarantee
    assert told is not None
    assert 8.0 - 1e-9 < told.epsilon <= 8.0
    assert made.summary.holds
    assert (told.n_tokens, result.subset_size, result.seed, len(result.texts)) == (8, 7, None, 2)
    assert result.public.draws == GenerationDraws(random_bits="operating system")
    assert json.loads(result.to_json()) == result.to_dict()
    assert (result.public.texts, result.public.guarantee) == (result.texts, told)
    assert "seed" not in json.dumps(result.public.to_dict())
    assert len(made.to_frame(detail=True)) == 7
    assert audited()[0].texts != result.texts
    assert capsys.readouterr().err == ""


def test_batches_have_rows_and_pages_of_their_own(tmp_path: Path) -> None:
    made = audited(subset_size=3)
    assert made.to_frame(detail=True)["case"].tolist() == ["batch 1"] * 3 + ["batch 2"] * 3
    page = made.save_html(tmp_path / "audit.html").read_text(encoding="utf-8")
    assert page.count("Largest losses") == 2
    assert len(audited(subset_size=3, batches=1)) == 1


def test_records_of_a_task_with_one_label() -> None:
    (result,) = audited(NEWS, task="agnews", label="Sports", instruction=None)
    sports = [f"News Type: Sports\nText: News item {i}." for i in range(1, 24, 4)]
    assert ([one.text for one in result.exemplars], result.query) == (sports, "Sports")


def test_bounded_decoding_is_the_second_mechanism() -> None:
    made = audited(TEXTS[:1], mechanism=BoundedCid(0.5))
    assert made.summary.holds
    settings = {"epsilon": 0.5, "temperature": 1.0, "lambda_max": 1.0}
    assert made[0].mechanism == OwnMechanism(name="BoundedCid", settings=settings)
    assert made.summary.guarantee is not None
    assert made.summary.guarantee.pure_epsilon == pytest.approx(8 * 0.25)
    with pytest.raises(LeakmeterError, match="bounded decoding has one context, and 7 exemplars have a prompt"):
        audited(mechanism=BoundedCid(0.5))


def test_a_users_mistake_is_caught_and_named_and_a_sound_rule_is_not() -> None:
    voting = Aggregation(10.0, 7, 4.8)
    made = audited(model=OneHot(), mechanism=Mistaken(voting, voting, clips=False))
    assert not made.summary.holds
    named = {(one.exemplar, one.token is None) for one in made.summary.failures}
    assert named == {(f"e{i}", total) for i in range(1, 8) for total in (False, True)}
    worst = next(one for one in made.summary.failures if one.token is not None)
    assert worst.sample is not None
    assert worst.token is not None
    assert str(worst.exemplar_id) in "0123456"
    assert worst.ratio > 1.05
    assert worst.token_text == made[0].samples[worst.sample].tokens[worst.token]
    sound = audited(model=OneHot(), clip=10.0, temperature=4.8).summary
    assert sound.holds
    assert sound.most.ratio > 0.25


def test_votes_of_no_exemplar_differ_and_of_equal_ones_are_missed_little() -> None:
    made = audited(["the same text"] * 4, temperature=2.0, normalise_by="present")
    assert max(one.measured_nats for one in made[0].exemplars) < 1e-20
    assert any("repeat each other" in line for line in made[0].warnings)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"exemplars": []}, "there are no exemplars; give at least one"),
        ({"exemplars": ["a", 5]}, "record 2 is not a JSON object, or another record with fields"),
        ({"epsilon": None}, "the guarantee is not set; give one of epsilon, temperature, mechanism"),
        ({"mechanism": BoundedCid(1.0), "clip": 3.0}, "a mechanism has its own settings; leave out clip"),
        ({"task": "agnews", "label": "World", "exemplars": NEWS[1:2]}, "no exemplar has the label 'World'"),
        ({"task": "agnews", "label": "Sports"}, "exemplars of a task are mappings of columns to values"),
    ],
)
def test_bad_input_gets_one_clear_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(LeakmeterError, match=said):
        audited(given.pop("exemplars", TEXTS), **given)
