"""New files of indexed tables: indexed in the background, within limits, and never at a query's expense."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sidestep
from sidestep.predicate import DataType
from sidestep.predicate.types import LONG
from sidestep.spark.rule.refresh import Refresher
from sidestep.store import locate, read_snapshot
from sidestep.store.index.table_index import TableIndex, open_index
from sidestep.store.upkeep.update import missing_files, update_index
from sidestep.synopsis.recipe import Recipe
from tests.spark.tables import files_read, rows_of, settings, write_file

COLUMNS: dict[str, DataType] = {"k": LONG, "v": LONG}
SECONDS = 60.0


def add(root: Path, number: int) -> None:
    keys = np.arange(100 * number, 100 * number + 100, 7)
    write_file(root / f"f{number}.parquet", pa.table({"k": keys, "v": keys % 5}))


def indexed(root: Path, files: int) -> Path:
    for number in range(files):
        add(root, number)
    update_index(read_snapshot(root), COLUMNS, recipes={"k": Recipe(range_set=4)})
    return root


def unknown(root: Path) -> list[str]:
    index = open_index(locate(root))
    return sorted(file.path for file in missing_files(read_snapshot(root), index, index.columns, index.recipes))


def refreshed(root: Path, **limits: float) -> Refresher:
    """What a refresher has done after a query met the table."""
    refresher = Refresher(**limits)  # type: ignore[arg-type]
    refresher.met(str(root))
    assert refresher.wait(SECONDS)
    return refresher


def test_new_files_get_what_the_others_have(tmp_path):
    root = indexed(tmp_path / "t", 2)
    add(root, 2)
    add(root, 3)
    assert unknown(root) == ["f2.parquet", "f3.parquet"]
    refresher = refreshed(root)
    assert unknown(root) == []
    (note,) = refresher.notes
    assert str(note) == f"2 new files of {root} indexed in the background"
    index: TableIndex = open_index(locate(root))
    assert len(index.files) == 4
    assert index.recipes["k"] == Recipe(range_set=4)
    refresher.stop()


def test_what_is_done_at_a_time_is_limited(tmp_path):
    root = indexed(tmp_path / "t", 1)
    for number in range(1, 6):
        add(root, number)
    refresher = refreshed(root, files=3, pause=0.0)
    assert len(unknown(root)) == 2
    assert "2 files left" in str(refresher.notes[0])
    refresher.met(str(root))
    assert refresher.wait(SECONDS)
    assert unknown(root) == []
    add(root, 6)
    add(root, 7)
    # One file is always within the limit: otherwise a large one would never be indexed.
    refreshed(root, bytes=1)
    assert unknown(root) == ["f7.parquet"]


def test_a_table_is_not_looked_at_again_and_again(tmp_path):
    root = indexed(tmp_path / "t", 1)
    clock = [0.0]
    refresher = Refresher(pause=10.0, now=lambda: clock[0])
    for moment in (0.0, 5.0):
        clock[0] = moment
        refresher.met(str(root))
        assert refresher.wait(SECONDS)
        add(root, 1)
    assert unknown(root) == ["f1.parquet"]
    clock[0] = 11.0
    refresher.met(str(root))
    assert refresher.wait(SECONDS)
    assert unknown(root) == []


def test_what_goes_wrong_is_said_and_not_tried_again(tmp_path, caplog):
    root = indexed(tmp_path / "t", 1)
    (root / "bad.parquet").write_bytes(b"PAR1 this is no table PAR1")
    add(root, 1)
    with caplog.at_level(logging.WARNING, "sidestep"):
        refresher = refreshed(root, pause=0.0)
        assert "bad.parquet" in caplog.text
        caplog.clear()
        refresher.met(str(root))
        refresher.met(str(tmp_path / "nothing there"))
        assert refresher.wait(SECONDS)
        assert "bad.parquet" not in caplog.text
        assert "nothing there" in caplog.text
    assert unknown(root) == ["bad.parquet"]
    # The thread goes on after that.
    add(root, 2)
    refresher.met(str(root))
    assert refresher.wait(SECONDS)
    assert unknown(root) == ["bad.parquet"]
    refresher.stop()
    add(root, 3)
    refresher.met(str(root))
    assert refresher.wait(SECONDS)
    assert "f3.parquet" in unknown(root)


def test_a_table_without_an_index_is_left_alone(tmp_path):
    add(tmp_path / "t", 0)
    refresher = refreshed(tmp_path / "t")
    assert refresher.notes == []
    assert not (tmp_path / "t" / "_sidestep").exists()


def test_a_table_goes_on_inducing_after_others_have_appended(spark, tmp_path):
    dim = indexed(tmp_path / "dim", 8)
    indexed(tmp_path / "fact", 8)

    def joined() -> tuple[list[list[str]], list[str]]:
        frames = {name: spark.read.parquet(str(tmp_path / name)) for name in ("fact", "dim")}
        small = frames["dim"].where("v >= 0 AND k < 100").select("k")
        df = frames["fact"].join(small, "k")
        return files_read(df), rows_of(df)

    with settings(spark, spark__sidestep__selectors="false"), sidestep.enable(spark, refresh="auto") as state:
        assert state.refresher is not None
        before, rows = joined()
        assert ["f0"] in before
        assert state.refresher.wait(SECONDS)
        add(dim, 50)
        with sidestep.enable(spark) as plain:
            assert plain.refresher is None
            assert joined()[1] == rows
    with settings(spark, spark__sidestep__selectors="false"), sidestep.enable(spark, refresh="auto") as state:
        assert joined()[1] == rows
        assert state.refresher is not None
        assert state.refresher.wait(SECONDS)
        after, again = joined()
        assert again == rows
        assert ["f0"] in after
        notes = sidestep.explain(spark.read.parquet(str(dim))).notes
        assert notes == (f"1 new file of file:{dim} indexed in the background",)
        assert state.last_problem == ""
    with pytest.raises(sidestep.SidestepError, match="auto"):
        sidestep.enable(spark, refresh="always")  # type: ignore[arg-type]
