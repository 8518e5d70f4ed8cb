"""Who is let in: one browser a link, this address alone, no other page, and nothing of it in a log."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from helpers.serving import CASE, HEADERS, client, serving_of
from leakmeter.serve import access
from leakmeter.serve.access import MOST_BYTES, MOST_SESSIONS, Access, is_loopback

OTHERS = {"x-leakmeter": "1", "sec-fetch-mode": "cors"}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[TestClient]:
    with client(serving_of(tmp_path)) as opened:
        yield opened


def test_a_link_opens_the_page_once_and_leaves_no_token_in_the_address(tmp_path: Path) -> None:
    serving = serving_of(tmp_path)
    link = serving.access.new_link()
    with client(serving, signed_in=False) as one, client(serving, signed_in=False) as other:
        first = one.get(link)
        assert (first.status_code, first.headers["location"]) == (303, "/")
        cookie = first.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert link.partition("=")[2].lower() not in cookie
        assert one.get("/").status_code == 200
        assert other.get(link).status_code == 401
        assert other.get("/").status_code == 401


def test_a_second_link_is_for_another_browser(made: TestClient, tmp_path: Path) -> None:
    link = made.post("/link", headers=HEADERS).json()["link"]
    serving = made.app.app.state.serving  # type: ignore[attr-defined]
    with client(serving, signed_in=False) as other:
        other.get(link)
        assert other.get("/").status_code == 200
    assert made.get("/").status_code == 200
    spent = made.get(made.post("/link", headers=HEADERS).json()["link"])
    assert spent.headers["location"] == "/"


def test_a_wrong_token_opens_nothing(tmp_path: Path) -> None:
    with client(serving_of(tmp_path), signed_in=False) as made:
        for given in ("", "x", "é", "0" * 10_000):
            assert made.get("/", params={"token": given}).status_code == 401


@pytest.mark.parametrize("host", ["evil.example:8000", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.evil.example:8000", ""])
def test_another_host_is_refused(made: TestClient, host: str) -> None:
    answer = made.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "<" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9000", "sec-fetch-site": "same-site"},
        {"origin": "https://127.0.0.1:8000"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_page_of_another_origin_cannot_ask(made: TestClient, headers: dict[str, str]) -> None:
    for path in ("/live/measure", "/link", "/sign-out", "/live/keep"):
        assert made.post(path, json=CASE, headers={**OTHERS, **headers}).status_code == 403
    assert made.get("/live/samples/note", headers={**OTHERS, **headers}).status_code == 403
    assert made.get("/").status_code == 200, "the session is still there"


def test_a_form_cannot_post_for_it_has_not_the_header(made: TestClient) -> None:
    answer = made.post("/live/measure", json=CASE, headers={"sec-fetch-site": "same-origin"})
    assert answer.status_code == 403
    assert "header" in answer.text


def test_every_answer_has_the_policy_and_is_not_kept(made: TestClient) -> None:
    for path in ("/", "/assets/serve.js", "/assets/report.css", "/nowhere", "/live/samples/note"):
        headers = made.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] in ("no-store", "no-cache")


def test_pages_have_nothing_inline_and_nothing_of_other_hosts(made: TestClient) -> None:
    page = made.get("/").text
    assert not re.search(r"<style|style=|\son\w+=|javascript:", page)
    assert all(src.startswith("/assets/") for src in re.findall(r'<script[^>]*src="([^"]*)"', page))
    assert not re.search(r"<script(?![^>]*src=)", page)
    assert "//" not in re.sub(r"<!--.*?-->", "", page)


def test_a_body_that_is_too_large_is_refused(made: TestClient) -> None:
    assert made.post("/live/measure", content=b"x" * (MOST_BYTES + 1), headers=HEADERS).status_code == 413
    parts = (b"x" * 100_000 for _ in range(MOST_BYTES // 100_000 + 1))
    assert made.post("/live/measure", content=parts, headers=HEADERS).status_code == 413


def test_sessions_and_links_are_bounded() -> None:
    access_ = Access("127.0.0.1", 8000)
    sessions = [access_.new_session() for _ in range(MOST_SESSIONS + 5)]
    assert len(access_._sessions) == MOST_SESSIONS
    assert sessions[0] not in access_._sessions
    links = [access_.new_link() for _ in range(50)]
    assert not access_.spend(links[0].partition("=")[2])
    assert access_.spend(links[-1].partition("=")[2])


def test_signing_out_ends_the_session(made: TestClient) -> None:
    made.post("/sign-out", headers=HEADERS)
    assert made.get("/").status_code == 401


def test_programs_need_the_key(tmp_path: Path) -> None:
    with client(serving_of(tmp_path, key="k" * 20)) as made:
        assert made.get("/v1/models").status_code == 401, "a session is no key"
        assert made.get("/v1/models", headers={"authorization": "Bearer " + "k" * 19}).status_code == 401
        assert made.get("/v1/models", headers={"authorization": "Bearer " + "k" * 20}).status_code == 404
    with client(serving_of(tmp_path)) as made:
        answer = made.post("/v1/chat/completions", headers={"authorization": "Bearer "})
        assert answer.status_code == 401
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_a_password_opens_and_is_tried_a_few_times_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with client(serving_of(tmp_path, password="correct horse"), signed_in=False) as made:
        assert made.get("/").headers["location"] == "/sign-in"
        assert made.get("/?token=x").status_code == 303
        assert "password" in made.get("/sign-in").text
        assert made.post("/sign-in", data={"password": "wrong"}).status_code == 403
        assert made.post("/sign-in", data={"password": "correct horse"}).status_code == 303
        assert made.get("/").status_code == 200
        made.post("/sign-out", headers=HEADERS)
        codes = [made.post("/sign-in", data={"password": "wrong"}).status_code for _ in range(access.TRIES)]
        assert codes == [403] * (access.TRIES - 1) + [429]
        assert made.post("/sign-in", data={"password": "correct horse"}).status_code == 429
        monkeypatch.setattr(access, "TRY_SECONDS", -1.0)
        assert made.post("/sign-in", data={"password": "correct horse"}).status_code == 303


def test_another_origin_cannot_sign_in(tmp_path: Path) -> None:
    with client(serving_of(tmp_path, password="correct horse"), signed_in=False) as made:
        answer = made.post("/sign-in", data={"password": "correct horse"}, headers={"origin": "http://evil.example"})
        assert answer.status_code == 403


def test_bound_to_all_addresses_any_address_will_do_and_no_name() -> None:
    wide = Access("0.0.0.0", 80, password="x")
    assert wide.is_ours("192.168.1.7:80")
    assert wide.is_ours("[::1]:80")
    assert wide.is_ours("localhost:80")
    assert not wide.is_ours("evil.example:80")
    assert not wide.is_ours("192.168.1.7:81")
    assert Access("::1", 80).is_ours("[::1]:80")
    assert Access("::1", 80).is_ours("[::1]")
    assert Access("127.0.0.1", 80).is_ours("127.0.0.1")
    assert not Access("127.0.0.1", 80).is_ours("x@127.0.0.1")
    assert not Access("127.0.0.1", 80).is_ours("192.168.1.7:80")


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "example.org", "10.0.0.1")))


def test_a_link_in_another_page_is_asked_for_once_more(tmp_path: Path) -> None:
    serving = serving_of(tmp_path)
    with client(serving, signed_in=False) as made:
        again = made.get("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"})
        assert (again.status_code, again.headers["refresh"]) == (200, "0")
        assert made.get("/", headers={"sec-fetch-site": "same-origin"}).status_code == 401


def test_nothing_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    serving = serving_of(tmp_path)
    link = serving.access.new_link()
    with client(serving, signed_in=False) as made:
        made.get(link)
        made.post("/live/measure", json=CASE, headers=HEADERS)
        ours = [record for record in caplog.records if not record.name.startswith(("httpx", "asyncio"))]
        assert link.partition("=")[2] not in "".join(record.getMessage() for record in ours)
        assert CASE["context"] not in "".join(record.getMessage() for record in ours)
