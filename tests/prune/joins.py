"""What each type of join means, row by row: slow, obvious, and independent of the table that pruning reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sidestep.prune import JOIN_TYPES

Cell = int | bool | None
Row = dict[str, Cell]
Meets = Callable[[Row, Row], bool]

INNER = JOIN_TYPES["INNER"]
CROSS = JOIN_TYPES["CROSS"]
LEFT_OUTER = JOIN_TYPES["LEFT OUTER"]
RIGHT_OUTER = JOIN_TYPES["RIGHT OUTER"]
FULL_OUTER = JOIN_TYPES["FULL OUTER"]
LEFT_SEMI = JOIN_TYPES["LEFT SEMI"]
LEFT_ANTI = JOIN_TYPES["LEFT ANTI"]
EXISTENCE = JOIN_TYPES["EXISTENCE"]
KINDS = tuple(JOIN_TYPES.values())

PAIRS = ("INNER", "CROSS", "LEFT OUTER", "RIGHT OUTER", "FULL OUTER")
LEFT_ROWS = ("LEFT OUTER", "FULL OUTER")
RIGHT_ROWS = ("RIGHT OUTER", "FULL OUTER")


def join_rows(
    name: str,
    left: Sequence[Row],
    right: Sequence[Row],
    meets: Meets,
    left_columns: Sequence[str],
    right_columns: Sequence[str],
    exists: str = "exists",
) -> list[Row]:
    """The result of a join of the type of this name."""
    matched = [any(meets(a, b) for b in right) for a in left]
    if name in PAIRS:
        rows = [a | b for a in left for b in right if meets(a, b)]
        if name in LEFT_ROWS:
            rows += [a | dict.fromkeys(right_columns) for a, match in zip(left, matched, strict=True) if not match]
        if name in RIGHT_ROWS:
            rows += [dict.fromkeys(left_columns) | b for b in right if not any(meets(a, b) for a in left)]
        return rows
    if name == "EXISTENCE":
        return [a | {exists: match} for a, match in zip(left, matched, strict=True)]
    if name in ("LEFT SEMI", "LEFT ANTI"):
        return [dict(a) for a, match in zip(left, matched, strict=True) if match == (name == "LEFT SEMI")]
    if name == "RIGHT SEMI":  # not one of Spark's: a test adds it
        return [dict(b) for b in right if any(meets(a, b) for a in left)]
    raise AssertionError(f"no meaning for {name}: say here what it gives")
