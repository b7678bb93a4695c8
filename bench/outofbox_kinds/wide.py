"""A wide table: eighty columns of mixed types, of which five get most of the filters, and most others few."""

from __future__ import annotations

import numpy as np

from bench.outofbox_filters import Coded, Filter, OneOf, Range, both
from bench.outofbox_kinds.table import Array, Kind, Table, Template, ask, texts, zipf, zipf_shares

FIRST_DAY = np.datetime64("2021-01-01")
DAYS = 1_461
HOT = ("day00", "s00", "i00", "d00", "k00")
"""A day that follows the order of arrival, a text and a number of few values, a measure, and a key."""
FEW_NUMBERS, MANY_NUMBERS, MEASURES, FEW_TEXTS, KEYS, DATES = 18, 14, 16, 17, 5, 10


def wide(rows: int, queries: int, later: int, rng: np.random.Generator) -> Kind:
    table = _table(rows, rng)
    train, followed = ask(_templates(table, rng), queries, later, rng, first="2025-01-02", days=100, skew=0.9)
    return Kind(table, train, followed)


def _table(rows: int, rng: np.random.Generator) -> Table:
    columns: dict[str, Array | Coded] = {}
    day = np.sort(rng.integers(0, DAYS, rows))
    for number in range(DATES):
        spread = rng.integers(0, 3 + 40 * number, rows) if number < 5 else rng.integers(0, DAYS, rows) - day
        columns[f"day{number:02}"] = FIRST_DAY + day + (spread if number else 0)
    for number in range(FEW_NUMBERS):
        columns[f"i{number:02}"] = zipf(rng, 40 if number == 0 else 2 + 3 * number, 0.8, rows).astype(np.int32)
    for number in range(MANY_NUMBERS):
        columns[f"n{number:02}"] = rng.integers(0, 10 ** (3 + number % 4), rows)
    for number in range(MEASURES):
        values = rng.lognormal(3, 1 + number / 10, rows) if number % 2 == 0 else rng.normal(100, 10 + number, rows)
        columns[f"d{number:02}"] = np.round(values, 3)
    for number in range(FEW_TEXTS):
        names = [f"s{number:02} value {each:02}" for each in range(25 if number == 0 else 3 + 2 * number)]
        picked = zipf(rng, len(names), 0.9, rows)
        columns[f"s{number:02}"] = texts(names, picked)
    for number in range(KEYS):
        names = [f"{each * 7_919 % 1_000_003:06}-{number}" for each in range(20_000)]
        columns[f"k{number:02}"] = texts(names, rng.integers(0, len(names), rows))
    # Some NULL in what is not asked for most.
    for name in ("d05", "d06", "n03"):
        columns[name] = np.ma.masked_array(columns[name], rng.random(rows) < 0.1)
    return Table("wide", columns)


def _templates(table: Table, rng: np.random.Generator) -> dict[str, Template]:
    rare = [str(name) for name in rng.permutation([name for name in table.columns if name not in HOT])]

    def filter_on(name: str) -> Filter:
        """A filter as it is usual for the type of the column: a window, a value or two, a range at one end, a key."""
        values = table.coded(name).values
        if name.startswith("day"):
            first = FIRST_DAY + int(rng.integers(0, DAYS - 30))
            return Range(name, first, first + int(rng.choice([7, 30, 90])), below=True)
        if name.startswith("d"):
            quantile = float(rng.choice([0.9, 0.95, 0.99]))
            return Range(name, low=round(float(values[int(quantile * (len(values) - 1))]), 1), above=True)
        if name.startswith("n"):
            start = int(rng.integers(0, int(values[-1])))
            return Range(name, start, start + int(values[-1]) // 50)
        count = 1 if name.startswith("k") else int(rng.integers(1, 3))
        if name.startswith("k"):
            picked = rng.choice(len(values), count)
        else:
            picked = rng.choice(len(values), min(count, len(values)), replace=False, p=zipf_shares(len(values), 0.9))
        return OneOf(name, tuple(values[number].item() for number in np.sort(picked)))

    def some(rarely: int, usually: int) -> Filter:
        names = [HOT[number] for number in rng.choice(4, usually, replace=False, p=[0.35, 0.3, 0.2, 0.15])]
        names += [rare[int(number)] for number in rng.choice(len(rare), rarely, replace=False, p=weights)]
        return both(*map(filter_on, names))

    weights = zipf_shares(len(rare), 0.8)
    return {
        "two hot": Template(lambda _: some(0, 2), "avg(d01) AS mean", "s01"),
        "one hot": Template(lambda _: some(0, 1), "avg(d01) AS mean"),
        "hot and rare": Template(lambda _: some(1, 1), "max(d02) AS most"),
        "two hot and rare": Template(lambda _: some(1, 2), "max(d02) AS most", "s02"),
        "key": Template(lambda _: filter_on("k00"), "max(day00) AS last"),
        "rare": Template(lambda _: some(1, 0), "avg(d03) AS mean"),
        "two rare": Template(lambda _: some(2, 0), "avg(d03) AS mean", "i02"),
    }
