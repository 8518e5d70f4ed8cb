"""The library's calls: one case, many, many kept; the commands' numbers, and one shape for all instruments.

Every public function is called, as `leakmeter.NAME(…)`, and as `Meter(…).NAME(…)` where it measures with a model.
"""

from __future__ import annotations

import base64
import doctest
import inspect
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes

import leakmeter
from helpers import tuned_models
from helpers.command_line import Ended
from helpers.differentiable_toy import DifferentiableToy
from leakmeter.core import registry
from leakmeter.engine import loading
from leakmeter.engine.options import ModelOptions
from leakmeter.errors import DataError, UnknownNameError, UsageError
from leakmeter.report import blocks as b
from leakmeter.report import charts

matplotlib.use("agg")
from leakmeter.instruments.pii.canaries import canaries_of

CASES = [
    {"id": f"n{i}", "context": f"Ana is {i}. She sings.", "query": "Age?", "response": f"{i}."} for i in range(41, 44)
]
TASK = {"instruction": "Mood?", "fields": {"said": "Said"}, "answer": "Mood", "labels": ["Glad", "Sad"]}
ROWS = [{"said": f"It is day {i}.", "label": ("Glad", "Sad")[i % 2]} for i in range(6)]
PEOPLE = [{"name": "Mara Ellsworth", "phone": "617-555-0134"}]
MOODS = {"task": TASK, "exemplars": ROWS[3:], "label_scoring": "whole-sequence"}
SUMS = [{"input": f"{i} + {i}", "output": str(2 * i)} for i in range(3)]
BEHIND = [{**case, "id": i, "response": None, "reference": "41"} for i, case in zip("ab", CASES, strict=False)]
CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "influence": (CASES, {"unit": "word"}),
    "decode": ([{**case, "response": None} for case in CASES], {"max_new_tokens": 3, "seed": 1}),
    "redact": (CASES, {"max_loss": 0.2, "max_new_tokens": 2}),
    "icl": (ROWS[:3], MOODS),
    "susceptibility": (["Who?", "Where?"], {"contexts": ["Emma is by Poe.", "It rains."]}),
    "generate": (["The sea is calm.", "The sun sets.", "Bread is warm."], {"epsilon": 20.0, "samples": 2, "seed": 3}),
    "pii": (PEOPLE, {"kinds": ["twin"], "decoys": 50, "prompts": 1, "beams": ()}),
}
FEW_CANARIES = {"canaries": 1, "held_out": 1, "repeats": (1,), "batch_tokens": 1024, "out": "copy"}
CANARIES = [one.to_dict() for one in canaries_of(3, seed=0)]
OF_OTHERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "fisher_susceptibility": (["Who?"], {"probes": 2}),
    "frontier": (BEHIND, {"lambdas": (0.5, 1.0), "max_new_tokens": 2}),
    "icl_responses": ([SUMS[0]], {"exemplars": SUMS[1:]}),
    "icl_select": (ROWS[:2], {**MOODS, "max_steps": 1}),
    "pii_check": (None, {**FEW_CANARIES, "types": ("phone",), "white_box": None}),
    "pii_insert": (None, FEW_CANARIES),
    "pii_tune": (CANARIES, {"length": 1, "epochs": 1, "out": "tuned"}),
}
"""Calls that measure with a model, and have no result of the same shape."""
STUDY = {"model": "toy", "relations": 2, "entities": 2, "contexts": 4, "mentioning": 1}
MAIL = "Mara Ellsworth <mara@ellsworth.example>, 617-555-0134, 12 Elm Street, Springfield, IL 62704"
WITHOUT_MODEL: dict[str, Callable[[leakmeter.Run], Any]] = {
    "calibrate": lambda run: leakmeter.calibrate(epsilon=8, free="temperature", clip=10, subset_size=24),
    "check_installation": lambda run: leakmeter.check_installation(),
    "compare_runs": lambda run: leakmeter.compare_runs(run, leakmeter.influence("toy", CASES[:1], out="others")),
    "doctor": lambda run: leakmeter.doctor("toy"),
    "export_run": lambda run: leakmeter.export_run(run, Path("export")),
    "forget": lambda run: leakmeter.forget() is None,
    "gate": lambda run: leakmeter.gate(run, max="influence.max <= 100").holds,
    "list_models": lambda run: leakmeter.list_models(),
    "list_runs": lambda run: leakmeter.list_runs(run.path.parent),
    "list_studies": lambda run: leakmeter.list_studies(),
    "load_backend": lambda run: leakmeter.load_backend("toy"),
    "load_run": lambda run: leakmeter.load_run(run.path),
    "pii_extract": lambda run: leakmeter.pii_extract(Path("mail.txt"), out="people.jsonl"),
    "pull_model": lambda run: leakmeter.pull_model("small"),
    "query": lambda run: len(leakmeter.query("select * from results", run.path.parent)),
    "rename_run": lambda run: leakmeter.rename_run(run, "first") is None,
    "save_report": lambda run: leakmeter.save_report("page.html", run),
    "schema": lambda run: leakmeter.schema("influence"),
    "study": lambda run: leakmeter.study("susceptibility_contexts", settings=STUDY),
    "tokens": lambda run: leakmeter.tokens("toy", CASES[:1]),
    "verify_run": lambda run: leakmeter.verify_run(run),
    "write_baseline": lambda run: leakmeter.write_baseline("baseline.json", run),
}


