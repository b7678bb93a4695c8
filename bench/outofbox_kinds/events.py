"""An event log: rows arrive about in the order of time, and queries ask for what is recent when they are asked.

The log of queries runs along the last two thirds of the data: later queries ask for later windows, which no query to
learn from has asked for.
"""

from __future__ import annotations

import numpy as np

from bench.outofbox_filters import Filter, OneOf, Range, both
from bench.outofbox_kinds.table import Kind, Table, Template, ask, texts, zipf, zipf_shares

DAYS = 90
FIRST = np.datetime64("2025-03-01T00:00:00", "us")
TYPES = tuple(
    f"{subject}.{verb}"
    for subject in ("cart", "file", "job", "login", "page", "payment", "search", "user")
    for verb in ("begin", "change", "end", "fail", "view")
)
COUNTRIES = tuple(f"{first}{second}" for first in "ABCDEFGHIJ" for second in "ELNRTZ")
USERS, HOSTS = 50_000, 120
STATUS = np.array([200, 201, 204, 301, 304, 400, 401, 403, 404, 429, 500, 502, 503])
VERSIONS = tuple(f"4.{number:02}" for number in range(13))
_SECOND = np.timedelta64(1, "s")


def events(rows: int, queries: int, later: int, rng: np.random.Generator) -> Kind:
    table = _events(rows, rng)
    train, followed = ask(_templates(rng), queries, later, rng, first="2025-03-31T06:00:00", days=59.5)
    return Kind(table, train, followed)


def _events(rows: int, rng: np.random.Generator) -> Table:
    second = np.sort(rng.random(rows)) * DAYS * 86_400
    # Most events arrive within minutes, one in fifty from devices that were offline for hours.
    delay = np.where(rng.random(rows) < 0.02, rng.exponential(6 * 3_600, rows), rng.exponential(90, rows))
    arrival = np.argsort(second + delay, kind="stable")
    second = second[arrival]
    version = np.clip(second / 86_400 / 7 - rng.exponential(0.8, rows), 0, 12).astype(np.int64)
    kind = zipf(rng, len(TYPES), 1.1, rows)
    severity = rng.choice(5, rows, p=[0.62, 0.25, 0.09, 0.035, 0.005])
    return Table(
        "events",
        {
            "ts": FIRST + (second * 1e6).astype("timedelta64[us]"),
            "user_id": zipf(rng, USERS, 0.9, rows),
            "session_id": rng.integers(0, 1 << 40, rows // 8 + 1)[rng.integers(0, rows // 8 + 1, rows)],
            "type": texts(rng.permutation(TYPES).tolist(), kind),
            "country": texts(COUNTRIES, zipf(rng, len(COUNTRIES), 1.0, rows)),
            "severity": (severity + 1).astype(np.int32),
            "host": texts([f"host-{number:03}" for number in range(HOSTS)], rng.integers(0, HOSTS, rows)),
            "version": texts(VERSIONS, version),
            "status": STATUS[zipf(rng, len(STATUS), 1.6, rows)].astype(np.int32),
            "duration_ms": np.round(rng.lognormal(4.0 + 0.3 * severity, 1.1), 1),
            "bytes": rng.lognormal(7.5, 1.8, rows).astype(np.int64),
            "attempt": (1 + zipf(rng, 5, 2.0, rows)).astype(np.int32),
        },
    )


def _templates(rng: np.random.Generator) -> dict[str, Template]:
    types = rng.permutation(TYPES)

    def recent(passed: float, hours: float) -> Filter:
        """The last hours before the query was asked."""
        now = FIRST.astype("datetime64[s]") + np.timedelta64(int((30.25 + passed * 59.5) * 86_400), "s")
        return Range("ts", now - np.timedelta64(int(hours * 3_600), "s"), now, below=True)

    def a_type() -> Filter:
        return OneOf("type", (str(types[rng.choice(len(types), p=zipf_shares(len(types), 1.0))]),))

    def countries(count: int) -> Filter:
        picked = rng.choice(len(COUNTRIES), count, replace=False, p=zipf_shares(len(COUNTRIES), 1.0))
        return OneOf("country", tuple(COUNTRIES[number] for number in sorted(picked)))

    return {
        "type, last day": Template(lambda at: both(recent(at, 24), a_type()), "max(duration_ms) AS slowest", "country"),
        "errors": Template(lambda at: both(recent(at, 24), Range("severity", low=4)), "sum(bytes) AS bytes", "type"),
        "country, last week": Template(
            lambda at: both(recent(at, 168), countries(1), a_type()), "avg(duration_ms) AS mean"
        ),
        "last hours": Template(lambda at: recent(at, float(rng.choice([1, 3, 6, 12]))), "sum(bytes) AS bytes", "type"),
        "user": Template(
            lambda at: both(recent(at, 168), OneOf("user_id", (int(zipf(rng, USERS, 0.9, 1)[0]),))), "max(ts) AS last"
        ),
        "slow": Template(
            lambda at: both(recent(at, 72), Range("duration_ms", low=float(rng.choice([500, 1_000, 2_000])))),
            "max(duration_ms) AS slowest",
            "host",
        ),
        "failures of a host": Template(
            lambda at: both(
                recent(at, 48), Range("status", low=500), OneOf("host", (f"host-{int(rng.integers(0, HOSTS)):03}",))
            ),
            "sum(bytes) AS bytes",
        ),
        "worst": Template(lambda _: both(OneOf("severity", (5,)), a_type()), "max(ts) AS last"),
        "month of countries": Template(
            lambda at: both(recent(at, 720), countries(3)), "sum(bytes) AS bytes", "country"
        ),
        "version": Template(
            lambda at: both(OneOf("version", (VERSIONS[min(12, int((30 + 60 * at) / 7))],)), Range("severity", low=3)),
            "avg(duration_ms) AS mean",
        ),
    }
