"""How far is a sentence's influence proportional to its difference in PMI (Flemings et al., Theorem 3.1)?

    python docs/results/theorem_3_1.py ori_pqal.json 60 theorem_3_1

For each of the first N records of PubMedQA and each λ: draw a response, take each sentence away in turn, and keep for
every token the loss, the difference in PMI and the term beside it (`leakmeter.instruments.influence.pmi`). A record is
a file in the directory; those that are there are not measured again. Then `theorem_3_1.png` and `theorem_3_1.csv` are
written into the directory.
"""

import csv
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

from leakmeter import load_backend
from leakmeter.core.drive import drive
from leakmeter.core.request import Request
from leakmeter.data import named
from leakmeter.instruments.decoding.measure import Decode
from leakmeter.instruments.influence.pmi import WITH_PMI, TargetWithPmi
from leakmeter.text.build import PromptSettings, prepare

MODEL = "smollm2-135m"
LAMBDAS = (0.5, 1.0, 1.5)
TEMPERATURE = 0.8
SEED = 0
N_RESAMPLES = 2000
SMALLEST_NATS = 0.01  # losses below it are left out where what counts is a share of a loss
LOSS, PMI, TERM, TEMPERED_PMI, TEMPERED_TERM = range(len(WITH_PMI))


def trial(item, measure):
    """Draw a response and score it without each sentence; `WITH_PMI` of whole less cut, (sentence, token, 5)."""
    measurements = yield from measure.trial(item)
    (response,) = (tuple(one.values.astype(int).tolist()) for one in measurements if one.statistic == "token")
    cuts = [item.cuts[span.name] for span in item.spans]
    reduction = TargetWithPmi(measure.cid_lambda, measure.temperature)
    (scores,) = yield [Request((item.blank, item.prompt, *cuts), response, reduction)]
    return scores.values[1] - scores.values[2:]


def measure_records(path, n, directory):
    """One file a record, with an array for each λ."""
    dataset = named.find("pubmedqa")
    settings = PromptSettings(
        unit="sentence", template=dataset.template, truncate=True, max_context_tokens=dataset.max_context_tokens
    )
    measures = [Decode(cid_lambda=weight, temperature=TEMPERATURE, seed=SEED) for weight in LAMBDAS]
    backend = None
    files = []
    for record in dataset.load(path, n=n):
        files.append(directory / f"{record.case.id}.npz")
        if files[-1].exists():
            continue
        backend = backend or load_backend(MODEL)
        one = prepare(record.case, backend.tokenizer, settings, window=backend.window, n_reserved=50)
        found, _ = drive(backend, [trial(one.item, measure) for measure in measures])
        partial = files[-1].with_suffix(".part")
        with partial.open("wb") as sink:
            np.savez_compressed(sink, **{f"{weight}": values for weight, values in zip(LAMBDAS, found, strict=True)})
        partial.rename(files[-1])
        sys.stderr.write(f"{len(files)} of {n}: {record.case.id}\n")
    return [np.load(file) for file in files]


def sums(pairs):
    """Sums over a record's points that correlation and slope are made of: n, x, y, xx, yy, xy."""
    x, y = pairs
    return np.array([x.size, x.sum(), y.sum(), x @ x, y @ y, x @ y])


def correlation(total):
    """Pearson's, from sums (..., 6)."""
    n, x, y, xx, yy, xy = np.moveaxis(total, -1, 0)
    return (n * xy - x * y) / np.sqrt((n * xx - x * x) * (n * yy - y * y))


def slope(total):
    """Of the best line through the origin, y = slope · x."""
    return total[..., 5] / total[..., 3]


def ratio(total):
    """Sum of y over sum of x."""
    return total[..., 2] / total[..., 1]


def ranks_of(values):
    """Ranks, ties sharing their mean."""
    return np.array([(values < value).sum() + ((values == value).sum() + 1) / 2 for value in values])


def rank_correlation(pairs):
    """Spearman's over one record's sentences; NaN where there are fewer than three."""
    x, y = map(ranks_of, pairs)
    return np.corrcoef(x, y)[0, 1] if len(x) > 2 and np.ptp(x) and np.ptp(y) else np.nan


def resampled(per_record, statistic):
    """A statistic of sums over records, and its 95 % interval: percentile bootstrap over records."""
    per_record = np.asarray(per_record)
    chosen = np.random.default_rng(SEED).integers(0, len(per_record), size=(N_RESAMPLES, len(per_record)))
    low, high = np.quantile([statistic(per_record[rows].sum(axis=0)) for rows in chosen], [0.025, 0.975])
    return statistic(per_record.sum(axis=0)), low, high


