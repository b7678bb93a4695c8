"""Loading into column groups: the parts of each row are all there under one id, and blocks say what their rows hold."""

from __future__ import annotations

import json
import re
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import functions

import sidestep
from sidestep.errors import SidestepError, UnsupportedTable
from sidestep.spark.rule.refresh import Refresher
from sidestep.store import open_index
from sidestep.store.location import locate
from sidestep.store.sidecars.column_groups import COLUMN_GROUPS, GROUP, MARKER, ROW_ID, UNIT, ColumnGroups
from sidestep.store.sidecars.group_layouts import GROUP_LAYOUTS
from sidestep.store.snapshots.delta import read_delta
from sidestep.store.upkeep.update import update_index

ROWS = 3_000
CONFLICT = [
    *(f"SELECT sum(price) FROM sales WHERE day BETWEEN {low} AND {low + 9}" for low in range(0, 300, 10)),
    *(f"SELECT max(note) FROM sales WHERE kind = 'k{number}'" for number in range(20)),
]
"""Two kinds of queries that read different columns and want different orders of rows."""


def sales(rows: int = ROWS, seed: int = 0) -> pa.Table:
    draw = np.random.default_rng(seed)
    kinds = [None if number == 0 else f"k{number}" for number in draw.integers(0, 20, rows)]
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "kind": pa.array(kinds, pa.string()),
            "day": pa.array(draw.integers(0, 300, rows), pa.int32()),
            "price": pa.array([None if x < 0.05 else x for x in draw.random(rows)], pa.float64()),
            "note": pa.array([f"note {x}" for x in draw.integers(0, 50, rows)], pa.string()),
            "never": pa.array(draw.integers(0, 9, rows), pa.int16()),
            "tags": pa.array([[int(x)] * (int(x) % 3) for x in draw.integers(0, 9, rows)], pa.list_(pa.int32())),
        }
    )


