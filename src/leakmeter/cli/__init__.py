"""The command line: one file a command, its options from the dataclasses that the library uses."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Final

from cyclopts import App, CycloptsError, UnknownOptionError

from leakmeter.cli import (
    audit,
    cache,
    decode,
    demo,
    frontier,
    icl,
    icl_plan,
    influence,
    models,
    process,
    redact_plan,
    regurgitation,
    report,
    study,
    susceptibility,
)
from leakmeter.errors import LeakmeterError

app = App(
    name="leakmeter",
    help="Measure, in nats, what a language model lets through of the text it was given.",
    version=lambda: metadata.version("leakmeter"),
    suppress_keyboard_interrupt=False,
)
app.command(influence.influence)
app.command(decode.decode)
app.command(frontier.frontier)
app.command(redact_plan.redact_plan)
app.command(icl.icl)
app.command(icl_plan.icl_plan)
app.command(susceptibility.susceptibility)
app.command(audit.app)
app.command(study.study)
app.command(regurgitation.regurgitation)
app.command(report.report)
app.command(demo.demo)
app.command(models.app)
app.command(cache.app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: exit code 0, 1 for a broken promise, 2 for what the user can mend, 130 when interrupted."""
    # Nothing of a run may leave the machine unasked; a download is asked for by naming a model.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    process.keep_freed_memory()
    # A letter that the terminal's encoding has not is shown as '?', rather than ending the run.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except (LeakmeterError, CycloptsError) as error:
        _fail(_why_refused(error) or str(error), 2)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}", 2)
    except KeyboardInterrupt:
        _fail("interrupted; finished cases are kept, the same command goes on from there", 130)


_CHOOSING: Final = ("--top-k", "--top-p", "--min-p", "--typical-p", "--greedy", "--do-sample", "--num-beams")


def _why_refused(error: Exception) -> str | None:
    """Of an option that other tools have and this one cannot: why not, and what instead."""
    if not isinstance(error, UnknownOptionError) or error.token.keyword not in _CHOOSING:
        return None
    return (
        f"{error.token.keyword} is refused: a token that it leaves out without the context, and not with it, would "
        "have an infinite loss (Flemings et al., Section 3.2); responses are sampled from the whole distribution. One "
        "that was chosen otherwise can be given, as 'response' of a case with 'decoding'"
    )


def _fail(message: str, code: int) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"leakmeter: {' '.join(message.split())}\n")
    sys.exit(code)
