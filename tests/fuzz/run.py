"""Looking for differences for some time, making them small, and keeping them as cases for all later runs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sidestep.errors import SidestepError
from tests.fuzz.build import actual_rows, build, expected_rows, register, unregister
from tests.fuzz.choices import Choices, shrink
from tests.fuzz.copies import with_garbage, without_skipped
from tests.fuzz.duck import Duck
from tests.fuzz.events import Event, draw_event, run_event
from tests.fuzz.grammar import Grammar
from tests.fuzz.oracle import Asked, Outcome, difference
from tests.fuzz.world import DRIFTING, FAST, MEANINGS, PLANNING, THEMES, TableSpec, WorldSpec, draw_world
from tests.spark.tables import changed_settings

CASES = Path(__file__).resolve().parents[1] / "fixtures" / "fuzz"
QUERIES = 15
"""Queries asked of each world: making tables takes longer than asking."""
FIRST_QUERIES = 6
"""Queries asked of the first worlds, one of each theme: a run of a minute meets every theme."""
SHRINKING = 30.0
"""Seconds spent on making a query smaller."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """A world, a query, what happens around it, and the settings of the session that asks: enough to run it again."""

    world: WorldSpec
    query: str
    settings: dict[str, str] = field(default_factory=dict)
    about: str = ""
    event: Event = field(default_factory=list)
    common: bool = False
    """Whether DuckDB is asked too."""

    def save(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"
        path = folder / f"case-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
        path.write_text(text, encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> Case:
        data = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**data, "world": WorldSpec.from_json(data["world"])})


@dataclass
class Tally:
    """What a run came to."""

    seed: int
    cpu_before: float = 0.0
    worlds: int = 0
    refused: int = 0
    """Worlds that sidestep said it could not make, in a sentence."""
    cases: int = 0
    skipping: int = 0
    """Cases in which some file or row group was left out."""
    induced: int = 0
    """Cases in which something was left out because of what another table holds."""
    blocks: int = 0
    """Cases in which row groups were left out of files that are read."""
    empty: int = 0
    invalid: int = 0
    seconds: float = 0.0
    found_after: list[float] = field(default_factory=list)
    """Seconds after which each difference was met."""
    found_after_cpu: list[float] = field(default_factory=list)
    """The same in seconds of computing, by Python and Java: where a machine is busy, this is what counts."""
    differences: list[str] = field(default_factory=list)
    oracles: Counter[str] = field(default_factory=Counter)
    themes: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    operators: dict[str, list[int]] = field(default_factory=dict)
    """By operator: cases, and those of them that skipped something."""

    def to_dict(self) -> dict[str, Any]:
        counters = {name: dict(getattr(self, name)) for name in ("oracles", "themes", "events")}
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | counters

    def count(self, outcome: Outcome, operators: Counter[str], event: Event) -> None:
        self.invalid += outcome.invalid
        if outcome.invalid:
            return
        skipping = bool(outcome.skipped or outcome.blocks)
        self.cases += 1
        self.skipping += skipping
        self.induced += outcome.induced
        self.blocks += outcome.blocks > 0
        self.empty += not outcome.rows
        self.oracles.update(outcome.oracles)
        self.events[event[0] if event else "none"] += 1
        for operator in operators:
            counts = self.operators.setdefault(operator, [0, 0])
            counts[0] += 1
            counts[1] += skipping


def fuzz(
    spark: SparkSession,
    root: Path,
    *,
    seed: int,
    seconds: float,
    worlds: int | None = None,
    queries: int = QUERIES,
    keep: Path | None = CASES,
    most: int | None = None,
    themes: tuple[str, ...] = THEMES,
    shrinking: float = SHRINKING,
    say: Say = lambda text: None,
) -> Tally:
    """Look for differences for so many seconds (or worlds, or differences); the session must have sidestep enabled."""
    tally = Tally(seed, cpu_before=cpu_seconds(spark))
    began = time.monotonic()
    number = 0
    with changed_settings(spark, FAST), warnings.catch_warnings():
        # Damaged indexes, types that an index does not have: users are told, and chance makes many of them.
        warnings.simplefilter("ignore")
        while time.monotonic() - began < seconds and (worlds is None or number < worlds):
            if most is not None and len(tally.differences) >= most:
                break
            theme = themes[number % len(themes)]
            world = draw_world(Choices(_seed(seed, number)), theme)
            run = _Run(spark, world, root / f"w{number}", tally, keep, say, began, began + seconds, shrinking)
            asked = min(queries, FIRST_QUERIES) if number < len(themes) > 1 else queries
            run.fuzz(_seed(seed, number, 1), asked, most)
            number += 1
            tally.worlds = number
            tally.themes[theme] += 1
            tally.seconds = round(time.monotonic() - began, 1)
            say(
                f"{tally.cases} cases in {tally.worlds} worlds, {tally.skipping} skipped something, "
                f"{tally.induced} by induced predicates, {tally.invalid} are no queries, "
                f"{len(tally.differences)} differences, {tally.seconds:.0f} s ({theme})"
            )
    return tally


def cpu_seconds(spark: SparkSession) -> float:
    """The seconds that this process and its Java machine have computed, where the system tells."""
    java = Path(f"/proc/{getattr(getattr(spark.sparkContext._gateway, 'proc', None), 'pid', 0)}/stat")
    ticks = java.read_text().rpartition(")")[2].split()[11:13] if java.exists() else []
    return time.process_time() + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _seed(*numbers: int) -> int:
    """The same in every process, as Python's hash of numbers is."""
    return hash(numbers)


