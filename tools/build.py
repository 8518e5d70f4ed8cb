"""Build wheel and sdist of the commit that is checked out, twice, and keep them if both times give the same bytes.

    python tools/build.py           # to dist/, with SHA256SUMS

It needs git, and hatchling in the version of locks/build.txt (pip install --require-hashes -r locks/build.txt). What is
not committed is not built. Times in the archives are that of the commit.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
HOOKS: Final = ("build_wheel", "build_sdist")


def main() -> None:
    """Build, compare, keep."""
    parser = argparse.ArgumentParser(description="Build wheel and sdist of HEAD, reproducibly.")
    parser.add_argument("--to", type=Path, default=ROOT / "dist", help="directory of what is built (dist)")
    folder = parser.parse_args().to
    first, second = (built(mask, zone) for mask, zone in ((0o022, "UTC"), (0o077, "Pacific/Kiritimati")))
    differing = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    if differing:
        sys.exit(f"built twice, and the bytes differ: {', '.join(differing)}")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in first.items():
        (folder / name).write_bytes(content)
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(first.items()))
    (folder / "SHA256SUMS").write_text(sums, encoding="ascii")
    sys.stdout.write(sums)


def built(mask: int, zone: str) -> dict[str, bytes]:
    """Wheel and sdist by their names, built of a fresh copy of HEAD.

    Args:
        mask: of the modes of files, which must not matter.
        zone: of time, likewise.
    """
    git = ["git", "-C", str(ROOT)]
    archive = subprocess.run([*git, "archive", "HEAD"], capture_output=True, check=True).stdout
    epoch = subprocess.run([*git, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory() as scratch:
        source, out = Path(scratch) / "source", Path(scratch) / "out"
        out.mkdir()
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            # Python before 3.11.4 has no filters; the archive is git's own.
            packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
            packed.extractall(source)
        for path in source.rglob("*"):
            path.chmod(path.stat().st_mode & ~mask)
        for hook in HOOKS:
            subprocess.run(
                [sys.executable, "-c", f"from hatchling.build import {hook} as build; build({str(out)!r})"],
                cwd=source,
                env={**os.environ, "SOURCE_DATE_EPOCH": epoch.strip(), "TZ": zone, "PYTHONHASHSEED": "random"},
                umask=mask,
                stdout=subprocess.DEVNULL,
                check=True,
            )
        return {path.name: path.read_bytes() for path in out.iterdir()}


if __name__ == "__main__":
    main()
