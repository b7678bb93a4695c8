"""The writes that users call, on Spark: the sweep of ``sweep.py`` runs them as it runs those without."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession

import sidestep
from sidestep.store.upkeep.vacuum import vacuum
from sidestep.workload.features.feature_set import FeatureSet
from tests.faults.disk import Disk, Fault, mounted
from tests.faults.writes import LATE, Write, rows_from
from tests.spark.grouped import Laid, load_groups

FEATURES = FeatureSet("table", (LATE,))
GROUPS = (Laid(("x",), FEATURES), Laid(("v", "s"), order=("x",)))
OPTIONS: dict[str, Any] = {"features": FEATURES, "min_size": 5, "synopses": "x=range-set:4,v=grt:8"}


def session(folder: Path, master: str = "local[1]") -> SparkSession:
    """A session of a process of its own."""
    options = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.pyspark.python": sys.executable,
    }
    builder = SparkSession.builder.master(master).appName("sidestep-faults")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def frame(spark: SparkSession, first: int, count: int) -> DataFrame:
    return spark.createDataFrame(rows_from(first, count)).coalesce(1)


def spark_writes(spark: SparkSession, source: Path) -> tuple[Write, ...]:
    """All writes; ``source`` is a folder for the table that is loaded into a new one."""
    made: dict[str, Path] = {}

    def once(name: str, make: Callable[[Path], None]) -> Callable[[Path], None]:
        """The same table for several writes: a load takes a second or two."""

        def prepare(root: Path) -> None:
            if name not in made:
                made[name] = source / name / "table"
                make(made[name])
            shutil.copytree(made[name], root)

        return prepare

    def foreign(root: Path) -> None:
        for first in (0, 10):
            write_deltalake(str(root), rows_from(first, 10), mode="append")

    def laid_out(root: Path) -> None:
        foreign(root)
        sidestep.load(spark, str(root), **OPTIONS)
        sidestep.append(spark, str(root), frame(spark, 20, 10))

    def partly_foreign(root: Path) -> None:
        laid_out(root)
        write_deltalake(str(root), rows_from(60, 8), mode="append", schema_mode="merge")

    def littered(root: Path) -> None:
        laid_out(root)
        sidestep.delete(spark, str(root), "x % 2 = 1")

    def grouped(root: Path) -> None:
        rows = root.with_name("rows of groups")
        if not rows.exists():
            foreign(rows)
        load_groups(spark, rows, root, GROUPS, filtered=("x",), min_size=5, unit_rows=10, recipes={"x": "range-set:4"})

    def small_units(root: Path) -> None:
        grouped(root)
        for first in (20, 24):
            sidestep.append(spark, str(root), frame(spark, first, 4))

    def empty(root: Path) -> None:
        foreign_source = source / "rows"
        if not foreign_source.exists():
            foreign(foreign_source)
        root.mkdir()

    def load_new(root: Path) -> None:
        sidestep.load(spark, str(source / "rows"), str(root), **OPTIONS)

    def index(root: Path) -> None:
        sidestep.index(spark, str(root), synopses="x=bloom:64")

    return (
        Write("load into a new table", empty, load_new, creates=True),
        Write("load in place", once("foreign", foreign), lambda root: _load(spark, root)),
        Write("append", once("laid out", laid_out), lambda root: _append(spark, root)),
        Write("delete", once("laid out", laid_out), lambda root: _delete(spark, root), merges=True),
        Write("update", once("laid out", laid_out), lambda root: _update(spark, root)),
        Write("merge", once("laid out", laid_out), lambda root: _merge(spark, root)),
        Write("optimize", once("partly foreign", partly_foreign), lambda root: _optimize(spark, root), merges=True),
        Write("merge into column groups", once("groups", grouped), lambda root: _merge(spark, root)),
        Write("optimize column groups", once("units", small_units), lambda root: _optimize(spark, root), merges=True),
        Write("index", once("partly foreign", partly_foreign), index),
        Write("vacuum", once("littered", littered), lambda root: _vacuum(root)),
    )


def _load(spark: SparkSession, root: Path) -> None:
    sidestep.load(spark, str(root), **OPTIONS)


def _append(spark: SparkSession, root: Path) -> None:
    sidestep.append(spark, str(root), frame(spark, 30, 10))


def _delete(spark: SparkSession, root: Path) -> None:
    sidestep.delete(spark, str(root), "x % 2 = 0")


def _update(spark: SparkSession, root: Path) -> None:
    sidestep.update(spark, str(root), {"v": "99"}, "x % 2 = 0")


def _merge(spark: SparkSession, root: Path) -> None:
    """Some of the rows are there, some are not, and some that are there go."""
    merge = sidestep.merge(spark, str(root), frame(spark, 25, 10), "target.x = source.x")
    merge.when_matched_delete("source.x % 2 = 0").when_matched_update({"v": "99"}).when_not_matched_insert().run()


def _optimize(spark: SparkSession, root: Path) -> None:
    sidestep.optimize(spark, str(root), all=True)


def _vacuum(root: Path) -> None:
    vacuum(root, hours=0, force=True)


def kill_at(folder: Path, name: str, share: str) -> None:
    """In a process of its own: run a write on the table in ``folder``, and be killed at some point of it.

    ``share`` is how far on the way, from 0 to 1, or ``commit`` for right before the version gets its name, or
    ``committed`` for right after.
    """
    with session(folder) as spark:
        write = next(write for write in spark_writes(spark, folder / "source") if write.name == name)
        trial = shutil.copytree(folder / "table", folder / "trial")
        with mounted(Disk(trial)) as disk:
            write(trial)
        kinds = [(point.kind, os.path.dirname(point.path)) for point in disk.points]
        at = int(float(share) * (len(kinds) - 1)) if share[0].isdigit() else _commit_of(kinds, str(trial))
        at += share == "committed"
        killer = Disk(folder / "table", fault=Fault.KILLED, at=at, die=lambda: os.kill(os.getpid(), signal.SIGKILL))
        with mounted(killer):
            write(folder / "table")


def _commit_of(kinds: list[tuple[str, str]], root: str) -> int:
    """The point at which the version gets its name; in the middle where there is none."""
    links = [number for number, kind in enumerate(kinds) if kind == ("link", f"{root}/_delta_log")]
    return links[0] if links else len(kinds) // 2


if __name__ == "__main__":
    kill_at(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
