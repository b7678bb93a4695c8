"""Random tables: plain folders, Delta tables, tables laid out by features; with files, indexes and a history."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import SparkSession

import sidestep
from sidestep.spark.organize.featurize import read_back
from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.fuzz.choices import Choices
from tests.spark.tables import write_file

GREATEST = 39
"""Values stand for the numbers from 0 to this, in the order of their type."""

ARROW: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "double": pa.float64(),
    "date": pa.date32(),
    "decimal(9,2)": pa.decimal128(9, 2),
    "smallint": pa.int16(),
    "float": pa.float32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "boolean": pa.bool_(),
    "decimal(25,4)": pa.decimal128(25, 4),
    "binary": pa.binary(),
    "struct<a:int,b:string>": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    "array<int>": pa.list_(pa.int32()),
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
}
NUMBERS = ("int", "bigint", "smallint", "double", "float", "decimal(9,2)", "decimal(25,4)")
NESTED = ("struct<a:int,b:string>", "array<int>", "map<string,int>")
SCALARS = tuple(kind for kind in ARROW if kind not in NESTED)


def value(kind: str, number: int) -> Any:
    """The value of a type that stands for a number; their orders are the same, but for boolean."""
    day = datetime.date(2020, 1, 1) + datetime.timedelta(days=number)
    match kind:
        case "string":
            return f"{'p' * 36 if number % 5 == 4 else ''}{'k' * (number % 2)}{number:03d}"
        case "double" | "float":
            return math.nan if number == GREATEST else -0.0 if number == 0 else float(number)
        case "date":
            return day
        case "timestamp":
            return datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=7 * number)
        case "timestamp_ntz":
            return datetime.datetime(2020, 1, 1) + datetime.timedelta(hours=7 * number)
        case "decimal(9,2)":
            return decimal.Decimal(number) / 4
        case "decimal(25,4)":
            return decimal.Decimal(number) * 10**12
        case "boolean":
            return number % 2 == 1
        case "binary":
            return bytes([number, 255 - number])
        case "struct<a:int,b:string>":
            return {"a": number, "b": None if number % 7 == 3 else f"s{number % 4}"}
        case "array<int>":
            return [*range(number % 4), number]
        case "map<string,int>":
            return [(f"k{number % 3}", number)]
        case _:
            return number


def literal(kind: str, number: int) -> str:
    """The same value in Spark's SQL."""
    made = value(kind, number)
    match kind:
        case "string":
            return f"'{made}'"
        case "date":
            return f"DATE '{made}'"
        case "timestamp":
            return f"TIMESTAMP '{made:%Y-%m-%d %H:%M:%S} UTC'"
        case "timestamp_ntz":
            return f"TIMESTAMP_NTZ '{made:%Y-%m-%d %H:%M:%S}'"
        case "double" | "float":
            return f"{kind}('NaN')" if made != made else f"{kind}({made})"
        case "binary":
            return f"X'{made.hex()}'"
        case "boolean":
            return str(made).upper()
        case "bigint" | "smallint":
            return f"{kind}({made})"
        case _ if kind.startswith("decimal"):
            return f"CAST({made} AS {kind.upper()})"
        case _:
            return str(made)


Numbers = list[int | None]
"""A column of a file, or of some rows: the number that each value stands for, or NULL."""


@dataclass(frozen=True)
class TableSpec:
    """One table as data: what its files hold, how it is kept, and what happened to it."""

    columns: dict[str, str]
    files: list[dict[str, Numbers]]
    form: str = "plain"
    """``plain``: a folder of Parquet files; ``delta``: another writer's Delta table; ``laid``: laid out by features."""
    row_group: int = 1000
    partition: str | None = None
    """A string column that is in the names of folders instead."""
    synopses: str | None = None
    indexed: int | None = None
    """How many of the files there were when the table was indexed; None is all, 0 is a table that never was."""
    features: list[str] = field(default_factory=list)
    min_size: int = 4
    by: str | None = None
    history: list[list[Any]] = field(default_factory=list)
    """Changes after that, each a verb and what it needs."""


@dataclass(frozen=True)
class WorldSpec:
    """Tables by name, and the settings of the session in which they were made."""

    tables: dict[str, TableSpec]
    settings: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WorldSpec:
        return cls({name: TableSpec(**table) for name, table in data["tables"].items()}, dict(data["settings"]))


