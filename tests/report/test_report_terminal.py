import io
import re

import pytest
from report_cases import Case, clinic, every_case, hostile, overlapping, sampled
from rich.console import Console

from leakmeter.report import scale, words
from leakmeter.report.paint import BLOCKS
from leakmeter.report.scale import nats_text, percent
from leakmeter.report.terminal import SHOWN_CHARACTERS, heatmap
from leakmeter.stats.posterior import posterior_fields


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


@pytest.mark.parametrize("signed", [-30.0, -0.5])
def test_a_response_that_is_likelier_without_its_context_is_no_evidence_of_it(signed: float) -> None:
    whole = [20.0, signed - 20.0]
    case = clinic() | {
        "whole_nats": sum(map(abs, whole)),
        "whole_signed_nats": signed,
        **posterior_fields(signed, noise_nats=0.004, placebo_nats=0.33, prefix="whole_"),
    }
    said = " ".join(words.posterior(case).split())
    assert said.startswith(f"The response is likelier without this context (with signs the sum is {nats_text(signed)}")
    assert said.endswith(
        f"would give {percent(case['whole_posterior'])} to this context having been there.".replace("\u00a0", " ")
    )
    assert "sure" not in said


def test_a_signed_sum_within_its_yardsticks_has_no_posterior() -> None:
    said = {0.003: "below the noise floor", -0.2: "below the placebo", 0.33: "below the placebo"}
    for signed, why in said.items():
        more = posterior_fields(signed, noise_nats=0.004, placebo_nats=0.33, prefix="whole_")
        case = clinic() | {"whole_signed_nats": signed, **more}
        told = words.posterior(case).replace("\u00a0", " ")
        assert told == f"No posterior is shown: with signs the sum is {nats_text(signed)} nats, {why}."
        assert words.posterior_cell(case, "whole_") in ("<\u00a0noise", "<\u00a0placebo")
        assert "%" not in told


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("number", range(5))
def test_every_number_is_there_with_and_without_colour(number: int, colour: bool) -> None:
    case = every_case()[number]
    out = printed(case, colour=colour)
    for piece in case["pieces"]:
        assert scale.nats_cell(piece["nats"]) in out
        assert scale.signed_cell(piece["signed_nats"]) in out
        assert scale.nats_cell(piece["only_this_nats"]) in out
        assert words.posterior_cell(piece) in out
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


def test_the_prediction_stands_beside_what_it_took() -> None:
    case = clinic()
    assert "predicted" not in printed(case, colour=False)  # as in runs made before there were predictions
    case["cost"]["predicted"] = {"tree_tokens": 1290, "seconds": 2.7}
    case["response"]["sampled"] = False
    assert "predicted 1,290 tokens in about 3 s; it took 1,310 in 3.2 s" in printed(case, colour=False)
    case["cost"]["predicted"]["seconds"] = None
    case["response"]["sampled"] = True
    assert "predicted at most 1,290 tokens; it took 1,310 in 3.2 s" in printed(case, colour=False)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.04, "under 1 s"),
        (1.2, "about 1 s"),
        (11.7, "about 12 s"),
        (99.4, "about 99 s"),
        (150, "about 2.5 min"),
        (1500, "about 25 min"),
        (9000, "about 2.5 h"),
        (90_000, "about 25 h"),
    ],
)
def test_a_predicted_time_has_two_digits_at_most(seconds: float, said: str) -> None:
    assert words.about_seconds(seconds) == said


@pytest.mark.parametrize(
    ("n_bytes", "said"), [(4.2e6, "4.2 MB"), (71e6, "71 MB"), (0.538e9, "0.54 GB"), (2.48e9, "2.5 GB"), (16e9, "16 GB")]
)
def test_predicted_memory_has_two_digits(n_bytes: float, said: str) -> None:
    assert words.about_bytes(n_bytes) == said


def test_a_notebook_shows_the_view_and_not_the_object() -> None:
    for case in every_case():
        bundle = heatmap(case)._repr_mimebundle_()
        assert " ".join(words.verdict(case).split()) in " ".join(bundle["text/plain"].split())
        # Texts of the case are text in the page, too.
        assert re.findall(r"<(?!/?(?:pre|span)\b)", bundle["text/html"]) == []
        assert "style=" in bundle["text/html"]
    assert heatmap(clinic())._repr_mimebundle_(include=["text/plain"]).keys() == {"text/plain"}
    assert repr(heatmap(clinic())) == "<Composed, for rich.print or the last line of a notebook cell>"
