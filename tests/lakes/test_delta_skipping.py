"""Delta tables through Delta's own reader: what they skip by sidestep's index, and that deleted rows stay deleted."""

from __future__ import annotations

import random
from functools import partial

import pytest

import sidestep
from sidestep.errors import UnsupportedTable
from sidestep.prune.explain.explanation import Amounts
from tests.lakes.delta_tables import FILES, append, check, check_deadly, load, make_table
from tests.spark.tables import data_files, settings, switched_off

DELETION_VECTORS = "'delta.enableDeletionVectors' = 'true'"


def test_by_path_by_name_in_sql_and_at_an_older_version(spark, enabled, tmp_path):
    path = make_table(spark, tmp_path / "t")
    sidestep.index(spark, str(path))
    spark.sql(f"CREATE TABLE delta_by_name USING delta LOCATION '{path}'")
    try:
        assert len(check_deadly(spark, lambda: load(spark, path).where("code = 'c00417'"), path, most=1)) == 1
        ask = "SELECT id, v FROM {} WHERE code BETWEEN 'c00390' AND 'c00410' AND k = 3"
        assert len(check_deadly(spark, lambda: spark.sql(ask.format("delta_by_name")), path, most=2)) == 3
        assert len(check_deadly(spark, lambda: spark.sql(ask.format(f"delta.`{path}`")), path, most=2)) == 3
        spark.sql("DELETE FROM delta_by_name WHERE id = 402")
        assert len(check(spark, lambda: spark.sql(ask.format("delta_by_name")))[0]) == 2
        older = ask.format("delta_by_name VERSION AS OF 1")
        assert len(check_deadly(spark, lambda: spark.sql(older), path, most=2)) == 3
        at = lambda: load(spark, path, versionAsOf=1).where("code = 'c00402'")  # noqa: E731
        assert len(check_deadly(spark, at, path, most=1)) == 1
    finally:
        spark.sql("DROP TABLE delta_by_name")


def test_parquet_is_skipped_after_delta_has_written(spark, enabled, tmp_path):
    """Delta's first write lets its session find columns by field id; folders whose columns have none skip as before."""
    rows = spark.range(0, 800, 1, FILES).selectExpr("id", "printf('c%05d', id) AS code")
    rows.write.parquet(str(tmp_path / "plain"))
    sidestep.index(spark, str(tmp_path / "plain"))
    make_table(spark, tmp_path / "t", properties="'delta.columnMapping.mode' = 'id'")
    with settings(spark, spark__sql__parquet__fieldId__read__enabled="true"):
        ask = lambda: spark.read.parquet(str(tmp_path / "plain")).where("code = 'c00417'")  # noqa: E731
        assert len(check_deadly(spark, ask, tmp_path / "plain", most=1)) == 1


def test_explain_and_status_speak_of_a_delta_scan(spark, enabled, tmp_path):
    path = make_table(spark, tmp_path / "t")
    query = load(spark, path).where("code = 'c00417'")
    (scan,) = sidestep.explain(query).scans
    assert scan.reason is not None
    assert "not indexed" in scan.reason
    status = sidestep.index(spark, str(path))
    assert (status.files, status.indexed_files, status.format) == (FILES, FILES, "delta")
    (scan,) = sidestep.explain(query).scans
    assert scan.reason is None
    assert scan.files == Amounts(FILES, 1)
    assert [reason.files for reason in scan.reasons if reason.condition == "code = 'c00417'"] == [FILES - 1]
    with settings(spark, spark__databricks__delta__stats__skipping="false"):
        (scan,) = sidestep.explain(load(spark, path).where("code = 'c00417'")).scans
        assert "stats.skipping is off" in str(scan.reason)
        check(spark, lambda: load(spark, path).where("code = 'c00417'"))


