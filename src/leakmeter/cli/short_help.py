"""`--help` in one screen: the options that most people need, examples, and the names of the panels of `--help-all`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

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
    "Personal data": "--region --sensitive --entity-patterns --ner --swap --swap-seed",
    "Long contexts": "--truncate --max-context-tokens --search --audit --audit-rounds",
    "Served model": "--tokenizer --allow-remote --concurrency --price-per-million",
    "Workers": "--threads --on --workers --gpus-per-worker --allow-mixed --part",
}
_PANEL: Final = {option: panel for panel, options in _PANELS.items() for option in options.split()}


@dataclass(frozen=True, slots=True)
class Short:
    """What `--help` shows of a command: these options, or all, and command lines to start from, which run beside the
    files of `leakmeter demo --write-samples samples`."""

    examples: tuple[str, ...]
    options: str = ""


_RUN: Final = "--model --html --dry-run"
SHORT: Final = {
    "influence": Short(
        (
            "--data samples/log.jsonl --html report.html",
            '--data samples/chats.jsonl --context-from "Notes:(.*)Question:"',
            '--context-file samples/note.txt --query "How can I reach the patient?" --response "Call 555-010-7788."',
        ),
        f"--data --map --context-from --context-file --query --response --unit {_RUN}",
    ),
    "icl": Short(
        (
            "",
            "--exemplars samples/shots.csv --text-column review --label-column sentiment --data samples/reviews.csv",
            "select --exemplars samples/shots.csv --text-column review --label-column sentiment "
            "--data samples/reviews.csv",
        ),
        f"--exemplars --data --text-column --label-column --instruction --label-scoring {_RUN}",
    ),
    "icl responses": Short(
        ("--exemplars samples/answers.csv --data samples/asked.csv",),
        f"--exemplars --data --input-column --output-column --instruction {_RUN}",
    ),
    "icl select": Short(
        ("--exemplars samples/shots.csv --text-column review --label-column sentiment --data samples/reviews.csv",),
        "--exemplars --data --pool --text-column --label-column --max-steps --model --dry-run",
    ),
    "pii probe": Short(
        (
            '--name "Anselm Dorrick" --phone 617-555-0171',
            "--subjects samples/people.csv --html pii.html",
            "--subjects samples/people.csv --kinds twin --dry-run",
        ),
        f"--name --phone --email --address --subjects --kinds --templates {_RUN}",
    ),
    "susceptibility": Short(
        (
            "",
            "--queries samples/questions.jsonl --contexts samples/contexts.jsonl",
            "--queries samples/questions.jsonl --estimator fisher",
        ),
        f"--queries --contexts --estimator --template {_RUN}",
    ),
    "generate": Short(
        (
            "--html private.html",
            '--exemplars samples/notes.csv --column note --instruction "Write a note." --epsilon 8 --subset-size 3',
            "calibrate --epsilon 8 --free temperature --clip 10 --subset-size 50",
        ),
        f"--exemplars --column --instruction --epsilon --subset-size --samples --public {_RUN}",
    ),
    "redact": Short(
        (
            '--context-file samples/note.txt --query "Who is the patient?" --response "Tobias Quillmere." --max-loss 5',
            '--context-file samples/note.txt --query "Who is the patient?" --response "Tobias Quillmere." '
            "--disclosures --write-redacted left.txt",
            "--data samples/log.jsonl --disclosures --unit document --dry-run",
        ),
        f"--max-loss --disclosures --data --context-file --query --response --unit --write-redacted {_RUN}",
    ),
    "decode": Short(
        (
            '--context-file samples/note.txt --query "What should the patient stop taking?"',
            '--context-file samples/note.txt --query "What should the patient stop taking?" --epsilon 0.1',
            "frontier --data samples/answers.jsonl --epsilon 0.1 --epsilon 1",
        ),
        f"--context-file --query --data --epsilon --lambda --max-new-tokens --public {_RUN}",
    ),
    "decode frontier": Short(
        ("--data samples/answers.jsonl --lambda 0.5 --lambda 1",),
        f"--data --map --lambda --epsilon --max-new-tokens --samples {_RUN}",
    ),
    "report": Short(("RUN --html report.html", "RUN --html report.html --figures figures")),
    "gate": Short(
        (
            '--latest --max "influence.worst_disclosure <= 3"',
            "--latest --write-baseline baseline.json",
            "--latest --against baseline.json",
        )
    ),
    "ledger add": Short(
        ("samples/traces.jsonl", "samples/traces.jsonl --recipient user.id --keep-texts"),
        "--ledger --model --recipient --documents --sensitive --keep-texts --format --search",
    ),
    "ledger show": Short(("", "--by recipient", "--subject NAME")),
    "runs query": Short(
        ('"select item, piece, nats from pieces order by nats desc"', "--schema"),
    ),
    "study": Short(("list", "figure_8 --data pubmedqa=FILE --dry-run"), "--size --data --set --out --dry-run"),
    "demo": Short(("", "--write-samples samples", "--model toy")),
    "serve": Short(("--open", "--runs runs --ledger ledger --open")),
    "doctor": Short(
        (
            "",
            "--model smollm2-135m",
            'tokens --context-file samples/note.txt --query "Why does he cough?" --model toy',
        )
    ),
    "doctor tokens": Short(
        ('--context-file samples/note.txt --query "Why does he cough?"',),
        "--context-file --query --response --data --unit --template --without --model",
    ),
    "models": Short(("", "pull smollm2-135m", "cache clear")),
}


class Formatter:
    """cyclopts' help formatter, with panels by topic. `command` is its words, such as 'icl select'."""

    def __init__(self, command: str, *, all_options: bool) -> None:
        from cyclopts.help import DefaultFormatter

        self._plain = DefaultFormatter()
        self._short = SHORT.get(command, Short(()))
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
