"""Random tables of all scalar types on disk, written by pyarrow or by Spark, and random predicates about their rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from sidestep.predicate import parse_type
from sidestep.predicate.nodes import And, Column, In, Literal, Not, Opaque, Or, Predicate
from sidestep.predicate.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    FLOATING,
    INTEGER,
    INTEGRAL,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    Kind,
    Value,
    decimal_type,
    sort_key,
)
from tests.arrow_types import ARROW
from tests.spark.rendering import spark_literal
from tests.spark.tables import set_age, write_file
from tests.strategies import MONEY, WIDE, Pool, neighbours, predicates, values

LARGEST = decimal_type(38, 0)
FINEST = decimal_type(38, 38)
TINY = decimal_type(3, 1)
TYPES = (
    BOOLEAN, BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, TINY, MONEY, WIDE, LARGEST, FINEST,
    STRING, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ,
)  # fmt: skip
BEFORE_1582 = -200_000
"""Days: the year 1422, where the Julian calendar would be nine days off."""
LONG_STRINGS = ("p" * 40, "p" * 40 + "a", "p" * 40 + "\U0010ffff", "p" * 31 + "é", "p" * 31 + "ébc", "\U0010ffff" * 12)
FOLDERS = (
    "1", "01", "-1", "1.5", "7", "abc", "A", "a%b", "a b", "2020-01-01", "2021-02-03", "2020-01-01 12:00:00", "true",
    "9223372036854775808", "NaN", "1e3", None,
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Generated:
    """A table on disk: its columns as Spark sees them, and values that its rows hold or nearly hold."""

    root: Path
    columns: tuple[Column, ...]
    pool: Pool

    def __repr__(self) -> str:
        return f"{self.root.name} ({', '.join(f'{column.name} {column.type}' for column in self.columns)})"


@st.composite
def tables(draw: st.DrawFn, spark: SparkSession, root: Path, like: Generated | None = None) -> Generated:
    """A table of a few columns in up to dozens of files, some of whose columns have tight ranges per file.

    One that is ``like`` another shares two columns' types and most of their values with it, so that they join.
    """
    types = draw(st.lists(st.sampled_from(TYPES), min_size=2, max_size=4))
    shared = [column.type for column in like.columns if column.type in TYPES] if like else []
    types = [*shared[:2], *types[len(shared[:2]) :]]
    twins = [type for type in types if draw(st.booleans())]
    names = {f"c{number}": type for number, type in enumerate([*types, *twins])}
    pools = {name: draw(_some_values(type)) for name, type in names.items()}
    for name, type in names.items() if like else ():
        pools[name] += (like.pool.get(type, [])[::3] if like else [])[:8]
    chance = random.Random(draw(st.integers(0, 2**32), label="seed"))
    files = draw(st.sampled_from([1, 2, 4, 8, 12, 24]), label="files")
    rows = files * draw(st.integers(1, 6), label="rows per file")
    columns = {name: _filled(chance, type, pools[name], rows, files) for name, type in names.items()}
    folders = draw(st.sampled_from([0, 0, 0, 1, 2]), label="partition columns")
    by_spark = draw(st.integers(0, 3), label="written by Spark if 0") == 0
    table = pa.table({"rid": pa.array(range(rows), pa.int64())} | {n: _array(columns[n], t) for n, t in names.items()})
    texts = draw(st.lists(st.sampled_from(FOLDERS), min_size=1, max_size=4)) if folders else []
    written = [name for name, type in names.items() if type != BINARY] or ["rid"]
    if by_spark:
        _write_by_spark(spark, table, root, files, [draw(st.sampled_from(written))] if folders else [])
    else:
        options = draw(_WRITER_OPTIONS)
        _write_by_arrow(table, root, files, chance, folders, texts, options, draw(st.integers(0, 5)) == 0)
    schema = spark.read.parquet(str(root)).schema
    # A partition column that is NULL in all folders has no type (void), so nothing can be asked of it.
    typed = ((f.name, parse_type(f.dataType.simpleString())) for f in schema if f.name != "rid")
    seen = tuple(Column(name, type) for name, type in typed if type.ordered)
    pool: dict[DataType, list[Value]] = {}
    for name, type in names.items():
        for value in pools[name]:
            pool.setdefault(type, []).extend(neighbours(value, type))
    for text in filter(None, texts):
        pool.setdefault(STRING, []).append(text)
        for number in (1, 7, -1):
            pool.setdefault(INTEGER, []).append(number)
            pool.setdefault(DOUBLE, []).append(float(number))
    return Generated(root, seen, pool)


_WRITER_OPTIONS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"row_group_size": st.sampled_from([2, 1000]), "write_statistics": st.sampled_from([True, True, True, False])},
    optional={
        "use_dictionary": st.booleans(),
        "store_decimal_as_integer": st.just(True),
        "version": st.sampled_from(["1.0", "2.6"]),
        "write_page_index": st.just(True),
    },
)


@st.composite
def _some_values(draw: st.DrawFn, type: DataType) -> list[Value]:
    found: list[Value] = draw(st.lists(values(type), min_size=2, max_size=7))
    if type == STRING and draw(st.booleans()):
        found += draw(st.lists(st.sampled_from(LONG_STRINGS), min_size=1, max_size=4))
    if type == DATE:
        found += [BEFORE_1582, 18_262]
    if type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        found += [BEFORE_1582 * 86_400_000_000 + 1, 1_583_650_800_000_000]
    return found


def _filled(chance: random.Random, type: DataType, pool: list[Value], rows: int, files: int) -> list[Value | None]:
    """A column: mostly clustered by file, as skipping needs it, sometimes not, with more or fewer NULLs."""
    style = chance.choice(["sorted", "sorted", "random", "by file", "by file"])
    found: list[Value | None]
    if style == "by file":
        each = [chance.choice(pool) for _ in range(files)]
        found = [each[row * files // rows] for row in range(rows)]
    else:
        found = list(chance.choices(pool, k=rows))
        if style == "sorted":
            found.sort(key=lambda value: sort_key(value) if value is not None else (False, 0))
    nulls = chance.choice([0, 0, 0.1, 0.5])
    all_null = chance.randrange(2 * files)
    return [
        None if chance.random() < nulls or row * files // rows == all_null else value for row, value in enumerate(found)
    ]


def _array(column: Sequence[Any], type: DataType) -> pa.Array:
    if type.kind is Kind.DECIMAL:
        return pa.array(column, pa.decimal128(type.precision, type.scale))
    arrow = ARROW[type.kind]
    if type.kind is Kind.DATE:
        return pa.array(column, pa.int32()).view(arrow)
    if type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        return pa.array(column, pa.int64()).view(arrow)
    return pa.array(column, arrow)


_NO_VOID = pyspark.__version__ < "4.1"
"""Whether this Spark cannot read a table whose folders say NULL alone."""


def _write_by_arrow(
    table: pa.Table,
    root: Path,
    files: int,
    chance: random.Random,
    folders: int,
    texts: list[str | None],
    options: dict[str, Any],
    forget: bool,
) -> None:
    per_file = table.num_rows // files
    for number in range(files):
        part = table.slice(number * per_file, per_file)
        if forget and number % 3 == 1:
            # A file from before the column was added to the table: Spark reads NULL there.
            part = part.drop_columns(["c0"])
        folder = root
        for level in range(folders):
            text = chance.choice(texts)
            if text is None and number == 0 and _NO_VOID:
                text = next((other for other in texts if other is not None), "1")
            name = "__HIVE_DEFAULT_PARTITION__" if text is None else text.replace("%", "%25").replace(":", "%3A")
            folder /= f"part{level}={name}"
        write_file(folder / f"f{number}.parquet", part, **options)


def _write_by_spark(spark: SparkSession, table: pa.Table, root: Path, files: int, by: list[str]) -> None:
    source = root.with_name(root.name + "-source")
    write_file(source / "all.parquet", table)
    frame = spark.read.parquet(str(source)).repartitionByRange(files, "rid")
    if by:
        # The rows' own values in the folder names: as Spark escapes them, and as it infers their types. In ASCII:
        # a Java machine in the POSIX locale cannot make other names.
        value = f"regexp_replace(CAST({by[0]} AS STRING), '[^ -~]', '?')"
        value = f"coalesce({value}, 'none')" if _NO_VOID else value
        frame = frame.selectExpr("*", f"{value} AS part0")
        frame.write.partitionBy("part0").parquet(str(root))
    else:
        frame.write.parquet(str(root))
    for path in root.rglob("*.parquet"):
        set_age(path, 10)


# ---- predicates

TEMPLATES: dict[str, tuple[str, ...]] = {
    "any": (
        "coalesce({c}, {v}) = {v}",
        "nullif({c}, {v}) IS NULL",
        "({c} > {v}) <=> TRUE",
        "({c} = {v}) = ({c} IS NULL)",
        "CASE WHEN {c} >= {v} THEN TRUE ELSE {c} IS NULL END",
        "if({c} < {v}, NULL, TRUE)",
        "{c} IN ({v}, {c})",
        "greatest({c}, {v}) = {c}",
        "try_cast({c} AS STRING) > 'a'",
        "hash({c}) % 2 = 0",
        "{c} BETWEEN {v} AND {v}",
        "isnotnull({c}) = isnotnull({c})",
    ),
    "string": (
        "reverse({c}) = 'ba'",
        "length({c}) > 2",
        "upper({c}) >= 'B'",
        "substring({c}, 1, 1) = 'a'",
        "try_cast({c} AS INT) < 5",
        "{c} LIKE ANY ('a%', '%b')",
        "{c} NOT LIKE ALL ('a%', 'p%')",
        "{c} RLIKE '^a'",
        "concat({c}, 'a') = 'aa'",
        "{c} ILIKE 'A%'",
        "{c} LIKE 'a/%%' ESCAPE '/'",
        "trim({c}) = ''",
    ),
    "integral": (
        "{c} % 2 = 0", "try_add({c}, {c}) > 0", "abs(cast({c} AS DECIMAL(20, 0))) = 3", "{c} > 1.5", "{c} = '1'",
    ),
    "floating": (
        "abs({c}) > 1", "isnan({c})", "nanvl({c}, 1) = 1", "round({c}) = 1", "try_cast({c} AS INT) = 1", "{c} <> 0",
    ),
    "decimal": ("try_add({c}, {c}) > 0", "abs({c}) < 1", "try_cast({c} AS INT) = 1", "{c} > 0.05", "{c} < 1e0"),
    "date": ("year({c}) = 2020", "month({c}) = 1", "{c} > TIMESTAMP '2020-01-01'", "date_format({c}, 'yyyy') = '1970'"),
    "timestamp": (
        "hour({c}) = 5",
        "CAST({c} AS DATE) = DATE '2020-03-08'",
        "{c} > DATE '1970-01-01'",
    ),
    "binary": ("hex({c}) LIKE 'F%'", "length({c}) = 0", "try_cast({c} AS STRING) = ''"),
    "boolean": ("NOT coalesce({c}, TRUE)", "{c} = ({c} IS NOT NULL)", "{c} <> TRUE", "try_cast({c} AS INT) = 1"),
}  # fmt: skip


def _family(type: DataType) -> str:
    if type.kind in INTEGRAL:
        return "integral"
    if type.kind in FLOATING:
        return "floating"
    return {Kind.DECIMAL: "decimal", Kind.TIMESTAMP: "timestamp", Kind.TIMESTAMP_NTZ: "timestamp"}.get(
        type.kind, type.kind.value
    )


@st.composite
def opaque_questions(draw: st.DrawFn, table: Generated) -> Opaque:
    """Predicates that sidestep does not look into, or that Spark turns into ones that it does."""
    column = draw(st.sampled_from(table.columns))
    template = draw(st.sampled_from(TEMPLATES["any"] + TEMPLATES[_family(column.type)]))
    value = draw(values_near(table, column.type))
    if value is None:
        value = draw(values(column.type))
    text = template.format(c="{table}" + column.name, v=spark_literal(value, column.type))
    return Opaque(text, (column,))


def values_near(table: Generated, type: DataType) -> st.SearchStrategy[Value]:
    known = table.pool.get(type)
    return st.sampled_from(list(known)) if known else values(type)


@st.composite
def long_lists(draw: st.DrawFn, table: Generated) -> Predicate:
    """IN lists of more than ten values, which Spark keeps as a set."""
    column = draw(st.sampled_from(table.columns))
    found = draw(st.lists(values_near(table, column.type), min_size=1, max_size=6))
    more = draw(st.lists(values(column.type), min_size=11, max_size=13))
    nulls = [None] if draw(st.integers(0, 3)) == 0 else []
    many = In(column, tuple(Literal(value, column.type) for value in [*found, *more, *nulls]))
    return Not(many) if draw(st.booleans()) else many


@st.composite
def questions(draw: st.DrawFn, table: Generated) -> Predicate:
    """Predicates at most three connectives deep: understood ones, opaque ones, and mixtures."""
    understood = predicates(table.columns, 3, table.pool)
    kind = draw(st.integers(0, 9))
    if kind <= 5:
        return draw(understood)
    if kind == 6:
        return draw(long_lists(table))
    other = draw(st.one_of(opaque_questions(table), opaque_questions(table), long_lists(table)))
    if kind == 7:
        return other
    parts = (draw(understood), other)
    return And(parts) if kind == 8 else Or(parts)