def test_rows_that_deletion_vectors_mark_stay_deleted(spark, enabled, tmp_path):
    path = make_table(spark, tmp_path / "t", properties=DELETION_VECTORS)
    sidestep.index(spark, str(path))
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id IN (17, 417, 418)")
    assert len(data_files(path)) == FILES  # nothing was written anew: the rows are only marked
    ask = lambda: load(spark, path).where("code IN ('c00417', 'c00419')")  # noqa: E731
    assert len(check_deadly(spark, ask, path, most=1)) == 1
    assert check_deadly(spark, lambda: load(spark, path).where("code = 'c00417'"), path, most=1) == []
    # A table with vectors can be indexed anew, and those of an older version do not matter to it.
    assert sidestep.index(spark, str(path), rebuild=True).complete
    assert len(check_deadly(spark, ask, path, most=1)) == 1
    old = lambda: load(spark, path, versionAsOf=1).where("code IN ('c00417', 'c00419')")  # noqa: E731
    assert len(check_deadly(spark, old, path, most=1)) == 2
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1")
    assert len(check_deadly(spark, ask, path, most=1)) == 2
    # Where files may not be split, Delta counts their rows itself.
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 419")
    with settings(spark, spark__databricks__delta__deletionVectors__useMetadataRowIndex="false"):
        assert len(check_deadly(spark, ask, path, most=1)) == 1
    with pytest.raises(UnsupportedTable, match=r"deletionVectors .* spark\.read\.format\(\"delta\"\)"):
        sidestep.read(spark, str(path))


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_known_by_the_names_in_the_files(spark, enabled, tmp_path, mode):
    path = make_table(
        spark, tmp_path / "t", properties=f"'delta.columnMapping.mode' = '{mode}', {DELETION_VECTORS}", partitioned=True
    )
    status = sidestep.index(spark, str(path), synopses={"code": "bloom"})
    assert set(status.columns) == {"id", "code", "k", "v"}
    assert (list(status.synopses), status.partition_columns) == (["code"], ("p",))
    assert "min:code" in sidestep.blocks(spark, str(path), columns=["code"]).column_names
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 417")
    assert len(check_deadly(spark, lambda: load(spark, path).where("code IN ('c00417', 'c00420')"), path, most=1)) == 1
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN code TO label")
    renamed = lambda: load(spark, path).where("label = 'c00420' AND p = '1'")  # noqa: E731
    assert len(check_deadly(spark, renamed, path, most=1)) == 1
    (scan,) = sidestep.explain(renamed()).scans
    assert "label = 'c00420'" in {reason.condition for reason in scan.reasons}
    # A new column of an old name is another one: what is known of the old says nothing of it.
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN code string")
    spark.sql(f"INSERT INTO delta.`{path}` (id, label, p, code) VALUES (9999, 'z', '1', 'c00420')")
    assert len(check_deadly(spark, lambda: load(spark, path).where("code = 'c00420'"), path)) == 1
    assert len(check_deadly(spark, lambda: load(spark, path).where("label = 'c00420'"), path, most=2)) == 1
    sidestep.index(spark, str(path))
    assert len(check_deadly(spark, lambda: load(spark, path).where("code = 'c00420'"), path, most=1)) == 1
    assert len(check_deadly(spark, lambda: load(spark, path).where("label = 'c00420'"), path, most=1)) == 1
    old = lambda: load(spark, path, versionAsOf=1).where("code IN ('c00417', 'c00420')")  # noqa: E731
    assert len(check_deadly(spark, old, path, most=1)) == 2
    with pytest.raises(UnsupportedTable, match="columnMapping"):
        sidestep.read(spark, str(path))


def test_partitions_and_generated_columns(spark, enabled, tmp_path):
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (at timestamp, code string, day date GENERATED ALWAYS AS (CAST(at AS date))) "
        "USING delta PARTITIONED BY (day)"
    )
    rows = spark.range(0, 400, 1, 4).selectExpr(
        "timestamp'2024-01-01' + make_interval(0, 0, 0, 0, cast(id AS int)) AS at", "printf('c%03d', id) AS code"
    )
    rows.write.format("delta").mode("append").save(str(path))
    sidestep.index(spark, str(path))
    by_time = lambda: load(spark, path).where("at = timestamp'2024-01-05 03:00:00'")  # noqa: E731
    assert len(check_deadly(spark, by_time, path, most=1)) == 1
    by_day = lambda: load(spark, path).where("day = date'2024-01-05' AND code >= 'c100'")  # noqa: E731
    assert len(check_deadly(spark, by_day, path, most=2)) == 20
    days = spark.createDataFrame([("2024-01-05", "x")], "day string, name string").selectExpr("date(day) day", "name")
    days.write.format("delta").save(str(tmp_path / "days"))
    sidestep.index(spark, str(tmp_path / "days"))
    joined = lambda: load(spark, path).join(load(spark, tmp_path / "days").where("name = 'x'"), "day")  # noqa: E731
    assert len(check_deadly(spark, joined, path, tmp_path / "days")) == 24


