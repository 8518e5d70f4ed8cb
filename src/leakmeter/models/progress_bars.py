"""Progress bars of other libraries, which warn where they are imported."""

from __future__ import annotations

import warnings


def import_quietly() -> None:
    """Import what transformers and the hub's library draw progress bars with. In a notebook without ipywidgets it warns
    of bars in plain text, in a red box above the first result. To be called ahead of those libraries."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "IProgress not found")
        import tqdm.auto  # noqa: F401
