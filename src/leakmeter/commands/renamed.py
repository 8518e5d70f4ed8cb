"""Commands and options under the names that they had in the release before: hidden, understood, told of in one line.

    @renamed("--queries", "--max-queries", when=str.isdecimal)
    def icl(...): ...

Drop a line of these one release after it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from leakmeter.commands.output import tell
from leakmeter.core import registry

if TYPE_CHECKING:
    from cyclopts import App

_F = TypeVar("_F", bound=Callable[..., object])
_ATTRIBUTE: Final = "renamed_options"


@dataclass(frozen=True, slots=True)
class _Renamed:
    old: str
    new: str
    when: Callable[[str], bool] | None
    """Of the value behind it; None for any, and for flags."""


def renamed(old: str, new: str, *, when: Callable[[str], bool] | None = None) -> Callable[[_F], _F]:
    """Let a command understand the old spelling of an option.

    Args:
        old: such as '--queries'.
        new: such as '--max-queries'.
        when: whether a value is meant for the new option, where the old spelling stays for something else.
    """

    def marked(command: _F) -> _F:
        setattr(command, _ATTRIBUTE, (*getattr(command, _ATTRIBUTE, ()), _Renamed(old, new, when)))
        return command

    return marked


def with_new_command(words: Sequence[str]) -> Sequence[str]:
    """The words of a command line, an instrument's command under its name of today (see `core.instrument.Command`)."""
    for kind in registry.instruments():
        for command in registry.instrument(kind).commands:
            if words and command.was and words[0] == command.was:
                tell(f"{command.was} is called {command.name} now; the old name goes with the next release")
                return [command.name, *words[1:]]
    return words


def with_new_names(app: App, words: Sequence[str]) -> list[str]:
    """The words of a command line with today's spellings; tells on standard error what was replaced."""
    _, apps, rest = app.parse_commands(words)
    known: tuple[_Renamed, ...] = getattr(apps[-1].default_command, _ATTRIBUTE, ())
    if not known:
        return list(words)
    n_command = len(words) - len(rest)
    made = list(words)
    for place in range(n_command, len(words)):
        if words[place] == "--":
            break
        name, equals, value = words[place].partition("=")
        following = value if equals else "".join(words[place + 1 : place + 2])
        for one in known:
            if name == one.old and (one.when is None or one.when(following)):
                made[place] = f"{one.new}{equals}{value}"
                tell(f"{one.old} is called {one.new} now; the old spelling goes with the next release")
    return made
