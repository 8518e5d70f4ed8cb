"""The whole way in a browser: paste, watch, cut, look, keep, and find the run again; two browsers; other origins; the
pages of the ledger and of the doctor.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import leakmeter
from helpers.accessibility import check_page
from helpers.logged_answers import ChatToy, logged
from helpers.report_browser import CHROMIUM, Browser
from helpers.serving import CASE
from leakmeter.engine.loading import KeptModel
from leakmeter.products.ledger.measuring import Measuring, add
from leakmeter.products.ledger.store import Ledger
from leakmeter.products.serve.serving import Serving
from leakmeter.report import scale

pytestmark = [pytest.mark.long, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")]
LONG = {**CASE, "context": " ".join(f"Room {n} is number {n * 7}." for n in range(60)), "unit": "word"}
_DONE = "document.getElementById('status').textContent === 'Done.'"


def start(browser: Browser, **fields: str) -> None:
    for name, text in fields.items():
        browser.run(f"document.querySelector('#live [name={name}]').value = {json.dumps(text)}")
    browser.run("document.querySelector('.primary').click()")


def measure(browser: Browser, **fields: str) -> None:
    start(browser, **fields)
    browser.until(_DONE)


def text(browser: Browser, selector: str) -> str:
    return str(browser.run(f"document.querySelector({json.dumps(selector)}).innerText"))


def test_from_a_text_to_a_run(browser: Browser, serving: Serving) -> None:
    assert browser.run("location.href") == serving.access.origin + "/"
    measure(browser, **CASE)
    expected = leakmeter.influence("toy", **CASE, group=True)
    said = browser.run("[...document.querySelectorAll('#context .s')].map(one => one.title)")
    assert [one.split(",")[0] for one in said] == [
        f"{piece.name}: {scale.nats_text(piece.nats)} nats" for piece in expected.pieces
    ]
    assert scale.nats_text(expected.whole_nats) in text(browser, "#found")

    # A file that is dropped stands in the field.
    browser.run(
        "(box => { const held = new DataTransfer(); held.items.add(new File(['Dropped <b>text</b>.'], 'a.txt'));"
        "box.dispatchEvent(new DragEvent('drop', {dataTransfer: held, bubbles: true, cancelable: true})); })"
        "(document.querySelector('[name=context]'))"
    )
    browser.until("document.querySelector('[name=context]').value === 'Dropped <b>text</b>.'")

    # By keyboard: to the third piece, and it is cut.
    browser.run("document.querySelector('#context .s').focus()")
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        browser.press(key)
    browser.until("document.querySelector('#after .pair') !== null")
    assert text(browser, "#after del") == "Call 555-010-2231."
    assert browser.run("document.getElementById('advice').hidden"), "it is about another answer"
    rest = leakmeter.influence("toy", **{**CASE, "context": "Ana is 41. She sings."}, unit="whole")
    assert f"by {scale.nats_text(rest.whole_nats)}" in text(browser, "#after").replace("\xa0", " ")
    assert browser.run("document.querySelectorAll('#context .gone').length") == 1

    browser.run("document.querySelector('#edit [value=swap]').click()")
    browser.run("document.querySelectorAll('#context .s')[2].click()")
    browser.until("document.getElementById('after').innerText.includes('With surrogates in place')")
    browser.run("document.querySelector('#edit [value=cut]').click()")
    browser.run("for (const one of [...document.querySelectorAll('#context .s')].slice(0, 2)) one.click()")
    browser.until("document.querySelectorAll('#after del').length === 3")
    assert browser.run("document.querySelectorAll('#context .gone').length") == 2
    browser.run("document.getElementById('back').click()")
    browser.until("document.querySelectorAll('#context .gone, #context .swapped').length === 0")
    assert not browser.run("document.getElementById('advice').hidden")

    browser.run("document.querySelector('#redact [name=max_loss]').value = 3")
    browser.run("document.querySelector('#redact button').click()")
    browser.until("document.querySelector('#plan del') !== null")
    browser.run("document.querySelector('#mix button').click()")
    browser.until("!document.getElementById('mixture').hidden")
    before = text(browser, "#cost")
    browser.run("(s => { s.value = 0; s.dispatchEvent(new Event('input')); })(document.getElementById('epsilon'))")
    assert text(browser, "#cost") != before

    browser.run("document.querySelector('#keep [name=name]').value = 'phone'")
    browser.run("document.querySelector('#keep button').click()")
    browser.until("document.querySelector('#kept a') !== null")
    (run,) = serving.runs.iterdir()
    assert run.name.startswith(text(browser, "#kept a").removeprefix("run "))
    assert leakmeter.load_run(run)[0].whole_nats == expected.whole_nats

    browser.run("document.getElementById('numbers').open = true")
    check_page(browser)
    assert browser.complaints == []
    assert all(one.startswith((serving.access.origin, "data:")) for one in browser.requests)


def test_a_disclosure_and_its_source_light_each_other_up(browser: Browser) -> None:
    lit = "[...document.querySelectorAll('#seen .lit')].map(one => one.tagName).sort()"
    measure(browser, **CASE)
    assert text(browser, "#list dt").startswith("phone number, ")
    assert text(browser, "#answer .leak").startswith(CASE["response"])
    assert text(browser, "#context .source") == CASE["response"]
    assert browser.run(lit) == []
    browser.run("document.querySelector('#list button').focus()")
    browser.press("Enter")
    assert browser.run(lit) == ["DT", "SPAN", "U"]
    assert browser.run("document.querySelector('#list button').getAttribute('aria-pressed')") == "true"
    check_page(browser)
    browser.run("document.querySelector('#answer .leak').click()")
    assert browser.run(lit) == []
    # A piece that is chosen lights up what it gave away; another does not.
    for place, expected in ((2, ["DT", "SPAN", "U"]), (0, [])):
        browser.run(f"document.querySelectorAll('#context .s')[{place}].focus()")
        assert browser.run(lit) == expected
    assert browser.complaints == []


def test_hostile_texts_stay_texts_in_a_browser(browser: Browser) -> None:
    hostile = '<img src=x onerror="document.title=1"><script>document.title=2</script> Two. </textarea>Three \u202e.'
    title = browser.run("document.title")
    measure(browser, context=hostile, query=hostile, response=hostile)
    browser.run("document.querySelector('#context .s').click()")
    browser.until("document.querySelector('#after .pair') !== null")
    assert browser.run("document.querySelectorAll('#result img, #result script:not([type])').length") == 0
    assert browser.run("document.title") == title
    assert browser.complaints == []


def test_two_browsers_at_once_and_one_that_goes(serving: Serving) -> None:
    with Browser() as other:
        other.open(serving.access.new_link())
        with Browser() as one:
            link = serving.access.new_link()
            one.open(link)
            start(one, **LONG)
            one.until("document.querySelectorAll('#context .s').length > 0")
            start(other, **CASE)
            other.until("document.getElementById('status').textContent.includes('in the queue')")
        other.until(_DONE)
        assert "3.84" in text(other, "#found")
        other.open(link)
        assert "the link was used" not in text(other, "body"), "a browser that is signed in stays so"
        assert serving.queue.length == 0


def test_cancel_ends_the_work(browser: Browser) -> None:
    start(browser, **LONG)
    browser.until("document.querySelectorAll('#context .s').length > 0")
    browser.run("document.getElementById('cancel').click()")
    browser.until("document.getElementById('status').textContent === 'Cancelled.'")
    measure(browser, **CASE, unit="sentence")


def test_what_is_asked_while_a_new_answer_is_drawn_waits_and_nothing_is_lost(browser: Browser) -> None:
    browser.run("document.querySelector('[name=max_new_tokens]').value = 60")
    measure(browser, **CASE)
    choose = "document.querySelectorAll('#context .s')[{}].click()"
    find = "document.querySelector('#redact button').click()"
    browser.run(choose.format(1))
    browser.until("document.getElementById('after').textContent.includes('A new answer is being drawn')")
    browser.run(find)
    browser.until("document.getElementById('plan').textContent.includes('limit')")
    after = text(browser, "#after")
    assert "influences the same answer by" in after
    assert "being drawn" not in after
    assert "Searched:" in after
    # Another cut takes the place of the first, with both; and a plan that runs is waited for.
    browser.run(find)
    browser.run(choose.format(0))
    browser.run(choose.format(0))
    browser.run(choose.format(0))
    browser.until(_DONE)
    browser.until("document.getElementById('after').textContent.includes('influences the same answer by')")
    browser.until("document.getElementById('plan').textContent.includes('limit')")
    struck = browser.run("[...document.querySelectorAll('#after del')].map((one) => one.textContent).join(' ')")
    assert ("Ana is 41." in struck, "She sings." in struck) == (True, True)
    # Cancelled, neither half of an answer nor a chosen piece is left.
    browser.run(choose.format(0))
    browser.until("document.getElementById('status').textContent.includes('…')")
    browser.run("document.getElementById('cancel').click()")
    browser.until("document.getElementById('status').textContent === 'Cancelled.'")
    assert text(browser, "#after") == ""
    assert browser.run("document.querySelectorAll('#context .gone').length") == 0
    assert browser.run("document.getElementById('cancel').disabled")


def test_before_it_is_calibrated_nothing_is_coloured(browser: Browser) -> None:
    coloured = "#context .s, #answer b, #values button"
    browser.run(
        "window.seen = []; new MutationObserver(() => seen.push([document.getElementById('status').textContent,"
        "document.getElementById('floor').textContent,"
        f"...[...document.querySelectorAll('{coloured}')].map(one => getComputedStyle(one).backgroundColor)]))"
        ".observe(document.getElementById('status'), {childList: true})"
    )
    context = "Ana is 41. She sings. Call 555-010-2231. Again: 555-010-2231."
    measure(browser, **{**CASE, "context": context, "unit": "entity"})
    seen = browser.run("seen")
    # What comes at once is shown at once: the last step and the end of it may be one change.
    steps = [
        colours for said, floor, *colours in seen if said.startswith("Calibrating: ") and floor.startswith(said[:12])
    ]
    assert [said for said, *_ in seen if said == "Calibrating: 4 of 4 steps, the noise floor …"]
    grey = "color(srgb 0.388235 0.364706 0.329412 /"  # the page's soft ink
    assert all(colour.startswith((grey, "color(srgb 0 0 0 / 0)")) for colours in steps for colour in colours)
    assert any(colour.startswith("rgb(") for colour in seen[-1][2:])
    assert text(browser, "#floor").startswith("Calibrated. ")


def test_no_field_lies_behind_another_at_900_pixels(browser: Browser) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
    measure(browser, **CASE)
    browser.run("document.getElementById('options').open = true")
    covered = (
        "[...document.querySelectorAll('#live :is(input, select, textarea, button)')].filter(one => {"
        "one.scrollIntoView({block: 'nearest'}); const box = one.getBoundingClientRect();"
        "const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);"
        "return top === null || !(one.contains(top) || top.contains(one)); }).map(one => one.name || one.id)"
    )
    assert browser.run(covered) == []
    browser.run("scrollTo(0, 0)")
    assert browser.run("document.querySelector('#live .primary').getBoundingClientRect().bottom < 900")


def test_what_is_left_of_a_context_can_be_copied_and_saved(browser: Browser, serving: Serving, tmp_path: Path) -> None:
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path / "saved"))
    measure(browser, **CASE)
    browser.run("document.querySelectorAll('#context .s')[2].click()")
    browser.until("document.querySelector('#after .take') !== null")
    browser.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    browser.run("document.querySelector('#after .take button').click()")
    browser.until("document.querySelector('#after .take button').textContent === 'Copied'")
    assert browser.run("copied") == "Ana is 41. She sings."
    browser.run("document.querySelectorAll('#after .take button')[1].click()")
    deadline = time.monotonic() + 20
    while not (tmp_path / "saved" / "redacted.txt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (tmp_path / "saved" / "redacted.txt").read_text() == "Ana is 41. She sings."
    # The same of a plan, for a limit or for what the answer discloses.
    for goal in ("influence", "disclosures"):
        browser.run(f"(form => {{ form.goal.value = '{goal}'; form.goal.dispatchEvent(new Event('change'));"
                    "form.max_loss.value = 3; form.querySelector('button').click(); })"
                    "(document.getElementById('redact'))")  # fmt: skip
        browser.until("document.querySelector('#plan .take') !== null")
        assert browser.run("document.getElementById('limit').hidden") == (goal == "disclosures")
    check_page(browser)
    assert browser.complaints == []


def test_a_cut_while_pieces_are_scored_waits_for_them(browser: Browser) -> None:
    start(browser, **LONG)
    browser.until("document.getElementById('status').textContent.includes('pieces scored so far')")
    assert "may still change" in text(browser, "#floor")
    browser.run("document.querySelectorAll('#context .s')[0].click()")
    browser.until("document.getElementById('after').textContent.includes('influences the same answer by')")
    assert "Noise floor" in text(browser, "#floor")
    assert text(browser, "#found")


def test_a_page_of_another_origin_reaches_nothing(browser: Browser, serving: Serving) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>other</title>")

        def log_message(self, *_: object) -> None:
            pass

    def answer(expression: str) -> Any:
        return browser.call("Runtime.evaluate", expression=expression, awaitPromise=True)["result"]["value"]

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        browser.open(f"http://127.0.0.1:{other.server_port}/")
        plain, ours = {"content-type": "text/plain"}, {"content-type": "application/json", "x-leakmeter": "1"}
        for headers, mode in ((plain, "cors"), (plain, "no-cors"), (ours, "cors")):
            options = {"method": "POST", "credentials": "include", "headers": headers, "body": json.dumps(CASE)}
            asked = json.dumps({**options, "mode": mode})
            told = answer(f"fetch('{serving.access.origin}/live/keep', {asked}).then(a => a.type, () => 'no')")
            assert told in ("no", "opaque")
        framed = answer(
            "new Promise(done => { const frame = document.createElement('iframe');"
            f"frame.src = '{serving.access.origin}/'; frame.onload = () => {{ try {{ done(String("
            "frame.contentDocument && frame.contentDocument.body.innerText)); } catch { done('null'); } };"
            "document.body.append(frame); })"
        )
        assert framed == "null"
        assert not serving.runs.exists()
        assert serving.queue.length == 0
        other.shutdown()


def test_from_a_kept_run_to_a_comparison(browser: Browser, serving: Serving) -> None:
    """Keep two runs, find them in the list, name one, and compare both."""
    for unit in ("sentence", "word"):
        measure(browser, **CASE, unit=unit)
        browser.run(f"document.querySelector('#keep [name=name]').value = '{unit}s'")
        browser.run("document.querySelector('#keep button').click()")
        browser.until("document.querySelector('#kept a') !== null")
    browser.run("document.querySelector('#kept a').click()")
    browser.until("document.readyState === 'complete' && document.getElementById('called') !== null")
    assert text(browser, "h1") == "words"
    check_page(browser)
    browser.run("document.querySelector('#rename input').value = 'words <b>again</b>'")
    browser.run("document.querySelector('#rename button').click()")
    browser.until("document.getElementById('called').textContent === 'words <b>again</b>'")

    browser.open(f"{serving.access.origin}/runs")
    browser.until("![...document.querySelectorAll('[data-found]')].some(one => one.textContent === '…')")
    assert "phone number" in text(browser, "tbody .verdict")
    assert browser.run("document.getElementById('compare').disabled")
    check_page(browser)
    browser.run("for (const one of document.querySelectorAll('[name=run]')) one.click()")
    browser.run("document.getElementById('compare').click()")
    browser.until("document.title.startsWith('Two runs')")
    assert "prompts.unit" in text(browser, "main")
    check_page(browser)
    assert not browser.complaints
    assert all(one.startswith((serving.access.origin, "data:", "blob:")) for one in browser.requests)


def test_the_list_of_runs_is_as_wide_as_the_page_and_leads_with_what_was_found(
    browser: Browser, serving: Serving
) -> None:
    found = leakmeter.influence("toy", [CASE], out=serving.runs, name="a name of several words for it").headline
    leakmeter.decode("toy", [CASE], out=serving.runs, max_new_tokens=3)
    for width in (390, 1024, 1280, 1440, 1920):
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        browser.open(f"{serving.access.origin}/runs")
        browser.until("!document.querySelector('#list').innerText.includes('…')")
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        shown, main = (f"document.querySelector('{where}')" for where in ("#list table", "main"))
        assert browser.run(f"{shown}.clientWidth > 0.95 * {main}.clientWidth")
        # Nothing is cut, and words such as a unit's are not broken.
        cells = f"[...{shown}.querySelectorAll('tbody :is(th,td)')]"
        assert browser.run(f"{cells}.every(one => one.scrollWidth <= one.clientWidth + 1)")
        one_line = (
            "(one => { const all = new Range(); all.selectNodeContents(one); return all.getClientRects().length < 2; })"
        )
        assert browser.run(f"{cells}.filter(one => one.className === 'word').every{one_line}")
        assert found in text(browser, "#list tbody")
        assert ("Sort by" in text(browser, "#list"), "Unit: " in browser.run(
            "getComputedStyle(document.querySelector('#list [data-label=Unit]'), '::before').content"
        )) == (False, width <= 1024)  # fmt: skip
        check_page(browser)


def test_pages_that_are_not_there_and_links_that_were_used_show_a_way_on(browser: Browser, serving: Serving) -> None:
    for path in ("nowhere", "runs/nope", "ledger/by/nothing"):
        browser.open(f"{serving.access.origin}/{path}")
        check_page(browser)
        assert text(browser, "main a") == "Go to the Live page"
        browser.open(browser.run("document.querySelector('main a').href"))
        assert browser.run("document.getElementById('live') !== null")
    with Browser() as other:
        other.open(f"{serving.access.origin}/?token=used")
        check_page(other)
        assert "The link was used already or belongs to another server; leakmeter serve prints a new one." in text(
            other, "main"
        )
        assert "Link for another browser" in text(other, "main")
        assert "Runs" not in text(other, "body")


def test_empty_pages_say_what_to_do(browser: Browser, serving: Serving) -> None:
    for path, said in (("runs", "Measure one answer on the page Live"), ("doctor", "No model was examined yet"),
                       ("ledger", "Make one from your logs")):  # fmt: skip
        browser.open(f"{serving.access.origin}/{path}")
        assert said in text(browser, "main")
        check_page(browser)


def test_a_file_is_measured(browser: Browser, serving: Serving) -> None:
    lines = "\\n".join(json.dumps({**CASE, "id": f"c{n}"}) for n in range(3))
    browser.open(f"{serving.access.origin}/runs")
    check_page(browser)
    browser.run(
        "(form => { const held = new DataTransfer(); held.items.add(new File"
        f"([{json.dumps(lines)}.replaceAll('\\\\n', '\\n')], 'cases.jsonl')); form.file.files = held.files; "
        "form.querySelector('.primary').click(); })(document.getElementById('measure'))"
    )
    browser.until("document.querySelector('.finding') !== null")
    (run,) = serving.runs.iterdir()
    assert len(leakmeter.load_run(run)) == 3
    browser.run("document.querySelector('a.primary').click()")
    browser.until("document.readyState === 'complete' && location.pathname.endsWith('/report')")
    assert browser.complaints == []


_HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>\u202e'
_SECRET = "Ms Ana Alvi, 12 Elm Street: call 202-555-0143."


def test_the_ledger_from_its_matrix_to_one_answer(
    browser: Browser, serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKMETER_CONFIG", str(tmp_path / "config"))
    made = []
    for n in range(30):
        documents = {f"weather-{n % 5}": f"It rains at coast {n % 5}.", **({_HOSTILE: _SECRET} if n % 3 == 2 else {})}
        made.append(logged(n, documents, "Ana Alvi" if n % 3 == 2 else "Rain", recipient=f"reader-{n % 4}"))
    browser.open(f"{serving.access.origin}/ledger")
    assert "leakmeter ledger add" in browser.run("document.querySelector('main pre').innerText")
    check_page(browser)
    add(Ledger.of_user(serving.ledger), made, KeptModel(ChatToy()), Measuring(keep_texts=True))

    browser.open(f"{serving.access.origin}/ledger")
    title = browser.run("document.title")
    assert browser.run("document.querySelectorAll('figure svg').length") == 1, "the days; who got what is a table"
    check_page(browser)
    # By keyboard: the first link of the table, and what it opens.
    for _ in range(2):
        browser.run("document.querySelector('tbody a').focus()")
        before = browser.run("location.href")
        browser.press("Enter")
        browser.until(f"location.href !== '{before}' && document.readyState === 'complete'")
        check_page(browser)
    for page in ("by/document", "by/subject", "by/recipient", "by/day", "budgets?budget=1&per=document"):
        browser.open(f"{serving.access.origin}/ledger/{page}")
        check_page(browser)
        assert browser.run("document.querySelectorAll('main img, main script:not([type])').length") == 0
        to = browser.run("(document.querySelector('tbody a') || {}).href")
        if to:
            browser.open(to)
            check_page(browser)
    assert browser.run("document.title") != "1"
    assert title == "Ledger · leakmeter"
    assert browser.complaints == []
    assert all(one.startswith((serving.access.origin, "data:")) for one in browser.requests)


def test_the_doctor_by_keyboard(browser: Browser, serving: Serving) -> None:
    browser.open(f"{serving.access.origin}/doctor")
    check_page(browser)
    browser.run("document.querySelector('#doctor .primary').focus()")
    browser.press("Enter")
    browser.until("document.getElementById('status').textContent === 'Done.'")
    assert "Passed" in browser.run("document.querySelector('#examined h2').innerText")
    assert browser.run("document.activeElement.id") == "examined"
    check_page(browser)
    assert browser.complaints == []
