"""Dashboards on three years of flights: hours, days of the week and months, airports, and delays with heavy tails.

Filters by functions of the time (``hour(ts)``) recur in all templates. In later queries some values are new (airports
beyond the usual ones, other hours), and so are three templates.
"""

from __future__ import annotations

import numpy as np

from bench.outofbox_filters import Filter, OneOf, Or, Range, both
from bench.outofbox_kinds.table import Kind, Table, Template, ask, texts, zipf, zipf_shares

DAYS = 1_096
FIRST = np.datetime64("2022-01-01T00:00:00", "us")
AIRPORTS = tuple(f"{first}{second}{third}" for first in "ABCDEF" for second in "AEIOU" for third in "BCDFGKLMNP")
CARRIERS = tuple(f"{first}{second}" for first in "ABDUWXZ" for second in "A9")
AIRCRAFT = (
    "A20N",
    "A319",
    "A320",
    "A321",
    "A333",
    "B38M",
    "B737",
    "B738",
    "B739",
    "B763",
    "B772",
    "B789",
    "CRJ9",
    "E175",
)
HOURS = np.array([1, 0.5, 0.3, 0.3, 0.8, 3, 7, 8, 8, 7, 6.5, 6.5, 6.5, 6.5, 6.5, 7, 7.5, 8, 7.5, 6, 5, 4, 3, 2])


def dashboards(rows: int, queries: int, later: int, rng: np.random.Generator) -> Kind:
    table = _flights(rows, rng)
    new = ("long at night", "cancelled", "aircraft")
    train, followed = ask(
        _templates(rng), queries, later, rng, first="2025-01-02", days=90, train_share=0.7, skew=0.5, only_later=new
    )
    return Kind(table, train, followed)


def _flights(rows: int, rng: np.random.Generator) -> Table:
    day = np.sort(rng.integers(0, DAYS, rows))
    hour = rng.choice(24, rows, p=HOURS / HOURS.sum())
    second = (day * 24 + hour) * 3_600 + rng.integers(0, 60, rows) * 60
    origin, dest = zipf(rng, 300, 0.9, rows), zipf(rng, 300, 0.9, rows)
    dest = np.where(dest == origin, (dest + 1) % 300, dest)
    place = rng.random((300, 2)) * (2_600, 1_300)
    distance = np.hypot(*(place[origin] - place[dest]).T).astype(np.int32) + 90
    summer = np.isin(
        (FIRST + (second * 1_000_000).astype("timedelta64[us]")).astype("datetime64[M]").astype(int) % 12, (5, 6, 7, 11)
    )
    cancelled = rng.random(rows) < 0.015 + 0.01 * summer
    dep_delay = (
        np.round(rng.standard_t(2.2, rows) * (9 + 0.5 * hour + 5 * summer) + 2).clip(-30, 1_800).astype(np.int32)
    )
    arr_delay = (dep_delay + np.round(rng.normal(-4, 12, rows))).astype(np.int32)
    carrier = zipf(rng, len(CARRIERS), 0.8, rows)
    return Table(
        "dashboards",
        {
            "ts": FIRST + (second * 1_000_000).astype("timedelta64[us]"),
            "carrier": texts(CARRIERS, carrier),
            "flight": (100 * carrier + rng.integers(1, 2_000, rows)).astype(np.int32),
            "tail": texts([f"N{number:05}" for number in range(4_000)], rng.integers(0, 4_000, rows)),
            "aircraft": texts(AIRCRAFT, (carrier + zipf(rng, 6, 0.8, rows)) % len(AIRCRAFT)),
            "origin": texts(AIRPORTS, origin),
            "dest": texts(AIRPORTS, dest),
            "distance": distance,
            "dep_delay": np.ma.masked_array(dep_delay, cancelled),
            "arr_delay": np.ma.masked_array(arr_delay, cancelled),
            "taxi_out": np.ma.masked_array(rng.gamma(6, 2.7, rows).astype(np.int32), cancelled),
            "air_time": np.ma.masked_array((distance / 7.4 + rng.normal(20, 6, rows)).astype(np.int32), cancelled),
            "cancelled": cancelled.astype(np.int32),
            "diverted": (rng.random(rows) < 0.002).astype(np.int32),
        },
    )


