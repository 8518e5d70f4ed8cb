"""The figure of games.md from its CSV file: python docs/results/games.py"""

import csv
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
N_BINS = 10
WAYS = ("drawn", "likeliest tokens", "another model", "from a text without it", "given")
NAMES = {"given": "by five large models"}

games = defaultdict(list)
with (HERE / "games.csv").open(encoding="utf-8", newline="") as file:
    for row in csv.DictReader(file):
        games[row["kind"], row["way"]].append((int(row["is_one"]), float(row["nats"])))
kinds = list(dict.fromkeys(kind for kind, _ in games))
ways = [way for way in WAYS if any(way == other for _, other in games)]
figure, grid = plt.subplots(
    len(kinds), len(ways), figsize=(2.1 * len(ways), 1.9 * len(kinds)), sharex=True, sharey=True, squeeze=False
)
for line, kind in zip(grid, kinds, strict=True):
    for axes, way in zip(line, ways, strict=True):
        if (kind, way) not in games:
            axes.axis("off")
            continue
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
        axes.set_title(f"{NAMES.get(way, way)}, {len(nats)} games", fontsize=7, loc="left")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    line[0].set_ylabel(kind, fontsize=7)
figure.supxlabel("how sure leakmeter is that it was the first text", fontsize=8)
figure.supylabel("share of games in which it was", fontsize=8)
figure.tight_layout()
figure.savefig(HERE / "games.png", dpi=130)
