"""Who is let through: by name, by origin, by token, by size; nothing here needs Spark."""

from __future__ import annotations

import anyio
import httpx
import pytest

from sidestep import SidestepError
from sidestep.console.guard import MOST_BODY, Guard

TOKEN = "a-token-of-some-length"


async def echo(scope, receive, send):
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(len(body)).encode()})


def ask(path="/", method="GET", host="127.0.0.1", token=None, url="http://127.0.0.1:8642", **options) -> httpx.Response:
    async def send() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(Guard(echo, host, token)), base_url=url) as client:
            return await client.request(method, path, **options)

    return anyio.run(send)


def test_the_page_itself_is_answered():
    reply = ask(headers={"Origin": "http://127.0.0.1:8642"})
    assert reply.status_code == 200
    assert "default-src 'self'" in reply.headers["content-security-policy"]
    assert reply.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("name", ["localhost:8642", "127.0.0.1", "[::1]:8642"])
def test_names_of_this_machine(name):
    assert ask(headers={"Host": name}).status_code == 200


@pytest.mark.parametrize("name", ["evil.example", "127.0.0.1.evil.example", "evil.example:8642", "[", "0"])
def test_a_forged_host_is_refused(name):
    reply = ask(headers={"Host": name})
    assert reply.status_code == 421
    assert "address" in reply.json()["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_other_sites_are_refused(headers):
    reply = ask(headers=headers)
    assert reply.status_code == 403


def test_a_form_of_another_site_is_no_json():
    assert ask(method="POST", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert ask(method="POST", json={}).status_code == 200


def test_a_huge_body_is_refused():
    assert ask(method="POST", content=b" " * MOST_BODY, headers={"Content-Type": "application/json"}).text == str(
        MOST_BODY
    )
    reply = ask(method="POST", content=b" " * (MOST_BODY + 1), headers={"Content-Type": "application/json"})
    assert reply.status_code == 413


def test_a_huge_body_without_a_length_is_refused():
    async def pieces():
        for _ in range(40):
            yield b" " * (MOST_BODY // 16)

    reply = ask(method="POST", content=pieces(), headers={"Content-Type": "application/json"})
    assert reply.status_code == 413


def test_an_address_that_others_reach_needs_a_token():
    for host in ("0.0.0.0", "192.168.1.5", "::"):
        with pytest.raises(SidestepError, match="--token"):
            Guard(echo, host)
    with pytest.raises(SidestepError, match="too short"):
        Guard(echo, "0.0.0.0", "short")


def test_the_token_is_asked_for():
    there = {"host": "0.0.0.0", "token": TOKEN, "url": "http://192.168.1.5:8642"}
    assert ask(**there).status_code == 401
    assert ask("/?token=wrong", **there).status_code == 401
    assert ask("/api/jobs", headers={"Authorization": "Bearer wrong"}, **there).status_code == 401
    assert ask("/api/jobs", headers={"Authorization": f"Bearer {TOKEN}"}, **there).status_code == 200
    opened = ask(f"/?token={TOKEN}", **there)
    assert opened.status_code == 303
    assert {"HttpOnly", "SameSite=Strict"} <= set(opened.headers["set-cookie"].split("; "))
    cookie = opened.headers["set-cookie"].partition(";")[0]
    assert ask(headers={"Cookie": cookie}, **there).status_code == 200
    assert ask(headers={"Cookie": "sidestep_token=wrong"}, **there).status_code == 401