def _templates(rng: np.random.Generator) -> dict[str, Template]:
    usual = rng.permutation(60)
    """The airports of which dashboards exist at first, in the order of how often they are looked at."""

    def airports(passed: float, count: int = 1) -> tuple[str, ...]:
        if passed > 0.7 and rng.random() < 0.4:
            picked = rng.choice(300, count, replace=False)
        else:
            picked = usual[rng.choice(60, count, replace=False, p=zipf_shares(60, 1.0))]
        return tuple(AIRPORTS[number] for number in sorted(picked))

    def carriers(count: int = 1) -> Filter:
        picked = rng.choice(len(CARRIERS), count, replace=False, p=zipf_shares(len(CARRIERS), 1.0))
        return OneOf("carrier", tuple(CARRIERS[number] for number in sorted(picked)))

    def hours(passed: float) -> Filter:
        usual_hours = ((6, 9), (16, 19), (11, 13))
        start, end = usual_hours[int(rng.integers(0, 3))]
        return Range("hour(ts)", start, end) if passed <= 0.7 else Range("hour(ts)", start + 1, end + 1)

    def months() -> Filter:
        starts = ((6, 7, 8), (12, 1, 2), (12,), (7,))
        return OneOf("month(ts)", starts[int(rng.integers(0, 4))])

    def days(count: int) -> Filter:
        start = (FIRST + np.timedelta64(int(rng.integers(0, DAYS - count)), "D")).astype("datetime64[s]")
        return Range("ts", start, start + np.timedelta64(count, "D"), below=True)

    night = Or((Range("hour(ts)", low=22), Range("hour(ts)", high=5, below=True)))
    weekend = OneOf("dayofweek(ts)", (1, 7))
    delay = "avg(arr_delay) AS delay"
    return {
        "origin and hours": Template(lambda at: both(OneOf("origin", airports(at)), hours(at)), delay, "carrier"),
        "severe delays": Template(
            lambda at: both(Range("dep_delay", low=int(rng.choice([60, 120, 180])), above=True), months()),
            "count(DISTINCT origin) AS origins",
            "carrier",
        ),
        "weekend": Template(lambda _: both(weekend, carriers()), delay, "origin"),
        "night": Template(lambda at: both(night, OneOf("origin", airports(at, 2))), delay, "dest"),
        "airports": Template(
            lambda at: both(OneOf("origin", airports(at, 5)), days(90)), "avg(taxi_out) AS taxi", "origin"
        ),
        "route": Template(
            lambda at: both(OneOf("origin", airports(at)), OneOf("dest", airports(at))), "max(arr_delay) AS worst"
        ),
        "carriers by month": Template(lambda _: both(carriers(3), months()), delay, "carrier"),
        "weekend nights": Template(lambda _: both(weekend, night, Range("arr_delay", low=45)), delay, "dest"),
        "one hour": Template(
            lambda at: both(OneOf("hour(ts)", (int(rng.integers(5, 23)),)), OneOf("dest", airports(at)), days(365)),
            delay,
        ),
        "long at night": Template(lambda _: both(Range("distance", low=2_000, above=True), night), delay, "carrier"),
        "cancelled": Template(lambda _: both(OneOf("cancelled", (1,)), days(30)), "min(ts) AS first", "origin"),
        "aircraft": Template(
            lambda _: both(
                OneOf("aircraft", (AIRCRAFT[int(rng.integers(0, len(AIRCRAFT)))],)), Range("dep_delay", low=90)
            ),
            delay,
        ),
    }
