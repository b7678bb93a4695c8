"""Event logs as text, whichever of Spark's codecs they were written with.

zstd is a stream that anyone reads. What Spark calls lz4 and snappy are framings of the libraries it uses: lz4-java's
``LZ4BlockOutputStream`` and snappy-java's ``SnappyOutputStream``, undone here over pyarrow's raw codecs. A log that is
still being written, or was cut off by a crash, ends in the middle of a frame: all before it is read.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa

from sidestep.errors import SidestepError

LZ4_MAGIC = b"LZ4Block"
LZ4_HEADER = struct.Struct("<8sBiiI")
LZ4_PLAIN = 0x10
"""The block is stored as it is; 0x20 is compressed. The other half of the byte is a level for writers."""
SNAPPY_MAGIC = b"\x82SNAPPY\x00"
SNAPPY_HEADER = 16
"""The magic, and two versions of four bytes."""


def event_lines(path: Path) -> Generator[str]:
    """The lines of an event log, one event each."""
    name = path.name.removesuffix(".inprogress")
    suffix = name.rpartition(".")[2] if "." in name else ""
    unpack = _CODECS.get(suffix)
    with open(path, "rb") as file:
        if unpack is None:
            with io.TextIOWrapper(file, "utf-8", errors="replace") as text:
                yield from text
            return
        yield from _lines(unpack(file))


def _lines(pieces: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line.decode("utf-8", errors="replace") for line in whole)
    if rest:
        yield rest.decode("utf-8", errors="replace")


def _zstd(file: IO[bytes]) -> Iterator[bytes]:
    stream = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
    while True:
        try:
            piece = stream.read(1 << 20)
        except OSError:
            return
        if not piece:
            return
        yield piece


def _lz4(file: IO[bytes]) -> Iterator[bytes]:
    codec = pa.Codec("lz4_raw")
    while len(header := file.read(LZ4_HEADER.size)) == LZ4_HEADER.size:
        magic, token, packed, plain, _ = LZ4_HEADER.unpack(header)
        if magic != LZ4_MAGIC or packed < 0 or plain < 0:
            raise SidestepError(f"{getattr(file, 'name', 'The log')} is not lz4 as Spark writes it.")
        data = file.read(packed)
        if len(data) < packed:
            return
        if plain:
            yield data if token & 0xF0 == LZ4_PLAIN else codec.decompress(data, plain, asbytes=True)


def _snappy(file: IO[bytes]) -> Iterator[bytes]:
    codec = pa.Codec("snappy")
    header = file.read(SNAPPY_HEADER)
    if not header.startswith(SNAPPY_MAGIC):
        raise SidestepError(f"{getattr(file, 'name', 'The log')} is not snappy as Spark writes it.")
    while len(size := file.read(4)) == 4:
        if size == SNAPPY_MAGIC[:4]:
            # Another stream was appended: its header comes again.
            file.read(SNAPPY_HEADER - 4)
            continue
        (packed,) = struct.unpack(">i", size)
        data = file.read(packed)
        if len(data) < packed:
            return
        yield codec.decompress(data, _snappy_length(data), asbytes=True)


def _snappy_length(data: bytes) -> int:
    """A raw snappy block begins with its plain length, seven bits a byte, the lowest first."""
    length = 0
    for position, byte in enumerate(data[:5]):
        length |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            break
    return length


def _lzf(file: IO[bytes]) -> Iterator[bytes]:
    raise SidestepError(
        f"{getattr(file, 'name', 'The log')} is compressed with lzf, which is not read here. Set "
        "spark.eventLog.compression.codec to zstd for later logs."
    )


_CODECS: dict[str, Callable[[IO[bytes]], Iterator[bytes]]] = {
    "zstd": _zstd,
    "lz4": _lz4,
    "snappy": _snappy,
    "lzf": _lzf,
}
