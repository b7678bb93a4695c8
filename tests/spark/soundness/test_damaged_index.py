"""A damaged index: answers stay right, and other tables of the same query lose nothing."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import sidestep
from sidestep.errors import SidestepWarning
from sidestep.store.index import table_index
from tests.spark.tables import rows_of, switched_off, write_file
from tests.store.index.test_damage import deep_schema, many_rows, no_unicode

pytestmark = pytest.mark.usefixtures("enabled")
QUERY = """SELECT * FROM good JOIN bad ON good.k = bad.k + 100 WHERE good.k BETWEEN 120 AND 125 AND bad.k < 30
           UNION ALL SELECT k, v, NULL, NULL FROM good WHERE k = 777"""


@pytest.fixture
def tables(spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Two tables of ten files with ten keys each, indexed; the keys of the first begin at 100."""
    monkeypatch.setattr(table_index, "_warned", set())
    roots = {name: tmp_path / name for name in ("good", "bad")}
    for name, root in roots.items():
        for number in range(10):
            keys = range(10 * number, 10 * number + 10)
            first = 100 if name == "good" else 0
            data = {"k": [first + key for key in keys], "v": [f"{name}{key:03d}" for key in keys]}
            write_file(root / f"f{number}.parquet", data)
        sidestep.index(spark, root)
    return roots


def the_index_file(root: Path) -> Path:
    (path,) = (root / "_sidestep").glob("_index-*")
    return path


def cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-100])
    return path


def flipped(path: Path) -> Path:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 16
    path.write_bytes(content)
    return path


DAMAGES = [cut, flipped, deep_schema, no_unicode, many_rows]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_costs_its_own_table_only(
    spark, tables: dict[str, Path], damage: Callable[[Path], Path]
) -> None:
    for name, root in tables.items():
        spark.read.parquet(str(root)).createOrReplaceTempView(name)
    with switched_off(spark):
        expected = rows_of(spark.sql(QUERY))
    path = damage(the_index_file(tables["bad"]))
    df = spark.sql(QUERY)
    with pytest.warns(SidestepWarning, match=f"{path.name} is left out") as caught:
        found = rows_of(df)
    ours = [warning for warning in caught if issubclass(warning.category, SidestepWarning)]
    assert (found, len(ours)) == (expected, 1)
    read = [sorted(Path(path).parent.name for path in scan.paths) for scan in sidestep.metrics(df).scans]
    assert ["bad"] * 10 in read, "nothing is known of it"
    assert ["good"] in read, "should skip in the other table"
    assert len(sidestep.status(None, tables["bad"]).problems) == 1
    assert sidestep.status(None, tables["good"]).problems == ()
    sidestep.index(spark, tables["bad"])
    again = spark.sql(QUERY)
    assert rows_of(again) == expected
    assert max(len(scan.paths) for scan in sidestep.metrics(again).scans) <= 3, "should skip in both"


def test_no_flipped_bit_changes_an_answer(spark, tables: dict[str, Path]) -> None:
    root = tables["bad"]
    path = the_index_file(root)
    content = path.read_bytes()
    chance = random.Random(5)
    queries = ("k = 25", "k BETWEEN 38 AND 41", "v = 'bad077'", "v > 'bad090'")
    with switched_off(spark):
        expected = [rows_of(spark.read.parquet(str(root)).where(query)) for query in queries]
    for number in range(15):
        damaged = bytearray(content)
        damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.unlink()
        path.write_bytes(damaged)
        # Seen as new: an open index stays good whatever becomes of its file.
        path = path.rename(path.with_name(path.name.replace(f"{number + 1:08d}", f"{number + 2:08d}", 1)))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = [rows_of(spark.read.parquet(str(root)).where(query)) for query in queries]
        assert found == expected
        assert any(path.name in str(each.message) for each in caught)


def test_a_file_that_goes_bad_under_a_session_changes_no_answer(spark, tables: dict[str, Path]) -> None:
    root = tables["bad"]
    path = the_index_file(root)
    df = spark.read.parquet(str(root))
    assert rows_of(df.where("k = 25")) == ["Row(k=25, v='bad025')"]
    with path.open("r+b") as file:
        file.seek(4)
        file.write(bytes(300))
    with pytest.warns(SidestepWarning, match=f"{path.name} is used in part"):
        assert rows_of(df.where("v = 'bad025'")) == ["Row(k=25, v='bad025')"], "of a column that was not read yet"
