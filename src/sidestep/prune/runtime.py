"""Selectors that choose when the query runs: which scans get one, what each chooses by, and whether it is worth it.

Blocks are partitions, and their synopses are the constraints, on every column that they know of. So each scan that
keeps several blocks is a dynamic scan whose keys are its columns, and :mod:`~sidestep.prune.selectors.placement` says
which inputs of joins can choose for it. Constants that come late, from the query's own subqueries, are collected with
the early ones
(:attr:`~sidestep.prune.plan.static.ScanFilter.late`). Either way, what is left is a predicate on the table's columns
and on *parameters*, ``?0``, ``?1`` …, and when these have values, blocks are chosen as by any other predicate.

**Whether it is worth it.** A selector costs milliseconds, and a scan waits for it. It is left out where little is left
to read, where each value is in most blocks anyway (:func:`touched`), and where the other input has no filter or limit
that data-induced predicates have not seen already. If Spark broadcasts the other input, its keys are there for nothing.
If not, it would have to be run once more: that is worth it only if it is small beside what may be saved, and possible
only if it gives the same rows again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sidestep.predicate import And, Cast, Column, Comparison, IsNull, Literal, Not, Op, Opaque, Predicate, conjuncts
from sidestep.predicate.columns import columns_of, rename
from sidestep.predicate.text import sql
from sidestep.predicate.types import INTEGRAL, Kind
from sidestep.prune.analysis import AnalyzedQuery, Decision, RuntimeSelector, SelectorOptions, by_scan
from sidestep.prune.dips.column_ranges import ColumnRanges, column_ranges
from sidestep.prune.plan.algebra import (
    PARAMETER,
    Aggregate,
    DynamicScan,
    Filter,
    Join,
    Limit,
    Operator,
    Other,
    PartitionSelector,
    Project,
    Query,
    Scan,
    Sides,
    Union,
    children,
    is_parameter,
    walk,
    with_children,
)
from sidestep.prune.plan.algebra import Sequence as InSequence
from sidestep.prune.selectors.placement import place_selectors
from sidestep.synopsis import Catalog, Mask

WHOLE = INTEGRAL | {Kind.DATE, Kind.TIMESTAMP}
"""Types whose keys can be counted by the cells of a grid."""
GRID_CELLS = 2_048


def select_at_run_time(query: AnalyzedQuery, decision: Decision) -> Decision:
    """Find what may be chosen of each scan once the query runs."""
    options = query.settings.selectors
    targets = {_part_scan_id(target.scan): target for target in _targets(query, decision, options)}
    if not targets:
        return decision
    selectors = [
        selector
        for place in query.places
        if _part_scan_id(place.scan) in targets and place.late
        for selector in _by_constants(targets[_part_scan_id(place.scan)], place.late)
    ]
    names = _names(query.query)
    for plan in query.query.plans:
        if any(isinstance(each, Join) and each.meetings for each in walk(plan)):
            selectors += _by_rows(plan, targets, names, options)
    return replace(decision, selectors=tuple(_at_all_copies(query, selectors)))


def _part_scan_id(scan: Scan) -> str:
    return f"{scan.key} {scan.copy}" if scan.copy else scan.key


def _at_all_copies(query: AnalyzedQuery, selectors: Sequence[RuntimeSelector]) -> Iterator[RuntimeSelector]:
    """Those of scans of which every copy is chosen from: Spark runs copies once, as long as they are the same."""
    copies = Counter(place.scan.key for place in query.places)
    choosing = Counter(key for key, _ in {(each.scan.key, each.scan.copy) for each in selectors})
    yield from (each for each in selectors if choosing[each.scan.key] == copies[each.scan.key])


@dataclass(frozen=True, eq=False)
class _Target:
    """A scan that something may be chosen of."""

    scan: Scan
    catalog: Catalog
    """What is known of the columns that may be asked for."""
    kept: Mask
    bytes: int

    def touched(self, key: Column) -> float:
        ranges = column_ranges(self.catalog, key)
        return 1.0 if ranges is None else touched(ranges, self.kept)

    def grid(self, key: Column | Cast) -> tuple[int, int, int] | None:
        """Where the column's values lie, and the bits of a cell when that is divided into at most so many."""
        if not isinstance(key, Column) or key.type.kind not in WHOLE:
            return None
        ranges = column_ranges(self.catalog, key)
        values = None if ranges is None else ranges.union(self.kept)
        if values is None or not len(values):
            return None
        low, high = int(values.lows[0]) - (1 << 63), int(values.highs[-1]) - (1 << 63)
        if high - low >= 1 << 62:
            return None
        return low, high, max(0, (high - low).bit_length() - GRID_CELLS.bit_length() + 1)


