"""What values take on disk, by footers."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from sidestep.store import locate
from sidestep.store.parquet.widths import column_widths


def test_widths_are_bytes_for_each_row_of_the_files_that_have_the_column(tmp_path):
    first = pa.table({"a": list(range(1000)), "s": ["x" * 100] * 1000})
    second = pa.table({"a": list(range(1000, 2000)), "n": [{"u": i} for i in range(1000)]})
    pq.write_table(first, tmp_path / "0.parquet", row_group_size=100)
    pq.write_table(second, tmp_path / "1.parquet")
    widths = column_widths([locate(tmp_path / name) for name in ("0.parquet", "1.parquet")])
    assert widths.keys() == {"a", "s", "n"}
    assert 4 < widths["a"] < 20
    assert widths["s"] < 3, "a value that is repeated is stored once"
    assert column_widths([]) == {}
