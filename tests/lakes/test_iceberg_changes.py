from __future__ import annotations

import pytest

import sidestep
from tests.lakes.iceberg import check, check_without_skipped, iceberg_table, make_table, plain, scattered, switched_off

ONE = 7919 * 1234 % 100003
MERGE_ON_READ = {f"write.{change}.mode": "merge-on-read" for change in ("delete", "update", "merge")}
COLUMNS = f"id; {scattered()} AS k; CAST(id AS INT) AS n"


def rows_of(spark, name):
    with switched_off(spark):
        return plain(spark.table(name).collect())


@pytest.mark.parametrize("version", ["2", "3"])
def test_deleted_rows_stay_deleted(spark, enabled, version):
    """Position deletes in version 2, deletion vectors in version 3."""
    name = f"ice.change.deleted{version}"
    make_table(spark, name, COLUMNS, properties=MERGE_ON_READ | {"format-version": version})
    sidestep.index(spark, name)
    table = name.rpartition(".")[2]
    gone = 7919 * 1236 % 100003
    spark.sql(f"DELETE FROM {name} WHERE k = {gone} OR id % 7 = 0")
    assert spark.sql(f"SELECT count(*) FROM {name}.delete_files").first()[0] > 0
    for value, read in ((ONE, 1), (gone, 1)):
        query = f"SELECT id FROM {name} WHERE k = {value}"
        assert check(spark, query) == {table: (6, read)}
        check_without_skipped(spark, query)
    assert check(spark, f"SELECT * FROM {name} WHERE id > 2400") == {table: (2, 2)}
    assert sidestep.index(spark, name).complete
    assert check(spark, f"SELECT id FROM {name} WHERE k = {gone}") == {table: (6, 1)}


def test_equality_deletes(spark, enabled):
    make_table(spark, "ice.change.equal", f"{COLUMNS}; concat('t', {scattered()}) AS t")
    sidestep.index(spark, "ice.change.equal")
    delete_equal(spark, "ice.change.equal", "t", [f"t{ONE}", f"t{7919 * 40 % 100003}"])
    assert check(spark, f"SELECT id FROM ice.change.equal WHERE k = {ONE}") == {"equal": (6, 1)}
    with switched_off(spark):
        assert spark.sql(f"SELECT id FROM ice.change.equal WHERE k = {ONE}").collect() == []
    # Rows that come after the delete are not deleted by it.
    spark.sql(f"INSERT INTO ice.change.equal VALUES (1, {ONE}, 1, 't{ONE}')")
    assert check(spark, f"SELECT id FROM ice.change.equal WHERE k = {ONE}") == {"equal": (7, 2)}
    sidestep.index(spark, "ice.change.equal")
    assert check(spark, f"SELECT id FROM ice.change.equal WHERE k = {ONE}") == {"equal": (7, 2)}
    check_without_skipped(spark, f"SELECT id, k FROM ice.change.equal WHERE k = {7919 * 41 % 100003}")


def delete_equal(spark, name, column, values):
    """Commit an equality delete, which Spark itself never writes."""
    jvm = spark.sparkContext._jvm
    api = jvm.org.apache.iceberg
    table = iceberg_table(spark, name)
    field = table.schema().findField(column)
    fields = jvm.java.util.ArrayList()
    fields.add(field)
    schema = api.Schema(fields)
    ids = spark.sparkContext._gateway.new_array(jvm.int, 1)
    ids[0] = field.fieldId()
    factory = (
        api.data.GenericFileWriterFactory.Builder(table)
        .deleteFileFormat(api.FileFormat.PARQUET)
        .equalityDeleteRowSchema(schema)
        .equalityFieldIds(ids)
        .build()
    )
    place = api.encryption.EncryptedFiles.plainAsEncryptedOutput(
        table.io().newOutputFile(f"{table.location()}/data/deletes.parquet")
    )
    writer = factory.newEqualityDeleteWriter(place, table.spec(), None)
    for value in values:
        record = api.data.GenericRecord.create(schema)
        record.setField(column, value)
        writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
    spark.sql(f"REFRESH TABLE {name}")


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_changes_by_iceberg(spark, enabled, mode):
    """With sidestep on, Iceberg's own DELETE, UPDATE and MERGE do what they do without it."""
    made = {}
    for name in ("on", "off"):
        make_table(spark, f"ice.change.{name}", COLUMNS, properties=dict.fromkeys(MERGE_ON_READ, mode))
        sidestep.index(spark, f"ice.change.{name}")
        make_table(spark, "ice.change.source", f"id + 1200 AS id; {scattered('(id + 1200)')} AS k", 2, rows=30)
        sidestep.index(spark, "ice.change.source")
        for statement in (
            f"DELETE FROM ice.change.{name} WHERE k = {ONE}",
            f"UPDATE ice.change.{name} SET n = -1 WHERE k = {7919 * 20 % 100003}",
            f"""MERGE INTO ice.change.{name} t USING (SELECT * FROM ice.change.source WHERE id < 1240) s ON t.k = s.k
            WHEN MATCHED AND t.id % 2 = 0 THEN UPDATE SET n = -2 WHEN MATCHED THEN DELETE
            WHEN NOT MATCHED THEN INSERT (id, k, n) VALUES (s.id, s.k, -3)""",
            f"DELETE FROM ice.change.{name} WHERE k IN (SELECT k FROM ice.change.source WHERE id = 1250)",
        ):
            if name == "on":
                spark.sql(statement)
            else:
                with switched_off(spark):
                    spark.sql(statement)
        made[name] = rows_of(spark, f"ice.change.{name}")
    assert made["on"] == made["off"]
    assert any("n=-2" in row for row in made["on"])
    for value in (ONE, 7919 * 20 % 100003, 7919 * 1230 % 100003):
        read = check(spark, f"SELECT * FROM ice.change.on WHERE k = {value}")["on"]
        assert read[1] < read[0]


