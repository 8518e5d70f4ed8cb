"""`--help` in one screen: the options that most people need, examples, and the names of the panels of `--help-all`.

The options and the examples stand with each command (`core.registry.Short`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

    from leakmeter.core.registry import Short

_REST: Final = "What to measure"
_FEW: Final = 16
"""So many options need no headings."""
_PANELS: Final = {
    "Input": """--context-file --query --response --data --messages --context-from --format --map --skip-bad --queries
        --contexts --task --text-column --label-column --instruction --exemplars --pool --input-column --output-column
        --column --label --label-heading --text-heading --subjects --config --max-queries --shots --records --config""",
    _REST: "",
    "Model": "--model --dtype --device --memory",
    "Output": "--html --json --explain --out --name --dry-run --no-cache --write-redacted --public --csv --junit",
    "Drawn answers": "--samples --max-new-tokens --min-new-tokens --temperature --seed --nonce",
    "Personal data": "--region --sensitive --allowed --pack --entity-patterns --ner --swap --swap-seed",
    "Long contexts": "--truncate --max-context-tokens --search --audit --audit-rounds",
    "Served model": "--tokenizer --allow-remote --concurrency --price-per-million",
    "Workers": "--threads --on --workers --gpus-per-worker --allow-mixed --part",
}
_PANEL: Final = {option: panel for panel, options in _PANELS.items() for option in options.split()}


class Formatter:
    """cyclopts' help formatter, with panels by topic. `command` is its words, such as 'icl select', and `short`
    what is shown of it first."""

    def __init__(self, command: str, short: Short, *, all_options: bool) -> None:
        from cyclopts.help import DefaultFormatter

        self._plain = DefaultFormatter()
        self._short = short
        self._command = command
        self._all = all_options or not self._short.options

    def render_usage(self, console: Console, options: ConsoleOptions, usage: object) -> None:
        self._plain.render_usage(console, options, usage)

    def render_description(self, console: Console, options: ConsoleOptions, description: object) -> None:
        from rich.text import Text

        self._plain.render_description(console, options, description)
        for example in self._short.examples:
            console.print(Text(" ".join(("  leakmeter", self._command, example)).rstrip()), soft_wrap=True)
        if self._short.examples:
            console.print()

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        if panel.format != "parameter":
            # --help and --version go without saying.
            panel.entries = [entry for entry in panel.entries if not entry.names[0].startswith("--")]
            self._plain(console, options, panel)
            return
        if panel.title != "Parameters":
            if self._all or panel.title == "Arguments":
                self._plain(console, options, panel)
            return
        required = [entry for entry in panel.entries if entry.positional_label or entry.required]
        entries = [*required, *(entry for entry in panel.entries if entry not in required)]
        by_panel = {
            title: [entry for entry in entries if _PANEL.get(_name(entry), _REST) == title] for title in _PANELS
        }
        if not self._all:
            by_name = {_name(entry): entry for entry in entries if entry not in required}
            named = [by_name[name] for name in self._short.options.split() if name in by_name]
            self._plain(console, options, panel.copy(title="Options", entries=[*required, *named]))
            titles = " · ".join(title for title, chosen in by_panel.items() if chosen)
            console.print(f"--help-all shows all options: {titles}")
        elif len(entries) <= _FEW:
            self._plain(console, options, panel.copy(title="Options", entries=entries))
        else:
            for title, chosen in by_panel.items():
                self._plain(console, options, panel.copy(title=title, entries=chosen))


def _name(entry: HelpEntry) -> str:
    return entry.positive_names[0] if entry.positive_names else ""
