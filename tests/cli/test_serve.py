"""`leakmeter serve` as a user starts it: its link, its errors, and what it writes to the terminal."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from helpers.command_line import PROGRAM, Ended
from helpers.serving import CASE, HEADERS

SECRET = "a long password"


def test_a_link_is_printed_and_nothing_else_whatever_is_asked(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*PROGRAM, "serve", "--model", "toy"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        link = re.fullmatch(r"leakmeter is at (http://127\.0\.0\.1:\d+/\?token=\S+)\n", process.stdout.readline())
        assert link is not None
        with httpx2.Client(base_url=link[1].partition("?")[0], headers=HEADERS, timeout=60) as browser:
            assert browser.get(link[1]).status_code == 303
            assert browser.get("/?token=wrong").status_code == 303
            assert "event: done" in browser.post("/live/measure", json=CASE).text
            assert browser.get("/nowhere").status_code == 404
        with socket.create_connection(("127.0.0.1", int(link[1].split(":")[2].partition("/")[0]))) as raw:
            raw.sendall(b"\x00nonsense\r\n\r\n")
            raw.recv(1000)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "password", "said"),
    [
        (["--host", "0.0.0.0"], SECRET, "--allow-remote"),
        (["--host", "0.0.0.0", "--allow-remote"], "", "LEAKMETER_SERVE_PASSWORD"),
        (["--host", "0.0.0.0", "--allow-remote"], "short", "12 characters"),
        (["--host", "no such host"], SECRET, "--allow-remote"),
        (["--port", "70000"], "", "0 to 65535"),
        (["--model", "smolm2-135m"], "", "did you mean 'smollm2-135m'"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    cli: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, given: list[str], password: str, said: str
) -> None:
    monkeypatch.setenv("LEAKMETER_SERVE_PASSWORD", password)
    ended = cli("serve", "--model", "toy", *given)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert said in ended.err
    assert SECRET not in ended.err + ended.out


def test_a_port_that_is_taken_is_named(cli: Callable[..., Ended]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = cli("serve", "--model", "toy", "--port", port)
    assert (ended.code, port in ended.err, "another --port" in ended.err) == (2, True, True)


def test_without_the_extra_it_says_what_to_install(cli: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    ended = cli("serve")
    assert (ended.code, "leakmeter[serve]" in ended.err) == (2, True)


def test_the_password_is_no_option() -> None:
    from leakmeter.cli.serve import serve

    assert not [name for name in serve.__kwdefaults__ if "password" in name]
    assert os.environ.get("LEAKMETER_SERVE_PASSWORD") is None
