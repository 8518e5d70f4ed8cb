"""How well does a search find what matters in a long context, and what does it cost?

    python -m benchmarks.long_contexts DATA CASES
    leakmeter influence --data CASES/1000.jsonl --unit sentence --out RUNS     (and for 2000)
    leakmeter influence --data CASES/1000.jsonl --unit sentence --search top:5 --out RUNS
    python docs/results/long_contexts.py DATA RUNS RECORDS DIRECTORY

For each context of `benchmarks/long_contexts.py` whose pieces were all scored in RUNS: what `--search top:5` lists,
what its screen says of every piece, what audits would say over 200 seeds, and what the peers in
`benchmarks/long_contexts_peers.py` find. RECORDS keeps what was scored for it; what is there is not scored again.
`long_contexts.csv`, three more tables and `long_contexts.png` are written into DIRECTORY.
"""

import csv
import json
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pyarrow.parquet as pq
from benchmarks.base import UnavailableError
from benchmarks.long_contexts import NEEDLES, build
from benchmarks.long_contexts_memory import Remembering, Working
from benchmarks.long_contexts_peers import Cost, Found, attention, context_cite, cost_of, hierarchical, rescored
from scipy.stats import spearmanr

from leakmeter import load_backend
from leakmeter.core.drive import drive
from leakmeter.core.item import LEVELS
from leakmeter.core.reductions import TargetLogProbs
from leakmeter.core.request import Request
from leakmeter.core.tree import chunk_of
from leakmeter.data.cases import cases_of
from leakmeter.instruments.influence.measure import Influence
from leakmeter.instruments.influence.search import Audit, Search, Searcher, draw, kth, states_of
from leakmeter.stats.conformal import interval, interval_factor
from leakmeter.stats.hypergeometric import coverage, upper_limit
from leakmeter.text.build import PromptSettings

MODEL = "smollm2-135m"
K = 5
KS = (1, 3, 5)
MISSED = (1, 5, 10)  # % of the pieces left
PEER_LENGTHS = (1000,)  # of the contexts that the peers search too
N_SEEDS = 200
N_COSTS = 5  # seeds over which the cost of an audit is averaged
WIDER = 10  # for a search that lists more than are asked for
METHODS = ("exact", "search", "search top:10", "attention", "attention, rescored", "hierarchical", "context-cite")


def runs_of(directory):
    """Of each case, measurements by (statistic, piece): of runs that scored all pieces, and of searched ones."""
    whole, searched = {}, {}
    for path in sorted(directory.glob("*/measurements-*.parquet")):
        frame = pq.read_table(path).to_pandas().sort_values("position", kind="stable")
        for case, rows in frame.groupby("item", observed=True):
            found = {key: part.value.to_numpy() for key, part in rows.groupby(["statistic", "piece"], observed=True)}
            (searched if any(key[0] == "screened" for key in found) else whole)[case] = found
    return whole, searched


def sizes(rows):
    """Σ|·| of each row."""
    return np.abs(np.asarray(rows)).sum(axis=-1)


def learned(memory, item, truth):
    """Have the model remember what was scored for the truth, and count from 0."""
    whole = truth["log_prob", ""]
    memory.learn(item.prompt, whole)
    memory.learn(item.blank, whole - truth["whole", ""])
    for span in item.spans:
        if span.kind == "unit":
            memory.learn(item.cuts[span.name], whole - truth["without_this", span.name])
    for number, prompt in enumerate(item.placebos):
        memory.learn(prompt, whole + truth["placebo", str(number)])
    memory.forget_cost()