def test_a_filter_on_one_table_induces_what_another_skips(spark, enabled, tmp_path):
    facts, items = make_table(spark, tmp_path / "facts"), make_table(spark, tmp_path / "items")
    for path in (facts, items):
        sidestep.index(spark, str(path))
    ask = lambda: (  # noqa: E731
        load(spark, facts).alias("f").join(load(spark, items).where("code = 'c00417'").alias("i"), "id").select("f.v")
    )
    assert len(check_deadly(spark, ask, facts, items, most=2)) == 1
    (scan,) = (each for each in sidestep.explain(ask()).scans if each.table == "facts")
    assert any(reason.synopsis == "induced predicate" and reason.files for reason in scan.reasons)
    # What is deleted is still among the values that are induced: more is read than needed, never less.
    spark.sql(f"ALTER TABLE delta.`{items}` SET TBLPROPERTIES ({DELETION_VECTORS})")
    spark.sql(f"DELETE FROM delta.`{items}` WHERE id = 417")
    assert check(spark, ask, most=2)[0] == []
    # A file that no entry speaks of may hold any value.
    append(spark, items, 250, 251)
    other = lambda: (  # noqa: E731
        load(spark, facts)
        .alias("f")
        .join(load(spark, items).where("code LIKE 'c0025%'").alias("i"), "id")
        .select("f.v")
    )
    check(spark, other)


def test_files_are_chosen_when_the_query_runs(spark, enabled, tmp_path):
    facts, items = make_table(spark, tmp_path / "facts"), make_table(spark, tmp_path / "items")
    sidestep.index(spark, str(facts))
    ask = lambda: (  # noqa: E731
        load(spark, facts).alias("f").join(load(spark, items).where("code = 'c00417'").alias("i"), "id").select("f.v")
    )
    with settings(spark, spark__sidestep__stages__induced="false"):
        expected, read = check(spark, ask)
        assert len(expected) == 1
        assert len([path for path in read if path.is_relative_to(facts)]) == 1
        spark.sql(f"ALTER TABLE delta.`{facts}` SET TBLPROPERTIES ({DELETION_VECTORS})")
        spark.sql(f"DELETE FROM delta.`{facts}` WHERE id IN (416, 417)")
        expected, read = check(spark, ask)
        assert expected == []
        assert len([path for path in read if path.is_relative_to(facts)]) == 1


def test_a_mapped_table_is_joined_without_choosing_at_run_time(spark, enabled, tmp_path):
    facts = make_table(spark, tmp_path / "facts", properties="'delta.columnMapping.mode' = 'name'")
    items = make_table(spark, tmp_path / "items")
    sidestep.index(spark, str(facts))
    ask = lambda: (  # noqa: E731
        load(spark, facts).alias("f").join(load(spark, items).where("code = 'c00417'").alias("i"), "id").select("f.v")
    )
    assert len(check(spark, ask)[0]) == 1


def test_a_scan_of_all_files_is_not_taken_for_one_of_some(spark, enabled, tmp_path):
    path = make_table(spark, tmp_path / "t")
    sidestep.index(spark, str(path))
    spark.read.format("delta").load(str(path)).createOrReplaceTempView("whole")
    # Both sides group the same columns of the same table; only one may leave out files.
    ask = """
        SELECT a.k, a.n, b.n FROM (SELECT k, count(*) n FROM whole GROUP BY k) a
        JOIN (SELECT k, count(*) n FROM whole WHERE code < 'c00100' GROUP BY k) b ON a.k = b.k
        UNION ALL SELECT k, count(*), 0 FROM whole GROUP BY k
    """
    with settings(spark, spark__sql__adaptive__enabled="false"):
        assert len(check(spark, lambda: spark.sql(ask))[0]) == 14
    assert len(check(spark, lambda: spark.sql(ask))[0]) == 14


def test_an_exchange_of_some_files_is_not_reused_for_all(spark, enabled, tmp_path):
    facts, items = make_table(spark, tmp_path / "facts"), make_table(spark, tmp_path / "items")
    for name, path in (("facts", facts), ("items", items)):
        sidestep.index(spark, str(path))
        load(spark, path).createOrReplaceTempView(name)
    # The same scan of facts, by the same filters; only the first is narrowed, by what it is joined with.
    ask = """
        SELECT f.v FROM facts f JOIN (SELECT id FROM items WHERE code = 'c00417') i ON f.id = i.id
        UNION ALL SELECT f.v FROM facts f JOIN (SELECT id + 1 AS id FROM items) i ON f.id = i.id
    """
    shuffled = {"spark__sql__autoBroadcastJoinThreshold": "-1", "spark__sql__adaptive__enabled": "false"}
    with settings(spark, **shuffled):
        assert len(check(spark, lambda: spark.sql(ask))[0]) == 800


