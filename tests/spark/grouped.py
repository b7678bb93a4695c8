"""Tables in column groups, made by hand: what queries make of them must not depend on how they came about."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyspark.sql import SparkSession

from sidestep.layout import pack, to_bytes
from sidestep.predicate.oracle import evaluate
from sidestep.predicate.types import parse_type
from sidestep.spark.advise.source import data_columns, read_source
from sidestep.spark.jvm.sessions import leaves_session_active, quiet_session
from sidestep.spark.organize.featurize import check_features
from sidestep.spark.organize.row_ids import NumberedFiles
from sidestep.spark.progress import Watch
from sidestep.spark.table.column_groups import create_groups
from sidestep.spark.table.group_table import GroupPlan, PartRows, new_groups
from sidestep.spark.table.state import rebuilt_synopses
from sidestep.store import DataFile, block_summaries, locate, open_index, with_layout
from sidestep.store.block_column import BLOCK, with_block_column
from sidestep.store.index.grouped_table import read_groups
from sidestep.store.index.index_file import index_folder
from sidestep.store.parquet.buckets import bucket_of
from sidestep.store.sidecars.column_groups import COLUMN_GROUPS, GROUP, ROW_ID, UNIT, ColumnGroups, inner_table
from sidestep.store.sidecars.layout import FEATURES, LayoutSpec, load_features
from sidestep.store.upkeep.compact import append_blocks
from sidestep.synopsis.recipe import parse_recipes
from sidestep.workload import FeatureSet

NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}
"""What SQL calls types that have another name in the JSON of a schema."""


@dataclass(frozen=True)
class Group:
    """Columns that lie together, and how their rows are arranged."""

    columns: Sequence[str]
    order: str | None = None
    """The column that the rows of a unit are sorted by; None: as they come."""
    known: Sequence[str] = ()
    """Columns of other groups that its blocks have zone maps of."""
    rows: int = 10
    """Rows of a block."""
    features: FeatureSet | None = None
    """Its local features: its blocks have union vectors of them."""


def write_groups(
    root: Path,
    table: pa.Table,
    groups: Sequence[Group],
    *,
    units: int = 4,
    buckets: int = 3,
    schema: str | None = None,
    ids: Sequence[int] | None = None,
) -> tuple[str, list[Path]]:
    """A table in column groups with these rows; its path, and the files of its groups. The schema is in Spark's JSON.

    Rows are dealt to units in turn: no unit is smaller than another by more than one row.
    """
    inner = root / "_sidestep" / "groups"
    inner.mkdir(parents=True)
    schema = schema or Schema.from_arrow(table.schema).to_json()
    fields = json.loads(schema)["fields"]
    types = {
        each["name"]: parse_type(NAMES.get(each["type"], each["type"])) for each in fields if type(each["type"]) is str
    }
    numbered = table.append_column(UNIT, pa.array(np.arange(len(table)) % units, pa.int32()))
    ids = range(1000 + len(table) - 1, 999, -1) if ids is None else ids
    numbered = numbered.append_column(ROW_ID, pa.array(ids, pa.int64()))
    block_ids = itertools.count(1)
    added, entries, paths = [], [], []
    for number, group in enumerate(groups):
        for unit in range(units):
            rows = numbered.filter(pa.compute.equal(numbered[UNIT], unit))
            if not len(rows):
                continue
            if group.order is not None:
                rows = rows.sort_by(group.order)
            rows = rows.append_column(BLOCK, pa.array(_ids(len(rows), group.rows, block_ids), pa.int32()))
            folder = inner / f"{GROUP}={number}"
            folder.mkdir(exist_ok=True)
            path = folder / f"part-{unit:05d}_{bucket_of(unit, buckets):05d}.zstd.parquet"
            _write(path, rows.select([*group.columns, UNIT, ROW_ID, BLOCK]), group.rows)
            entries.append(_entries(inner, path, rows, group, types, number))
            status = path.stat()
            name, modified = f"{GROUP}={number}/{path.name}", status.st_mtime_ns // 1_000_000
            added.append(AddAction(name, status.st_size, {GROUP: str(number)}, modified, True, "{}"))
            paths.append(path)
    fields += [
        {"name": UNIT, "type": "integer", "nullable": True, "metadata": {}},
        {"name": ROW_ID, "type": "long", "nullable": True, "metadata": {}},
        {"name": GROUP, "type": "integer", "nullable": True, "metadata": {}},
    ]
    stored = with_block_column(json.dumps({"type": "struct", "fields": fields}))
    create_table_with_add_actions(str(inner), Schema.from_json(stored), added, partition_by=[GROUP])
    folder_of_index = index_folder(inner_table(locate(str(root))))
    append_blocks(folder_of_index, entries, types)
    for features in {group.features for group in groups if group.features is not None}:
        FEATURES.save(folder_of_index, features)
    COLUMN_GROUPS.save(folder_of_index, ColumnGroups(schema, tuple(tuple(each.columns) for each in groups), buckets))
    return str(root), paths


Row = dict[str, Any]


def files_of(root: str | Path) -> dict[str, tuple[int, list[Row]]]:
    """By path, the group of each file of a table in column groups, and the rows that it has parts of."""
    table = read_groups(root)
    assert table is not None
    inner = Path(table.snapshot.root.path)
    return {
        file.path: (number, pq.ParquetFile(inner / file.path).read().to_pylist())
        for file, number in zip(table.snapshot.files, table.group_of_file, strict=True)
    }


def whole_rows(root: str | Path) -> dict[int, Row]:
    """The rows of a table in column groups, put together by their ids, of which every group of all rows has the same.

    Copies must say what the others say, and have all rows that they are to have, and no others.
    """
    table = read_groups(root)
    assert table is not None
    whole: dict[int, Row] = {}
    keys: dict[int, list[tuple[int, int]]] = {number: [] for number in table.live}
    for number, rows in files_of(root).values():
        for row in rows:
            keys[number].append((row[UNIT], row[ROW_ID]))
            mine = {name: row[name] for name in table.groups.groups[number]}
            known = whole.setdefault(row[ROW_ID], {})
            assert all(repr(known.get(name, value)) == repr(value) for name, value in mine.items()), "copies agree"
            known.update(mine)
    first, *others = (
        sorted(each for at in table.groups.parts(number) for each in keys[at]) for number in table.complete
    )
    assert all(each == first for each in others), "every group of all rows has the same rows"
    assert len(whole) == len(first), "ids are unique"
    for number, some in table.groups.rows.items():
        if number in table.live:
            features = load_features(index_folder(table.snapshot.root), some.features)
            assert features is not None
            wanted = {
                id
                for id, row in whole.items()
                if any(evaluate(one.predicate, row) is True for one in features.features) == (some.rest_of is None)
            }
            assert sorted(id for _, id in keys[number]) == sorted(wanted), (
                f"group {number} has the rows of its features"
            )
    return whole


def parts_of(root: str | Path) -> list[Row]:
    """The same without their ids."""
    return list(whole_rows(root).values())


NOTHING = FeatureSet("rows", ())


@dataclass(frozen=True)
class Laid:
    """A group of columns that sidestep itself is to lay out."""

    columns: tuple[str, ...]
    features: FeatureSet = NOTHING
    order: tuple[str, ...] = ()
    rows: FeatureSet | None = None
    """The rows that satisfy at least one of these; None: all rows."""
    rest_of: int | None = None
    """Instead, those that satisfy none, which the group of this number lacks."""
    beside: frozenset[str] | None = None
    """The filtered columns of other groups that its blocks know of rows that are loaded; None: all."""


@leaves_session_active
def load_groups(
    spark: SparkSession,
    source: str | Path,
    target: str | Path,
    groups: Sequence[Laid],
    *,
    filtered: Sequence[str],
    min_size: int,
    unit_rows: int,
    recipes: Mapping[str, str] | None = None,
) -> Path:
    """A table in column groups as a load makes it, with groups that no log has chosen."""
    quiet = quiet_session(spark)
    origin = read_source(quiet, str(source), "rows")
    types = data_columns(origin.schema, ())
    plans = []
    for group in groups:
        checked = check_features(quiet, group.features, origin.schema)
        named = checked.features.id if len(checked.features) else None
        spec = LayoutSpec(by=UNIT, features=named, min_size=min_size, order=group.order, unit_rows=unit_rows)
        some = None if group.rows is None else PartRows(check_features(quiet, group.rows, origin.schema), group.rest_of)
        plans.append(GroupPlan(group.columns, checked, spec, "by hand", some, group.beside))
    files = NumberedFiles(origin.rows)
    synopses = None if recipes is None else parse_recipes(recipes, types)
    making = rebuilt_synopses(origin.snapshot, open_index(str(source)), types, min_size, synopses)
    made = new_groups(quiet, origin, files, locate(target), plans, filtered, making, unit_rows)
    create_groups(quiet, files, origin.snapshot, made, operation="LOAD", watch=Watch(spark.sparkContext))
    return Path(target)


def _ids(rows: int, size: int, numbers: itertools.count[int]) -> list[int]:
    return [number for start in range(0, rows, size) for number in [next(numbers)] * min(size, rows - start)]


def _write(path: Path, rows: pa.Table, size: int) -> None:
    with pq.ParquetWriter(path, rows.schema, compression="zstd") as writer:
        writer.add_key_value_metadata({"org.apache.spark.version": "4.3.0"})
        writer.write_table(rows, row_group_size=size)


def _entries(
    inner: Path, path: Path, rows: pa.Table, group: Group, types: Mapping[str, object], number: int
) -> pa.Table:
    """The index rows of a file: of its own columns, and of those that others hold and its blocks are known by."""
    name = f"{GROUP}={number}/{path.name}"
    own = _summaries(inner, path, name, {each: types[each] for each in group.columns if each in types}, number)
    if group.features is not None:
        own = with_layout(own, _unions(rows, group, group.features), group.features.id, None)
    if not group.known:
        return own
    scratch = path.with_suffix(".known")
    _write(scratch, rows.select([*group.known, BLOCK]), group.rows)
    known = _summaries(
        inner, scratch, f"{GROUP}={number}/{scratch.name}", {each: types[each] for each in group.known}, number
    )
    scratch.unlink()
    for each in known.column_names:
        if each not in own.column_names:
            own = own.append_column(known.field(each), known[each])
    return own


def _unions(rows: pa.Table, group: Group, features: FeatureSet) -> list[bytes]:
    """For each block, which features some row of it satisfies."""
    blocks = [rows.slice(start, group.rows).to_pylist() for start in range(0, len(rows), group.rows)]
    bits = [
        [any(evaluate(feature.predicate, row) for row in block) for feature in features.features] for block in blocks
    ]
    return to_bytes(pack(np.array(bits, dtype=np.bool_)), len(features))


def _summaries(inner: Path, path: Path, name: str, columns: Mapping[str, object], number: int) -> pa.Table:
    status = path.stat()
    file = DataFile(name, status.st_size, status.st_mtime_ns // 1_000_000, ((GROUP, str(number)),))
    found = block_summaries(locate(str(inner)), file, columns, log_times=True, block=BLOCK)  # type: ignore[arg-type]
    assert found is not None
    return found
