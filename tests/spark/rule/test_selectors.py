"""What is known only when a query runs also decides what is read: files and row groups, of any table."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import sidestep
from sidestep.prune import Scan
from sidestep.prune.plan.algebra import walk
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.plan_reader import read_plan
from sidestep.spark.rule.metrics import ScanMetrics
from tests.spark.laidout import lay_out
from tests.spark.tables import data_files, rows_of, set_age, settings, switched_off, with_only, write_file

FILES, ROWS = 8, 100
DAY = datetime.date(2024, 1, 1)


@pytest.fixture(scope="module")
def root(spark, tmp_path_factory):
    """fact: keys 0 to 799 in eight files of two row groups; dim: one file, one block, so that no key is told by it."""
    root = tmp_path_factory.mktemp("selectors")
    for number in range(FILES):
        keys = list(range(ROWS * number, ROWS * number + ROWS))
        data = {
            "k": pa.array([None if key % 50 == 7 else key for key in keys], pa.int64()),
            "i": pa.array(keys, pa.int32()),
            "day": [DAY + datetime.timedelta(days=key) for key in keys],
            "s": [f"s{key:04d}" for key in keys],
            "p": pa.array([Decimal(key) / 4 for key in keys], pa.decimal128(9, 2)),
            "v": [float(key) for key in keys],
        }
        write_file(root / "fact" / f"f{number}.parquet", pa.table(data), row_group_size=ROWS // 2)
    keys = list(range(-20, FILES * ROWS + 20))
    dim = {
        "k": pa.array([None if key % 60 == 5 else key for key in keys], pa.int64()),
        "i": pa.array(keys, pa.int32()),
        "day": [DAY + datetime.timedelta(days=key) for key in keys],
        "s": [f"s{key:04d}" for key in keys],
        "p": pa.array([Decimal(key) / 4 for key in keys], pa.decimal128(9, 2)),
        "g": [key % 7 for key in keys],
        "y": [key // ROWS for key in keys],
    }
    write_file(root / "dim" / "f0.parquet", pa.table(dim))
    for name in ("fact", "dim"):
        sidestep.index(spark, str(root / name))
    return root


@pytest.fixture(autouse=True)
def views(spark, root, enabled):
    for name in ("fact", "dim"):
        spark.read.parquet(str(root / name)).createOrReplaceTempView(name)
    # The dimension is small enough to be known to the row: then there would be nothing left to choose by its keys.
    with settings(spark, spark__sidestep__selectors__leastGain="0", spark__sidestep__induced__smallRows="0"):
        yield
    for name in ("fact", "dim"):
        spark.catalog.dropTempView(name)


def checked(spark, query: str, fact: str = "fact") -> ScanMetrics:
    """The query's answer is the same with skipping on and off; what was read of the fact table."""
    with switched_off(spark):
        expected = rows_of(spark.sql(query))
    frame = spark.sql(query)
    assert rows_of(frame) == expected
    return scan_of(frame, fact)


def scan_of(frame: DataFrame, fact: str = "fact") -> ScanMetrics:
    (scan,) = (scan for scan in sidestep.metrics(frame).scans if scan.table.endswith(fact))
    return scan


@pytest.fixture(params=["adaptive, broadcast", "fixed, shuffled"])
def planning(spark, request):
    adaptive, join = request.param.split(", ")
    threshold = "10485760" if join == "broadcast" else "-1"
    with settings(
        spark,
        spark__sql__adaptive__enabled=str(adaptive == "adaptive").lower(),
        spark__sql__autoBroadcastJoinThreshold=threshold,
    ):
        yield request.param


