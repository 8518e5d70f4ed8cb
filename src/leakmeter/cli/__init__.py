"""The command line: one file a command, its options from the dataclasses that the library uses."""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import metadata
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, Final, NoReturn, get_args

from cyclopts import (
    App,
    ArgumentCollection,
    CycloptsError,
    Group,
    Parameter,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from leakmeter.cli import process
from leakmeter.cli.short_help import Formatter
from leakmeter.commands import output
from leakmeter.core import registry
from leakmeter.core.plain import excerpt, visible
from leakmeter.core.registry import Command, Short
from leakmeter.core.urls import as_given
from leakmeter.errors import LeakmeterError, UnknownNameError, UsageError

_GROUPS: Final = ("Measure", "Act", "Follow up", "Set up")
_LOGS: Final = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".gz", ".zst")
"""Ends of files of logged answers, where one is the first word."""
_FIRST_STEPS: Final = """\
leakmeter measures, in nats, what a language model's answers disclose of its context and its training text.

Try it on a sample      leakmeter demo
Measure a log           leakmeter LOG.jsonl
Get files to try        leakmeter demo --write-samples samples
See it while you type   leakmeter serve --open
Check this computer     leakmeter doctor

All commands: leakmeter --help
"""
_EPILOGUE: Final = "`leakmeter COMMAND --help` shows a command's main options and examples, `--help-all` all options."


def _report() -> Any:
    from leakmeter.cli.report import report

    return report


def _gate() -> Any:
    from leakmeter.cli.gate import gate

    return gate


def _ledger() -> Any:
    from leakmeter.cli.ledger import app

    return app


def _runs() -> Any:
    from leakmeter.cli.runs import app

    return app


def _study() -> Any:
    from leakmeter.cli.study import app

    return app


def _demo() -> Any:
    from leakmeter.cli.demo import demo

    return demo


def _serve() -> Any:
    from leakmeter.cli.serve import serve

    return serve


def _doctor() -> Any:
    from leakmeter.cli.doctor import app

    return app


def _models() -> Any:
    from leakmeter.cli.models import app

    return app


_COMMANDS: Final = (
    Command(
        "report",
        _report,
        "Write the HTML report of finished runs or of a study, and figures for a paper.",
        group="Follow up",
        order=1,
        short={
            "": Short(
                (
                    "RUN --html report.html",
                    "RUN --html report.html --figures figures",
                )
            ),
        },
    ),
    Command(
        "gate",
        _gate,
        "Check finished runs against bounds and a baseline; exit with 1 if one is broken.",
        group="Follow up",
        order=2,
        short={
            "": Short(
                (
                    '--latest --max "influence.worst_disclosure <= 3"',
                    "--latest --write-baseline baseline.json",
                    "--latest --against baseline.json",
                )
            ),
        },
    ),
    Command(
        "ledger",
        _ledger,
        "Keep account of what logged answers disclosed of documents and people, and to whom.",
        group="Follow up",
        order=3,
        short={
            "add": Short(
                (
                    "samples/traces.jsonl",
                    "samples/traces.jsonl --recipient user.id --keep-texts",
                ),
                "--ledger --model --recipient --documents --sensitive --allowed --keep-texts --format --search",
            ),
            "show": Short(
                (
                    "",
                    "--by recipient",
                    "--subject NAME",
                )
            ),
        },
    ),
    Command(
        "runs",
        _runs,
        "List, show, compare, query, verify and export runs.",
        group="Follow up",
        order=4,
        short={
            "query": Short(
                (
                    '"select item, piece, nats from pieces order by nats desc"',
                    "--schema",
                )
            ),
        },
    ),
    Command(
        "study",
        _study,
        "Run factor studies, those of the papers or your own, with a table and a figure.",
        group="Follow up",
        order=5,
        short={
            "": Short(
                (
                    "list",
                    "figure_8 --data pubmedqa=FILE --dry-run",
                ),
                "--size --data --set --out --dry-run",
            ),
        },
    ),
    Command(
        "demo",
        _demo,
        "Measure an invented clinic note: how much does each sentence influence an answer?",
        group="Set up",
        order=6,
        short={
            "": Short(
                (
                    "",
                    "--write-samples samples",
                    "--model toy",
                )
            ),
        },
    ),
    Command(
        "serve",
        _serve,
        "Show on a local page what a model leaks as you type, and browse what was measured.",
        group="Set up",
        order=7,
        short={
            "": Short(
                (
                    "--open",
                    "--runs runs --ledger ledger --open",
                )
            ),
        },
    ),
    Command(
        "doctor",
        _doctor,
        "Check that leakmeter works here or, with --model, that a model's log-probabilities are usable.",
        group="Set up",
        order=8,
        short={
            "": Short(
                (
                    "",
                    "--model smollm2-135m",
                    'tokens --context-file samples/note.txt --query "Why does he cough?" --model toy',
                )
            ),
            "tokens": Short(
                ('--context-file samples/note.txt --query "Why does he cough?"',),
                "--context-file --query --response --data --unit --template --without --model",
            ),
        },
    ),
    Command(
        "models",
        _models,
        "List known models, and fetch them.",
        group="Set up",
        order=9,
        short={
            "": Short(
                (
                    "",
                    "pull smollm2-135m",
                    "cache clear",
                )
            ),
        },
    ),
)
"""Those that are no instrument's."""


