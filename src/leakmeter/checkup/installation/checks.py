"""What is examined: a function for each check.

Nothing that they say has a path, a name or a message of another library in it, since it is pasted into bug reports.
"""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from leakmeter.checkup.checks import Found
from leakmeter.checkup.installation.parity import model_parity, toy_parity
from leakmeter.checkup.installation.result import InstallationParity
from leakmeter.core.written import try_place
from leakmeter.errors import LeakmeterError
from leakmeter.models import DEFAULT_MODEL, KNOWN_MODELS, cache_dir, cached_model, config_dir, models_dir, scores_dir
from leakmeter.models.gguf import folder_of
from leakmeter.report.words import about_bytes

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_PACKAGE: Final = "leakmeter"
_OURS: Final = "LEAKMETER_"
_MATTER: Final = (
    *("CUDA_VISIBLE_DEVICES", "HF_HUB_OFFLINE", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "PYTORCH_ENABLE_MPS_FALLBACK"),
    *("RAY_ADDRESS", "TRANSFORMERS_OFFLINE"),
)
"""Environment variables of others that change numbers, speed or what is reached."""
_LEAST_FREE_BYTES: Final = 1_000_000_000
"""For the score cache at its largest."""


@dataclass
class Place:
    """A directory of the user's."""

    name: str
    path: Path
    variable: str
    """That names it."""
    is_private: bool
    """Whether what lies in it may be read by nobody else."""

    @property
    def nearest(self) -> Path:
        """The directory, or the nearest above it that is there."""
        return next(path for path in (self.path, *self.path.parents) if path.exists())


@dataclass
class Installation:
    """An installation under examination, and what is known of it so far."""

    parity: list[InstallationParity] = field(default_factory=list)

    @cached_property
    def requirements(self) -> list[tuple[str, Requirement]]:
        """All requirements of leakmeter that hold here: the extra that asks for it, '' where all do, and what it is."""
        from packaging.requirements import Requirement

        found = []
        extras = metadata.metadata(_PACKAGE).get_all("Provides-Extra") or []
        for line in metadata.requires(_PACKAGE) or []:
            one = Requirement(line)
            if one.name == _PACKAGE:
                continue
            if one.marker is None or one.marker.evaluate({"extra": ""}):
                found.append(("", one))
                continue
            found += [(extra, one) for extra in extras if one.marker.evaluate({"extra": extra})]
        return found

    @cached_property
    def libraries(self) -> dict[str, str]:
        """Version of each library that leakmeter needs, by name."""
        names = sorted({one.name for extra, one in self.requirements if not extra} | {"tokenizers"})
        return {name: version_of(name) or "missing" for name in names}

    @cached_property
    def extras(self) -> tuple[str, ...]:
        """Extras of which every library is installed."""
        of: dict[str, list[bool]] = {}
        for extra, one in self.requirements:
            of.setdefault(extra, []).append(version_of(one.name) is not None)
        return tuple(sorted(extra for extra, there in of.items() if extra and all(there)))

    @cached_property
    def computing(self) -> Any:
        """The module that tells what torch computes with; None where torch cannot be imported."""
        try:
            return importlib.import_module("leakmeter.backends.hf.machine")
        except (ImportError, OSError):
            return None  # a library that is missing, or one that the linker rejects

    @cached_property
    def places(self) -> list[Place]:
        """Directories that leakmeter keeps things in."""
        found = [
            Place("cache", cache_dir(), "LEAKMETER_CACHE", is_private=False),
            Place("models", models_dir(), "LEAKMETER_CACHE", is_private=False),
            Place("configuration", config_dir(), "LEAKMETER_CONFIG", is_private=True),
        ]
        scores = scores_dir()
        return found if scores is None else [*found, Place("scores", scores, "LEAKMETER_SCORES", is_private=True)]

    @cached_property
    def cached_models(self) -> tuple[str, ...]:
        """Known models that are on this machine, whole."""
        found = []
        for name, model in KNOWN_MODELS.items():
            with suppress(OSError):
                if cached_model(model):
                    found.append(name)
        return tuple(found)

    @property
    def score_bytes(self) -> int | None:
        """Size of the score cache; None where it is turned off."""
        if (folder := scores_dir()) is None:
            return None
        total = 0
        with suppress(OSError):
            total = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
        return total

    @property
    def disk_free_bytes(self) -> int | None:
        """Where the cache lies; None where it cannot be seen."""
        with suppress(OSError):
            return shutil.disk_usage(self.places[0].nearest).free
        return None