@pytest.mark.parametrize(
    ("query", "files", "rows"),
    [
        ("SELECT v FROM fact JOIN dim USING (k) WHERE y = 3 AND g = 2", 1, 100),
        ("SELECT v FROM fact JOIN dim USING (i) WHERE y = 3 AND g < 9 AND dim.k < 330", 1, 50),
        ("SELECT v FROM fact JOIN dim USING (day) WHERE y IN (2, 6) AND g = 1", 2, 200),
        ("SELECT v FROM fact JOIN dim USING (s) WHERE y = 5 AND g = 3", 1, 100),
        ("SELECT v FROM fact JOIN dim USING (p) WHERE y = 5 AND g = 3", 1, 100),
        ("SELECT v FROM fact JOIN dim ON fact.i = dim.k WHERE y = 4 AND g = 3", 1, 100),
        ("SELECT v FROM fact JOIN dim ON fact.k = dim.k + 100 WHERE y = 4 AND g = 3", 1, 100),
        ("SELECT v FROM fact WHERE k IN (SELECT k FROM dim WHERE y = 1 AND g = 0)", 1, 100),
        ("SELECT v FROM fact WHERE EXISTS (SELECT 1 FROM dim WHERE dim.k = fact.k AND y = 7 AND g = 0)", 1, 100),
        (
            "SELECT v FROM dim RIGHT JOIN (SELECT * FROM dim WHERE y = 2 AND g = 2) d USING (k) JOIN fact USING (k)",
            1,
            100,
        ),
        ("SELECT v, g FROM dim d LEFT JOIN fact USING (k) WHERE y = 2 AND g = 2", 1, 100),
    ],
)
def test_keys_of_a_join_choose_files(spark, planning, query, files, rows):
    scan = checked(spark, query)
    assert (scan.files, scan.planned_files) == (files, FILES)
    assert scan.rows <= rows
    assert [each.values is not None for each in scan.selectors] == [True]


@pytest.mark.parametrize(
    ("query", "files", "rows"),
    [
        ("SELECT v FROM fact WHERE k = (SELECT max(k) FROM dim WHERE y = 3)", 1, 50),
        ("SELECT v FROM fact WHERE k BETWEEN (SELECT min(k) FROM dim WHERE y = 3) AND (SELECT 420)", 2, 150),
        ("SELECT v FROM fact WHERE k >= (SELECT max(k) - 10 FROM dim WHERE y = 6) AND v >= 0", 2, 150),
        ("SELECT v FROM fact WHERE day = (SELECT max(day) FROM dim WHERE y = 3 AND g = 1)", 1, 50),
        ("SELECT v FROM fact WHERE s > (SELECT max(s) FROM dim WHERE y = 6) AND s LIKE 's%'", 1, 100),
        (
            "SELECT v FROM fact WHERE k = (SELECT max(k) FROM dim WHERE y = 3) OR k = (SELECT min(k) FROM dim)",
            1,
            100,
        ),
        ("SELECT v FROM fact WHERE k = (SELECT max(k) FROM dim WHERE y = 99)", 0, 0),
        ("SELECT sum(v) FROM fact WHERE k IN ((SELECT 3L), (SELECT 705L))", 2, 100),
    ],
)
def test_subqueries_are_constants_that_come_late(spark, planning, query, files, rows):
    scan = checked(spark, query)
    assert scan.files == files
    assert scan.rows <= rows


def test_a_union_passes_choices_to_its_inputs(spark, planning):
    both = "SELECT k AS key, v FROM fact WHERE v < 450 UNION ALL SELECT CAST(i AS BIGINT), v FROM fact WHERE v >= 350"
    query = f"SELECT key, v FROM ({both}) t JOIN dim ON key = dim.k WHERE y = 4 AND g = 2"
    with switched_off(spark):
        expected = rows_of(spark.sql(query))
    frame = spark.sql(query)
    assert rows_of(frame) == expected
    facts = [scan.files for scan in sidestep.metrics(frame).scans if scan.table.endswith("fact")]
    assert facts[0] == 1, "the column itself; what is cast for the union is not told"


def test_parts_that_are_the_same_but_for_what_chooses_choose(spark, planning):
    part = "SELECT v FROM fact JOIN dim USING (k) WHERE y = {} AND g = 2"
    query = f"{part.format(2)} UNION ALL {part.format(5)}"
    with switched_off(spark):
        expected = rows_of(spark.sql(query))
    frame = spark.sql(query)
    assert rows_of(frame) == expected
    assert [scan.files for scan in sidestep.metrics(frame).scans if scan.table.endswith("fact")] == [1, 1]


def fact_scans(spark, query: str) -> tuple[list[ScanMetrics], list[ScanMetrics]]:
    """What is read of the fact table by each of its scans, without skipping and with it; the answer is the same."""
    with switched_off(spark):
        frame = spark.sql(query)
        expected = rows_of(frame)
        off = [scan for scan in sidestep.metrics(frame).scans if scan.table.endswith("fact")]
    frame = spark.sql(query)
    assert rows_of(frame) == expected
    return off, [scan for scan in sidestep.metrics(frame).scans if scan.table.endswith("fact")]


