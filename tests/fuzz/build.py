"""Worlds on disk: tables are written, indexed and laid out, and their history happens; then Spark is told of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

import sidestep
from sidestep.spark.jvm.sessions import same_interpreter
from sidestep.spark.organize.featurize import read_back
from sidestep.store.block_column import BLOCK
from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.fuzz.functions import READERS, write_number
from tests.fuzz.values import ARROW, ticked, value
from tests.fuzz.world import Numbers, TableSpec, WorldSpec
from tests.spark.tables import data_files, set_age, write_file

PAD = 400
"""Bytes in the footer of each file that say nothing: a file can be replaced by another one of the same size."""


def build(spark: SparkSession, world: WorldSpec, root: Path) -> None:
    """Write the tables to folders of their names, index them, and let their history happen."""
    for name, (reader, number) in world.functions.items():
        write_number(root / "functions" / name, number)
        # Another interpreter may lack pandas, and each query with such a function would be none.
        with same_interpreter(spark.sparkContext):
            spark.udf.register(name, READERS[reader](str(root / "functions" / name)), "boolean")
    for name, table in world.tables.items():
        _build_table(spark, table, root / name)


def arrow_table(columns: Mapping[str, str], numbers: Mapping[str, Numbers]) -> pa.Table:
    """The rows of a file."""
    arrays = {
        name: pa.array([None if each is None else value(kind, each) for each in numbers[name]], ARROW[kind])
        for name, kind in columns.items()
    }
    return pa.table(arrays)


def _build_table(spark: SparkSession, table: TableSpec, root: Path) -> None:
    path = str(root)
    if table.form in ("plain", "catalog"):
        early = len(table.files) if table.indexed is None else min(table.indexed, len(table.files))
        _write_plain(table, root, range(early))
        if early:
            _index(spark, table, root)
        _write_plain(table, root, range(early, len(table.files)))
    elif table.form == "delta":
        for file in table.files:
            write_deltalake(path, arrow_table(table.columns, file), mode="append")
        if table.indexed != 0:
            sidestep.index(spark, path, synopses=table.synopses)
    else:
        source = root.with_name(f"{root.name}-source")
        write_file(source / "all.parquet", pa.concat_tables(arrow_table(table.columns, file) for file in table.files))
        sidestep.load(
            spark,
            str(source),
            path,
            name=root.name,
            features=feature_set(spark, root.name, table),
            by=table.by,
            min_size=table.min_size,
            synopses=table.synopses,
        )
    for step in table.history:
        happen(spark, table, root, step)


def _index(spark: SparkSession, table: TableSpec, root: Path) -> None:
    sidestep.index(spark, str(root), synopses=table.synopses)


def _write_plain(table: TableSpec, root: Path, numbers: Iterable[int]) -> None:
    for number in numbers:
        write_plain(table, root, number, table.files[number])


def plain_path(table: TableSpec, root: Path, number: int, rows: pa.Table) -> Path:
    folder = root
    if table.partition is not None:
        first = rows[table.partition][0].as_py() if len(rows) else None
        # A folder has no name for the empty string: Spark takes it for NULL too.
        folder = root / f"{table.partition}={'__HIVE_DEFAULT_PARTITION__' if not first else _folder_name(first)}"
    return folder / f"f{number}.parquet"


def _folder_name(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in "%'\\:*?\"#=/{}[]^" else c for c in text)


def write_plain(
    table: TableSpec, root: Path, number: int, file: Mapping[str, Numbers], size: int | None = None
) -> Path:
    """Write one file of a plain table; with ``size``, so that it has that many bytes if it can."""
    rows = arrow_table(table.columns, file)
    path = plain_path(table, root, number, rows)
    way = dict(table.written[number]) if number < len(table.written) else {}
    lacking = table.lacking[number] if number < len(table.lacking) else None
    rows = rows.drop_columns([name for name in (table.partition, lacking) if name is not None])
    options = {"row_group_size": table.row_group, "store_schema": False, **way}
    pad = PAD
    for _ in range(4):
        write_file(path, rows.replace_schema_metadata({"pad": "x" * pad}), **options)
        if size is None or path.stat().st_size == size or pad + size < path.stat().st_size:
            break
        pad += size - path.stat().st_size
    return path


def feature_set(spark: SparkSession, name: str, table: TableSpec) -> FeatureSet:
    """The features by their texts, as queries with these filters are read in this session."""
    schema = spark.createDataFrame([], table.schema()).schema
    meanings = read_back(spark, table.features, schema) if table.features else []
    return FeatureSet(name, tuple(Feature(tuple(said)) for said in meanings if not isinstance(said, str) and said))


def happen(spark: SparkSession, table: TableSpec, root: Path, step: Sequence[Any]) -> None:
    """One change of a table; steps that are none for its form do nothing."""
    path, column = str(root), next(iter(table.columns))
    plain = table.form in ("plain", "catalog")
    match step:
        case ["index"]:
            _index(spark, table, root)
        case ["rewrite", file] if plain and table.partition is None and table.files:
            write_plain(table, root, 0, file)
        case ["foreign", file] if plain:
            write_plain(table, root, len(table.files), file)
        case ["remove"] if plain and len(table.files) > 1:
            data_files(root)[0].unlink()
        case ["foreign", file] if not plain:
            write_deltalake(path, arrow_table(table.columns, file), mode="append", schema_mode="merge")
        case ["append", file] if table.form == "laid":
            sidestep.append(spark, path, spark.createDataFrame(arrow_table(table.columns, file)))
        case ["delete", where] if table.form == "laid":
            sidestep.delete(spark, path, where)
        case ["update", where] if table.form == "laid":
            sidestep.update(spark, path, {column: f"{column} + 1"}, where)
        case ["optimize"] if table.form == "laid":
            sidestep.optimize(spark, path)


# ---- what a table must hold, worked out without Spark and without sidestep


def expected_rows(table: TableSpec) -> Counter[str]:
    """The rows of a Delta table after its history."""
    column = next(iter(table.columns))
    rows = [row for file in table.files for row in _rows(file)]
    for step in table.history:
        match step:
            case ["foreign", file]:
                rows += _rows(file)
            case ["append", file] if table.form == "laid":
                rows += _rows(file)
            case ["delete", where] if table.form == "laid":
                number = int(where.rpartition(" ")[2])
                rows = [row for row in rows if row[column] != number]
            case ["update", where] if table.form == "laid":
                number = int(where.rpartition(" ")[2])
                rows = [
                    {**row, column: row[column] + 1} if row[column] is not None and row[column] < number else row
                    for row in rows
                ]
    numbers = {name: [row[name] for row in rows] for name in table.columns}
    return row_counts(arrow_table(table.columns, numbers))


def _rows(file: Mapping[str, Numbers]) -> list[dict[str, Any]]:
    return [dict(zip(file, row, strict=True)) for row in zip(*file.values(), strict=True)]


def actual_rows(table: TableSpec, root: Path) -> Counter[str]:
    """The rows of a Delta table as another reader finds them."""
    return row_counts(delta_rows(root).select(list(table.columns)))


def row_counts(rows: pa.Table) -> Counter[str]:
    return Counter(map(repr, rows.to_pylist()))


def delta_rows(root: Path) -> pa.Table:
    """All rows of a Delta table, read file by file as its log lists them."""
    table = DeltaTable(str(root))
    files = [pq.ParquetFile(path).read() for path in sorted(table.file_uris())]
    schema = pa.schema(table.schema())
    if not files:
        return schema.empty_table()
    return pa.concat_tables(files, promote_options="permissive")


# ---- tables in SQL


def register(spark: SparkSession, world: WorldSpec, root: Path) -> None:
    """Make each table known to SQL by its name."""
    for name, table in world.tables.items():
        register_table(spark, name, table, root)


def register_table(spark: SparkSession, name: str, table: TableSpec, root: Path) -> None:
    if table.form == "catalog":
        spark.catalog.dropTempView(name)
        spark.sql(f"DROP TABLE IF EXISTS spark_catalog.default.{name}")
        spark.sql(f"CREATE TABLE {name} ({table.schema()}) USING parquet LOCATION '{root / name}'")
    else:
        frame_of(spark, table, root / name).createOrReplaceTempView(name)


def unregister(spark: SparkSession, world: WorldSpec) -> None:
    for name, table in world.tables.items():
        spark.catalog.dropTempView(name)
        if table.form == "catalog":
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def frame_of(spark: SparkSession, table: TableSpec, path: Path) -> DataFrame:
    """A table that is read by its folder."""
    if table.form not in ("plain", "catalog"):
        return sidestep.read(spark, str(path))
    if table.infer:
        return spark.read.parquet(str(path))
    return spark.read.schema(table.schema()).parquet(str(path))


def truth_of(spark: SparkSession, table: TableSpec, path: Path) -> DataFrame:
    """The same, by Spark's own reader alone."""
    if table.form in ("plain", "catalog"):
        return frame_of(spark, table, path)
    files = sorted(DeltaTable(str(path)).file_uris())
    columns = [ticked(column) for column in table.columns]
    reader = spark.read.schema(f"{table.schema()}, `{BLOCK}` int" if BLOCK not in table.columns else table.schema())
    return (reader.parquet(*files) if files else spark.createDataFrame([], table.schema())).select(*columns)


def touch(path: Path, seconds: int) -> None:
    """Make a file look newer than it is."""
    set_age(path, -seconds)


def keep_time(path: Path, status: os.stat_result) -> None:
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
