"""Digests of what never changes: the name of a file says what is in it, and whoever opens the file checks that.

One flipped bit in an index file can move a bound, and a moved bound loses rows in silence. So the last 32 digits of the
names of index files and numbered sidecars are a *stamp*: the digest of what they hold. A file that was damaged, cut
short, overwritten or put in the place of another is told from a whole one before anything in it is believed.

Before there were stamps those digits were random, a UUID, whose thirteenth digit is 4; that of a stamp is a ``d``. So
the name alone says whether there is something to check: no damage inside a file can switch the check off.
"""

from __future__ import annotations

import hashlib
import io

import pyarrow as pa

from sidestep.errors import DamagedContent

SEGMENT = 1 << 16
"""Bytes that have one digest in files that are read in parts."""
DIGEST = 16
"""Bytes of a digest: against damage, not against forgers, who could write a stamp as well."""
_MARK, _AT = "d", 12
Content = bytes | memoryview


def digest(content: Content) -> bytes:
    """The digest of some bytes. (SHA-256 is the fastest good one where processors help with it.)"""
    return hashlib.sha256(content).digest()[:DIGEST]


def stamp(content: Content) -> str:
    """What the name of a file says of its content, in 32 digits.

    >>> stamp(b"content")
    'ed7002b439e9dac845f22357d822bac1'
    """
    digits = digest(content).hex()
    return f"{digits[:_AT]}{_MARK}{digits[_AT:-1]}"


def is_stamp(digits: str) -> bool:
    """Whether the last digits of a name say what is in the file; those of older files were random."""
    return digits[_AT] == _MARK


def check_stamp(digits: str, content: Content) -> None:
    """Refuse content that is not what the name says; a name from before there were stamps says nothing."""
    if is_stamp(digits) and stamp(content) != digits:
        raise DamagedContent("it is damaged: its content is another than its name says")


def segment_digests(content: Content) -> bytes:
    """The digests of a content's segments, one after the other."""
    view = memoryview(content)
    return b"".join(digest(view[start : start + SEGMENT]) for start in range(0, len(view), SEGMENT))


class CheckedReader(io.RawIOBase):
    """The beginning of a file, read in parts, each of which is held against the digests of its segments.

    What is returned is what was checked: the bytes are read once.
    """

    def __init__(self, stream: pa.NativeFile, size: int, digests: bytes) -> None:
        if len(digests) != DIGEST * -(-size // SEGMENT):
            raise DamagedContent("it is damaged: it has no digest for some of its parts")
        self._stream, self._size, self._digests = stream, size, digests
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def verify(self) -> None:
        """Read and check everything, a stretch at a time. DamagedContent if something is not as it was written."""
        self.seek(0)
        while self.read(64 * SEGMENT):
            pass

    def read(self, size: int = -1) -> bytes:
        begin = min(self._position, self._size)
        end = self._size if size < 0 else min(begin + size, self._size)
        if begin == end:
            return b""
        first = begin // SEGMENT
        start, stop = first * SEGMENT, min(-(-end // SEGMENT) * SEGMENT, self._size)
        content = self._stream.read_at(stop - start, start)
        if segment_digests(content) != self._digests[DIGEST * first : DIGEST * -(-stop // SEGMENT)]:
            raise DamagedContent(f"it is damaged between bytes {start:,} and {stop:,}")
        self._position = end
        return bytes(memoryview(content)[begin - start : end - start])
