"""Keys of tables, checked by looking at every row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sidestep.advisor.layouts.join_trees import Pairs


class CheckedKeys:
    """What holds for all rows of some tables; each question is answered by one job, once."""

    def __init__(self, tables: Mapping[str, DataFrame], tell: Callable[[str], None]) -> None:
        self._tables = tables
        self._tell = tell
        self._unique: dict[tuple[str, tuple[str, ...]], bool] = {}
        self._total: dict[tuple[str, str, Pairs], bool] = {}

    def unique(self, table: str, columns: tuple[str, ...]) -> bool:
        """Whether no two rows have the same values in these columns. One with a NULL among them is no one's partner."""
        if (table, columns) not in self._unique:
            self._tell(f"is {', '.join(columns)} a key of {table}?")
            named = [_column(name) for name in columns]
            rows = self._tables[table].select(*named).where(_all(each.isNotNull() for each in named))
            repeated = rows.groupBy(*named).agg(F.count(F.lit(1)).alias("_rows")).where("_rows > 1")
            self._unique[table, columns] = repeated.isEmpty()
        return self._unique[table, columns]

    def total(self, parent: str, child: str, on: Pairs) -> bool:
        """Whether every row of one table has a partner in the other: none without, and none with a NULL."""
        if (parent, child, on) not in self._total:
            self._tell(f"has every row of {parent} a partner in {child}?")
            ours = self._tables[parent].select(*(_column(a).alias(f"a{i}") for i, (a, _) in enumerate(on)))
            theirs = self._tables[child].select(*(_column(b).alias(f"b{i}") for i, (_, b) in enumerate(on)))
            same = _all(F.col(f"a{i}") == F.col(f"b{i}") for i in range(len(on)))
            self._total[parent, child, on] = ours.join(theirs, same, "left_anti").isEmpty()
        return self._total[parent, child, on]


def _column(name: str) -> Column:
    quoted = name.replace("`", "``")
    return F.col(f"`{quoted}`")


def _all(conditions: object) -> Column:
    return reduce(and_, conditions)  # type: ignore[call-overload, no-any-return]
