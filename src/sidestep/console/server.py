"""``sidestep serve``: the console as a server, until it is told to end."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from pyspark.sql import SparkSession

from sidestep import SidestepError
from sidestep.console.api import Console, make_app
from sidestep.console.guard import LOOPBACK, App, Guard, check_address
from sidestep.console.queries import Limits
from sidestep.console.workspace import Workspace

PORT = 8642


def guarded_app(console: Console, host: str = LOOPBACK[0], token: str | None = None) -> App:
    """The app with the guard before it."""
    return Guard(make_app(console), host, token)


def bind(host: str, port: int, token: str | None) -> socket.socket:
    """A socket to listen on; a port of 0 is for any that is free."""
    check_address(host, token)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as problem:
        listener.close()
        raise SidestepError(
            f"The console cannot listen on {host} port {port}: {problem.strerror}. Choose another with --port."
        ) from problem
    return listener


def address(listener: socket.socket, host: str, token: str | None) -> str:
    """Where the page is."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}/" + ("" if token is None else f"?token={token}")


class _Server(uvicorn.Server):
    """Tells those that listen for jobs when it ends: their connections would keep it."""

    def __init__(self, config: uvicorn.Config, console: Console) -> None:
        super().__init__(config)
        self._console = console

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._console.jobs.closed = True
        super().handle_exit(sig, frame)


def serve(
    spark: SparkSession,
    workspace: Workspace,
    listener: socket.socket,
    *,
    host: str,
    token: str | None,
    limits: Limits,
    describe: Callable[[BaseException], str],
) -> None:
    """Answer until the process is told to end (Ctrl-C); jobs that run then are stopped."""
    console = Console(spark, workspace, limits, describe)
    config = uvicorn.Config(
        guarded_app(console, host, token), log_level="warning", access_log=False, timeout_graceful_shutdown=2
    )
    try:
        _Server(config, console).run(sockets=[listener])
    finally:
        console.close()