def version_of(library: str) -> str | None:
    """Version of an installed library; None of one that is not there."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def system() -> str:
    """Operating system and kind of machine; not the kernel's release, which may be named after its owner."""
    name, machine = platform.system(), platform.machine()
    more = {"Linux": " ".join(platform.libc_ver()), "Darwin": platform.mac_ver()[0], "Windows": platform.win32_ver()[1]}
    return " ".join(f"{'macOS' if name == 'Darwin' else name} {machine} {more.get(name, '')}".split())


def n_processors() -> int:
    """Processors that this process may use: by its affinity, and by the quota of a container."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        n = min(n, max(1, round(int(quota) / int(period))))
    return n


def memory_bytes() -> int | None:
    """Memory of the machine, or of its container; None where it does not tell."""
    found = []
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(found, default=None)


def is_editable() -> bool:
    """Whether leakmeter runs from a checkout."""
    told = [file for file in metadata.files(_PACKAGE) or () if file.name == "direct_url.json"]
    return any(re.search(r'"editable":\s*true', file.read_text(encoding="utf-8")) for file in told)


def variables() -> tuple[str, ...]:
    """Names of the environment variables that are set and matter; what they are set to may be a path."""
    own = {*(f"{_OURS}{name}" for name in ("CACHE", "CONFIG", "SCORES", "WHEELS", "KEY")), *_MATTER}
    return tuple(sorted(own & os.environ.keys()))


def versions(installation: Installation) -> Found:
    """(1) Every library that leakmeter needs is there, and is new enough; so is what is there of the extras."""
    missing: list[Requirement] = []
    old: list[Requirement] = []
    beside: list[Requirement] = []
    for extra, one in installation.requirements:
        found = version_of(one.name)
        if found is None and not extra:
            missing.append(one)
        elif found is not None and not one.specifier.contains(found, prereleases=True):
            (beside if extra else old).append(one)
    if missing or old:
        said = [f"{one.name} is missing" for one in missing]
        said += [f"{one.name} is {version_of(one.name)}, and needed is {one.specifier}" for one in old]
        return Found(f"{_listed(said)}.", "failed", advice=_pip([*missing, *old]))
    n = len({one.name for extra, one in installation.requirements if not extra})
    said_all = f"All {n} libraries that leakmeter needs are installed, in versions that it works with."
    if beside:
        said = [f"{one.name} {version_of(one.name)} ({one.specifier})" for one in beside]
        return Found(f"{said_all} Of extras, too old: {_listed(said)}.", "note", advice=_pip(beside))
    return Found(said_all)


def threads(installation: Installation) -> Found:
    """(2) torch can be imported, and computes with as many threads as there are processors."""
    if installation.computing is None:
        return Found(
            "torch cannot be imported.", "failed", advice="Install it again: `pip install --force-reinstall torch`."
        )
    n, n_threads = n_processors(), installation.computing.cpu_of()[1]
    said = f"torch computes with {_count(n_threads, 'thread')} on {_count(n, 'processor')}."
    if n_threads > n:
        return Found(said, "note", advice=f"More threads than processors wait for each other; set OMP_NUM_THREADS={n}.")
    if "OMP_NUM_THREADS" in os.environ and n_threads < n:
        return Found(said, "note", advice="OMP_NUM_THREADS leaves processors idle; unset it unless others need them.")
    return Found(said)


def cache(installation: Installation) -> Found:
    """(3) The default model is there, whole, and so is room for what is kept."""
    default = KNOWN_MODELS[DEFAULT_MODEL]
    free = installation.disk_free_bytes
    room = "" if free is None else f" Free on its disk: {about_bytes(free)}."
    scores = installation.score_bytes
    kept = "The score cache is turned off." if scores is None else f"The score cache takes {about_bytes(scores)}."
    if DEFAULT_MODEL in installation.cached_models:
        if free is not None and free < _LEAST_FREE_BYTES:
            return Found(f"{kept}{room}", "note", advice="Free some space: a full score cache takes 1 GB.")
        return Found(f"{DEFAULT_MODEL} is here, whole. {kept}{room}")
    pull = f"`leakmeter models pull {DEFAULT_MODEL}` fetches it ({about_bytes(default.download_bytes)}) and needs "
    pull += f"{about_bytes(default.disk_bytes + default.gguf_bytes)} of disk."
    there = folder_of(default.gguf_sha256, default.name).exists()
    said = f"{DEFAULT_MODEL} is {'damaged, or was not finished' if there else 'not on this machine'}. {kept}{room}"
    return Found(said, "note", advice=pull)


def permissions(installation: Installation) -> Found:
    """(4) Directories can be written, and what is private is readable by nobody else."""
    bad = [one for place in installation.places for one in _wrong_with(place)]
    try:
        tempfile.gettempdir()
    except OSError:
        bad.append(("No directory for temporary files can be written", "Name one in TMPDIR."))
    if not bad:
        names = _listed([place.name for place in installation.places])
        return Found(f"Directories can be written, private files are for you alone ({names}).")
    return Found(f"{'; '.join(said for said, _ in bad)}.", "failed", advice=" ".join(todo for _, todo in bad))


def _wrong_with(place: Place) -> Iterator[tuple[str, str]]:
    """What is wrong with a directory, and what to do; where its owner has not made it yet, with the one above it."""
    name, path = f"The directory of {place.name}", place.path
    try:
        if not path.exists():
            if not os.access(place.nearest, os.W_OK | os.X_OK):
                yield f"{name} cannot be made", f"Name another in {place.variable}."
            return
        if not path.is_dir():
            yield f"{name} is no directory", f"Name another in {place.variable}."
            return
        try_place(path / "doctor")
        if os.name == "nt":
            return
        found = path.stat()
        if found.st_uid != os.getuid():
            yield f"{name} belongs to another user", f"Name another in {place.variable}."
        elif found.st_mode & 0o022:
            yield (
                f"{name} can be written by others",
                f"Take that from them (chmod go-w), or name another in {place.variable}.",
            )
        if place.is_private:
            for file in path.iterdir():
                if file.is_file() and stat.S_IMODE(file.stat().st_mode) & 0o077:
                    yield (
                        f"A file in the directory of {place.name} can be read by others",
                        "Take that from them (chmod 600).",
                    )
                    break
    except OSError as error:
        why = error.strerror or type(error).__name__
        yield (
            f"{name} cannot be used ({why})",
            f"Make it readable and writable for you, or name another in {place.variable}.",
        )


def parity_of_toy(installation: Installation) -> Found:
    """(5) The engine's log-probabilities are those of plain sums, on a model that needs no torch."""
    from leakmeter.backends.toy import Toy

    return _compared(installation, lambda: toy_parity(Toy()))


