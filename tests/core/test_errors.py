"""Errors: options by the names that a caller has for them, and names that were meant."""

from __future__ import annotations

import pytest

from leakmeter.errors import LeakmeterError, UnknownNameError, UsageError, as_keyword, options_named

FLAGS = ("allow_remote",)
KNOWN = ("context_from", "dtype", "label_scoring", "max_new_tokens", "memory", "pool", "search", *FLAGS)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("give --label-scoring whole-sequence", "give label_scoring='whole-sequence'"),
        ("a shorter one, or --dtype bfloat16", "a shorter one, or dtype='bfloat16'"),
        ("as in --dtype query=q,context=docs[].text", "as in dtype='query=q,context=docs[].text'"),
        ("give --memory 5GiB, contexts of 3", "give memory='5GiB', contexts of 3"),
        ("give a smaller --max-new-tokens", "give a smaller max_new_tokens"),
        ("--max-new-tokens 5.", "max_new_tokens=5."),
        ("leave out --search or --dtype", "leave out search or dtype"),
        ("--pool is for the moves; give --pool FILE", "pool is for the moves; give pool=FILE"),
        ("add --allow-remote to permit this", "add allow_remote=True to permit this"),
        ("--context-from 'Q:(.*)' has no group", "context_from='Q:(.*)' has no group"),
        ("--context-from takes too long", "context_from takes too long"),
        ("what --memory names, --pool out and --search instead", "what memory names, pool out and search instead"),
        # What the caller has not, and what is no option, stay.
        ("--served yes, a--dtype, -- and --", "--served yes, a--dtype, -- and --"),
    ],
)
def test_options_are_named_as_the_caller_knows_them(written: str, told: str) -> None:
    def named(name: str, value: str | None) -> str | None:
        return as_keyword(name, value, is_flag=name in FLAGS) if name in KNOWN else None

    with pytest.raises(UsageError) as raised, options_named(named):
        raise UsageError(written)
    assert str(raised.value) == told
    # Once is enough: what was renamed is no option any more.
    with pytest.raises(LeakmeterError) as again, options_named(named):
        raise raised.value
    assert str(again.value) == told


def test_what_is_meant_stands_in_the_place_of_a_guess() -> None:
    assert (
        str(UnknownNameError("size", "largs", ["large"]))
        == "no size named 'largs'; did you mean 'large'? known: 'large'"
    )
    assert "named 'n'; the number is 'queries'; known" in str(
        UnknownNameError("setting", "n", ["queries"], meant="the number is 'queries'")
    )