def commands() -> list[Command]:
    """Those of instruments, and the others."""
    instruments = map(registry.instrument, registry.instruments())
    return [*chain.from_iterable(instrument.commands for instrument in instruments), *_COMMANDS]


def short_helps() -> dict[str, Short]:
    """What `--help` shows of commands, by their words, such as 'icl select'."""
    return {
        f"{command.name} {words}".rstrip(): short for command in commands() for words, short in command.short.items()
    }


def program(words: Sequence[str] = (), *, all_options: bool = False) -> App:
    """The command line for the words that were typed. Only the command that is their first word is imported. With
    `all_options`, `--help` shows every option of a command."""
    first = words[0] if words else None
    command = " ".join(takewhile(lambda word: not word.startswith("-"), words))
    app = App(
        name="leakmeter",
        help="Measure, in nats, how much of its context a language model leaks into its answers."
        + ("" if command else "\n\nleakmeter LOG.jsonl measures the answers of a log and writes the report LOG.html."),
        version=lambda: metadata.version("leakmeter"),
        suppress_keyboard_interrupt=False,
        # An option that is not given is off, or empty: there is neither --no-… nor --empty-….
        default_parameter=Parameter(negative="", show_default=_shown_default),
        config=(_refuse_fractions,),
        help_formatter=Formatter(command, short_helps().get(command, Short()), all_options=all_options),
        help_epilogue=None if command else _EPILOGUE,
    )
    groups = {name: Group(name, sort_key=number) for number, name in enumerate(_GROUPS)}
    for shown in commands():
        group = groups[shown.group]
        if shown.name != first:
            app.command(App(name=shown.name, help=shown.about, group=group, sort_key=shown.order))
        elif isinstance(command := shown.load(), App):
            # Shared by all who import it, so that nothing may be set of it.
            app.command(command, name=shown.name)
        else:
            # Pages of the reference take its name from the App.
            flags = {"help_flags": app.help_flags, "version_flags": app.version_flags}
            named = App(name=shown.name, group=group, sort_key=shown.order, version=app.version, **flags)
            named.default(command)
            app.command(named)
    return app


def expanded(words: Sequence[str]) -> tuple[Sequence[str], bool]:
    """The words as commands understand them, and whether all options are to be shown."""
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if "--help-all" in words:
        return ["--help" if word == "--help-all" else word for word in words], True
    if not words or words[0].startswith("-") or Path(words[0]).suffix not in _LOGS:
        return words, False
    # `leakmeter LOG.jsonl`: what answers disclosed of which document, with a page beside where it is run.
    log, *options = words
    is_named = any(option.partition("=")[0] == "--html" for option in options)
    more = [] if is_named else ["--html", f"{Path(log).name.partition('.')[0]}.html"]
    return ["influence", "--data", log, *more, *options], False


def _refuse_fractions(_app: App, _commands: Sequence[str], arguments: ArgumentCollection) -> None:
    """`UsageError` for 3.5 of what is counted in whole numbers, which would be rounded without a word."""
    for argument in arguments:
        takes = get_args(argument.hint) or (argument.hint,)
        if int in takes and not {float, str} & {*takes}:
            for token in argument.tokens:
                if token.value.partition(".")[2].strip("0"):
                    name = token.keyword or argument.name
                    raise UsageError(f"{name} is '{excerpt(token.value, 40)}', expected a whole number")


