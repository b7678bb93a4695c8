"""Random schemas of a few small tables, and random queries over them with every kind of join, nested."""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.spark.tables import write_file

TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "double": pa.float64(),
    "date": pa.date32(),
    "decimal": pa.decimal128(9, 2),
}
NUMBERS = ("int", "bigint", "double", "decimal")
KINDS = ("INNER", "INNER", "INNER", "LEFT OUTER", "RIGHT OUTER", "FULL OUTER", "LEFT SEMI", "LEFT ANTI")


def value(kind: str, number: int) -> Any:
    """The value of a type that stands for a number; their orders are the same."""
    match kind:
        case "string":
            return f"{'k' * (number % 2)}{number:03d}"
        case "double":
            return float("nan") if number == 39 else -0.0 if number == 0 else float(number)
        case "date":
            return datetime.date(2020, 1, 1) + datetime.timedelta(days=number)
        case "decimal":
            return decimal.Decimal(number) / 4
        case _:
            return number


def literal(kind: str, number: int) -> str:
    found = value(kind, number)
    match kind:
        case "string":
            return f"'{found}'"
        case "date":
            return f"DATE '{found}'"
        case "double":
            return "double('NaN')" if found != found else f"{found}D"
        case "decimal":
            return f"CAST({found} AS DECIMAL(9,2))"
        case _:
            return str(found)


@dataclass(frozen=True)
class World:
    """Tables t0, t1, …; for each its folder and its columns with their types."""

    roots: dict[str, Path]
    columns: dict[str, dict[str, str]]


def make_world(rng: np.random.Generator, root: Path) -> World:
    """Two to six tables of a few files each. Keys of a file lie together, most of the time; some are NULL."""
    roots, columns = {}, {}
    for number in range(int(rng.integers(2, 7))):
        name = f"t{number}"
        kinds = ["int", "bigint", *rng.choice(list(TYPES), 2).tolist()]
        columns[name] = {f"{name}_{place}": str(kind) for place, kind in enumerate(kinds)}
        roots[name] = root / name
        for file in range(int(rng.integers(1, 6))):
            rows = int(rng.integers(0, 10))
            data = {}
            for column, kind in columns[name].items():
                start, width = (0, 40) if rng.random() < 0.2 else (int(rng.integers(0, 36)), int(rng.integers(1, 8)))
                numbers = np.minimum(start + rng.integers(0, width, rows), 39)
                values = [None if rng.random() < 0.1 else value(kind, int(each)) for each in numbers]
                data[column] = pa.array(values, TYPES[kind])
            write_file(roots[name] / f"f{file}.parquet", pa.table(data))
    return World(roots, columns)


@dataclass(frozen=True)
class Relation:
    sql: str
    columns: dict[str, str]


