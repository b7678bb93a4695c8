"""The study of a table: a sample drawn by Spark in one pass, and the workload's candidates judged by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow.compute as pc
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from sidestep.advisor.families.features import MOST_ORDERS
from sidestep.advisor.layouts.choose import (
    FEWEST_BLOCKS,
    MOST_BLOCKS,
    UNITS,
    ChosenLayout,
    Study,
    choose_from_study,
    time_columns,
)
from sidestep.advisor.layouts.hold_out import hold_out
from sidestep.advisor.trials.sample import SEED, DrawnSample, ranks, sample_of
from sidestep.advisor.trials.satisfied import Satisfied, told_by_ranks
from sidestep.errors import SidestepError
from sidestep.layout.vectors import unpack
from sidestep.predicate import DataType
from sidestep.predicate.text import name_text
from sidestep.spark.organize.featurize import check_features, never_fails, with_words
from sidestep.spark.organize.organize import DEFAULT_WIDTH, file_rows
from sidestep.spark.organize.units import UNIT, with_units
from sidestep.store.parquet.writer import RESERVED
from sidestep.store.sidecars.layout import FILE_BYTES, UNIT_ROWS, LayoutSpec
from sidestep.workload import (
    Feature,
    FeatureSet,
    Workload,
    augment,
    table_workload,
    tables_of,
)
from sidestep.workload.features.selection import candidate_sets

SAMPLE_ROWS, FEWEST_ROWS, ROWS_OF_BLOCK = 200_000, 40_000, 500
"""Rows of a sample: at most, at least, and for each block that the table will have."""

FILE_PATH = f"{RESERVED}file_path"
MOST_ROWS_FOR_WIDTH = 1_000


def draw(
    rows: DataFrame,
    types: Mapping[str, DataType],
    features: Sequence[Feature],
    *,
    total: int,
    spec: LayoutSpec,
    partition_columns: Sequence[str] = (),
    buckets: Mapping[str, str] | None = None,
    sample_rows: int = SAMPLE_ROWS,
) -> DrawnSample:
    """About ``sample_rows`` rows, the same ones each time.

    ``types`` names the columns, and ``buckets`` has expressions, such as a month, of some of them. Features that
    compare these columns with constants or with each other are judged by the values of the rows that were drawn: to
    parse and to check hundreds of them took Spark longer than all else that choosing takes. The others, opaque ones
    too, are evaluated by Spark, and only those that read back as what they say.
    """
    told = {at for at, one in enumerate(features) if never_fails(one.predicate) and told_by_ranks(one.formula, types)}
    others = [at for at in range(len(features)) if at not in told]
    asked = FeatureSet("sample", tuple(features[at] for at in others))
    checked = check_features(rows.sparkSession, asked, rows.schema, warn=False)
    left_out = {one.feature for one in checked.left_out}
    by_spark = [at for at in others if features[at] not in left_out]
    located, _ = with_units(_with_files(rows), spec, partition_columns)
    fraction = min(1.0, sample_rows / max(1, total))
    chosen = located.sample(fraction=fraction, seed=SEED) if fraction < 1 else located
    unit = f.to_json(f.array(*(f.col(name_text(name)).cast("string") for name in (*partition_columns, UNIT))))
    cut = buckets or {}
    columns = [f.col(name_text(name)) for name in types]
    bucketed = [f.expr(text).cast("string").alias(f"{RESERVED}b{at}") for at, text in enumerate(cut.values())]
    words = [f.col(name) for name in checked.words]
    wanted = [*columns, *bucketed, unit.alias(UNIT), f.col(FILE_PATH), *words]
    table = with_words(chosen, checked).select(*wanted).toArrow()
    sample = sample_of(
        table.select(list(types)),
        types,
        total,
        unit=table[UNIT],
        buckets={name: table[f"{RESERVED}b{at}"] for at, name in enumerate(cut)},
    )
    vectors = np.empty((len(table), len(checked.words)), np.uint64)
    for number, name in enumerate(checked.words):
        vectors[:, number] = table[name].to_numpy().view(np.uint64)
    bits = unpack(vectors, len(by_spark))
    satisfied = {number: np.ascontiguousarray(bits[:, at]) for at, number in enumerate(by_spark)}
    judge = Satisfied(sample)
    for number in told:
        if (met := judge.rows(features[number].formula)) is not None:
            satisfied[number] = met
    paths, file = ranks(table[FILE_PATH])
    return DrawnSample(
        sample,
        dict(sorted(satisfied.items())),
        file.clip(0),
        tuple(paths.to_pylist()),
        _widths(rows),
    )


def _with_files(rows: DataFrame) -> DataFrame:
    try:
        return rows.withColumn(FILE_PATH, f.col("_metadata.file_path"))
    except AnalysisException:
        return rows.withColumn(FILE_PATH, f.lit(""))


def _widths(rows: DataFrame) -> dict[str, float]:
    few = rows.limit(MOST_ROWS_FOR_WIDTH).toArrow()
    return {name: few[name].get_total_buffer_size() / max(1, len(few)) for name in few.column_names}


def choose_layout(
    workload: Workload,
    table: str,
    rows: DataFrame,
    types: Mapping[str, DataType],
    *,
    by: str | None = None,
    num_features: int | None = None,
    min_size: int | None = None,
    order: Sequence[str] | None = None,
    family: str | None = None,
    sample_rows: int | None = None,
    unit_rows: int = UNIT_ROWS,
    file_bytes: int = FILE_BYTES,
    source_bytes: int | None = None,
    partition_columns: Sequence[str] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> ChosenLayout:
    """Choose the layout of a table by what the workload's queries would read of a sample.

    ``types`` names the columns that get zone maps, ``rows`` are the table's rows without its block ids and
    ``source_bytes`` their size on disk. Features are taken by the rows they save
    (:mod:`sidestep.advisor.layouts.select`), their number by what would have served later queries best. ``family`` is
    the family to choose from, all if none is given; ``by`` or ``order`` make it a layout by features.
    """
    tell("a sample")
    study = draw_study(
        workload,
        table,
        rows,
        types,
        by=by,
        min_size=min_size,
        sample_rows=sample_rows,
        unit_rows=unit_rows,
        file_bytes=file_bytes,
        source_bytes=source_bytes,
        partition_columns=partition_columns,
    )
    held = hold_out(workload, study.table)
    return choose_from_study(
        study,
        num_features=num_features,
        order=order,
        family=family,
        judges=held.judges,
        past=held.past,
        tell=tell,
    )


def draw_study(
    workload: Workload,
    table: str,
    rows: DataFrame,
    types: Mapping[str, DataType],
    *,
    by: str | None = None,
    min_size: int | None = None,
    sample_rows: int | None = None,
    unit_rows: int = UNIT_ROWS,
    file_bytes: int = FILE_BYTES,
    source_bytes: int | None = None,
    partition_columns: Sequence[str] = (),
) -> Study:
    """Draw the sample that the workload's candidates are judged by."""
    check_reads(workload, table)
    of_log = table_workload(workload, table)
    augmented = augment(of_log)
    sets = candidate_sets(augmented)
    least = min_size if min_size is not None else LayoutSpec().min_size
    times = time_columns(of_log, types)
    total, units = _count_rows(rows, times, least, by)
    items = sorted({item for one in sets for item in one.items})
    filtered = {column.name for item in of_log.items for column in item.columns}
    buckets = {name: f"date_trunc('MONTH', {name_text(name)})" for name in times[:MOST_ORDERS]}
    drawn = draw(
        rows,
        {name: type for name, type in types.items() if name in filtered},
        [Feature((augmented.items[item].predicate,)) for item in items],
        total=total,
        spec=LayoutSpec(by=units, unit_rows=unit_rows),
        partition_columns=partition_columns,
        buckets=buckets,
        sample_rows=_sample_size(total, least) if sample_rows is None else sample_rows,
    )
    place = {item: at for at, item in enumerate(items)}
    usable = [one for one in sets if all(place[item] in drawn.satisfied for item in one.items)]
    satisfied = [np.all([drawn.satisfied[place[item]] for item in one.items], axis=0) for one in usable]
    bits = np.array(satisfied, np.bool_).reshape(len(usable), len(drawn.sample))
    return Study(
        of_log,
        augmented,
        usable,
        drawn,
        bits,
        units,
        least,
        buckets,
        columns=frozenset().union(*(use.columns for q in workload.queries for use in q.uses if use.table == table)),
        file_rows=file_rows(
            total,
            source_bytes / total if source_bytes and total else DEFAULT_WIDTH,
            file_bytes,
            rows.sparkSession.sparkContext.defaultParallelism,
            min_size=least,
            columns=len(rows.columns),
        ),
        unit_rows=unit_rows,
        given_by=by is not None,
    )


