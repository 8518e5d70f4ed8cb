"""Properties are tested without a stopwatch: two cores are shared with other tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("leakmeter", deadline=None)
settings.load_profile("leakmeter")
