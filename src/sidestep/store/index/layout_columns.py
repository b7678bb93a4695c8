"""What an index knows of blocks that were laid out: their ids, union vectors and features, and the files' units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.errors import SidestepError
from sidestep.layout.vectors import bytes_for, from_bytes, words_for
from sidestep.predicate.nodes import Column
from sidestep.predicate.types import DataType
from sidestep.store.index.block_map import BlockMap, Gather
from sidestep.store.index.index_file import IndexFile
from sidestep.store.location import Location
from sidestep.store.parquet.blocks import LAYOUT
from sidestep.store.sidecars.layout import load_features
from sidestep.synopsis.features.union_vectors import UnionVectors
from sidestep.workload.features.feature_set import FeatureSet

Read = Callable[[IndexFile, Sequence[str]], Mapping[str, pa.Array] | None]
"""Columns of an index file; None if it can no longer be read."""

_TOGETHER = (("block",), ("features", "union"), ("unit",))
"""Columns that come from one and the same index row: the newest in which the first of them is not NULL."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The layout columns of all blocks, in block order; NULL where nothing is known.

    A file that is indexed again, for its zone maps, has rows that say nothing of its layout: those said before hold, as
    long as the file is the same and so are its row groups. A union vector and its feature set are never parted.
    """

    block: pa.Array
    union: pa.Array
    features: pa.Array
    unit: pa.Array

    def block_ids(self) -> npt.NDArray[np.int32]:
        """The id of each block, -1 where there is none."""
        ids: npt.NDArray[np.int32] = pc.fill_null(self.block, -1).to_numpy(zero_copy_only=False)
        return ids

    def feature_sets(self) -> tuple[str, ...]:
        """The ids of the feature sets that blocks have vectors of, in the order in which they first appear."""
        return tuple(id for id in pc.unique(self.features).to_pylist() if id is not None)

    def union_vectors(self, features: FeatureSet) -> UnionVectors | None:
        """The vectors of the blocks that have one of these features; None if no block has.

        One of another length than the features need is no vector of theirs, whatever its row says.
        """
        fits = pc.equal(pc.binary_length(self.union), bytes_for(len(features)))
        mine = pc.fill_null(pc.and_(pc.equal(self.features, features.id), fits), False)
        known = mine.to_numpy(zero_copy_only=False)
        if not known.any():
            return None
        words = np.zeros((words_for(len(features)), len(known)), dtype=np.uint64)
        words[:, known] = from_bytes(self.union.filter(mine).to_pylist(), len(features)).T
        return UnionVectors(tuple(feature.formula for feature in features.features), words, known)

    def units(self, file_of_block: npt.NDArray[np.int32]) -> tuple[str | None, ...]:
        """What each file was organized as; None for a file that was not."""
        first = np.flatnonzero(np.diff(file_of_block, prepend=np.int32(-1)))
        return tuple(self.unit.take(pa.array(first)).to_pylist())


def no_layout(blocks: BlockMap) -> Layout:
    """The layout columns of blocks of which nothing is known."""
    return Layout(**{field.name: pa.nulls(blocks.blocks, field.type) for field in LAYOUT})


def read_layout(files: Sequence[IndexFile], blocks: BlockMap, read: Read) -> Layout:
    """The layout columns of a view, each from the newest entry that says something."""
    arrays: dict[str, pa.Array] = {}
    for names in _TOGETHER:
        holders = [number for number, file in enumerate(files) if file.layout_columns.issuperset(names)]
        columns: dict[str, list[pa.Array]] = {name: [pa.nulls(0, LAYOUT.field(name).type)] for name in names}
        says: list[npt.NDArray[np.bool_]] = []
        for number in holders:
            found = read(files[number], names)
            for name in names:
                nothing = pa.nulls(files[number].rows, LAYOUT.field(name).type)
                columns[name].append(nothing if found is None else found[name])
            says.append(columns[names[0]][-1].is_valid().to_numpy(zero_copy_only=False))
        gather = Gather(blocks.sources(holders, says))
        arrays |= {name: gather(pa.concat_arrays(parts)) for name, parts in columns.items()}
    return Layout(**arrays)


def read_union_vectors(layout: Layout, folder: Location, warn: Callable[[str, str], None]) -> tuple[UnionVectors, ...]:
    """The union vectors of each feature set that blocks name; a set that is gone or damaged is warned of, by a key."""
    found: list[UnionVectors] = []
    for id in layout.feature_sets():
        vectors, why = None, "it is not there"
        try:
            features = load_features(folder, id)
            vectors = None if features is None else layout.union_vectors(features)
        except Exception as error:
            features, why = None, str(error) if isinstance(error, SidestepError) else repr(error)
        if features is None:
            warn(
                f"{folder.uri}:{id}",
                f"The feature set {id[:12]} of {folder.uri} cannot be used ({why}), so blocks laid out by it are "
                "skipped by their zone maps alone. Save it there again, or lay the table out anew.",
            )
            continue
        if vectors is not None:
            found.append(vectors)
    return tuple(found)


def askable(
    columns: Mapping[str, DataType], partition: frozenset[str], indexed: Mapping[str, DataType]
) -> frozenset[Column]:
    """Those of a query's columns that features may be asked about.

    A feature speaks of the values that its columns had when the blocks were made. A partition column's value is not in
    the file: what a reader takes for it depends on the path, the log, the catalog and the time zone, so no feature that
    mentions one is used; zone maps of partition values are. A name that differs from a column of the table in letter
    case alone is that column or none, by the session's setting: it is left out, too.
    """
    folders = {name.lower() for name in partition}
    spelled = {name.lower() for name in indexed}
    return frozenset(
        Column(name, type)
        for name, type in columns.items()
        if name.lower() not in folders and (name in indexed or name.lower() not in spelled)
    )
