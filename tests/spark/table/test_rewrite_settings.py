"""Jobs that write rows anew read every row as it is, whatever the session is set to, or leave the table as it was."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import Schema, write_deltalake
from deltalake.transaction import AddAction, create_table_with_add_actions

import sidestep
from sidestep.errors import SidestepError
from sidestep.spark.change import replace
from sidestep.spark.change.rewrite import delete, update
from sidestep.spark.organize.write import write_on_spark
from sidestep.spark.table.append import append
from sidestep.spark.table.load import load
from sidestep.spark.table.optimize import optimize
from sidestep.store import locate, read_snapshot
from sidestep.store.commit.log_entry import has_version
from tests.spark.garbage import copy_with_garbage
from tests.spark.tables import changed_settings, data_files, rows_of

pytestmark = pytest.mark.spark
CORRUPT = {"spark.sql.files.ignoreCorruptFiles": "true"}
MISSING = {"spark.sql.files.ignoreMissingFiles": "true"}


def table_of_files(root: Path, tables: list[pa.Table], schema: pa.Schema | None = None, **options) -> str:
    """A Delta table of files as other writers make them, a file per table."""
    root.mkdir()
    added = []
    for number, table in enumerate(tables):
        path = root / f"part-{number}.parquet"
        pq.write_table(table, path, row_group_size=100, **options)
        status = path.stat()
        added.append(AddAction(path.name, status.st_size, {}, status.st_mtime_ns // 1_000_000, True, "{}"))
    create_table_with_add_actions(str(root), Schema.from_arrow(schema or tables[0].schema), added)
    return str(root)


@pytest.fixture
def damaged(tmp_path):
    """A table of 600 rows in two files, of which 100 rows cannot be read."""
    halves = [pa.table({"k": range(start, start + 300), "v": [0] * 300}) for start in (0, 300)]
    table_of_files(tmp_path / "whole", halves)
    return Path(copy_with_garbage(str(tmp_path / "whole"), tmp_path / "damaged", {"part-0.parquet": [1]}))


def jobs(root: Path):
    """Every job that reads a table and writes what it read."""
    beside = str(root.parent / "new")
    return {
        "delete": lambda spark: delete(spark, str(root), "k = 5"),
        "update": lambda spark: update(spark, str(root), {"v": "1"}, "k = 5"),
        "delete by a subquery": lambda spark: delete(spark, str(root), "k IN (SELECT 5)"),
        "merge": lambda spark: merge_one(spark, root),
        "optimize": lambda spark: optimize(spark, str(root), all=True),
        "load in place": lambda spark: load(spark, str(root), min_size=50),
        "load": lambda spark: load(spark, str(root), beside, min_size=50),
        "load a folder": lambda spark: load(spark, folder_of(root), beside, min_size=50),
        "append a table": lambda spark: append(spark, empty(root.parent / "new"), str(root)),
        "append a folder": lambda spark: append(spark, empty(root.parent / "new"), folder_of(root)),
    }


def merge_one(spark, root: Path):
    batch = spark.createDataFrame([(5, 1), (9999, 1)], "k bigint, v bigint")
    merge = sidestep.merge(spark, str(root), batch, "target.k = source.k")
    return merge.when_matched_update().when_not_matched_insert().run()


NAMES = tuple(jobs(Path("t")))


def folder_of(root: Path) -> str:
    """The same files without a log."""
    target = root.parent / "folder"
    target.mkdir()
    for path in data_files(root):
        shutil.copy2(path, target / path.name)
    return str(target)


def empty(root: Path) -> str:
    write_deltalake(str(root), pa.table({"k": pa.array([], pa.int64()), "v": pa.array([], pa.int64())}))
    return str(root)


@pytest.mark.parametrize("job", NAMES)
def test_rows_that_cannot_be_read_are_an_error(spark, damaged, job):
    before, files = read_snapshot(damaged), data_files(damaged)
    with changed_settings(spark, CORRUPT | MISSING), pytest.raises(Exception, match=r"(?s)."):
        jobs(damaged)[job](spark)
    assert read_snapshot(damaged) == before
    if job in ("delete", "update"):
        assert data_files(damaged) == files, "nothing is left over"
    new = damaged.parent / "new"
    assert not has_version(locate(new)) or not read_snapshot(new).files


@pytest.mark.parametrize("job", [name for name in NAMES if "folder" not in name])
def test_a_file_that_is_missing_is_an_error(spark, tmp_path, job):
    root = tmp_path / "t"
    table_of_files(root, [pa.table({"k": range(start, start + 300), "v": [0] * 300}) for start in (0, 300)])
    before = read_snapshot(root)
    # Also where no row of the missing file is meant: who asks what was deleted must not hear that all is well.
    (root / "part-1.parquet").unlink()
    with changed_settings(spark, CORRUPT | MISSING), pytest.raises(Exception, match=r"(?s)."):
        jobs(root)[job](spark)
    assert read_snapshot(root) == before


def test_rows_that_get_lost_on_the_way_are_not_committed(spark, tmp_path, monkeypatch):
    root = tmp_path / "t"
    table_of_files(root, [pa.table({"k": range(300), "v": [0] * 300})])
    before, files = read_snapshot(root), data_files(root)

    def lose_rows(rows, *arguments, **options):
        return write_on_spark(rows.where("k <> 17"), *arguments, **options)

    monkeypatch.setattr(replace, "write_on_spark", lose_rows)
    for name in ("delete", "update", "delete by a subquery", "merge"):
        with pytest.raises(SidestepError, match=r"hold 300 rows by their footers.*Nothing was committed"):
            jobs(root)[name](spark)
        assert read_snapshot(root) == before
        assert data_files(root) == files
    monkeypatch.undo()
    assert delete(spark, str(root), "k = 5").rows == 1


OLD_DATE, OLD_INSTANT = datetime.date(1400, 2, 28), datetime.datetime(1400, 2, 28, 13, 14, 15, 123456)
SETTINGS = {
    "the old calendar": {
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
        "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
        "spark.sql.session.timeZone": "Asia/Kolkata",
    },
    "no old values": {
        "spark.sql.parquet.datetimeRebaseModeInRead": "EXCEPTION",
        "spark.sql.parquet.int96RebaseModeInRead": "EXCEPTION",
        "spark.sql.session.timeZone": "Europe/Amsterdam",
        "spark.sql.ansi.enabled": "false",
    },
    "shifted instants": {
        "spark.sql.parquet.int96TimestampConversion": "true",
        "spark.sql.session.timeZone": "America/Los_Angeles",
    },
    "another schema": {
        "spark.sql.caseSensitive": "true",
        "spark.sql.parquet.int96AsTimestamp": "false",
        "spark.sql.parquet.binaryAsString": "true",
        "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
        "spark.sql.legacy.parquet.nanosAsLong": "true",
        "spark.sql.parquet.fieldId.read.enabled": "true",
        "spark.sql.parquet.mergeSchema": "true",
    },
    "another type": {
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.writeLegacyFormat": "true",
    },
    "another reader": {
        **CORRUPT,
        **MISSING,
        "spark.sql.parquet.enableVectorizedReader": "false",
        "spark.sql.parquet.recordLevelFilter.enabled": "true",
        "spark.sql.files.maxRecordsPerFile": "7",
        "spark.sql.files.maxPartitionBytes": "4096",
        "spark.sql.files.openCostInBytes": "1",
    },
}


def old_values() -> pa.Table:
    """Values that settings change: old dates and instants, bytes, and a column of another case in its file."""
    count = 60
    return pa.table(
        {
            "k": pa.array(range(count), pa.int64()),
            "d": pa.array([OLD_DATE + datetime.timedelta(i) for i in range(count)], pa.date32()),
            "t": pa.array([OLD_INSTANT + datetime.timedelta(i) for i in range(count)], pa.timestamp("us", "UTC")),
            "n": pa.array([OLD_INSTANT + datetime.timedelta(i) for i in range(count)], pa.timestamp("us")),
            "b": pa.array([b"\xff%d" % i for i in range(count)], pa.binary()),
            "s": pa.array([f"é{i}" for i in range(count)]),
            "v": pa.array([0] * count, pa.int32()),
        }
    )


NUMBERS = {"d": pa.int32(), "t": pa.int64(), "n": pa.int64()}


def stored(root: Path) -> list[tuple[Any, ...]]:
    """The rows by the files themselves, dates and instants as numbers; no setting of Spark is asked."""
    rows: list[tuple[Any, ...]] = []
    for file in read_snapshot(root).files:
        table = pq.read_table(root / file.path, coerce_int96_timestamp_unit="us")
        by_name = {name.lower(): table[name] for name in table.column_names if name != "_block"}
        columns = [by_name[name].cast(NUMBERS.get(name, by_name[name].type)) for name in sorted(by_name)]
        rows += zip(*(column.to_pylist() for column in columns), strict=True)
    return sorted(rows, key=repr)


INT96 = ("the old calendar", "no old values", "shifted instants")


@pytest.mark.parametrize(("name", "int96"), [*((name, False) for name in SETTINGS), *((name, True) for name in INT96)])
def test_every_value_survives_under_every_setting(spark, tmp_path, name, int96):
    # INT96 is an instant, whatever the column says.
    values = old_values().drop_columns("n") if int96 else old_values()
    odd = values.rename_columns({"k": "K", "d": "D", "s": "S"})
    root, pieces = tmp_path / "t", [odd.slice(0, 30), values.slice(30)]
    table_of_files(root, pieces, values.schema, use_deprecated_int96_timestamps=int96)
    names = sorted(values.column_names)
    k, v = names.index("k"), names.index("v")
    expected = [
        (*row[:v], row[v] + (row[k] in (4, 41)), *row[v + 1 :]) for row in stored(root) if row[k] not in (3, 40)
    ]
    with changed_settings(spark, SETTINGS[name]):
        assert delete(spark, str(root), "k IN (3, 40)").rows == 2
        assert update(spark, str(root), {"v": "v + 1"}, "k IN (4, 41)").rows == 2
        optimize(spark, str(root), all=True)
        load(spark, str(root), min_size=20, by="k % 2")
    assert stored(root) == sorted(expected, key=repr)


@pytest.mark.parametrize("name", INT96)
def test_what_spark_wrote_survives_a_load_under_every_setting(spark, tmp_path, name):
    """Spark's own files say which calendar they are in: a folder of them reads the same everywhere."""
    folder, target = str(tmp_path / "folder"), tmp_path / "t"
    spark.createDataFrame(old_values().drop_columns("n")).repartition(2).write.parquet(folder)
    with changed_settings(spark, SETTINGS[name]):
        load(spark, folder, str(target), min_size=20)
    columns = ("k", "b", "s", "v", "unix_date(d)", "unix_micros(t)")
    assert rows_of(sidestep.read(spark, str(target)).selectExpr(*columns)) == rows_of(
        spark.read.parquet(folder).selectExpr(*columns)
    )


def test_partition_values_stay_as_they_are_written(spark, tmp_path):
    """Writers spell a value differently: what is not changed is not spelled anew."""
    root = str(tmp_path / "t")
    write_deltalake(root, pa.table({"x": [1e10] * 4, "k": range(4), "p": ["a"] * 4}), partition_by=["x", "p"])
    before = {file.partition for file in read_snapshot(root).files}
    assert delete(spark, root, "k = 1").rows == 1
    assert {file.partition for file in read_snapshot(root).files} == before
    assert update(spark, root, {"p": "'b'"}, "k = 2").rows == 1
    after = {file.partition for file in read_snapshot(root).files}
    assert {dict(partition)["x"] for partition in after} == {dict(partition)["x"] for partition in before}
    assert {dict(partition)["p"] for partition in after} == {"a", "b"}


def test_settings_of_the_session_are_as_they_were(spark, tmp_path):
    root = table_of_files(tmp_path / "t", [pa.table({"k": range(20)})])
    with changed_settings(spark, SETTINGS["the old calendar"] | CORRUPT):
        before = dict(spark.conf.getAll)
        delete(spark, root, "k = 1")
        assert dict(spark.conf.getAll) == before
