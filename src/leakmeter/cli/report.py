"""`leakmeter report`: the page of finished runs, or of a study, and figures for a paper, without the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakmeter.commands import output
from leakmeter.commands.options import FlagOption
from leakmeter.errors import UsageError


def report(
    run: Path,
    /,
    *others: Path,
    html: Path = Path("report.html"),
    markdown: Path | None = None,
    figures: Path | None = None,
    latex: Path | None = None,
    public: FlagOption = False,
    show_secrets: FlagOption = False,
) -> None:
    """Write the HTML report of finished runs or of a study, and figures for a paper.

    For several runs, the page has a table of their findings, the paired differences from the first run of the same
    measure, and each run's own page.

    Parameters
    ----------
    run
        The run's directory, or its URL in an object store; or a study's directory, for its tables and figures.
    others
        Directories of further runs.
    html
        The file to write.
    markdown
        Also write the report as Markdown, for a comment on a pull request or a job's summary.
    figures
        Also write the run's figures into this directory, as PNG and SVG.
    latex
        Also write a study's tables as LaTeX (booktabs), each with caption, label and notes.
    public
        Write only what may be published, of a bounded decoding or of generated texts.
    show_secrets
        Write keys and passwords whole into Markdown; otherwise it has their first characters alone.
    """
    from leakmeter.commands.studies.study_report import MARKDOWN, is_study, page_of_study, tables_of
    from leakmeter.results.result import saved

    output.check_writable(html, "report", run, others)
    output.check_apart(html=html, markdown=markdown, latex=latex)
    if markdown is not None:
        output.check_writable(markdown, "report", run, others, html)
    if latex is not None:
        output.check_writable(latex, "LaTeX file", run, others)
        if not is_study(run):
            raise UsageError(f"--latex writes the tables of a study, and '{run}' is none; leave it out")
    if is_study(run):
        if others or figures is not None or public:
            raise UsageError(f"'{run}' is a study's directory; give it alone, without --figures and --public")
        if markdown is not None:
            raise UsageError(f"'{run}' is a study's directory, whose {MARKDOWN} is Markdown; leave --markdown out")
        output.save_page(html, page_of_study(run))
        if latex is not None:
            saved(latex, tables_of(run).latex(), noun="LaTeX file")
    else:
        _write_pages([run, *others], html, figures, public=public)
    output.tell_page(html, public=public)
    if latex is not None:
        output.tell(f"tables: {latex} (private, readable by you alone)")
    if markdown is not None:
        saved(markdown, _as_markdown([run, *others], public=public, show_secrets=show_secrets), public=public)
        output.tell_page(markdown, public=public)


def _as_markdown(paths: list[Path], *, public: bool, show_secrets: bool) -> str:
    from leakmeter.engine.loading import load_run
    from leakmeter.products.pages.render import report_of_runs
    from leakmeter.report import markdown
    from leakmeter.report.masked import masked

    runs = [load_run(path) for path in paths]
    if public:
        results = [published(result) for result in runs[0]]
        return markdown.text(type(results[0]).report(results))
    report = runs[0].report() if len(runs) == 1 else report_of_runs(runs)
    return markdown.text(report if show_secrets else masked(report, report.secrets))


def _write_pages(paths: list[Path], html: Path, figures: Path | None, *, public: bool) -> None:
    from leakmeter.commands.studies.study_report import is_study
    from leakmeter.engine.loading import load_run
    from leakmeter.products.pages.render import page_of_runs, write_figures

    if public and len(paths) > 1:
        raise UsageError("--public is for one run; give the others separately")
    for path in paths:
        if is_study(path):
            raise UsageError(f"'{path}' is a study's directory; give it alone")
    runs = [load_run(path) for path in paths]
    if public:
        if figures is not None:
            raise UsageError("--figures shows private data; leave out --figures or --public")
        output.write_page(html, [published(result) for result in runs[0]], None, None)
        return
    page = runs[0].render_page() if len(runs) == 1 else page_of_runs(runs)
    if figures is not None:
        folders = {figures / f"run{number}": run for number, run in enumerate(runs, 1)}
        files = write_figures({figures: runs[0]} if len(runs) == 1 else folders)
        output.tell(f"figures: {', '.join(map(str, files))} (private, readable by you alone)")
    output.save_page(html, page)


def published(result: Any) -> Any:
    receipt = getattr(result, "public", None)
    if receipt is None:
        raise UsageError(
            "--public is for `leakmeter decode --epsilon` and `leakmeter generate`; no other command gives a guarantee"
        )
    return receipt