@dataclass
class _Run:
    """One world, and the queries that are asked of it."""

    spark: SparkSession
    world: WorldSpec
    folder: Path
    tally: Tally
    keep: Path | None
    say: Say
    began: float
    end: float
    shrinking: float

    @property
    def copy(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}-copy")

    def fuzz(self, seed: int, queries: int, most: int | None) -> None:
        duck = Duck(self.world, self.folder)
        try:
            if not self.built():
                return
            for number in range(-(-queries // 5) if self.world.theme == "flips" else queries):
                if time.monotonic() > self.end or (most is not None and len(self.tally.differences) >= most):
                    return
                choices = Choices(_seed(seed, number))
                grammar, case = draw_case(choices, self.world)
                outcome = check(self.spark, case, self.folder, self.copy, duck, number)
                self.tally.count(outcome, grammar.operators, case.event)
                if outcome.difference:
                    self.met()
                    self.found(self.minimized(choices.taken, number, outcome, duck))
                    if case.event and case.event[0] in ("flips", "must skip", "damaged"):
                        return
        finally:
            duck.close()
            unregister(self.spark, self.world)
            for folder in (self.folder, self.copy):
                shutil.rmtree(folder, ignore_errors=True)

    def built(self) -> bool:
        """Make the world; False if that is refused, or shows a difference by itself."""
        try:
            with changed_settings(self.spark, self.world.settings):
                build(self.spark, self.world, self.folder)
        except SidestepError as problem:
            self.tally.refused += 1
            self.say(f"refused: {problem}")
            return False
        register(self.spark, self.world, self.folder)
        if about := wrong_history(self.world, self.folder):
            self.met()
            self.found(Case(self.world, "", {}, about))
            return False
        return True

    def met(self) -> None:
        self.tally.found_after.append(round(time.monotonic() - self.began, 1))
        self.tally.found_after_cpu.append(round(cpu_seconds(self.spark) - self.tally.cpu_before, 1))

    def found(self, case: Case) -> None:
        where = case.save(self.keep) if self.keep is not None else None
        self.tally.differences.append(f"{case.about}: {case.query}")
        self.say(f"DIFFERENCE {case.about}\n  {case.query}\n  {case.settings} {_short(case.event)} {where or ''}")

    def minimized(self, taken: list[int], number: int, outcome: Outcome, duck: Duck) -> Case:
        """The smallest query that is found to differ too, on the same tables."""
        best = draw_case(Choices(taken=taken), self.world)[1]
        about = outcome.difference

        def fails(candidate: list[int]) -> bool:
            nonlocal about
            case = draw_case(Choices(taken=candidate), self.world)[1]
            again = check(self.spark, case, self.folder, self.copy, duck, number)
            if again.difference:
                about = again.difference
            return bool(again.difference)

        small = shrink(taken, fails, seconds=self.shrinking)
        best = draw_case(Choices(taken=small), self.world)[1]
        return replace(best, about=about)


def _short(event: Event) -> str:
    text = json.dumps(event)
    return text if len(text) < 300 else text[:300] + "…"


def draw_case(choices: Choices, world: WorldSpec) -> tuple[Grammar, Case]:
    """A query and what happens around it."""
    changed = dict(world.settings) if choices.happens(0.5) else {}
    changed |= {name: values[1] for name, values in {**MEANINGS, **PLANNING}.items() if choices.happens(0.04)}
    if world.theme == "drift":
        changed |= {name: values[name not in world.settings] for name, values in _drifting(choices)}
    event = draw_event(choices, world)
    grammar = Grammar(choices, world)
    query = grammar.query()
    common = grammar.common and not any(name in MEANINGS for name in changed)
    return grammar, Case(world, query, changed, "", event, common)


def _drifting(choices: Choices) -> list[tuple[str, tuple[str, str]]]:
    """Settings that have another value now than when tables were made: some that a careless identity leaves out.

    Mostly without the last, the time zone, which every identity names: with it, no feature is used.
    """
    names = choices.among((DRIFTING[:2], DRIFTING[:2], DRIFTING[:1], DRIFTING[1:2], DRIFTING, DRIFTING[2:], ()))
    return [(name, MEANINGS[name]) for name in names]


def check(spark: SparkSession, case: Case, folder: Path, copy: Path, duck: Duck, number: int = 0) -> Outcome:
    """Run a case on tables that are there. Whatever its number, on is held against off; copies take turns."""
    asked = Asked(spark, case.world, folder, case.query, copy)
    more: list[Callable[..., Outcome]] = []
    if case.common:
        more.append(duck)
    # With adaptive execution, a scan whose rows came to nothing is gone from the plan, and seems never to have read.
    adaptive = case.settings.get("spark.sql.adaptive.enabled") == "true"
    if number % 2 == 0 and not adaptive:
        more.append(with_garbage)
    if number % 2 == 1 and not adaptive:
        more.append(without_skipped)
    return run_event(asked, case.event, case.settings, more)


def wrong_history(world: WorldSpec, folder: Path) -> str:
    """How the rows of a table differ from what its history makes of them; empty if they do not."""
    for name, table in world.tables.items():
        if table.form == "delta" or (table.form == "laid" and not _rebased(world, table)):
            expected, actual = expected_rows(table), actual_rows(table, folder / name)
            if expected != actual:
                return difference(list(expected.elements()), list(actual.elements()), f"in {name} after its history")
    return ""


def _rebased(world: WorldSpec, table: TableSpec) -> bool:
    """Whether old dates in the folder that a table was loaded from are others in the session that loaded it."""
    modes = [value for name, value in world.settings.items() if "RebaseModeInRead" in name]
    return "LEGACY" in modes and any(kind.startswith(("date", "timestamp")) for kind in table.columns.values())


def replay(spark: SparkSession, case: Case, root: Path) -> Outcome:
    """Run one case again, with every oracle there is."""
    duck = Duck(case.world, root / "w")
    with changed_settings(spark, FAST), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with changed_settings(spark, case.world.settings):
                build(spark, case.world, root / "w")
            register(spark, case.world, root / "w")
            if not case.query:
                return Outcome(wrong_history(case.world, root / "w"))
            outcome = Outcome()
            for number in (0, 1):
                outcome = check(spark, case, root / "w", root / "w-copy", duck, number)
                if outcome.difference:
                    break
            return outcome
        finally:
            duck.close()
            unregister(spark, case.world)
