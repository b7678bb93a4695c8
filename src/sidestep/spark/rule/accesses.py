"""Where the columns of a table in column groups can be read, and in which rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sidestep.prune.analysis import Accesses, ColumnAccess
from sidestep.store.index.partial_groups import AskedColumns, PartialGroups
from sidestep.store.index.table_index import TableIndex
from sidestep.store.sidecars.column_groups import GROUP


def find_accesses(
    index: TableIndex, partial: PartialGroups, named: Sequence[int], copies: Sequence[int], columns: AskedColumns
) -> Accesses | None:
    """The groups that a query may read: those of all rows, and those of some; None if it cannot be told which they are.

    ``named`` are groups that a version has its columns in, ``copies`` those of them with some rows only, and
    ``columns`` what queries ask about.
    """
    groups, blocks = partial.groups(named), groups_of_blocks(index)
    if groups is None or blocks is None:
        return None
    lacking, known = partial.lacking(copies, columns)
    accesses = []
    for number in groups.newest if min(named) >= groups.first else sorted(set(named)):
        some = groups.is_partial(number)
        if not some or number in known:
            mine = np.isin(blocks, [str(part) for part in groups.parts(number)])
            accesses.append(
                ColumnAccess(number, frozenset(groups.groups[number]), mine, known[number] if some else None)
            )
    return Accesses(tuple(accesses), lacking, index.map.rows)


def groups_of_blocks(index: TableIndex) -> npt.NDArray[np.str_] | None:
    """The number of the group that each block is of; None where that cannot be told."""
    values = index.file_values(GROUP)
    if values is None:
        return None
    of_blocks: npt.NDArray[np.str_] = values.to_numpy(zero_copy_only=False).astype(str)[index.map.file_of_block]
    return of_blocks
