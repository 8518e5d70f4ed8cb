from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from leakmeter.commands.given import as_unicode

HIDDEN: Final = "FILE"
"""What stands for a path that may name a person."""


def command_line(words: Sequence[str], *, without: Iterable[object] = ()) -> str:
    """The words behind 'leakmeter', quoted for a shell; paths of `without` are hidden."""
    paths = {Path(str(hidden_path)) for hidden_path in without if hidden_path is not None}
    n_command = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    shown = [*words[:n_command], *(_shown(word, paths) for word in words[n_command:])]
    return as_unicode(shlex.join(["leakmeter", *shown]))


def _shown(word: str, paths: set[Path]) -> str:
    if word and Path(word) in paths:
        return HIDDEN
    name, equals, value = word.partition("=")
    return f"{name}={HIDDEN}" if equals and value and Path(value) in paths else word
