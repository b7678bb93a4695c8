"""A table of sparse ids as Parquet files, and a workload that looks some of them up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.grt_data import CODING, absent_ids, clustered, existing_ids, short_ranges
from bench.whole_folder import whole_folder
from sidestep.predicate import LONG, Column, Formula, Within
from sidestep.synopsis.values.code_ranges import value_ranges
from sidestep.synopsis.values.codes import integer_values

ID = Column("id", LONG)
PER_FILE = 25
"""Days in a file, each a row group of its own."""


def make_sparse(folder: Path, rows: int, days: int, seed: int) -> Path:
    """The folder of a table with a row group per day: sparse 64-bit ids of sources that come and go, and some payload.

    How the ids lie is told in :mod:`bench.grt_data`.
    """
    target = folder / f"sparse-{rows}-{days}-seed{seed}"
    if target.is_dir():
        return target
    rng = np.random.default_rng([seed, 21])
    blocks = clustered(rows, days, seed).blocks
    with whole_folder(target) as partial:
        for begin in range(0, days, PER_FILE):
            parts = []
            for day, codes in enumerate(blocks[begin : begin + PER_FILE], begin):
                ids = rng.permutation(integer_values(codes))
                dates = pa.array(np.full(len(ids), 19_000 + day, dtype=np.int32)).cast(pa.date32())
                parts.append(pa.table({"id": ids, "day": dates, "amount": rng.random(len(ids))}))
            with pq.ParquetWriter(partial / f"{begin:06}.parquet", parts[0].schema) as writer:
                for part in parts:
                    writer.write_table(part, row_group_size=max(1, len(part)))
    return target


def sparse_workload(rows: int, days: int, seed: int, each: int) -> dict[str, list[Formula]]:
    """Filters on ids: of single ones that are there, of single ones that are not, and of short ranges."""
    data = clustered(rows, days, seed)
    kinds = {"existing": existing_ids, "absent": absent_ids, "ranges": short_ranges}
    return {
        kind: [Within(ID, value_ranges(query, CODING)) for query in make(data, each, seed)]
        for kind, make in kinds.items()
    }