def touched(ranges: ColumnRanges, kept: Mask) -> float:
    """The share of the kept blocks that one value is in, if values are spread evenly.

    Where another synopsis can tell blocks apart that ranges cannot, as a Bloom filter can, it is taken to.
    """
    blocks = int(kept.sum())
    if not blocks or ranges.others:
        return 0.0
    if ranges.blocks.unknown is not None and (ranges.blocks.unknown & kept).all():
        return 1.0
    chosen = kept[ranges.blocks.block_of_range]
    lows, highs = ranges.blocks.lows[chosen], ranges.blocks.highs[chosen]
    if not len(lows):
        return 0.0
    # Differences first: as floats, codes that are near each other are the same.
    width = float(highs.max() - lows.min())
    return 1.0 if width == 0 else min(1.0, float((highs - lows).astype(float).sum()) / width / blocks)


def _targets(query: AnalyzedQuery, decision: Decision, options: SelectorOptions) -> Iterator[_Target]:
    """The scans that are read by one index, and of which enough is left."""
    asked = _asked_columns(query)
    blocked = {place.scan.key for place in query.places if place.blocked is not None}
    merged = by_scan(query, decision.kept)
    for place in query.places:
        scan = place.scan
        # What is left is what one of the copies needs: all of them are given the same files to choose from.
        masks = merged.get(scan.key, ())
        if scan.key in blocked or len(masks) != 1 or scan not in asked:
            continue
        (kept,) = masks
        (own,) = decision.catalogs[scan.key]
        size = int(own.bytes[kept].sum())
        if np.count_nonzero(kept) < 2 or size < options.least_bytes:
            continue
        columns = {column.name: column.type for column in asked[scan]}
        (catalog,) = query.tables.catalogs(scan, columns)
        yield _Target(scan, catalog, kept, size)


def _asked_columns(query: AnalyzedQuery) -> dict[Scan, list[Column]]:
    """By scan, its columns that late constants or rows of other inputs are compared with."""
    found: dict[Scan, list[Column]] = {}
    for place in query.places:
        own = [column for each in place.late for column in columns_of(each) if not is_parameter(column.name)]
        if own:
            found.setdefault(place.scan, []).extend(own)
    met = {
        _column(each.key).name
        for plan in query.query.plans
        for operator in walk(plan)
        if isinstance(operator, Join)
        for each in operator.meetings
    }
    met |= _put_into_unions(query.query, met)
    if met:
        for place in query.places:
            own = [column for number, column in place.scan.columns if number in met]
            own = [column for column in own if column.name not in place.scan.partitions]
            if own:
                found.setdefault(place.scan, []).extend(own)
    return found


def _put_into_unions(query: Query, numbers: set[str]) -> set[str]:
    """The numbers of the columns that inputs of unions put into some of the unions' own."""
    inputs: dict[str, set[str]] = {}
    for plan in query.plans:
        for operator in walk(plan):
            if isinstance(operator, Union):
                for outputs in operator.outputs:
                    for column, put in zip(operator.columns, outputs, strict=True):
                        if isinstance(put, Column):
                            inputs.setdefault(column.name, set()).add(put.name)
    found, waiting = set[str](), list(numbers)
    while waiting:
        new = inputs.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found


def _column(key: Column | Cast) -> Column:
    return key.column if isinstance(key, Cast) else key


# ---- by constants that come late