def _of_examples() -> Iterator[tuple[str, tuple[Any, dict[str, Any]]]]:
    """Calls of functions that are not listed, with their instrument's example."""
    for instrument in map(registry.instrument, registry.instruments()):
        for function in instrument.functions():
            if function.__name__ not in {*CALLS, *OF_OTHERS, *WITHOUT_MODEL}:
                example = instrument.example()
                yield function.__name__, ([example.case], dict(example.parameters))


OF_OTHERS |= dict(_of_examples())


def plain(results: Any) -> list[dict[str, Any]]:
    """Results without what differs from time to time."""
    found = [json.loads(line) for line in results.to_json().splitlines()]
    for one in found:
        for name in ("seconds", "scored_together"):
            one["cost"].pop(name, None)
    return found


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))


@cache
def model_of(name: str) -> Any:
    """The toy, or a model of one layer: what is tuned is a copy of it."""
    if not name.startswith("pii_"):
        return DifferentiableToy() if name == "fisher_susceptibility" else "toy"
    model = tuned_models.fresh_llama(num_hidden_layers=1, max_position_embeddings=1024)
    return leakmeter.load_backend((model, tuned_models.byte_tokenizer()), device="cpu")


def test_all_functions_are_called_here() -> None:
    public = {name for name in leakmeter.__all__ if inspect.isroutine(getattr(leakmeter, name))}
    assert {*CALLS, *OF_OTHERS, *WITHOUT_MODEL} == public
    methods = {name for name in dir(leakmeter.Meter("toy")) if not name.startswith("_")}
    assert methods == {*CALLS, *OF_OTHERS, "backend", "kept_model"}


@pytest.mark.parametrize("of_meter", [False, True], ids=["function", "meter"])
@pytest.mark.parametrize("name", OF_OTHERS)
def test_what_measures_with_a_model(name: str, of_meter: bool) -> None:
    (data, options), model = OF_OTHERS[name], model_of(name)
    if of_meter:
        assert getattr(leakmeter.Meter(model), name)(data, **options)
    else:
        assert getattr(leakmeter, name)(model, data, **options)


@pytest.mark.parametrize("name", WITHOUT_MODEL)
def test_what_needs_no_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where the default model lies, an installation is checked with it, for seconds.
    monkeypatch.setenv("LEAKMETER_CACHE", str(Path("cache").absolute()))
    Path("mail.txt").write_text(MAIL, encoding="utf-8")
    if name == "pull_model":
        tuned_models.fresh_llama().save_pretrained("small")
        tuned_models.byte_tokenizer().save_pretrained("small")
    assert WITHOUT_MODEL[name](leakmeter.influence("toy", CASES[:1], out="runs"))
    leakmeter.forget()


