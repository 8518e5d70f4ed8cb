"""`leakmeter serve`: the pages on this machine's own address."""

from __future__ import annotations

import getpass
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from leakmeter.commands import output
from leakmeter.commands.options import FlagOption, LocalOption, TokenizerOption
from leakmeter.errors import LeakmeterError, UsageError
from leakmeter.models import DEFAULT_MODEL, resolve

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from leakmeter.products.serve.serving import Models

PASSWORD: Final = "LEAKMETER_SERVE_PASSWORD"
_LEAST_PASSWORD: Final = 12
_BOUNDED: Final = Parameter(group="Answers for other programs")


@Parameter(name="*", negative="")
@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedOptions:
    """Answers under a bound for other programs, at /v1/chat/completions."""

    epsilon: Annotated[float | None, _BOUNDED] = None
    """Answer other programs at /v1/chat/completions by bounded decoding: ε of each token, nats. The key that programs
    send is printed, or read from LEAKMETER_SERVE_API_KEY."""
    epsilon_total: Annotated[float | None, _BOUNDED] = None
    """Budget of a document over all answers, nats; the amounts spent are kept in --receipts."""
    lambda_max: Annotated[float, _BOUNDED] = 1.0
    """Largest λ of a token."""
    max_new_tokens: Annotated[int, _BOUNDED] = 64
    """Maximum number of tokens of an answer, if a request does not set it."""
    receipts: Annotated[Path, _BOUNDED] = Path("receipts")
    """Directory for the amounts spent and the private receipts."""


def serve(
    *,
    model: Annotated[list[str] | None, Parameter(negative="")] = None,
    runs: Path = Path("runs"),
    ledger: Path = Path("ledger"),
    port: int = 0,
    open: FlagOption = False,
    host: str = "127.0.0.1",
    allow_remote: FlagOption = False,
    tokenizer: TokenizerOption = None,
    local: LocalOption = None,
    bounded: BoundedOptions | None = None,
) -> None:
    """Show on a local page what a model leaks as you type, and browse what was measured.

    Prints a link that opens the page in one browser, once. What you type stays in memory unless you keep it.

    Parameters
    ----------
    model
        See `leakmeter influence`; repeat it to choose among several on the page, of which one is in memory at a time.
        By default smollm2-135m.
    runs
        Directory of runs, to browse and to keep new ones in.
    ledger
        Directory of the ledger that is browsed.
    port
        Port to listen on; 0 takes a free one.
    open
        Open the link in your browser.
    host
        Address to listen on. Any but a loopback address needs --allow-remote and a password, in the environment
        variable LEAKMETER_SERVE_PASSWORD, or typed.
    allow_remote
        Let other machines connect, with --host; or send what you type to a served model on another machine.
    """
    try:
        import starlette
        import uvicorn
    except ImportError:
        raise UsageError("the pages need Starlette and uvicorn: pip install 'leakmeter[serve]'") from None
    _ = starlette, uvicorn
    from leakmeter.backends.served import names_a_server
    from leakmeter.engine.loading import names_a_backend
    from leakmeter.engine.options import LocalOptions, ModelOptions, TokenizerOptions
    from leakmeter.products.serve.access import Access, is_loopback
    from leakmeter.products.serve.app import make_app, run
    from leakmeter.products.serve.queue import Queue
    from leakmeter.products.serve.serving import Models, Serving

    names = model or [DEFAULT_MODEL]
    local = local or LocalOptions()
    more, key, is_new = _bounded(bounded or BoundedOptions(), local.dtype)
    if key is not None and local.dtype is None and not any(name == "toy" or names_a_server(name) for name in names):
        local = replace(local, dtype="float32")  # on CUDA too: the noise of half precision would void a bound
    options = ModelOptions(
        **asdict(local),
        **asdict(tokenizer or TokenizerOptions()),
        allow_remote=allow_remote and all(map(names_a_server, names)),
        # What is typed is not to be found in a file of the score cache.
        cache=False,
    )
    for name in names:
        if name != "toy" and not names_a_backend(name):
            # A name that there is not is told now; what has to be fetched is fetched now.
            resolve(name, notify=output.tell, hash_weights=False)
    password = None if is_loopback(host) else _password(host, allow_remote=allow_remote)
    listening = _listening(host, port)
    bound = listening.getsockname()[1]
    access = Access(host, bound, password=password, key=key)
    serving = Serving(access, Models(names, options), Queue(), runs, ledger)
    address = access.origin if password is not None else access.new_link()
    print(f"leakmeter is at {address}", flush=True)  # noqa: T201 - what the command is for
    if key is not None:
        print(f"programs: {access.origin}/v1{f', key {key}' if is_new else ''}", flush=True)  # noqa: T201 - the same
    if password is not None:
        output.tell("text you type crosses the network unencrypted; if possible, use 127.0.0.1 through ssh -L instead")
    if open:
        # A browser of the terminal would have the page wait for itself.
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    serving.queue.submit(lambda job: _loaded(serving.models), "")
    run(make_app(serving, more), listening)


def _bounded(options: BoundedOptions, dtype: str | None) -> tuple[Sequence[BaseRoute], str | None, bool]:
    """The routes of other programs, their key, and whether it is new; none without a bound."""
    if options.epsilon is None:
        if options != BoundedOptions():
            raise UsageError("epsilon-total, lambda-max, max-new-tokens and receipts need a bound; give --epsilon")
        return (), None, False
    if options.epsilon_total is None:
        raise UsageError("--epsilon needs --epsilon-total, the budget of a document in nats")
    from leakmeter.instruments.decoding.measure import Decode, check_precision
    from leakmeter.products.serve.bounded import BoundedCompletions, api_key, routes

    check_precision(Decode(epsilon=options.epsilon), dtype)
    key, is_new = api_key()
    kept = BoundedCompletions.kept_in(
        options.receipts,
        options.epsilon,
        options.epsilon_total,
        lambda_max=options.lambda_max,
        max_tokens=options.max_new_tokens,
    )
    return routes(kept), key, is_new


def _loaded(models: Models) -> None:
    """Load the first model while the page is being opened."""
    try:
        models.use()
    except LeakmeterError as error:
        output.tell(f"{models.names[0]} is not loaded: {error}")


def _password(host: str, *, allow_remote: bool) -> str:
    """The password of a server that other machines reach."""
    if not allow_remote:
        raise UsageError(
            f"host '{host}' is reachable from other machines; give 127.0.0.1, or --allow-remote and a password in "
            f"{PASSWORD}"
        )
    password = os.environ.get(PASSWORD, "")
    if not password and sys.stdin.isatty():
        password = getpass.getpass("Password for the page: ")
    if len(password) < _LEAST_PASSWORD:
        raise UsageError(f"{PASSWORD} has to hold a password of {_LEAST_PASSWORD} characters or more")
    return password


def _listening(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise UsageError(f"port is {port}; it has to be 0 to 65535")
    listening = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except (OSError, UnicodeError) as error:
        if listening is not None:
            listening.close()
        reason = getattr(error, "strerror", None) or "it is not an address"
        raise UsageError(
            f"nothing can listen on port {port} of '{host}' ({reason}); give another --port or --host"
        ) from None
    return listening
