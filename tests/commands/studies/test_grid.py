"""A study file to the cells of its grid."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from leakmeter.commands.studies.grid import SIZES, Study, load_study, shipped
from leakmeter.errors import DataError, LeakmeterError, UnknownNameError, UsageError
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.instruments.icl.measure import Icl
from leakmeter.instruments.influence.measure import Influence

Made = Callable[..., Study]
HEAD = 'title = "A study"\nreproduces = "nothing"\nmeasure = "decode"\nshow = "factor"\nx = "cid_lambda"\n'
STUDY = f"""{HEAD}
[both]
dataset = ["pubmedqa", "cnn_dm"]
cid_lambda = [0.5, 1, 2.5]
temperature = 0.8
[laptop]
model = "toy"
records = 4
[paper]
model = ["toy", "hf:someone/model"]
records = 1000
cid_lambda = 1.0
factkb = "bunsenfeng/FactKB"
"""


@pytest.fixture
def made(tmp_path: Path) -> Made:
    def make(size: str = "laptop", text: str = STUDY, **changes: list[str]) -> Study:
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return load_study(str(path), size, changes)

    return make


def test_cells_are_the_product_of_the_factors(made: Made) -> None:
    study = made()
    found = [(cell.dataset, cell.measure.cid_lambda) for cell in study.cells]  # type: ignore[attr-defined]
    assert found == list(itertools.product(["pubmedqa", "cnn_dm"], [0.5, 1.0, 2.5]))
    assert [cell.number for cell in study.cells] == list(range(6))
    assert study.cells[1].factors == {"dataset": "pubmedqa", "cid_lambda": 1.0}
    assert study.cells[0].measure == Decode(cid_lambda=0.5, temperature=0.8, seed=0)
    assert {cell.n_records for cell in study.cells} == {4}
    # Each data set has its own template and limit.
    assert {(c.dataset, c.settings.template, c.settings.max_context_tokens) for c in study.cells} == {
        *(("pubmedqa", "document", 2048), ("cnn_dm", "article", 1024))
    }
    assert (study.name, study.seed, study.quality.factkb) == ("mine", 0, None)


def test_sizes_and_changes_win_in_that_order(made: Made) -> None:
    study = made("paper", records=["7"], cid_lambda=["2", "3"], seed=["5"])
    assert len(study.cells) == 2 * 2 * 2
    assert {cell.n_records for cell in study.cells} == {7}
    assert {cell.model for cell in study.cells} == {"toy", "hf:someone/model"}
    assert {cell.factors["cid_lambda"] for cell in study.cells} == {2.0, 3.0}
    assert (study.seed, study.quality.factkb) == (5, "bunsenfeng/FactKB")
    # The axis is a factor even with one value.
    assert made(cid_lambda=["1"]).cells[0].factors["cid_lambda"] == 1.0
    # None is no value where there may be none.
    narrowed = {"cid_lambda": ["1"], "dataset": ["pubmedqa"]}
    cells = made(max_context_tokens=["none", "64"], choice_seed=["none"], **narrowed).cells
    assert [cell.record["settings"]["max_context_tokens"] for cell in cells] == [None, 64]
    assert [cell.factors["max_context_tokens"] for cell in cells] == ["none", 64]
    assert cells[0].record["choice_seed"] is None
    with pytest.raises(UsageError, match="'records' is 'none'; it has to be a whole number"):
        made(records=["none"])


def test_replicates_are_seeds_from_the_one_that_is_set(made: Made) -> None:
    study = made(replicates=["3"], seed=["7"], dataset=["cnn_dm"])
    assert [(cell.factors["seed"], cell.factors["cid_lambda"]) for cell in study.cells] == [
        *((seed, weight) for weight in (0.5, 1.0, 2.5) for seed in (7, 8, 9))
    ]
    assert [cell.measure.seed for cell in study.cells] == [7, 8, 9] * 3  # type: ignore[attr-defined]
    assert made(replicates=["1"]) == made()
    queries = load_study("susceptibility_contexts", changes={"replicates": ["2"], "contexts": ["8"]})
    assert [cell.factors["draw_seed"] for cell in queries.cells] == [0, 1]
    for changes, said in (
        ({"replicates": ["0"]}, "'replicates' is 0"),
        ({"replicates": ["two"]}, "'replicates' is 'two'"),
        ({"replicates": ["2"], "seed": ["1", "2"]}, "'seed' has values"),
    ):
        with pytest.raises(UsageError, match=said):
            made(**changes)


LISTED = HEAD + (
    '[laptop]\nmodel = "toy"\ndataset = "cnn_dm"\nrecords = 4\ntemperature = [0.8, 1]\n'
    "[[laptop.cells]]\ncid_lambda = 0.5\nmax_new_tokens = 20\n[[laptop.cells]]\ncid_lambda = 2\nmax_new_tokens = 40\n"
)


def test_cells_may_be_written_one_by_one(made: Made) -> None:
    study = made(text=LISTED)
    told = [(cell.measure.cid_lambda, cell.measure.max_new_tokens, cell.measure.temperature) for cell in study.cells]  # type: ignore[attr-defined]
    assert told == [(0.5, 20, 0.8), (0.5, 20, 1.0), (2.0, 40, 0.8), (2.0, 40, 1.0)]
    assert list(study.cells[0].factors) == ["cid_lambda", "max_new_tokens", "temperature"]


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("max_new_tokens = 40", "seed = 40", "cell 2 of the study has other settings"),
        ("max_new_tokens = 40", "max_new_tokens = [40, 50]", "'max_new_tokens' of cell 2 has to have one"),
        ("max_new_tokens", "temperature", "'temperature' of cell 1 has to have one"),
        ("max_new_tokens", "nosuch", "nosuch"),
        ("[[laptop.cells]]", "[laptop.cells.x]", "TOML|no list of tables"),
        ("max_new_tokens = 40", 'max_new_tokens = "many"', "'max_new_tokens' is 'many'"),
    ],
)
def test_cells_that_do_not_fit_are_refused(made: Made, was: str, now: str, said: str) -> None:
    with pytest.raises(LeakmeterError, match=said):
        made(text=LISTED.replace(was, now))


OF_ICL = [name for name in shipped() if name.startswith("icl_")]


@pytest.mark.parametrize("size", SIZES)
def test_the_papers_studies_are_whole(size: str) -> None:
    for name in shipped():
        if name.startswith(("audit_", "pii_", "susceptibility_")):
            continue
        study = load_study(name, size)
        assert study.cells
        if name not in OF_ICL:
            assert "Flemings" in study.reproduces
            for cell in study.cells:
                assert cell.measure.max_new_tokens == 50
                assert cell.measure.temperature in (0.2, 0.4, 0.6, 0.8, 1.0)  # type: ignore[attr-defined]
                assert cell.settings.truncate
            continue
        assert study.kind.records == "queries"
        assert study.reproduces.startswith("Li et al., Evaluating Privacy Leakage From In-Context Learning, ")
        assert n_values(study, "dataset") == ["agnews", "dbpedia14", "trec"]
        for cell in study.cells:
            assert isinstance(cell.measure, Icl)
            assert cell.n_records == (500 if size == "paper" or name == "icl_table_1" else 100)
            assert cell.record["shots"] == cell.factors.get("shots", 4)
            assert (cell.record["choice_seed"], cell.record["draw_seed"]) == (0, 0)
            assert cell.record["settings"]["template"] == "plain"
            assert cell.record["settings"]["task"]["name"] == cell.dataset
            assert size == "paper" or cell.model == "smollm2-135m"


def test_the_papers_factors() -> None:
    assert len(OF_ICL) == 7
    assert n_values(load_study("icl_figure_3"), "shots") == [1, 2, 4, 8, 16]
    assert len(n_values(load_study("icl_figure_5", "paper"), "model")) == 6
    assert load_study("icl_figure_1").show == "position"
    # The file's word stands in tables, the measure has the value.
    calibrated = load_study("icl_figure_4")
    assert n_values(calibrated, "calibration") == ["none", "blank"]
    of_trec = [cell for cell in calibrated.cells if cell.dataset == "trec"]
    assert [cell.measure for cell in of_trec] == [Icl(), Icl(calibration="blank")]
    spaces = [cell.measure.space for cell in load_study("icl_figure_7").cells[:2]]  # type: ignore[attr-defined]
    assert spaces == ["labels", "vocabulary"]
    tables = load_study("tables_2_3", "paper")
    assert n_values(tables, "cid_lambda") == [0.5, 1.0, 1.5]
    assert len(n_values(tables, "model")) == 5
    assert {cell.n_records for cell in tables.cells} == {1000}
    ngrams = load_study("figure_3", "paper")
    assert n_values(ngrams, "unit") == [f"ngram:{n}:1" for n in (128, 32, 8, 4)]
    assert {cell.n_records for cell in ngrams.cells} == {100}
    # Tables are of sums over pieces: nothing is held against other contexts, unless that is asked for.
    assert [cell.measure for cell in ngrams.cells] == [Influence(temperature=0.8, controls=0)] * len(ngrams.cells)
    assert n_values(load_study("figure_3"), "unit") == [f"ngram:{n}" for n in (128, 32, 8, 4)]


@pytest.mark.parametrize(
    ("changes", "kind", "told"),
    [
        ({"shots": ["0"]}, UsageError, "shots is 0; it has to be 1 or more"),
        ({"queries": ["0"]}, UsageError, "queries is 0; it has to be 1 or more"),
        ({"records": ["5"]}, UnknownNameError, "named 'records'; how many queries are measured is 'queries'; known"),
        ({"samples": ["5"]}, UnknownNameError, "named 'samples'; how many queries are measured is 'queries'; known"),
        ({"factkb": ["x"]}, UnknownNameError, "no setting of a study named 'factkb'"),
        ({"dataset": ["agnewz"]}, UnknownNameError, "no task named 'agnewz'; did you mean 'agnews'"),
        ({"dataset": ["nowhere.toml"]}, DataError, "task file 'nowhere.toml' cannot be read"),
        ({"template": ["document"]}, UnknownNameError, "no template for exemplars named 'document'"),
        ({"space": ["words"]}, UnknownNameError, "no space named 'words'"),
        ({"calibration": ["maybe"]}, UnknownNameError, "no calibration named 'maybe'"),
    ],
)
def test_what_exemplars_cannot_be_is_one_line(
    changes: dict[str, list[str]], kind: type[LeakmeterError], told: str
) -> None:
    with pytest.raises(kind) as ended:
        load_study("icl_figure_1", changes=changes)
    assert told in str(ended.value)


def n_values(study: Study, name: str) -> list[object]:
    return list(dict.fromkeys(cell.factors[name] for cell in study.cells))


@pytest.mark.parametrize(
    ("old", "new", "kind", "told"),
    [
        ("title", "titel", DataError, "has no text 'title'"),
        ('show = "factor"', 'show = "bars"', UnknownNameError, "no show named 'bars'"),
        ('x = "cid_lambda"', 'x = "seed"', UsageError, "the study's x is 'seed'"),
        ('measure = "decode"', 'measure = "decoed"', UnknownNameError, "did you mean 'decode'"),
        ("temperature", "temprature", UnknownNameError, "no setting of a study named 'temprature'; did you mean"),
        ("temperature = 0.8", 'temperature = "hot"', UsageError, "'temperature' is 'hot'; it has to be a number"),
        ("temperature = 0.8", f"temperature = {10**400}", UsageError, "a number of 401 digits"),
        ("temperature = 0.8", "temperature = 0", UsageError, "temperature is 0.0; it has to be above 0"),
        ("temperature = 0.8", "temperature = []", UsageError, "'temperature' has no value"),
        ("records = 4", "records = 0", UsageError, "records is 0; it has to be 1 or more"),
        ("records = 4", "records = 1.5", UsageError, "'records' is 1.5; it has to be a whole number"),
        ("records = 4", "", UsageError, "has no 'records'"),
        ('"cnn_dm"', '"cnn"', UnknownNameError, "no data set named 'cnn'"),
        ("[laptop]", "[laptop", DataError, "is not TOML"),
        ("[laptop]", "[desktop]", UnknownNameError, "named 'desktop'"),
        ("records = 4", 'records = 4\nfactkb = ["a", "b"]', UsageError, "'factkb' cannot be a factor"),
    ],
)
def test_a_bad_study_is_one_line(made: Made, old: str, new: str, kind: type[LeakmeterError], told: str) -> None:
    assert old in STUDY
    with pytest.raises(kind) as ended:
        made(text=STUDY.replace(old, new, 1))
    assert told in str(ended.value)


def test_a_study_or_size_that_there_is_not_is_guessed() -> None:
    for name, size, kind, told in (
        ("figure_9", "laptop", UnknownNameError, "no study named 'figure_9'; did you mean 'figure_8'"),
        ("figure_8", "large", UnknownNameError, "no size named 'large'"),
        ("nowhere.toml", "laptop", DataError, r"study file 'nowhere\.toml' cannot be read"),
    ):
        with pytest.raises(kind, match=told):
            load_study(name, size)
