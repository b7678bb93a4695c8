"""Tables in memory and the queries that are asked of them: what a kind of data consists of."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bench.outofbox_filters import Coded, Filter

FILES = 6
"""Files that a table arrives in."""
Array = npt.NDArray[Any]
_FUNCTION = re.compile(r"(hour|dayofweek|month)\((\w+)\)")
_COMPARISON = re.compile(r"(\w+) < (\w+)")


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name: arrays of numbers, dates and moments, masked where they are NULL; or texts, coded already."""

    name: str
    columns: Mapping[str, Array | Coded]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_coded", {})

    @property
    def rows(self) -> int:
        first = next(iter(self.columns.values()))
        return len(first.codes if isinstance(first, Coded) else first)

    def coded(self, term: str) -> Coded:
        """The values of a column, of a function of one, or of a comparison of two (1 where it is true)."""
        known: dict[str, Coded] = self._coded  # type: ignore[attr-defined]
        if term not in known:
            known[term] = self._code(term)
        return known[term]

    def _code(self, term: str) -> Coded:
        if function := _FUNCTION.fullmatch(term):
            return _encode(_FUNCTIONS[function[1]](self._values(function[2])))
        if comparison := _COMPARISON.fullmatch(term):
            return _encode((self._values(comparison[1]) < self._values(comparison[2])).astype(np.int8))
        column = self.columns[term]
        return column if isinstance(column, Coded) else _encode(column)

    def _values(self, name: str) -> Array:
        column = self.columns[name]
        if isinstance(column, Coded):
            raise ValueError(f"{name} holds texts, of which no function is known here.")
        return column

    def to_arrow(self) -> pa.Table:
        return pa.table({name: _to_arrow(column) for name, column in self.columns.items()})

    def write(self, folder: Path) -> None:
        """The table as a folder of Parquet files, rows in the order in which they arrived."""
        folder.mkdir(parents=True)
        rows = self.to_arrow()
        edges = np.linspace(0, self.rows, FILES + 1).astype(int)
        for number, (start, end) in enumerate(pairwise(edges)):
            pq.write_table(rows.slice(start, end - start), folder / f"part-{number:05}.parquet")


def _hour(moments: Array) -> Array:
    return moments.astype("datetime64[h]").astype(np.int64) % 24


def _dayofweek(moments: Array) -> Array:
    """1 is a Sunday, as Spark has it; the first of January 1970 was a Thursday."""
    return (moments.astype("datetime64[D]").astype(np.int64) + 4) % 7 + 1


def _month(moments: Array) -> Array:
    return moments.astype("datetime64[M]").astype(np.int64) % 12 + 1


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {"hour": _hour, "dayofweek": _dayofweek, "month": _month}


def _encode(column: Array) -> Coded:
    if not np.ma.isMaskedArray(column):
        values, codes = np.unique(column, return_inverse=True)
        return Coded(values, codes.astype(np.int32))
    masked = np.ma.getmaskarray(column)
    values, codes = np.unique(np.ma.getdata(column)[~masked], return_inverse=True)
    every = np.full(len(column), -1, np.int32)
    every[~masked] = codes
    return Coded(values, every)


def _to_arrow(column: Array | Coded) -> pa.Array:
    if isinstance(column, Coded):
        return pa.DictionaryArray.from_arrays(column.codes, pa.array(column.values.tolist())).cast(pa.string())
    mask = np.ma.getmaskarray(column) if np.ma.isMaskedArray(column) else None
    plain = pa.array(np.ma.getdata(column), mask=mask)
    return plain.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(plain.type) else plain


def texts(names: Sequence[str], picked: npt.NDArray[np.integer[Any]]) -> Coded:
    """A column of texts: for each row the number of its name; names need not be in order, but differ.

    >>> column = texts(["b", "a"], np.array([0, 0, 1]))
    >>> column.values.tolist(), column.codes.tolist()
    (['a', 'b'], [1, 1, 0])
    """
    values = np.array(names)
    order = np.argsort(values)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return Coded(values[order], place[picked])