FEW = "SELECT fact.k FROM fact JOIN dim USING (k) WHERE y = 3 AND g = 2"
MOST = "SELECT max(fact.k) AS most FROM fact JOIN dim USING (k) WHERE y = 2 AND g = 1"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT a.v, b.g FROM fact a JOIN dim b ON a.k = b.k WHERE a.k IN ({FEW})",
        f"WITH m AS ({MOST}) SELECT k FROM dim WHERE k > (SELECT most FROM m) "
        "UNION ALL SELECT i FROM dim WHERE i < (SELECT most FROM m)",
    ],
)
def test_copies_of_a_scan_are_chosen_from_alike(spark, planning, root, tmp_path, query):
    """Spark asks an IN of both sides of a join, and has a subquery at several places: copies under the same ids."""
    with switched_off(spark):
        plan = Bridge(spark).factory().describe(spark.sql(query)._jdf.queryExecution().optimizedPlan())
    copies = Counter(scan.key for scan in read_scans(plan))
    assert max(copies.values()) > 1, "the test can see nothing if Spark copies nothing"
    off, on = fact_scans(spark, query)
    # Adaptive plans find an exchange again only if both copies are ready for it at the same time.
    assert len(off) <= len(on) <= (max(copies.values()) + 1 if "adaptive" in planning else len(off))
    assert {scan.files for scan in on} == {1}
    assert all(scan.selectors for scan in on)
    paths = sorted({path for scan in on for path in scan.paths})
    expected = rows_of(spark.sql(query))
    spark.read.parquet(str(with_only(root / "fact", paths, tmp_path / "left"))).createOrReplaceTempView("fact")
    with switched_off(spark):
        assert rows_of(spark.sql(query)) == expected


def read_scans(plan: str) -> list[Scan]:
    return [each for root in read_plan(plan).plans for each in walk(root) if isinstance(each, Scan)]


def test_what_chooses_for_one_copy_alone_is_left_out(spark, tmp_path):
    """Spark prunes folders by what it broadcasts, and knows it by a copy: the two must stay the same."""
    for number in range(0, 800, 100):
        write_file(tmp_path / "folders" / f"part={number}" / "f.parquet", {"w": [number, number + 1]})
    spark.read.parquet(str(tmp_path / "folders")).createOrReplaceTempView("folders")
    inner = "SELECT fact.i - fact.i % 100 AS part, fact.i FROM fact JOIN dim USING (k) WHERE y = 3 AND g = 2"
    joins = f"folders JOIN ({inner}) x USING (part) JOIN dim e ON x.i = e.i"
    query = f"SELECT /*+ BROADCAST(x) */ w FROM {joins} WHERE e.y IN (2, 3) AND e.g = 2"
    with switched_off(spark):
        frame = spark.sql(query)
        expected = rows_of(frame)
        assert scan_of(frame, "folders").files == 1
    frame = spark.sql(query)
    assert rows_of(frame) == expected
    assert scan_of(frame, "folders").files == 1
    spark.catalog.dropTempView("folders")


def test_a_chosen_scan_can_be_read_after_a_collection_of_garbage(spark, planning):
    """Settings go to executors by a broadcast, which Spark removes when the driver holds it no longer."""
    query = "SELECT sum(v) FROM fact JOIN dim USING (k) WHERE y < 7 AND g = 2"
    with settings(spark, spark__sql__files__maxPartitionBytes="600", spark__sql__files__openCostInBytes="1"):
        rows = spark.sql(query).toLocalIterator()
        spark._jvm.java.lang.System.gc()
        assert len(list(rows)) == 1
        frame = spark.sql(query.replace("sum(v)", "v"))
        tasks = frame.rdd.mapPartitions(lambda each: [sum(1 for _ in each)])
        spark._jvm.java.lang.System.gc()
        assert sum(tasks.collect()) == frame.count()


def test_a_band_is_read_between_the_least_and_the_greatest_key(spark, planning):
    query = (
        "SELECT v FROM fact JOIN (SELECT k AS low, k + 9 AS high FROM dim WHERE y = 3 AND g = 2) b "
        "ON fact.k BETWEEN b.low AND b.high"
    )
    assert checked(spark, query).files == 2


def test_all_dimensions_of_a_star_choose(spark, planning):
    query = (
        "SELECT v FROM fact JOIN dim a ON fact.k = a.k JOIN dim b ON fact.i = b.i "
        "WHERE a.y BETWEEN 2 AND 4 AND a.g = 1 AND b.y BETWEEN 4 AND 6 AND b.g = 1"
    )
    scan = checked(spark, query)
    assert scan.files == 1
    assert len(scan.selectors) == 2