def test_a_meter_loads_its_model_once_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    real = loading.load
    monkeypatch.setattr(loading, "load", lambda model, *more: loaded.append(model) or real(model, *more))
    leakmeter.forget()
    meter = leakmeter.Meter("toy")
    assert (repr(meter), loaded) == ("<Meter of 'toy'>", [])
    asked = {"context": "Ana is 41. She sings.", "query": "How old is Ana?", "response": "41"}
    one, other = meter.influence(**asked), leakmeter.influence("toy", **asked)
    assert one == replace(other, cost=replace(other.cost, seconds=one.cost.seconds))
    assert meter.decode(context="Ana is 41.", query="Who?", max_new_tokens=2).to_dict() is not None
    assert loaded == ["toy"] * 2  # once for the meter, and once for the function alone
    with pytest.raises(AttributeError, match="no instrument has a function 'taste'; there are decode, fisher"):
        meter.taste()


@pytest.mark.parametrize("name", CALLS)
def test_every_instrument_has_the_same_shape(name: str) -> None:
    data, options = CALLS[name]
    if name == "generate":
        options = {**options, "max_new_tokens": 2}
    meter = leakmeter.Meter("toy")
    many = getattr(meter, name)(data, **options)
    kept = getattr(meter, name)(data, **options, out="runs", progress=True)
    assert isinstance(many, leakmeter.Results)
    assert isinstance(kept, leakmeter.Run)
    assert plain(kept) == plain(many)
    again = getattr(leakmeter, name)("toy", data, **options, out="runs")
    assert again.path == kept.path
    for one in (many, kept):
        assert len(one) == len(list(one)) == len(one.cases) >= 1
        assert one[one[0].id] == one[0] == one[:1][0]
        assert one.headline == one.findings.headline
        assert list(one.to_frame()["id"]) == [result.id for result in one]
        detail = one.to_frame(detail=True)
        assert set(detail["case"]) == {result.id for result in one}
        assert [result["id"] for result in one.to_dict()["results"]] == [result.id for result in one]
        for text in ("Ana is", "It is day", "Emma", "sea is calm", "555"):
            assert text not in repr(one)
    with pytest.raises(UnknownNameError, match="no case named 'nobody'"):
        many["nobody"]


def test_results_are_drawn_and_written() -> None:
    many = leakmeter.influence("toy", CASES)
    assert list(many.figures()) == list(many.findings.figures) != []
    assert list(many[0].figures()) == list(many.figures())
    assert many.save_html("page.html").read_text(encoding="utf-8") == many.render_page()
    assert many.summary.false_alarms.pairs == 3 * 2


def test_a_frame_of_cases_says_what_was_asked_answered_and_found() -> None:
    many = leakmeter.influence("toy", CASES)
    frame = many.to_frame()
    assert list(frame.columns)[:4] == ["id", "query", "response", "verdict"]
    for (_, row), result in zip(frame.iterrows(), many, strict=True):
        assert (row["query"], row["response"]) == (result.query, result.response.text)
        assert row["verdict"] == leakmeter.Results([result]).headline


def test_a_result_and_many_draw_into_axes_that_are_given() -> None:
    many = leakmeter.influence("toy", CASES)
    _, (left, right) = pyplot.subplots(1, 2)
    for drawn in (many, many[0]):
        n_before = len(pyplot.get_fignums())
        first = drawn.plot()
        assert isinstance(first, Axes)
        assert len(pyplot.get_fignums()) == n_before + 1
        assert drawn.plot("tokens", ax=right) is right
        assert drawn.plot(ax=left) is left
        assert left.get_title()
        assert len(pyplot.get_fignums()) == n_before + 1, "no figure beside that of the axes"
        with pytest.raises(UnknownNameError, match="no figure named 'pices'; did you mean 'pieces'"):
            drawn.plot("pices")
    pyplot.close("all")


def test_examples_of_plots_run() -> None:
    for kind in (leakmeter.InfluenceResult, leakmeter.Results):
        (example,) = doctest.DocTestFinder(recurse=False).find(kind.plot, "plot", module=False, globs={})
        assert example.examples
        assert doctest.DocTestRunner().run(example).failed == 0
    pyplot.close("all")


