"""Who is let in: one browser a link, this address alone, no other page, and nothing of it in a log."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from helpers.serving import CASE, HEADERS, client, serving_of
from leakmeter.products.serve import access
from leakmeter.products.serve.access import MOST_BYTES, MOST_SESSIONS, Access, is_loopback

OTHERS = {"x-leakmeter": "1", "sec-fetch-mode": "cors"}


def test_a_link_opens_the_page_once_and_leaves_no_token_in_the_address(tmp_path: Path) -> None:
    serving = serving_of(tmp_path)
    link = serving.access.new_link()
    with client(serving, signed_in=False) as one, client(serving, signed_in=False) as other:
        first = one.get(link)
        assert (first.status_code, first.headers["location"]) == (303, "/")
        cookie = first.headers["set-cookie"].lower()
        assert all(said in cookie for said in ("httponly", "samesite=strict"))
        assert link.partition("=")[2].lower() not in cookie
        assert one.get("/").status_code == 200
        for path in (link, "/", *(f"/?token={given}" for given in ("", "x", "é", "0" * 10_000))):
            assert other.get(path).status_code == 401


def test_a_second_link_is_for_another_browser(made: TestClient, tmp_path: Path) -> None:
    link = made.post("/link", headers=HEADERS).json()["link"]
    serving = made.app.app.state.serving  # type: ignore[attr-defined]
    with client(serving, signed_in=False) as other:
        other.get(link)
        assert other.get("/").status_code == 200
    assert made.get("/").status_code == 200
    spent = made.get(made.post("/link", headers=HEADERS).json()["link"])
    assert spent.headers["location"] == "/"


def test_another_host_is_refused(made: TestClient) -> None:
    for host in ("evil.example:8000", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.evil.example:8000", ""):
        answer = made.get("/", headers={"host": host})
        assert (answer.status_code, "<" in answer.text) == (421, False)


def test_a_page_of_another_origin_cannot_ask(made: TestClient) -> None:
    for headers in (
        *({"origin": origin} for origin in ("http://evil.example", "null", "https://127.0.0.1:8000")),
        {"origin": "http://127.0.0.1:9000", "sec-fetch-site": "same-site"},
        *({"sec-fetch-site": site} for site in ("cross-site", "same-site")),
    ):
        for path in ("/live/measure", "/link", "/sign-out", "/live/keep"):
            assert made.post(path, json=CASE, headers={**OTHERS, **headers}).status_code == 403
        assert made.get("/live/samples/note", headers={**OTHERS, **headers}).status_code == 403
    assert made.get("/").status_code == 200, "the session is still there"
    # A form cannot post, for it has not the header.
    answer = made.post("/live/measure", json=CASE, headers={"sec-fetch-site": "same-origin"})
    assert (answer.status_code, "header" in answer.text) == (403, True)


def test_every_answer_has_the_policy_and_pages_have_nothing_inline(made: TestClient) -> None:
    for path in ("/", "/assets/serve.js", "/assets/report.css", "/nowhere", "/live/samples/note"):
        headers = made.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert not any(word in policy for word in ("unsafe", "http"))
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] in ("no-store", "no-cache")
    page = made.get("/").text
    assert not re.search(r"<style|style=|\son\w+=|javascript:|<script(?![^>]*src=)", page)
    assert all(src.startswith("/assets/") for src in re.findall(r'<script[^>]*src="([^"]*)"', page))
    assert "//" not in re.sub(r"<!--.*?-->", "", page)


def test_a_body_that_is_too_large_is_refused(made: TestClient) -> None:
    assert made.post("/live/measure", content=b"x" * (MOST_BYTES + 1), headers=HEADERS).status_code == 413
    parts = (b"x" * 100_000 for _ in range(MOST_BYTES // 100_000 + 1))
    assert made.post("/live/measure", content=parts, headers=HEADERS).status_code == 413


def test_sessions_and_links_are_bounded(made: TestClient) -> None:
    access_ = Access("127.0.0.1", 8000)
    sessions = [access_.new_session() for _ in range(MOST_SESSIONS + 5)]
    assert len(access_._sessions) == MOST_SESSIONS
    assert sessions[0] not in access_._sessions
    links = [access_.new_link() for _ in range(50)]
    assert not access_.spend(links[0].partition("=")[2])
    assert access_.spend(links[-1].partition("=")[2])
    # Signing out ends the session.
    made.post("/sign-out", headers=HEADERS)
    assert made.get("/").status_code == 401


def test_programs_need_the_key(tmp_path: Path) -> None:
    with client(serving_of(tmp_path, key="k" * 20)) as made:
        for key, code in ((None, 401), ("k" * 19, 401), ("k" * 20, 404)):  # a session is no key
            headers = {} if key is None else {"authorization": f"Bearer {key}"}
            assert made.get("/v1/models", headers=headers).status_code == code
    with client(serving_of(tmp_path)) as made:
        answer = made.post("/v1/chat/completions", headers={"authorization": "Bearer "})
        assert answer.status_code == 401
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_a_password_opens_and_is_tried_a_few_times_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with client(serving_of(tmp_path, password="correct horse"), signed_in=False) as made:

        def tried(password: str, **headers: str) -> int:
            return int(made.post("/sign-in", data={"password": password}, headers=headers).status_code)

        assert made.get("/").headers["location"] == "/sign-in"
        assert made.get("/?token=x").status_code == 303
        assert "password" in made.get("/sign-in").text
        assert (tried("wrong"), tried("correct horse"), made.get("/").status_code) == (403, 303, 200)
        made.post("/sign-out", headers=HEADERS)
        assert [tried("wrong") for _ in range(access.TRIES)] == [403] * (access.TRIES - 1) + [429]
        assert tried("correct horse") == 429
        monkeypatch.setattr(access, "TRY_SECONDS", -1.0)
        assert tried("correct horse") == 303
        assert tried("correct horse", origin="http://evil.example") == 403


def test_bound_to_all_addresses_any_address_will_do_and_no_name() -> None:
    for bound, port, ours, others in (
        ("0.0.0.0", 80, ("192.168.1.7:80", "[::1]:80", "localhost:80"), ("evil.example:80", "192.168.1.7:81")),
        ("::1", 80, ("[::1]:80", "[::1]"), ()),
        ("127.0.0.1", 80, ("127.0.0.1",), ("x@127.0.0.1", "192.168.1.7:80")),
    ):
        made = Access(bound, port, password="x")
        assert all(map(made.is_ours, ours))
        assert not any(map(made.is_ours, others))
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
        said = "".join(record.getMessage() for record in ours)
        assert link.partition("=")[2] not in said
        assert CASE["context"] not in said
