"""Schemes of layouts (thesis, 5.4): what cells of a table each layout holds, and how much they take together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sidestep.errors import SidestepError

ColumnNumbers = frozenset[int]
"""Columns of a table by position."""
FeatureNumbers = frozenset[int]
"""Features of a workload by position."""
Cells = tuple[ColumnNumbers, FeatureNumbers]
"""Columns, and the features whose rows are stored of them: a layout without its master columns."""
RowCount = Callable[[FeatureNumbers], float]
"""How many rows satisfy at least one of some features."""


@dataclass(frozen=True, slots=True)
class ReplicaLayout:
    """One layout of a scheme: columns that share an arrangement of rows (5.4.1).

    Contract: the layout holds all of its columns in the rows that satisfy at least one of its features (R_i), and in
    all other rows its master columns alone. So a column that is not a master may be read from here only by a query
    whose filter implies one of the features.
    """

    columns: ColumnNumbers
    features: FeatureNumbers
    masters: ColumnNumbers = frozenset()

    def __post_init__(self) -> None:
        if not self.columns:
            raise SidestepError("A layout has at least one column.")
        if not self.masters <= self.columns:
            raise SidestepError(f"Columns {sorted(self.masters - self.columns)} are masters of a layout without them.")
        if not self.features and self.masters != self.columns:
            raise SidestepError("A layout without features has rows of its master columns only: leave the others out.")

    @property
    def cells(self) -> Cells:
        """The layout without its master columns."""
        return self.columns, self.features

    @property
    def whole(self) -> bool:
        """Whether it holds each of its columns in every row, so that any query may read them here."""
        return self.masters == self.columns

    def stored(self, rows: RowCount, total: float) -> float:
        """How many cells it holds: |R_i| · |C_i| + (|R| - |R_i|) · |M_i|."""
        some = rows(self.features)
        return some * len(self.columns) + (total - some) * len(self.masters)


@dataclass(frozen=True, slots=True)
class ReplicaScheme:
    """Layouts that hold every cell of a table between them, some of them more than once.

    Contract: each of the table's ``columns`` is a master somewhere, so that no cell is lost. Both are checked here: an
    incomplete scheme cannot be made.
    """

    columns: int
    layouts: tuple[ReplicaLayout, ...]

    def __post_init__(self) -> None:
        named = frozenset().union(*(layout.columns for layout in self.layouts))
        if not named <= frozenset(range(self.columns)):
            raise SidestepError(f"A layout has other columns than the {self.columns} that the table has.")
        mastered = frozenset().union(*(layout.masters for layout in self.layouts))
        if len(mastered) < self.columns:
            missing = sorted(frozenset(range(self.columns)) - mastered)
            raise SidestepError(f"Columns {missing} are masters of no layout: their cells would be lost.")

    @classmethod
    def of(cls, columns: int, cells: Iterable[Cells], rows: RowCount) -> ReplicaScheme:
        """The scheme of some layouts: those of equal features made one (5.5.2), and masters by the two rules (5.5.3).

        A column is master in one layout, the one of the most rows of all that hold it. What then holds nothing (no
        features, no masters) is left out.
        """
        merged: dict[FeatureNumbers, ColumnNumbers] = {}
        for held, features in cells:
            merged[features] = merged.get(features, frozenset()) | held
        ordered = sorted(merged.items(), key=lambda pair: sorted(pair[0]))
        layouts = [(held, features, rows(features)) for features, held in ordered]
        masters: list[set[int]] = [set() for _ in layouts]
        for column in range(columns):
            holding = [at for at, (held, *_) in enumerate(layouts) if column in held]
            if holding:
                best = max(holding, key=lambda at: (layouts[at][2], -at))
                masters[best].add(column)
        made = []
        for (held, features, _), mine in zip(layouts, masters, strict=True):
            kept = held if features else frozenset(mine)
            if kept:
                made.append(ReplicaLayout(kept, features, frozenset(mine)))
        return cls(columns, tuple(sorted(made, key=lambda layout: (min(layout.columns), sorted(layout.features)))))

    @property
    def cells(self) -> tuple[Cells, ...]:
        """The layouts without their master columns."""
        return tuple(layout.cells for layout in self.layouts)

    def storage(self, rows: RowCount, total: float) -> float:
        """The cells that are stored as a multiple of those of the table: s-cost (5.2)."""
        if not total or not self.columns:
            return 1.0
        return sum(layout.stored(rows, total) for layout in self.layouts) / (total * self.columns)

    def names(self, columns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """The columns of each layout by name."""
        return tuple(tuple(columns[at] for at in sorted(layout.columns)) for layout in self.layouts)