def zipf_shares(values: int, exponent: float) -> npt.NDArray[np.float64]:
    """How often each of so many values occurs, the first most often.

    >>> zipf_shares(2, 1.0).round(3).tolist()
    [0.667, 0.333]
    """
    shares = np.arange(1, values + 1, dtype=np.float64) ** -exponent
    return np.asarray(shares / shares.sum(), np.float64)


def zipf(rng: np.random.Generator, values: int, exponent: float, size: int) -> npt.NDArray[np.int64]:
    """So many numbers below ``values``, the small ones most often."""
    return rng.choice(values, size=size, p=zipf_shares(values, exponent))


@dataclass(frozen=True)
class Query:
    """One query of a log: when it was asked, what it selects, and by which filter."""

    template: str
    moment: np.datetime64
    condition: Filter
    select: str = ""
    """What is selected beside the number of rows; with ``group``, for each of its values."""
    group: str = ""

    def sql(self, table: str) -> str:
        """The query's text; its first column says how many rows match.

        >>> from bench.outofbox_filters import OneOf
        >>> Query("t", np.datetime64("2024-01-01T00:00"), OneOf("a", (1, 2)), "max(b) AS most", "c").sql("data")
        'SELECT count(*) AS matching, c, max(b) AS most FROM data WHERE a IN (1, 2) GROUP BY c'
        """
        selected = ", ".join(text for text in ("count(*) AS matching", self.group, self.select) if text)
        grouped = f" GROUP BY {self.group}" if self.group else ""
        return f"SELECT {selected} FROM {table} WHERE {self.condition.sql()}{grouped}"


@dataclass(frozen=True)
class Kind:
    """A table and the queries that were asked of it, in the order in which they were: first those to learn from."""

    table: Table
    train: tuple[Query, ...]
    later: tuple[Query, ...]

    @property
    def name(self) -> str:
        return self.table.name

    def write_log(self, path: Path) -> None:
        """The queries to learn from, as a log of JSON lines."""
        lines = [{"time": f"{query.moment}Z", "sql": query.sql(self.name)} for query in self.train]
        path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Template:
    """A question that is asked again and again, each time with other values.

    ``make`` gets how far the log is, from 0 to 1: what is asked for may move on with it.
    """

    make: Callable[[float], Filter]
    select: str = ""
    group: str = ""


def ask(
    templates: Mapping[str, Template],
    count: int,
    later: int,
    rng: np.random.Generator,
    *,
    first: str,
    days: float,
    train_share: float = 0.75,
    skew: float = 0.8,
    only_later: Sequence[str] = (),
) -> tuple[tuple[Query, ...], tuple[Query, ...]]:
    """A log of ``count`` queries over some days, in two parts: to learn from, and what followed.

    The first templates are the most frequent; those of ``only_later`` are new in the second part. Of that there may be
    more queries, ``later``, in the same time: the more there are, the less does luck decide.
    """
    usual = [name for name in templates if name not in only_later]
    shares = zipf_shares(len(usual), skew)
    # What is new is asked as often as the average template.
    wider = np.append(shares, np.full(len(only_later), 1 / len(usual)))
    train = round(train_share * count)
    after = later or count - train
    queries = []
    for number in range(train + after):
        names, weights = (usual, shares) if number < train else ([*usual, *only_later], wider / wider.sum())
        name = names[int(rng.choice(len(names), p=weights))]
        passed = number / max(1, count - 1)
        if number >= train:
            passed = (train + (number - train) / max(1, after - 1) * (count - 1 - train)) / max(1, count - 1)
        moment = np.datetime64(first, "s") + np.timedelta64(int(passed * days * 86_400), "s")
        template = templates[name]
        queries.append(Query(name, moment, template.make(passed), template.select, template.group))
    return tuple(queries[:train]), tuple(queries[train:])