def write(folder: Path, table: pa.Table, files: int = 3) -> str:
    folder.mkdir()
    for number in range(files):
        start = len(table) * number // files
        part = table.slice(start, len(table) * (number + 1) // files - start)
        pq.write_table(part, folder / f"part {number}.parquet", row_group_size=400)
    return str(folder)


def inner(path: str | Path) -> Path:
    return Path(path) / "_sidestep" / "groups"


def groups_of(path: str | Path) -> ColumnGroups:
    groups = COLUMN_GROUPS.load(locate(inner(path) / "_sidestep"))
    assert groups is not None
    return groups


def parts(path: str | Path) -> dict[int, list[Path]]:
    """The live files of each group."""
    actions = pa.table(DeltaTable(str(inner(path))).get_add_actions(flatten=True))
    files: dict[int, list[Path]] = {}
    for name, group in zip(actions["path"].to_pylist(), actions[f"partition.{GROUP}"].to_pylist(), strict=True):
        files.setdefault(int(group), []).append(inner(path) / name)
    return files


def read_part(files: list[Path]) -> pa.Table:
    return pa.concat_tables([pq.ParquetFile(file).read() for file in files]).sort_by(ROW_ID)


def joined(path: str | Path) -> pa.Table:
    """The table put together by row ids."""
    groups = groups_of(path)
    whole: dict[str, pa.ChunkedArray] = {}
    tables = [read_part(files) for _, files in sorted(parts(path).items())]
    for names, part in zip(groups.groups, tables, strict=True):
        assert part[ROW_ID].equals(tables[0][ROW_ID])
        assert part[UNIT].equals(tables[0][UNIT])
        assert set(part.column_names) == {*names, UNIT, ROW_ID, "_block"}
        whole |= {name: part[name] for name in names}
    return pa.table({field["name"]: whole[field["name"]] for field in json.loads(groups.schema)["fields"]})


@pytest.fixture(scope="module")
def loaded(spark, tmp_path_factory):
    """A source, the table in column groups that it was loaded into, and the report."""
    place = tmp_path_factory.mktemp("groups")
    source = write(place / "sales", sales())
    seen: list[Any] = []
    report = sidestep.load(
        spark,
        source,
        place / "out",
        log=CONFLICT,
        layout="gsop",
        min_size=50,
        unit_rows=1_100,
        progress=seen.append,
    )
    assert {"choose", "shuffle and write", "commit"} <= {step.stage for step in seen}
    return source, place / "out", report


def test_the_rows_are_those_of_the_source(loaded):
    source, path, report = loaded
    together = joined(path)
    expected = pa.concat_tables([pq.read_table(file) for file in sorted(Path(source).glob("*.parquet"))])
    assert together.cast(expected.schema).equals(expected), "ids count rows in the order of files"
    assert report.rows == ROWS
    assert len(report.groups) == len(groups_of(path).groups) > 1
    assert report.bytes_after == sum(file.stat().st_size for files in parts(path).values() for file in files)


def test_columns_that_queries_read_apart_lie_apart(loaded):
    _, path, report = loaded
    groups = groups_of(path).groups
    at = {name: number for number, group in enumerate(groups) for name in group}
    assert at["price"] != at["note"]
    assert at["never"] == at["tags"] == at["id"], "columns that no query reads are a group of their own"
    assert "sidestep.read" in str(report)
    assert [one["columns"] for one in report.to_dict()["groups"]] == [list(group) for group in groups]
    layouts = GROUP_LAYOUTS.load(locate(inner(path) / "_sidestep"))
    assert layouts is not None
    assert [layout.by for layout in layouts.layouts] == [UNIT] * len(groups)


def test_all_groups_come_in_one_commit(loaded):
    _, path, report = loaded
    assert report.version == 0
    assert DeltaTable(str(inner(path))).version() == 0
    assert sorted(entry.name for entry in Path(path).iterdir()) == ["_sidestep", MARKER]


def test_names_have_the_bucket_that_spark_gives_their_unit(spark, loaded):
    _, path, _ = loaded
    buckets = groups_of(path).buckets
    seen = {}
    for file in (file for files in parts(path).values() for file in files):
        (unit,) = set(pq.ParquetFile(file).read([UNIT])[UNIT].to_pylist())
        match = re.fullmatch(r".*_(\d+)(?:\..*)?", file.name)
        assert match is not None
        seen[unit] = int(match[1])
    numbers = ", ".join(map(str, seen))
    told = spark.sql(f"SELECT explode(array({numbers})) AS unit").selectExpr("unit", f"pmod(hash(unit), {buckets})")
    assert {row[0]: row[1] for row in told.collect()} == seen
    assert len(set(seen.values())) == min(len(seen), buckets), "units share no bucket while there are enough"


@pytest.mark.parametrize("by_day", [False, True], ids=["in any order", "by day"])
def test_blocks_know_what_they_differ_in_of_columns_that_their_group_lacks(spark, loaded, tmp_path, by_day):
    """Bounds and NULLs of every block, held against the rows that it has."""
    source, path, _ = loaded
    if by_day:
        source, path = write(tmp_path / "sales", sales().sort_by("day")), tmp_path / "out"
        sidestep.load(spark, source, path, log=CONFLICT, layout="gsop", min_size=50, unit_rows=1_100)
    rows = pa.concat_tables([pq.read_table(file) for file in sorted(Path(source).glob("*.parquet"))])
    index = open_index(str(inner(path)))
    assert len(set(index.block_ids.tolist())) == index.map.blocks, "ids are unique over all groups"
    place = {block: at for at, block in enumerate(index.block_ids.tolist())}
    known = {name: index.stored_arrays(name, index.columns[name]) or {} for name in ("day", "kind", "price")}
    group_of = {name: number for number, group in enumerate(groups_of(path).groups) for name in group}
    assert group_of["day"] != group_of["kind"]
    foreign: dict[str, set[bool]] = {"day": set(), "kind": set()}
    for number, files in parts(path).items():
        held = groups_of(path).groups[number]
        for file in files:
            parquet = pq.ParquetFile(file)
            for at in range(parquet.num_row_groups):
                block = parquet.read_row_group(at, columns=["_block", ROW_ID])
                (id,) = set(block["_block"].to_pylist())
                mine = rows.take(block[ROW_ID])
                for name in ("day", "kind"):
                    zones = {part.partition(":")[0]: array[place[id]].as_py() for part, array in known[name].items()}
                    values = [value for value in mine[name].to_pylist() if value is not None]
                    if name not in held:
                        foreign[name].add(zones["nulls"] is not None)
                        if zones["nulls"] is None:
                            assert (zones["lower"], zones["upper"]) == (None, None), "or a reader would take it for all"
                            continue
                    assert zones["nulls"] == len(mine) - len(values)
                    stored = [value.encode() if isinstance(value, str) else value for value in values]
                    bounds = (min(stored), max(stored)) if stored else (None, None)
                    assert (zones["lower"], zones["upper"]) == bounds
                price = known["price"]["nulls:price"][place[id]].as_py()
                assert (price is None) == ("price" not in held), "of a column that no query filters nothing is said"
    assert foreign["day"] == {by_day}, "all rows of a unit are of some days, if they came in that order"
    assert foreign["kind"] == {False}, "no arrangement for days narrows kinds, so nothing is said of them there"


@pytest.mark.parametrize(
    "place", ["", "_sidestep/groups", "_sidestep/groups/_group=0"], ids=["table", "parts", "group"]
)
@pytest.mark.parametrize("merge", ["true", "false"])
def test_readers_without_sidestep_are_told(spark, loaded, place, merge):
    """No fragments of rows, whichever folder is read, and whatever is asked of it."""
    folder = str(Path(loaded[1]) / place)
    with pytest.raises(Exception, match=MARKER):
        spark.read.option("mergeSchema", merge).parquet(folder).collect()
    with pytest.raises(Exception, match=MARKER):
        spark.read.schema("day int").option("mergeSchema", merge).parquet(folder).where("day = 3").count()


def test_other_readers_of_delta_find_no_table(loaded):
    with pytest.raises(TableNotFoundError):
        DeltaTable(str(loaded[1]))


def test_a_query_without_sidestep_is_told(spark, loaded):
    rows = sidestep.read(spark, loaded[1])
    for query in (rows, rows.where("day = 3"), rows.groupBy().count()):
        with pytest.raises(Exception, match=r"call sidestep\.enable"):
            query.collect()


@pytest.mark.parametrize(
    "job",
    [
        lambda spark, path: sidestep.index(spark, path),
        lambda spark, path: sidestep.load(spark, path, by="day"),
        lambda spark, path: sidestep.advise(spark, CONFLICT, path, name="sales"),
    ],
    ids=["index", "load", "advise"],
)
def test_what_does_not_work_on_column_groups_says_so(spark, loaded, job):
    with pytest.raises(UnsupportedTable, match="is in column groups"):
        job(spark, str(loaded[1]))


@pytest.mark.parametrize(
    "job",
    [
        lambda spark, path: sidestep.index(spark, path),
        lambda spark, path: sidestep.append(spark, path, spark.range(3)),
        lambda spark, path: sidestep.delete(spark, path, "day = 1"),
        lambda spark, path: sidestep.update(spark, path, {"day": "1"}, "day = 2"),
        lambda spark, path: sidestep.optimize(spark, path),
        lambda spark, path: sidestep.status(spark, path),
        lambda spark, path: sidestep.load(spark, path, f"{path}-2", log=CONFLICT, name="sales"),
        lambda spark, path: sidestep.advise(spark, CONFLICT, path, name="sales"),
    ],
    ids=["index", "append", "delete", "update", "optimize", "status", "load", "advise"],
)
def test_no_job_takes_parts_for_a_table(spark, loaded, job):
    with pytest.raises(UnsupportedTable, match="parts of a table in column groups"):
        job(spark, str(inner(loaded[1])))


def test_a_background_refresh_never_indexes_parts(loaded):
    """A column that a part lacks would be taken for NULLs, and every block of it skipped."""
    _, path, _ = loaded
    before = sorted(file.name for file in (inner(path) / "_sidestep").iterdir())
    refresher = Refresher()
    refresher.met(str(inner(path)))
    assert refresher.wait(60)
    refresher.stop()
    assert not refresher.notes
    index = open_index(str(inner(path)))
    with pytest.raises(SidestepError):
        update_index(read_delta(locate(inner(path))), index.columns, index)
    assert sorted(file.name for file in (inner(path) / "_sidestep").iterdir()) == before


def test_vacuum_deletes_nothing_that_is_needed(loaded):
    _, path, _ = loaded
    before = joined(path)
    report = sidestep.vacuum(path, hours=0, force=True)
    assert not report.files
    assert joined(path).equals(before)
    assert GROUP_LAYOUTS.load(locate(inner(path) / "_sidestep")) is not None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"log": None}, "chosen by a log"),
        ({"target": None}, "target="),
        ({"by": "day"}, "leave by"),
        ({"family": "cuts"}, "leave family"),
        ({"layout": "columns"}, "no layout 'columns'"),
    ],
)
def test_options_that_do_not_go_with_groups_are_refused(spark, loaded, tmp_path, options, said):
    given = {"target": tmp_path / "new", "log": CONFLICT, "layout": "gsop"} | options
    with pytest.raises(SidestepError, match=said):
        sidestep.load(spark, loaded[0], **given)


