"""``sidestep.index`` chooses synopses: by itself, by a log, within a budget, or as it is told; and remembers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import sidestep
from sidestep.errors import SidestepError
from sidestep.predicate import LONG, STRING
from sidestep.store import read_snapshot
from sidestep.store.index import index_file, table_index
from sidestep.store.upkeep.update import update_index
from sidestep.synopsis.bloom import BLOOM
from sidestep.synopsis.recipe import Recipe
from tests.spark.tables import rows_of, switched_off, write_file

FILES = 12


def write(folder, files=range(FILES), runs=3):
    """Ids in a few far-apart runs per file, a dense number, and codes without any order."""
    rng = np.random.default_rng([7, *files])
    for number in files:
        ids = (rng.integers(0, 2**55, runs)[:, None] + np.arange(240 // runs)).ravel()
        codes = [f"c{each:012x}" for each in rng.integers(0, 2**48, len(ids))]
        columns = {"id": ids, "dense": rng.integers(0, 50, len(ids)), "code": codes}
        write_file(folder / f"{number:02}.parquet", columns)
    return folder


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return write(tmp_path_factory.mktemp("indexing") / "events")


def index(spark, folder, index_dir=None, **options) -> Any:
    return sidestep.index(spark, str(folder), index_dir=None if index_dir is None else str(index_dir), **options)


def recipes(status):
    return {name: each.recipe for name, each in status.synopses.items()}


def test_by_default_a_sparse_key_gets_a_range_set_and_new_files_get_it_too(spark, tmp_path):
    folder = write(tmp_path / "t", range(8))
    first = index(spark, folder)
    assert recipes(first)["id"] == Recipe(range_set=4)
    assert first.synopses["id"].kept < 0.2 * first.synopses["id"].zone_map_kept
    write(folder, [8, 9])
    again = index(spark, folder)
    assert recipes(again) == recipes(first)
    assert again.synopses["id"].held[0].blocks == 10
    assert again.synopses["id"].first_kept == first.synopses["id"].kept
    assert not again.synopses["id"].outgrown


def test_by_default_codes_without_order_are_looked_up_in_few_files(spark, enabled, tmp_path):
    folder = write(tmp_path / "t")
    found = index(spark, folder)
    assert recipes(found)["code"].size(BLOOM)
    assert found.tried == sidestep.status(None, str(folder)).tried
    assert {each.column for each in found.tried if not each.why_not} == {"id", "code"}
    asked = [row.code for row in spark.read.parquet(str(folder)).select("code").limit(3).collect()]
    for condition in (f"code = '{asked[0]}'", f"code IN ('{asked[1]}', '{asked[2]}', 'c0')", "code = 'x'"):
        with switched_off(spark):
            expected = rows_of(spark.read.parquet(str(folder)).where(condition))
        df = spark.read.parquet(str(folder)).where(condition)
        assert rows_of(df) == expected
        assert sum(scan.files for scan in sidestep.metrics(df).scans) <= 2
    refused = index(spark, folder, limit="3kB")
    assert any("the limit leaves" in each.why_not for each in refused.tried)


def test_an_index_for_which_no_one_has_chosen_gets_a_choice(spark, tmp_path):
    folder = write(tmp_path / "t", range(8))
    update_index(read_snapshot(folder), {"id": LONG, "dense": LONG, "code": STRING})
    assert sidestep.status(None, str(folder)).synopses == {}
    assert recipes(index(spark, folder)).keys() == {"id", "code"}
    assert recipes(index(spark, folder, synopses="id=none")).keys() == {"code"}
    assert recipes(index(spark, folder)).keys() == {"code"}
    assert recipes(index(spark, folder, limit=0)) == {}
    assert recipes(index(spark, folder)) == {}, "which is remembered"


def test_a_budget_is_kept_and_says_what_it_was_judged_by(spark, table, tmp_path):
    found = index(spark, table, tmp_path, budget="20kB")
    assert 0 < sum(each.bytes for each in found.synopses.values()) <= 20_000
    assert {"id", "code"} <= found.synopses.keys()
    assert "dense" not in found.synopses
    assert found.notes[0].startswith("There is no log")
    assert all(0 < each.bound <= 1 for each in found.synopses.values())
    assert all(each.false_positives <= each.bound for each in found.synopses.values())


def test_a_budget_too_small_for_anything_says_so_and_queries_stay_right(spark, table, tmp_path):
    found = index(spark, table, tmp_path, budget=10)
    assert found.synopses == {}
    assert any("too few for any synopsis" in note for note in found.notes)
    with sidestep.enable(spark, index_dir=str(tmp_path)):
        assert spark.read.parquet(str(table)).where("id >= 0").count() == FILES * 240


def test_a_log_decides_what_is_served(spark, table, tmp_path):
    codes = [row.code for row in spark.read.parquet(str(table)).select("code").limit(40).collect()]
    log = [f"SELECT id FROM e WHERE code = '{code}'" for code in codes] + ["SELECT * FROM missing"]
    found = index(spark, table, tmp_path, log=log, name="e", budget="20kB")
    assert recipes(found).keys() == {"code"}
    assert recipes(found)["code"].size(BLOOM)
    assert found.notes[0].startswith("1 statement of the log could not be used")
    other = index(spark, table, tmp_path, log=["SELECT 1"], name="e")
    assert any("say what the log calls it" in note for note in other.notes)
    assert recipes(other).keys() == {"id", "code"}


def test_what_is_named_is_made_and_the_rest_stays(spark, table, tmp_path):
    def made(**options):
        return recipes(index(spark, table, tmp_path, **options))

    assert made(synopses="none") == {}
    assert made(synopses="id=range-set:20+grt:64,code=bloom:512") == {
        "id": Recipe(range_set=20, grt=64),
        "code": Recipe(bloom=512),
    }
    assert made(synopses={"code": "gap-histogram:5"}) == {
        "id": Recipe(range_set=20, grt=64),
        "code": Recipe(gap_histogram=5),
    }
    assert made(columns=["id"], synopses="id=none").keys() == {"code"}
    again = made(rebuild=True)
    assert again.keys() == {"id", "code"}
    assert again["id"] == Recipe(range_set=4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"synopses": "nope=bloom"}, "no column nope"),
        ({"synopses": "id=magic"}, "no synopsis 'magic'"),
        ({"budget": "much"}, "no number of bytes"),
        ({"limit": "1 part"}, "no number of bytes"),
        ({"log": "/no/such/log"}, "no log at /no/such/log"),
    ],
)
def test_mistakes_are_told_before_anything_is_made(spark, table, tmp_path, options, said):
    with pytest.raises(SidestepError, match=said):
        index(spark, table, tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_partition_columns_need_no_synopsis(spark, tmp_path):
    for day in range(4):
        write(tmp_path / "t" / f"day={day}", [day])
    found = index(spark, tmp_path / "t", synopses="range-set:4")
    assert found.complete
    assert recipes(found).keys() == {"id", "dense", "code"}


def test_an_index_is_opened_and_listed_once_before_the_job_and_once_after_it(spark, tmp_path, monkeypatch):
    """Before: to see what is missing and what was chosen. After: to see what was written, if something was."""
    folder = write(tmp_path / "t", range(6))
    counts: Counter[str] = Counter()

    def counted(module: Any, name: str, called: str) -> None:
        original = getattr(module, name)

        def count(*arguments: Any) -> Any:
            counts[called] += 1
            return original(*arguments)

        monkeypatch.setattr(module, name, count)

    counted(table_index, "map_blocks", "opened")  # the last step of opening a folder
    counted(index_file, "list_names", "listed")

    def run(**options: Any) -> tuple[int, int]:
        counts.clear()
        assert index(spark, folder, **options).complete
        return counts["opened"], counts["listed"]

    assert run() == (2, 2)
    assert run() == (1, 1), "nothing was missing"
    write(folder, [6, 7])
    assert run() == (2, 2)
    assert run(synopses="code=bloom:256") == (3, 3), "old entries and new ones are merged into one file"
    assert run(log=["SELECT 1 FROM t WHERE id = 1"], name="t", rebuild=True) == (3, 3)


def test_progress_counts_files_and_tells_of_each_stage(spark, tmp_path):
    folder = write(tmp_path / "t", range(6))
    steps: list[sidestep.Step] = []
    index(spark, folder, progress=steps.append, log=["SELECT 1 FROM t WHERE id = 1"], name="t")
    assert list(dict.fromkeys(step.stage for step in steps)) == ["analyze", "synopses", "collect"]
    last = steps[-1]
    assert (last.stage, last.done, last.total, last.unit) == ("collect", 6, 6, "files")
    steps.clear()
    index(spark, folder, progress=steps.append)
    assert {step.stage for step in steps} == {"synopses"}, "nothing was missing"


def test_the_log_may_be_in_another_dialect_and_the_path_an_object(spark, table, tmp_path):
    code = spark.read.parquet(str(table)).select("code").first().code
    log = [f"""SELECT TOP 5 "id" FROM e WHERE "code" = '{code}'"""] * 20
    found = sidestep.index(spark, table, index_dir=tmp_path, log=log, name="e", dialect="tsql", budget="20kB")
    assert found.synopses.keys() == {"code"}


def test_a_column_that_only_later_files_have_is_named_once(spark, enabled, tmp_path):
    """Spark looks at one file, unless it is told to merge the schemas of all."""
    root = str(tmp_path)
    write_file(tmp_path / "a.parquet", {"x": [1, 2]})
    write_file(tmp_path / "b.parquet", {"x": [3, 4], "y": [10, 20]})
    sidestep.index(spark, root)
    with pytest.raises(SidestepError, match="no column z"):
        sidestep.index(spark, root, columns=["y", "z"])
    sidestep.index(spark, root, columns=["y"])
    write_file(tmp_path / "c.parquet", {"x": [5], "y": [30]})
    sidestep.index(spark, root)
    for condition, files in (("y = 30", 1), ("y < 15", 1), ("y IS NULL", 1), ("x = 3 AND y > 0", 1)):
        found = spark.read.option("mergeSchema", "true").parquet(root).where(condition)
        with switched_off(spark):
            expected = rows_of(spark.read.option("mergeSchema", "true").parquet(root).where(condition))
        assert rows_of(found) == expected
        assert sidestep.metrics(found).scans[0].files == files
