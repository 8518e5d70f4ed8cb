"""URLs of object stores in the place of directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakmeter.core.urls import as_given, check_directory, copy_of, forget_copy, place_of, url_of
from leakmeter.errors import UsageError


def test_urls_are_recognised_in_paths() -> None:
    same = ("s3://bucket/a/b", "s3://bucket", "gs://my.bucket_1/x", "az://container/x=1/y")
    urls: dict[str, str | None] = {**dict(zip(same, same, strict=True)), "s3://bucket/a/": "s3://bucket/a"}
    urls["S3://bucket/A"] = "s3://bucket/A"
    for given, url in (urls | dict.fromkeys(("runs", "/tmp/s3:/bucket", "s3:bucket", "C:/runs", ""))).items():
        assert url_of(Path(given)) == url
        assert place_of(Path(given)) == (url or str(Path(given)))


def test_other_urls_are_refused_and_not_shown() -> None:
    for given in (
        *("s3://key:hush@bucket/x", "s3://hush@bucket", "az://container/x?sig=hush", "s3://", "s3://.hush/x"),
        *("s3://bucket/../hush", "s3://bucket/a/hush\n", "s3://bucket/hush%2e", "s3://bucket/hush*"),
        *("s3://bucket/hüsh", "https://hush/x", "file:///hush"),
    ):
        with pytest.raises(UsageError) as caught:
            url_of(Path(given))
        assert "hush" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_messages_name_what_a_copy_is_of() -> None:
    copy = copy_of(Path("/tmp/copies/1f/runs"), "s3://bucket/runs")
    assert (
        as_given("run '/tmp/copies/1f/runs/influence-1' is damaged") == "run 's3://bucket/runs/influence-1' is damaged"
    )
    assert place_of(copy.path / "influence-1") == "s3://bucket/runs/influence-1"
    forget_copy(copy.path)
    assert place_of(copy.path) == "/tmp/copies/1f/runs"


def test_a_directory_may_be_asked_for() -> None:
    check_directory(Path("runs"))
    with pytest.raises(UsageError, match=r"^'s3://bucket/x' is in an object store, .*; give a directory$"):
        check_directory(Path("s3://bucket/x"))