def test_files_of_other_writers_are_read_until_they_are_indexed(spark, enabled, tmp_path):
    path = make_table(spark, tmp_path / "t")
    sidestep.index(spark, str(path))
    held = load(spark, path).where("code >= 'c00750'")
    append(spark, path, 800, 900)
    assert len(check_deadly(spark, lambda: load(spark, path).where("code >= 'c00750'"), path, most=2)) == 150
    assert len(check_deadly(spark, lambda: load(spark, path).where("code = 'c00417'"), path, most=2)) == 1
    assert held.count() == 150
    sidestep.index(spark, str(path))
    assert len(check_deadly(spark, lambda: load(spark, path).where("code = 'c00417'"), path, most=1)) == 1
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert len(check(spark, lambda: load(spark, path).where("code = 'c00417'"))[0]) == 1


def test_what_delta_changes_is_what_it_changes_without_sidestep(spark, enabled, tmp_path):
    paths = [make_table(spark, tmp_path / name, properties=DELETION_VECTORS) for name in ("on", "off")]
    source = make_table(spark, tmp_path / "source")
    for path in (*paths, source):
        sidestep.index(spark, str(path))
    changes = [
        "DELETE FROM {t} WHERE code BETWEEN 'c00100' AND 'c00110'",
        "UPDATE {t} SET v = -1 WHERE code = 'c00417' OR id = 3",
        "MERGE INTO {t} t USING (SELECT * FROM {s} WHERE code LIKE 'c0042%') s ON t.id = s.id "
        "WHEN MATCHED AND s.k = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v + 1",
        "MERGE INTO {t} t USING (SELECT id + 795 AS id, code, k, v, p FROM {s} WHERE code < 'c00010') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET k = 99 WHEN NOT MATCHED THEN INSERT *",
        "MERGE INTO {t} t USING (SELECT * FROM {s} WHERE code < 'c00700') s ON t.id = s.id "
        "WHEN NOT MATCHED BY SOURCE AND t.code > 'c00790' THEN DELETE",
        "DELETE FROM {t} WHERE code = 'c00333'",
        "INSERT INTO {t} SELECT id + 5000, code, k, v, p FROM {t} WHERE code = 'c00555'",
        "OPTIMIZE {t} ZORDER BY (k)",
    ]
    for change in changes:
        spark.sql(change.format(t=f"delta.`{paths[0]}`", s=f"delta.`{source}`"))
        with switched_off(spark):
            spark.sql(change.format(t=f"delta.`{paths[1]}`", s=f"delta.`{source}`"))
            on, off = (sorted(map(repr, load(spark, path).collect())) for path in paths)
        assert on == off, change
        check(spark, lambda: load(spark, paths[0]).where("code IN ('c00417', 'c00555', 'c00333')"))
    sidestep.index(spark, str(paths[0]))
    check_deadly(spark, lambda: load(spark, paths[0]).where("v = -1"), paths[0])


def test_a_feed_of_changes_is_left_alone(spark, enabled, tmp_path):
    path = make_table(spark, tmp_path / "t", properties="'delta.enableChangeDataFeed' = 'true'")
    sidestep.index(spark, str(path))
    spark.sql(f"UPDATE delta.`{path}` SET v = 0 WHERE id = 17")
    ask = lambda: load(spark, path, readChangeFeed="true", startingVersion=1).where("code = 'c00017'")  # noqa: E731
    expected, _ = check(spark, lambda: ask().select("id", "v", "_change_type"))
    assert len(expected) == 3


def test_random_conditions(spark, enabled, tmp_path):
    path = make_table(spark, tmp_path / "t", properties=DELETION_VECTORS, partitioned=True)
    sidestep.index(spark, str(path), synopses={"code": "bloom", "k": "range-set:4"})
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 11 = 3")
    append(spark, path, 790, 810)
    choose = random.Random(20)
    atoms = [
        lambda n: f"id = {n}",
        lambda n: f"id BETWEEN {n} AND {n + 30}",
        lambda n: f"code = 'c{n:05d}'",
        lambda n: f"code LIKE 'c{n // 10:04d}%'",
        lambda n: f"k IN ({n % 7}, {n % 5})",
        lambda n: f"NOT (v < {n / 3})",
        lambda n: f"p = '{n % 3}'",
        lambda n: f"p <=> '{n % 2}'",
    ]
    skipped = 0
    for _ in range(14):
        parts = [choose.choice(atoms)(choose.randrange(830)) for _ in range(choose.randint(1, 3))]
        condition = choose.choice([" AND ", " OR "]).join(parts)
        _, read = check(spark, partial(load(spark, path).where, condition))
        skipped += FILES + 1 - len(read)
    assert skipped > 0