def test_each_occurrence_of_a_table_has_a_choice_of_its_own(spark, planning):
    query = (
        "SELECT a.v, b.v FROM fact a JOIN dim d ON a.k = d.k AND d.y = 1 AND d.g = 1, "
        "fact b JOIN dim e ON b.k = e.k AND e.y = 6 AND e.g = 1"
    )
    with switched_off(spark):
        expected = rows_of(spark.sql(query))
    frame = spark.sql(query)
    assert rows_of(frame) == expected
    facts = [scan for scan in sidestep.metrics(frame).scans if scan.table.endswith("fact")]
    assert sorted(scan.paths[0][-10:] for scan in facts) == ["f1.parquet", "f6.parquet"]


@pytest.mark.parametrize(
    "rows",
    ["VALUES (CAST(3 AS BIGINT)), (705), (NULL) AS b(k)", "(SELECT CAST(id AS BIGINT) AS k FROM range(300, 305)) b"],
)
def test_the_other_input_need_not_be_a_table(spark, planning, rows):
    scan = checked(spark, f"SELECT v FROM fact JOIN {rows} USING (k)")
    assert scan.files == (2 if "705" in rows else 1)


def test_a_cached_input_chooses_too(spark, planning):
    batch = spark.sql("SELECT k FROM dim WHERE y = 2 AND g = 0").cache()
    try:
        assert batch.count()
        batch.createOrReplaceTempView("batch")
        assert checked(spark, "SELECT v FROM fact JOIN batch USING (k)").files == 1
    finally:
        batch.unpersist()
        spark.catalog.dropTempView("batch")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT v FROM fact JOIN dim USING (k) WHERE y = 3 AND g = 99",
        "SELECT v FROM fact JOIN dim USING (k) WHERE y = 3 AND k IS NULL AND g = 1",
    ],
)
def test_where_the_other_input_is_empty_nothing_is_read(spark, planning, query):
    with switched_off(spark):
        assert spark.sql(query).collect() == []
    frame = spark.sql(query)
    assert frame.collect() == []
    assert sum(scan.rows for scan in sidestep.metrics(frame).scans if scan.table.endswith("fact")) == 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT v FROM fact LEFT JOIN (SELECT * FROM dim WHERE y = 3 AND g = 2) d USING (k)",
        "SELECT v FROM fact FULL JOIN (SELECT * FROM dim WHERE y = 3 AND g = 2) d USING (k)",
        "SELECT v FROM fact WHERE k NOT IN (SELECT k FROM dim WHERE y = 3 AND g = 2 AND k IS NOT NULL)",
        "SELECT v FROM fact WHERE NOT EXISTS (SELECT 1 FROM dim WHERE dim.k = fact.k AND y = 3 AND g = 2)",
        "SELECT v FROM fact JOIN (SELECT * FROM dim WHERE y = 3 AND g = 2) d ON fact.k <> d.k WHERE v < 20",
        "SELECT v FROM fact JOIN (SELECT * FROM dim WHERE y = 3 AND g = 2) d ON fact.k <=> d.k",
        "SELECT v, rand() < 2 FROM fact JOIN dim USING (k) WHERE y = 3 AND g = 2",
        "SELECT count(*) FROM (SELECT * FROM fact LIMIT 700) JOIN dim USING (k) WHERE y = 3 AND g > 9",
    ],
)
def test_what_must_be_read_is(spark, planning, query):
    """Rows without a partner matter in these, or rows of which nothing can be told."""
    with switched_off(spark):
        expected = rows_of(spark.sql(query))
    assert rows_of(spark.sql(query)) == expected


def test_no_key_is_lost_if_the_subquery_gives_others_each_time(spark, planning):
    query = (
        "SELECT count(*) FROM fact JOIN (SELECT k FROM dim WHERE k IS NOT NULL ORDER BY rand() LIMIT 20) d USING (k)"
    )
    with switched_off(spark):
        least = len(
            spark.sql(
                "SELECT k FROM dim WHERE k IS NOT NULL AND k NOT IN (SELECT k FROM fact WHERE k IS NOT NULL)"
            ).collect()
        )
    for _ in range(3):
        assert spark.sql(query).collect()[0][0] >= 20 - least


