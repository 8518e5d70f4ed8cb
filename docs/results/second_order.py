"""How far does the Fisher information carry? Second order against the true divergence, over the length of a change.

    python docs/results/second_order.py second_order

For the twelve queries that ship with leakmeter, and changes Δ of the vectors η at a place: KL(p(A|η + tΔ) ‖ p(A|η))
from a pass of its own, and ½ t² Δᵀ I Δ (Liu et al., "Efficiently Computing Susceptibility to Context in Language
Models", Eq. 5), with Δᵀ I Δ = Σ_a p(a) (d log p(a))² and the derivative along Δ by central differences, in float64. A Δ
is what one of the first contexts that ship does there, or a random direction of the same length; at the query's
embeddings, where contexts do nothing, the length is that of η. `second_order.png` and `second_order.csv` are written
into the directory.
"""

import csv
import json
import sys
from importlib import resources
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch

from leakmeter import load_backend

MODEL = "smollm2-135m"
N_CONTEXTS = 4
SCALES = np.geomspace(1e-3, 1.0, 10)
STEP = 1e-5  # of the derivative, as a share of Δ
SEED = 0
PLACES = ("query", "slot", "layer 10", "layer 20")


class Place:
    """A query's vectors at a place, and the log-probabilities of the next token when they are others."""

    def __init__(self, model, place, query_ids, slot_ids):
        self.model, self.layer = model, int(place.split()[1]) if place.startswith("layer") else None
        self.ids = [*slot_ids, *query_ids]
        self.varied = slice(0, len(slot_ids)) if place == "slot" else slice(len(slot_ids), None)
        self.vectors = self.entering(self.ids)

    def entering(self, ids):
        """What enters the place for these tokens: (token, size)."""
        seen = []
        if self.layer is None:
            return self.model.get_input_embeddings()(torch.tensor(ids))
        layer = self.model.model.layers[self.layer]
        handle = layer.register_forward_pre_hook(lambda module, args: seen.append(args[0][0]))
        self.model(input_ids=torch.tensor([ids]), use_cache=False)
        handle.remove()
        return seen[0]

    def log_p(self, changes):
        """Next to the query's last token with each change of the varied vectors: (change, vocabulary)."""
        rows = self.vectors.repeat(len(changes), 1, 1)
        rows[:, self.varied] += changes
        if self.layer is None:
            return self.model(inputs_embeds=rows, use_cache=False).logits[:, -1].log_softmax(-1)
        layer = self.model.model.layers[self.layer]
        handle = layer.register_forward_pre_hook(lambda module, args: (rows, *args[1:]))
        ids = torch.tensor([self.ids]).expand(len(changes), -1)
        logits = self.model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[:, -1]
        handle.remove()
        return logits.log_softmax(-1)


def changes_of(place, one, context_ids, query_ids, rng):
    """Named changes of the varied vectors: what a context does there, and a random direction of the same length."""
    own = one.vectors[one.varied]
    if place == "query":
        length = own.norm()
    else:
        if place == "slot":
            there = one.model.get_input_embeddings()(torch.tensor(context_ids)) - own
        else:
            there = one.entering([*context_ids, *query_ids])[-len(query_ids) :] - own
        yield "context", there
        length = there.norm()
    random = torch.from_numpy(rng.standard_normal(own.shape))
    yield "random", random * (length / random.norm())


def measured(one, change):
    """The true divergence and the second-order one at each scale, nats: (scale,), (scale,)."""
    steps = torch.from_numpy(np.array([0.0, STEP, -STEP, *SCALES]))[:, None, None]
    log_p = one.log_p(steps * change)
    bare, p = log_p[0], log_p[0].exp()
    slope = (log_p[1] - log_p[2]) / (2.0 * STEP)
    true = (log_p[3:].exp() * (log_p[3:] - bare)).sum(-1).numpy()
    return true, 0.5 * SCALES**2 * float((p * slope**2).sum())


