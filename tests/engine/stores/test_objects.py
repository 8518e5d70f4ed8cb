"""Objects of a store: what is written, and errors in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from obstore import exceptions
from obstore.store import MemoryStore

from leakmeter.engine.stores.objects import Objects
from leakmeter.errors import StoreError, UsageError


@pytest.fixture
def objects() -> Objects:
    return Objects("s3://bucket/x", MemoryStore())


def test_objects_are_written_once_or_over_the_version_that_was_seen(objects: Objects) -> None:
    first = objects.create("a", b"1")
    with pytest.raises(FileExistsError):
        objects.create("a", b"2")
    assert objects.get("a") == (b"1", first)
    second = objects.replace("a", b"3", first)
    with pytest.raises(FileExistsError):
        objects.replace("a", b"4", first)
    assert objects.get("a") == (b"3", second)
    objects.put("a", b"5")
    assert (objects.get("a") or ())[0] == b"5"
    objects.delete("a")
    objects.delete("a")
    assert objects.get("a") is None
    with pytest.raises(FileExistsError):
        objects.replace("a", b"6", second)
    # A large object is one conditional request too.
    objects.create("large", b"x" * 6_000_000)
    with pytest.raises(FileExistsError):
        objects.create("large", b"y" * 6_000_000)


def test_many_are_read_in_order_without_those_that_are_gone(objects: Objects) -> None:
    names = [f"{number:02}" for number in range(40)]
    for name in names:
        objects.put(name, name.encode())
    objects.delete("17")
    found: list[tuple[str, bytes]] = []
    objects.get_all(names, lambda name, content: found.append((name, content)))
    assert found == [(name, name.encode()) for name in names if name != "17"]


HUSH = "<Error><Message>hush\nAWS_SECRET=hush</Message></Error>"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (exceptions.PermissionDeniedError(HUSH), "access is denied"),
        (exceptions.NotSupportedError(HUSH), "no conditional writes"),
        (NotImplementedError(HUSH), "no conditional writes"),
        (FileNotFoundError(f"404 <Code>NoSuchBucket</Code> {HUSH}"), "no such bucket"),
        (exceptions.GenericError(f"<Code>ContainerNotFound</Code> {HUSH}"), "no such bucket"),
        (exceptions.GenericError(f"PUT http://169.254.169.254/latest {HUSH}"), "no credentials"),
        (exceptions.GenericError(f"BadScheme {HUSH}"), "set AWS_ALLOW_HTTP=true"),
        (exceptions.GenericError(f"error sending request {HUSH}"), "cannot be reached"),
        (exceptions.GenericError(f"non-2xx status code: 403 {HUSH}"), "access is denied"),
        (exceptions.GenericError(f"non-2xx status code: 301 {HUSH}"), "set AWS_REGION"),
        (exceptions.GenericError(f"non-2xx status code: 503 {HUSH}"), "HTTP status 503"),
        (exceptions.GenericError(HUSH), "cannot be used"),
    ],
)
def test_errors_are_one_line_without_what_a_server_said(error: Exception, said: str) -> None:
    class Failing:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            def fails(*given: object, **how: object) -> Any:
                raise error

            return fails

    objects = Objects("s3://bucket/x", Failing())
    for call in (lambda: objects.get("a"), lambda: objects.put("a", b""), lambda: objects.delete("a")):
        with pytest.raises(StoreError, match=f"^'s3://bucket/x': .*{said}") as caught:
            call()
        assert "hush" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_stores_of_all_kinds_are_made_and_what_the_environment_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(StoreError, match=r"'az://container/x': .*set AZURE_STORAGE_ACCOUNT_NAME"):
        Objects("az://container/x")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    for url in ("s3://bucket/x", "gs://bucket/x", "az://container/x"):
        assert Objects(url).url == url


def test_without_obstore_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("obstore")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"pip install 'leakmeter\[stores\]'"):
        Objects("s3://bucket")