def test_without_matplotlib_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    result = leakmeter.influence("toy", CASES)[0]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (result.plot, result.figures):
        with pytest.raises(UsageError) as refused:
            draw()
        assert str(refused.value) == "charts need matplotlib, which is not installed: pip install matplotlib"


def test_a_figure_of_several_panels_needs_a_figure_of_its_own() -> None:
    panel = b.Panel(b.Axis("x"), b.Axis("y"), (b.ChartSeries("line", (1.0, 2.0), name="one"),), title="A panel")
    chart = b.Chart("pair", "Two panels", (panel, panel))
    drawn = charts.draw(chart)
    assert (drawn.shape, [axes.get_title() for axes in drawn]) == ((2,), ["A panel", "A panel"])
    with pytest.raises(UsageError, match="'pair' has 2 panels, and ax is one"):
        charts.draw(chart, pyplot.subplots()[1])
    alone = charts.draw(replace(chart, panels=(replace(panel, title=""),)), pyplot.subplots()[1])
    assert (alone.get_title(), alone.get_legend() is not None) == ("Two panels", True)
    pyplot.close("all")


def test_one_case_is_a_result_and_many_are_the_same() -> None:
    many = leakmeter.influence("toy", CASES)
    for case, result in zip(CASES, many, strict=True):
        one = leakmeter.influence("toy", **{name: case[name] for name in ("context", "query", "response")})
        assert [piece.nats for piece in one.pieces] == [piece.nats for piece in result.pieces]
    kept = leakmeter.influence("toy", context="Ana is 41.", query="Age?", response="41", out="runs")
    assert kept.id == "case"
    assert len(list(Path("runs").glob("influence-*"))) == 1


def test_a_case_without_an_id_has_no_id_over_its_page() -> None:
    told = {"context": "Ana is 41.", "query": "Age?", "response": "41"}
    bare = leakmeter.influence("toy", **told)
    named = leakmeter.influence("toy", [{"id": "first", **told}])[0]
    assert 'class="eyebrow"' not in type(bare).render_page([bare], command=None, run=None).partition("<body")[2]
    assert ">Case <bdi>first</bdi></p>" in type(named).render_page([named], command=None, run=None)


