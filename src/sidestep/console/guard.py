"""Who may ask: every request is looked at before it reaches the API.

A page in a browser is asked by more than its user. Another site may send requests to 127.0.0.1, or have its own name
resolve to it: so the Host header has to name this server, and an Origin has to be this server's. On an address that
others can reach, a token is asked for as well. Bodies are small, and nothing is fetched from or shown in other sites.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sidestep import SidestepError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MOST_BODY = 1 << 20
COOKIE = "sidestep_token"
SHORTEST_TOKEN = 16
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        b"object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def check_address(host: str, token: str | None) -> None:
    """Refuse to listen where others can reach without a token."""
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise SidestepError(f"The token is too short to be a secret: it has at least {SHORTEST_TOKEN} characters.")
    if host not in LOOPBACK and token is None:
        raise SidestepError(
            f"On {host} others can reach the console, which runs queries: give a secret with --token, or leave --host "
            "out to listen on 127.0.0.1 alone."
        )


class Guard:
    """Stands before an app, and lets through what may be asked."""

    def __init__(self, app: App, host: str, token: str | None = None) -> None:
        check_address(host, token)
        self._app = app
        self._token = token
        self._hosts = (
            frozenset(LOOPBACK) if host in LOOPBACK else None if host in ("0.0.0.0", "::") else frozenset({host})
        )
        """The names that it answers to; None for any, as it listens on addresses that it does not know."""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _answer(send, *refusal)
            return
        if self._token is not None and not self._has_token(headers):
            await self._ask_for_token(scope, headers, send)
            return
        body = await _read_body(receive, headers)
        if body is None:
            await _answer(send, 413, f"The request is too large: at most {MOST_BODY >> 10:,} kB are read.")
            return
        await self._app(scope, _replay(body, receive), _with_headers(send))

    def _refusal(self, scope: MutableMapping[str, Any], headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not host or (self._hosts is not None and _name(host) not in self._hosts):
            return (
                421,
                "The console does not answer to this name: open it by the address that it printed.",
            )
        origin = headers.get("origin")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return 403, "Another site asked for this, and the console answers to its own page alone."
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return 403, "Another site asked for this, and the console answers to its own page alone."
        if (
            scope["method"] == "POST"
            and headers.get("content-type", "").partition(";")[0].strip() != "application/json"
        ):
            return 415, "What is sent to the console is JSON, and says so in its Content-Type."
        return None

    def _has_token(self, headers: dict[str, str]) -> bool:
        assert self._token is not None
        given = headers.get("authorization", "").removeprefix("Bearer ").strip()
        if not given:
            cookies = SimpleCookie()
            try:
                cookies.load(headers.get("cookie", ""))
            except Exception:  # a cookie that is none is no token
                return False
            given = cookies[COOKIE].value if COOKIE in cookies else ""
        return hmac.compare_digest(given.encode(), self._token.encode())

    async def _ask_for_token(self, scope: MutableMapping[str, Any], headers: dict[str, str], send: Send) -> None:
        """The page is opened once with the token in its address, and a cookie has it from then on."""
        assert self._token is not None
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        if scope["method"] == "GET" and hmac.compare_digest(given.encode(), self._token.encode()):
            cookie = f"{COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
            await _answer(send, 303, "", [(b"location", b"/"), (b"set-cookie", cookie.encode())])
            return
        await _answer(send, 401, "The console asks for its token: open the address with ?token=… that it printed.")


def _name(host: str) -> str:
    """The name in a Host header, without its port.

    >>> _name("localhost:8642"), _name("[::1]:80"), _name("evil.example")
    ('localhost', '::1', 'evil.example')
    """
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


async def _read_body(receive: Receive, headers: dict[str, str]) -> bytes | None:
    """The body, or None if it is too large: then the rest of it is never read."""
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MOST_BODY:
        return None
    body: bytes = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return body
        body += bytes(message.get("body", b""))
        if len(body) > MOST_BODY:
            return None
        if not message.get("more_body"):
            return body


def _replay(body: bytes, receive: Receive) -> Receive:
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _with_headers(send: Send) -> Send:
    async def add(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *HEADERS]
        await send(message)

    return add


async def _answer(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    body = json.dumps({"error": text}).encode() if text else b""
    kind = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*kind, *HEADERS, *(headers or ())]})
    await send({"type": "http.response.body", "body": body})
