"""What the rule asks of Python when a query runs: which files matter, now that more values are known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sidestep.predicate import (
    And,
    Cast,
    Column,
    Comparison,
    DataType,
    In,
    Interval,
    IntervalSet,
    Literal,
    Op,
    Or,
    Predicate,
    normalize,
    parse_type,
)
from sidestep.predicate.formula import Formula, Within
from sidestep.predicate.serial import from_dict, to_dict, type_from_json, type_to_json
from sidestep.prune.analysis import RuntimeSelector
from sidestep.prune.conditions import block_filter, chosen_bound, row_groups
from sidestep.prune.plan.algebra import PARAMETER
from sidestep.prune.selectors.partitions import bind
from sidestep.spark.jvm.plan_reader import literal_value
from sidestep.spark.jvm.wire import ChoiceRequest, pack_choice, unpack_numbers
from sidestep.spark.rule.indexes import Indexes, OpenIndex
from sidestep.synopsis import kept_blocks

MOST_CAST = 64
"""Ranges of a column that is compared through a cast: each takes working out what it means for the column."""


def question(selector: RuntimeSelector, index: OpenIndex, columns: Mapping[str, DataType]) -> str:
    """All that it takes to choose once there are values; nothing is remembered in between."""
    asked = {
        "index": index.id,
        "columns": {name: type_to_json(kind) for name, kind in columns.items()},
        "predicate": to_dict(selector.predicate),
        "grid": selector.grid,
    }
    return json.dumps(asked, separators=(",", ":"))


def choose(indexes: Indexes | None, request: ChoiceRequest) -> str:
    """The files to be read, and which row groups of them; empty, for all, if that cannot be told."""
    asked = json.loads(request.question)
    opened = None if indexes is None else indexes.opened(asked["index"])
    if opened is None:
        return ""
    columns = {name: type_from_json(kind) for name, kind in asked["columns"].items()}
    formula = known_formula(from_dict(asked["predicate"]), json.loads(request.values), asked["grid"])
    if formula is None:
        return ""
    catalog = opened.index.catalog(columns)
    kept = kept_blocks(catalog, formula)
    blocks = block_filter(catalog, kept, opened.index.block_ids)
    bound = ""
    if blocks is None and isinstance(formula, Within):
        bound = chosen_bound(formula.column, formula.ranges, catalog, kept)
    groups = row_groups(catalog, kept, opened.index.map.row_group)
    return pack_choice(catalog.files_kept(kept), blocks, groups, bound)


def known_formula(predicate: Predicate, values: Sequence[Any], grid: Sequence[int] | None) -> Formula | None:
    """The predicate with values for its parameters; None where they say too much.

    >>> from sidestep.predicate.types import INTEGER
    >>> equal = Comparison(Op.EQ, Column("k", INTEGER), Column("?0", INTEGER))
    >>> known_formula(equal, [["values", ["l", "int", 3], ["l", "int", 5]]], None) == known_formula(
    ...     equal, [["summary", [["l", "int", 3], ["l", "int", 5]], [0, 2]]], [3, 9, 0])
    True
    """
    first = values[0] if len(values) == 1 else None
    if isinstance(first, list) and first[0] in ("values", "ranges", "summary"):
        if isinstance(predicate, Comparison) and predicate.op is Op.EQ:
            assert isinstance(predicate.left, Column | Cast)
            return _among(predicate.left, first, grid)
        return normalize(And(tuple(_bands(predicate, first))))
    given = {f"{PARAMETER}{i}": _literal(value) for i, value in enumerate(values)}
    return normalize(bind(predicate, given))


def _literal(written: Sequence[Any]) -> Literal:
    kind = parse_type(written[1])
    return Literal(None if written[2] is None else literal_value(written[2], kind), kind)


def _among(key: Column | Cast, given: Sequence[Any], grid: Sequence[int] | None) -> Formula | None:
    """That a column is one of the keys that were found."""
    match given:
        case ["values", *literals]:
            return normalize(In(key, tuple(_literal(each) for each in literals)))
        case ["ranges", _, ends]:
            numbers = unpack_numbers(ends).tolist()
            ranges: list[tuple[int | None, int | None]] = list(zip(numbers[::2], numbers[1::2], strict=True))
        case ["summary", [least, most], cells] if grid is not None:
            ranges = list(_of_cells(sorted(cells), grid, _literal(least).value, _literal(most).value))
        case ["summary", [least, most], *_]:
            low, high = _literal(least), _literal(most)
            return normalize(And((Comparison(Op.GE, key, low), Comparison(Op.LE, key, high))))
        case _:
            return None
    if isinstance(key, Column):
        return Within(key, IntervalSet(key.type, tuple(Interval(low, high) for low, high in ranges)))
    if len(ranges) > MOST_CAST:
        ranges = [(ranges[0][0], ranges[-1][1])]
    return normalize(Or(tuple(_between(key, low, high) for low, high in ranges)))


def _between(key: Cast, low: int | None, high: int | None) -> Predicate:
    parts = [Comparison(Op.GE, key, Literal(low, key.type))] if low is not None else []
    parts += [Comparison(Op.LE, key, Literal(high, key.type))] if high is not None else []
    return And(tuple(parts))


def _of_cells(
    cells: Sequence[int], grid: Sequence[int], least: Any, most: Any
) -> Sequence[tuple[int | None, int | None]]:
    """The values that fall in some cells of a grid, and between the least and the greatest one."""
    low, high, bits = grid
    beyond = ((high - low) >> bits) + 1
    ranges: list[tuple[int | None, int | None]] = []
    for cell in cells:
        begin = least if cell < 0 else high + 1 if cell == beyond else low + (cell << bits)
        end = low - 1 if cell < 0 else most if cell == beyond else min(high, low + ((cell + 1) << bits) - 1)
        ranges.append((max(begin, least), min(end, most)))
    return ranges


def _bands(predicate: Predicate, given: Sequence[Any]) -> Sequence[Predicate]:
    """What comparisons with the least and greatest of each key say of the column."""
    parts = predicate.children if isinstance(predicate, And) else (predicate,)
    found: list[Predicate] = []
    for part, (least, most) in zip(parts, given[1:], strict=True):
        assert isinstance(part, Comparison)
        above = part.op in (Op.GT, Op.GE)
        found.append(Comparison(part.op, part.left, _literal(least if above else most)))
    return found
