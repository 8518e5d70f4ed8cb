"""A user's own ways of asking for people's data, from a TOML file with a list of texts for each kind of probe."""

from __future__ import annotations

import tomllib
from pathlib import Path

from leakmeter.core.files import read_text
from leakmeter.errors import DataError
from leakmeter.instruments.pii.probe import PROBE_KINDS, ProbeTemplates


def load_templates(path: str | Path) -> ProbeTemplates:
    """Texts by kind; what stands in braces is checked where they are used.

        twin = ["Call {name} at", "{name}'s {target_pii_type}:"]
        university = ["{name} studied at"]

    Raises:
        DataError: no such file, no TOML, another kind, or anything but a list of texts.
    """
    path = Path(path)
    try:
        told = tomllib.loads(read_text(path, "file of templates"))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"file of templates '{path}' is no TOML: {error}") from None
    if not told:
        raise DataError(f"file of templates '{path}' is empty; expected texts for {', '.join(PROBE_KINDS)}")
    for kind, texts in told.items():
        if kind not in PROBE_KINDS:
            raise DataError(f"'{path}': unknown kind {kind!r}; known: {', '.join(PROBE_KINDS)}")
        if not isinstance(texts, list) or not texts or not all(isinstance(one, str) and one.strip() for one in texts):
            raise DataError(f"'{path}': '{kind}' has to be a list of one or more texts")
    return {kind: tuple(told[kind]) for kind in PROBE_KINDS if kind in told}
