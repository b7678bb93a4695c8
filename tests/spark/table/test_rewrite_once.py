"""Rows deleted and changed by what other tables say: evaluated once, as DuckDB has it, and no file read for nothing."""

from __future__ import annotations

import random
import shutil

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import functions as f

import sidestep
from sidestep.errors import SidestepError
from sidestep.spark.change.rewrite import delete, update
from sidestep.spark.jvm.sessions import same_interpreter
from sidestep.store import read_snapshot
from tests.spark.living import ARROW, arrow, contents, frame, made

pytestmark = pytest.mark.spark
OTHERS = [
    {"id": i * 3, "month": i % 5 or None, "color": ("red", "blue", None)[i % 3], "price": i * 1.5} for i in range(12)
]
OTHERS.append({"id": None, "month": 2, "color": "green", "price": None})
"""Rows of another table, NULLs among them."""
CONDITIONS = [
    "id IN (SELECT id FROM o WHERE month = 2)",
    "id NOT IN (SELECT id FROM o WHERE id IS NOT NULL)",
    "id NOT IN (SELECT id FROM o)",
    "(id, color) IN (SELECT id, color FROM o)",
    "EXISTS (SELECT 1 FROM o WHERE o.id = target.id AND o.color = 'red')",
    "NOT EXISTS (SELECT 1 FROM o WHERE o.id = target.id)",
    "NOT EXISTS (SELECT 1 FROM o WHERE o.id = target.id OR o.month > target.month)",
    "EXISTS (SELECT 1 FROM o WHERE o.id < 3) AND id > 30",
    "price > (SELECT avg(price) FROM o)",
    "price = (SELECT max(price) FROM o WHERE o.id > 1000)",
    "price > (SELECT max(o.price) FROM o WHERE o.month = target.month)",
    "id < 10 OR id IN (SELECT id FROM o WHERE color = 'blue')",
    "month = 1 AND id IN (SELECT id FROM o) AND price < (SELECT max(price) FROM o)",
    "color IN (SELECT color FROM o WHERE o.month = target.month)",
    "id = (SELECT min(id) FROM o) + 6",
    "id IN (SELECT o.id FROM o JOIN o AS p ON o.id = p.id + 3 WHERE p.price > 2)",
    "CASE WHEN id IN (SELECT id FROM o) THEN month = 1 ELSE month = 2 END",
]
VALUES = [
    {"price": "(SELECT max(price) FROM o)"},
    {"color": "(SELECT max(o.color) FROM o WHERE o.id = target.id)", "price": "price + 1"},
    {"month": "month + 1", "price": "coalesce((SELECT sum(o.price) FROM o WHERE o.month < target.month), -1)"},
]