def _by_constants(target: _Target, late: Sequence[Predicate]) -> Iterator[RuntimeSelector]:
    """One selector for all of them: they are known at the same time."""
    usable = [each for each in late if _is_known(target.catalog, each)]
    if not usable:
        return
    numbers = sorted({column.name for each in usable for column in columns_of(each) if is_parameter(column.name)})
    as_given = {name: f"{PARAMETER}{i}" for i, name in enumerate(numbers)}
    predicate = And(tuple(_with_parameters(each, as_given) for each in usable))
    text = " AND ".join(sql(_with_parameters(each, dict.fromkeys(numbers, "(subquery)"))) for each in usable)
    yield RuntimeSelector(
        target.scan, predicate, late=tuple(int(name.removeprefix(PARAMETER)) for name in numbers), by=text
    )


def _is_known(catalog: Catalog, predicate: Predicate) -> bool:
    own = [column for column in columns_of(predicate) if not is_parameter(column.name)]
    return any(column_ranges(catalog, column) is not None for column in own)


def _with_parameters(predicate: Predicate, names: Mapping[str, str]) -> Predicate:
    """The predicate with its parameters under other names."""
    mapping = {column.name: column for column in columns_of(predicate)}
    mapping |= {name: Column(names[name], column.type) for name, column in mapping.items() if name in names}
    return rename(predicate, mapping)


# ---- by rows of another input


def _by_rows(
    plan: Operator, targets: Mapping[str, _Target], names: Mapping[str, Column], options: SelectorOptions
) -> Iterator[RuntimeSelector]:
    placed = place_selectors(_with_dynamic_scans(plan, targets), narrower_first)
    for join in walk(placed):
        if not isinstance(join, Join):
            continue
        for side, over in ((Sides.LEFT, join.left), (Sides.RIGHT, join.right)):
            while isinstance(over, PartitionSelector) and over.child is not None:
                yield from _of_join(join, side, over, targets[over.part_scan_id], names, options)
                over = over.child


def narrower_first(join: Join) -> Sides:
    """The input that has a filter runs first; of two that have one, or none, the smaller."""
    left, right = _narrows(join.left), _narrows(join.right)
    if left is not right:
        return Sides.LEFT if left else Sides.RIGHT
    return Sides.LEFT if join.bytes[0] < join.bytes[1] else Sides.RIGHT


def _with_dynamic_scans(operator: Operator, targets: Mapping[str, _Target]) -> Operator:
    if isinstance(operator, Scan):
        if _part_scan_id(operator) not in targets:
            return operator
        keys = tuple(Column(number, column.type) for number, column in operator.columns)
        return DynamicScan(_part_scan_id(operator), operator.name, keys)
    below = children(operator)
    new = tuple(_with_dynamic_scans(child, targets) for child in below)
    same = all(one is other for one, other in zip(new, below, strict=True))
    return operator if same else with_children(operator, new)


def _of_join(
    join: Join,
    side: Sides,
    selector: PartitionSelector,
    target: _Target,
    names: Mapping[str, Column],
    options: SelectorOptions,
) -> Iterator[RuntimeSelector]:
    """What one input of a join says of a scan in the other: each equality by itself, all other comparisons together."""
    outer = selector.child
    assert outer is not None
    if join.condition is None or not _narrows(outer):
        return
    own = dict(target.scan.columns)
    texts = list(conjuncts(join.condition))
    bands: list[tuple[int, Comparison]] = []
    # Spark's estimates count only the columns that are read, so the target is not taken to be larger than its own.
    outer_bytes, inner_bytes = join.bytes if side is Sides.LEFT else join.bytes[::-1]
    saved = min(target.bytes, inner_bytes)
    for predicate in selector.predicates:
        for part in conjuncts(predicate) if predicate is not None else ():
            conjunct = _conjunct(join, part)
            if conjunct is None or not isinstance(part, Comparison):
                continue
            key = _column(part.left)  # type: ignore[arg-type]
            if own[key.name].name in target.scan.partitions or column_ranges(target.catalog, own[key.name]) is None:
                continue
            share = target.touched(own[key.name])
            if share > options.most_touched:
                continue
            pays = bool(_is_repeatable(outer) and outer_bytes * options.least_gain <= saved * (1 - share))
            asked = replace(part, left=_in_own_names(part.left, own), right=Column(f"{PARAMETER}0", part.right.type))
            if part.op is not Op.EQ:
                if pays:
                    bands.append((conjunct, asked))
                continue
            yield RuntimeSelector(
                target.scan,
                asked,
                join.number,
                side,
                (conjunct,),
                pays=pays,
                grid=target.grid(asked.left),  # type: ignore[arg-type]
                by=_text(asked, texts[conjunct], names, target.scan),
            )
    if bands:
        parts = (replace(each, right=Column(f"{PARAMETER}{i}", each.right.type)) for i, (_, each) in enumerate(bands))
        by = " AND ".join(_text(asked, texts[i], names, target.scan) for i, asked in bands)
        numbers = tuple(conjunct for conjunct, _ in bands)
        yield RuntimeSelector(target.scan, And(tuple(parts)), join.number, side, numbers, pays=True, by=by)


