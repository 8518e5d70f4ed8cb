"""The study of searches over long contexts: its contexts, the model that remembers, the peers, its sums."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import long_contexts as contexts
from benchmarks import long_contexts_peers as peers
from benchmarks.long_contexts_memory import Remembering
from benchmarks.random_models import random_backend

from helpers.places import DOCS, script
from leakmeter.backends.hf import HfBackend
from leakmeter.core.case import Case, Document
from leakmeter.core.item import ContextItem
from leakmeter.core.prompt import Prompt
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request
from leakmeter.core.tree import chunk_of
from leakmeter.instruments.influence.measure import Influence
from leakmeter.text.build import PromptSettings

DOCUMENTS = (
    "The kiln was lit at dawn. Smoke rose over the yard. Nobody spoke.",
    "Ruth kept the key. The gate stayed shut. It rained. The dog slept. Bells rang at noon. Then it was quiet.",
    "A letter came. It was blue.",
)


@pytest.fixture(scope="module")
def tiny() -> HfBackend:
    return random_backend("llama-tiny", "cpu", "float32")


@pytest.fixture(scope="module")
def case() -> Case:
    documents = tuple(Document(f"d{number}", text) for number, text in enumerate(DOCUMENTS))
    return Case(id="made", documents=documents, query="Who kept the key?", response="Ruth.")


@pytest.fixture(scope="module")
def item(tiny: HfBackend, case: Case) -> ContextItem:
    made = PromptSettings(unit="sentence").prepare(case, tiny, Influence()).item
    assert isinstance(made, ContextItem)
    return made


@pytest.fixture
def memory(tiny: HfBackend, tmp_path: Path) -> Remembering:
    return Remembering(tiny, tmp_path / "scored.npz")


def asked(item: ContextItem, *prompts: Prompt) -> Request:
    return Request((item.prompt, *prompts), item.response or (), TargetLogProbs())


def moved(tiny: HfBackend, item: ContextItem, *prompts: Prompt) -> np.ndarray:
    (scores,) = tiny.score(chunk_of([asked(item, *prompts)]))
    nats: np.ndarray = np.abs(scores.values[0] - scores.values[1:]).sum(axis=-1)
    return nats


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Articles and abstracts of as many invented sentences as forty contexts need."""
    root = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    words = ("kiln", "yard", "letter", "harbour", "ladder", "orchard", "copper", "winter")

    def text() -> str:
        return " ".join(f"The {' '.join(rng.choice(words, 18))} stood still." for _ in range(12))

    for folder in ("cnn_dailymail", "pubmedqa"):
        (root / folder).mkdir()
    lines = [json.dumps({"article": text()}) for _ in range(40)]
    (root / "cnn_dailymail" / "validation_subset.jsonl").write_text("\n".join(lines), encoding="utf-8")
    abstracts = {str(number): {"CONTEXTS": [text()]} for number in range(40)}
    (root / "pubmedqa" / "ori_pqal.json").write_text(json.dumps(abstracts), encoding="utf-8")
    return root


def n_words(text: str) -> int:
    return len(text.split())


def test_forty_contexts_of_four_lengths_and_five_kinds(data: Path) -> None:
    made = list(contexts.build(data, n_words))
    assert made == list(contexts.build(data, n_words))
    assert len({one.case["id"] for one in made}) == 40
    for length in contexts.LENGTHS:
        of_length = [one for one in made if one.length == length]
        assert sorted(one.kind for one in of_length) == sorted([*contexts.NEEDLES] * 2)
        sizes = [sum(n_words(document["text"]) for document in one.case["context"]) for one in of_length]
        assert 0.8 * length < min(sizes) <= max(sizes) <= length
    # A needle is a sentence of one document.
    for one in made:
        told = [contexts.sentences_of(document["text"]) for document in one.case["context"]]
        where = [[i for i, sentences in enumerate(told) if needle in sentences] for needle in one.needles]
        assert [len(found) for found in where] == [1] * len(one.needles)
        assert len({found[0] for found in where}) == len(one.needles)
        assert "{" not in json.dumps([one.case["query"], one.case["response"], one.needles])


def test_what_was_scored_is_kept_and_not_scored_again(
    tiny: HfBackend, item: ContextItem, memory: Remembering, tmp_path: Path
) -> None:
    chunk = chunk_of(
        [asked(item, item.blank, *item.cuts.values(), *(item.prompt.hiding(*s.pieces) for s in item.spans))]
    )
    (expected,), n_before = tiny.score(chunk), tiny.n_tokens_run
    (first,) = memory.score(chunk)
    n_once, cost = tiny.n_tokens_run - n_before, (memory.n_tokens_run, memory.operations)
    memory.forget_cost()
    (again,), (later,) = memory.score(chunk), Remembering(tiny, tmp_path / "scored.npz").score(chunk)
    np.testing.assert_allclose(first.values, expected.values, atol=1e-6)
    np.testing.assert_array_equal(first.values, again.values)
    np.testing.assert_array_equal(first.values, later.values)
    assert tiny.n_tokens_run - n_before == n_once > 0
    assert (memory.n_tokens_run, memory.operations) == cost
    assert cost[0] == chunk.n_tree_tokens


