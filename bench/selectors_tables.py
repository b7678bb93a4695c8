"""TPC-DS for ``bench selectors``: fact tables by their dates, as generated, and in folders that Spark itself prunes.

In the first, no date is in two files, and rows without one have a file of their own. So a folder of one date belongs to
one file, and what Spark reads of folders can be told in files: those that hold a date of which it read the folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.tpcds import DATE_OF, KEY_OF
from bench.tpcds_layout import plain_strings, write_cut
from bench.whole_folder import whole_folder

_FOLDER = re.compile(r"/\w+_date_sk=(\d+|__HIVE_DEFAULT_PARTITION__)/")


def make_dated(source: Path, files: int) -> Path:
    """The tables of ``source``, facts in about so many files of whole dates, dimensions in one, sorted by their key."""
    target = source.parent / f"{source.name}-dated{files}"
    if target.is_dir():
        return target
    with whole_folder(target) as folder:
        for name, date in DATE_OF.items():
            table = _sorted(source, name, date)
            write_pieces(folder / name, table, date_ends(table, date, files))
        for name, key in KEY_OF.items():
            write_cut(folder / name, _sorted(source, name, key), 1)
    return target


def make_generated(source: Path, files: int) -> Path:
    """The fact tables of ``source`` in so many files, rows in the order in which the generator emits them.

    For ``store_sales``, ``web_sales`` and their returns that has nothing to do with dates. ``catalog_sales`` and
    ``inventory`` it emits by date.
    """
    target = source.parent / f"{source.name}-generated{files}"
    if target.is_dir():
        return target
    with whole_folder(target) as folder:
        for name in DATE_OF:
            write_cut(folder / name, plain_strings(pq.read_table(source / name)), files)
    return target


def make_folders(source: Path) -> Path:
    """The fact tables of ``source`` with a folder for each date, which Spark's dynamic partition pruning can choose."""
    target = source.parent / f"{source.name}-folders"
    if target.is_dir():
        return target
    with whole_folder(target) as folder:
        for name, date in DATE_OF.items():
            table = _sorted(source, name, date)
            ds.write_dataset(
                table,
                folder / name,
                format="parquet",
                partitioning=[date],
                partitioning_flavor="hive",
                max_partitions=1 << 14,
                max_open_files=64,
                use_threads=False,
            )
    return target


def date_ends(table: pa.Table, date: str, files: int) -> list[int]:
    """Where the files of a table in the order of its dates end: each after the last row of a date."""
    known = len(table) - table[date].null_count
    dates = table[date].slice(0, known).to_numpy()
    wanted = np.linspace(0, known, min(files, known) + 1).astype(int)[1:]
    ends = sorted({int(np.searchsorted(dates, dates[end - 1], "right")) for end in wanted})
    return [*ends, len(table)] if known < len(table) else ends


def write_pieces(folder: Path, table: pa.Table, ends: Iterable[int]) -> None:
    folder.mkdir(parents=True)
    start = 0
    for number, end in enumerate(ends):
        pq.write_table(table.slice(start, end - start), folder / f"part-{number:05d}.parquet")
        start = end


class DateFiles:
    """Which file of a table by dates holds a date."""

    def __init__(self, table: Path, date: str) -> None:
        self.highs: list[int] = []
        self.files = 0
        for path in sorted(table.glob("*.parquet")):
            dates = pq.read_table(path, columns=[date])[date]
            self.files += 1
            if dates.null_count < len(dates):
                self.highs.append(int(np.max(dates.drop_null().to_numpy())))

    def of_folders(self, paths: Iterable[str]) -> int:
        """In how many files the rows of these files in folders of one date lie."""
        dates = {match[1] for path in paths if (match := _FOLDER.search(path))}
        known = [int(date) for date in dates if date.isdigit()]
        return len(set(np.searchsorted(self.highs, known).tolist())) + (len(known) < len(dates))


def _sorted(source: Path, name: str, column: str) -> pa.Table:
    return plain_strings(pq.read_table(source / name)).sort_by([(column, "ascending")])
