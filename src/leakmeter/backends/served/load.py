"""'vllm:http://127.0.0.1:8000#name' to a back end that asks that server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from leakmeter.backends import served as folder
from leakmeter.backends.served import DIALECTS
from leakmeter.backends.served.backend import ServedBackend
from leakmeter.backends.served.connection import (
    DEFAULT_CONCURRENCY,
    MOST_CONCURRENCY,
    Connection,
    StatusError,
    is_loopback,
    key_for,
    split,
)
from leakmeter.backends.served.dialect import Dialect
from leakmeter.core import registry
from leakmeter.core.backend import Tokenizer
from leakmeter.core.folder import module_in
from leakmeter.errors import ModelError, UnknownNameError, UsageError

TEXTS: Final = (
    "The quick brown fox jumps over 13 lazy dogs.",
    "Name: Ana Álvarez\n\n- ¿qué?  two spaces\ttab",
    "naïve café 北京 ☂ x_1 = f(y) / 2.50;",
)
"""Texts by which tokenizers are compared."""
_TOY: Final = "toy"


def load_served(
    model: str,
    *,
    tokenizer: Any,
    allow_remote: bool = False,
    concurrency: int | None = None,
    notify: Callable[[str], None],
    checked: bool = True,
    **limits: float,
) -> ServedBackend:
    """A model behind a server to a back end. `model` is DIALECT:URL#NAME, without a name the server's only model;
    `tokenizer` is a known name, hf:ORG/NAME, a directory with a tokenizer.json, a .gguf file, 'toy', or a fast
    tokenizer of the transformers library, and `checked` refuses another than the server's. `allow_remote`: texts may be
    sent to another machine. `notify` gets a line on whom texts are sent to, and when the server lets requests
    wait. `limits` are `seconds` and `patience` of the `Connection`. Before a `UsageError` nothing was sent."""
    name, url, served_name = _read(model)
    parts = split(url)
    key = key_for(parts)
    at_once = DEFAULT_CONCURRENCY if concurrency is None else concurrency
    if not 1 <= at_once <= MOST_CONCURRENCY:
        raise UsageError(f"concurrency is {concurrency}; give 1 to {MOST_CONCURRENCY} with --concurrency")
    if not is_loopback(parts):
        if not allow_remote:
            raise UsageError(
                f"'{parts.hostname}' is another machine, and contexts, queries and responses would be sent to it; add "
                "--allow-remote to permit this"
            )
        how = "encrypted" if parts.scheme == "https" else "NOT encrypted"
        also = " and the key of the environment" if key else ""
        notify(f"sending contexts, queries and responses{also} to '{parts.netloc}' ({parts.scheme}, {how})")
    read, identity = served_tokenizer(tokenizer, notify)
    connection = Connection(url, key=key, concurrency=at_once, notify=notify, **limits)
    dialect_class = module_in(folder, name).DIALECT
    translator = (read,) if dialect_class.translates else ()
    dialect: Dialect = dialect_class(connection, served_name, *translator)
    served = dialect.describe()
    if checked:
        _check_vocabulary(served.n_vocab, read, connection.host)
        if has_tokenizer(dialect, read, TEXTS) is False:
            raise ModelError(
                f"the server {connection.host} tokenises a text differently from --tokenizer; give the tokenizer of "
                "the model that it serves"
            )
    return ServedBackend(dialect, connection, served, read, identity)


def has_tokenizer(dialect: Dialect, tokenizer: Tokenizer, texts: Iterable[str]) -> bool | None:
    """Whether the server tokenises some texts as a tokenizer of this machine; None where it does not return ids."""
    for text in texts:
        try:
            ids = dialect.tokenize(text)
        except StatusError as error:
            if error.status not in (404, 405, 501):
                raise
            ids = None
        if ids is None:
            return None
        if tuple(ids) != tuple(tokenizer.encode_data(text, first=True).ids):
            return False
    return True


def _check_vocabulary(n_vocab: int | None, tokenizer: Tokenizer, host: str) -> None:
    """Refuse rows with fewer tokens than the tokenizer has. A model's rows may be padded, so more are allowed. Tokens
    added to a tokenizer do not count, since some models' rows do not have them."""
    n_tokens = getattr(tokenizer, "n_vocab", None)
    if n_vocab is not None and n_tokens is not None and n_vocab < n_tokens:
        raise ModelError(
            f"the server {host} has rows of {n_vocab} tokens and --tokenizer has {n_tokens}; give the tokenizer of the "
            "model that it serves"
        )


def _read(model: str) -> tuple[str, str, str | None]:
    name, _, rest = model.partition(":")
    if name not in DIALECTS:
        raise UnknownNameError("kind of server", name, DIALECTS)
    url, _, served_name = rest.partition("#")
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"'{name}:' needs a server's address after it, as in {name}:http://127.0.0.1:8000#NAME")
    return name, url.rstrip("/").removesuffix("/v1"), served_name or None


def served_tokenizer(tokenizer: Any, notify: Callable[[str], None]) -> tuple[Tokenizer, Mapping[str, str | None]]:
    """The tokenizer of a served model, and what identifies it; see `load_served`."""
    if tokenizer is None:
        raise UsageError(
            "a served model needs its tokenizer on this machine; give --tokenizer hf:ORG/NAME, or a directory "
            "with its tokenizer.json"
        )
    if tokenizer == _TOY:
        return registry.backend(_TOY)().tokenizer, {"tokenizer": _TOY}
    from leakmeter.backends.hf.tokenizer import HfTokenizer, load_tokenizer

    if isinstance(tokenizer, (str, Path)):
        from leakmeter.models.resolve import tokenizer_folder

        read = load_tokenizer(tokenizer_folder(str(tokenizer), notify=notify), str(tokenizer))
    else:
        read = HfTokenizer(tokenizer, None)
    return read, read.identity