@torch.no_grad()
def points():
    """Rows (place, kind, query, length as a share of the vectors', true, second order)."""
    backend = load_backend(MODEL, dtype="float32")
    model, tokenizer = backend.model.double(), backend.tokenizer
    samples = resources.files("leakmeter.data.samples")
    queries, contexts = (
        [json.loads(line) for line in (samples / name).read_text("utf-8").splitlines()]
        for name in ("queries.jsonl", "contexts.jsonl")
    )
    rng = np.random.default_rng(SEED)
    (neutral,) = tokenizer.encode_data("\n", first=False).ids
    for place in PLACES:
        for query in queries:
            query_ids = tokenizer.encode_data(query["query"], first=False).ids
            for context in contexts[:N_CONTEXTS]:
                context_ids = tokenizer.encode_data(context["context"] + "\n", first=True).ids
                slot_ids = [neutral] * len(context_ids) if place == "slot" else []
                one = Place(model, place, query_ids, slot_ids)
                for kind, change in changes_of(place, one, context_ids, query_ids, rng):
                    length = float(change.norm() / one.vectors[one.varied].norm())
                    for scale, true, second in zip(SCALES, *measured(one, change), strict=True):
                        yield place, kind, query["id"], scale * length, true, second
            sys.stderr.write(f"{place}: {query['id']}\n")


def bins_of(lengths):
    """Number of the bin of each length, two bins a decade."""
    return np.floor(2.0 * np.log10(lengths)).astype(int)


def summary_of(rows):
    """Rows of place, kind, a bin's ends, n, quartiles of second order over true, share within a tenth."""
    for place, kind in dict.fromkeys((row[0], row[1]) for row in rows):
        told = np.array([row[3:] for row in rows if row[:2] == (place, kind)])
        told = told[told[:, 1] > 1e-12]
        bins = bins_of(told[:, 0])
        for number in np.unique(bins):
            ratio = told[bins == number, 2] / told[bins == number, 1]
            low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
            within = float((np.abs(ratio - 1.0) <= 0.1).mean())
            yield place, kind, 10 ** (number / 2), 10 ** ((number + 1) / 2), len(ratio), low, middle, high, within


def draw(rows, path):
    """Second order over true divergence, over the relative length of the change, for each place."""
    from matplotlib.figure import Figure

    colours = {"context": "#0072b2", "random": "#d55e00"}
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=(9.0, 6.6), layout="constrained")
        for panel, place in zip(figure.subplots(2, 2, sharey=True).flat, PLACES, strict=True):
            for kind, colour in colours.items():
                of_kind = np.array([row[3:] for row in rows if row[:2] == (place, kind)])
                if not of_kind.size:
                    continue
                of_kind = of_kind[of_kind[:, 1] > 1e-12]
                panel.plot(of_kind[:, 0], of_kind[:, 2] / of_kind[:, 1], ".", color=colour, markersize=3, alpha=0.35)
                bins = bins_of(of_kind[:, 0])
                middles = [np.median((of_kind[:, 2] / of_kind[:, 1])[bins == one]) for one in np.unique(bins)]
                where = 10 ** (np.unique(bins) / 2 + 0.25)
                panel.plot(where, middles, color=colour, marker="os"[kind == "random"], markersize=4, label=kind)
            panel.axhline(1.0, color="black", linewidth=0.8, linestyle="--")
            panel.set(xscale="log", yscale="log", ylim=(1e-2, 1e3), title=place)
            panel.legend(loc="upper left")
        figure.supxlabel("length of the change, as a share of the vectors' own")
        figure.supylabel("½ ΔᵀIΔ over the true divergence; lines: medians")
        figure.savefig(path, dpi=110, metadata={"Software": None})


def main(directory):
    """Measure, draw and tell."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    rows = list(points())
    with (directory / "second_order.csv").open("w", encoding="utf-8", newline="") as sink:
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerow(
            ["place", "change", "length from", "to", "n", "ratio, 25 %", "ratio, 50 %", "ratio, 75 %", "within a tenth"]
        )
        for place, kind, *told in summary_of(rows):
            row = [place, kind, *(f"{value:.4g}" for value in told)]
            writer.writerow(row)
            sys.stdout.write("  ".join(row) + "\n")
    for place, kind in dict.fromkeys((row[0], row[1]) for row in rows):
        whole = np.array([row[4:] for row in rows if row[:2] == (place, kind)])[len(SCALES) - 1 :: len(SCALES)]
        true, second = np.median(whole, axis=0)
        sys.stdout.write(f"{place}, {kind}, at t = 1: median {true:.3g} nats, second order {second:.3g}\n")
    draw(rows, directory / "second_order.png")


main(*sys.argv[1:])
