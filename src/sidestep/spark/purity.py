"""What code may use and still be a function of its arguments alone.

Spark believes whoever says that a function is deterministic, and so does sidestep, within reason: code that plainly
reaches for a clock, for chance or for the world outside is not taken at its word, as blocks would be skipped on it.
"""

from __future__ import annotations

import builtins
import re


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


PURE_BUILTINS = _words(
    """
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod enumerate filter float
    format frozenset getattr hasattr hex int isinstance issubclass iter len list map max memoryview min next object
    oct ord pow print property range repr reversed round set slice sorted staticmethod str sum super tuple type zip
    Ellipsis NotImplemented __build_class__ __debug__
    """
) | {name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)}
"""Names that Python always knows; not among them are open and input, hash and id, eval and exec, globals and vars."""

OUTSIDE_MODULES = _words(
    """
    asyncio atexit ctypes fileinput ftplib gc getpass glob http imaplib importlib inspect io linecache locale mmap
    multiprocessing os pathlib pickle platform poplib random resource runpy secrets select shelve shutil signal smtplib
    socket sqlite3 ssl subprocess sys sysconfig tempfile threading time tracemalloc weakref
    """
)
"""Modules of Python's library whose functions may answer differently another time, or elsewhere."""

OUTSIDE_ATTRIBUTES = _words(
    """
    astimezone default_rng environ fromtimestamp getenv getrandbits localtime now random read_csv read_parquet timestamp
    today urlopen utcnow uuid1 uuid4
    """
)
"""Names that are suspect on whatever object they are asked of."""