def _shown_default(value: object) -> str | None:
    """A default as it would be typed; None where it is that an option is not given."""
    if value is None or isinstance(value, bool):
        return None
    return " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Exit code 0, 1 for a broken bound or guarantee, 2 for all that goes wrong, 130 when
    interrupted. An unexpected error is one line too; its traceback goes to a log that only the user can read."""
    # Nothing of a run may leave the machine unasked; a download is asked for by naming a model.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    process.keep_freed_memory()
    process.open_closed_streams()
    # A letter that the terminal's encoding has not is shown as '?', rather than ending the run.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")
    try:
        words = sys.argv[1:] if arguments is None else arguments
        output.typed(words)
        ended: str | int | None = None
        try:
            if not words:
                sys.stdout.write(_FIRST_STEPS)
                sys.exit(0)
            words, all_options = expanded(words)
            app = program(words, all_options=all_options)
            app(words, exit_on_error=False, print_error=False)
        except SystemExit as error:
            ended = error.code
        sys.stdout.flush()
        sys.exit(ended)
    except (LeakmeterError, CycloptsError) as error:
        _fail(_why_refused(error) or str(error), 2)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.filename or 'a file'}: {error.strerror or error}", 2)
    except KeyboardInterrupt as error:
        _fail(f"interrupted; {str(error) or 'finished cases are kept, and the same command continues from there'}", 130)
    except MemoryError:
        _fail("out of memory; give less at once, a smaller model, or a smaller --memory", 2)
    except RecursionError:
        _fail("the input is nested too deeply to be read; give it with fewer levels", 2)
    except Exception as error:  # noqa: BLE001 - the last catch: nobody foresaw it, and nobody should have to read it
        _fail(process.logged(error), 2)


_CHOOSING: Final = ("--top-k", "--top-p", "--min-p", "--typical-p", "--greedy", "--do-sample", "--num-beams")


def _why_refused(error: Exception) -> str | None:
    """What is expected in the place of a word too many, or of an option that other tools have and this one cannot."""
    if isinstance(error, UnusedCliTokensError):
        return _word_too_many(error)
    if isinstance(error, UnknownCommandError):
        return _no_command(error)
    if not isinstance(error, UnknownOptionError) or error.token.keyword not in _CHOOSING:
        return None
    return (
        f"{error.token.keyword} is refused: a token that it excludes without the context but not with it would have "
        "an infinite loss (Flemings et al., Section 3.2); responses are sampled from the whole distribution. To score "
        "a response chosen otherwise, give it as 'response' of a case with 'decoding'"
    )


def _no_command(error: UnknownCommandError) -> str:
    word, chain = (error.unused_tokens or [""])[0], error.command_chain or ()
    path, shown = Path(word), shlex.quote(excerpt(word, 60))
    if not chain and path.is_file():
        return (
            f"'{excerpt(word, 60)}' is a file, not a command; a text is the context of `leakmeter influence "
            f"--context-file {shown} --query TEXT`, and a log of answers ends in {', '.join(_LOGS)}"
        )
    if not chain and path.is_dir():
        return (
            f"'{excerpt(word, 60)}' is a directory, not a command; the report of a run is written by `leakmeter report "
            f"{shown}`"
        )
    if not chain and (path.suffix or len(path.parts) > 1):
        return f"'{excerpt(word, 60)}' is neither a file nor a command; see `leakmeter --help`"
    known = [name for name in error.app or () if not name.startswith("-")]
    if chain:
        return str(UnknownNameError(f"command of `{' '.join(('leakmeter', *chain))}`", word, known))
    # As `leakmeter --help` has them: the main ones first.
    shown_order = sorted(commands(), key=lambda command: (_GROUPS.index(command.group), command.order))
    return str(UnknownNameError("command", word, [command.name for command in shown_order], is_ordered=True))


def _word_too_many(error: UnusedCliTokensError) -> str:
    command = " ".join(("leakmeter", *(error.command_chain or ())))
    word = repr(excerpt((error.unused_tokens or [""])[0], 60))
    app = error.app
    commands = [] if app is None else [name for name in app if not name.startswith("-") and app[name].show]
    if commands:
        return f"`{command}` has no command {word}; give one of its commands ({', '.join(commands)}), or none"
    arguments = [] if app is None else app.assemble_argument_collection()
    names = [argument.name.lstrip("-").upper() for argument in arguments if argument.index is not None]
    takes = f"{' and '.join(names)}, and options" if names else "options alone"
    return (
        f"`{command}` takes {takes}; {word} is none of them; put quotes around a text of several words, and see "
        f"`{command} --help`"
    )


def _fail(message: str, code: int) -> NoReturn:
    try:
        sys.stdout.flush()
    except OSError:
        # What is left of the output has nowhere to go, now or when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.stderr.write(f"leakmeter: {visible(' '.join(as_given(message).split()))}\n")
    process.end_despite_queries(code)
    sys.exit(code)
