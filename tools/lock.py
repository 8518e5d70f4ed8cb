"""Make constraints.txt and locks/: exact versions of all dependencies, with the SHA-256 of every file they come from.

    uv --version                      # pip install uv
    python tools/lock.py              # newly needed packages are added, locked versions stay
    python tools/lock.py --upgrade    # newest versions
    python tools/lock.py --check      # exit 1 if pyproject.toml asks for anything that is not locked

One universal resolution, for every Python and platform at once, of `leakmeter[dev]` is written as

- constraints.txt: versions alone, for `pip install -c`;
- locks/base.txt, locks/test.txt, locks/dev.txt: with hashes, each what it adds to the one before;
- locks/build.txt: what builds leakmeter itself, with hashes;
- locks/peers.txt: what `leakmeter[peers]` needs beyond or otherwise than constraints.txt, for an environment that goes
  before the other: packages whose own files tests read, and which ask for versions that others do not take;
- locks/cuda.txt: the CUDA libraries and triton that torch of PyPI loads on Linux, and its CPU build does not;
- locks/torch-cpu.txt: torch's CPU builds, which come from an index of their own. An index that cannot be reached, or a
  version that it does not have yet, leaves the hashes of the same version as they were.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
LOCKS: Final = ROOT / "locks"
CONSTRAINTS: Final = ROOT / "constraints.txt"
PEERS: Final = LOCKS / "peers.txt"
TORCH_CPU: Final = LOCKS / "torch-cpu.txt"
CPU_INDEX: Final = "https://download.pytorch.org/whl/cpu/torch/"
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
SETS: Final = {"base": (), "test": ("test",), "dev": ("dev",)}
"""Extras of each file; the closure of each holds the one before."""
BUILDS: Final = ("hatchling", "editables")
"""What is needed to install a checkout; the second for `pip install -e`."""
UNUSED: Final = ("playwright",)
"""Needed by axe-playwright-python alone, of which tests use a script and no module; 165 MB."""
CUDA: Final = re.compile(r"(nvidia|cuda)-|triton$")
MADE: Final = "# Made by tools/lock.py.\n"
ABOUT: Final = {
    "base": "What `leakmeter` needs: pip install --require-hashes -r locks/base.txt",
    "test": "What `leakmeter[test]` needs beyond base.txt.",
    "dev": "What `leakmeter[dev]` needs beyond base.txt and test.txt.",
    "peers": "What `leakmeter[peers]` needs beyond or otherwise than constraints.txt (make test-peers).",
    "build": "What builds leakmeter of a checkout.",
    "cuda": "What torch of PyPI needs beyond base.txt on Linux, for NVIDIA GPUs.",
}


def main() -> None:
    """Make the files, or compare them with pyproject.toml."""
    parser = argparse.ArgumentParser(description="Make constraints.txt and locks/ of pyproject.toml.")
    parser.add_argument("--upgrade", action="store_true", help="newest versions instead of those that are locked")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if anything is not locked")
    given = parser.parse_args()
    if given.check:
        missing = unlocked()
        for line in missing:
            print(line, file=sys.stderr)
        sys.exit(bool(missing))
    pins = [] if given.upgrade else re.findall(r"^[a-z0-9].*", CONSTRAINTS.read_text("utf-8"), re.MULTILINE)
    whole = entries(compiled(("dev",), pins))
    pins = [first_line(entry) for one in whole.values() for entry in one]
    written: set[str] = set()
    LOCKS.mkdir(exist_ok=True)
    for name, extras in SETS.items():
        names = entries(compiled(extras, pins)).keys() - written
        written |= names
        kept = [one for one in names if not CUDA.match(one) and one not in UNUSED]
        write(LOCKS / f"{name}.txt", ABOUT[name], whole, kept)
    # Packages that both need have one version: pip would replace it otherwise.
    builds = entries(compiled((), [*pins, *([] if given.upgrade else locked_builds(pins))], BUILDS))
    write(LOCKS / "build.txt", ABOUT["build"], builds, builds)
    write(LOCKS / "cuda.txt", ABOUT["cuda"], whole, [one for one in whole if CUDA.match(one)])
    lines = [first_line(entry) for name in sorted(whole) if not CUDA.match(name) for entry in whole[name]]
    about = "Locked versions of everything `leakmeter[dev]` installs; locks/ has the same with hashes.\n"
    about += f"# For Python {PYTHONS[0]} to {PYTHONS[-1]} on Linux, macOS 14 or newer (arm64) and Windows."
    CONSTRAINTS.write_text(f"# {about}\n{MADE}" + "\n".join(lines) + "\n", encoding="utf-8")
    write_peers(upgrade=given.upgrade)
    (torch,) = versions("\n".join(lines))["torch"]
    write_torch_cpu(torch)


def compiled(extras: Iterable[str], pins: Iterable[str], instead: Iterable[str] = ()) -> str:
    """What uv resolves for some extras of pyproject.toml, with hashes.

    Args:
        extras: their names.
        pins: requirements that hold wherever a package is needed.
        instead: requirements to resolve instead of those of pyproject.toml.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pins.txt").write_text("\n".join(pins), encoding="utf-8")
        (Path(folder) / "instead.txt").write_text("\n".join(instead), encoding="utf-8")
        source = f"{folder}/instead.txt" if instead else "pyproject.toml"
        command = ["uv", "pip", "compile", source, "--universal", "--python-version", PYTHONS[0], "-q"]
        command += ["--generate-hashes", "--no-annotate", "--no-header", "-c", f"{folder}/pins.txt"]
        command += [word for extra in extras for word in ("--extra", extra)]
        return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def write_peers(*, upgrade: bool) -> None:
    """The lock file of packages whose own files tests read. Locked versions are kept where they can be.

    Args:
        upgrade: whether those of peers are not.
    """
    kept = "" if upgrade or not PEERS.exists() else PEERS.read_text("utf-8")
    locked = versions(CONSTRAINTS.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        # What uv finds in the file that it writes is preferred, and no condition.
        path = Path(folder) / "preferred.txt"
        pins = [first_line(entry) for of_one in entries(kept).values() for entry in of_one]
        path.write_text("\n".join([CONSTRAINTS.read_text("utf-8"), *pins]) + "\n", encoding="utf-8")
        command = ["uv", "pip", "compile", "pyproject.toml", "--extra", "peers", "--universal", "-q", "-o", str(path)]
        command += ["--python-version", PYTHONS[0], "--generate-hashes", "--no-annotate", "--no-header"]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        whole = entries(path.read_text("utf-8"))
    found = {name: versions("\n".join(of_one))[name] for name, of_one in whole.items()}
    own = [name for name, of_one in found.items() if of_one != locked.get(name)]
    write(PEERS, ABOUT["peers"], whole, [name for name in own if not CUDA.match(name) and name not in UNUSED])


def locked_builds(beside: Iterable[str]) -> list[str]:
    """Pins of what builds leakmeter, as they are.

    Args:
        beside: pins of what it needs, which go first.
    """
    path = LOCKS / "build.txt"
    found = versions(path.read_text("utf-8")) if path.exists() else {}
    return [f"{name}=={one}" for name in found.keys() - versions("\n".join(beside)).keys() for one in found[name]]


def entries(text: str) -> dict[str, list[str]]:
    """The entries of a requirements file by the package's name, several where versions depend on Python's.

    Comments are left out, and packages that only a browser needs.

    Args:
        text: of the file.
    """
    found: dict[str, list[str]] = {}
    for name, rest in re.findall(r"^([a-z0-9][\w.-]*)(==.*(?:\n +--hash.*)*)", text, re.MULTILINE):
        if "sys_platform == 'emscripten'" not in rest:
            found.setdefault(name, []).append(name + rest)
    return found


def first_line(entry: str) -> str:
    """An entry without its hashes."""
    return entry.partition(" \\\n")[0]


def versions(text: str) -> dict[str, set[str]]:
    """Versions of each package of a requirements file."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([a-z0-9][\w.-]*)==([^\s;\\]+)", text, re.MULTILINE):
        found.setdefault(name, set()).add(version)
    return found


def write(path: Path, about: str, whole: Mapping[str, Iterable[str]], names: Iterable[str]) -> None:
    """A lock file.

    Args:
        path: its place.
        about: its first line.
        whole: all entries by the package's name.
        names: of those that are its own.
    """
    lines = [entry for name in sorted(names) for entry in whole[name]]
    path.write_text(f"# {about}\n{MADE}" + "\n".join(lines) + "\n", encoding="utf-8")


def write_torch_cpu(version: str) -> None:
    """The lock file of torch's CPU builds for Linux; other systems take torch from PyPI, which is for CPUs there.

    Args:
        version: of torch.
    """
    wheels = known_cpu_wheels(version) | listed_cpu_wheels(version)
    lines = [f"    --hash=sha256:{digest}" for _, digest in sorted(wheels.items())]
    names = [f"#   {name} {digest}" for name, digest in sorted(wheels.items())]
    about = "torch without CUDA, for Linux: pip install --no-deps --require-hashes --extra-index-url"
    text = f"# {about} {CPU_INDEX.removesuffix('torch/')} -r locks/torch-cpu.txt\n{MADE}"
    text += "\n".join([*names, " \\\n".join([f"torch=={version}+cpu", *lines])])
    TORCH_CPU.write_text(text + "\n", encoding="utf-8")


def known_cpu_wheels(version: str) -> dict[str, str]:
    """SHA-256 by file name, of this version, as the lock file has them."""
    if not TORCH_CPU.exists():
        return {}
    found = re.findall(r"^#   (\S+\.whl) ([0-9a-f]{64})$", TORCH_CPU.read_text("utf-8"), re.MULTILINE)
    return {name: digest for name, digest in found if name.startswith(f"torch-{version}+cpu-")}


def listed_cpu_wheels(version: str) -> dict[str, str]:
    """SHA-256 by file name, of this version, as torch's own index has them; nothing if it cannot be reached."""
    try:
        with urllib.request.urlopen(CPU_INDEX, timeout=15) as answer:  # https, a constant
            page = answer.read().decode("utf-8")
    except (urllib.error.URLError, TimeoutError) as error:
        print(f"{CPU_INDEX} cannot be read ({error}); hashes of torch's CPU builds stay as they were", file=sys.stderr)
        return {}
    tags = "|".join(python.replace(".", "") for python in PYTHONS)
    wheel = rf"(torch-{re.escape(version)}%2Bcpu-cp({tags})-cp\2-manylinux_[^\"/#]+\.whl)#sha256=([0-9a-f]{{64}})"
    return {name.replace("%2B", "+"): digest for name, _, digest in re.findall(wheel, page)}


def unlocked() -> list[str]:
    """A line for each requirement of pyproject.toml, of what `dev` installs, that no locked version satisfies."""
    import tomllib

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    locked = versions(CONSTRAINTS.read_text("utf-8"))
    hashed = versions("".join((LOCKS / f"{name}.txt").read_text("utf-8") for name in SETS))
    names = (locked | hashed).keys() - set(UNUSED)
    differing = sorted(name for name in names if locked.get(name) != hashed.get(name))
    lines = [f"{name}: constraints.txt and locks/ differ" for name in differing]
    if {f"{one}+cpu" for one in locked["torch"]} != versions(TORCH_CPU.read_text("utf-8"))["torch"]:
        lines.append("torch: constraints.txt and locks/torch-cpu.txt differ")
    todo, seen = [*project["dependencies"], "leakmeter[dev]"], set()
    while todo:
        requirement = Requirement(todo.pop())
        if requirement.name == "leakmeter":
            extras = requirement.extras - seen
            seen |= extras
            todo += [one for extra in extras for one in project["optional-dependencies"][extra]]
            continue
        found = locked.get(canonicalize_name(requirement.name), set())
        if not found or any(one not in requirement.specifier for one in found):
            lines.append(f"{requirement}: locked is {' and '.join(sorted(found)) or 'no version'}; run tools/lock.py")
    return lines


if __name__ == "__main__":
    main()
