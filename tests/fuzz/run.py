"""Looking for differences for some time, making them small, and keeping them as cases for all later runs."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.fuzz.choices import Choices, shrink
from tests.fuzz.grammar import Grammar
from tests.fuzz.oracle import Outcome, check
from tests.fuzz.world import PLANNING, SETTINGS, WorldSpec, build, draw_world, register
from tests.spark.tables import changed_settings

CASES = Path(__file__).resolve().parents[1] / "fixtures" / "fuzz"
QUERIES = 25
"""Queries asked of each world: making tables takes longer than asking."""


@dataclass(frozen=True)
class Case:
    """A world, a query, and the settings of the session that asks: all that is needed to run it again."""

    world: WorldSpec
    query: str
    settings: dict[str, str] = field(default_factory=dict)
    about: str = ""

    def save(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"
        path = folder / f"case-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
        path.write_text(text, encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> Case:
        data = json.loads(path.read_text(encoding="utf-8"))
        return cls(WorldSpec.from_json(data["world"]), data["query"], data["settings"], data["about"])


@dataclass
class Tally:
    """What a run came to."""

    seed: int
    worlds: int = 0
    cases: int = 0
    skipping: int = 0
    """Cases in which some file was read by no scan."""
    empty: int = 0
    invalid: int = 0
    seconds: float = 0.0
    differences: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def fuzz(
    spark: SparkSession,
    root: Path,
    *,
    seed: int,
    seconds: float,
    worlds: int | None = None,
    queries: int = QUERIES,
    keep: Path | None = CASES,
    say: Callable[[str], None] = lambda text: None,
) -> Tally:
    """Look for differences for so many seconds (or worlds); the session must have sidestep enabled."""
    tally = Tally(seed)
    began = time.monotonic()
    number = 0
    while time.monotonic() - began < seconds and (worlds is None or number < worlds):
        world = draw_world(Choices(hash((seed, number))))
        folder = root / f"w{number}"
        try:
            _fuzz_world(spark, world, folder, hash((seed, number, 1)), queries, tally, keep, say, began + seconds)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        number += 1
        tally.worlds = number
        tally.seconds = round(time.monotonic() - began, 1)
        say(
            f"{tally.cases} cases in {tally.worlds} worlds, {tally.skipping} skipped something, "
            f"{tally.invalid} are no queries, {len(tally.differences)} differences, {tally.seconds:.0f} s"
        )
    return tally


def _fuzz_world(
    spark: SparkSession,
    world: WorldSpec,
    folder: Path,
    seed: int,
    queries: int,
    tally: Tally,
    keep: Path | None,
    say: Callable[[str], None],
    end: float,
) -> None:
    with changed_settings(spark, world.settings):
        build(spark, world, folder)
    register(spark, world, folder)
    for number in range(queries):
        if time.monotonic() > end:
            return
        choices = Choices(hash((seed, number)))
        query, settings = _draw_query(choices, world)
        outcome = check(spark, world, folder, query, settings, folder.with_name(f"{folder.name}-copy"))
        tally.cases += not outcome.invalid
        tally.invalid += outcome.invalid
        tally.skipping += outcome.skipped > 0
        tally.empty += not outcome.invalid and not outcome.rows
        if outcome.difference:
            case = _minimized(spark, world, folder, choices.taken, outcome)
            where = case.save(keep) if keep is not None else None
            tally.differences.append(f"{case.about}: {case.query}")
            say(f"DIFFERENCE {case.about}\n  {case.query}\n  {case.settings} {where or ''}")


def _draw_query(choices: Choices, world: WorldSpec) -> tuple[str, dict[str, str]]:
    settings = {name: values[1] for name, values in {**SETTINGS, **PLANNING}.items() if choices.happens(0.08)}
    return Grammar(choices, world).query(), settings


def _minimized(spark: SparkSession, world: WorldSpec, folder: Path, taken: list[int], outcome: Outcome) -> Case:
    """The smallest query that is found to differ too, on the same tables."""
    copy = folder.with_name(f"{folder.name}-copy")
    about = outcome.difference

    def fails(candidate: list[int]) -> bool:
        nonlocal about
        query, settings = _draw_query(Choices(taken=candidate), world)
        again = check(spark, world, folder, query, settings, copy)
        if again.difference:
            about = again.difference
        return bool(again.difference)

    query, settings = _draw_query(Choices(taken=shrink(taken, fails, seconds=60)), world)
    return Case(world, query, settings, about)


def replay(spark: SparkSession, case: Case, root: Path) -> Outcome:
    """Run one case again."""
    with changed_settings(spark, case.world.settings):
        build(spark, case.world, root / "w")
    register(spark, case.world, root / "w")
    return check(spark, case.world, root / "w", case.query, case.settings, root / "w-copy")