def test_data_come_in_any_form() -> None:
    import pandas as pd

    expected = plain(leakmeter.influence("toy", CASES))
    Path("cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in CASES), encoding="utf-8")
    frame = pd.DataFrame(CASES)
    for data in ("cases.jsonl", Path("cases.jsonl"), frame, iter(CASES)):
        assert plain(leakmeter.influence("toy", data)) == expected
    renamed = frame.rename(columns={"context": "passage"})
    assert plain(leakmeter.influence("toy", renamed, map={"context": "passage"})) == expected


def test_a_kept_call_is_the_commands_run(cli: Callable[..., Ended]) -> None:
    Path("cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in CASES), encoding="utf-8")
    ended = cli("influence", "--data", "cases.jsonl", "--model", "toy", "--unit", "word", "--out", "by_command")
    assert ended.code == 0, ended.err
    run = leakmeter.influence("toy", "cases.jsonl", unit="word", out="runs")
    (theirs,) = Path("by_command").glob("influence-*")
    assert run.path.name == theirs.name
    for path in sorted(theirs.glob("measurements-*")):
        assert path.read_bytes() == (run.path / path.name).read_bytes()
    mine, other = (json.loads((of / "spec.json").read_bytes()) for of in (run.path, theirs))
    assert mine.pop("command") is None
    assert other.pop("command").startswith("leakmeter")
    # Hashes of the texts are of their times too.
    for of in (mine, other):
        of["files_sha256"] = list(of["files_sha256"])
    assert mine == other


def test_an_interrupted_call_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from leakmeter.engine.storage import rundir

    real, calls = rundir.RunDirectory.write_part, []

    def dies(self: Any, number: int, *rest: Any) -> None:
        calls.append(number)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(self, number, *rest)

    monkeypatch.setattr(rundir.RunDirectory, "write_part", dies)
    with pytest.raises(KeyboardInterrupt):
        leakmeter.influence("toy", CASES, out="runs")
    run = leakmeter.influence("toy", CASES, out="runs")
    assert calls == [0, 1, 2, 2]
    assert plain(run) == plain(leakmeter.influence("toy", CASES))


def test_bad_cases_are_left_out_and_named() -> None:
    bad = [*CASES, {"id": "bad", "query": "Age?"}]
    with pytest.raises(DataError, match="record 4"):
        leakmeter.influence("toy", bad)
    many = leakmeter.influence("toy", bad, skip_bad=True)
    assert (len(many), len(many.problems)) == (3, 1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: leakmeter.influence("toy", CASES, unti="word"), "of influence named 'unti'; did you mean 'unit'"),
        (
            lambda: leakmeter.Meter("toy").icl(ROWS, dtype="float32"),
            "'dtype' sets how a model .* give it to Meter",
        ),
        (lambda: leakmeter.Meter("toy", dtpe="x"), "no option named 'dtpe'; did you mean 'dtype'"),
        (lambda: leakmeter.influence("toy", CASES, context="Ana."), "give either data, or one case"),
        (lambda: leakmeter.decode("toy", context="Ana.", map={"query": "q"}), "map and format describe data"),
        (lambda: leakmeter.susceptibility("toy", contexts=["a", "b"]), "there are no queries"),
        (lambda: leakmeter.pii("toy"), "there are no subjects"),
        (lambda: leakmeter.influence("toy", CASES, name="mine"), "name is for runs that are kept; give `out` too"),
        (lambda: leakmeter.generate("toy", ROWS, name="mine"), "name is for runs that are kept; give `out` too"),
        (lambda: leakmeter.decode("toy", CASES, out="runs", name="a\nb"), "1 to 80 characters; give another name"),
    ],
)
def test_what_cannot_be_is_one_line(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_one_name_is_a_list_of_it_and_not_its_letters(tmp_path: Path) -> None:
    told = {"context": "Ana is 41. She sings.", "query": "Age?", "response": "41"}
    one, other = (leakmeter.influence("toy", [told], unit=unit, out=tmp_path) for unit in ("sentence", "word"))
    compared, listed = (
        leakmeter.compare_runs(one, other, quantities=given)
        for given in ("influence.per_token", ["influence.per_token"])
    )
    assert [moved.quantity for moved in compared.moved] == [moved.quantity for moved in listed.moved]
    kept = [tmp_path / name for name in ("one.json", "list.json")]
    leakmeter.write_baseline(kept[0], one, quantities="influence.per_token")
    leakmeter.write_baseline(kept[1], one, quantities=["influence.per_token"])
    for path in kept:
        assert json.loads(path.read_text())["runs"][0]["quantities"].keys() == {"influence.per_token"}
    assert leakmeter.tokens("toy", **told, without="s2") == leakmeter.tokens("toy", **told, without=["s2"])
    few: Any = {"decoys": 50, "prompts": 1, "beams": ()}
    assert len(leakmeter.pii("toy", PEOPLE, kinds="twin", **few)) == 1
    assert len(leakmeter.pii("toy", PEOPLE, kinds="twin", templates={"twin": "Call {name} at"}, **few)) == 1
    with pytest.raises(UsageError, match="type is 'tel'"):
        leakmeter.pii_check("toy", types="tel", out=tmp_path / "copy")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="move 'replace' needs a pool"):
        leakmeter.icl_select("toy", ROWS, exemplars=ROWS[3:], task=TASK, moves="replace")


def test_an_option_that_is_needed_is_named_as_python_names_it() -> None:
    call: Any = leakmeter.susceptibility
    with pytest.raises(TypeError, match=r"^susceptibility\(\) missing 1 required keyword-only argument: 'contexts'$"):
        call("toy", ["Who?"])