def test_a_hierarchy_opens_everything_or_the_strongest_document(
    tiny: HfBackend, item: ContextItem, memory: Remembering
) -> None:
    found = peers.hierarchical(memory, item, 100)
    nats = moved(tiny, item, *item.cuts.values())
    assert found.order.tolist() == np.argsort(-nats, kind="stable").tolist()
    np.testing.assert_allclose([found.exact[i] for i in range(len(nats))], nats, atol=1e-5)

    found = peers.hierarchical(memory, item, 1)
    opened = {item.spans[i].document for i in found.exact}
    names = ("d0", "d1", "d2")
    whole = [item.without([span.name for span in item.spans if span.document == name]) for name in names]
    assert opened == {names[int(moved(tiny, item, *whole).argmax())]}
    assert len(found.exact) <= peers.GROUP
    assert sorted(found.order.tolist()) == list(range(len(item.spans)))
    assert set(found.order[: len(found.exact)].tolist()) == set(found.exact)
    everything_costs = peers.cost_of(tiny, [item.prompt, *item.cuts.values()], item.response or ())
    assert 0 < found.cost.n_tokens < everything_costs.n_tokens


def test_attention_is_that_of_one_pass(tiny: HfBackend, item: ContextItem) -> None:
    model: Any = tiny.model
    ids = torch.tensor([[*item.prompt.ids.tolist(), *(item.response or ())]])
    used = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        layers = model(input_ids=ids, output_attentions=True).attentions
    model.set_attn_implementation(used)
    weights = np.mean([layer[0].mean(dim=0).numpy() for layer in layers], axis=0)
    names = [piece.name for piece in item.prompt.pieces for _ in piece.ids]
    paid = weights[item.prompt.n_before :].mean(axis=0)[: len(names)]
    sums = [sum(paid[i] for i, name in enumerate(names) if name in span.pieces) for span in item.spans]
    found = peers.attention(tiny, item)
    assert found.order.tolist() == np.argsort(-np.array(sums), kind="stable").tolist()
    assert not found.exact
    assert model.config._attn_implementation == used


def test_rescored_pieces_come_first_in_their_true_order(tiny: HfBackend, item: ContextItem) -> None:
    truth = np.arange(len(item.spans), dtype=float)
    given = peers.Found(np.arange(len(item.spans)), {}, peers.Cost(10, 10.0))
    found = peers.rescored(tiny, item, given, truth, 3)
    assert found.order.tolist() == [2, 1, 0, *range(3, len(item.spans))]
    assert found.exact == {0: 0.0, 1: 1.0, 2: 2.0}
    assert found.cost.n_tokens > given.cost.n_tokens


@pytest.mark.filterwarnings("ignore")  # the package's own
def test_context_cite_weighs_every_piece(tiny: HfBackend, item: ContextItem, case: Case) -> None:
    if importlib.util.find_spec("context_cite") is None:
        pytest.skip("context-cite is not installed (pip install -e '.[bench]')")
    prepared = PromptSettings(unit="sentence").prepare(case, tiny, Influence())
    found = peers.context_cite(tiny, item, prepared.context, prepared.query, f" {case.response}", 1000)
    assert sorted(found.order.tolist()) == list(range(len(item.spans)))
    assert 1000 <= found.cost.n_tokens < 1000 + len(item.prompt.ids) + len(item.response or ())


@pytest.fixture(scope="module")
def study() -> ModuleType:
    return script(DOCS / "results" / "long_contexts.py")


def made_record(rng: np.random.Generator, n: int = 60) -> dict[str, Any]:
    values = rng.exponential(size=n)
    order = np.argsort(-values).tolist()
    searched = {"order": order, "exact": {str(i): values[i] for i in order[:6]}, "tokens": 10, "operations": 10.0}
    every = {"order": order, "exact": {str(i): values[i] for i in order}, "tokens": 50, "operations": 50.0}
    return {
        "id": "made", "kind": "once", "length": 1000, "context_tokens": 990, "needles": order[:1],
        "exact": values.tolist(), "screened": (values * rng.uniform(0.5, 1.0, n)).tolist(), "noise": 1e-4,
        "placebo": 0.5, "largest error": 2e-5, "signed": [3.0], "together": (4.0, 3.5),
        "methods": {"exact": every, "search": searched},
    }  # fmt: skip


def test_a_search_that_finds_all_has_full_marks(study: ModuleType) -> None:
    record = made_record(np.random.default_rng(1))
    rows = list(study.rows_of(record))
    assert [row["method"] for row in rows] == ["exact", "search"]
    assert all(row[f"recall at {k}"] == 1 for row in rows for k in study.KS)
    assert all(row["average precision"] == 1 for row in rows)
    assert [row["largest error"] for row in rows] == ["", 2e-5]
    assert rows[1]["exact over operations"] == 5
    (needle,) = study.needles_of(record)
    assert (needle["rank"], needle["signed"], needle["needles together"]) == (1, 3.0, 4.0)
    assert study.average_precision([4, 7, 2, 9], {4, 2}) == pytest.approx((1 + 2 / 3) / 2)


def test_audits_hold_as_often_as_they_say(study: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "N_SEEDS", 40)
    rows = list(study.audits_of(made_record(np.random.default_rng(2))))
    assert [(row["list"], row["missed at most %"]) for row in rows] == [
        (kind, percent) for kind in ("search", "random") for percent in study.MISSED
    ]
    assert all(row["truly missed"] == 0 for row in rows[:3])
    assert any(row["truly missed"] > 5 for row in rows[3:])
    assert all(row["least coverage by formula"] >= 0.95 for row in rows)
    assert all(row["statement holds"] >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 40) for row in rows)
