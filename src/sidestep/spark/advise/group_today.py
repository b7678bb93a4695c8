"""What queries read of a table in column groups as it is now: each on its retrieval path, by the table's index.

Which groups a query may read, and which of them it does, is decided by the code that plans queries
(:mod:`sidestep.prune.paths`): groups with some rows alone count where they have every row that the query wants.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sidestep.errors import SidestepError
from sidestep.predicate import DataType, Formula
from sidestep.prune.paths import OpenGroup, open_groups, retrieval_path
from sidestep.spark.rule.accesses import find_accesses
from sidestep.store.index.grouped_table import GroupedTable
from sidestep.store.index.partial_groups import PartialGroups
from sidestep.store.index.table_index import TableIndex
from sidestep.synopsis import Mask, kept_blocks


@dataclass(frozen=True, slots=True)
class GroupRead:
    """What a query reads of one group."""

    number: int
    columns: frozenset[str]
    rows: float
    """As a share of the table's rows."""
    files: int
    blocks: int


class GroupsToday:
    """A table in column groups, and what each query that is asked about reads of it."""

    def __init__(self, table: GroupedTable, index: TableIndex, types: Mapping[str, DataType]) -> None:
        copies = tuple(number for number in table.live if table.groups.is_partial(number))
        accesses = find_accesses(index, PartialGroups(index), table.live, copies, frozenset(types.items()))
        if accesses is None:
            raise SidestepError(f"{table.root.uri} is damaged: its index does not say which group a file is of.")
        positions = index.positions(table.snapshot.files)
        present = np.zeros(len(index.files), np.bool_)
        present[positions[positions >= 0]] = True
        self._catalog = index.catalog(types)
        self._present = present[self._catalog.file_of_block]
        rows = np.where(self._present, accesses.rows, 0)
        self._accesses = replace(accesses, rows=rows)
        of_all_rows = next(each for each in accesses.groups if each.number == table.complete[0])
        self.rows = max(1, int(rows[of_all_rows.blocks].sum()))
        """How many the table has."""
        self.files = int(present.sum())
        self._open: dict[Formula, tuple[Mask, tuple[OpenGroup, ...]]] = {}

    def read(self, formula: Formula, columns: Collection[str]) -> tuple[GroupRead, ...]:
        """What a query with a filter reads of some columns, which it needs."""
        if formula not in self._open:
            kept = self._present & kept_blocks(self._catalog, formula)
            self._open[formula] = kept, open_groups(self._accesses, [formula], kept)
        kept, open_to = self._open[formula]
        path = retrieval_path(open_to, sorted(columns))
        return tuple(
            GroupRead(
                each.access.number,
                frozenset(name for name, of in path.items() if of is each),
                each.rows / self.rows,
                int(self._catalog.files_kept(kept & each.access.blocks).sum()),
                int((kept & each.access.blocks).sum()),
            )
            for each in dict.fromkeys(path.values())
        )
