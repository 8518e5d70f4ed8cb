"""Stretches of responses set against each other, record by record: python figure_2c.py RUN, the study's decode run."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from leakmeter.engine.measure import cases_of_run
from leakmeter.engine.storage.rundir import RunDirectory
from leakmeter.stats.stats import interval_of_mean

losses = np.stack(
    [
        next(np.abs(measurement.values) for measurement in measurements if measurement.statistic == "loss")
        for _, measurements in cases_of_run(RunDirectory(Path(sys.argv[1])))
    ]
)
stretches = {
    f"{start} to {stop - 1}": losses[:, start:stop].mean(axis=1) for start, stop in ((0, 10), (2, 10), (10, 50))
}
stretches["0 to 9 less 10 to 49"] = stretches["0 to 9"] - stretches["10 to 49"]
stretches["2 to 9 less 10 to 49"] = stretches["2 to 9"] - stretches["10 to 49"]
for name, nats in stretches.items():
    low, high = interval_of_mean(nats, seed=0) or (float("nan"), float("nan"))
    sys.stdout.write(f"{name}: {nats.mean():.2f} [{low:.2f}, {high:.2f}] nats a token\n")