SETTINGS: dict[str, tuple[str, ...]] = {
    "spark.sql.session.timeZone": ("UTC", "America/Los_Angeles"),
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.legacy.castComplexTypesToString.enabled": ("false", "true"),
    "spark.sql.legacy.negativeIndexInArray": ("false", "true"),
    "spark.sql.legacy.sizeOfNull": ("false", "true"),
    "spark.sql.legacy.emptyStringInSplit": ("false", "true"),
    "spark.sql.caseSensitive": ("false", "true"),
}
"""Settings that change what an expression means: the first value of each is the one tests have by default."""
PLANNING: dict[str, tuple[str, ...]] = {
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.autoBroadcastJoinThreshold": ("10485760", "-1"),
    "spark.sql.optimizer.runtime.bloomFilter.enabled": ("true", "false"),
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": ("true", "false"),
    "spark.sql.parquet.enableVectorizedReader": ("true", "false"),
    "spark.sql.parquet.filterPushdown": ("true", "false"),
    "spark.sql.cbo.enabled": ("false", "true"),
    "spark.sidestep.induced": ("true", "false"),
}
"""Settings that change how a query is planned, and never what it gives."""

FEATURES: tuple[tuple[str, str], ...] = (
    ("int", "{c} < {v}"),
    ("string", "{c} LIKE '%01%'"),
    ("struct<a:int,b:string>", "CAST({c} AS STRING) LIKE '%s1%'"),
    ("struct<a:int,b:string>", "CAST({c} AS STRING) LIKE '[1%'"),
    ("array<int>", "CAST({c} AS STRING) LIKE '[0%'"),
    ("map<string,int>", "CAST({c} AS STRING) LIKE '[%'"),
    ("string", "element_at(split({c}, '', 2), -1) > 'k'"),
    ("timestamp", "hour({c}) < 9"),
    ("date", "dayofweek({c}) = 3"),
    ("int", "{c} % 3 = 1"),
    ("string", "upper({c}) = 'K011'"),
)
"""What a feature may say of a column of a type; ``{v}`` is a constant of it."""


def draw_world(choices: Choices) -> WorldSpec:
    """One to four tables."""
    changed = {name: values[choices.below(2)] for name, values in SETTINGS.items() if choices.happens(0.15)}
    count = 1 + choices.below(4)
    return WorldSpec({f"t{number}": _draw_table(choices, f"t{number}") for number in range(count)}, changed)


def _draw_table(choices: Choices, name: str) -> TableSpec:
    kinds = ["int", choices.among(("int", "bigint", "string", "date"))]
    kinds += [choices.among(SCALARS) for _ in range(choices.below(4))]
    if choices.happens(0.2):
        kinds.append(choices.among(NESTED))
    columns = {f"{name}_{place}": kind for place, kind in enumerate(kinds)}
    form = choices.among(("plain", "plain", "plain", "plain", "plain", "laid", "delta"))
    files = [_draw_file(choices, columns) for _ in range(choices.between(1, 7))]
    partition = None
    if form == "plain" and choices.happens(0.15):
        partition = next((column for column, kind in columns.items() if kind == "string"), None)
    features: list[str] = []
    if form == "laid":
        for kind, text in FEATURES:
            of_kind = [column for column, type in columns.items() if type == kind]
            if of_kind and choices.happens(0.5):
                features.append(text.format(c=choices.among(of_kind), v=literal(kind, choices.below(GREATEST))))
    return TableSpec(
        columns,
        files,
        form,
        row_group=choices.among((1000, 3)),
        partition=partition,
        synopses=choices.among((None, None, "range-set:2", "bloom", "grt:8", "gap-histogram:2", "range-set:3+bloom")),
        indexed=choices.among((None, None, None, None, 0, 1, 3)) if form != "laid" else None,
        features=features,
        min_size=choices.between(1, 8),
        by=f"{name}_0 % 3" if choices.happens(0.5) else None,
        history=_draw_history(choices, name, columns) if form != "plain" or choices.happens(0.2) else [],
    )


def _draw_file(choices: Choices, columns: Mapping[str, str]) -> dict[str, Numbers]:
    """Rows of a file: most columns lie close together in it, as skipping needs it."""
    rows = choices.between(0, 12)
    file: dict[str, Numbers] = {}
    for column in columns:
        spread = choices.happens(0.2)
        start, width = (0, GREATEST) if spread else (choices.below(36), choices.between(1, 7))
        nulls = choices.among((0.0, 0.0, 0.1, 0.5))
        file[column] = [
            None if nulls and choices.happens(nulls) else min(GREATEST, start + choices.below(width))
            for _ in range(rows)
        ]
    return file


