"""The figure of ledger_day.md from its CSV file: python docs/results/ledger_day.py"""

import csv
from pathlib import Path

import matplotlib.pyplot as plt

HERE = Path(__file__).parent
FIRST = 40
TOLD = {
    "note-1": {3}, "note-2": {6}, "note-3": {8}, "note-4": {1, 4, 9, 11}, "note-5": {5, 10}, "note-6": set(),
}  # fmt: skip
KINDS = {
    "planted answer": "#b2182b",
    "planted note, the model's own answers": "#f4a582",
    "article or abstract, the model's own answers": "#92a5b5",
}


def kind_of(row):
    """Which of the kinds a pair is of."""
    recipient = int(row["recipient"].removeprefix("recipient "))
    planted, own_note, other = KINDS
    if row["document"] not in TOLD:
        return other
    return planted if recipient in TOLD[row["document"]] else own_note


with (HERE / "ledger_day.csv").open(encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
shown = rows[:FIRST]
figure, axes = plt.subplots(figsize=(8, 7.5))
places = range(len(shown))
axes.barh(
    places,
    [float(row["largest_running_nats"]) for row in shown],
    color=[KINDS[kind_of(row)] for row in shown],
)
axes.set_yticks(places, [f"{row['document']} to {row['recipient']}" for row in shown], fontsize=7)
axes.invert_yaxis()
axes.set_xlabel("largest sum so far, nats")
axes.set_title(f"What a day's answers told: the first {FIRST} of {len(rows)} pairs", loc="left", fontsize=11)
for side in ("top", "right"):
    axes.spines[side].set_visible(False)
handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in KINDS.values()]
axes.legend(handles, KINDS, frameon=False, loc="lower right")
figure.tight_layout()
figure.savefig(HERE / "ledger_day.png", dpi=120)
