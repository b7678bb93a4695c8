"""Merges done row by row in Python, to hold those of sidestep against; and random ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sidestep

Row = dict[str, Any]
Holds = Callable[[Any, Any], bool]
"""Whether a condition is TRUE for a row of the table and one of the source, either of which may be missing."""


class Ambiguous(Exception):
    """A row of the table is changed by two rows of the source."""


@dataclass(frozen=True)
class Step:
    """A clause in both languages: of SQL, and of Python, where a condition is given a row of the table and one of the
    source, and values are worked out from them."""

    kind: str
    action: str
    condition: str | None = None
    holds: Holds = lambda target, source: True
    set: dict[str, str] | None = None
    values: Callable[[Any, Any], Row] = lambda target, source: dict(source or {})


def merged(table: Sequence[Row], source: Sequence[Row], on: Holds, steps: Sequence[Step]) -> tuple[list[Row], Row]:
    """The rows after a merge, and how many were updated, deleted and inserted."""
    result: list[Row] = []
    counts = {"update": 0, "delete": 0, "insert": 0}
    matched = [step for step in steps if step.kind == "matched"]
    lenient = len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None
    hit: set[int] = set()
    for row in table:
        acts: list[tuple[Step, Row | None]] = []
        partners = [number for number, other in enumerate(source) if on(row, other)]
        hit.update(partners)
        if partners:
            acts = [(step, source[n]) for n in partners if (step := first(matched, row, source[n])) is not None]
            if len(acts) > 1 and not lenient:
                raise Ambiguous
        else:
            left = first([one for one in steps if one.kind == "not matched by source"], row, None)
            acts = [(left, None)] if left is not None else []
        if not acts:
            result.append(row)
            continue
        step, other = acts[0]
        counts[step.action] += 1
        if step.action == "update":
            result.append({**row, **step.values(row, other)})
    empty = {name: None for row in table for name in row}
    for number, other in enumerate(source):
        new = first([one for one in steps if one.kind == "not matched"], None, other) if number not in hit else None
        if new is not None:
            counts["insert"] += 1
            result.append({**empty, **new.values(None, other)})
    return result, counts


def first(steps: Sequence[Step], target: Row | None, source: Row | None) -> Step | None:
    return next((step for step in steps if step.holds(target, source)), None)


def run(spark, root, source, on: str, steps: Sequence[Step], **options: Any) -> sidestep.MergeReport:
    """The same by sidestep."""
    merge = sidestep.merge(spark, str(root), source, on, **options)
    add = {
        ("matched", "update"): lambda m, s: m.when_matched_update(s.set, s.condition),
        ("matched", "delete"): lambda m, s: m.when_matched_delete(s.condition),
        ("not matched", "insert"): lambda m, s: m.when_not_matched_insert(s.set, s.condition),
        ("not matched by source", "update"): lambda m, s: m.when_not_matched_by_source_update(s.set, s.condition),
        ("not matched by source", "delete"): lambda m, s: m.when_not_matched_by_source_delete(s.condition),
    }
    for step in steps:
        merge = add[step.kind, step.action](merge, step)
    return merge.run()


def less(a: Any, b: Any) -> bool:
    """Whether ``a < b`` is TRUE."""
    return a is not None and b is not None and a < b


def same(a: Any, b: Any) -> bool:
    return a is not None and b is not None and a == b


ONS: list[tuple[str, Holds]] = [
    ("target.id = source.id", lambda t, s: same(t["id"], s["id"])),
    ("source.id = target.id AND target.month > 0", lambda t, s: same(t["id"], s["id"]) and less(0, t["month"])),
    (
        "target.id = source.id AND target.month = source.month",
        lambda t, s: same(t["id"], s["id"]) and same(t["month"], s["month"]),
    ),
    ("target.id <=> source.id", lambda t, s: t["id"] == s["id"]),
    (
        "target.id >= source.id AND target.id < source.id + 1 AND source.month < 3",
        lambda t, s: same(t["id"], s["id"]) and less(s["month"], 3),
    ),
]
MATCHED = [
    Step("matched", "update"),
    Step(
        "matched",
        "update",
        "source.price < target.price",
        lambda t, s: less(s["price"], t["price"]),
        {"price": "source.price", "color": "concat(target.color, '!')"},
        lambda t, s: {"price": s["price"], "color": None if t["color"] is None else t["color"] + "!"},
    ),
    Step(
        "matched",
        "update",
        "target.color = 'red'",
        lambda t, s: same(t["color"], "red"),
        {"month": "target.month + 10"},
        lambda t, s: {"month": None if t["month"] is None else t["month"] + 10},
    ),
    Step("matched", "delete", "source.color = 'blue'", lambda t, s: same(s["color"], "blue")),
    Step("matched", "delete", "target.price IS NULL", lambda t, s: t["price"] is None),
    Step("matched", "delete"),
]
NOT_MATCHED = [
    Step("not matched", "insert"),
    Step("not matched", "insert", "source.color = 'red'", lambda t, s: same(s["color"], "red")),
    Step(
        "not matched",
        "insert",
        "source.month >= 1",
        lambda t, s: s["month"] is not None and s["month"] >= 1,
        {"id": "source.id * 2", "color": "'new'"},
        lambda t, s: {"id": None if s["id"] is None else s["id"] * 2, "color": "new"},
    ),
]
BY_SOURCE = [
    Step("not matched by source", "delete", "target.month = 3", lambda t, s: same(t["month"], 3)),
    Step("not matched by source", "delete", "target.id > 50 AND target.color IS NULL",
         lambda t, s: less(50, t["id"]) and t["color"] is None),
    Step(
        "not matched by source",
        "update",
        "target.id < 20",
        lambda t, s: less(t["id"], 20),
        {"price": "target.id * 1.5", "color": "NULL"},
        lambda t, s: {"price": t["id"] * 1.5, "color": None},
    ),
]  # fmt: skip


def random_steps(choose: random.Random) -> list[Step]:
    """Clauses of all kinds; of a kind, one without a condition comes last."""
    steps = []
    for kind, share in ((MATCHED, 0.8), (NOT_MATCHED, 0.6), (BY_SOURCE, 0.4)):
        if choose.random() < share:
            picked = choose.sample(kind, choose.randint(1, 2))
            plain = [step for step in picked if step.condition is None][:1]
            steps += [step for step in picked if step.condition is not None] + plain
    return steps or [MATCHED[0]]


def random_source(choose: random.Random, made: Callable[[int, int], list[Row]]) -> list[Row]:
    """Rows some of which are like the table's, with NULL keys, and now and then a key twice."""
    rows = [{**row, "price": choose.choice([None, 0.5, 200.0])} for row in made(choose.randint(0, 60), 40)]
    rows = choose.sample(rows, choose.randint(0, 12)) + made(1000, choose.randint(0, 3))
    if choose.random() < 0.3:
        rows += [{**row, "id": None} for row in rows[:2]]
    if choose.random() < 0.3:
        rows += rows[:1]
    return rows
