"""What a query asks of its tables, read off its optimized plan: predicates, columns and joins, per occurrence."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from sidestep.predicate import Cast, Column, Comparison, IsNull, Not, Op, Opaque, Predicate, conjuncts
from sidestep.prune import Filter, Join, Query, Scan, ScanFilter, scan_filters
from sidestep.prune.plan.algebra import Sides, walk
from sidestep.workload.query import JoinUse, TableUse

RUN_TIME_FILTERS = ("dynamicpruning", "might_contain(")
"""How the text of filters begins that Spark adds by itself at run time: no query asks for them, and none recurs."""
DEFAULT_SCHEMA = "spark_catalog.default."


Meaning = tuple[tuple[TableUse, ...], tuple[JoinUse, ...]]
"""What a query asks of tables, and how it joins them."""
Interpret = Callable[[Query, Callable[[Scan], str]], Meaning]
"""What a query means, given what its tables are called."""


def query_uses(query: Query, named: Callable[[Scan], str]) -> tuple[tuple[TableUse, ...], tuple[JoinUse, ...]]:
    """The occurrences of tables in a query, in plan order, and the equalities that join them.

    Scans must have been written with the columns the query needs and no others: those are the columns touched. What
    Catalyst copies for a runtime filter is one occurrence with the original, and claims what holds for all its copies.
    IS NOT NULL on the key of a join that drops NULL keys anyway says nothing, and is left out.
    """
    equalities = list(_equalities(query))
    joined = {number for left, right, holds in equalities for number in _dropping_nulls(left, right, holds)}
    places: dict[str, list[ScanFilter]] = {}
    for place in scan_filters(query):
        places.setdefault(place.scan.key, []).append(place)
    uses = tuple(_use(copies, named, joined) for copies in places.values())
    columns = {
        number: (named(scan), column.name)
        for scan in (copies[0].scan for copies in places.values())
        for number, column in scan.columns
    }
    return uses, tuple(dict.fromkeys(_joins(equalities, columns)))


def table_name(scan: Scan, names: Mapping[str, str]) -> str:
    """What a table is called: as given for its folder, else as in the catalog, else as its folder.

    >>> table_name(Scan("1", "spark_catalog.default.orders", ("file:/w/orders",), ()), {})
    'orders'
    >>> table_name(Scan("1", None, ("file:/data/lineitem",), ()), {"/data/lineitem": "li"})
    'li'
    """
    for root in scan.roots:
        if plain_path(root) in names:
            return names[plain_path(root)]
    return scan.name.removeprefix(DEFAULT_SCHEMA)


def given_names(tables: Mapping[str, object]) -> dict[str, str]:
    """The names of tables that were given by their paths, by these paths as Spark writes them.

    >>> given_names({"li": "/data/lineitem/", "orders": "s3a://bucket/orders"})
    {'/data/lineitem': 'li', 's3a://bucket/orders': 'orders'}
    """
    names = {}
    for name, table in tables.items():
        if isinstance(table, str | os.PathLike):
            path = os.fspath(table)
            names[plain_path(path if ":/" in path else os.path.abspath(path))] = name
    return names


def plain_path(path: str) -> str:
    """A local path without its scheme and a last slash; any other as it is but for the slash.

    >>> plain_path("file:///data/t/"), plain_path("file:/data/t"), plain_path("s3a://bucket/t")
    ('/data/t', '/data/t', 's3a://bucket/t')
    """
    rest = path.removeprefix("file:")
    if rest != path:
        rest = "/" + rest.lstrip("/")
    return rest.rstrip("/") or "/"


def _use(places: list[ScanFilter], named: Callable[[Scan], str], joined: set[str]) -> TableUse:
    scan = places[0].scan
    present = {column.name for number, column in scan.columns if number in joined}
    predicates = frozenset.intersection(*(frozenset(place.conjuncts) for place in places))
    return TableUse(
        named(scan),
        frozenset(p for p in predicates if not _is_presence(p, present) and not is_for_run_time(p)),
        frozenset(column.name for _, column in scan.columns),
    )


def _is_presence(predicate: Predicate, names: set[str]) -> bool:
    """Whether it is ``x IS NOT NULL`` for one of the names."""
    if not isinstance(predicate, Not) or not isinstance(predicate.child, IsNull):
        return False
    operand = predicate.child.operand
    return isinstance(operand, Column) and operand.name in names


def is_for_run_time(predicate: Predicate) -> bool:
    """Whether Spark has added it by itself, to read less when the query runs."""
    return isinstance(predicate, Opaque) and predicate.text.startswith(RUN_TIME_FILTERS)


Equality = tuple[Column, Column, Join | Filter]


def _equalities(query: Query) -> Iterator[Equality]:
    """Equalities between two columns in conditions of joins, and in filters: correlated subqueries leave some there."""
    for plan in query.plans:
        for operator in walk(plan):
            condition = operator.condition if isinstance(operator, Join | Filter) else None
            for part in conjuncts(condition) if condition is not None else ():
                if isinstance(part, Comparison) and part.op is Op.EQ and isinstance(operator, Join | Filter):
                    left, right = (_column(side) for side in (part.left, part.right))
                    if left is not None and right is not None:
                        yield left, right, operator


def _column(operand: object) -> Column | None:
    if isinstance(operand, Cast):
        return operand.column
    return operand if isinstance(operand, Column) else None


def _dropping_nulls(left: Column, right: Column, operator: Join | Filter) -> Iterator[str]:
    """The columns (by number) whose NULLs such an equality drops before they could matter."""
    if isinstance(operator, Filter):
        yield from (left.name, right.name)
        return
    ours = {number for plan in walk(operator.left) if isinstance(plan, Scan) for number, _ in plan.columns}
    for column in (left, right):
        if (Sides.LEFT if column.name in ours else Sides.RIGHT) in operator.type.condition_holds:
            yield column.name


def _joins(equalities: list[Equality], columns: Mapping[str, tuple[str, str]]) -> Iterator[JoinUse]:
    for left, right, operator in equalities:
        if isinstance(operator, Join) and left.name in columns and right.name in columns:
            first, second = sorted((columns[left.name], columns[right.name]))
            yield JoinUse(first, second)
