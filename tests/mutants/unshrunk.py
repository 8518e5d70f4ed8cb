"""A plug-in of pytest: the first example that fails is enough, where nobody is going to read it."""

from __future__ import annotations

from hypothesis import Phase, settings


def pytest_configure() -> None:
    """Begin with what `tests/conftest.py` has set."""
    phases = [phase for phase in settings().phases if phase not in (Phase.shrink, Phase.explain)]
    settings.register_profile("unshrunk", parent=settings(), phases=phases)
    settings.load_profile("unshrunk")