def searched(memory, case, truth, k):
    """What `--search top:k` finds, with Σ|τ| of the screen for every piece; nothing need be known of the truth."""
    item = PromptSettings(unit="sentence").prepare(case, memory.backend, Influence(search=f"top:{k}")).item
    units = [span.name for span in item.spans if span.kind == "unit"]
    memory.forget_cost()
    if truth is not None:
        learned(memory, item, truth)
    searcher = Searcher(Search(k), None, 1, TargetLogProbs(), item.response, 0)
    (found,), _ = drive(memory, [searcher.trial(item)])
    screened = np.array([found.nats(found.hidden[name]) for name in units])
    exact = {i: found.nats(found.cuts[name]) for i, name in enumerate(units) if name in found.cuts}
    known = np.array([exact.get(i, -1.0) for i in range(len(units))])
    return Found(np.lexsort((-screened, -known)), exact, Cost(memory.n_tokens_run, memory.operations)), screened


def prepared_of(context, backend):
    """The case, cut by sentence, and its texts."""
    (case,) = cases_of([context.case]).cases
    return case, PromptSettings(unit="sentence").prepare(case, backend, Influence())


def peers_of(context, backend, truth, search, memory):
    """What the peers find; context-cite with as many tokens as the search needed."""
    case, prepared = prepared_of(context, backend)
    item = prepared.item
    learned(memory, item, truth)
    methods = {"hierarchical": hierarchical(memory, item, K), "attention": attention(backend, item)}
    try:
        n_tokens = search.cost.n_tokens
        methods["context-cite"] = context_cite(backend, item, prepared.context, prepared.query, case.response, n_tokens)
    except UnavailableError as why:
        sys.stderr.write(f"context-cite is left out: {why}\n")
    return {name: told(found) for name, found in methods.items()}


def together(memory, item, numbers):
    """Σ|τ| and the signed sum of pieces that are left out together."""
    prompts = (item.prompt, item.without([item.spans[i].name for i in numbers]))
    (scores,) = memory.score(chunk_of([Request(prompts, item.response, TargetLogProbs())]))
    moved = scores.values[0] - scores.values[1]
    return float(np.abs(moved).sum()), float(moved.sum())


def told(found):
    """What a search says, for a file."""
    return {
        "order": found.order.tolist(),
        "exact": {str(i): float(value) for i, value in found.exact.items()},
        "tokens": found.cost.n_tokens,
        "operations": found.cost.operations,
    }


def largest_error(truth, listed):
    """How far the exact values that a run of a search listed are from the truth, nats; None where there is no run."""
    if listed is None:
        return None
    names = [piece for statistic, piece in listed if statistic == "without_this"]
    both = ([run["without_this", name] for name in names if ("without_this", name) in truth] for run in (truth, listed))
    return float(np.abs(np.subtract(*map(sizes, both))).max())


def record_of(context, memory, truth, listed, screened, methods):
    """Everything that is known of a context, in numbers."""
    backend = memory.backend
    case, prepared = prepared_of(context, backend)
    item = prepared.item
    exact = sizes([truth["without_this", span.name] for span in item.spans])
    texts = [prepared.context[span.ranges[0][0] : span.ranges[-1][1]].strip() for span in item.spans]
    everything = exact_cost(backend, item)
    every = Found(np.argsort(-exact, kind="stable"), dict(enumerate(exact)), everything)
    if "attention" in methods:
        ranked, n = methods["attention"], len(methods["search"]["exact"])
        ranking = Found(np.array(ranked["order"]), {}, Cost(ranked["tokens"], ranked["operations"]))
        methods = {**methods, "attention, rescored": told(rescored(backend, item, ranking, exact, n))}
    needles = [texts.index(needle) for needle in context.needles]
    return {
        "id": case.id,
        "kind": context.kind,
        "length": context.length,
        "context_tokens": item.prompt.n_tokens("context"),
        "exact": exact.tolist(),
        "screened": screened.tolist(),
        "needles": needles,
        "signed": [float(truth["without_this", item.spans[i].name].sum()) for i in needles],
        "together": together(memory, item, needles),
        "largest error": largest_error(truth, listed),
        "noise": float(truth["noise", ""].sum()),
        "placebo": float(sizes([truth[key] for key in truth if key[0] == "placebo"]).mean()),
        "methods": {"exact": told(every), **methods},
    }


