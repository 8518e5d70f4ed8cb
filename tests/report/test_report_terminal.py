import io

import pytest
from report_cases import Case, clinic, every_case, hostile, overlapping, sampled
from rich.console import Console

from leakmeter.report import scale
from leakmeter.report.terminal import BLOCKS, SHOWN_CHARACTERS, heatmap


def printed(case: Case, *, colour: bool, width: int = 120) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="truecolor" if colour else None,
        legacy_windows=False,
        _environ={},
    )
    console.print(heatmap(case))
    return out.getvalue()


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("number", range(5))
def test_every_number_is_there_with_and_without_colour(number: int, colour: bool) -> None:
    case = every_case()[number]
    out = printed(case, colour=colour)
    for piece in case["pieces"]:
        assert scale.nats_cell(piece["nats"]) in out
        assert scale.signed_cell(piece["signed_nats"]) in out
        assert scale.nats_cell(piece["only_this_nats"]) in out
        assert scale.percent(piece["posterior"]) in out
    assert scale.nats_text(case["whole_nats"]) in out
    assert ("\x1b[" in out) is colour


def test_the_data_sends_no_escape_sequences() -> None:
    out = printed(hostile(), colour=False)
    assert not any(c in out for c in "\x1b\x07\x08\x00\x7f\x9b\u202e\u2066")
    assert "[bold red]" in out
    assert ":smile:" in out
    assert "{{7*7}}" in out
    # With colours the only sequences are rich's own styles.
    styled = printed(hostile(), colour=True)
    assert all(rest.split("m")[0].replace(";", "").isdigit() for rest in styled.split("\x1b[")[1:])
    assert "\x1b]" not in styled


def test_without_colour_the_strongest_pieces_are_marked() -> None:
    out = printed(clinic(), colour=False)
    assert "¹Ms Odile" in out
    assert any(f"⟦{block}¹Ms Odile" in out for block in BLOCKS)
    assert "below noise" in out
    assert "said elsewhere too (s8)" in out


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_fit_the_width(width: int) -> None:
    for case in (clinic(), overlapping(), sampled()):
        assert max(map(len, printed(case, colour=False, width=width).splitlines())) <= width


def test_a_long_context_keeps_its_strong_pieces() -> None:
    case = clinic()
    filler = "lorem ipsum " * 2000
    case["context"] += filler
    out = printed(case, colour=False)
    assert out.count("lorem") * len("lorem ipsum ") < SHOWN_CHARACTERS
    assert "…" in out
    assert "Ms Odile" in out
