"""What the values of columns take on disk, by the footers of some files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq

from sidestep.store.location import Location, open_file

MOST_FILES = 64
"""Footers that are looked at; files of one table are much alike."""
THREADS = 8


def column_widths(files: Sequence[Location]) -> dict[str, float]:
    """Bytes of a value of each column, on average over rows. Files need not have all columns."""
    step = -(-len(files) // MOST_FILES) if files else 1
    sizes: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    with ThreadPoolExecutor(THREADS) as threads:
        for own, count in threads.map(_sizes, files[::step]):
            sizes.update(own)
            rows.update(dict.fromkeys(own, count))
    return {name: round(size / rows[name], 4) for name, size in sizes.items() if rows[name]}


def _sizes(file: Location) -> tuple[Counter[str], int]:
    with open_file(file) as stream:
        footer = pq.read_metadata(stream)
    sizes: Counter[str] = Counter()
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for position in range(group.num_columns):
            chunk = group.column(position)
            sizes[chunk.path_in_schema.split(".", 1)[0]] += chunk.total_compressed_size
    return sizes, footer.num_rows
