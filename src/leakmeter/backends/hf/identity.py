"""What decides a model's numbers beside its weights, as hashes that join a run's id and the key of a kept score."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from leakmeter.backends.hf.tokenizer import HfTokenizer
from leakmeter.errors import UsageError

_USER: Final = {"role": "user", "content": "text of the user"}
_CHATS: Final = (
    [_USER],
    [{"role": "system", "content": "text of the system"}, _USER],
    [_USER, {"role": "assistant", "content": "text of the assistant"}, _USER],
)


def identity_of(model: Any, tokenizer: HfTokenizer) -> dict[str, str | None]:
    """SHA-256 in hex of the configuration, the tokenizer and the chat template."""
    config = {
        name: value
        for name, value in model.config.to_dict().items()
        if name not in ("_name_or_path", "transformers_version")
    }
    return {"config_sha256": _sha256(config), **tokenizer_identity(tokenizer)}


def tokenizer_identity(tokenizer: HfTokenizer) -> dict[str, str | None]:
    """SHA-256 in hex of the tokenizer and the chat template.

    The template is hashed as it renders: one that writes the date is another one tomorrow.
    """
    reads = {
        "library": tokenizer.library.backend_tokenizer.to_str(),
        "start": list(tokenizer.start_ids),
        # The generation defaults have a part in these, and in nothing else that is measured.
        "stop": sorted(tokenizer.stop_ids),
    }
    return {
        "tokenizer_sha256": _sha256(reads),
        "chat_template_sha256": _sha256(_frames(tokenizer)) if tokenizer.has_chat_template else None,
    }


def _frames(tokenizer: HfTokenizer) -> list[str | None]:
    """What the chat template makes of a few chats; None of one that it refuses."""
    frames: list[str | None] = []
    for chat in _CHATS:
        try:
            frames.append(tokenizer.render_chat(chat, answer=True))
        except UsageError:
            frames.append(None)
    return frames


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
