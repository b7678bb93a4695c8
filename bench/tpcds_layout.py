"""TPC-DS laid out anew: fact tables clustered by their date and cut in many files, dimensions sorted by their key.

The diPs paper's tuned layout (13.2) clusters fact tables by the hash of their date. How many clusters there are is not
said, and decides what can be skipped: a cluster of many dates that have nothing in common hides each of them. Here a
cluster is one date and the clusters lie in the order of dates, which is the layout that its footnote 13 describes.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.layouts import Arrangement, write_arrangement
from bench.tpcds import DATE_OF, KEY_OF, TABLES
from bench.whole_folder import whole_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_ROWS = 4_000_000
"""Rows of a file of blocks, about: some tens of megabytes."""

ORDERS = {
    "store_sales": "ss_ticket_number",
    "store_returns": "sr_ticket_number",
    "catalog_sales": "cs_order_number",
    "catalog_returns": "cr_order_number",
    "web_sales": "ws_order_number",
    "web_returns": "wr_order_number",
    "inventory": "inv_item_sk",
}
"""What a sale and its return have in common: a part of the data that is chosen by it keeps them together."""

DATE_GROUPS = 1_000
"""Row groups of date_dim: what a filter on it induces is by row group, and in one of a year a month would be lost.
Others have few: their filters say little of their keys, and reading many small groups takes time."""


def make_tuned(source: Path, files: int, thin: int = 1) -> Path:
    """The tables of ``source`` (made by ``make_tpcds``) in the tuned layout, made if they are not there.

    ``store_sales`` has ``files`` files, other fact tables as many in proportion to their rows, but no more. With
    ``thin`` only every so many-th order stays, and of three large dimensions only what is still referred to: TPC-DS for
    tests, since even its least scale has two million demographics.
    """
    target = source.parent / f"{source.name}-tuned{files}{f'-thin{thin}' if thin > 1 else ''}"
    if target.is_dir():
        return target
    if thin > 1:
        small = thinned({name: _whole(source, name) for name in TABLES}, thin)

    def read(name: str) -> pa.Table:
        return small[name] if thin > 1 else _whole(source, name)  # one by one: together they may not fit in memory

    sold = len(read("store_sales"))
    with whole_folder(target) as folder:
        for name in TABLES:
            table = read(name)
            if name in DATE_OF:
                count = min(files, max(2, round(files * len(table) / sold)))
                write_cut(folder / name, table.sort_by([(DATE_OF[name], "ascending")]), count)
            else:
                rows = -(-len(table) // DATE_GROUPS) if name == "date_dim" else None
                write_cut(folder / name, table.sort_by([(KEY_OF[name], "ascending")]), 1, rows)
    return target


def make_blocks(spark: SparkSession, source: Path, blocks: int) -> Path:
    """The tables of ``source`` in the tuned layout as sidestep writes tables itself, made if they are not there.

    Fact tables are block files: files of ordinary size with many row groups, ``blocks`` in ``store_sales``, in others
    as many in proportion to their rows. Dimensions are one file each, sorted by their key; ``date_dim`` has a row group
    for each month that something was sold in, and one for all dates before and after.
    """
    target = source.parent / f"{source.name}-blocks{blocks}"
    if target.is_dir():
        return target
    sold = _rows(source, "store_sales")
    with whole_folder(target) as folder:
        for name in TABLES:
            if name in DATE_OF:
                rows = _rows(source, name)
                order = by_date(_dates(source, name), DATE_OF[name], max(1, round(rows / FILE_ROWS)))
                write_arrangement(spark, source / name, folder / name, order, max(8, round(blocks * rows / sold)))
                continue
            table = _whole(source, name).sort_by([(KEY_OF[name], "ascending")])
            if name == "date_dim":
                write_groups(folder / name, table, month_starts(table, _dates(source, "store_sales")))
            else:
                write_cut(folder / name, table, 1)
    return target


def by_date(dates: npt.NDArray[np.int64], column: str, files: int) -> Arrangement:
    """In the order of dates, cut into files of about one size."""
    ends = np.unique(np.quantile(dates, np.arange(1, files) / files, method="lower"))
    steps = " + ".join(f"int(coalesce({column}, 0) > {int(end)})" for end in ends)
    return Arrangement("tuned", steps or "0", (column,))


def month_starts(table: pa.Table, sold: npt.NDArray[np.int64]) -> list[int]:
    """The positions in date_dim at which a row group begins."""
    keys = table["d_date_sk"].to_numpy()
    first, last = np.searchsorted(keys, [sold.min(), sold.max()])
    months = np.flatnonzero(np.diff(table["d_month_seq"].to_numpy(), prepend=-1))
    return sorted({0, *(int(at) for at in months if first < at <= last), int(first), int(last) + 1} - {len(table)})


def write_groups(folder: Path, table: pa.Table, starts: list[int]) -> None:
    """The table as one file with row groups that begin at these positions."""
    folder.mkdir(parents=True)
    with pq.ParquetWriter(folder / "part-00000.parquet", table.schema) as writer:
        for start, end in pairwise([*starts, len(table)]):
            writer.write_table(table.slice(start, end - start), row_group_size=end - start)


def _rows(source: Path, name: str) -> int:
    return sum(pq.read_metadata(path).num_rows for path in sorted((source / name).glob("*.parquet")))


def _dates(source: Path, name: str) -> npt.NDArray[np.int64]:
    column = pq.read_table(source / name, columns=[DATE_OF[name]])[DATE_OF[name]]
    return np.asarray(column.drop_null().to_numpy(), np.int64)


def write_cut(folder: Path, table: pa.Table, files: int, group_rows: int | None = None) -> None:
    """The table as consecutive files of about equal rows."""
    folder.mkdir(parents=True)
    ends = np.linspace(0, len(table), files + 1).astype(int)
    for number in range(files):
        part = table.slice(ends[number], ends[number + 1] - ends[number])
        pq.write_table(part, folder / f"part-{number:05d}.parquet", row_group_size=group_rows)


def _whole(source: Path, name: str) -> pa.Table:
    return plain_strings(pq.read_table(source / name))


def plain_strings(table: pa.Table) -> pa.Table:
    """The generator's files ask for string views, which pyarrow cannot sort by yet."""
    fields = [field.with_type(pa.string()) if field.type == pa.string_view() else field for field in table.schema]
    return table.cast(pa.schema(fields))


def thinned(tables: dict[str, pa.Table], thin: int) -> dict[str, pa.Table]:
    """Every so many-th order with its returns, and of dates, times and demographics what is referred to."""
    small = dict(tables)
    for name, order in ORDERS.items():
        numbers = tables[name][order].to_numpy()
        small[name] = tables[name].filter(pa.array(numbers % thin == 1))
    for name, ending in (("date_dim", "_date_sk"), ("time_dim", "_time_sk"), ("customer_demographics", "_cdemo_sk")):
        referring = [
            table[column] for table in small.values() for column in table.column_names if _ends(column, ending)
        ]
        used = pa.chunked_array([chunk for column in referring for chunk in column.chunks], pa.int32())
        small[name] = tables[name].filter(pc.is_in(tables[name][KEY_OF[name]], value_set=used.unique()))
    return small


def _ends(column: str, ending: str) -> bool:
    """Whether a column refers to a key of this kind; the key itself does not."""
    return column.endswith(ending) and column not in KEY_OF.values()