class Writer:
    """Writes one random query; every name in it is new, so that any part can be joined with any other."""

    def __init__(self, rng: np.random.Generator, world: World) -> None:
        self.rng, self.world, self.names = rng, world, 0

    def name(self) -> str:
        self.names += 1
        return f"x{self.names}"

    def pick(self, values: Any) -> Any:
        return values[int(self.rng.integers(0, len(values)))]

    def condition(self, columns: dict[str, str]) -> str:
        column, kind = self.pick(list(columns.items()))
        number = int(self.rng.integers(0, 40))
        match int(self.rng.integers(0, 6)):
            case 0:
                return f"{column} = {literal(kind, number)}"
            case 1:
                return f"{column} IN ({literal(kind, number)}, {literal(kind, (number + 9) % 40)})"
            case 2:
                return f"{column} IS NULL" if self.rng.random() < 0.3 else f"{column} > {literal(kind, number)}"
            case 3:
                return f"{column} BETWEEN {literal(kind, number)} AND {literal(kind, min(39, number + 6))}"
            case 4:
                return f"{column} < {literal(kind, number)}"
            case _:
                return f"({column} < {literal(kind, number // 3)} OR {column} >= {literal(kind, min(39, number + 20))})"

    def base(self) -> Relation:
        table = self.pick(list(self.world.roots))
        renamed = {self.name(): (column, kind) for column, kind in self.world.columns[table].items()}
        chosen = ", ".join(f"{column} AS {new}" for new, (column, _) in renamed.items())
        columns = {new: kind for new, (_, kind) in renamed.items()}
        where = f" WHERE {self.condition(columns)}" if self.rng.random() < 0.6 else ""
        return Relation(f"SELECT * FROM (SELECT {chosen} FROM {table}){where}", columns)

    def relation(self, depth: int) -> Relation:
        if depth <= 0:
            return self.base()
        below = self.relation(depth - 1)
        match int(self.rng.integers(0, 12)):
            case 0 | 1 | 2 | 3 | 4 | 5:
                return self.join(below, self.relation(int(self.rng.integers(0, depth))))
            case 6:
                return self.grouped(below)
            case 7:
                return self.united(below, self.relation(int(self.rng.integers(0, depth))))
            case 8:
                column, new = self.pick(list(below.columns)), self.name()
                ranked = f"rank() OVER (PARTITION BY {column} ORDER BY {', '.join(below.columns)})"
                return Relation(f"SELECT *, {ranked} AS {new} FROM ({below.sql})", {**below.columns, new: "int"})
            case 9:
                ordered = f"ORDER BY {', '.join(below.columns)} LIMIT {int(self.rng.integers(1, 30))}"
                return Relation(f"SELECT * FROM ({below.sql}) {ordered}", below.columns)
            case 10:
                return self.within(below, self.relation(int(self.rng.integers(0, depth))))
            case _:
                return Relation(f"SELECT * FROM ({below.sql}) WHERE {self.condition(below.columns)}", below.columns)

    def pairs(self, left: dict[str, str], right: dict[str, str]) -> list[tuple[str, str]]:
        return [
            (a, b)
            for a, kind in left.items()
            for b, other in right.items()
            if kind == other or (kind in NUMBERS and other in NUMBERS and self.rng.random() < 0.3)
        ]

    def on(self, left: Relation, right: Relation) -> str | None:
        """A condition between two relations; none if they have no columns that can be compared."""
        pairs = self.pairs(left.columns, right.columns)
        if not pairs:
            return None
        conditions = []
        for number in range(1 + int(self.rng.random() < 0.3)):
            a, b = self.pick(pairs)
            # A band alone would make most of a cross join.
            conditions.append(
                f"{a} {self.pick(['=', '=', '=', '=', '<=>', '<'] if number else ['=', '=', '=', '<=>'])} {b}"
            )
        if self.rng.random() < 0.3:
            conditions.append(self.condition({**left.columns, **right.columns}))
        return " AND ".join(conditions)

    def join(self, left: Relation, right: Relation) -> Relation:
        kind, on = self.pick(KINDS), self.on(left, right)
        if on is None:
            return left
        text = f"SELECT * FROM ({left.sql}) {kind} JOIN ({right.sql}) ON {on}"
        columns = left.columns if kind in ("LEFT SEMI", "LEFT ANTI") else {**left.columns, **right.columns}
        return Relation(text, columns)

    def within(self, outer: Relation, inner: Relation) -> Relation:
        word, on = self.pick(["EXISTS", "NOT EXISTS"]), self.on(outer, inner)
        if on is None:
            return outer
        found = f"{word} (SELECT 1 FROM ({inner.sql}) WHERE {on})"
        either = f" OR {self.condition(outer.columns)}" if self.rng.random() < 0.3 else ""
        return Relation(f"SELECT * FROM ({outer.sql}) WHERE ({found}{either})", outer.columns)

    def grouped(self, below: Relation) -> Relation:
        keys = list(dict.fromkeys(self.pick(list(below.columns)) for _ in range(2)))
        measure, kind = self.pick(list(below.columns.items()))
        new = self.name()
        columns = {**{key: below.columns[key] for key in keys}, new: kind}
        return Relation(
            f"SELECT {', '.join(keys)}, max({measure}) AS {new} FROM ({below.sql}) GROUP BY {', '.join(keys)}", columns
        )

    def united(self, left: Relation, right: Relation) -> Relation:
        found = (self.pairs(left.columns, right.columns) for _ in range(2))
        pairs = list(dict.fromkeys(self.pick(pairs) for pairs in found if pairs))
        pairs = [(a, b) for a, b in pairs if left.columns[a] == right.columns[b]]
        if not pairs:
            return left
        word = self.pick(["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"])
        new = [self.name() for _ in pairs]
        one, two = (
            ", ".join(f"{pair[side]} AS {name}" for pair, name in zip(pairs, new, strict=True)) for side in (0, 1)
        )
        text = f"SELECT * FROM (SELECT {one} FROM ({left.sql}) {word} SELECT {two} FROM ({right.sql}))"
        return Relation(text, {name: left.columns[a] for name, (a, _) in zip(new, pairs, strict=True)})


def random_query(rng: np.random.Generator, world: World) -> str:
    return Writer(rng, world).relation(int(rng.integers(1, 5))).sql
