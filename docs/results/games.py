"""The figure of games.md from its CSV file: python docs/results/games.py"""

import csv
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
N_BINS = 10
N_ACROSS = 5
WAYS = (
    "drawn",
    "drawn by gemma3-270m",
    "likeliest tokens",
    "another model",
    "gemma3-270m",
    "smollm2-135m by gemma3-270m",
    "from a text without it",
    "given",
)
NAMES = {
    "given": "five large models",
    "another model": "a model of stories",
    "smollm2-135m by gemma3-270m": "smollm2, by gemma3",
}

games = defaultdict(list)
with (HERE / "games.csv").open(encoding="utf-8", newline="") as file:
    for row in csv.DictReader(file):
        games[row["kind"], row["way"]].append((int(row["is_one"]), float(row["nats"])))
panels = sorted(games, key=lambda panel: WAYS.index(panel[1]))
n_lines = -(-len(panels) // N_ACROSS)
figure, grid = plt.subplots(
    n_lines, N_ACROSS, figsize=(2.2 * N_ACROSS, 2.1 * n_lines), sharex=True, sharey=True, squeeze=False
)
for axes in grid.flat[len(panels) :]:
    axes.axis("off")
for axes, (kind, way) in zip(grid.flat, panels, strict=False):
    is_one, nats = np.asarray(games[kind, way]).T
    posterior = 1.0 / (1.0 + np.exp(-np.clip(nats, -700, 700)))
    bins = np.minimum((posterior * N_BINS).astype(int), N_BINS - 1)
    axes.plot((0, 1), (0, 1), color="#d9c8a9", linewidth=1)
    for number in np.unique(bins):
        here = bins == number
        share, n = is_one[here].mean(), here.sum()
        error = 1.96 * np.sqrt(max(share * (1 - share), 1 / (4 * n)) / n)
        axes.plot([posterior[here].mean()] * 2, (max(0, share - error), min(1, share + error)), color="#92a5b5")
        axes.plot(posterior[here].mean(), share, "o", color="#b2182b", markersize=2 + 8 * np.sqrt(n / len(nats)))
    axes.set_title(f"{kind}\n{NAMES.get(way, way)}, {len(nats)} games", fontsize=7, loc="left")
    axes.tick_params(labelsize=7, labelbottom=True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
figure.supxlabel("how sure leakmeter is that it was the first text", fontsize=8)
figure.supylabel("share of games in which it was", fontsize=8)
figure.tight_layout()
figure.savefig(HERE / "games.png", dpi=130)