def _conjunct(join: Join, part: Predicate) -> int | None:
    """Which conjunct of a join's condition a comparison with a parameter stands for."""
    if not isinstance(part, Comparison) or not isinstance(part.right, Column):
        return None
    number, dot, conjunct = part.right.name.removeprefix(PARAMETER).partition(".")
    return int(conjunct) if is_parameter(part.right.name) and dot and number == str(join.number) else None


def _in_own_names(operand: Column | Cast | Literal, own: Mapping[str, Column]) -> Column | Cast | Literal:
    if isinstance(operand, Cast):
        return replace(operand, column=own[operand.column.name])
    return own[operand.name] if isinstance(operand, Column) else operand


def _narrows(outer: Operator) -> bool:
    """Whether an input may give fewer keys than the blocks of its tables hold."""
    for operator in walk(outer):
        match operator:
            case Limit() | Other():
                return True
            case Filter(condition=condition):
                if any(not _asks_for_a_value(each) for each in conjuncts(condition)):
                    return True
            case Join(type=kind) if kind.name in ("LEFT SEMI", "LEFT ANTI"):
                return True
    return False


def _asks_for_a_value(predicate: Predicate) -> bool:
    return isinstance(predicate, Not) and isinstance(predicate.child, IsNull)


_LOCAL = ("LocalRelation", "InMemoryRelation", "OneRowRelation", "Range")
"""Leaves that hold their rows themselves."""
_REPEATABLE = (Scan, DynamicScan, Filter, Project, Join, Aggregate, Union, PartitionSelector, InSequence)


def _is_repeatable(outer: Operator) -> bool:
    """Whether an input gives the same rows if it is run once more."""
    for operator in walk(outer):
        if isinstance(operator, Other):
            if operator.children or operator.name not in _LOCAL:
                return False
        elif not isinstance(operator, _REPEATABLE):
            return False
        if not isinstance(operator, Scan) and operator.random:
            return False
    return True


def _names(query: Query) -> dict[str, Column]:
    """The columns of all tables under their numbers, as people would write them."""
    return {
        number: Column(f"{operator.name}.{column.name}", column.type)
        for plan in query.plans
        for operator in walk(plan)
        if isinstance(operator, Scan)
        for number, column in operator.columns
    }


def _text(asked: Comparison, conjunct: Predicate, names: Mapping[str, Column], scan: Scan) -> str:
    """A part of a join's condition, for people; a union's column goes by the name of what the scan puts there."""
    columns = {column.name: column for column in columns_of(conjunct)}
    unknown = columns.keys() - names.keys()
    if isinstance(conjunct, Opaque) or len(unknown) > 1:
        return f"{sql(replace(asked, right=Column('(key)', asked.right.type)))}".replace("`", "")
    own = _column(asked.left).name  # type: ignore[arg-type]
    known = {name: Column(f"{scan.name}.{own}", column.type) for name, column in columns.items() if name in unknown}
    return sql(rename(conjunct, known | {name: names[name] for name in columns.keys() - unknown}))