@pytest.mark.parametrize(
    ("key", "again"),
    [
        ("max(k)", True),
        ("sum(k) DIV 20", True),
        ("max_by(k, g)", False),
        ("CAST(sum(CAST(k AS double)) AS bigint)", False),
        ("count(*) + max_by(k, g)", False),
    ],
)
def test_an_input_that_goes_by_the_order_of_its_rows_is_not_run_again(spark, key, again):
    """Rows that are alike to max_by come in another order the second time, and the digits of a sum of floats differ."""
    inner = f"SELECT y, {key} AS k FROM dim WHERE g = 2 GROUP BY y"
    for having in ("", " HAVING k > 0"):
        with settings(spark, spark__sql__autoBroadcastJoinThreshold="-1"):
            scan = checked(spark, f"SELECT v FROM fact JOIN ({inner}{having}) d USING (k)")
        assert [each.values is not None for each in scan.selectors] == [True] * again


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_subquery_that_would_run_twice_chooses_nothing(spark, adaptive):
    settled = {"spark__sql__adaptive__enabled": adaptive, "spark__sql__execution__reuseSubquery": "false"}
    with settings(spark, **settled):
        scan = checked(spark, "SELECT v FROM fact WHERE k = (SELECT max(k) FROM dim WHERE y = 3)")
    assert (scan.files, scan.selectors) == (FILES, ())