def exact_cost(backend, item):
    """What it takes without a search: the prompt without each piece, and the placebos, which a search scores too."""
    return cost_of(backend, [item.blank, item.prompt, *item.cuts.values(), *item.placebos], item.response)


def first_rescored(item, search):
    """A search that rescores the first pieces of a context, where a cut costs most, and one of each level."""
    pieces = [span for span in item.spans if span.kind == "unit"][: search.most + 1]
    beside = [span for span in item.spans if span.kind == "value"][: search.k]
    beside += [next(s for s in item.spans if s.kind == level) for level in {s.kind for s in item.spans} & set(LEVELS)]
    hidden = (item.blank, item.prompt, *(item.prompt.hiding(*span.pieces) for span in item.spans))
    yield [states_of(item, item.response), Request(hidden, item.response, TargetLogProbs())]
    cuts = (item.prompt, *(item.cuts[span.name] for span in [*pieces, *beside]), *item.placebos)
    yield [Request(cuts, item.response, TargetLogProbs())]


def costs_of(context, backend, search):
    """What is needed beside exact scoring of every piece: the least and the most a search may take, and audits.

    `search` is what was found, None where the context was not searched.
    """
    case, prepared = prepared_of(context, backend)
    item = prepared.item
    everything = exact_cost(backend, item)
    row = {
        "id": case.id,
        "kind": context.kind,
        "length": context.length,
        "context_tokens": item.prompt.n_tokens("context"),
        "pieces": len(item.spans),
        "exact tokens": everything.n_tokens,
        "exact operations": everything.operations,
    }
    with_levels = PromptSettings(unit="sentence").prepare(case, backend, Influence(search=f"top:{K}")).item
    for name, option in (("least", Search(K, K + 1)), ("most", Search(K))):
        working = Working(backend)
        drive(working, [first_rescored(with_levels, option)])
        row |= {f"{name} rescored": min(option.most, len(item.spans)), f"{name} operations": working.operations}
    found = search is not None
    row |= {
        "rescored": len(search.exact) if found else "",
        "tokens": search.cost.n_tokens if found else "",
        "operations": search.cost.operations if found else "",
    }
    names = [span.name for span in item.spans]
    left = [name for i, name in enumerate(names) if i not in search.exact] if found else names[K + 1 :]
    bare = cost_of(backend, [item.prompt], item.response).operations
    for percent in MISSED:
        n = audit_of(percent).draws(len(left))
        drawn = (draw(left, n, seed, item.id, 1) for seed in range(N_COSTS))
        costs = [cost_of(backend, [item.prompt, *(item.cuts[name] for name in one)], item.response) for one in drawn]
        # The search has left the states of the prompt.
        audit = float(np.mean([cost.operations for cost in costs])) - bare
        row |= {f"drawn, {percent} %": n, f"audit operations, {percent} %": audit}
    return row


def audit_of(percent):
    """The audit that is to miss a percentage of the pieces left, at most, with 95 % confidence."""
    return Audit.parse(f"0.95:{percent}%")


def rows_of(record):
    """A row for each method."""
    exact = np.array(record["exact"])
    best = np.argsort(-exact, kind="stable")
    above = set(np.flatnonzero(exact > max(record["placebo"], record["noise"])).tolist())
    full = record["methods"]["exact"]["operations"]
    for name in METHODS:
        if name not in record["methods"]:
            continue
        found = record["methods"][name]
        order = found["order"]
        wanted = above & set(best[:K].tolist())
        yield {
            **{key: record[key] for key in ("id", "kind", "length", "context_tokens")},
            "pieces": len(exact),
            "method": name,
            "scored exactly": len(found["exact"]),
            **{f"recall at {k}": len({*order[:k]} & {*best[:k].tolist()}) / k for k in KS},
            "average precision": average_precision(order, set(best[:K].tolist())),
            "above placebo": len(wanted),
            "above placebo found": len(wanted & set(order[:K])),
            "needles": len(record["needles"]),
            "needles listed": len(set(record["needles"]) & set(order[:K])),
            "needles above placebo": len(set(record["needles"]) & above),
            "tokens": found["tokens"],
            "operations": found["operations"],
            "exact over operations": full / found["operations"],
            "largest error": "" if name != "search" or record["largest error"] is None else record["largest error"],
            "noise floor": record["noise"],
            "rank correlation of screen": spearmanr(exact, record["screened"]).statistic,
        }


