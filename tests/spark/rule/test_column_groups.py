"""Tables in column groups: one table to whoever queries it, whose groups are read and skipped each on its own."""

from __future__ import annotations

import json
import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType

import sidestep
from sidestep.errors import SidestepError
from sidestep.prune.explain.explanation import Amounts
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.sessions import same_interpreter
from tests.spark.grouped import Group, write_groups
from tests.spark.tables import rows_of, settings, switched_off, write_file

ROWS = 120
GROUPS = (
    Group(["id", "a"], order="a"),
    Group(["b", "d", "e"], order="d", known=["a"]),
    Group(["c", "s"], order="c"),
)


def table() -> pa.Table:
    """Rows whose a goes from 0 to 29, d from 0 to 10 or NULL, and whose b tells of a block that knows a."""
    numbers = range(ROWS)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "a": pa.array([number // 4 for number in numbers], pa.int32()),
            "b": [f"b{number % 7}" for number in numbers],
            "c": [number * 37 % ROWS / 8 for number in numbers],
            "d": pa.array([None if number % 9 == 0 else number // 12 for number in numbers], pa.int32()),
            "e": pa.array([0 if number % 2 else number for number in numbers], pa.int32()),
            "s": [{"x": number, "y": f"y{number}"} for number in numbers],
        }
    )


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """The path of a table in three groups; the same rows in one file are the view ``plain``, the table ``grouped``."""
    folder = tmp_path_factory.mktemp("groups")
    root, _ = write_groups(folder / "t", table(), GROUPS, units=3, buckets=2)
    pq.write_table(table(), folder / "plain.parquet")
    spark.read.parquet(str(folder / "plain.parquet")).createOrReplaceTempView("plain")
    sidestep.read(spark, root).createOrReplaceTempView("grouped")
    return root


def scans(df) -> dict[int, tuple[int, int]]:
    """By the number of the group, the files and rows that were read of it."""
    inspector = Bridge(df.sparkSession).factory()
    read = sidestep.metrics(df).scans
    groups = [int(inspector.group(scan)) for scan in inspector.scans(df._jdf.queryExecution().executedPlan())]
    return {group: (scan.files, scan.rows) for group, scan in zip(groups, read, strict=True)}


def of(name: str, query: str) -> str:
    """A query on the table T as one on the table of that name."""
    return re.sub(r"\bT\b", name, query)


def executed(df) -> str:
    """The plan that Spark ran, without what it had first thought of."""
    return str(df._jdf.queryExecution().executedPlan().toString()).split("== Initial Plan ==")[0]


def test_it_looks_like_any_table(spark, enabled, tables):
    df = sidestep.read(spark, tables)
    assert df.columns == ["id", "a", "b", "c", "d", "e", "s"]
    assert rows_of(df) == rows_of(spark.table("plain"))
    with pytest.raises(AnalysisException, match="file_path"):
        df.select("_metadata.file_path")


def test_without_sidestep_it_says_what_to_do(spark, tables):
    with pytest.raises(Exception, match=r"is in column groups.*call sidestep\.enable\(spark\)"):
        sidestep.read(spark, tables).collect()


def test_what_one_group_holds_needs_no_join(spark, enabled, tables):
    df = spark.sql("SELECT b, e FROM grouped WHERE d = 3")
    assert rows_of(df) == rows_of(spark.sql("SELECT b, e FROM plain WHERE d = 3"))
    plan = executed(df)
    assert "Join" not in plan
    assert "_rid" not in plan
    assert scans(df) == {1: (3, 30)}, "each unit has d = 3 in one of its blocks"


def test_rows_are_counted_in_the_smallest_group(spark, enabled, tables):
    df = spark.sql("SELECT count(*) FROM grouped")
    assert df.collect()[0][0] == ROWS
    assert list(scans(df)) == [0], "it holds two columns of numbers"


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_groups_are_joined_without_an_exchange(spark, enabled, tables, adaptive):
    with settings(spark, spark__sql__adaptive__enabled=adaptive):
        df = spark.sql("SELECT id, b, c FROM grouped WHERE a < 20 AND e > 3 AND id + d > 4")
        assert rows_of(df) == rows_of(spark.sql("SELECT id, b, c FROM plain WHERE a < 20 AND e > 3 AND id + d > 4"))
        plan = executed(df)
    assert "Exchange" not in plan
    assert plan.count("ShuffledHashJoin") == 2
    read = [line for line in plan.splitlines() if "FileScan" in line]
    assert len(read) == 3
    assert sum("LessThan(a,20)" in line for line in read) == 1
    assert sum("GreaterThan(e,3)" in line for line in read) == 1
    assert sum("struct<c:double,_unit:int,_rid:bigint>" in line for line in read) == 1, "only what is asked for is read"


def test_a_large_group_is_sorted(spark, enabled, tables):
    with settings(spark, spark__sql__autoBroadcastJoinThreshold="1"):
        df = spark.sql("SELECT sum(c), count(b) FROM grouped")
        assert rows_of(df) == rows_of(spark.sql("SELECT sum(c), count(b) FROM plain"))
        plan = executed(df)
    assert "SortMergeJoin" in plan
    assert "Exchange hashpartitioning" not in plan


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("sorted_", [False, True], ids=["hashed", "sorted"])
def test_rows_whose_numbers_differ_in_their_upper_half_alone(spark, enabled, tables, tmp_path, ansi, sorted_):
    """They are hashed by the lower half: of three rows of one unit it is the same here, and negative for some."""
    ids = [(number % 3 << 32) + (number // 3 << 26) for number in range(ROWS)]
    assert len(set(ids)) == ROWS > 2 * len({id % 2**32 for id in ids})
    root, _ = write_groups(tmp_path / "t", table(), GROUPS, units=1, ids=ids)
    threshold = "1" if sorted_ else "10MB"
    with settings(spark, spark__sql__ansi__enabled=ansi, spark__sql__autoBroadcastJoinThreshold=threshold):
        for where in ("true", "a < 5", "d = 3 AND c > 2"):
            df = sidestep.read(spark, root).where(where)
            assert rows_of(df) == rows_of(spark.table("plain").where(where))
            assert ("SortMergeJoin" if sorted_ else "ShuffledHashJoin") in executed(df)


def test_the_group_of_fewest_rows_is_hashed(spark, enabled, tables):
    """Whatever its columns take on disk: what is left to be read of it is what counts."""
    df = sidestep.read(spark, tables).where("a = 7").select("id", "a", "b", "s")
    assert rows_of(df) == rows_of(spark.table("plain").where("a = 7").select("id", "a", "b", "s"))
    plan = executed(df)
    joins = re.findall(r"ShuffledHashJoin .*(Build\w+)", plan)
    assert joins == ["BuildLeft", "BuildLeft"]
    order = re.findall(r"FileScan parquet \[(\w+)#", plan)
    read = scans(df)
    assert order == ["id", "b", "s"], "a and b know a, and c nothing of it"
    assert read[0][1] <= read[1][1] < read[2][1]


def test_no_setting_of_the_users_changes(spark, enabled, tables, tmp_path):
    """That groups are joined by less than all keys of the join is no one else's business."""
    name = "spark.sql.requireAllClusterKeysForCoPartition"
    two = "SELECT x.a FROM plain x JOIN plain y ON x.a = y.a AND x.id = y.id"
    by_one = f"SELECT /*+ MERGE(p) */ p.a FROM ({two} DISTRIBUTE BY x.a) p JOIN plain q ON p.a = q.a AND p.a + 1 = q.e"
    before, kept = executed(spark.sql(by_one)), spark.conf.getAll
    assert spark.conf.get(name) == "true"
    for value in ("true", "false"):
        with settings(spark, **{name.replace(".", "__"): value}):
            df = spark.sql("SELECT a, b, c FROM grouped WHERE e > 3")
            assert rows_of(df) == rows_of(spark.sql("SELECT a, b, c FROM plain WHERE e > 3"))
            assert "Exchange" not in executed(df)
    rows_of(spark.sql("SELECT a, b, c FROM grouped WHERE e > 3"))
    assert spark.conf.getAll == kept
    assert executed(spark.sql(by_one)).count("Exchange hashpartitioning") == before.count("Exchange hashpartitioning")


def test_each_group_skips_by_what_its_blocks_know(spark, enabled, tables):
    df = spark.sql("SELECT id, b FROM grouped WHERE a < 2")
    assert rows_of(df) == rows_of(spark.sql("SELECT id, b FROM plain WHERE a < 2"))
    assert scans(df) == {0: (3, 30), 1: (3, 40)}, "its own zone maps, and those that a group has of another's column"
    df = spark.sql("SELECT c FROM grouped WHERE a < 2")
    assert rows_of(df) == rows_of(spark.sql("SELECT c FROM plain WHERE a < 2"))
    assert scans(df) == {0: (3, 30), 2: (3, ROWS)}, "nothing is known of a in the blocks of c"
    df = spark.sql("SELECT id, b FROM grouped WHERE a < 2 OR d = 9")
    assert rows_of(df) == rows_of(spark.sql("SELECT id, b FROM plain WHERE a < 2 OR d = 9"))
    assert scans(df)[0] == (3, ROWS), "a block of a knows nothing of d"
    assert scans(df)[1][1] < ROWS


def test_a_condition_that_nothing_meets_reads_nothing(spark, enabled, tables):
    df = spark.sql("SELECT c FROM grouped WHERE a = 77")
    assert df.collect() == []
    assert scans(df) == {0: (0, 0), 2: (3, ROWS)}


def test_switched_off_it_is_still_put_together(spark, enabled, tables):
    with switched_off(spark):
        df = spark.sql("SELECT id, b FROM grouped WHERE a < 2")
        assert rows_of(df) == rows_of(spark.sql("SELECT id, b FROM plain WHERE a < 2"))
        assert scans(df) == {0: (3, 30), 1: (3, ROWS)}, "Parquet's own filters still pass over blocks of a"


def test_an_error_in_python_costs_skipping_alone(spark, tables, monkeypatch):
    with sidestep.enable(spark) as state:
        monkeypatch.setattr(state.planner, "decide", lambda *_: 1 / 0)
        df = spark.sql("SELECT id, b, c FROM grouped WHERE a < 2 AND d = 0")
        assert rows_of(df) == rows_of(spark.sql("SELECT id, b, c FROM plain WHERE a < 2 AND d = 0"))
        assert "ZeroDivisionError" in state.last_problem


@pytest.mark.parametrize(
    ("condition", "above"),
    [
        ("a > 3 AND 60 / e > 7", "60"),
        ("e <> 0 AND 60 / e > 7", None),
        ("e <> 0 AND 60 / e > 7 AND a <=> 3", None),
        ("e <> 0 AND 60 / e > 7 AND a > 3", "isnotnull(a) comes first"),
        ("e <> 0 AND a > 3 AND 60 / e > 7", "60"),
        ("a > 3 AND b LIKE 'b%1'", None),
    ],
)
def test_a_condition_that_may_fail_waits_for_those_before_it(spark, enabled, tables, condition, above):
    text = f"SELECT id, b FROM grouped WHERE {condition}"
    joined = str(spark.sql(text)._jdf.queryExecution().optimizedPlan().toString()).splitlines()
    over = [line for line in joined[: next(n for n, line in enumerate(joined) if "Join" in line)] if "Filter" in line]
    assert bool(over) == (above is not None), "\n".join(joined)
    if "e <> 0" in condition:
        assert rows_of(spark.sql(text)) == rows_of(spark.sql(text.replace("grouped", "plain")))


QUERIES = (
    "SELECT a, count(*), sum(e), min(c), max(d) FROM T WHERE d IS NULL OR e > 5 GROUP BY a",
    "SELECT s.x, a FROM T WHERE s.y > 'y4' AND a < 9",
    "SELECT count(DISTINCT b), avg(c) FROM T WHERE a IN (1, 5, 28)",
    "SELECT x.id, y.c FROM T x JOIN T y ON x.id = y.e WHERE x.a < 5 AND y.d = 2",
    "SELECT x.id, p.id FROM T x LEFT JOIN plain p ON x.d = p.a AND p.c < 3 WHERE x.c < 4",
    "SELECT id FROM T WHERE e IN (SELECT id FROM T WHERE a BETWEEN 3 AND 4) OR b = 'b3'",
    "SELECT id, c FROM T t WHERE EXISTS (SELECT 1 FROM plain p WHERE p.e = t.d AND t.a > p.a)",
    "SELECT id FROM T WHERE d NOT IN (SELECT d FROM T WHERE a < 3 AND d IS NOT NULL)",
    "SELECT id, (SELECT max(c) FROM T i WHERE i.a = o.d) FROM T o WHERE e > 90",
    "SELECT id FROM T WHERE c > (SELECT avg(c) FROM T WHERE b = 'b1') AND a < 25",
    "SELECT id, b FROM T WHERE a = 3 UNION ALL SELECT e, b FROM T WHERE d = 5",
    "SELECT a FROM T WHERE c < 5 INTERSECT SELECT d FROM T WHERE e > 1",
    "SELECT id, b, c FROM T ORDER BY c DESC, id LIMIT 7",
    "SELECT id, row_number() OVER (PARTITION BY b ORDER BY c, id) n FROM T WHERE a > 4",
    "WITH w AS (SELECT id, b, c, rand() r FROM T WHERE a < 12) SELECT x.id, y.b FROM w x JOIN w y ON x.id = y.id",
    "SELECT DISTINCT b, d FROM T WHERE coalesce(d, a) > 2",
    "SELECT id, explode(array(a, d)) v FROM T WHERE c < 9",
    "SELECT b, d, sum(a) FROM T GROUP BY GROUPING SETS ((b), (d), ())",
)


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_gives_what_the_rows_in_one_file_give(spark, enabled, tables, query):
    expected = rows_of(spark.sql(of("plain", query)))
    assert expected
    df = spark.sql(of("grouped", query))
    assert rows_of(df) == expected
    with switched_off(spark):
        assert rows_of(spark.sql(of("grouped", query))) == expected


def test_functions_of_the_users_caches_and_samples(spark, enabled, tables):
    double = F.udf(lambda value: None if value is None else 2 * value, IntegerType())

    def ask(name):
        return spark.table(name).where(double("d") > 6).where("a < 28").select("id", double("e").alias("f"), "b")

    with same_interpreter(spark.sparkContext):
        assert rows_of(ask("grouped")) == rows_of(ask("plain"))
    cached = spark.sql("SELECT id, c, b FROM grouped WHERE a < 10").cache()
    try:
        assert cached.where("b = 'b2'").count() == spark.sql("SELECT 1 FROM plain WHERE a < 10 AND b = 'b2'").count()
        again = spark.sql("SELECT id, c, b FROM grouped WHERE a < 10").where("c > 3")
        assert "InMemoryTableScan" in executed(again)
    finally:
        cached.unpersist()
    assert spark.table("grouped").sample(1.0, seed=1).select("id", "b").count() == ROWS


def test_equal_parts_still_run_once(spark, enabled, tables):
    query = (
        "SELECT * FROM (SELECT b, sum(c) x FROM T GROUP BY b) l JOIN (SELECT b, sum(c) x FROM T GROUP BY b) r USING (b)"
    )
    df = spark.sql(of("grouped", query))
    assert rows_of(df) == rows_of(spark.sql(of("plain", query)))
    assert "ReusedExchange" in executed(df)


def test_a_small_table_is_broadcast_as_a_whole(spark, enabled, tables):
    df = spark.sql("SELECT p.id, g.c FROM plain p JOIN grouped g ON p.id = g.id AND g.b = 'b1'")
    assert rows_of(df) == rows_of(spark.sql("SELECT p.id, g.c FROM plain p JOIN plain g ON p.id = g.id AND g.b = 'b1'"))
    plan = executed(df)
    assert "BroadcastHashJoin" in plan
    assert "Exchange hashpartitioning" not in plan


def test_to_others_the_plan_reads_one_table(spark, enabled, tables):
    """A recording, or whoever else looks at the optimized plan, must not take groups for tables."""
    df = spark.sql("SELECT id, b FROM grouped WHERE a < 2 AND d = 0")
    described = json.loads(Bridge(spark).factory().describe(df._jdf.queryExecution().optimizedPlan()))
    text = json.dumps(described)
    assert text.count('"op": "scan"') == 1
    assert '"op": "Join"' not in text
    (filtered,) = [described["plans"][0]["in"][0]] if described["plans"][0]["op"] == "Project" else described["plans"]
    scan = filtered["in"][0]
    assert scan["roots"] == [f"file:{tables}"]
    assert scan["column_groups"] == [0, 1]


def test_what_was_skipped_may_be_gone(spark, enabled, tmp_path):
    """Units are of rows that follow each other: what is asked for lies in one of them, in whichever group."""
    rows = table().select(["id", "a", "d", "b"])
    groups = [Group(["id", "a"]), Group(["d", "b"], known=["a"])]
    root, paths = write_groups(
        tmp_path / "t", rows.take([40 * unit + at for at in range(40) for unit in range(3)]), groups, units=3
    )
    query = sidestep.read(spark, root).where("a BETWEEN 11 AND 13").select("id", "b")
    expected = rows_of(query)
    assert len(expected) == 12
    read = {path for scan in sidestep.metrics(query).scans for path in scan.paths}
    assert len(read) == 2
    for path in paths:
        if str(path) not in read:
            path.unlink()
    assert rows_of(sidestep.read(spark, root).where("a BETWEEN 11 AND 13").select("id", "b")) == expected


def test_joins_induce_predicates_on_groups_and_by_them(spark, enabled, tables, tmp_path):
    write_file(tmp_path / "keys" / "f.parquet", {"k": pa.array([2, 3], pa.int32()), "w": pa.array([7, 9], pa.int32())})
    for number in range(3):
        data = {"k": pa.array(range(10 * number, 10 * number + 10), pa.int32())}
        write_file(tmp_path / "large" / f"f{number}.parquet", data)
    for name in ("keys", "large"):
        sidestep.index(spark, str(tmp_path / name))
        spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    query = "SELECT g.id, g.b, g.c FROM T g JOIN keys ON g.a = keys.k WHERE keys.w > 5"
    df = spark.sql(of("grouped", query))
    assert rows_of(df) == rows_of(spark.sql(of("plain", query)))
    assert (scans(df)[0][1], scans(df)[1][1]) == (30, 40), "both groups know a, which must be 2 or 3"
    query = "SELECT large.k, g.c FROM large JOIN T g ON g.a = large.k WHERE g.d = 1"
    df = spark.sql(of("grouped", query))
    assert rows_of(df) == rows_of(spark.sql(of("plain", query)))
    read = {path.rsplit("/", 1)[-1] for scan in sidestep.metrics(df).scans for path in scan.paths}
    assert "f0.parquet" in read
    assert "f2.parquet" not in read, "rows with d = 1 have a in 3 to 5, by the blocks of the group that knows both"


def test_an_explanation_tells_groups_apart(spark, enabled, tables):
    explanation = sidestep.explain("SELECT id, b FROM grouped WHERE a < 2", spark)
    (scan,) = explanation.scans
    assert [group.number for group in scan.groups] == [0, 1]
    assert scan.groups_in_all == 3
    assert [group.read.row_groups for group in scan.groups] == [Amounts(12, 3), Amounts(12, 4)]
    assert scan.rows == Amounts(2 * ROWS, 70)
    text = str(explanation)
    assert "reads 2 of 3 column groups: 0 (id, a), 1 (b, d, e), joined by row" in " ".join(text.split())
    assert "group 1" in explanation._repr_html_()
    assert explanation.to_dict()["scans"][0]["groups"][1]["columns"] == ["b", "d", "e"]


def test_an_explanation_without_sidestep_does_not_fail(spark, tables):
    (scan,) = sidestep.explain("SELECT id, b FROM grouped WHERE a < 2", spark).scans
    assert scan.files is None


def test_an_index_of_its_files_alone_would_be_wrong(spark, tables):
    """In a file of one group, the columns of the others look like columns without values."""
    with pytest.raises(SidestepError, match="has the parts of a table in column groups"):
        sidestep.index(spark, f"{tables}/_sidestep/groups")


def test_new_files_are_not_indexed_in_the_background(spark, tables):
    with sidestep.enable(spark, refresh="auto") as state:
        df = spark.sql("SELECT id, b FROM grouped WHERE a < 2")
        assert rows_of(df) == rows_of(spark.sql("SELECT id, b FROM plain WHERE a < 2"))
        assert state.refresher is not None
        assert state.refresher.wait(30)
        assert state.refresher.notes == []


def test_a_table_whose_groups_are_not_told_is_damaged(spark, enabled, tables, tmp_path):
    copy = shutil.copytree(tables, tmp_path / "copy")
    (sidecar,) = (copy / "_sidestep" / "groups" / "_sidestep").glob("_groups-*.json")
    sidecar.unlink()
    with pytest.raises(SidestepError, match="which columns lie in which group"):
        sidestep.read(spark, copy)


@pytest.mark.parametrize("broadcast", ["10485760", "-1"], ids=["broadcast", "shuffled"])
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_blocks_of_each_group_are_chosen_when_the_query_runs(spark, enabled, tables, tmp_path, adaptive, broadcast):
    """By keys that only a run of the other input tells; a group that knows nothing of the key is read whole."""
    pq.write_table(
        pa.table({"k": pa.array(range(-5, 40), pa.int32()), "g": [i % 9 for i in range(45)]}), tmp_path / "d"
    )
    spark.read.parquet(str(tmp_path / "d")).createOrReplaceTempView("keys")
    query = "SELECT id, b, c FROM T JOIN keys ON a = k WHERE g = 7 AND k < 10"
    one = "SELECT id FROM T WHERE a = (SELECT max(k) FROM keys WHERE g = 7)"
    chosen = {"spark__sidestep__selectors__leastGain": "0", "spark__sidestep__induced__smallRows": "0"}
    planned = {"spark__sql__adaptive__enabled": adaptive, "spark__sql__autoBroadcastJoinThreshold": broadcast}
    with settings(spark, **chosen, **planned):
        for asked in (query, one):
            df = spark.sql(of("grouped", asked))
            assert rows_of(df) == rows_of(spark.sql(of("plain", asked)))
            read = {group: rows for group, (_, rows) in scans_of_groups(df).items()}
            assert read[0] < ROWS / 2, "the group of the key"
            if asked == query:
                assert read[1] < ROWS / 2, "a group that knows the key"
                assert read[2] == ROWS
                assert "values" in str(sidestep.metrics(df))
            assert "when the query runs" in str(sidestep.explain(spark.sql(of("grouped", asked))))


def scans_of_groups(df) -> dict[int, tuple[int, int]]:
    """As ``scans``, of the column groups alone."""
    return {group: read for group, read in scans(df).items() if group >= 0}
