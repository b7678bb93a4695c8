"""Queries on base tables that a denormalized one stands for: the same rows, read from it, as long as it is fresh."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from py4j.protocol import Py4JJavaError

import sidestep
from sidestep.errors import SidestepError
from sidestep.spark.log.recording import read_recording

TABLES = ("fact", "a", "b", "c")
LOG = [
    "SELECT sum(f_v) FROM fact JOIN a ON f_a = a_id WHERE a_name = 'n1'",
    "SELECT sum(f_v), max(f_id) FROM fact JOIN b ON f_b = b_id WHERE b_x < 3",
    "SELECT sum(f_v) FROM fact JOIN a ON f_a = a_id JOIN c ON a_c = c_id WHERE c_n = 2",
    "SELECT sum(f_v) FROM fact JOIN c ON f_c = c_id WHERE c_n = 1 AND f_v > 3",
    "SELECT count(*) FROM fact WHERE f_v < 4",
]
ALWAYS = "spark.sidestep.denormalized.leastGain"


def write(folder: Path, rows: list[dict[str, Any]], schema: pa.Schema, files: int = 2) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        part = rows[number::files]
        pq.write_table(pa.Table.from_pylist(part, schema=schema), folder / f"part-{number}.parquet", row_group_size=16)


def make_tables(root: Path, random: Random, total: bool) -> dict[str, str]:
    """A snowflake: fact to a and b, fact and a to c. Unless total, keys are NULL, dangling, or NULL in dimensions."""

    def key(most: int) -> int | None:
        return random.randrange(most) if total else random.choice([None, *range(most + 2)])

    ints, text = pa.int32(), pa.string()
    c = [{"c_id": i, "c_n": random.randrange(4)} for i in range(5)]
    a = [{"a_id": i, "a_c": key(5), "a_name": f"n{random.randrange(4)}"} for i in range(8)]
    b = [{"b_id": i, "b_x": random.choice([None, *range(6)])} for i in range(6)]
    if not total:
        b += [{"b_id": None, "b_x": 1}, {"b_id": None, "b_x": 2}]
    fact = [
        {"f_id": i, "f_a": key(8), "f_b": key(6), "f_c": key(5), "f_v": random.randrange(10), "f_unused": i}
        for i in range(120)
    ]
    schemas = {
        "fact": pa.schema([(n, ints) for n in ("f_id", "f_a", "f_b", "f_c", "f_v", "f_unused")]),
        "a": pa.schema([("a_id", ints), ("a_c", ints), ("a_name", text)]),
        "b": pa.schema([("b_id", ints), ("b_x", ints)]),
        "c": pa.schema([("c_id", ints), ("c_n", ints)]),
    }
    for name, rows in (("fact", fact), ("a", a), ("b", b), ("c", c)):
        write(root / name, rows, schemas[name])
    return {name: str(root / name) for name in TABLES}


def denormalize(spark, tables: dict[str, str], target: Path, **options):
    return sidestep.denormalize(spark, LOG, tables, target, fact="fact", layout="sop", min_size=10, **options)


def register(spark, tables: dict[str, str]) -> None:
    for name, path in tables.items():
        spark.read.parquet(path).createOrReplaceTempView(name)


@pytest.fixture(scope="module", params=[True, False], ids=["total", "dangling"])
def made(request, spark, tmp_path_factory):
    """Base tables, where the denormalized one is, and what was said of it."""
    root = tmp_path_factory.mktemp("denormal")
    tables = make_tables(root, Random(7), request.param)
    report = denormalize(spark, tables, root / "joined")
    return tables, root / "joined", report, request.param


@pytest.fixture
def always(spark):
    spark.conf.set(ALWAYS, "0")
    yield
    spark.conf.unset(ALWAYS)


def rows(frame) -> Counter[str]:
    return Counter(map(str, frame.collect()))


def roots_read(frame) -> set[str]:
    return {Path(scan.table).name for scan in sidestep.metrics(frame).scans}


def on_and_off(spark, sql: str) -> bool:
    """Whether the query was rewritten; its rows are the same either way."""
    off = rows(spark.sql(sql))
    with sidestep.enable(spark) as enabled:
        frame = spark.sql(sql)
        assert rows(frame) == off, sql
        assert not enabled.last_problem
        return "joined" in roots_read(frame)


def test_the_report_says_what_was_made(made):
    _, _, report, total = made
    text = str(report)
    assert report.rows == 120
    assert (report.queries, report.rewritten) == (5, 5)
    assert ("for rows that have a partner" in text) == (not total)
    assert "f_unused" not in report.columns, "no query of the log uses it"
    assert {"f_v", "a_name", "b_x", "c_c_n", "a_c_c_n"} <= set(report.columns) or "c_n" in text
    assert report.to_dict()["load"]["rows"] == 120


@pytest.mark.parametrize(
    "sql",
    [
        *LOG,
        "SELECT f_id, f_a, a_id, a_name FROM fact JOIN a ON f_a = a_id",
        "SELECT f_id, a_name FROM fact LEFT JOIN a ON f_a = a_id",
        "SELECT f_id, a_name FROM a RIGHT JOIN fact ON f_a = a_id WHERE f_v > 2",
        "SELECT f_id, n, coalesce(n, '-') FROM fact LEFT JOIN (SELECT a_id, a_name AS n FROM a) ON f_a = a_id",
        "SELECT f_id FROM fact LEFT SEMI JOIN a ON f_a = a_id AND a_name > 'n1'",
        "SELECT f_id FROM fact WHERE f_a IN (SELECT a_id FROM a WHERE a_name = 'n2')",
        "SELECT f_id, x.c_n, y.c_n, a_name FROM fact JOIN a ON f_a = a_id JOIN c x ON a_c = x.c_id "
        "JOIN c y ON f_c = y.c_id WHERE x.c_n <= y.c_n",
        "SELECT f_id, x.b_x, y.b_x FROM fact JOIN b x ON f_b = x.b_id JOIN b y ON f_b = y.b_id",
        "SELECT a_name, count(*), sum(f_v * 2) FROM fact, a WHERE f_a = a_id AND f_v + 1 > 3 GROUP BY a_name",
        "SELECT f_id FROM fact JOIN c ON f_c = c_id WHERE c_id > 1",
        "SELECT count(*) FROM fact JOIN b ON f_b = b_id",
        "SELECT a_name, (SELECT max(f_v) FROM fact JOIN b ON f_b = b_id WHERE b_x = 1) FROM a",
    ],
)
def test_what_is_read_from_the_denormalized_table(spark, made, always, sql):
    register(spark, made[0])
    assert on_and_off(spark, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT f_unused, a_name FROM fact JOIN a ON f_a = a_id",
        "SELECT a_name FROM a WHERE a_id > 2",
        "SELECT a_name, c_n FROM a JOIN c ON a_c = c_id",
        "SELECT f_id, rand() FROM fact JOIN a ON f_a = a_id WHERE rand() < 2",
        "SELECT count(*) FROM fact TABLESAMPLE (100 PERCENT)",
        "SELECT count(DISTINCT file) FROM (SELECT input_file_name() AS file FROM fact)",
        "SELECT count(DISTINCT _metadata.file_path) FROM {fact}",
    ],
)
def test_what_is_left_alone(spark, made, always, sql):
    register(spark, made[0])
    sql = sql.format(fact=f"parquet.`{made[0]['fact']}`")
    off = spark.sql(sql)
    with sidestep.enable(spark):
        frame = spark.sql(sql)
        if "rand()" not in sql:
            assert rows(frame) == rows(off)
        frame.collect()
        assert "joined" not in roots_read(frame)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a_name FROM a WHERE EXISTS (SELECT 1 FROM fact WHERE f_a = a_id AND f_v + a_id > 12)",
        "SELECT a_name FROM a LEFT ANTI JOIN fact ON f_a = a_id",
        "SELECT f_id, a_name FROM fact FULL JOIN a ON f_a = a_id",
        "SELECT f_id, n FROM fact LEFT JOIN (SELECT a_id, coalesce(a_name, '-') AS n FROM a) ON f_a = a_id",
        "SELECT f_id FROM fact LEFT JOIN (SELECT a_id, true AS known FROM a) ON f_a = a_id WHERE known IS NULL",
        "SELECT f_id, n FROM (SELECT a_id, a_name IS NULL AS n FROM a) RIGHT JOIN fact ON f_a = a_id",
        "SELECT x.f_id, y.f_id FROM fact x JOIN fact y ON x.f_a = y.f_b WHERE x.f_v < 3",
        "SELECT a_name, n FROM a JOIN (SELECT f_a, count(*) AS n FROM fact GROUP BY f_a) ON f_a = a_id",
    ],
)
def test_where_the_fact_alone_is_read_from_it(spark, made, always, sql):
    register(spark, made[0])
    assert on_and_off(spark, sql)
    with sidestep.enable(spark):
        assert {scan.table for scan in sidestep.explain(spark.sql(sql)).scans} <= {"joined", "a"}


def test_what_fails_for_a_row_without_a_partner_is_not_asked_of_it(spark, made, always):
    """Such a row is none of the join's, and in the denormalized table it has NULL where no row of the join has."""
    register(spark, made[0])
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        # Of two columns of a: of one that is compared with f_a, Spark asks the same of f_a.
        fails = "9 / (coalesce(a_id, -1) + 1 + coalesce(a_c, 0) % 1)"
        assert on_and_off(spark, f"SELECT f_id FROM fact JOIN a ON f_a = a_id WHERE {fails} > 1")
        assert on_and_off(spark, f"SELECT f_id FROM a JOIN fact ON f_a = a_id AND f_v > {fails}")
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")


