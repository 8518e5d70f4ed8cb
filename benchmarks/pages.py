"""Pages of `leakmeter serve` under load: twenty browsers over the toy, while one of them has a context measured.

`python -m benchmarks pages` starts the command itself and asks for pages as browsers do, each with its own session.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import httpx2
import numpy as np

import leakmeter

NAME: Final = "pages"
BROWSERS: Final = 20
ROUNDS: Final = 10
TINY: Final = (2, 1)
_PAGES: Final = ("/", "/runs", "/ledger", "/doctor", "/assets/report.css")
_RUNS: Final = 5
_POST: Final = {"x-leakmeter": "1", "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}
_MEASURED: Final = {
    "context": " ".join(f"Room {n} is number {n * 7}." for n in range(40)),
    "query": "Which room?",
    "response": "Room 3",
    "unit": "word",
}


def rows(n_browsers: int = BROWSERS, n_rounds: int = ROUNDS) -> Iterator[dict[str, Any]]:
    """Milliseconds until a page is there, by page and over all.

    Args:
        n_browsers: at a time.
        n_rounds: how often each asks for every page.
    """
    with tempfile.TemporaryDirectory() as folder:
        for unit in range(_RUNS):
            case = {"context": f"Ana is {unit}. She sings.", "query": "How old?", "response": str(unit)}
            leakmeter.influence("toy", [case], out=Path(folder) / "runs")
        words = ["serve", "--model", "toy", "--runs", f"{folder}/runs", "--ledger", f"{folder}/ledger"]
        command = [sys.executable, "-m", "leakmeter", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                link = server.stdout.readline().split()[-1]
                took = _under_load(link, n_browsers, n_rounds)
            finally:
                server.terminate()
    took["all"] = [one for times in took.values() for one in times]
    for page, of in took.items():
        yield {
            "page": page,
            "browsers": n_browsers,
            "requests": len(of),
            **{f"p{q}_ms": round(float(np.percentile(of, q)), 2) for q in (50, 95, 100)},
        }


def _under_load(link: str, n_browsers: int, n_rounds: int) -> dict[str, list[float]]:
    origin = link.partition("/?")[0]
    browsers = [httpx2.Client(base_url=origin, headers=_POST, timeout=60) for _ in range(n_browsers + 1)]
    browsers[0].get(link)
    for other in browsers[1:]:
        other.get(browsers[0].post("/link", json={}).json()["link"])
    took: dict[str, list[float]] = {page: [] for page in _PAGES}

    def ask(browser: httpx2.Client) -> None:
        for _ in range(n_rounds):
            for page in _PAGES:
                started = time.perf_counter()
                assert browser.get(page).status_code == 200
                took[page].append(1000 * (time.perf_counter() - started))

    with ThreadPoolExecutor(n_browsers + 1) as threads:
        measured = threads.submit(lambda: browsers[0].post("/live/measure", json=_MEASURED).text)
        for done in [threads.submit(ask, browser) for browser in browsers[1:]]:
            done.result()
        assert "event: done" in measured.result()
    for browser in browsers:
        browser.close()
    return took
