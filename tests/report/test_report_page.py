import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from report_cases import Case, clinic, every_case, hostile, sampled, small

from leakmeter.core.plain import visible
from leakmeter.errors import UsageError
from leakmeter.report import scale, words
from leakmeter.report.page import render_page

ELEMENTS = """
    html head meta title style body header p div h1 h2 h3 h4 aside table caption thead tbody tr th td span i b bdi em
    small nav a main article section details summary dl dt dd script footer pre code strong sup svg rect path text
    circle
""".split()  # noqa: SIM905
ATTRIBUTES = """
    lang charset http-equiv content name class id href title dir hidden role scope tabindex type aria-label aria-hidden
    data-knee data-top data-bins data-screen data-p data-u data-v viewbox x y d r cx cy width height
""".split()  # noqa: SIM905


class Page(HTMLParser):
    """What a browser would make of the file."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.text: list[str] = []
        self.inline: list[tuple[str, dict[str, str | None], str]] = []
        self._open: tuple[str, dict[str, str | None]] | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in {"href", "src", "xlink:href"}]
        self._open = (tag, dict(attrs)) if tag in {"style", "script"} else None

    def handle_data(self, data: str) -> None:
        if self._open:
            self.inline.append((*self._open, data))
        else:
            self.text.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._open = None


@pytest.mark.parametrize("cases", [[hostile()], every_case(), [small(i) for i in range(30)]])
def test_text_stays_text_and_nothing_is_fetched(cases: list[Case]) -> None:
    attack = cases[0]["id"]
    html = render_page(cases, title=attack, command=attack, run={attack: attack})
    page = Page(html)
    assert page.elements <= set(ELEMENTS)
    assert page.attributes <= set(ATTRIBUTES)
    assert all(re.fullmatch(r"#c\d+", link) for link in page.links)
    assert visible(attack) in "".join(page.text)
    html.encode()


def test_the_policy_names_exactly_what_is_inline() -> None:
    html = render_page([hostile()])
    page = Page(html)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy
    allowed = set(re.findall(r"sha256-[A-Za-z0-9+/=]+", policy[1].replace("&#43;", "+").replace("&#39;", "'")))
    inline = {
        "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for _, attributes, text in page.inline
        if attributes.get("type") != "application/json"
    }
    assert allowed == inline
    assert "unsafe" not in policy[1]
    assert "default-src" in policy[1]


def test_numbers_need_no_script() -> None:
    html = render_page(every_case())
    text = "\n".join(Page(html).text)
    for case in every_case():
        for piece in case["pieces"]:
            assert scale.nats_cell(piece["nats"]) in text
            assert scale.signed_cell(piece["signed_nats"]) in text
            assert words.posterior_cell(piece) in text
    assert "9.25 [4.12, 13.5], worst 15.8" in text
    assert "said elsewhere too (s7)" in text
    assert 'title="s1: 15.68"' in html


def test_data_for_the_script_is_numbers_alone() -> None:
    blocks = [t for _, a, t in Page(render_page(every_case())).inline if a.get("type") == "application/json"]
    assert len(blocks) == 5
    for case, block in zip(every_case(), blocks, strict=True):
        assert not set("<>&") & set(block)
        data = json.loads(block)
        assert [len(line) for line in data["t"]] == [len(case["response"]["tokens"])] * len(case["pieces"])
        assert data["w"] == pytest.approx(case["whole_signed_per_token"], rel=0.01)


def test_numbers_that_are_none_or_not_finite_still_make_a_page() -> None:
    case = sampled() | {"samples": [], "whole_interval_nats": None}
    case["pieces"][0] |= {"nats": float("nan"), "only_this_nats": None, "per_token": [float("inf")] * 5}
    blocks = [t for _, a, t in Page(render_page([case])).inline if a.get("type") == "application/json"]
    assert json.loads(blocks[0])["n"][0] is None


def test_equal_input_gives_equal_bytes_and_a_thousand_cases_stay_small() -> None:
    cases = [small(number) for number in range(1000)]
    html = render_page(cases)
    assert html == render_page(json.loads(json.dumps(cases)))
    assert "object at 0x" not in html
    assert len(html.encode()) < 2_000_000
    shown = html.count('<article class="case"')
    assert 500 < shown < 1000
    assert f"{1000 - shown} further cases that owe less to their contexts are left out" in html
    assert "gave 1,000 responses" in html


def test_the_cases_left_out_are_those_that_owe_least(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [small(number) | {"whole_nats": float((7 * number) % 10)} for number in range(10)]
    monkeypatch.setattr("leakmeter.report.frame.PAGE_BYTES", len(render_page(cases[:4]).encode()) + 300)
    html = render_page(cases)
    ids = [int(one) for one in re.findall(r'scope="row"><a href="#c\d+"><bdi>parcel-(\d+)<', html)]
    assert 1 < len(ids) < 6
    assert ids == sorted(ids)
    assert {(7 * number) % 10 for number in ids} == set(range(10 - len(ids), 10))
    assert f"{10 - len(ids)} further cases that owe less" in html


def test_settings_are_told_once_and_always() -> None:
    one = render_page([clinic()])
    assert one.count("hf:example/quill-360m") == 1
    assert "72\u00a0% saved" in one
    assert render_page([small(1), small(2)]).count("hf:example/quill-360m") == 1


def test_nothing_to_show_is_an_error() -> None:
    with pytest.raises(UsageError, match="at least one"):
        render_page([])


def test_the_prediction_stands_beside_what_it_took() -> None:
    case = clinic()
    assert "Predicted" not in render_page([case])  # as in runs made before there were predictions
    case["cost"]["predicted"] = {"tree_tokens": 1290, "seconds": 2.7}
    text = " ".join(Page(render_page([case])).text)
    assert "1,290 tokens in about 3 s; it took 1,310 in 3.2 s" in text