def random_query(random: Random) -> str:
    joins, shown, conditions = [], ["f_id", "f_v"], []
    dims = random.sample(["a", "b", "c"], random.randint(0, 3))
    for dim in dims:
        key = {"a": "f_a", "b": "f_b", "c": random.choice(["f_c", "a_c"] if "a" in shown else ["f_c"])}[dim]
        kind = random.choice(["JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "FULL JOIN"])
        on = f"{key if key in ('f_a', 'f_b', 'f_c') or 'a_name' in shown else 'f_c'} = {dim}_id"
        value = {"a": "a_name", "b": "b_x", "c": "c_n"}[dim]
        test = {"a": "a_name >= 'n2'", "b": "b_x < 4", "c": "c_n <> 1"}[dim]
        if random.random() < 0.2:
            on += f" AND {test}"
        joins.append(f"{kind} {dim} ON {on}")
        if "SEMI" not in kind and "ANTI" not in kind:
            shown += [value, f"{dim}_id"]
            conditions.append(random.choice([test, f"{value} IS NULL", f"coalesce({dim}_id, 0) < 5"]))
    conditions += ["f_v > 4", "f_a = f_b", "f_c IS NOT NULL OR f_v = 3"]
    where = random.sample(conditions, random.randint(0, 2))
    text = f"FROM fact {' '.join(joins)}" + (f" WHERE {' AND '.join(where)}" if where else "")
    if random.random() < 0.3:
        return f"SELECT {shown[-1]}, count(*), sum(f_v) {text} GROUP BY {shown[-1]}"
    return f"SELECT {', '.join(shown)} {text}"


def test_random_queries_give_the_same_rows(spark, made, always):
    register(spark, made[0])
    random = Random(3)
    rewritten = [on_and_off(spark, random_query(random)) for _ in range(14)]
    assert sum(rewritten) >= 8, "a rule that never rewrites is right, and useless"


def test_recordings_tell_of_the_base_tables(spark, made, always, tmp_path):
    register(spark, made[0])
    path = tmp_path / "log.jsonl"
    with sidestep.enable(spark, record=str(path)):
        frame = spark.sql(LOG[0])
        frame.collect()
        assert roots_read(frame) == {"joined"}
    (query,) = read_recording(path).queries
    assert {use.table for use in query.uses} == {"fact", "a"}
    assert len(query.joins) == 1


def test_the_stage_can_be_switched_off(spark, made, always):
    register(spark, made[0])
    spark.conf.set("spark.sidestep.stages.denormalized", "false")
    try:
        assert not on_and_off(spark, LOG[0])
        with sidestep.enable(spark):
            assert sidestep.explain(spark.sql(LOG[0])).stages[0].off
    finally:
        spark.conf.unset("spark.sidestep.stages.denormalized")


def test_explain_says_what_is_read_instead_and_why_not(spark, made, always):
    register(spark, made[0])
    with sidestep.enable(spark):
        instead = sidestep.explain(spark.sql(LOG[0]))
        assert [scan.table for scan in instead.scans] == ["joined"]
        assert any("is read in place of the join of fact and a" in note for note in instead.notes)
        missing = sidestep.explain(spark.sql("SELECT f_unused, a_name FROM fact JOIN a ON f_a = a_id"))
        assert any("does not hold fact.f_unused" in note for note in missing.notes)
        spark.conf.set(ALWAYS, "1000000")
        dear = sidestep.explain(spark.sql("SELECT * FROM (SELECT f_id FROM fact) JOIN a"))
        assert not any("in place of" in note for note in dear.notes)
        costly = sidestep.explain(spark.sql(LOG[0]))
        assert any("would be read of it" in note for note in costly.notes)


def test_by_other_settings_or_options_nothing_is_rewritten(spark, made, always):
    tables = made[0]
    register(spark, tables)
    assert on_and_off(spark, LOG[0])
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    try:
        assert not on_and_off(spark, LOG[0])
    finally:
        spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInRead")
    spark.read.option("datetimeRebaseMode", "LEGACY").parquet(tables["a"]).createOrReplaceTempView("a")
    assert not on_and_off(spark, LOG[0])
    spark.read.schema("a_id bigint, a_c int, a_name string").parquet(tables["a"]).createOrReplaceTempView("a")
    assert "a" in read_by(spark, "SELECT f_id, a_name FROM fact JOIN a ON f_a = a_id"), "it is not the same comparison"


def read_by(spark, sql: str) -> set[str]:
    with sidestep.enable(spark):
        frame = spark.sql(sql)
        frame._jdf.queryExecution().optimizedPlan()
        return {scan.table for scan in sidestep.explain(frame).scans}


@pytest.fixture
def fresh(spark, tmp_path):
    tables = make_tables(tmp_path, Random(5), True)
    denormalize(spark, tables, tmp_path / "joined")
    return tables, tmp_path / "joined"


def test_a_base_table_that_changed_is_read_itself(spark, fresh, always):
    tables, _ = fresh
    register(spark, tables)
    assert on_and_off(spark, LOG[0])
    before = rows(spark.sql(LOG[0]))
    schema = pq.read_schema(Path(tables["a"], "part-0.parquet"))
    extra = pa.table({"a_id": [100], "a_c": [1], "a_name": ["n1"]}).cast(schema)
    pq.write_table(extra, Path(tables["a"], "part-9.parquet"))
    register(spark, tables)
    assert not on_and_off(spark, LOG[0])
    with sidestep.enable(spark):
        assert any("a changed since it was made" in note for note in sidestep.explain(spark.sql(LOG[0])).notes)
    assert on_and_off(spark, LOG[1]), "what does not read it is as it was"
    os.unlink(Path(tables["a"], "part-9.parquet"))
    register(spark, tables)
    assert on_and_off(spark, LOG[0]), "the very files that it was made of are there again"
    shutil.copy(Path(tables["fact"], "part-0.parquet"), Path(tables["fact"], "part-1.parquet"))
    register(spark, tables)
    for sql in LOG:
        assert not on_and_off(spark, sql)
    os.unlink(Path(tables["fact"], "part-1.parquet"))
    register(spark, tables)
    assert not on_and_off(spark, LOG[4]), "fewer files are another table too"
    assert rows(spark.sql(LOG[0])) != before


def test_what_was_planned_before_a_change_is_not_run_after_it(spark, fresh, always):
    tables, _ = fresh
    register(spark, tables)
    with sidestep.enable(spark):
        frame = spark.sql(LOG[0])
        frame._jdf.queryExecution().executedPlan()
        path = Path(tables["a"], "part-0.parquet")
        table = pq.read_table(path)
        os.utime(path, ns=(1, 1))
        pq.write_table(table.slice(0, 1), path)
        with pytest.raises(Py4JJavaError, match="has changed since the query was planned"):
            frame.collect()


def test_a_denormalized_table_that_changed_or_went_is_not_read(spark, fresh, always):
    tables, target = fresh
    register(spark, tables)
    assert on_and_off(spark, LOG[0])
    sidestep.delete(spark, target, "f_v = 1")
    assert not on_and_off(spark, LOG[0])
    with sidestep.enable(spark):
        assert any("it has changed" in note for note in sidestep.explain(spark.sql(LOG[0])).notes)
    shutil.rmtree(target)
    with pytest.warns(sidestep.SidestepWarning, match="cannot be opened"):
        assert not on_and_off(spark, LOG[0])


def test_a_key_that_is_none_is_refused(spark, tmp_path):
    tables = make_tables(tmp_path, Random(5), True)
    twice = pq.read_table(Path(tables["a"], "part-0.parquet"))
    pq.write_table(twice, Path(tables["a"], "again.parquet"))
    with pytest.raises(SidestepError, match="a_id is no key of a"):
        denormalize(spark, tables, tmp_path / "joined", keys={"a": ["a_id"]})
    report = denormalize(spark, tables, tmp_path / "joined", dry_run=True)
    assert "a.a_id = fact.f_a, which is a key of neither" in str(report)
    assert not any(role.startswith("a:") for role in report.roles)
    assert (report.rewritten, report.queries) == (5, 5), "of what joins it, the fact alone"
    assert not (tmp_path / "joined").exists(), "a dry run writes nothing"
    denormalize(spark, tables, tmp_path / "joined")
    register(spark, tables)
    spark.conf.set(ALWAYS, "0")
    try:
        assert read_by(spark, LOG[0]) == {"joined", "a"}
        assert read_by(spark, LOG[1]) == {"joined"}
        assert all(on_and_off(spark, sql) for sql in LOG[:3])
    finally:
        spark.conf.unset(ALWAYS)


def test_bad_input_is_told_in_sentences(spark, tmp_path):
    tables = make_tables(tmp_path, Random(5), True)
    with pytest.raises(SidestepError, match="fact table nope is not among the tables"):
        sidestep.denormalize(spark, LOG, tables, tmp_path / "t", fact="nope")
    with pytest.raises(SidestepError, match="No query of the log reads fact"):
        sidestep.denormalize(spark, ["SELECT a_id FROM a"], tables, tmp_path / "t", fact="fact")
    with pytest.raises(SidestepError, match="keys names d"):
        sidestep.denormalize(spark, LOG, tables, tmp_path / "t", fact="fact", keys={"d": ["x"]})
    with pytest.raises(SidestepError, match="something at"):
        sidestep.denormalize(spark, LOG, tables, tables["a"], fact="fact")


def test_delta_tables_are_compared_by_the_files_of_their_version(spark, tmp_path, always):
    tables = make_tables(tmp_path, Random(5), True)
    rows_of_a = pq.read_table(tables["a"])
    shutil.rmtree(tables["a"])
    write_deltalake(tables["a"], rows_of_a)
    denormalize(spark, tables, tmp_path / "joined")
    register(spark, {name: path for name, path in tables.items() if name != "a"})
    sidestep.read(spark, tables["a"]).createOrReplaceTempView("a")
    assert on_and_off(spark, LOG[0])
    write_deltalake(tables["a"], rows_of_a.slice(0, 1).set_column(0, "a_id", pa.array([50], pa.int32())), mode="append")
    sidestep.read(spark, tables["a"]).createOrReplaceTempView("a")
    assert not on_and_off(spark, LOG[0])
    sidestep.read(spark, tables["a"], version=0).createOrReplaceTempView("a")
    assert on_and_off(spark, LOG[0]), "the version that it was made of"


def test_values_of_folders_are_those_that_each_session_reads(spark, tmp_path, always):
    """The moment of a partition depends on the time zone, and a folder's name may take the place of a column."""
    root = tmp_path / "f_v=77"
    tables = {"fact": str(root), "b": make_tables(tmp_path / "dims", Random(5), True)["b"]}
    for hour in range(2):
        rows = [{"f_id": i, "f_b": i % 6, "f_v": i} for i in range(hour, 24, 2)]
        names = pa.schema([(name, pa.int32()) for name in ("f_id", "f_b", "f_v")])
        write(root / f"at=2024-01-01 0{hour}%3A00%3A00", rows, names, 1)
    log = [
        "SELECT sum(f_v), max(at) FROM fact JOIN b ON f_b = b_id WHERE b_x < 3",
        "SELECT sum(f_v), max(f_id) FROM fact JOIN b ON f_b = b_id",
    ]
    sidestep.denormalize(spark, log, tables, tmp_path / "joined", fact="fact", layout="sop", min_size=10)
    register(spark, tables)
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        register(spark, tables)
        by_zone = "SELECT f_id, unix_timestamp(at) FROM fact JOIN b ON f_b = b_id"
        assert not on_and_off(spark, by_zone)
        assert on_and_off(spark, log[1]), "what does not ask for it reads less"
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    spark.read.option("basePath", str(tmp_path)).parquet(tables["fact"]).createOrReplaceTempView("fact")
    by_folder = rows_of(spark, "SELECT DISTINCT f_v FROM fact") == {77}
    assert by_folder or spark.version < "4.3", "Spark 4.0 reads the files' own column"
    assert not (on_and_off(spark, log[1]) and by_folder)


def rows_of(spark, sql: str) -> set[Any]:
    return {row[0] for row in spark.sql(sql).collect()}


def test_in_column_groups_as_well(spark, tmp_path, always):
    tables = make_tables(tmp_path, Random(5), False)
    report = sidestep.denormalize(spark, LOG, tables, tmp_path / "joined", fact="fact", min_size=10)
    assert report.load is not None
    register(spark, tables)
    assert all(on_and_off(spark, sql) for sql in LOG)
    with pytest.raises(SidestepError, match="leave index_dir out"):
        sidestep.denormalize(spark, LOG, tables, tmp_path / "t", fact="fact", index_dir=tmp_path)
