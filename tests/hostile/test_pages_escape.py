"""Texts, names and ids that are markup, on every page, in every report and on the terminal: none becomes any."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest

import leakmeter
from helpers.differentiable_toy import DifferentiableToy
from helpers.logged_answers import ChatToy, logged
from helpers.report_browser import CHROMIUM, Browser
from helpers.report_checks import CONTROLS, ELEMENTS, Page, assert_harmless, assert_markdown_harmless
from helpers.serving import HEADERS, client, events, listening, serving_of
from leakmeter.backends.toy import Toy
from leakmeter.engine.loading import KeptModel
from leakmeter.products.ledger.measuring import Measuring, add
from leakmeter.products.ledger.store import Ledger
from leakmeter.products.serve.access import POLICY

Cli = Callable[..., Any]
PAYLOADS = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=2>",
    '" onmouseover="window.pwned=3" x=\'pwned\'',
    "' autofocus onfocus='window.pwned=4'",
    "<a href=javascript:window.pwned=5>javascript:window.pwned=5</a>",
    "</title></style></textarea></option></script></pre></bdi><style>*{display:none}</style>",
    "--> <!-- ]]> <![CDATA[ <?php ?>",
    "{{7*7777777}} {%raw%} ${7*7777777} #{7*7777777} <%=7*7777777%>",
    "[pwned](javascript:pwned) ![pwned](http://pwned.test/x.png) `pwned` | pwned | @pwned http://pwned.test",
    "&lt;pwned&gt; &#x3c;pwned&#x3e; &amp;lt; \\u003cscript\\u003e",
    "<svg onload=window.pwned=6><iframe srcdoc='<script>parent.pwned=7</script>'>",
    "[bold red]pwned[/] [link=http://pwned.test]l[/link] :smile:",
    "\x1b[31mred \x1b]8;;http://pwned.test\x07link \x9b5m \x00\x08\x7f",
    "line\u2028separator\u2029 \u202eevil\u202c \u2066isolate\u2069 \ufeff",
)
HOSTILE = " ".join(PAYLOADS)
NAME = '<img src=x onerror=window.pwned=8>" onclick="window.pwned=9" {{7*7777777}}'
"""Of a run, which is one line."""
COMPUTED = str(7 * 7777777)
"""What a template would make of some of these."""
ELEMENTS_OF_PAGES = {
    *ELEMENTS,
    *("button", "fieldset", "form", "input", "label", "legend", "li", "link", "ol", "option", "output", "progress"),
    *("select", "textarea", "ul"),
}
ATTRIBUTES = set(
    """
    accept action aria-current aria-describedby aria-hidden aria-label aria-labelledby aria-live aria-sort
    autocomplete charset checked class content data-bins data-cases data-chips data-copy data-d data-filter
    data-found data-handful data-knee data-l data-label data-p data-partly data-post data-r data-rest data-rows
    data-run data-screen data-sort data-state data-top data-u data-v defer dir disabled for form hidden href id lang
    max maxlength method min name placeholder rel required role rows scope selected spellcheck src step tabindex
    title type value
    clip-path clip-rule d fill fill-opacity font-family font-size font-weight height opacity stroke stroke-dasharray
    stroke-dashoffset stroke-linecap stroke-linejoin stroke-opacity stroke-width text-anchor transform viewbox width
    x x1 x2 xlink:href xmlns xmlns:xlink y y1 y2
    """.split()  # noqa: SIM905
)
"""Of the server's own pages."""
FIGURE_ELEMENTS = (
    *("svg", "metadata", "RDF", "Work", "type", "date", "format", "creator", "Agent", "title", "defs", "style", "g"),
    *("path", "use", "text", "clipPath", "rect", "image", "tspan"),
)
LEADING = ("href", "src", "action", "formaction", "data-post", "data-found")
"""Attributes that name another place."""


def named(toy: Toy) -> Toy:
    toy.name = HOSTILE
    return toy