def check_reads(workload: Workload, table: str) -> None:
    """Refuse a log that says nothing of the table."""
    if table not in tables_of(workload):
        named = ", ".join(list(tables_of(workload))[:5]) or "no table that it could be understood for"
        said = f"The log says nothing of {table}: it reads {named}."
        hint = "Say what the log calls it: name=, or NAME and -t NAME=PATH."
        raise SidestepError(" ".join([said, hint, *workload.notes]))


def _sample_size(total: int, min_size: int) -> int:
    """Enough rows to tell blocks apart; of a small table not all."""
    return min(SAMPLE_ROWS, max(FEWEST_ROWS, ROWS_OF_BLOCK * (total // min_size)))


def _count_rows(rows: DataFrame, times: Sequence[str], min_size: int, by: str | None) -> tuple[int, str | None]:
    """How many rows there are, and the units: as given, or months of the column of time that is asked for most."""
    if by is not None or not times:
        return rows.count(), by
    day = f.to_date(f.col(name_text(times[0]))).alias("day")
    counted = rows.groupBy(day).agg(f.count(f.lit(1)).alias("rows")).toArrow()
    total = pc.sum(counted["rows"]).as_py() or 0
    days = counted["day"].drop_null().to_numpy()
    months = days.astype("datetime64[M]").astype(np.int64)
    numbers = {"DAY": days, "MONTH": months, "QUARTER": months // 3, "YEAR": months // 12}
    counts = {unit: len(np.unique(number)) for unit, number in numbers.items()}
    blocks = {unit: total / min_size / max(1, counts[unit]) for unit in UNITS}
    unit = next((unit for unit in UNITS[1:] if blocks[unit] >= FEWEST_BLOCKS), None)
    if unit == "MONTH" and blocks["MONTH"] > MOST_BLOCKS and blocks["DAY"] >= FEWEST_BLOCKS:
        unit = "DAY"
    return total, None if unit is None else f"date_trunc('{unit}', {name_text(times[0])})"
