"""Mistakes that were made and mended, to be made again: the fuzzer has to find each of them soon.

``python -m tests.fuzz --undo NAME`` runs with one of them in place, and stops at the first difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from sidestep.predicate import Column, DataType
from sidestep.spark.jvm import bridge, plan_reader
from sidestep.spark.table import index
from sidestep.store import Snapshot
from sidestep.store.block_column import BLOCK
from sidestep.store.digest import CheckedReader


@dataclass(frozen=True)
class Undo:
    """A mistake, and the worlds in which it is likely to show."""

    theme: str
    made: Callable[[], AbstractContextManager[None]]
    """Makes it in the code that is running, for as long as a block lasts."""
    java: bool = False
    """Whether it is in Java, which is compiled once: the block has to begin before Spark does."""


@contextmanager
def _instead(others: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Put other functions in the place of sidestep's, by their full names."""
    with ExitStack() as stack:
        for name, other in others.items():
            stack.enter_context(mock.patch(f"sidestep.{name}", other))
        yield


@contextmanager
def _java_text(source: str, before: str, after: str) -> Iterator[None]:
    """Compile a Java source with some of its text replaced."""
    sources = bridge.java_sources()
    if sources[source].count(before) != 1:
        raise LookupError(f"{source} has not exactly one place that says: {before}")
    changed = {**sources, source: sources[source].replace(before, after)}
    with mock.patch.object(bridge, "java_sources", return_value=changed):
        yield


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


def _stale_witnesses() -> AbstractContextManager[None]:
    """Files of joined tables are looked at when a query is planned, and not when it runs."""
    before = "synchronized boolean hold() {"
    return _java_text("Witnesses.java", before, f"{before}\n    if (true) return true;")


def _four_settings() -> AbstractContextManager[None]:
    """The identity of what is not looked into names the four settings that come to mind."""
    before = "private static boolean counts(String key) {"
    return _java_text("ValueSettings.java", before, f"{before}\n    if (true) return false;")


def _forbidden_modules() -> AbstractContextManager[None]:
    """A function is known by its code unless it uses a module on a list of bad ones."""
    forbidden = ("glob", "io", "os", "pathlib", "pickle", "random", "shutil", "socket", "subprocess", "sys", "time")

    def is_pure(module: str, name: str) -> bool:
        return module.partition(".")[0] not in forbidden

    def any_attribute(name: str) -> None: ...

    return _instead({"spark.udf.digest.is_pure": is_pure, "spark.udf.digest._check_attribute": any_attribute})


@contextmanager
def _no_digests() -> Iterator[None]:
    """What is read of an index is believed."""

    def read(self: CheckedReader, size: int = -1) -> bytes:
        begin = min(self._position, self._size)
        end = self._size if size < 0 else min(begin + size, self._size)
        self._position = end
        return bytes(self._stream.read_at(end - begin, begin))

    def believe(digits: str, content: bytes) -> None: ...

    with (
        _instead({"store.index.index_file.check_stamp": believe, "store.sidecars.sidecar.check_stamp": believe}),
        mock.patch.object(CheckedReader, "read", read),
    ):
        yield


@contextmanager
def _rewrites_that_trust() -> Iterator[None]:
    """A write reads what the session's settings make of files, and no one counts its rows."""

    def no_count(*_: Any, **__: Any) -> None: ...

    before = "public LogicalPlan readBy(LogicalPlan plan, SparkSession reader) {"
    with (
        _java_text("Inspector.java", before, f"{before}\n    if (true) return plan;"),
        _instead({"spark.table.state.check_rows": no_count, "spark.table.append.check_rows": no_count}),
    ):
        yield


def _block_by_name() -> AbstractContextManager[None]:
    """A column that is called like the hidden one is taken for it."""
    types_of = index.column_types

    def column_types(*arguments: Any) -> dict[str, DataType]:
        return {name: type for name, type in types_of(*arguments).items() if name != BLOCK}

    return _instead({"spark.table.index.column_types": column_types})


def _place_and_version() -> AbstractContextManager[None]:
    """Two snapshots are one if they have the same path and version."""

    def identity(snapshot: Snapshot, paths: str, numbers: str) -> str:
        return f"{snapshot.root.uri}@{snapshot.version}"

    return _instead({"spark.relation._identity": identity})


UNDO: dict[str, Undo] = {
    "columns-by-number": Undo("correlated", _columns_by_number),
    "stale-witnesses": Undo("moments", _stale_witnesses, java=True),
    "four-settings": Undo("drift", _four_settings, java=True),
    "forbidden-modules": Undo("functions", _forbidden_modules),
    "no-digests": Undo("flips", _no_digests),
    "rewrites-that-trust": Undo("writes", _rewrites_that_trust, java=True),
    "block-by-name": Undo("names", _block_by_name),
    "place-and-version": Undo("again", _place_and_version),
}
