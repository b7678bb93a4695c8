"""The size of plans for ``bench selectors``, with ever more files or blocks: of the plan, and of what executors get.

The queries are those of section 4.4 of the partition selector paper: a constant on the partitioning key, a join by it,
and the join of an UPDATE from another table. Added are a join whose keys are far apart, and the same on a laid-out
table, whose blocks are chosen by their ids. Executors get one serialized RDD for each stage, and for each task the
files that it reads: the first must not grow, and of the second a file must not take more than it does without sidestep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import sidestep
from bench.layouts import Arrangement, write_arrangement
from bench.selectors_tpcds import set_for_now
from bench.tpcds_layout import write_cut
from bench.whole_folder import whole_folder

COUNTS = (10, 100, 1_000, 10_000)
KEYS = 10_000
"""Values of b, however many files they are in."""

QUERIES = {
    **{f"b < {share}%": f"SELECT * FROM r WHERE b < {KEYS * share // 100}" for share in (1, 25, 50, 75, 100)},
    "join": "SELECT * FROM r, s WHERE r.b = s.b AND s.a < 100",
    "update's join": "SELECT r.a, s.b FROM r, s WHERE r.a = s.a",
    "keys far apart": "SELECT * FROM r, far WHERE r.b = far.b AND far.a < 100",
    "blocks": "SELECT * FROM laid, far WHERE laid.b = far.b AND far.a < 100",
    "blocks, constants": f"SELECT * FROM laid WHERE b IN ({', '.join(str(k) for k in range(0, KEYS, 97))})",
}
MEASURES = ("logical plan", "physical plan", "RDD")


def make_tables(spark: SparkSession, data: Path, parts: int, rows: int) -> Path:
    """R and S in so many files each by b, R again in so many blocks, and a table of few keys that are far apart."""
    target = Path(data) / f"selectors-parts{parts}-rows{rows}"
    if target.is_dir():
        return target
    b = np.sort(np.arange(rows) % KEYS)
    table = pa.table({"a": np.arange(rows, dtype=np.int64), "b": b.astype(np.int64)})
    far = np.arange(0, KEYS, 97)
    with whole_folder(target) as folder:
        write_cut(folder / "r", table, parts)
        write_cut(folder / "s", table, parts)
        write_cut(folder / "far", pa.table({"a": np.arange(len(far)), "b": far}), 1)
        write_cut(folder / "rows", table, 1)
        write_arrangement(
            spark, folder / "rows", folder / "laid", Arrangement("b", f"int(b * 4 div {KEYS})", ("b",)), parts
        )
    for name in ("r", "s", "far"):
        sidestep.index(spark, str(target / name))
    return target


def plan_sizes(
    spark: SparkSession, data: Path, counts: Sequence[int], rows: int, say: Callable[[str], None]
) -> dict[str, dict[str, dict[str, Any]]]:
    """By query and number of parts, the bytes of each measure with sidestep on and off."""
    sizes: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in QUERIES}
    # A plan that is not cut short by its printer, and a stage that begins with the scan and ends with the query.
    now = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.maxPlanStringLength": str(1 << 30),
        "spark.sql.debug.maxToStringFields": "1000000",
        "spark.sql.autoBroadcastJoinThreshold": str(1 << 30),
        "spark.sidestep.selectors.leastBytes": "0",
    }
    with sidestep.enable(spark), set_for_now(spark, now):
        for count in counts:
            folder = make_tables(spark, data, count, max(rows, 2 * count))
            for name in ("r", "s", "far"):
                spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
            sidestep.read(spark, str(folder / "laid")).createOrReplaceTempView("laid")
            for name, text in QUERIES.items():
                sizes[name][str(count)] = {side: _sizes(spark, text, side) for side in ("off", "on")}
            say(f"plans over {count} parts measured")
    for name in ("r", "s", "far", "laid"):
        spark.catalog.dropTempView(name)
    return sizes


def _sizes(spark: SparkSession, text: str, side: str) -> dict[str, Any]:
    with set_for_now(spark, {"spark.sidestep.enabled": str(side == "on").lower()}):
        df = spark.sql(text)
        execution = df._jdf.queryExecution()
        logical = without_ids(execution.optimizedPlan().toString())
        physical = without_ids(execution.executedPlan().toString())
        rdd = execution.toRdd()
        parts = [len(serialized(spark, part)) for part in rdd.partitions()]
        read = sidestep.metrics(df)
    sent = serialized(spark, rdd)
    return {
        "logical plan": len(logical),
        "physical plan": len(physical),
        "RDD": len(sent),
        "tasks": sum(parts),
        "files": read.files,
        "chosen": "sidestep chooses" in logical,
        "filters": sorted({name.decode() for name in _FILTER.findall(sent)}),
    }


def without_ids(plan: str) -> str:
    """A plan as Spark prints it, less the numbers of its columns: these grow with what the session ran before.

    >>> without_ids("Filter (isnotnull(a#9L) AND (a#1234L < 5))")
    'Filter (isnotnull(a#L) AND (a#L < 5))'
    """
    return _NUMBER.sub("#", plan)


_NUMBER = re.compile(r"#\d+")
_FILTER = re.compile(rb"org\.apache\.spark\.sql\.sources\.(\w+)")


def serialized(spark: SparkSession, value: Any) -> bytes:
    """A JVM object as Spark sends it to an executor."""
    jvm: Any = spark._jvm
    tag = getattr(getattr(jvm, "scala.reflect.ClassTag$"), "MODULE$").AnyRef()
    serializer = jvm.org.apache.spark.serializer.JavaSerializer(spark.sparkContext._jsc.sc().getConf())
    return bytes(serializer.newInstance().serialize(value, tag).array())


def growth(
    sizes: Mapping[str, Mapping[str, Mapping[str, Any]]], same_choice: bool = True
) -> dict[str, dict[str, float]]:
    """By query and measure, by how many percent the size with sidestep is larger at most than with fewer parts.

    ``same_choice``: only sizes are compared at which the plan says the same: there is a selector in it, or there is
    none, and readers get the same kinds of filters. A selector, and ids of blocks, come in where there are enough parts
    that they save something. What they take is no growth with the number of parts, but it is one if all are compared.

    >>> few, many = ({"chosen": each, "filters": [], **dict.fromkeys(MEASURES, 100 + each)} for each in (False, True))
    >>> {growth({"q": {"10": {"on": few}, "100": {"on": many}}}, same)["q"]["RDD"] for same in (True, False)} == {0, 1}
    True
    """
    found: dict[str, dict[str, float]] = {}
    for name, by_count in sizes.items():
        groups: dict[object, list[Mapping[str, Any]]] = {}
        for count in sorted(by_count, key=int):
            each = by_count[count]["on"]
            groups.setdefault((each["chosen"], *each["filters"]) if same_choice else (), []).append(each)
        found[name] = {
            measure: round(max(_growth(group, measure) for group in groups.values()), 2) for measure in MEASURES
        }
    return found


def _growth(ordered: Sequence[Mapping[str, Any]], measure: str) -> float:
    return float(100 * (max(each[measure] for each in ordered) / ordered[0][measure] - 1))
