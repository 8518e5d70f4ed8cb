"""What `leakmeter audit run` is asked for: a TOML file, and options that win over it.

model = "smollm2-135m"
exemplars = "tickets.csv"          beside the file
column = "body"                    where a text stands; or a task and a label, for labelled data
instruction = "Write a support ticket that a customer might send."
subset_size = 24
epsilon = 14                       or temperature
clip = 7.5
sequences = 2
max_new_tokens = 30
delta = 1e-5
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_type_hints

from cyclopts import Parameter

from leakmeter.commands.options import Text
from leakmeter.core.files import read_text
from leakmeter.errors import DataError, UnknownNameError, UsageError
from leakmeter.privacy.private_voting import NormaliseBy

SAMPLE: Final = "tickets"
"""The exemplars, and the task, that ship with the package."""
_PATHS: Final = ("exemplars", "task")
_WORDS: Final = {str: "text", int: "a whole number", float: "a number"}


@Parameter(name="*", negative="")
@dataclass(frozen=True, slots=True)
class Asked:
    """Keys of the file, each an option too; what neither gives has the default that is told here."""

    model: str | None = None
    """A known name (see `leakmeter models`), hf:ORG/NAME, a directory, or a .gguf file; smollm2-135m by default."""
    exemplars: str | None = None
    """Private texts: a CSV, JSON lines, JSON or Parquet file, or tickets, the invented sample."""
    column: str | None = None
    """Column of the texts, where there is no task; text by default."""
    task: str | None = None
    """How labelled exemplars are read: agnews, dbpedia14, trec, a file NAME.toml, or tickets."""
    label: str | None = None
    """What is written. With a task, exemplars with this label are taken; without one all have it."""
    instruction: Text | None = None
    """The prompt's first lines, which are public; the paper's for news by default."""
    label_heading: str | None = None
    """Heading of the label; News Type by default."""
    text_heading: str | None = None
    """Heading of the text; Text by default."""
    template: str | None = None
    """plain, the default, or chat for the whole prompt in one user message."""
    subset_size: int | None = None
    """Exemplars of a batch, which vote together; all in one batch by default."""
    batches: int | None = None
    """Disjoint batches, each with sequences of its own; as many as can be filled by default."""
    epsilon: Annotated[float | None, Parameter(name=("--epsilon", "--target-epsilon"))] = None
    """What may be promised at most at delta for the sequences of a batch, nats: the temperature is set so."""
    temperature: float | None = None
    """τ of the votes' average, in the place of epsilon."""
    clip: float | None = None
    """c: a vote lies between −c and c, nats; 10 by default."""
    normalise_by: NormaliseBy | None = None
    """What a sum of votes without an exemplar is divided by: fixed, the default, or present."""
    sequences: int | None = None
    """Sequences drawn from each batch; 10 by default."""
    max_new_tokens: Annotated[int | None, Parameter(name=("--max-new-tokens", "--max-tokens"))] = None
    """Most tokens of each, which the promise is for; 40 by default."""
    min_new_tokens: int | None = None
    """Fewest tokens of each; 0 by default."""
    delta: float | None = None
    """δ of the promise; 1e-5 by default."""
    seed: int | None = None
    """Of the draws, to be kept secret. By default none: they come from the operating system's source."""

    @property
    def given(self) -> dict[str, Any]:
        """What is not left to a default."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def merged(config: Path | None, options: Asked) -> Asked:
    """The file's keys, where no option is given that wins; the sample's without either file or exemplars.

    Raises:
        DataError: the file cannot be read, or is no TOML.
        UnknownNameError: a key that is none.
        UsageError: a value that a key cannot have.
    """
    if config is None:
        found = _read(sample("audit.toml")) if options.exemplars is None else {}
    else:
        found = _read(config)
        found |= {name: _beside(config, found[name]) for name in _PATHS if name in found}
    # One of the two says what is promised, and the option does where there is one.
    if options.epsilon is not None or options.temperature is not None:
        found = {name: value for name, value in found.items() if name not in ("epsilon", "temperature")}
    return replace(options, **{name: value for name, value in found.items() if name not in options.given})


def sample(name: str) -> Path:
    """A file that ships with the package."""
    return Path(str(resources.files("leakmeter.samples").joinpath(name)))


def _read(path: Path) -> dict[str, Any]:
    where = f"configuration '{path}'"
    try:
        told = tomllib.loads(read_text(path, "configuration"))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{where} is not TOML: {error}") from None
    hints = get_type_hints(Asked)
    kinds: dict[str, type] = {
        field.name: next((kind for kind in (int, float) if kind in get_args(hints[field.name])), str)
        for field in fields(Asked)
    }
    for name, value in told.items():
        if name not in kinds:
            raise UnknownNameError(f"key of {where}", name, kinds)
        kind = kinds[name]
        # 14 is a number as well as 14.0; true is none.
        if not isinstance(value, (int, float) if kind is float else kind) or isinstance(value, bool):
            raise UsageError(f"{where}: '{name}' is {_shown(value)}; it has to be {_WORDS[kind]}")
    return {name: float(value) if kinds[name] is float else value for name, value in told.items()}


def _beside(config: Path, given: str) -> str:
    """A file that the configuration names, from where it lies; a name of something else as it is."""
    path = config.parent / given
    return str(path) if Path(given).suffix and not Path(given).is_absolute() else given


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
