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


class SidestepWarning(UserWarning):
    """Something was left out (an index file, a column), so less may be skipped; results stay right."""


class Conflict(SidestepError):
    """Others changed what this write was based on. Nothing was committed; the work may be done again."""


class UnusableIndexFile(SidestepError):
    """An index file that has to be left out; the message says why."""