def parity_of_model(installation: Installation) -> Found:
    """(6) The same with the default model, where it is on this machine."""
    if installation.computing is None:
        return Found("torch cannot be imported.", "skipped")
    if DEFAULT_MODEL not in installation.cached_models:
        return Found(f"{DEFAULT_MODEL} is not on this machine.", "skipped")

    def compared() -> InstallationParity:
        from leakmeter.runs.loading import load_backend

        backend: Any = load_backend(DEFAULT_MODEL, dtype="float32", cache=False, notify=lambda line: None)
        return model_parity(backend)

    return _compared(installation, compared)


def _compared(installation: Installation, compare: Callable[[], InstallationParity]) -> Found:
    try:
        found = compare()
    except (LeakmeterError, ImportError, OSError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        # The message may name a path.
        return Found(
            f"It could not be computed ({type(error).__name__}).",
            "failed",
            advice="Install leakmeter again in an environment of its own; if that does not help, report it.",
        )
    installation.parity.append(found)
    said = f"The fast and the slow way to {found.n_tokens} log-probabilities differ by {found.max_token_nats:.1g} nats"
    if found.max_token_nats <= found.bound_nats:
        return Found(f"{said} at most.")
    return Found(
        f"{said}, and {found.bound_nats:g} is allowed: numbers of this installation are wrong.",
        "failed",
        advice="Install the versions of constraints.txt; if that does not help, report it.",
    )


CHECKS: Final[Sequence[tuple[str, Callable[[Installation], Found]]]] = (
    ("Versions", versions),
    ("Threads", threads),
    ("Cache", cache),
    ("Permissions", permissions),
    ("Parity, toy", parity_of_toy),
    (f"Parity, {DEFAULT_MODEL}", parity_of_model),
)
"""Name and function, in the order of their numbers."""


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words)


def _pip(requirements: Sequence[Requirement]) -> str:
    """How to install libraries; without an extra's marker, which a shell would not understand."""
    words = " ".join(f"'{one.name}{one.specifier}'" for one in requirements)
    return f"`pip install {words}`"