def test_weights_are_loaded_once_and_kept_until_they_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loaded: list[Any] = []
    toy = loading.load_backend("toy")
    monkeypatch.setattr(loading, "load", lambda model, options: loaded.append((model, options)) or toy)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights").write_text("one")
    leakmeter.forget()
    for _ in range(2):
        leakmeter.influence(str(folder), CASES)
    assert loaded == [(str(folder), ModelOptions())]
    (folder / "weights").write_text("another")
    leakmeter.influence(str(folder), CASES)
    assert len(loaded) == 2
    leakmeter.influence(str(folder), CASES, cache=False)
    assert loaded[2:] == [(str(folder), ModelOptions(cache=False))]
    monkeypatch.setenv("LEAKMETER_SCORES", str(tmp_path / "scores"))
    for _ in range(2):
        leakmeter.influence(str(folder), CASES, cache=False)
        assert len(loaded) == 4
    leakmeter.forget()
    leakmeter.influence(str(folder), CASES, cache=False)
    assert len(loaded) == 5


def test_a_guarantee_gets_its_precision_and_leaves_other_calls_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    toy, loaded = loading.load_backend("toy"), list[Any]()
    monkeypatch.setattr(loading, "load", lambda model, options: loaded.append(options.dtype) or toy)
    leakmeter.forget()
    for epsilon in (None, 1.0, None):
        leakmeter.decode("some-model", context="Ana.", query="Who?", epsilon=epsilon, max_new_tokens=1, seed=1)
    assert loaded == [None, "float32", None]
    leakmeter.forget()


def test_calls_from_several_threads_wait_for_each_other() -> None:
    expected, found = plain(leakmeter.influence("toy", CASES)), list[Any]()
    meter = leakmeter.Meter("toy")
    threads = [threading.Thread(target=lambda: found.append(plain(meter.influence(CASES)))) for _ in range(4)]
    for act in (threading.Thread.start, threading.Thread.join):
        for thread in threads:
            act(thread)
    assert found == [expected] * 4


def test_scores_of_people_are_not_kept_by_a_meter_either() -> None:
    meter = leakmeter.Meter("toy")
    seen: list[bool] = []
    backend: Any = meter.backend
    keeps = True

    @contextmanager
    def without_cache() -> Iterator[None]:
        nonlocal keeps
        keeps = False
        yield
        keeps = True

    real = backend.score
    backend.without_cache = without_cache
    backend.score = lambda chunk: seen.append(keeps) or real(chunk)
    meter.pii(PEOPLE, kinds=["twin"], decoys=50, prompts=1, beams=())
    assert seen
    assert set(seen) == {False}
    assert keeps


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "</iframe><script>alert(1)</script>"
    one = leakmeter.influence("toy", context=f"Ana is 41. {hostile}", query=hostile, response="41")
    for shown in (one, leakmeter.influence("toy", [{"context": hostile, "query": "Who?", "response": "Ana"}])):
        html = shown._repr_html_()
        assert html.count("<") == 2
        assert 'sandbox="allow-scripts"' in html
        page = base64.b64decode(html.split("base64,")[1].split('"')[0]).decode()
        assert "Content-Security-Policy" in page
        assert "<script>alert" not in page
        assert "prefers-color-scheme:dark" in page
        shown.show()
        assert "nats" in capsys.readouterr().out


_IN_A_NOTEBOOK = """
import sys, types
shell = types.SimpleNamespace(config={"IPKernelApp": {}}, kernel=None)
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: shell
sys.modules["ipykernel.zmqshell"] = types.ModuleType("ipykernel.zmqshell")
sys.modules["ipywidgets"] = None
"""


@pytest.mark.parametrize(
    "imported", ["leakmeter.backends.hf", "leakmeter.models.hub as hub; hub.cached_snapshot('a/b', None)"]
)
def test_a_notebook_without_widgets_is_shown_no_warning(imported: str) -> None:
    def told(code: str) -> str:
        environ = {**os.environ, "PYTHONWARNINGS": "default"}
        command = [sys.executable, "-c", _IN_A_NOTEBOOK + code]
        return subprocess.run(command, capture_output=True, text=True, env=environ, check=False).stderr

    assert "IProgress not found" in told("import tqdm.auto"), "this looks like no notebook"
    assert "IProgress" not in told(f"import {imported}")


def test_what_a_notebook_shows_is_displayed(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    shell = SimpleNamespace(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=shown.append))
    many = leakmeter.influence("toy", CASES)
    many.show()
    assert shown == [many]
