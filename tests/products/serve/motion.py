"""The Live page in motion, as an animated WebP: paste, scores stream in, cut the sentence, the answer without it.

    PYTHONPATH=tests python -m products.serve.motion docs/images/serve.webp --model smollm2-135m

Frames are what headless Chromium shows. Each is shown for as long as it takes to see it, not for as long as the model
took.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from helpers.report_browser import Browser
from helpers.serving import listening

CONTEXT = (
    "Ticket 41. The kettle of Ines Valtorp stays cold.\n"
    "It was bought in May and has been descaled twice.\n"
    "She can be called at 555-010-2231 after six.\n"
    "A new lid was sent by mistake.\n"
    "The warranty ends in two years."
)
QUERY = "How can we reach Ines Valtorp?"
RESPONSE = "Call 555-010-2231."
_FIELDS = (("context", CONTEXT), ("query", QUERY), ("response", RESPONSE))
MOST_BYTES = 1_500_000
SIZE = (900, 780)
N_TOKENS, SEED = 12, 1
"""Of the new answer."""
_SECONDS = 400.0
_LONG_MS, _MIDDLE_MS, _SHORT_MS = 2600, 1100, 160
_DONE = "document.getElementById('status').textContent === 'Done.'"


@dataclass
class Film:
    """Frames, each shown for some milliseconds; the same picture twice is one frame."""

    browser: Browser
    frames: list[tuple[Image.Image, int]] = field(default_factory=list)

    def take(self, shown_ms: int) -> None:
        """Take what the browser shows."""
        data = base64.b64decode(self.browser.call("Page.captureScreenshot", format="png")["data"])
        picture = Image.open(io.BytesIO(data)).convert("RGB")
        if self.frames and self.frames[-1][0].tobytes() == picture.tobytes():
            self.frames[-1] = picture, max(shown_ms, self.frames[-1][1])
        else:
            self.frames.append((picture, shown_ms))

    def until(self, condition: str) -> None:
        """Take frames as the page changes."""
        end = time.monotonic() + _SECONDS
        while not self.browser.run(condition):
            if time.monotonic() > end:
                raise TimeoutError(condition)
            self.take(_SHORT_MS)
            time.sleep(0.05)

    def save(self, path: Path) -> int:
        """Write the film; returns how many bytes it has."""
        (first, _), *others = self.frames
        first.save(
            path, save_all=True, append_images=[one for one, _ in others], duration=[ms for _, ms in self.frames],
            loop=0, quality=60, method=6, minimize_size=True, allow_mixed=True,
        )  # fmt: skip
        return path.stat().st_size


def shoot(path: Path, model: str) -> Film:
    """Go the way and write the film.

    Raises:
        TimeoutError: the page did not come to the end of a step.
    """
    with tempfile.TemporaryDirectory() as folder, listening(Path(folder), models=(model,)) as serving, Browser() as one:
        one.call("Emulation.setDeviceMetricsOverride", width=SIZE[0], height=SIZE[1], deviceScaleFactor=1, mobile=False)
        one.call("Emulation.setScrollbarsHidden", hidden=True)
        one.open(serving.access.new_link())
        film = Film(one)
        film.take(_MIDDLE_MS)
        for name, text in _FIELDS:
            one.run(f"document.querySelector('#live [name={name}]').value = {json.dumps(text)}")
            film.take(_MIDDLE_MS)
        for name, number in (("max_new_tokens", N_TOKENS), ("seed", SEED)):
            one.run(f"document.querySelector('#live [name={name}]').value = {number}")
        one.run("document.querySelector('.primary').click()")
        film.until("document.querySelectorAll('#context .s').length > 0")
        film.until(_DONE)
        film.take(_LONG_MS)
        strongest = "[...document.querySelectorAll('#context .s')].find(one => one.textContent.includes('555-010'))"
        one.run(f"{strongest}.scrollIntoView({{block: 'center'}})")
        one.run(f"{strongest}.focus()")
        film.take(_MIDDLE_MS)
        one.press("Enter")
        film.until(f"{_DONE} && document.querySelector('#after .pair') !== null")
        # What is said of the new answer is first: whether it can be shown.
        film.until("document.querySelector('#after .finding') !== null")
        one.run("document.getElementById('after').scrollIntoView({block: 'start'})")
        film.take(_LONG_MS + _MIDDLE_MS)
        film.save(path)
        return film


def main() -> None:
    """Write the film of a model."""
    parser = argparse.ArgumentParser(description="Write the Live page in motion as an animated WebP.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", default="smollm2-135m")
    given = parser.parse_args()
    film = shoot(given.out, given.model)
    sys.stdout.write(f"{given.out}: {len(film.frames)} frames, {given.out.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
