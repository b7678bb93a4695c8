"""How many rows files hold by their own footers: what a write is held against before it is committed."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from sidestep.errors import DamagedFile
from sidestep.store.location import Location, open_file

THREADS = 8


def count_rows(locations: Sequence[Location]) -> int:
    """The rows of some Parquet files together, by their footers."""
    with ThreadPoolExecutor(THREADS) as threads:
        return sum(threads.map(_rows_of, locations))


def _rows_of(location: Location) -> int:
    try:
        with open_file(location) as stream:
            return int(pq.read_metadata(stream).num_rows)
    except FileNotFoundError as error:
        raise DamagedFile(f"{location.uri} is part of the table, and is not there.") from error
    except (pa.ArrowException, OSError) as error:
        raise DamagedFile(f"{location.uri} cannot be read as Parquet: {error}.") from error