def test_a_place_that_is_taken_and_names_that_are_taken_are_refused(spark, loaded, tmp_path):
    source, path, _ = loaded
    with pytest.raises(SidestepError, match=r"in column groups at .* already"):
        sidestep.load(spark, source, path, log=CONFLICT, layout="gsop")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with pytest.raises(SidestepError, match="something at"):
        sidestep.load(spark, source, tmp_path / "full", log=CONFLICT, layout="gsop")
    odd = write(tmp_path / "odd", pa.table({"_Rid": [1, 2]}), files=1)
    with pytest.raises(UnsupportedTable, match="column _Rid"):
        sidestep.load(spark, odd, tmp_path / "new", log=["SELECT count(*) FROM odd"], layout="gsop")


@pytest.mark.parametrize(
    "log",
    [["SELECT sum(price), max(note) FROM sales"], ["SELECT id, kind FROM sales WHERE kind = 'k1'"]],
    ids=["without a filter", "one kind of query"],
)
def test_where_one_group_is_best_the_table_is_an_ordinary_one(spark, tmp_path, log):
    source = write(tmp_path / "sales", sales(400))
    report = sidestep.load(spark, source, tmp_path / "out", log=log, layout="gsop", min_size=50)
    assert not report.groups
    assert any("laid out as an ordinary one" in note for note in report.notes)
    assert sidestep.read(spark, tmp_path / "out").count() == 400


