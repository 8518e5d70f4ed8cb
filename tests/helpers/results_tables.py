"""What the tables of `docs/results` say, made anew from their CSV files.

A table is a list of rows, a row a list of cells. A cell is the text that stands there; the numbers in it, in their
order and before they are rounded; `PRINTED` for a number of a paper; or `UNKEPT` where the page's CSV file has none of
its numbers. In a list of numbers None stands for a single one that it has not.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from statistics import fmean, median
from types import EllipsisType

from helpers.places import DOCS

RESULTS = DOCS / "results"
UNKEPT = ...
PRINTED = "as the paper printed it"
Row = dict[str, str]
Cell = str | Sequence[float | None] | EllipsisType
Table = list[list[Cell]]
_ENDS = {"": ("",), "[]": ("", "_low", "_high"), "±": ("", "_std", "_low", "_high")}


@cache
def read(name: str) -> tuple[Row, ...]:
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def where(name: str, **of: object) -> list[Row]:
    return [row for row in read(name) if all(row[key] == str(value) for key, value in of.items())]


def one(name: str, **of: object) -> Row:
    (row,) = where(name, **of)
    return row


def cell(row: Row, columns: str) -> list[float]:
    """'a|b' is two columns; 'a%' a column times 100, 'a[]' with its interval, 'a±' with deviation and interval."""
    out = []
    for column in columns.split("|"):
        name = column.rstrip("%[]±")
        end = column[len(name) :]
        out += [(100 if "%" in end else 1) * float(row[name + more]) for more in _ENDS[end.removeprefix("%")]]
    return out


def cells(row: Row, *columns: str) -> list[Cell]:
    return [cell(row, some) for some in columns]


def over(name: str, *columns: str, labels: Sequence[str] = ()) -> Table:
    """A row for each of a file, perhaps behind a label."""
    return [[*labels[i : i + 1], *cells(row, *columns)] for i, row in enumerate(read(name))]


def across(name: str, columns: str, key: str, values: Iterable[object], **of: object) -> list[list[float]]:
    """A cell for each value of a column."""
    return [cell(one(name, **{key: value}, **of), columns) for value in values]


def unkept(n_rows: int, n_columns: int) -> Table:
    return [[UNKEPT] * n_columns] * n_rows


def mean_of(rows: Iterable[Row], name: str) -> float:
    return fmean(float(row[name]) for row in rows)


_ROUGE = ("nats[]", "nats_per_token[]", "rouge_l_f1%[]", "repeat_published|repeat_stated")
_RESPONSES = (*_ROUGE, "rouge_published|rouge_stated")


def coverage(rule: str, sizes: Iterable[int], **of: str) -> list[Cell]:
    rows = [one("intervals", rule=rule, n=n, **of) for n in sizes]
    return ["none" if row["none"] == "1.0" else cell(row, "covers%|too_low%|too_high%|median_width") for row in rows]


def intervals() -> list[Table]:
    """Coverage by shape and rule: of each size, of bounded values, shares, clusters and contexts."""
    shapes = ("lognormal", "exponential", "90 % small, 10 % large", "half zeros", "normal", "t, 3 degrees")
    rules = ("percentile", "BCa", "studentised", "Johnson", "Student", "ours")
    of_means: list[Table] = [
        [[s, *(coverage(rule, [n], of="mean", shape=s)[0] for rule in rules)] for s in shapes]
        for n in (5, 8, 10, 25, 100)
    ]
    ours = {"ours": "leakmeter's", "percentile": "percentile"}
    within: Table = [
        [ours.get(rule, rule), *coverage(rule, (8, 10, 25, 100), of="mean", shape="within [0, 1]")]
        for rule in ("empirical Bernstein", "betting", "Student", "ours")
    ]
    shares: Table = [
        [share, name, *coverage(rule, (5, 8, 10, 25, 100), of="share", shape=f"share {share}")]
        for share in ("0.02", "0.1", "0.3")
        for rule, name in (("ours", "Wilson"), ("Clopper-Pearson", "Clopper–Pearson"))
    ]
    sizes = (8, 10, 20, 60)
    clusters: Table = [
        [f"mean, {kind} clusters", ours[rule], *coverage(rule, sizes, of="mean", shape=f"clusters, {kind}")]
        for kind in ("normal", "exponential")
        for rule in ("percentile", "ours")
    ]
    of_ranks = coverage("percentile", sizes, of="rank correlation", shape="clusters, normal")
    contexts: Table = [
        [kind.removeprefix("contexts "), ours[rule], *coverage(rule, (8, 32, 128), of="susceptibility", shape=kind)]
        for kind in ("contexts alike", "one context in 32 does most")
        for rule in ("percentile", "ours")
    ]
    return [*of_means, within, shares, [*clusters, ["rank correlation ½", "percentile", *of_ranks]], contexts]


def figure_2c() -> Table:
    rows = read("figure_2c")
    early, late, third = (mean_of(rows[some], "nats") for some in (slice(10), slice(10, None), slice(2, 10)))
    told = {
        "0 to 9": early,
        "10 to 49": late,
        "0 to 9 less 10 to 49, paired": early - late,
        "2 to 9 less 10 to 49, paired": third - late,
    }
    first: Table = [[name, cell(row, "nats[]")] for name, row in zip(("the first", "the second"), rows, strict=False)]
    return [*first, *([name, [value, None, None]] for name, value in told.items())]


def peak_of(n: float, rows: Sequence[Row], at: str) -> list[Cell]:
    """Where a curve is highest, where at least half of the contexts reach."""
    most = max(int(row["n"]) for row in rows)
    peak = max((row for row in rows if 2 * int(row["n"]) >= most), key=lambda row: float(row["nats"]))
    return [[n], UNKEPT, *cells(peak, at, "nats[]"), *[UNKEPT] * 3]


def theorem_3_1() -> Table:
    said = {
        "correlation over tokens": ("correlation, tokens", ""),
        "correlation over sentences (sums over a response)": ("correlation, sentences", ""),
        "rank correlation of a record's sentences, mean": ("rank correlation within a record", ""),
        "slope over sentences; 1 would be no other term": ("slope, sentences", ""),
        "Σ of the term beside it, as a share of Σ τ": ("term beside it, share of the losses", "%"),
        "tokens (of 0.01 nats or more) off the line by over a tenth": ("tokens more than a tenth off", "%"),
    }
    weights = ("0.5", "1", "1.5")
    return [
        [label, *across("theorem_3_1", f"value{x}|low{x}|high{x}", "lambda", weights, **{"pmi of": "p", "what": what})]
        for label, (what, x) in said.items()
    ]


def second_order() -> Table:
    bins = ("0.01", "0.03162", "0.1", "0.3162")
    out: Table = []
    for place, change in dict.fromkeys((row["place"], row["change"]) for row in read("second_order")):
        rows = [one("second_order", place=place, change=change, **{"length from": start}) for start in bins]
        shares = ([*cell(row, "within a tenth%"), float(row["ratio, 50 %"])] for row in rows)
        out.append([f"{place}, {change}", *shares, UNKEPT])
    return out


_RENYI = ("setting", "order", "promised_rdp_nats", "measured_rdp_nats", "rdp_ratio%")
_WORST = ("worst_token_ratio%", "perplexity")
_CONVENTION = ("paper_epsilon", "zero_leak_epsilon")


_AUDIT = ("target_epsilon", *_RENYI, *_WORST, *_CONVENTION, "printed_epsilon")


def audit_table_4_convention() -> Table:
    rows = ((row, *cell(row, "|".join(_CONVENTION))) for row in read("audit_table_4"))
    return [[cell(r, "target_epsilon"), [a], [b], [a - b], cell(r, "printed_epsilon")] for r, a, b in rows]


DATASETS = {"agnews": "AG News", "dbpedia14": "DBpedia-14", "trec": "TREC"}


def icl_figure_3() -> Table:
    out: Table = []
    for shots in (1, 2, 4, 8, 16):
        losses, accuracies = (
            across("icl_figure_3", column, "dataset", DATASETS, shots=shots) for column in ("loss_nats±", "accuracy%")
        )
        out.append([[shots], *losses, [*chain(*accuracies)]])
    return out


def icl_pairs(name: str, setting: str, values: Sequence[str], accuracy: str = "accuracy%[]") -> Table:
    """Two settings of the same queries; the interval of the difference and its p are of the pairs, not of the means."""
    out: Table = []
    for dataset, label in DATASETS.items():
        rows = [one(name, dataset=dataset, **{setting: value}) for value in values]
        before, after = (float(row["loss_nats"]) for row in rows)
        accuracies = [*chain(*(cell(row, accuracy) for row in rows))]
        if name == "icl_figure_7":  # the answers are the same in both spaces
            assert accuracies[:3] == accuracies[3:]
            accuracies = accuracies[:3]
        out.append(
            [label, *(cell(row, "loss_nats±") for row in rows), [after - before, None, None], UNKEPT, accuracies]
        )
    return out


def icl_table_1() -> Table:
    rows = [one("icl_table_1", dataset=dataset) for dataset in DATASETS]
    ours = chain(*(cells(row, "loss_nats±", "accuracy%[]") for row in rows))
    return [["SmolLM2-135M-Instruct", *ours], *printed("Gemma-2-9b-it", "Llama-3.1-8B-Instruct", "Qwen2.5-7B-Instruct")]


def printed(*models: str) -> Table:
    return [[f"{model}, as printed", *[PRINTED] * 6] for model in models]


CHI = "susceptibility_nats"
_KINDS = {
    "open, questions": {"openness": "open", "form": "question"},
    "open, completions": {"openness": "open", "form": "completion"},
    "closed, questions": {"openness": "closed", "form": "question"},
}
_FISHER = {"estimator": "Fisher", "place": "query", "sigma": "identity"}
_MONTE_CARLO = {"estimator": "Monte Carlo"}


def susceptibility_contexts() -> Table:
    out: Table = []
    for n in (8, 16, 32):
        rows = [one("susceptibility_contexts", contexts=n, openness=openness) for openness in ("all", "open", "closed")]
        ceiling = float(rows[0][CHI]) / float(rows[0]["ceiling_share"])
        out.append([[n], [ceiling], *(cell(row, f"{CHI}[]") for row in rows), UNKEPT, UNKEPT])
    # Of 64 contexts there are means of questions and completions, open and closed.
    *open_, closed = (one("susceptibility_figure_4", **_MONTE_CARLO, **of) for of in _KINDS.values())
    ceiling = float(closed[CHI]) / float(closed["ceiling_share"])
    means = [
        [sum(float(row["n"]) * float(row[CHI]) for row in rows) / sum(float(row["n"]) for row in rows)]
        for rows in ([*open_, closed], open_)
    ]
    out.append(["64, other queries too", [ceiling], *means, cell(closed, f"{CHI}[]"), UNKEPT, UNKEPT])
    return out


def susceptibility_table_2() -> Table:
    name, kinds = "susceptibility_table_2", ("all", "open", "closed")
    models = ("smollm2-135m", "gemma3-270m")
    bare = across(name, "from_bare_nats[]", "model", models, openness="all")
    chi = [across(name, f"{CHI}[]", "openness", kinds, model=model) for model in models]
    return [[model, *of, last] for model, of, last in zip(models, chi, bare, strict=True)]


def susceptibility_figure_3() -> Table:
    of = [{**by, "familiarity": known} for by in (_MONTE_CARLO, _FISHER) for known in ("real", "invented")]
    return [
        [label, *(cell(one("susceptibility_figure_3", openness=kind, **some), f"{CHI}[]") for some in of)]
        for label, kind in (("open queries", "open"), ("closed queries", "closed"), ("all", "all"))
    ]


def _both_estimates(kind: str) -> list[Row]:
    return [one("susceptibility_figure_4", **by, **_KINDS[kind]) for by in (_MONTE_CARLO, _FISHER)]


def susceptibility_figure_4() -> Table:
    both = {kind: _both_estimates(kind) for kind in _KINDS}
    columns = ("n", f"{CHI}[]", "from_bare_nats[]")
    return [[kind, *cells(chi, *columns), cell(fisher, f"{CHI}[]")] for kind, (chi, fisher) in both.items()]


def susceptibility_figure_4_pairs() -> Table:
    pairs = {
        "closed less open, questions": ("closed, questions", "open, questions"),
        "completion less question, open": ("open, completions", "open, questions"),
    }
    out: Table = []
    for label, kinds in pairs.items():
        both = zip(*map(_both_estimates, kinds), strict=True)
        chi, fisher = (float(a[CHI]) - float(b[CHI]) for a, b in both)
        out.append([label, [chi, None, None], UNKEPT, [fisher, None, None], UNKEPT])
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
        rows = [one("susceptibility_table_1", predictor=predictor, queries=of) for of in ("open", "closed", "all")]
        both = ("pearson", "spearman")
        out.append([label, *(cell(row, f"{name}[]") if row[name] else "–" for row in rows for name in both)])
    return [*out, *printed("Pythia-410m-deduped", "Pythia-160m-deduped", "gpt2")]


def pii_check() -> Table:
    asked = {
        ("black", "phone"): "telephone number",
        ("black", "email"): "e-mail address",
        ("black", "address"): "postal address",
        ("white", "phone"): "telephone number, behind a soft prompt",
    }
    scores = ("association", "rank of association", "likelihood", "rank of likelihood", "exact match")
    repeats = (1, 4, 16)
    return [
        ["" if i else label, score, *across("pii_check", "auc[]", "repeats", repeats, box=box, type=kind, score=score)]
        for (box, kind), label in asked.items()
        for i, score in enumerate(scores)
    ]


def served() -> Table:
    of = {column: [float(row[column]) for row in read("served")] for column in read("served")[0] if "nats" in column}

    def range_of(column: str) -> list[float]:
        return [min(of[column]), max(of[column])]

    out: Table = [["this process", range_of("local_nats"), "–", range_of("local_noise_floor_nats")]]
    for label, engine in (("vLLM", "vllm"), ("llama.cpp", "llamacpp")):
        apart = max(abs(a - b) for a, b in zip(of[f"{engine}_nats"], of["local_nats"], strict=True))
        floors = range_of(f"{engine}_noise_floor_nats")
        differences = [apart, max(of[f"{engine}_largest_token_difference_nats"])]
        out.append([label, range_of(f"{engine}_nats"), differences, floors if max(floors) else floors[:1]])
    return out


_LONG = ("1000", "2000", "4000", "8000")
_MISSED = (1, 5, 10)


def _found(rows: Sequence[Row]) -> list[Cell]:
    def total(name: str) -> float:
        return sum(float(row[name]) for row in rows)

    return [
        [len(rows)], [mean_of(rows, f"recall at {k}") for k in (1, 3, 5)], [mean_of(rows, "average precision")],
        [total("above placebo found"), total("above placebo")], [total("needles listed"), total("needles")],
    ]  # fmt: skip


def long_by(column: str, *values: str) -> Table:
    rows = {value: where("long_contexts", method="search", **{column: value}) for value in values}
    return [[value if column == "kind" else [float(value)], *_found(of)] for value, of in rows.items() if of]


def long_cost() -> Table:
    out: Table = []
    for length in _LONG:
        if not (rows := [row for row in where("long_contexts_cost", length=length) if row["operations"]]):
            continue

        def ratios(over: str, under: str, rows: list[Row] = rows) -> list[float]:
            return [float(row[over]) / float(row[under]) for row in rows]

        whole = ratios("exact operations", "operations")
        audits = [100 * fmean(ratios(f"audit operations, {missed} %", "exact operations")) for missed in _MISSED]
        out.append(
            [
                *([float(length)], [len(rows)], [mean_of(rows, "pieces")], [mean_of(rows, "rescored")]),
                *([median(whole), min(whole), max(whole)], [median(ratios("exact tokens", "tokens"))]),
                *([audit] for audit in audits),
            ]
        )
    return out


def long_peers() -> Table:
    methods = ("search", "search top:10", "hierarchical", "attention", "attention, rescored", "context-cite")
    found = {method: where("long_contexts", method=method, length=1000) for method in methods}
    return [[m, *_found(of), [median(float(row["exact over operations"]) for row in of)]] for m, of in found.items()]


def long_audits() -> Table:
    out: Table = []
    for listed in ("search", "random"):
        for missed in _MISSED:
            rows = where("long_contexts_audit", **{"list": listed, "missed at most %": missed})
            out.append(
                [
                    *(listed, [missed], [mean_of(rows, "left")], [mean_of(rows, "drawn")]),
                    [mean_of(rows, "truly missed"), max(float(row["truly missed"]) for row in rows)],
                    [mean_of(rows, "stated at most")],
                    [min(float(row["statement holds"]) for row in rows), mean_of(rows, "statement holds")],
                    [min(float(row["least coverage by formula"]) for row in rows)],
                ]
            )
    return out


def long_pairs() -> Table:
    out: Table = []
    for kind in ("twice", "hidden pair", "cancelling pair"):
        if rows := where("long_contexts_needles", kind=kind):
            pairs = [*zip(rows[::2], rows[1::2], strict=True)]
            nats = [sorted((float(row["exact"]) for row in pair), reverse=True) for pair in pairs]
            both = mean_of((first for first, _ in pairs), "needles together")
            out.append([kind, [len(pairs)], *([fmean(one)] for one in zip(*nats, strict=True)), [both]])
    return out


def long_intervals() -> Table:
    columns = [f"interval {what}, floor {floor}" for floor in ("noise", "placebo") for what in ("holds", "width")]
    searched = {n: where("long_contexts_audit", **{"list": "search", "missed at most %": n}) for n in _MISSED}
    kept = {missed: [row for row in rows if row[columns[0]]] for missed, rows in searched.items()}
    return [[[n], [len(rows)], *([mean_of(rows, column)] for column in columns)] for n, rows in kept.items()]


def ledger_day() -> Table:
    places = {(row["document"], row["recipient"]): n for n, row in enumerate(read("ledger_day"), 1)}
    told = {
        "one recipient, three answers about one note": ("note-1", 3),
        "one recipient, the same text drawn twice": ("note-3", 8),
        "one recipient, a cached answer shown twice": ("note-2", 6),
        "two recipients, one cached answer": ("note-5", 10, 5),
        "four recipients, a part of one note each": ("note-4", 11, 1, 4, 9),
    }
    out: Table = [
        [said, UNKEPT, [float(places[str(note), f"recipient {n}"]) for n in of]] for said, (note, *of) in told.items()
    ]
    of_last = [place for (document, _), place in places.items() if document == "note-6"]
    return [*out, ["nobody", [-6.0, float(len(of_last))], [float(min(of_last))]]]


def pii_origins() -> Table:
    origins = {
        "en_US": "United States", "en_IN": "India", "it_IT": "Italy", "es_ES": "Spain", "de_DE": "Germany",
        "fr_FR": "France", "pl_PL": "Poland", "tr_TR": "Turkey",
    }  # fmt: skip
    values = {"relationship": "relative", "email": "e-mail", "phone": "telephone", "address": "address"}
    return [
        [
            row["model"],
            values[row["type"]],
            origins[row["origin"]],
            *cells(row, "n_low|n", "n_low_among_decoys"),
        ]
        for row in read("pii_origins")
    ]


_METHODS = ("leakmeter", "string overlap", "recognisers and shapes alone", "presidio")


def disclosures(part: str, columns: Sequence[str]) -> Table:
    rows = [row for row in read("disclosures") if row["part"] == part]
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    named = {"precision": "named right"}
    by_method = {(row["method"], row["kind"]): [float(row["right"]), float(row["of"])] for row in rows}
    return [[named.get(kind, kind), *(by_method[method, kind] for method in columns)] for kind in kinds]


def scale() -> Table:
    shown = [("disk", 1, s) for s in ("0.1", "1", "5")] + [("disk", 8, "5")]
    shown += [("object store", 1, s) for s in ("1", "5")] + [("object store", 8, s) for s in ("1", "5", "60")]
    out: Table = []
    for store, threads, part_s in shown:
        of = {"store": store.replace("object store", "objects"), "writers": threads if threads > 1 else 0}
        efficiency = across("scale", "efficiency%", "workers", (10, 100, 1000), fleet="even", part_s=part_s, **of)
        out.append([store, str(threads), f"{part_s} s", *efficiency])
    return out


def scale_prefixes() -> Table:
    workers = (1, 10, 100, 500, 1000)
    return [
        [str(n), *across("scale_prefixes", "work_per_part_s", "workers", workers, sharing=n)] for n in (1, 4, 16, 64)
    ]


def jobs() -> Table:
    rows = {(row["which"], row["job"], row["cases"]): row for row in read("jobs") if row["measured"] == "True"}
    out: Table = []
    for (which, job, cases), after in rows.items():
        if which == "after":
            before = rows.get(("before", job, cases))
            pairs = [
                cell
                for column in ("seconds", "processor_seconds", "tokens")
                for cell in ([float(before[column])] if before else "–", [float(after[column])])
            ]
            name = "pii probe, three values" if job == "pii probe" else job
            out.append([name, cases, *pairs, [100 * float(after["share_inside_model"])]])
    return out


def jobs_answers() -> Table:
    out: Table = []
    for row in read("jobs_answers"):
        tokens, seconds, difference = float(row["tokens"]), float(row["seconds"]), row["max_abs_diff_nats"]
        times = ([seconds], [seconds / 40], [1000 * seconds / tokens])
        out.append([row["way"], [tokens], *times, [float(difference)] if difference else "–"])
    return out


def jobs_int8() -> Table:
    errors = ("log_prob_rms_error_nats", "log_prob_largest_error_nats", "influence_largest_change_nats")
    columns = ("pass_seconds", "engine_seconds", *errors, "noise_floor_median_nats")
    missing = {"engine_seconds": "refused", "noise_floor_median_nats": "–"}
    order = sorted(read("jobs_int8"), key=lambda row: row["engine_seconds"] == "")
    return [[row["way"], *([float(row[name])] if row[name] else missing[name] for name in columns)] for row in order]


def architectures() -> list[Table]:
    measured, others = [], []
    for row in read("architectures"):
        if not row["largest"]:
            said = f"refused: {row['refused']}" if row["refused"] else f"not built: {row['not_built']}"
            others.append([row["architecture"], said])
            continue
        ways = ", ".join("yes" if row[way] == "True" else "no" for way in ("forks", "joins"))
        tokens = cell(row, "tokens_run|naive_tokens")
        measured.append(
            [row["architecture"], ways, tokens, cell(row, "largest"), row["largest_in"], cell(row, "floor_nats")]
        )
    return [measured, others]


TABLES: dict[str, Callable[[], list[Table]]] = {
    "architectures": architectures,
    "engine": lambda: [unkept(11, 8), unkept(4, 6)],
    "jobs": lambda: [jobs(), jobs_answers(), unkept(5, 3), jobs_int8(), unkept(3, 4), unkept(4, 9)],
    "figure_2a": lambda: [
        over("figure_2a", *_ROUGE, labels=("smollm2-135m, instruction-tuned", "gemma3-270m, pretrained"))
    ],
    "figure_2b": lambda: [over("figure_2b", "max_context_tokens", *_RESPONSES)],
    "figure_2c": lambda: [figure_2c()],
    "figure_3": lambda: [[peak_of(n, where("figure_3", unit=f"ngram:{n}"), "piece") for n in (128, 32, 8, 4)]],
    "figure_4": lambda: [[peak_of(max(float(r["n"]) for r in read("figure_4")), read("figure_4"), "first_token")]],
    "figure_7": lambda: [over("figure_7", "temperature", *_RESPONSES)],
    "figure_8": lambda: [over("figure_8", "cid_lambda", *_RESPONSES)],
    "tables_2_3": lambda: [over("tables_2_3", "cid_lambda", *_RESPONSES, labels=["PubMedQA"] * 3 + ["CNN-DM"] * 3)],
    "theorem_3_1": lambda: [theorem_3_1()],
    "second_order": lambda: [second_order()],
    "audit_table_4": lambda: [over("audit_table_4", "target_epsilon", *_RENYI, *_WORST), audit_table_4_convention()],
    "audit_tables_5_6": lambda: [over(f"audit_table_{n}", *_AUDIT) for n in (5, 6)],
    "audit_figure_6": lambda: [over("audit_figure_6", "delta", *_RENYI, *_CONVENTION)],
    "icl_table_1": lambda: [icl_table_1()],
    "icl_figure_1": lambda: [
        [
            [[i], *across("icl_figure_1", "position_nats±", "dataset", DATASETS, exemplar_position=i)]
            for i in range(1, 5)
        ]
    ],
    "icl_figure_2": lambda: [icl_pairs("icl_figure_2", "model", ("smollm2-135m", "gemma3-270m"), "accuracy%")],
    "icl_figure_3": lambda: [icl_figure_3()],
    "icl_figure_4": lambda: [icl_pairs("icl_figure_4", "calibration", ("none", "blank"))],
    "icl_figure_7": lambda: [icl_pairs("icl_figure_7", "space", ("labels", "vocabulary"))],
    "susceptibility_table_1": lambda: [susceptibility_table_1()],
    "susceptibility_table_2": lambda: [susceptibility_table_2()],
    "susceptibility_figure_3": lambda: [susceptibility_figure_3()],
    "susceptibility_figure_4": lambda: [susceptibility_figure_4(), susceptibility_figure_4_pairs()],
    "susceptibility_contexts": lambda: [susceptibility_contexts()],
    "intervals": lambda: intervals(),
    "pubmedqa": lambda: [unkept(20, 9)],
    "served": lambda: [unkept(4, 4), served(), unkept(5, 4), unkept(3, 2)],
    "pii_check": lambda: [pii_check(), unkept(6, 5)],
    "scale": lambda: [
        *(unkept(3, 4), unkept(2, 2)),
        over("scale_overhead", "plain_s", "ray_s", "overhead%", labels=("0.5 s", "5 s")),
        *(scale(), scale_prefixes()),
        *(unkept(3, 7), unkept(2, 5), unkept(4, 6)),
    ],
    "disclosures": lambda: [
        disclosures("held-out", ("leakmeter at a7af27d1", *_METHODS, "context-cite")),
        disclosures("late", _METHODS),
        unkept(5, 3),
    ],
    "ledger_day": lambda: [ledger_day(), unkept(7, 2), unkept(2, 3)],
    "pii_origins": lambda: [pii_origins()],
    "long_contexts": lambda: [
        *(long_by("kind", *dict.fromkeys(row["kind"] for row in read("long_contexts"))), long_by("length", *_LONG)),
        *(long_cost(), long_peers(), long_audits(), long_intervals(), long_pairs()),
    ],
}
"""Of each page, its tables in their order."""
