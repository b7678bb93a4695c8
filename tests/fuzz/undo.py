"""Mistakes that were made and mended, to be made again: the fuzzer has to find each of them soon.

``python -m tests.fuzz --undo NAME`` runs with one of them in place, and stops at the first difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

from sidestep.predicate import Column, DataType
from sidestep.spark.jvm import plan_reader


@contextmanager
def _columns_by_number() -> Iterator[None]:
    """A column is its number alone, wherever in a plan it lies."""

    def new_column(self: plan_reader._Reader, number: int, type: DataType) -> Column:
        return Column(str(number), type)

    def merge_scopes(scopes: Sequence[plan_reader.Scope]) -> plan_reader.Scope:
        return {number: source for scope in scopes for number, source in scope.items()}

    with (
        mock.patch.object(plan_reader._Reader, "_new_column", new_column),
        mock.patch.object(plan_reader, "_merge_scopes", merge_scopes),
    ):
        yield


UNDO: dict[str, Callable[[], AbstractContextManager[None]]] = {"columns-by-number": _columns_by_number}
"""What can be undone, each by a change of the code that is running, for as long as a block lasts."""