def test_a_source_that_changes_meanwhile_is_not_committed(spark, tmp_path, monkeypatch):
    source = write(tmp_path / "sales", sales(600))
    module = import_module("sidestep.spark.table.column_groups")
    before, calls = module.organize, []

    def organize(*arguments, **options):
        calls.append(1)
        if len(calls) % 2 == 0:
            pq.write_table(sales(200, seed=len(calls)), Path(source) / "part 0.parquet")
        return before(*arguments, **options)

    monkeypatch.setattr(module, "organize", organize)
    monkeypatch.setattr(import_module("sidestep.spark.table.load"), "with_retries", lambda work: work())
    with pytest.raises(SidestepError):
        sidestep.load(spark, source, tmp_path / "out", log=CONFLICT, layout="gsop", min_size=20)
    assert not list((inner(tmp_path / "out") / "_delta_log").iterdir())
    assert not list(inner(tmp_path / "out").rglob("*.parquet")), "what was written is gone"


def test_a_partitioned_delta_table_becomes_column_groups(spark, tmp_path):
    table = sales(900).drop_columns(["tags"])
    table = table.append_column("region", pa.array(["north", None, "south"] * 300, pa.string()))
    write_deltalake(str(tmp_path / "sales"), table, partition_by=["region"])
    log = [*CONFLICT, *["SELECT sum(price) FROM sales WHERE region = 'north'"] * 5]
    report = sidestep.load(spark, tmp_path / "sales", tmp_path / "out", log=log, layout="gsop", min_size=20)
    assert len(report.groups) > 1
    order = [("id", "ascending")]
    assert joined(tmp_path / "out").select(table.column_names).sort_by(order).to_pylist() == table.to_pylist()