def _draw_history(choices: Choices, name: str, columns: Mapping[str, str]) -> list[list[Any]]:
    steps: list[list[Any]] = []
    for _ in range(choices.below(4)):
        verb = choices.among(("append", "delete", "update", "optimize", "foreign", "rewrite", "index"))
        match verb:
            case "append" | "foreign" | "rewrite":
                steps.append([verb, _draw_file(choices, columns)])
            case "delete":
                steps.append([verb, f"{name}_0 = {choices.below(GREATEST)}"])
            case "update":
                steps.append([verb, f"{name}_0 < {choices.below(GREATEST)}"])
            case _:
                steps.append([verb])
    return steps


def arrow_table(columns: Mapping[str, str], numbers: Mapping[str, Numbers]) -> pa.Table:
    """The rows of a file."""
    arrays = {
        name: pa.array([None if each is None else value(kind, each) for each in numbers[name]], ARROW[kind])
        for name, kind in columns.items()
    }
    return pa.table(arrays)


def build(spark: SparkSession, world: WorldSpec, root: Path) -> None:
    """Write the tables to folders of their names, index them, and let their history happen."""
    for name, table in world.tables.items():
        _build_table(spark, table, root / name)


def _build_table(spark: SparkSession, table: TableSpec, root: Path) -> None:
    path = str(root)
    if table.form == "plain":
        early = len(table.files) if table.indexed is None else table.indexed
        _write_plain(table, root, range(min(early, len(table.files))))
        if early and table.files:
            sidestep.index(spark, path, synopses=table.synopses)
        _write_plain(table, root, range(min(early, len(table.files)), len(table.files)))
    else:
        rows = pa.concat_tables(arrow_table(table.columns, file) for file in table.files)
        if table.form == "delta":
            for file in table.files:
                write_deltalake(path, arrow_table(table.columns, file), mode="append")
            if table.indexed != 0:
                sidestep.index(spark, path, synopses=table.synopses)
        else:
            source = root.with_name(f"{root.name}-source")
            write_file(source / "all.parquet", rows)
            sidestep.load(
                spark,
                str(source),
                path,
                name=root.name,
                features=feature_set(spark, root.name, table),
                by=table.by,
                min_size=table.min_size,
            )
    for step in table.history:
        _happen(spark, table, root, step)


def _write_plain(table: TableSpec, root: Path, numbers: Sequence[int] | range) -> None:
    for number in numbers:
        rows = arrow_table(table.columns, table.files[number])
        folder = root
        if table.partition is not None:
            first = rows[table.partition][0].as_py() if len(rows) else None
            folder = root / f"{table.partition}={'__HIVE_DEFAULT_PARTITION__' if first is None else first}"
            rows = rows.drop_columns([table.partition])
        write_file(folder / f"f{number}.parquet", rows, row_group_size=table.row_group)


def feature_set(spark: SparkSession, name: str, table: TableSpec) -> FeatureSet:
    """The features by their texts, as queries with these filters are read in this session."""
    schema = spark.createDataFrame([], ", ".join(f"`{column}` {kind}" for column, kind in table.columns.items())).schema
    meanings = read_back(spark, table.features, schema) if table.features else []
    return FeatureSet(name, tuple(Feature(tuple(said)) for said in meanings if not isinstance(said, str) and said))


def _happen(spark: SparkSession, table: TableSpec, root: Path, step: Sequence[Any]) -> None:
    path, column = str(root), next(iter(table.columns))
    match step:
        case ["index"]:
            sidestep.index(spark, path)
        case ["rewrite", file] if table.form == "plain" and table.partition is None:
            write_file(root / "f0.parquet", arrow_table(table.columns, file))
        case ["foreign", file] if table.form != "plain":
            write_deltalake(path, arrow_table(table.columns, file), mode="append", schema_mode="merge")
        case ["append", file] if table.form == "laid":
            sidestep.append(spark, path, spark.createDataFrame(arrow_table(table.columns, file)))
        case ["delete", where] if table.form == "laid":
            sidestep.delete(spark, path, where)
        case ["update", where] if table.form == "laid":
            sidestep.update(spark, path, {column: f"{column} + 1"}, where)
        case ["optimize"] if table.form == "laid":
            sidestep.optimize(spark, path)


def register(spark: SparkSession, world: WorldSpec, root: Path) -> None:
    """Make each table known to SQL by its name."""
    for name, table in world.tables.items():
        path = str(root / name)
        frame = spark.read.parquet(path) if table.form == "plain" else sidestep.read(spark, path)
        frame.createOrReplaceTempView(name)


def opaque_texts(world: WorldSpec) -> Iterator[str]:
    """The texts of all features: what queries should ask too, or no feature would ever answer."""
    for table in world.tables.values():
        yield from table.features