def test_the_error_of_a_subquery_is_the_query_s_own(spark, planning):
    with pytest.raises(Exception, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        spark.sql("SELECT v FROM fact WHERE k = (SELECT k FROM dim WHERE y = 3)").collect()


def test_parameters_and_variables_are_known_early(spark, planning):
    frame = spark.sql("SELECT v FROM fact WHERE k = :key", args={"key": 250})
    assert len(frame.collect()) == 1
    assert scan_of(frame).files == 1
    spark.sql("DECLARE OR REPLACE VARIABLE wanted BIGINT DEFAULT 350")
    frame = spark.sql("SELECT v FROM fact WHERE k = wanted")
    assert len(frame.collect()) == 1
    assert scan_of(frame).files == 1


def test_a_laid_out_table_reads_the_chosen_blocks(spark, planning, tmp_path):
    blocks = [
        [pa.table({"k": list(range(10 * b, 10 * b + 10)), "v": [float(b)] * 10}) for b in range(4 * f, 4 * f + 4)]
        for f in range(4)
    ]
    table = lay_out(tmp_path / "laid", blocks)
    sidestep.index(spark, table)
    sidestep.read(spark, table).createOrReplaceTempView("laid")
    scan = checked(spark, "SELECT v FROM laid WHERE k = (SELECT max(k) FROM dim WHERE k < 47)", "laid")
    assert (scan.files, scan.rows) == (1, 10)
    scan = checked(spark, "SELECT laid.v FROM laid JOIN dim USING (k) WHERE g = 3 AND k BETWEEN 20 AND 59", "laid")
    assert scan.files == 2
    assert scan.rows <= 40
    spark.catalog.dropTempView("laid")


def test_files_that_were_not_chosen_may_go(spark, root, tmp_path):
    query = "SELECT v FROM fact JOIN dim USING (k) WHERE y IN (1, 5) AND g = 2"
    frame = spark.sql(query)
    expected = rows_of(frame)
    kept = scan_of(frame).paths
    assert len(kept) < len(data_files(root / "fact"))
    spark.read.parquet(str(with_only(root / "fact", kept, tmp_path / "left"))).createOrReplaceTempView("fact")
    with switched_off(spark):
        assert rows_of(spark.sql(query)) == expected


def test_a_file_that_changes_after_planning_is_read(spark, planning, tmp_path):
    for number in range(4):
        write_file(tmp_path / "live" / f"f{number}.parquet", {"k": list(range(10 * number, 10 * number + 10))})
    sidestep.index(spark, str(tmp_path / "live"))
    spark.read.parquet(str(tmp_path / "live")).createOrReplaceTempView("live")
    frame = spark.sql("SELECT live.k FROM live JOIN dim USING (k) WHERE y = 0 AND g = 4 AND dim.k < 10")
    frame._jdf.queryExecution().executedPlan()
    set_age(write_file(tmp_path / "live" / "f3.parquet", {"k": [4, 4, 4]}), -5)
    assert len([row for row in frame.collect() if row.k == 4]) == 4
    spark.catalog.dropTempView("live")


def test_files_without_an_entry_are_read(spark, planning, tmp_path):
    for number in range(4):
        write_file(tmp_path / "live" / f"f{number}.parquet", {"k": list(range(10 * number, 10 * number + 10))})
    sidestep.index(spark, str(tmp_path / "live"))
    write_file(tmp_path / "live" / "f9.parquet", {"k": [4, 4, 400]})
    spark.read.parquet(str(tmp_path / "live")).createOrReplaceTempView("live")
    query = "SELECT live.k FROM live JOIN dim USING (k) WHERE y = 0 AND g = 4 AND dim.k < 10"
    assert checked(spark, query, "live").files == 2
    query = "SELECT k FROM live WHERE k = (SELECT max(k) FROM dim WHERE y = 4 AND k <= 400)"
    assert checked(spark, query, "live").files == 1
    spark.catalog.dropTempView("live")


def test_partition_folders_and_their_own_pruning_stay(spark, planning, tmp_path):
    for number in range(6):
        name = "__HIVE_DEFAULT_PARTITION__" if number == 5 else str(number)
        data = {"k": list(range(10 * number, 10 * number + 10)), "v": [float(number)] * 10}
        write_file(tmp_path / "folders" / f"part={name}" / "f.parquet", data)
    sidestep.index(spark, str(tmp_path / "folders"))
    spark.read.parquet(str(tmp_path / "folders")).createOrReplaceTempView("folders")
    query = "SELECT folders.v FROM folders JOIN dim ON part = dim.k WHERE dim.k IN (1, 3) AND g < 9"
    assert checked(spark, query, "folders").files <= (2 if "broadcast" in planning else 6)
    query = "SELECT part, folders.v FROM folders JOIN dim USING (k) WHERE y = 0 AND g = 5 AND dim.k > 40"
    assert checked(spark, query, "folders").files <= 2
    query = "SELECT part, v FROM folders WHERE part = (SELECT max(g) FROM dim WHERE g < 3)"
    assert checked(spark, query, "folders").files <= 1
    spark.catalog.dropTempView("folders")


def test_explain_and_metrics_tell_of_choices(spark):
    query = "SELECT v FROM fact JOIN dim USING (k) WHERE y = 3 AND g = 2 AND v > (SELECT min(v) FROM fact)"
    text = str(sidestep.explain(query))
    assert "chooses when the query runs, by the join's broadcast" in text
    assert "by the query's own subquery" in text
    frame = spark.sql(query)
    frame.collect()
    told = str(sidestep.metrics(frame))
    assert "What was chosen when it ran" in told
    assert "of 8" in told
    with settings(spark, spark__sidestep__selectors="false"):
        assert "chooses when" not in str(sidestep.explain(query))


def test_small_scans_and_unfiltered_inputs_are_left_alone(spark):
    query = "SELECT v FROM fact JOIN dim USING (k)"
    assert checked(spark, query).selectors == ()
    with settings(spark, spark__sidestep__selectors__leastBytes="100000000"):
        assert checked(spark, f"{query} WHERE y = 3 AND g = 2").selectors == ()


def test_an_input_is_not_run_again_for_a_table_as_large(spark):
    """Neither of which reads all columns: by what both would read, nothing is to be gained."""
    query = "SELECT a.v FROM fact a JOIN fact b ON a.i = b.i WHERE b.i % 10 = 3"
    with settings(spark, spark__sidestep__selectors__leastGain="1.7", spark__sql__autoBroadcastJoinThreshold="-1"):
        frame = spark.sql(query)
        assert len(frame.collect()) == FILES * ROWS // 10
        assert [scan.files for scan in sidestep.metrics(frame).scans] == [FILES, FILES]


def test_plans_do_not_grow_with_the_number_of_files_or_blocks(spark, tmp_path):
    sizes = []
    for count in (32, 256):
        blocks = [
            [pa.table({"k": [2 * (2 * f + b), 2 * (2 * f + b) + 1]}) for b in range(2)] for f in range(count // 2)
        ]
        table = lay_out(tmp_path / f"t{count}", blocks)
        sidestep.index(spark, table)
        frame = sidestep.read(spark, table)
        frame.createOrReplaceTempView("laid")
        asked = spark.sql("SELECT * FROM laid WHERE k < 1000000 AND k >= (SELECT max(k) FROM dim WHERE y = 0)")
        sizes.append(len(asked._jdf.queryExecution().optimizedPlan().toString()))
        assert asked.count() >= 0
    spark.catalog.dropTempView("laid")
    assert abs(sizes[1] - sizes[0]) < 20