def average_precision(order, relevant):
    """Mean of the precision at each relevant piece."""
    hits = [place for place, piece in enumerate(order, start=1) if piece in relevant]
    return float(np.mean([n / place for n, place in enumerate(hits, start=1)]))


def needles_of(record):
    """A row for each needle."""
    exact, screened = np.array(record["exact"]), np.array(record["screened"])
    for number, signed in zip(record["needles"], record["signed"], strict=True):
        yield {
            **{key: record[key] for key in ("id", "kind", "length")},
            "exact": exact[number],
            "signed": signed,
            "screened": screened[number],
            "rank": int((exact > exact[number]).sum()) + 1,
            "rank by screen": int((screened > screened[number]).sum()) + 1,
            "placebo": record["placebo"],
            "needles together": record["together"][0],
            "needles together, signed": record["together"][1],
        }


def audits_of(record):
    """A row for each audit: its statements over seeds, behind our list and behind five pieces drawn at random."""
    exact, screened = np.array(record["exact"]), np.array(record["screened"])
    names = [str(i) for i in range(len(exact))]
    rng = np.random.default_rng(0)
    lists = {
        "search": [int(i) for i in record["methods"]["search"]["exact"]],
        "random": rng.choice(len(exact), K, replace=False).tolist(),
    }
    for (kind, listed), percent in ((one, percent) for one in lists.items() for percent in MISSED):
        audit = audit_of(percent)
        left = [name for i, name in enumerate(names) if i not in listed]
        threshold = kth(exact[listed].tolist(), K)
        n = audit.draws(len(left))
        missed = {name for name in left if exact[int(name)] > threshold}
        holds, limits, held, widths = [], [], {"noise": [], "placebo": []}, {"noise": [], "placebo": []}
        for seed in range(N_SEEDS):
            drawn = draw(left, n, seed, record["id"], 1)
            n_found = len(missed & set(drawn))
            limit = upper_limit(len(left), n, n_found, audit.alpha)
            holds.append(len(missed) <= limit)
            limits.append(limit - n_found)
            here = np.array([int(name) for name in drawn], dtype=int)
            rest = [int(name) for name in left if name not in set(drawn)]
            for floor in held:
                factor = interval_factor(exact[here], screened[here], 0.95, record[floor])
                if factor is not None and rest:
                    ends = np.array([interval(screened[i], factor, record[floor]) for i in rest])
                    held[floor].append(np.mean((ends[:, 0] <= exact[rest]) & (exact[rest] <= ends[:, 1])))
                    widths[floor].append(np.median(ends[:, 1] - ends[:, 0]))
        yield {
            **{key: record[key] for key in ("id", "kind", "length")},
            "list": kind,
            "missed at most %": percent,
            "left": len(left),
            "drawn": n,
            "truly missed": len(missed),
            "stated at most": float(np.mean(limits)),
            "statement holds": float(np.mean(holds)),
            "least coverage by formula": min(coverage(len(left), m, n, audit.alpha) for m in range(len(left) + 1)),
            **{f"interval holds, floor {floor}": mean_or_none(held[floor]) for floor in held},
            **{f"interval width, floor {floor}": mean_or_none(widths[floor]) for floor in held},
        }


def mean_or_none(values):
    """The mean; nothing where there is none."""
    return float(np.mean(values)) if values else ""


