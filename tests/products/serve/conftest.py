"""What tests of the pages share: a client that is signed in, and a server that listens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from helpers.report_browser import Browser
from helpers.serving import client, listening, serving_of
from leakmeter.products.serve.serving import Serving


@pytest.fixture
def made(tmp_path: Path) -> Iterator[TestClient]:
    """Signed in."""
    with client(serving_of(tmp_path)) as opened:
        yield opened


@pytest.fixture
def browser(serving: Serving) -> Iterator[Browser]:
    """Signed in."""
    with Browser() as opened:
        opened.open(serving.access.new_link())
        yield opened


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """For a browser."""
    with listening(tmp_path) as made:
        yield made