class Attributes(Page):
    """A page whose attributes are kept with their values."""

    def __init__(self, page: str) -> None:
        self.given: list[tuple[str, str]] = []
        super().__init__(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        self.given += [(name, value or "") for name, value in attrs]


def assert_page_harmless(page: str) -> None:
    seen = Attributes(page)
    assert seen.elements <= ELEMENTS_OF_PAGES, seen.elements - ELEMENTS_OF_PAGES
    assert seen.attributes <= ATTRIBUTES, seen.attributes - ATTRIBUTES
    for tag, attributes, text in seen.inline:
        assert (tag, attributes) == ("script", {"type": "application/json"})
        assert "pwned" not in text
        json.loads(text)
    for name, value in seen.given:
        if name in LEADING:
            assert re.match(r"/(?!/)|#|\?|data:,$|data:image/png;base64,", value), (name, value)
    assert not CONTROLS.search(page)
    assert COMPUTED not in page


class Measured(NamedTuple):
    """Where runs and a ledger of hostile texts lie, and whether there is a run of every instrument."""

    folder: Path
    root: Path
    runs: tuple[str, ...]
    has_all: bool


CASE = {"id": HOSTILE, "context": [{"name": HOSTILE, "text": HOSTILE}], "query": PAYLOADS[2], "response": PAYLOADS[0]}
DRAWN = {**CASE, "response": None}
LABELS = ["<b>Glad", 'Sad" onx="1']
TASK = {"instruction": PAYLOADS[5], "fields": {"said": PAYLOADS[1]}, "answer": PAYLOADS[0], "labels": LABELS}
ROWS = [{"said": f"{PAYLOADS[i]} {i}", "label": LABELS[i % 2], "id": f"{HOSTILE}{i}"} for i in range(5)]


def measure_few(model: Any, **how: Any) -> Iterator[Any]:
    yield leakmeter.influence(model, [{**CASE, "response": "41"}], **how)
    yield leakmeter.influence(model, [CASE], samples=1, unit="document", out=how["out"])
    yield leakmeter.susceptibility(model, [f"{PAYLOADS[0]}?"], contexts=[HOSTILE, "It rains."], **how)


def measure_more(model: Any, **how: Any) -> Iterator[Any]:
    yield leakmeter.influence(model, [DRAWN], samples=1, unit="word", search="top:2", max_new_tokens=4, **how)
    yield leakmeter.decode(model, [DRAWN], max_new_tokens=4, epsilon=2.0, **how)
    yield leakmeter.redact(model, [{**CASE, "response": "41"}], max_loss=0.2, **how)
    moods = {"task": TASK, "exemplars": ROWS[2:], "label_scoring": "whole-sequence"}
    yield leakmeter.icl(model, ROWS[:2], **moods, **how)
    people = [{"name": 'Mara <b>Ell" onx="1\'', "phone": "617-555-0134"}]
    yield leakmeter.pii(model, people, kinds=["twin"], decoys=50, prompts=1, beams=(), **how)
    texts = [f"{PAYLOADS[i]} {PAYLOADS[-1 - i]}" for i in range(3)]
    yield leakmeter.generate(model, texts, epsilon=20.0, samples=1, max_new_tokens=2, **how)
    yield leakmeter.fisher_susceptibility(named(DifferentiableToy()), [PAYLOADS[1], PAYLOADS[-1]], probes=2, **how)


@pytest.fixture(scope="module", params=["few", pytest.param("all", marks=pytest.mark.long)])
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LEAKMETER_CONFIG", str(folder / "config"))
        patched.setenv("LEAKMETER_CACHE", str(folder / "cache"))
        how = {"out": folder / "runs", "name": NAME}
        toy, documents = named(Toy()), {HOSTILE: f"{PAYLOADS[0]} Call 202-555-0143."}
        made = [*measure_few(toy, **how), *(measure_more(toy, **how) if request.param == "all" else ())]
        who = ({"recipient": f"{HOSTILE}{n}", "trace_id": f"{HOSTILE}{n}"} for n in range(2))
        answers = [logged(n, documents, PAYLOADS[1], query=PAYLOADS[2], **more) for n, more in enumerate(who)]
        add(Ledger.of_user(folder / "ledger"), answers, KeptModel(ChatToy()), Measuring(keep_texts=True))
        yield Measured(folder, folder / "runs", tuple(run.path.name for run in made), request.param == "all")


def addresses(measured: Measured) -> list[str]:
    """Pages from which all others are reached, and those of what is typed into an address."""
    typed = [urlencode({name: HOSTILE}) for name in ("text", "measure", "model", "sort", "page")]
    kinds = ("document", "subject", "recipient", "day", "answer")
    return [
        *("/", "/runs", "/doctor", "/ledger", "/ledger/budgets?budget=1&per=document"),
        *(f"/runs?{one}" for one in typed),
        *(f"/runs/{name}{what}" for name in measured.runs for what in ("", "/report", "/found", "/progress")),
        f"/runs/compare?run={measured.runs[0]}&run={measured.runs[1]}",
        *(f"/ledger/{kind}?{urlencode({'id': HOSTILE})}" for kind in kinds),
        f"/ledger/budgets?{urlencode({'budget': HOSTILE, 'per': HOSTILE})}",
        f"/runs/{urlencode({'': HOSTILE})}",
        f"/runs/compare?{urlencode({'run': HOSTILE})}",
        f"/{urlencode({'': HOSTILE})}",
    ]


def test_no_text_is_markup_on_any_page(measured: Measured) -> None:
    todo, seen, kinds, linked = addresses(measured), set[str](), set[str](), set[str]()
    with client(serving_of(measured.folder, models=("toy", NAME))) as made:
        events(made.post("/doctor/run", json={"model": "toy"}, headers=HEADERS))
        while todo:
            address = todo.pop()
            if address in seen:
                continue
            seen.add(address)
            answer = made.get(address)
            kind = answer.headers["content-type"].partition(";")[0]
            kinds.add(kind)
            policy = answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.status_code < 500, address
            if kind == "text/html" and policy != POLICY:
                # A report as it is written to a file: its own style and script are named by their hashes.
                assert re.match(r"default-src 'none';", policy)
                assert policy.endswith("; frame-ancestors 'none'")
                assert "unsafe" not in policy
                assert_harmless(answer.text)
                assert COMPUTED not in answer.text
            elif kind == "text/html":
                assert_page_harmless(answer.text)
                for link in map(unescape, re.findall(r'href="([/?][^"]*)"', answer.text)):
                    # Of links that differ in what is asked for alone, one is followed.
                    if (shape := re.sub(r"=[^&]*", "", link)) not in linked:
                        linked.add(shape)
                        todo.append(link if link.startswith("/") else address.partition("?")[0] + link)
            else:
                assert policy == POLICY
                assert kind in ("application/json", "text/plain", "text/css", "text/javascript")
    assert {"text/html", "text/plain", "application/json"} <= kinds
    assert len(seen) > 20


def test_what_the_live_page_is_told_is_text_or_escaped(measured: Measured) -> None:
    typed = {"context": "\n".join(PAYLOADS), "query": PAYLOADS[0], "response": PAYLOADS[2], "unit": "line"}
    with client(serving_of(measured.folder)) as made:
        for what, fields in (("measure", {}), ("cut", {"cut": ["l1"]}), ("redact", {"max_loss": 0.5})):
            answer = made.post(f"/live/{what}", json={**typed, **fields}, headers=HEADERS)
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert not CONTROLS.search(answer.text.replace("\n", ""))
            name, told = events(answer)[-1]
            assert name == "done", told
            for field in ("html", "found", "advice", "rest"):
                assert_page_harmless(told.get(field, ""))


def test_no_text_is_markup_in_a_report(measured: Measured, cli: Cli) -> None:
    every = [measured.root / name for name in measured.runs]
    for runs in (every, *([one] for one in every[: None if measured.has_all else 1])):
        where = ("--html", "page.html", "--markdown", "page.md", "--figures", f"of {len(runs)}, {runs[0].name}")
        assert cli("report", *runs, *where).code == 0
        assert_harmless(Path("page.html").read_text(encoding="utf-8"))
        assert_markdown_harmless(Path("page.md").read_text(encoding="utf-8"))
    figures = [*Path().glob("of */*.svg")]
    assert figures
    for figure in figures:
        assert_figure_harmless(figure.read_text(encoding="utf-8"))


def assert_figure_harmless(text: str) -> None:
    assert not CONTROLS.search(text)
    assert "<!ENTITY" not in text
    for element in ElementTree.fromstring(text).iter():
        assert element.tag.rpartition("}")[2] in FIGURE_ELEMENTS, element.tag
        for name, value in element.attrib.items():
            plain = name.rpartition("}")[2]
            assert not plain.startswith("on")
            assert plain != "href" or value.startswith(("#", "data:image/png;base64,"))


def test_no_text_is_obeyed_by_a_terminal(measured: Measured, cli: Cli) -> None:
    root, (first, second, *_) = measured.root, measured.runs
    asked = ("select * from cases", "select * from runs", "select * from pieces")
    for words in (
        ("runs", "list", "--runs", root),
        *(("runs", "show", root / name) for name in measured.runs),
        *(("runs", "verify", root / name) for name in measured.runs),
        ("runs", "compare", root / first, root / second),
        ("gate", root / first, "--max", "influence.max <= 0", "--junit", "junit.xml"),
        *(("runs", "query", sql, "--runs", root) for sql in asked),
        ("ledger", "show", "--ledger", measured.folder / "ledger"),
    ):
        ended = cli(*words)
        assert ended.code in (0, 1), (words, ended.err)
        assert not CONTROLS.search(ended.out), words
        assert not CONTROLS.search(ended.err), words
    ElementTree.parse("junit.xml")


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_no_text_is_markup_in_a_browser(measured: Measured) -> None:
    with listening(measured.folder) as serving, Browser() as browser:
        browser.open(serving.access.new_link())
        for address in addresses(measured):
            browser.open(f"{serving.access.origin}{address}")
            assert browser.run("window.pwned === undefined && document.body !== null"), address
        assert all(url.startswith((serving.access.origin, "data:")) for url in browser.requests)
        assert not [one for one in browser.complaints if "Content Security Policy" in one]
