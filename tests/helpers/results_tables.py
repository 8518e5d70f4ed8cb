"""What the tables of `docs/results` say, made anew from their CSV files.

A table is a list of rows, a row a list of cells. A cell is the text that stands there; the numbers in it, in their
order and before they are rounded; `PRINTED` for a number of a paper; or `UNKEPT` where the page's CSV file has none of
its numbers. In a list of numbers None stands for a single one that it has not.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from statistics import median
from types import EllipsisType

from helpers.places import DOCS

RESULTS = DOCS / "results"
UNKEPT = ...
PRINTED = "as the paper printed it"
Row = dict[str, str]
Cell = str | Sequence[float | None] | EllipsisType
Table = list[list[Cell]]


@cache
def read(name: str) -> tuple[Row, ...]:
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def where(name: str, **of: object) -> list[Row]:
    return [row for row in read(name) if all(row[key] == str(value) for key, value in of.items())]


def one(name: str, **of: object) -> Row:
    (row,) = where(name, **of)
    return row


def numbers(row: Row, *names: str, times: float = 1.0) -> list[float]:
    return [times * float(row[name]) for name in names]


def interval(row: Row, name: str, times: float = 1.0) -> list[float]:
    """ "1.5 [1.2, 1.9]"."""
    return numbers(row, name, f"{name}_low", f"{name}_high", times=times)


def deviating(row: Row, name: str) -> list[float]:
    """ "1.5 ± 0.4 [1.2, 1.9]"."""
    return numbers(row, name, f"{name}_std", f"{name}_low", f"{name}_high")


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _of_responses(row: Row, *, rouge_prompts: bool = True) -> list[Cell]:
    kinds = ("repeat", "rouge") if rouge_prompts else ("repeat",)
    return [
        interval(row, "nats"),
        interval(row, "nats_per_token"),
        interval(row, "rouge_l_f1", 100),
        *(numbers(row, f"{kind}_published", f"{kind}_stated") for kind in kinds),
    ]


def figure_2a() -> Table:
    names = ("smollm2-135m, instruction-tuned", "gemma3-270m, pretrained")
    rows = zip(names, read("figure_2a"), strict=True)
    return [[name, *_of_responses(row, rouge_prompts=False)] for name, row in rows]


def figure_2c() -> Table:
    rows = read("figure_2c")
    nats = [float(row["nats"]) for row in rows]
    early, late, third = mean(nats[:10]), mean(nats[10:]), mean(nats[2:10])
    return [
        ["the first", interval(rows[0], "nats")],
        ["the second", interval(rows[1], "nats")],
        ["0 to 9", [early, None, None]],
        ["10 to 49", [late, None, None]],
        ["0 to 9 less 10 to 49, paired", [early - late, None, None]],
        ["2 to 9 less 10 to 49, paired", [third - late, None, None]],
    ]


def _peak(rows: Sequence[Row]) -> Row:
    """Where a curve is highest, where at least half of the contexts reach."""
    most = max(int(row["n"]) for row in rows)
    return max((row for row in rows if 2 * int(row["n"]) >= most), key=lambda row: float(row["nats"]))


def figure_3() -> Table:
    out: Table = []
    for n in (128, 32, 8, 4):
        peak = _peak(where("figure_3", unit=f"ngram:{n}"))
        out.append([[n], UNKEPT, numbers(peak, "piece"), interval(peak, "nats"), UNKEPT, UNKEPT, UNKEPT])
    return out


def figure_4() -> Table:
    peak = _peak(read("figure_4"))
    records = [max(float(row["n"]) for row in read("figure_4"))]
    return [[records, UNKEPT, numbers(peak, "first_token"), interval(peak, "nats"), UNKEPT, UNKEPT, UNKEPT]]


def _over(name: str, setting: str) -> Table:
    return [[numbers(row, setting), *_of_responses(row)] for row in read(name)]


def tables_2_3() -> Table:
    names = {"pubmedqa": "PubMedQA", "cnn_dm": "CNN-DM"}
    return [[names[row["dataset"]], numbers(row, "cid_lambda"), *_of_responses(row)] for row in read("tables_2_3")]


def theorem_3_1() -> Table:
    said = {
        "correlation over tokens": ("correlation, tokens", 1),
        "correlation over sentences (sums over a response)": ("correlation, sentences", 1),
        "rank correlation of a record's sentences, mean": ("rank correlation within a record", 1),
        "slope over sentences; 1 would be no other term": ("slope, sentences", 1),
        "Σ of the term beside it, as a share of Σ τ": ("term beside it, share of the losses", 100),
        "tokens (of 0.01 nats or more) off the line by over a tenth": ("tokens more than a tenth off", 100),
    }
    out: Table = []
    for label, (what, times) in said.items():
        rows = [one("theorem_3_1", **{"lambda": weight, "pmi of": "p", "what": what}) for weight in ("0.5", "1", "1.5")]
        out.append([label, *(numbers(row, "value", "low", "high", times=times) for row in rows)])
    return out


def second_order() -> Table:
    bins = ("0.01", "0.03162", "0.1", "0.3162")
    out: Table = []
    for label in dict.fromkeys(f"{row['place']}, {row['change']}" for row in read("second_order")):
        place, change = label.split(", ")
        rows = [one("second_order", place=place, change=change, **{"length from": start}) for start in bins]
        shares = [[100 * float(row["within a tenth"]), float(row["ratio, 50 %"])] for row in rows]
        out.append([label, *shares, UNKEPT])
    return out


def _renyi(name: str, first: str, setting: str, *, worst: bool = True) -> Table:
    out: Table = []
    for row in read(name):
        out.append(
            [
                numbers(row, first),
                numbers(row, setting),
                numbers(row, "order"),
                numbers(row, "promised_rdp_nats"),
                numbers(row, "measured_rdp_nats"),
                numbers(row, "rdp_ratio", times=100),
                *([numbers(row, "worst_token_ratio", times=100), numbers(row, "perplexity")] if worst else []),
            ]
        )
    return out


def _convention(row: Row) -> list[Cell]:
    return [numbers(row, "paper_epsilon"), numbers(row, "zero_leak_epsilon")]


def audit_table_4_convention() -> Table:
    out: Table = []
    for row in read("audit_table_4"):
        more = float(row["paper_epsilon"]) - float(row["zero_leak_epsilon"])
        out.append([numbers(row, "target_epsilon"), *_convention(row), [more], numbers(row, "printed_epsilon")])
    return out


def _audit_table(name: str) -> Table:
    told = zip(_renyi(name, "target_epsilon", "setting"), read(name), strict=True)
    return [[*cells, *_convention(row), numbers(row, "printed_epsilon")] for cells, row in told]


def audit_figure_6() -> Table:
    told = zip(_renyi("audit_figure_6", "delta", "setting", worst=False), read("audit_figure_6"), strict=True)
    return [[*cells, *_convention(row)] for cells, row in told]


DATASETS = {"agnews": "AG News", "dbpedia14": "DBpedia-14", "trec": "TREC"}


def icl_figure_1() -> Table:
    return [
        [
            [position],
            *(
                deviating(one("icl_figure_1", dataset=dataset, exemplar_position=position), "position_nats")
                for dataset in DATASETS
            ),
        ]
        for position in (1, 2, 3, 4)
    ]


def icl_figure_3() -> Table:
    out: Table = []
    for shots in (1, 2, 4, 8, 16):
        rows = [one("icl_figure_3", dataset=dataset, shots=shots) for dataset in DATASETS]
        accuracies = [100 * float(row["accuracy"]) for row in rows]
        out.append([[shots], *(deviating(row, "loss_nats") for row in rows), accuracies])
    return out


def _pairs(name: str, setting: str, settings: Sequence[str], accuracy: Callable[[Row], list[float]]) -> Table:
    """Two settings of the same queries; the interval of the difference and its p are of the pairs, not of the means."""
    out: Table = []
    for dataset, label in DATASETS.items():
        rows = [one(name, dataset=dataset, **{setting: value}) for value in settings]
        before, after = (float(row["loss_nats"]) for row in rows)
        accuracies = [value for row in rows for value in accuracy(row)]
        if name == "icl_figure_7":  # the answers are the same in both spaces
            assert accuracies[:3] == accuracies[3:]
            accuracies = accuracies[:3]
        cells = [deviating(row, "loss_nats") for row in rows]
        out.append([label, *cells, [after - before, None, None], UNKEPT, accuracies])
    return out


def _with_interval(row: Row) -> list[float]:
    return interval(row, "accuracy", 100)


def _alone(row: Row) -> list[float]:
    return [100 * float(row["accuracy"])]


def icl_table_1() -> Table:
    ours: list[Cell] = ["SmolLM2-135M-Instruct"]
    for dataset in DATASETS:
        row = one("icl_table_1", dataset=dataset)
        ours += [deviating(row, "loss_nats"), _with_interval(row)]
    printed = ("Gemma-2-9b-it", "Llama-3.1-8B-Instruct", "Qwen2.5-7B-Instruct")
    return [ours, *([f"{model}, as printed", *[PRINTED] * 6] for model in printed)]


CHI = "susceptibility_nats"
_CELLS = {"open, questions": ("open", "question"), "open, completions": ("open", "completion")}
_CELLS["closed, questions"] = ("closed", "question")


def susceptibility_contexts() -> Table:
    out: Table = []
    for n in (8, 16, 32):
        rows = [one("susceptibility_contexts", contexts=n, openness=openness) for openness in ("all", "open", "closed")]
        ceiling = float(rows[0][CHI]) / float(rows[0]["ceiling_share"])
        out.append([[n], [ceiling], *(interval(row, CHI) for row in rows), UNKEPT, UNKEPT])
    # Of 64 contexts there are means of questions and completions, open and closed.
    rows = where("susceptibility_figure_4", estimator="Monte Carlo")
    parts = {(row["openness"], row["form"]): row for row in rows}
    closed, *open_ = (parts[_CELLS[label]] for label in ("closed, questions", "open, questions", "open, completions"))
    ceiling = float(closed[CHI]) / float(closed["ceiling_share"])
    means = [[_mean_over_queries(of)] for of in ([closed, *open_], open_)]
    out.append(["64, other queries too", [ceiling], *means, interval(closed, CHI), UNKEPT, UNKEPT])
    return out


def _mean_over_queries(rows: Sequence[Row]) -> float:
    return sum(float(row["n"]) * float(row[CHI]) for row in rows) / sum(float(row["n"]) for row in rows)


def susceptibility_table_2() -> Table:
    out: Table = []
    for model in ("smollm2-135m", "gemma3-270m"):
        rows = [one("susceptibility_table_2", model=model, openness=openness) for openness in ("all", "open", "closed")]
        out.append([model, *(interval(row, CHI) for row in rows), interval(rows[0], "from_bare_nats")])
    return out


def susceptibility_figure_3() -> Table:
    estimators = ({"estimator": "Monte Carlo"}, {"estimator": "Fisher", "place": "query", "sigma": "identity"})
    return [
        [
            label,
            *(
                interval(one("susceptibility_figure_3", openness=openness, familiarity=known, **estimator), CHI)
                for estimator in estimators
                for known in ("real", "invented")
            ),
        ]
        for label, openness in (("open queries", "open"), ("closed queries", "closed"), ("all", "all"))
    ]


def _figure_4_rows(label: str) -> tuple[Row, Row]:
    openness, form = _CELLS[label]
    of = {"openness": openness, "form": form}
    return (
        one("susceptibility_figure_4", estimator="Monte Carlo", **of),
        one("susceptibility_figure_4", estimator="Fisher", place="query", sigma="identity", **of),
    )


def susceptibility_figure_4() -> Table:
    out: Table = []
    for label in _CELLS:
        chi, fisher = _figure_4_rows(label)
        out.append(
            [label, numbers(chi, "n"), interval(chi, CHI), interval(chi, "from_bare_nats"), interval(fisher, CHI)]
        )
    return out


def susceptibility_figure_4_pairs() -> Table:
    pairs = {
        "closed less open, questions": ("closed, questions", "open, questions"),
        "completion less question, open": ("open, completions", "open, questions"),
    }
    out: Table = []
    for label, (first, second) in pairs.items():
        less = [
            float(a[CHI]) - float(b[CHI]) for a, b in zip(_figure_4_rows(first), _figure_4_rows(second), strict=True)
        ]
        out.append([label, [less[0], None, None], UNKEPT, [less[1], None, None], UNKEPT])
    return out


def susceptibility_table_1() -> Table:
    predictors = {
        "Eq. 10 (place query, Σ = 1)": "query, identity",
        "query, embedding, spread alone": "query, embedding, spread",
        "slot, empirical": "slot, empirical",
        "layer 10, empirical, spread alone": "layer:10, empirical, spread",
        "layer 20, empirical, spread alone": "layer:20, empirical, spread",
        "query length in tokens": "query length in tokens",
        "entropy of the answer without context": "entropy of the bare answer",
        "whether the query is closed": "query is closed",
    }
    out: Table = []
    for label, predictor in predictors.items():
        cells: list[Cell] = [label]
        for queries in ("open", "closed", "all"):
            row = one("susceptibility_table_1", predictor=predictor, queries=queries)
            cells += [interval(row, name) if row[name] else "–" for name in ("pearson", "spearman")]
        out.append(cells)
    printed = ("Pythia-410m-deduped", "Pythia-160m-deduped", "gpt2")
    return [*out, *([f"{model}, as printed", *[PRINTED] * 6] for model in printed)]


def pii_check() -> Table:
    asked = {
        ("black", "phone"): "telephone number",
        ("black", "email"): "e-mail address",
        ("black", "address"): "postal address",
        ("white", "phone"): "telephone number, behind a soft prompt",
    }
    scores = ("association", "rank of association", "likelihood", "rank of likelihood", "exact match")
    out: Table = []
    for (box, kind), label in asked.items():
        for score in scores:
            rows = [one("pii_check", box=box, type=kind, score=score, repeats=n) for n in (1, 4, 16)]
            out.append([label if score == scores[0] else "", score, *(interval(row, "auc") for row in rows)])
    return out


def served() -> Table:
    rows = read("served")

    def of(engine: str, name: str) -> list[float]:
        return [float(row[f"{engine}_{name}"]) for row in rows]

    def largest_difference(engine: str) -> float:
        return max(abs(a - b) for a, b in zip(of(engine, "nats"), of("local", "nats"), strict=True))

    def range_of(engine: str, name: str) -> list[float]:
        return [min(of(engine, name)), max(of(engine, name))]

    out: list[list[Cell]] = [["this process", range_of("local", "nats"), "–", range_of("local", "noise_floor_nats")]]
    for told, engine in (("vLLM", "vllm"), ("llama.cpp", "llamacpp")):
        token = max(of(engine, "largest_token_difference_nats"))
        floors = range_of(engine, "noise_floor_nats")
        differences = [largest_difference(engine), token]
        out.append([told, range_of(engine, "nats"), differences, floors if max(floors) else floors[:1]])
    return out


_LONG = ("1000", "2000", "4000", "8000")
_RECALLS = tuple(f"recall at {k}" for k in (1, 3, 5))
_MISSED = (1, 5, 10)


def _total(rows: Sequence[Row], name: str) -> float:
    return sum(float(row[name]) for row in rows)


def _mean_of(rows: Sequence[Row], name: str) -> float:
    return mean(float(row[name]) for row in rows)


def _long_marks(rows: Sequence[Row]) -> list[Cell]:
    return [
        [_mean_of(rows, name) for name in _RECALLS],
        [_mean_of(rows, "average precision")],
        [_total(rows, "above placebo found"), _total(rows, "above placebo")],
        [_total(rows, "needles listed"), _total(rows, "needles")],
    ]


def _long_found(by: str, values: Sequence[str]) -> Table:
    out: Table = []
    for value in values:
        rows = where("long_contexts", method="search", **{by: value})
        if rows:
            label: Cell = value if by == "kind" else [float(value)]
            out.append([label, [len(rows)], *_long_marks(rows)])
    return out


def long_by_kind() -> Table:
    return _long_found("kind", tuple(dict.fromkeys(row["kind"] for row in read("long_contexts"))))


def long_by_length() -> Table:
    return _long_found("length", _LONG)


def long_cost() -> Table:
    out: Table = []
    for length in _LONG:
        rows = [row for row in where("long_contexts_cost", length=length) if row["operations"]]
        if not rows:
            continue
        ratios = [float(row["exact operations"]) / float(row["operations"]) for row in rows]
        tokens = [float(row["exact tokens"]) / float(row["tokens"]) for row in rows]
        audits = [
            mean(100 * float(row[f"audit operations, {missed} %"]) / float(row["exact operations"]) for row in rows)
            for missed in _MISSED
        ]
        out.append(
            [
                [float(length)],
                [len(rows)],
                [_mean_of(rows, "pieces")],
                [_mean_of(rows, "rescored")],
                [median(ratios), min(ratios), max(ratios)],
                [median(tokens)],
                *([audit] for audit in audits),
            ]
        )
    return out


def long_peers() -> Table:
    out: Table = []
    for method in ("search", "search top:10", "hierarchical", "attention", "attention, rescored", "context-cite"):
        rows = where("long_contexts", method=method, length=1000)
        ratio = median(float(row["exact over operations"]) for row in rows)
        out.append([method, [len(rows)], *_long_marks(rows), [ratio]])
    return out


def long_audits() -> Table:
    out: Table = []
    for listed in ("search", "random"):
        for missed in _MISSED:
            rows = where("long_contexts_audit", **{"list": listed, "missed at most %": missed})
            out.append(
                [
                    listed,
                    [missed],
                    [_mean_of(rows, "left")],
                    [_mean_of(rows, "drawn")],
                    [_mean_of(rows, "truly missed"), max(float(row["truly missed"]) for row in rows)],
                    [_mean_of(rows, "stated at most")],
                    [min(float(row["statement holds"]) for row in rows), _mean_of(rows, "statement holds")],
                    [min(float(row["least coverage by formula"]) for row in rows)],
                ]
            )
    return out


def long_pairs() -> Table:
    out: Table = []
    for kind in ("twice", "hidden pair", "cancelling pair"):
        rows = where("long_contexts_needles", kind=kind)
        if rows:
            pairs = [(first, second) for first, second in zip(rows[::2], rows[1::2], strict=True)]
            nats = [sorted((float(row["exact"]) for row in pair), reverse=True) for pair in pairs]
            both = mean(float(pair[0]["needles together"]) for pair in pairs)
            out.append([kind, [len(pairs)], [mean(one[0] for one in nats)], [mean(one[1] for one in nats)], [both]])
    return out


def long_intervals() -> Table:
    out: Table = []
    for missed in _MISSED:
        told = where("long_contexts_audit", **{"list": "search", "missed at most %": missed})
        rows = [row for row in told if row["interval holds, floor noise"]]
        cells = [
            [_mean_of(rows, f"interval {what}, floor {floor}")]
            for floor in ("noise", "placebo")
            for what in ("holds", "width")
        ]
        out.append([[missed], [len(rows)], *cells])
    return out


def ledger_day() -> Table:
    places = {(row["document"], row["recipient"]): n for n, row in enumerate(read("ledger_day"), 1)}
    told = {"note-1": (3,), "note-3": (8,), "note-2": (6,), "note-5": (10, 5), "note-4": (11, 1, 4, 9)}
    said = {
        "note-1": "one recipient, three answers about one note",
        "note-3": "one recipient, the same text drawn twice",
        "note-2": "one recipient, a cached answer shown twice",
        "note-5": "two recipients, one cached answer",
        "note-4": "four recipients, a part of one note each",
    }
    out: list[list[Cell]] = [
        [said[note], UNKEPT, [float(places[note, f"recipient {n}"]) for n in of]] for note, of in told.items()
    ]
    of_last = [place for (document, _), place in places.items() if document == "note-6"]
    out.append(["nobody", [-6.0, float(len(of_last))], [float(min(of_last))]])
    return out


def scale_overhead() -> Table:
    return [
        [f"{row['part_s']} s", numbers(row, "plain_s"), numbers(row, "ray_s"), numbers(row, "overhead", times=100)]
        for row in read("scale_overhead")
    ]


def scale() -> Table:
    stores = {"disk": "disk", "object store": "objects"}
    shown = [("disk", 1, s) for s in ("0.1", "1", "5")] + [("disk", 8, "5")]
    shown += [("object store", 1, s) for s in ("1", "5")] + [("object store", 8, s) for s in ("1", "5", "60")]
    return [
        [
            store,
            str(threads),
            f"{part_s} s",
            *(
                numbers(
                    one("scale", store=stores[store], writers=threads if threads > 1 else 0, fleet="even",
                        part_s=part_s, workers=n),
                    "efficiency",
                    times=100,
                )
                for n in (10, 100, 1000)
            ),
        ]
        for store, threads, part_s in shown
    ]  # fmt: skip


def scale_prefixes() -> Table:
    return [
        [
            str(sharing),
            *(
                numbers(one("scale_prefixes", sharing=sharing, workers=n), "work_per_part_s")
                for n in (1, 10, 100, 500, 1000)
            ),
        ]
        for sharing in (1, 4, 16, 64)
    ]


TABLES: dict[str, list[Callable[[], Table]]] = {
    "figure_2a": [figure_2a],
    "figure_2b": [lambda: _over("figure_2b", "max_context_tokens")],
    "figure_2c": [figure_2c],
    "figure_3": [figure_3],
    "figure_4": [figure_4],
    "figure_7": [lambda: _over("figure_7", "temperature")],
    "figure_8": [lambda: _over("figure_8", "cid_lambda")],
    "tables_2_3": [tables_2_3],
    "theorem_3_1": [theorem_3_1],
    "second_order": [second_order],
    "audit_table_4": [lambda: _renyi("audit_table_4", "target_epsilon", "setting"), audit_table_4_convention],
    "audit_tables_5_6": [lambda: _audit_table("audit_table_5"), lambda: _audit_table("audit_table_6")],
    "audit_figure_6": [audit_figure_6],
    "icl_table_1": [icl_table_1],
    "icl_figure_1": [icl_figure_1],
    "icl_figure_2": [lambda: _pairs("icl_figure_2", "model", ("smollm2-135m", "gemma3-270m"), _alone)],
    "icl_figure_3": [icl_figure_3],
    "icl_figure_4": [lambda: _pairs("icl_figure_4", "calibration", ("none", "blank"), _with_interval)],
    "icl_figure_7": [lambda: _pairs("icl_figure_7", "space", ("labels", "vocabulary"), _with_interval)],
    "susceptibility_table_1": [susceptibility_table_1],
    "susceptibility_table_2": [susceptibility_table_2],
    "susceptibility_figure_3": [susceptibility_figure_3],
    "susceptibility_figure_4": [susceptibility_figure_4, susceptibility_figure_4_pairs],
    "susceptibility_contexts": [susceptibility_contexts],
    "pubmedqa": [lambda: [[UNKEPT] * 9] * 20],
    "served": [lambda: [[UNKEPT] * 4] * 4, served, lambda: [[UNKEPT] * 4] * 5, lambda: [[UNKEPT] * 2] * 3],
    "pii_check": [pii_check, lambda: [[UNKEPT] * 5] * 6],
    "scale": [lambda: [[UNKEPT] * 4] * 3, lambda: [[UNKEPT] * 2] * 2, scale_overhead, scale, scale_prefixes],
    "ledger_day": [ledger_day, lambda: [[UNKEPT] * 2] * 7, lambda: [[UNKEPT] * 3] * 2],
    "long_contexts": [long_by_kind, long_by_length, long_cost, long_peers, long_audits, long_intervals, long_pairs],
}
"""Of each page, its tables in their order."""
