"""A headless Chromium driven over its debugging pipe, with nothing but the standard library."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

_DOES: dict[str, dict[str, Any]] = {
    "Enter": {"text": "\r"},
    "Space": {"key": " ", "text": " ", "windowsVirtualKeyCode": 32},
    "Tab": {"windowsVirtualKeyCode": 9},
}
"""What a key press says beside its name, for the browser to do what the key does."""


def _away(descriptor: int) -> int:
    """The same file under a number that is none of those that the shell below gives others."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10)
    os.close(descriptor)
    return moved


class Browser:
    """One tab; what its page asked of the network and complained about is kept."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._last = 0
        self._unread = b""
        self._loaded = False

    def __enter__(self) -> Browser:
        assert CHROMIUM
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        child_reads, self._to = os.pipe()
        self._from, child_writes = os.pipe()
        child_reads, child_writes = _away(child_reads), _away(child_writes)
        # Chromium expects its pipe at the descriptors 3 and 4, whatever ours are called.
        command = f'exec 8<&{child_reads} 9>&{child_writes}; exec "$0" "$@" 3<&8 4>&9 8<&- 9>&-'
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
        self._process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, *flags, f"--user-data-dir={self._profile.name}",
             "--remote-debugging-pipe", "about:blank"],
            pass_fds=(child_reads, child_writes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(child_reads)
        os.close(child_writes)
        self._session: str | None = None
        tab = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=tab["targetId"], flatten=True)["sessionId"]
        self._enable()
        return self

    def _enable(self) -> None:
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._profile.cleanup()

    def open(self, url: str) -> None:
        self._loaded = False
        self.call("Page.navigate", url=url)
        while not self._loaded:
            self._note(self._read())

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str, seconds: float = 30.0) -> None:
        end = time.monotonic() + seconds
        while not self.run(condition):
            if time.monotonic() > end:
                raise AssertionError(f"{condition}: {self.run('document.body.innerText')[-600:]}")
            time.sleep(0.02)

    @contextmanager
    def frame(self, number: int) -> Iterator[None]:
        """Meanwhile, what is called is called in a frame of the page that has a process of its own, from 0."""
        page = self._session
        frames = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "iframe"]
        order = self.run("[...document.querySelectorAll('iframe')].map(frame => frame.src)")
        found = next(t for t in frames if t["url"] == order[number])
        self._session = self.call("Target.attachToTarget", targetId=found["targetId"], flatten=True)["sessionId"]
        self._enable()
        try:
            yield
        finally:
            self._session = page

    def press(self, key: str) -> None:
        """A real key press, sent to whatever has the focus."""
        does = {"key": key, "code": key, **_DOES.get(key, {})}
        self.call("Input.dispatchKeyEvent", type="keyDown", **does)
        self.call(
            "Input.dispatchKeyEvent", type="keyUp", **{name: value for name, value in does.items() if name != "text"}
        )

    def call(self, method: str, **params: Any) -> Any:
        """The answer to one command of the DevTools protocol."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._last:
            self._note(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            data = os.read(self._from, 1 << 16)
            assert data, "the browser went away"
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\0")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        name, params = event.get("method"), event.get("params", {})
        if name == "Page.loadEventFired":
            self._loaded = True
        elif name == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif name in {"Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"}:
            self.complaints.append(json.dumps(params))