def test_a_scan_for_a_change_is_left_alone(spark, enabled):
    make_table(spark, "ice.change.alone", COLUMNS, 3, MERGE_ON_READ)
    sidestep.index(spark, "ice.change.alone")
    told = str(sidestep.explain(f"UPDATE ice.change.alone SET n = 0 WHERE k = {ONE} AND n + 0 = n", spark))
    assert "to change its rows" in " ".join(told.split())
    assert len(rows_of(spark, "ice.change.alone")) == 1500


def test_time_travel_branches_and_tags(spark, enabled):
    name = "ice.change.travels"
    make_table(spark, name, COLUMNS)
    sidestep.index(spark, name)
    first = spark.sql(f"SELECT snapshot_id FROM {name}.snapshots").first()[0]
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH side")
    spark.sql(f"ALTER TABLE {name} CREATE TAG begin")
    spark.sql(f"INSERT INTO {name}.branch_side VALUES (-1, {ONE}, 0)")
    spark.sql(f"DELETE FROM {name} WHERE k = {ONE}")  # writes a file anew
    query = f"SELECT id, n FROM {name}{{}} WHERE k = {ONE}"
    assert check(spark, query.format("")) == {"travels": (6, 1)}
    assert check(spark, query.format(f" VERSION AS OF {first}")) == {"travels": (6, 1)}
    assert check(spark, query.format(" VERSION AS OF 'begin'")) == {"travels": (6, 1)}
    assert check(spark, query.format(" VERSION AS OF 'side'")) == {"travels": (7, 2)}
    check_without_skipped(spark, query.format(f" VERSION AS OF {first}"))
    assert sidestep.read(spark, name, version=first).where(f"k = {ONE}").count() == 1


def test_metadata_columns(spark, enabled):
    make_table(spark, "ice.change.meta", COLUMNS, 4, MERGE_ON_READ)
    sidestep.index(spark, "ice.change.meta")
    spark.sql("DELETE FROM ice.change.meta WHERE id = 1235")
    query = f"SELECT id, _file, _pos, _spec_id, _deleted FROM ice.change.meta WHERE k = {ONE}"
    assert check(spark, query)["meta"] == (4, 1)
    dead = f"SELECT id, _pos, _deleted FROM ice.change.meta WHERE k = {7919 * 1235 % 100003}"
    assert check(spark, dead)["meta"] == (4, 1)


def test_streams_are_left_alone(spark, enabled, tmp_path):
    make_table(spark, "ice.change.flows", COLUMNS, 3)
    sidestep.index(spark, "ice.change.flows")
    rows = spark.readStream.table("ice.change.flows").where(f"k = {ONE}")
    query = rows.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True).start().awaitTermination()
    assert [row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()] == [1234]


def test_changes_between_snapshots(spark, enabled):
    name = "ice.change.increments"
    make_table(spark, name, COLUMNS, 3)
    first = spark.sql(f"SELECT snapshot_id FROM {name}.snapshots").first()[0]
    spark.range(500, 1500, 1, 2).selectExpr("id", f"{scattered()} AS k", "CAST(id AS INT) AS n").writeTo(name).append()
    sidestep.index(spark, name)
    new = spark.read.option("start-snapshot-id", first).table(name).where(f"k = {ONE}")
    assert [row.id for row in new.collect()] == [1234]
