"""The figure of disclosures.md from its CSV file: python docs/results/disclosures.py"""

import csv
from pathlib import Path

import matplotlib.pyplot as plt

HERE = Path(__file__).parent
COLOURS = ("#b2182b", "#d6604d", "#f4a582", "#92a5b5", "#4d4d4d", "#d9c8a9")

with (HERE / "disclosures.csv").open(encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
rows = [row for row in rows if row["part"] == "held-out"]
methods = list(dict.fromkeys(row["method"] for row in rows))
kinds = [kind for kind in dict.fromkeys(row["kind"] for row in rows) if kind not in ("precision", "clean and silent")]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.6), width_ratios=(4, 1), sharey=False)
height = 0.8 / len(methods)
for number, (method, colour) in enumerate(zip(methods, COLOURS, strict=False)):
    shares = {row["kind"]: int(row["right"]) / max(int(row["of"]), 1) for row in rows if row["method"] == method}
    places = [place + number * height for place in range(len(kinds))]
    left.barh(places, [shares[kind] for kind in kinds], height, color=colour, label=method)
    right.barh([number], [shares["precision"]], 0.7, color=colour)
left.set_yticks([place + 0.4 - height / 2 for place in range(len(kinds))], kinds)
left.set_xlabel("share of planted leaks that are found")
left.set_title("Recall by kind", loc="left", fontsize=11)
right.set_yticks([])
right.set_xlabel("share of what is named\nthat is a planted leak")
right.set_title("Precision", loc="left", fontsize=11)
for axes in (left, right):
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
figure.legend(*left.get_legend_handles_labels(), frameon=False, loc="lower center", ncols=3, fontsize=8)
figure.tight_layout(rect=(0, 0.1, 1, 1))
figure.savefig(HERE / "disclosures.png", dpi=120)
