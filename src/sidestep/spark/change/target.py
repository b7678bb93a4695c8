"""A query over a table that is about to be changed: what it has beside the table is run once, and says what to read.

To change a table by a condition on other tables, or by the rows of a source, is to join it with them. Two things are
asked of that join.

**One answer.** Subqueries and sources are run once, and their rows kept (a local checkpoint: if they get lost there is
an error, never another answer). The rows of the table that are concerned are then found by one query, kept as well, and
all that follows goes by what was found.

**Only the files that can matter are read.** A row of the table matters only if the join's condition can be TRUE for it,
so the values that the other side has (now that they are known) are conditions on the table alone: ``k IN (…)`` for an
equality, ranges where there are too many values, a bound for an inequality. They are held against the index together
with the query's own conditions, as those of any other query. A file that is not proven to hold no such row is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sidestep.predicate import IsNull, Not, Predicate
from sidestep.predicate.text import name_text, sql
from sidestep.prune import scan_filters
from sidestep.spark.change.replace import POSITION, file_rows, with_position
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.plan_reader import read_plan
from sidestep.spark.jvm.sessions import active_session, quiet_session
from sidestep.spark.relation import every_grouped_row, every_row, groups_session, in_session, without_block_ids
from sidestep.spark.table.group_table import GroupsState
from sidestep.spark.table.matching import PATH, by_spelling, files_kept, files_of_units, with_path
from sidestep.spark.table.state import TableState
from sidestep.store import DataFile
from sidestep.store.sidecars.column_groups import ROW_ID, UNIT

MOST_VALUES = 10_000
"""Values of one column that are looked up one by one; more become ranges."""
RANGES = 256
"""Ranges that many values become: about equally many in each."""
LONGEST = 200
"""Characters of a condition in a report."""
_OFF = (
    # A copy of the table that Spark makes to filter the other side by would be read whole.
    "spark.sql.optimizer.runtime.bloomFilter.enabled",
    "spark.sql.optimizer.runtimeFilter.semiJoinReduction.enabled",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled",
)


@dataclass(frozen=True)
class Narrowed:
    """A query over a table, of whose files only those are read that it can need."""

    rows: DataFrame
    files: tuple[DataFile, ...]
    reasons: tuple[str, ...]
    """What decided on the files, for people."""


def change_session(spark: SparkSession) -> SparkSession:
    """A copy of the session to find rows in that are to be changed."""
    copy = quiet_session(spark)
    for name in _OFF:
        copy.conf.set(name, "false")
    return copy


def target_rows(spark: SparkSession, state: TableState, alias: str) -> DataFrame:
    """All rows of a table under an alias, each with its file's path and its number in it.

    Of a table in column groups, it is the row's unit and its id under these names.
    """
    if isinstance(state, GroupsState):
        rows = every_grouped_row(spark, state.groups.table)
        told = (f.col(UNIT).cast("string").alias(PATH), f.col(ROW_ID).alias(POSITION))
        return rows.select(*map(name_text, state.schema.names), *told).alias(alias)
    rows = with_position(with_path(every_row(spark, state.snapshot), state.snapshot))
    return without_block_ids(rows, state.snapshot).alias(alias)


def narrow(spark: SparkSession, state: TableState, target: DataFrame, query: DataFrame) -> Narrowed:
    """A query over :func:`target_rows`, settled, over those of the table's files alone that it can need."""
    everything = state.snapshot.files
    bridge = Bridge(spark)
    # In column groups, the table is one relation to the planner of this session, and is read in another.
    runner = groups_session(spark) if isinstance(state, GroupsState) else spark
    table = target._jdf.queryExecution().analyzed()
    plan = bridge.new("TargetPlan", runner._jsparkSession, table, query._jdf.queryExecution().optimizedPlan())
    reads = int(plan.reads())
    if reads == 0:
        return Narrowed(query, (), ("the condition is never true",))
    if reads > 1:
        return Narrowed(in_session(runner, query), everything, ("the query reads the table more than once",))
    plan.settle()
    reasons = _hold_against(spark, plan)
    meaning = _conditions(bridge, spark, plan.plan())
    keyed = _conditions(bridge, spark, plan.needed())
    if meaning is None or keyed is None:
        return Narrowed(query.limit(0), (), (*reasons, "nothing can meet that"))
    reasons = tuple(dict.fromkeys([*_texts(meaning), *reasons]))
    files = files_kept(state, (*meaning, *keyed))
    try:
        return Narrowed(DataFrame(plan.over(_table_of(spark, state, files)), runner), files, reasons)
    except AnalysisException as problem:
        said = str(problem).partition("\n")[0]
        return Narrowed(in_session(runner, query), everything, (f"Spark cannot take up its own plan again ({said})",))


def _table_of(spark: SparkSession, state: TableState, files: Sequence[DataFile]) -> Any:
    """A plan of the table with some of its files alone."""
    if isinstance(state, GroupsState):
        return every_grouped_row(spark, state.groups.table.only(files))._jdf.queryExecution().analyzed()
    return every_row(spark, state.only(files))._jdf.queryExecution().analyzed()


def row_at(spark: SparkSession, state: TableState, path: str, position: int) -> DataFrame:
    """The row that :func:`target_rows` tells by these."""
    if isinstance(state, GroupsState):
        table = state.groups.table.only(files_of_units(state, [int(path)]))
        return in_session(groups_session(spark), every_grouped_row(spark, table).where(f.col(ROW_ID) == position))
    (file,) = by_spelling(state.snapshot, {path: None}).values()
    return file_rows(spark, state, [file]).where(f.col(POSITION) == position)


def _texts(conditions: tuple[Predicate, ...]) -> Iterator[str]:
    """Conditions for people, without IS NOT NULL, which every comparison brings along."""
    for one in conditions:
        if not (isinstance(one, Not) and isinstance(one.child, IsNull)):
            text = sql(one)
            yield text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _conditions(bridge: Bridge, spark: SparkSession, plan: Any) -> tuple[Predicate, ...] | None:
    """What a plan with one table asks of that table's rows; None if it asks for none of them."""
    inspector = bridge.factory()
    with active_session(spark):
        optimized = inspector.execution(spark._jsparkSession, plan).optimizedPlan()
        places = scan_filters(read_plan(inspector.describe(optimized)))
    return places[0].conjuncts if len(places) == 1 else None if not places else ()


def _hold_against(spark: SparkSession, plan: Any) -> tuple[str, ...]:
    """Have the plan know what values its table's columns are compared with; returns that as texts."""
    said = []
    for number in range(plan.constraints()):
        values, op = DataFrame(plan.values(number), spark), plan.op(number)
        if op in ("<=", ">="):
            plan.bound(number, values.agg((f.max if op == "<=" else f.min)("v"))._jdf)
            said.append(str(plan.text(number)))
            continue
        distinct = (values if op == "<=>" else values.where("v IS NOT NULL")).distinct()
        many = plan.among(number, distinct.limit(MOST_VALUES + 1)._jdf, MOST_VALUES)
        if many > MOST_VALUES:
            parts = values.where("v IS NOT NULL").repartitionByRange(RANGES, "v").groupBy(f.spark_partition_id())
            ranges = parts.agg(f.min("v").alias("least"), f.max("v").alias("greatest")).select("least", "greatest")
            missing = op == "<=>" and not values.where("v IS NULL").isEmpty()
            plan.between(number, ranges._jdf, missing)
        what = f"more than {MOST_VALUES:,} values" if many > MOST_VALUES else f"{many:,} value{'s' * (many != 1)}"
        said.append(f"{plan.text(number)}: {what}")
    return tuple(said)
