"""An S3 server on 127.0.0.1, and a proxy before it that fails the way stores do."""

from __future__ import annotations

import http.client
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

KEY, SECRET = "AKIDTEST", "a secret that is shown nowhere"
BUCKET = "lake"
_ERROR = "<?xml version='1.0'?><Error><Code>{}</Code><Message>{}</Message></Error>"
_REFUSALS = {
    "slow down": (503, _ERROR.format("SlowDown", "Please reduce your request rate.")),
    "denied": (403, _ERROR.format("AccessDenied", "Access denied.")),
}

Fault = Callable[[str, str], str | None]
"""What goes wrong with a request, by its method and path: "slow down", "denied", "lost", "lost after", or None."""


class Store:
    """The server as clients see it, through the proxy."""

    def __init__(self, port: int, behind: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.behind = behind
        self.fault: Fault = lambda method, path: None
        self.late: Callable[[str], bool] = lambda key: False
        """Which keys listings do not show yet."""
        self.failed: list[str] = []
        """What went wrong with which request."""
        self.requests: list[str] = []

    @property
    def settings(self) -> dict[str, str]:
        """What a user sets in Hadoop's configuration."""
        return {
            "fs.s3a.access.key": KEY,
            "fs.s3a.secret.key": SECRET,
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
        }

    def client(self) -> Any:
        endpoint = f"http://127.0.0.1:{self.behind}"
        return boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1"
        )

    def keys(self, prefix: str = "") -> list[str]:
        found = self.client().list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
        return [each["Key"] for each in found]

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[list[str]]:
        """Requests fail so for the length of a block; what failed is listed."""
        self.failed = []
        self.fault = fault
        try:
            yield self.failed
        finally:
            self.fault = lambda method, path: None


def sometimes(kind: str, share: float, seed: int = 1) -> Fault:
    """A share of all requests, chosen by lot: what comes regularly may meet the same request of each attempt."""
    lots, lock = random.Random(seed), threading.Lock()

    def fault(method: str, path: str) -> str | None:
        with lock:
            return kind if lots.random() < share else None

    return fault


def every(number: int, kind: str, matching: Callable[[str, str], bool] = lambda method, path: True) -> Fault:
    """Each request of that number among those that match."""
    counted = iter(range(1, 10**9))
    lock = threading.Lock()

    def fault(method: str, path: str) -> str | None:
        if not matching(method, path):
            return None
        with lock:
            return kind if next(counted) % number == 0 else None

    return fault


@contextmanager
def serving() -> Iterator[Store]:
    """The server with one bucket, until the end of the block."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    behind = int(server.get_host_and_port()[1])
    store = Store(0, behind)
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), _handler(store))
    proxy.daemon_threads = True
    store.endpoint = f"http://127.0.0.1:{proxy.server_address[1]}"
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    store.client().create_bucket(Bucket=BUCKET)
    try:
        yield store
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
        server.stop()


def _handler(store: Store) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: Any) -> None:
            pass

        def _serve(self) -> None:
            body = self._body()
            store.requests.append(f"{self.command} {self.path}")
            kind = store.fault(self.command, self.path)
            if kind is not None:
                store.failed.append(f"{kind}: {self.command} {self.path}")
            if kind in _REFUSALS:
                status, text = _REFUSALS[kind]
                self._answer(status, [("Content-Type", "application/xml")], text.encode())
            elif kind == "lost":
                self._break()
            else:
                status, headers, content = self._pass_on(body)
                if kind == "lost after":
                    self._break()
                else:
                    self._answer(status, headers, self._without_late(content))

        def _body(self) -> bytes:
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                parts = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def _pass_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", store.behind, timeout=60)
            unsent = ("transfer-encoding", "content-length", "expect", "connection")
            headers = {name: value for name, value in self.headers.items() if name.lower() not in unsent}
            headers["Content-Length"] = str(len(body))
            try:
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            finally:
                connection.close()

        def _without_late(self, content: bytes) -> bytes:
            if b"<ListBucketResult" not in content:
                return content
            head, *entries = content.split(b"<Contents>")
            kept = [head]
            for entry in entries:
                contents, end, rest = entry.partition(b"</Contents>")
                key = contents.partition(b"<Key>")[2].partition(b"</Key>")[0].decode()
                kept.append(rest if store.late(key) else b"<Contents>" + contents + end + rest)
            return b"".join(kept)

        def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response_only(status)
            length = str(len(content))
            for name, value in headers:
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = value
                elif name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def _break(self) -> None:
            """The connection is reset: no answer, and nothing more."""
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve

    return Handler
