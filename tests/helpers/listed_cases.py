"""Made cases in a list: of any number, each with its kinds, its marked words and its reader."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from leakmeter.report import blocks as b

KINDS = (("phone number", "name"), ("name",), ("key or password",), ())
INDEX = (
    b.Column("Nats", "signed_nats", shade=True), b.Column("Discloses", chips=True), b.Column("Response"),
    b.Column("Whole context", "nats", "nats"), b.Column("To", on="chips"),
)  # fmt: skip


def section(i: int) -> b.Section:
    nats = 0.5 + (i * 37 % 997) / 10
    words = (
        b.Untrusted("she is on "),
        b.Untrusted(f"leave number {i}", marked=True),
        b.Untrusted(" with <b>care</b>"),
    )

    def blocks() -> Iterator[b.Block]:
        yield b.Headline(("The answer of ", b.Untrusted(f"t{i}"), " discloses something."), "bad")
        yield b.Text("About it. " * 40)
        yield b.Table((b.Column("What"), b.Column("Nats", "nats", bar=True)), [b.Row(("name", nats))] * 3, "Disclosed")

    cells = (nats, b.Values(KINDS[i % 4]), words, nats + 1, b.Untrusted(f"reader {i % 12}"))
    return b.Section(b.Untrusted(f"t{i}"), b.Later(partial(tuple, blocks())), cells, weight=nats)


def many(n: int) -> b.Report:
    """A report of so many cases, whose list can be narrowed by what they disclose and to whom."""
    return b.Report("Many", "m", [b.Headline("Found.")], sections=[section(i) for i in range(n)], index=INDEX,
                    case=("response", "responses"), sections_left_out="that disclose less")  # fmt: skip
