"""A run's summary for an experiment tracker: numbers and settings, no texts, no ids, no names of people.

What is sent are `Run.quantities`, and of the settings those that are a number or one plain word. Others, such as
templates, tasks and paths, may be private and stay here, as do seeds, the run's id (a hash of its texts) and its name.
"""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any, Final, Literal, get_args

from leakmeter.core.plain import INFINITY
from leakmeter.errors import UnknownNameError, UsageError
from leakmeter.runs.baseline import is_plain
from leakmeter.runs.compare import is_seed
from leakmeter.runs.run import Run

Tracker = Literal["mlflow", "wandb"]
PROJECT: Final = "leakmeter"


def summary_of(run: Run) -> tuple[dict[str, str | int | float | bool], dict[str, float]]:
    """Settings and numbers of a run, by names that trackers take.

    A number that is infinite is among the settings, as a word: trackers take finite numbers only. One that is a lower
    bound is left out.

    Args:
        run: complete.

    Returns:
        Settings, and numbers: each of `Run.quantities`, its interval as NAME.low and NAME.high, its cases as NAME.n.
    """
    measured = run.measured
    settings: dict[str, str | int | float | bool] = {"measure": run.measure, "cases": len(run.cases)}
    settings |= {
        name: value
        for name, value in measured.settings().items()
        if value is not None and is_plain(value) and not is_seed(name)
    }
    numbers: dict[str, float] = {}
    for name, number in run.quantities().items():
        if number.is_lower_bound:
            continue
        settings[f"{name}.unit"] = number.unit
        low, high = number.interval or (math.nan, math.nan)
        for end, value in {"": number.value, ".low": low, ".high": high, ".n": float(number.n)}.items():
            if math.isfinite(value):
                numbers[f"{name}{end}"] = value
            elif not math.isnan(value):
                settings[f"{name}{end}"] = INFINITY if value > 0 else f"-{INFINITY}"
    return settings, numbers


def log_run(run: Run | str | Path, to: Tracker, *, project: str = PROJECT, online: bool = False) -> None:
    """Log a run's numbers and settings to MLflow or Weights & Biases, if installed.

    MLflow writes to where its own MLFLOW_TRACKING_URI says, and into the run that is active, if there is one. Weights &
    Biases writes files on this machine, which `wandb sync` uploads, unless `online`.

    Args:
        run: a complete run, or its directory.
        to: 'mlflow' or 'wandb'.
        project: name of the experiment or project there.
        online: let Weights & Biases upload at once.

    Raises:
        UnknownNameError: another tracker.
        UsageError: it is not installed, or `online` with MLflow.
        StoreError: the run is not complete, or damaged.

    Examples:
        >>> import leakmeter
        >>> leakmeter.log_run("runs/influence-0123456789abcdef", to="tensorboard")
        Traceback (most recent call last):
        leakmeter.errors.UnknownNameError: no tracker named 'tensorboard'...
    """
    if to not in get_args(Tracker):
        raise UnknownNameError("tracker", to, get_args(Tracker))
    if online and to == "mlflow":
        raise UsageError("online is for wandb; MLflow writes to where MLFLOW_TRACKING_URI says")
    try:
        tracker: Any = importlib.import_module(to)
    except ImportError:
        raise UsageError(f"{to} is not installed: pip install {to}") from None
    settings, numbers = summary_of(run if isinstance(run, Run) else Run.read(run))
    if to == "mlflow":
        _to_mlflow(tracker, project, settings, numbers)
    else:
        _to_wandb(tracker, project, settings, numbers, online=online)


def _to_mlflow(mlflow: Any, project: str, settings: dict[str, Any], numbers: dict[str, float]) -> None:
    def log() -> None:
        mlflow.log_params(settings)
        mlflow.log_metrics(numbers)

    if mlflow.active_run() is not None:
        log()
        return
    mlflow.set_experiment(project)
    with mlflow.start_run(run_name=settings["measure"]):
        log()


def _to_wandb(wandb: Any, project: str, settings: dict[str, Any], numbers: dict[str, float], *, online: bool) -> None:
    # By itself it would keep the command line, with its paths, what is printed, and the state of the repository.
    quiet = wandb.Settings(console="off", disable_git=True, disable_code=True, x_disable_meta=True, silent=True)
    started = wandb.init(
        project=project,
        name=settings["measure"],
        config=settings,
        mode="online" if online else "offline",
        save_code=False,
        settings=quiet,
    )
    started.log(numbers)
    started.finish()
