"""Digests of Parquet footers: what tells a file from another of the same size and modification time.

Tools that keep times (tar, rsync -t, images of containers) may put another file in the place of one that is indexed,
and a listing shows no difference. A footer names every column chunk with its place, its sizes and mostly its least and
greatest value, so that files with different rows rarely have the same one. ``Footers.java`` makes the same digests.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.store.location import Location, open_file

DIGEST_BYTES = 16
FOOTER = pa.field("footer", pa.binary(DIGEST_BYTES))
"""The column of an index that holds the digest for each block of a file; NULL where there is none."""
Digests = npt.NDArray[np.uint64]
"""Digests of many files, two words for each; zeros where there is none."""
_END = 8
"""The length of the footer and the magic number."""


def footer_digest(stream: Any) -> bytes | None:
    """The digest of an open file's footer, with the length and the magic number that follow it; None if it has none."""
    size = stream.size()
    if size < _END + 4:
        return None
    stream.seek(size - _END)
    length = int.from_bytes(stream.read(4), "little", signed=True)
    if not 0 <= length <= size - _END - 4:
        return None
    stream.seek(size - _END - length)
    return hashlib.sha256(stream.read(length + _END)).digest()[:DIGEST_BYTES]


def file_digest(location: Location) -> bytes | None:
    """The digest of a file's footer; None if it cannot be read."""
    try:
        with open_file(location) as stream:
            return footer_digest(stream)
    except (pa.ArrowException, OSError):
        return None


def digests_of(column: pa.ChunkedArray | None, count: int) -> Digests:
    """A column of digests as words; without a column, none of so many rows has one.

    >>> digests_of(pa.chunked_array([[None, bytes(15) + b"x"]], FOOTER.type), 2).any(axis=1).tolist()
    [False, True]
    """
    words = np.zeros((count, DIGEST_BYTES // 8), dtype=np.uint64)
    if column is not None and count:
        array = column.combine_chunks()
        array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
        known = array.is_valid().to_numpy(zero_copy_only=False)
        held = np.frombuffer(array.buffers()[1], np.uint64, 2 * count, array.offset * DIGEST_BYTES).reshape(-1, 2)
        words[known] = held[known]
    return words


def digest_column(words: Digests) -> pa.Array:
    """Words as a column of digests.

    >>> digest_column(digests_of(None, 2)).null_count
    2
    """
    known = words.any(axis=1)
    bits = pa.py_buffer(np.packbits(known, bitorder="little").tobytes())
    return pa.Array.from_buffers(FOOTER.type, len(words), [bits, pa.py_buffer(words.tobytes())])
