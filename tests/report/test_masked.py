"""Keys and passwords are not to be read on terminals and in Markdown."""

from __future__ import annotations

from leakmeter.report import blocks as b
from leakmeter.report import markdown
from leakmeter.report.masked import masked
from leakmeter.text.entities.secrets import DOT, hidden

KEY = "AKIAQ2W3E4R5T6Y7ZAPS"


def _report() -> b.Report:
    tokens = ["The key is ", "AK", "IAQ2W3", "E4R5T6Y7ZAPS", ", keep it"]
    words = (b.Words(b.Untrusted("IAQ"), (0,), is_sensitive=True), b.Words(b.Untrusted("2W3"), (), is_sensitive=False))
    segments = [b.Segment(b.Untrusted(token), parts=words if token == "IAQ2W3" else ()) for token in tokens]
    row = b.Row((b.Untrusted(KEY, 80), b.Noted(b.Untrusted("x"), ((b.Untrusted(f"of {KEY}!"), " told"),))))
    table = b.Table((b.Column("Says"), b.Column("From")), [row], "Disclosed")
    return b.Report(
        title="t",
        measure="influence",
        blocks=[b.Headline(("It says ", b.Untrusted(KEY))), table, b.ShadedText([b.Passage(segments)], style="tokens")],
        sections=[b.Section(b.Untrusted("a"), b.Later(lambda: [b.Text(b.Untrusted(f"again {KEY}"))]))],
    )


def test_a_secret_is_hidden_wherever_a_report_says_it() -> None:
    text = markdown.text(masked(_report(), [KEY]))
    assert KEY in markdown.text(_report())
    assert KEY not in text
    assert KEY[4:] not in text.replace("`", "")
    assert f"AKIA{DOT * 16}" in text
    assert "keep it" in text


def test_parts_of_tokens_hide_what_their_token_hides() -> None:
    (_, _, shaded) = masked(_report(), [KEY]).blocks
    assert isinstance(shaded, b.ShadedText)
    segments = shaded.passages[0].segments
    assert [segment.text.text for segment in segments] == ["The key is ", "AK", "IA" + DOT * 4, DOT * 12, ", keep it"]
    assert "".join(part.text.text for part in segments[2].parts) == segments[2].text.text


def test_a_secret_is_hidden_that_is_marked_in_part() -> None:
    parts = (b.Untrusted("the key is AKIAQ2"), b.Untrusted(KEY[6:], marked=True), b.Untrusted(" of ours"))
    report = b.Report("t", "influence", blocks=[b.Text(parts)])
    (text,) = masked(report, [KEY]).blocks
    assert b.plain(text.text) == f"the key is AKIA{DOT * 16} of ours"


def test_short_secrets_show_less_and_longer_ones_win() -> None:
    assert hidden("pass: hunter2!", ["hunter2!"]) == f"pass: hu{DOT * 6}"
    assert hidden("abc", ["abc"]) == DOT * 3
    assert hidden("xx abcdefgh abcd", ["abcdefgh", "abcd"]) == f"xx a{DOT * 7} a{DOT * 3}"
    assert hidden("none", []) == "none"


def test_what_a_report_itself_says_is_a_secret_is_hidden_everywhere() -> None:
    text = markdown.text(masked(_report(), []))
    assert KEY[4:] not in text.replace("`", "")
    later = b.Section(
        b.Untrusted("a"), b.Later(lambda: [b.Text(b.Untrusted("password: hunter2!")), b.Text("hunter2!")])
    )
    report = masked(b.Report("t", "influence", sections=[later]), [])
    (first, ours) = report.sections[0].blocks
    assert b.plain(first.text) == f"password: hu{DOT * 6}"
    # Our own words are no texts of a user's.
    assert ours.text == "hunter2!"


def test_without_secrets_nothing_changes() -> None:
    text = b.Text((b.Untrusted("run 91b51725ac165696 of 2ab34cd9-11f2"), " says ", b.Untrusted("at nine")))
    report = b.Report("t", "influence", blocks=[text])
    assert masked(report, []) == report
