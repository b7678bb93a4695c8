"""What sidestep raises and warns with: each message is a sentence that says what was wrong, where, and what to do."""

from __future__ import annotations


class SidestepError(Exception):
    """Base of all errors that sidestep raises on purpose."""


class TableNotFound(SidestepError):
    """There is no table at the path: nothing there, nothing in it, or not Parquet."""


class UnsupportedTable(SidestepError):
    """The table exists, but uses a feature that sidestep cannot read with certainty."""


class DamagedFile(SidestepError):
    """A data file is not readable as Parquet."""


class Unreachable(SidestepError, OSError):
    """A file or folder is there, but the system does not let it be looked at, listed or deleted."""


class SidestepWarning(UserWarning):
    """Something was left out (an index file, a column), so less may be skipped; results stay right."""


class Conflict(SidestepError):
    """Others changed what this write was based on. Nothing was committed; the work may be done again."""


class Unanswered(SidestepError):
    """A store did not say whether it has done what it was asked to."""


class UnusableIndexFile(SidestepError):
    """An index file that has to be left out; the message says why."""


class DamagedContent(SidestepError):
    """A file of sidestep's own does not hold what it was written with; the message says why."""


class NewerFormat(SidestepError):
    """Something stored was written by a newer sidestep, in a format that this one does not know."""


def check_format(stated: object, newest: int, what: str) -> int:
    """The number of the format that something stored says it has, if this sidestep knows it.

    >>> check_format(1, 2, "The layout of /t")
    1
    >>> check_format(3, 2, "The layout of /t")
    Traceback (most recent call last):
    sidestep.errors.NewerFormat: The layout of /t has format 3, newer than the 2 that this sidestep reads: upgrade it.
    """
    if type(stated) is not int or stated < 1:
        raise SidestepError(f"{what} does not say which format it has: it is damaged, or not a file of sidestep.")
    if stated > newest:
        raise NewerFormat(f"{what} has format {stated}, newer than the {newest} that this sidestep reads: upgrade it.")
    return stated
