"""What a plan with selectors means: scans read what was chosen for them, inputs of joins run in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from sidestep.predicate import INTEGER, Column, Literal
from sidestep.prune.plan.algebra import (
    DynamicScan,
    Join,
    Motion,
    Operator,
    PartitionSelector,
    Scan,
    Sequence,
    Sides,
    children,
    with_children,
)
from sidestep.prune.selectors.partitions import PartitionedTable
from sidestep.prune.selectors.placement import Order, left_first
from tests.prune.joins import Row
from tests.prune.plans import outputs, run


class Execution:
    """Runs a plan over tables whose rows lie in partitions, and notes what its scans read."""

    def __init__(
        self,
        tables: Mapping[str, PartitionedTable],
        rows: Mapping[str, Mapping[str, list[Row]]],
        data: Mapping[str, list[Row]] | None = None,
        order: Order = left_first,
    ) -> None:
        self.tables = tables
        """By part scan id."""
        self.rows = rows
        """By part scan id and partition, rows by the numbers of the query's columns."""
        self.data = dict(data or {})
        self.order = order
        self.chosen: dict[str, frozenset[str]] = {}
        self.read: dict[str, frozenset[str]] = {}
        self._made: list[Operator] = []
        """Kept, since what operators add is named by their identity."""

    def result(self, plan: Operator) -> Counter[tuple[tuple[str, object], ...]]:
        """The rows of a plan; what operators add to them is told by its kind, whichever object the operator is.

        Of what an operator adds, NULL is no more than that it added nothing: an outer join puts it there if there is
        such a column, which this knows by the rows that have it.
        """
        return Counter(tuple(sorted(_told(row), key=repr)) for row in self._rows(self._run(plan)))

    def _rows(self, stand_in: Operator) -> list[Row]:
        return run(stand_in, self.data)

    def _run(self, operator: Operator) -> Operator:
        """A table in place of the operator that holds its rows."""
        match operator:
            case DynamicScan(part_scan_id=scan, keys=keys, columns=columns):
                assert scan in self.chosen, f"{scan} is read before anything is chosen for it"
                self.read[scan] = self.chosen[scan]
                rows = [row for oid, own in self.rows[scan].items() if oid in self.chosen[scan] for row in own]
                return self._hold(rows, [*keys, *columns])
            case PartitionSelector(part_scan_id=scan, predicates=predicates, child=child):
                table = self.tables[scan]
                below = self._run(child) if child is not None else None
                passing = None
                if below is not None:
                    types = {column.name: column.type for column in outputs(below)}
                    passing = [{name: Literal(row[name], types[name]) for name in types} for row in self._rows(below)]
                chosen = table.choose(predicates, passing)
                self.chosen[scan] = self.chosen.get(scan, table.oids) & chosen
                return below if below is not None else self._hold([], [])
            case Sequence(children=below):
                return [self._run(child) for child in below][-1]
            case Motion(child=child):
                return self._run(child)
            case Join(left=left, right=right):
                if self.order(operator) is Sides.LEFT:
                    first = self._run(left)
                    both = (first, self._run(right))
                else:
                    second = self._run(right)
                    both = (self._run(left), second)
                return self._keep(with_children(operator, both))
            case Scan():
                return operator
            case _:
                return self._keep(with_children(operator, tuple(self._run(child) for child in children(operator))))

    def _keep(self, operator: Operator) -> Operator:
        self._made.append(operator)
        return self._hold(self._rows(operator), outputs(operator))

    def _hold(self, rows: list[Row], columns: list[Column]) -> Scan:
        """A table of these rows, with all that operators have added to them."""
        key = f"held {len(self.data)}"
        names = {column.name for column in columns}
        more = sorted({name for row in rows for name in row} - names)
        all_columns = [*columns, *(Column(name, INTEGER) for name in more)]
        self.data[key] = [{column.name: row.get(column.name) for column in all_columns} for row in rows]
        return Scan(key=key, table=key, roots=(), columns=tuple((column.name, column) for column in all_columns))


def _told(row: Row) -> Iterator[tuple[str, object]]:
    for name, value in row.items():
        kind, _, added = name.partition(" ")
        if value is not None or not added:
            yield kind, value
