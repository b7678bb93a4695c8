"""What queries have to know of column groups that have some rows only: which rows these are, and which they lack."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from sidestep.errors import SidestepError
from sidestep.predicate.types import DataType
from sidestep.store.index.layout_columns import askable
from sidestep.store.index.table_index import TableIndex, warn_once
from sidestep.store.sidecars.column_groups import COLUMN_GROUPS, ColumnGroups
from sidestep.store.sidecars.layout import load_features
from sidestep.synopsis import Catalog
from sidestep.synopsis.features.union_vectors import without_features
from sidestep.workload.features.feature_set import FeatureSet

MOST_CATALOGS = 64

AskedColumns = frozenset[tuple[str, DataType]]
Lacking = tuple[Catalog, Mapping[int, int]]
"""A block of rows for each group, and its position by the number of the group."""


class PartialGroups:
    """The groups of a table that have some rows only, by the sidecars beside its index; read when first asked for.

    What a number stands for never changes, so that nothing is read twice, unless there are numbers that were not there.
    """

    def __init__(self, index: TableIndex) -> None:
        self._index = index
        self._groups: ColumnGroups | None = None
        self._catalogs: dict[tuple[tuple[int, ...], AskedColumns], Lacking] = {}
        self._lock = threading.Lock()

    def groups(self, numbers: Collection[int]) -> ColumnGroups | None:
        """What is noted of a table's groups, if these are among them."""
        most = max(numbers, default=-1)
        with self._lock:
            if self._groups is None or most >= len(self._groups.groups):
                self._groups = COLUMN_GROUPS.load(self._index.folder)
            return self._groups if self._groups is not None and most < len(self._groups.groups) else None

    def lacking(self, numbers: Sequence[int], columns: AskedColumns) -> Lacking:
        """Of groups with some rows, a catalog with a block for each that stands for all rows which it lacks.

        None of these satisfies any of the group's features, whatever else is in them: their union vector has no bit.
        Groups whose features cannot be read are left out. ``columns`` are those that queries ask about.
        """
        groups = self.groups(numbers)
        key = tuple(numbers), columns
        with self._lock:
            if key not in self._catalogs:
                if len(self._catalogs) >= MOST_CATALOGS:
                    self._catalogs.clear()
                self._catalogs[key] = self._make(groups, numbers, columns)
            return self._catalogs[key]

    def _make(self, groups: ColumnGroups | None, numbers: Sequence[int], columns: AskedColumns) -> Lacking:
        features: dict[int, FeatureSet] = {}
        for number in numbers if groups is not None else ():
            some = groups.rows.get(number) if groups is not None else None
            loaded = None if some is None or some.rest_of is not None else self._load(some.features)
            if loaded is not None:
                features[number] = loaded
        place = {number: at for at, number in enumerate(features)}
        about = askable(dict(columns), self._index.partition_columns, self._index.columns)
        synopses = []
        for number, own in features.items():
            vectors = without_features([one.formula for one in own.features], place[number], len(place)).about(about)
            if vectors is not None:
                synopses.append(vectors)
        nothing = np.zeros(len(place), np.int64)
        return Catalog(np.arange(len(place), dtype=np.int32), nothing, nothing, len(place), tuple(synopses)), place

    def _load(self, id: str) -> FeatureSet | None:
        folder = self._index.folder
        try:
            features, why = load_features(folder, id), "it is not there"
        except SidestepError as problem:
            features, why = None, str(problem)
        if features is None:
            warn_once(
                f"{folder.uri}:{id}",
                f"The feature set {id[:12]} of {folder.uri} cannot be used ({why}), so copies of rows that it tells of "
                "are not read. Load the table anew.",
            )
        return features