def figure_of(records, rows, path):
    """Screened against exact values, and recall against cost."""
    from matplotlib.figure import Figure

    colours = dict(zip(NEEDLES, ("#0072b2", "#56b4e9", "#009e73", "#d55e00", "#cc79a7"), strict=True))
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(9.6, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        for kind, colour in colours.items():
            of_kind = [record for record in records if record["kind"] == kind]
            exact = np.concatenate([record["exact"] for record in of_kind] or [[]])
            screened = np.concatenate([record["screened"] for record in of_kind] or [[]])
            left.plot(screened, exact, ".", color=colour, markersize=3, alpha=0.45, zorder=1)
            needles = [(record["screened"][i], record["exact"][i]) for record in of_kind for i in record["needles"]]
            left.plot(*zip(*needles, strict=True), "o", color=colour, markersize=6, markeredgecolor="black", label=kind)
        ends = (0.005, 100.0)
        left.plot(ends, ends, color="black", linewidth=0.8, linestyle="--")
        left.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
        left.set(xlabel="screened, nats", ylabel="exact, nats", title="each sentence; needles are outlined")
        left.legend(loc="lower right", title="needle")
        marks = dict(zip(METHODS[1:], ("o", "P", "v", "^", "s", "D"), strict=True))
        for name, mark in marks.items():
            for length, filled in ((1000, "none"), (2000, "left")):
                some = [row for row in rows if row["method"] == name and row["length"] == length]
                if some:
                    ratio = np.median([row["exact over operations"] for row in some])
                    recall = np.mean([row[f"recall at {K}"] for row in some])
                    label = name if length == 1000 else None
                    right.plot(
                        ratio,
                        recall,
                        mark,
                        color="#0072b2" if name.startswith("search") else "#d55e00",
                        fillstyle=filled,
                        label=label,
                    )
        right.set_xscale("log")
        right.set_xticks((1, 2, 5, 10, 20), ("1", "2", "5", "10", "20"))
        right.minorticks_off()
        right.set(ylim=(0, 1.03), xlabel="operations of exact scoring over the method's, median")
        right.set(ylabel="recall of the 5 strongest, mean", title="empty: 1,000 tokens; half: 2,000")
        right.legend(loc="lower left")
        figure.savefig(path, dpi=110, metadata={"Software": None})


def write(rows, path):
    """A CSV file."""
    with path.open("w", encoding="utf-8", newline="") as sink:
        writer = csv.DictWriter(sink, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: f"{v:.6g}" if isinstance(v, float) else v for key, v in row.items()} for row in rows)


def main(data, runs, records, directory):
    """Measure, draw and tell."""
    records, directory = Path(records), Path(directory)
    records.mkdir(parents=True, exist_ok=True)
    truth, listed = runs_of(Path(runs))
    backend = load_backend(MODEL, cache=False)
    contexts = build(Path(data), lambda text: len(backend.tokenizer.encode_data(text, first=False).ids))
    known, costs = [], []
    for context in contexts:
        name = context.case["id"]
        own, kept = truth.get(name), records / f"{name}.npz"
        search = None
        if own is not None or kept.exists():
            memory = Remembering(backend, kept)
            search, screened = searched(memory, prepared_of(context, backend)[0], own, K)
        costs.append(costs_of(context, backend, search))
        if own is not None:
            wider, _ = searched(memory, prepared_of(context, backend)[0], own, WIDER)
            peers, path = {}, records / f"{name}.json"
            if context.length in PEER_LENGTHS:
                if not path.exists():
                    path.write_text(json.dumps(peers_of(context, backend, own, search, memory)), encoding="utf-8")
                peers = json.loads(path.read_text("utf-8"))
            methods = {"search": told(search), f"search top:{WIDER}": told(wider), **peers}
            known.append(record_of(context, memory, own, listed.get(name), screened, methods))
        sys.stderr.write(f"{name}\n")
    rows = [row for record in known for row in rows_of(record)]
    write(rows, directory / "long_contexts.csv")
    write(costs, directory / "long_contexts_cost.csv")
    write([row for record in known for row in needles_of(record)], directory / "long_contexts_needles.csv")
    write([row for record in known for row in audits_of(record)], directory / "long_contexts_audit.csv")
    figure_of(known, rows, directory / "long_contexts.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
