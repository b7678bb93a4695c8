"""A small workspace with a table, its dimension and a log, and a console over it on a port of its own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import uvicorn

import sidestep
from sidestep.cli.messages import sentence
from sidestep.console.api import Console
from sidestep.console.queries import Limits
from sidestep.console.server import bind, guarded_app
from sidestep.console.workspace import Workspace
from tests.spark.tables import write_file

REGIONS = ("africa", "america", "asia", "europe", "oceania")
QUERY = "SELECT count(*) AS sales, sum(amount) AS total FROM sales WHERE region = 'asia' AND day >= DATE '2024-03-01'"
JOIN = "SELECT sum(s.amount) AS total FROM sales s JOIN items i ON s.item = i.item WHERE i.brand = 'b3'"


def write_workspace(root: Path) -> Path:
    """Sales in eight files, in the order of their ids; items by brand; and 120 queries of three kinds."""
    rng = np.random.default_rng(5)
    rows = 16_000
    item = np.sort(rng.integers(0, 400, rows))
    days = np.datetime64("2024-01-01") + rng.integers(0, 120, rows)
    sales = pa.table(
        {
            "id": np.arange(rows),
            "item": item,
            "day": days.astype("datetime64[D]"),
            "region": pa.array(rng.choice(REGIONS, rows)),
            "amount": np.round(rng.gamma(2.0, 40.0, rows), 2),
        }
    )
    for number in range(8):
        part = sales.slice(number * 2_000, 2_000)
        write_file(root / "sales" / f"part-{number}.parquet", part, row_group_size=500)
    brands = pa.array([f"b{number // 40}" for number in range(400)])
    write_file(root / "items" / "items.parquet", {"item": np.arange(400), "brand": brands}, row_group_size=40)
    statements = []
    for number in range(120):
        region, month = REGIONS[number % 3], 1 + number % 4
        statements.append(
            (
                f"SELECT sum(amount) FROM sales WHERE region = '{region}'",
                f"SELECT count(*) FROM sales WHERE region = '{region}' AND day >= DATE '2024-0{month}-01'",
                f"SELECT max(amount) FROM sales WHERE amount > {100 * month} AND region = '{region}'",
            )[number % 3 if number % 2 else 0]
        )
    (root / "queries.sql").write_text(";\n".join([*statements, "SELECT nonsense FROM nowhere"]) + ";\n")
    return root


@dataclass(frozen=True)
class Served:
    """A console that answers."""

    url: str
    console: Console
    root: Path


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return write_workspace(tmp_path_factory.mktemp("console"))


@pytest.fixture(scope="session")
def served(spark, folder) -> Iterator[Served]:
    for name in ("sales", "items"):
        sidestep.index(spark, str(folder / name))
    console = Console(spark, Workspace([folder]), Limits(seconds=300), sentence)
    listener = bind("127.0.0.1", 0, None)
    with serving(console, listener) as url:
        yield Served(url, console, folder)
    console.close()


class serving:
    """A server in a thread, until the block ends."""

    def __init__(self, console: Console, listener: socket.socket, token: str | None = None) -> None:
        config = uvicorn.Config(
            guarded_app(console, "127.0.0.1", token), log_level="error", access_log=False, timeout_graceful_shutdown=1
        )
        self.server, self.listener, self.console = uvicorn.Server(config), listener, console
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]}, daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.02)
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def __exit__(self, *error: object) -> None:
        self.console.jobs.closed = True
        self.server.should_exit = True
        self.thread.join(timeout=20)
        self.listener.close()