def test_rows_come_to_all_groups_at_once(spark, loaded, tmp_path):
    source, path, _ = loaded
    copied = tmp_path / "copy"
    shutil.copytree(path, copied)
    more, others = sales(700, seed=1), sales(40, seed=2)
    extra = write(tmp_path / "more", more.drop_columns(["note"]), files=2)
    before, blocks = joined(copied), set(open_index(str(inner(copied))).block_ids.tolist())
    report = sidestep.append(spark, copied, extra)
    assert (report.rows, report.version) == (700, 1)
    frame = spark.createDataFrame(others.to_pylist(), spark.read.parquet(source).schema).orderBy(functions.rand())
    assert sidestep.append(spark, copied, frame).version == 2
    together = joined(copied)
    assert together.slice(0, ROWS).equals(before), "rows keep their ids"
    expected = [row | {"note": None} for row in more.to_pylist()]
    assert together.slice(ROWS, 700).to_pylist() == expected
    order = [("id", "ascending")]
    assert together.slice(ROWS + 700).sort_by(order).to_pylist() == others.to_pylist()
    index = open_index(str(inner(copied)))
    ids = index.block_ids.tolist()
    assert len(ids) == len(set(ids)) > len(blocks)
    nulls = (index.stored_arrays("day", index.columns["day"]) or {})["nulls:day"].to_pylist()
    unknown = {id for id, known in zip(ids, nulls, strict=True) if known is None}
    assert unknown < blocks, "new blocks know all that is filtered, of whichever group: rows may come day by day"
    assert not list((inner(copied) / "_sidestep").glob("_staged*"))
    with pytest.raises(SidestepError, match="no column other"):
        sidestep.append(spark, copied, frame.withColumn("other", functions.lit(1)))


@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ("SELECT sum(cast(1000 * price AS bigint)), count(price) FROM T WHERE day BETWEEN 20 AND 29", 1),
        ("SELECT max(note), count(*) FROM T WHERE kind = 'k7'", 1),
        ("SELECT id, note, tags FROM T WHERE day = 77 AND (kind IS NULL OR price > 0.5)", 3),
    ],
)
def test_queries_on_what_was_loaded_give_the_same_and_read_less(spark, loaded, query, groups):
    source, path, _ = loaded
    spark.read.parquet(source).createOrReplaceTempView("loaded_source")
    expected = sorted(map(repr, spark.sql(re.sub(r"\bT\b", "loaded_source", query)).collect()))
    sidestep.read(spark, path).createOrReplaceTempView("loaded_groups")
    with sidestep.enable(spark) as state:
        df = spark.sql(re.sub(r"\bT\b", "loaded_groups", query))
        assert sorted(map(repr, df.collect())) == expected
        assert state.last_problem == ""
        read = sidestep.metrics(df)
        assert len(read.scans) == groups
        assert min(scan.rows for scan in read.scans) < ROWS / 4