def statistics_of(of_records, weight, tempered):
    """Rows of name and (value, low, high) for one λ and one reading of PMI.

    Args:
        of_records: arrays (sentence, token, 5), one a record.
        weight: λ.
        tempered: whether PMI is that of the tempered model.
    """
    which, term, power = (TEMPERED_PMI, TEMPERED_TERM, weight) if tempered else (PMI, TERM, weight / TEMPERATURE)
    tokens, sentences, off, beside, ranks = [], [], [], [], []
    for values in of_records:
        loss, predicted = np.abs(values[..., LOSS]), power * np.abs(values[..., which])
        tokens.append((predicted.ravel(), loss.ravel()))
        sentences.append((predicted.sum(axis=1), loss.sum(axis=1)))
        beside.append((loss.ravel(), np.abs(values[..., term]).ravel()))
    constant = slope(sum(map(sums, tokens)))
    for predicted, loss in tokens:
        counts = loss >= SMALLEST_NATS
        wrong = np.abs(loss - constant * predicted)[counts] > 0.1 * loss[counts]
        off.append((np.ones(counts.sum()), wrong.astype(float)))
    ranks = [np.array([r]) for r in map(rank_correlation, sentences) if np.isfinite(r)]
    return {
        "correlation, tokens": resampled([*map(sums, tokens)], correlation),
        "slope, tokens": resampled([*map(sums, tokens)], slope),
        "term beside it, share of the losses": resampled([*map(sums, beside)], ratio),
        "tokens more than a tenth off": resampled([*map(sums, off)], ratio),
        "correlation, sentences": resampled([*map(sums, sentences)], correlation),
        "slope, sentences": resampled([*map(sums, sentences)], slope),
        "rank correlation within a record": resampled([sums((np.ones(1), rank)) for rank in ranks], ratio),
    }


def draw(by_weight, path, n):
    """Over the PMI term: losses of tokens, the term beside it, and influences of sentences; all axes alike, log."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    of_tokens, of_responses = (1e-3, 1e2), (0.2, 2e2)
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(9.4, 9.2), layout="constrained")
        panels = figure.subplots(3, len(by_weight), sharex="row", sharey="row")
        for column, (weight, of_records) in enumerate(by_weight.items()):
            parts = [np.abs(values) * (np.array([1.0, weight / TEMPERATURE, 1.0, 1.0, 1.0])) for values in of_records]
            tokens = np.concatenate([part.reshape(-1, len(WITH_PMI)) for part in parts])
            sentences = np.concatenate([part.sum(axis=1) for part in parts])
            top, middle, bottom = panels[:, column]
            for panel, what in ((top, LOSS), (middle, TERM)):
                x, y = tokens[:, PMI], tokens[:, what]
                drawn = panel.hexbin(
                    x, y, gridsize=70, extent=(-3, 2, -3, 2), xscale="log", yscale="log", norm=LogNorm(1, 1e3),
                    cmap="cividis", linewidths=0.1,
                )  # fmt: skip
                outside = np.mean((np.minimum(x, y) < of_tokens[0]) | (np.maximum(x, y) > of_tokens[1]))
                panel.text(0.97, 0.04, f"{100 * outside:.0f} % outside", transform=panel.transAxes, size=7, ha="right")
            bottom.plot(sentences[:, PMI], sentences[:, LOSS], ".", color="#00204d", markersize=3, alpha=0.5)
            for panel, ends in ((top, of_tokens), (middle, of_tokens), (bottom, of_responses)):
                panel.plot(ends, ends, color="black", linewidth=0.8, linestyle="--")
                panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
            top.set_title(f"λ = {weight:g}")
        panels[0, 0].set_ylabel("τ of a token, nats")
        panels[1, 0].set_ylabel("$|K_D - K_{D\\setminus D_i}|$ at a token, nats")
        panels[2, 0].set_ylabel("τ of a response, nats")
        figure.supxlabel("$(λ/T)\\,|pmi(y_t; D) - pmi(y_t; D\\setminus D_i)|$ (last row: summed over a response), nats")
        figure.colorbar(drawn, ax=panels[:2, -1], label="pairs of a token and a sentence left out", shrink=0.6)
        figure.suptitle(f"Theorem 3.1 on {n} PubMedQA records, {MODEL}, T = {TEMPERATURE}; dashed: equal")
        figure.savefig(path, dpi=110, metadata={"Software": None})


def main(path, n, directory):
    """Measure what is missing, then draw and tell."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    files = measure_records(path, int(n), directory)
    by_weight = {weight: [file[f"{weight}"] for file in files] for weight in LAMBDAS}
    points = np.concatenate([v.reshape(-1, len(WITH_PMI)) for of_records in by_weight.values() for v in of_records])
    error = 0.0
    for weight, of_records in by_weight.items():
        for values in of_records:
            for which, term, power in ((PMI, TERM, weight / TEMPERATURE), (TEMPERED_PMI, TEMPERED_TERM, weight)):
                right = power * values[..., which] - values[..., term]
                error = max(error, float(np.abs(values[..., LOSS] - right).max()))
    sys.stdout.write(f"{len(files)} records, {len(points):,} tokens × sentences; identity to {error:.1e} nats\n")
    with (directory / "theorem_3_1.csv").open("w", encoding="utf-8", newline="") as sink:
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerow(["lambda", "pmi of", "what", "value", "low", "high"])
        for weight, of_records in by_weight.items():
            for tempered in (False, True):
                for what, told in statistics_of(of_records, weight, tempered).items():
                    row = [f"{weight:g}", "p_T" if tempered else "p", what, *(f"{x:.4f}" for x in told)]
                    writer.writerow(row)
                    sys.stdout.write("  ".join(row) + "\n")
    draw(by_weight, directory / "theorem_3_1.png", len(files))


main(*sys.argv[1:])