@pytest.fixture(scope="module", autouse=True)
def other(spark):
    frame(spark, OTHERS).createOrReplaceTempView("o")
    yield
    spark.catalog.dropTempView("o")


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A Delta table of ten files of 20 ids each, indexed."""
    root = tmp_path_factory.mktemp("once") / "table"
    for start in range(0, 200, 20):
        write_deltalake(str(root), arrow(made(start, 20)), mode="append")
    sidestep.index(spark, str(root))
    return root


@pytest.fixture
def root(template, tmp_path):
    return shutil.copytree(template, tmp_path / "table")


def stored(root):
    return contents(DeltaTable(str(root)).to_pyarrow_table(columns=ARROW.names).to_pylist())


class Duck:
    """The same table in DuckDB."""

    def __init__(self):
        self.db = duckdb.connect()
        self.db.register("rows_of_o", arrow(OTHERS))
        self.db.register("rows_of_t", arrow(made(0, 200)))
        self.db.execute("CREATE TABLE o AS SELECT * FROM rows_of_o")
        self.db.execute("CREATE TABLE target AS SELECT * FROM rows_of_t")

    def run(self, sql):
        return self.db.execute(sql).fetchall()[0][0]

    def stored(self):
        return contents(self.db.execute("SELECT * FROM target").to_arrow_table().to_pylist())


@pytest.mark.parametrize("where", CONDITIONS)
def test_deletes_are_those_of_duckdb(spark, root, where):
    duck = Duck()
    gone = duck.run(f"DELETE FROM target WHERE {where}")
    report = delete(spark, root, where)
    assert stored(root) == duck.stored()
    assert report.rows == gone


@pytest.mark.parametrize("seed", range(3))
def test_updates_are_those_of_duckdb(spark, root, seed):
    choose, duck = random.Random(seed), Duck()
    for _ in range(2):
        where, values = choose.choice(CONDITIONS), choose.choice(VALUES)
        text = ", ".join(f"{name} = {value}" for name, value in values.items())
        changed = duck.run(f"UPDATE target SET {text} WHERE {where}")
        report = update(spark, root, values, where)
        assert stored(root) == duck.stored(), (where, values)
        assert report.rows == changed


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("id IN (SELECT id FROM o WHERE id BETWEEN 21 AND 27)", 1),
        ("EXISTS (SELECT 1 FROM o WHERE o.id = target.id AND o.id < 30)", 2),
        ("id = (SELECT max(id) FROM o)", 1),
        ("id >= (SELECT max(id) * 5 FROM o)", 2),
        ("id > 150 AND month IN (SELECT month FROM o)", 3),
        ("id IN (SELECT id FROM o WHERE id > 1000)", 0),
        ("abs(id) IN (SELECT id FROM o WHERE id = 0)", 10),
        ("id NOT IN (SELECT id FROM o WHERE id IS NOT NULL)", 10),
    ],
)
def test_files_are_looked_at_that_can_have_such_rows(spark, root, where, files):
    report = delete(spark, root, where)
    assert (report.files, report.files_looked_at) == (10, files)
    sizes = sorted(file.size for file in read_snapshot(root, 9).files)
    assert sum(sizes[:files]) <= report.bytes_looked_at <= sum(sizes[10 - files :])


def test_a_subquery_is_evaluated_once(spark, root):
    """What it reads changes while the statement runs: one answer decides on files and on rows."""
    seen = spark.sparkContext.accumulator(0)

    def count(id):
        seen.add(1)
        return id

    with same_interpreter(spark.sparkContext):
        spark.udf.register("counted", f.udf(count, "bigint"))
        delete(spark, root, "id IN (SELECT counted(id) FROM o WHERE id IS NOT NULL)")
    assert seen.value == 12


def test_the_table_itself_may_be_asked(spark, root):
    sidestep.read(spark, root).createOrReplaceTempView("own")
    assert delete(spark, root, "price < (SELECT avg(price) FROM own) AND id < 40").rows > 0
    left = DeltaTable(str(root)).to_pyarrow_table().num_rows
    assert delete(spark, root, "id IN (SELECT max(id) FROM own GROUP BY month)").rows == 4
    assert DeltaTable(str(root)).to_pyarrow_table().num_rows == left - 4


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("id IN (SELECT nope FROM o)", "not a condition"),
        ("id IN (SELECT id FROM nowhere)", "not a condition"),
        ("id IN (SELECT id FROM o WHERE rand() > 2)", "one time and false the next"),
        ("id IN (SELECT id, month FROM o)", "not a condition"),
    ],
)
def test_bad_subqueries_are_sentences(spark, root, where, said):
    with pytest.raises(SidestepError, match=said):
        delete(spark, root, where)


def test_a_subquery_that_fails_is_the_users_own_error(spark, root):
    before = read_snapshot(root)
    with pytest.raises(Exception, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        delete(spark, root, "id = (SELECT id FROM o)")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        delete(spark, root, "id IN (SELECT 1 div (id - id) FROM o WHERE id = 3)")
    assert read_snapshot(root) == before


def test_columns_with_dots_in_their_names(spark, tmp_path):
    write_deltalake(str(tmp_path), pa.table({"a.b": [1, 2, 3], "c": [1, 2, 3]}))
    assert delete(spark, tmp_path, "`a.b` = 1").rows == 1
    assert delete(spark, tmp_path, "`a.b` IN (SELECT 2)").rows == 1
    batch = spark.createDataFrame([(3, 9), (7, 9)], "`a.b` bigint, c bigint")
    merge = sidestep.merge(spark, tmp_path, batch, "target.`a.b` = source.`a.b`")
    merge.when_matched_update().when_not_matched_insert().run()
    assert sorted(map(tuple, sidestep.read(spark, tmp_path).collect())) == [(3, 9), (7, 9)]
