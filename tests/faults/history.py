"""Many processes at one table, and a checker of what they saw and did.

Every write carries a mark of its own into the Delta log, and notes in a journal what it is about to do before it begins
and that it is done when it is told so. Each writer changes rows of its own alone, so the writes in the order of the log
say what every version must hold, whatever moved in between:

- a write that was told to be done is in the log, once; one that was told to have failed is not; one that was killed is
  in it once or not at all;
- what a reader saw is exactly what its version must hold, and no reader sees an older version after a newer one;
- of each file that holds a row, the index never said that it does not.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import random
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sidestep.errors import SidestepError, SidestepWarning
from sidestep.store import read_snapshot
from sidestep.store.commit.transaction import with_retries
from sidestep.store.upkeep.vacuum import vacuum
from tests.faults import writes
from tests.faults.sweep import check_index, leftovers

SPAN = 100_000
"""Ids of one writer."""
RETENTION = 8.0
"""Seconds that old files are kept: longer than a read or a write takes on a slow machine."""
Model = dict[int, int]
"""The value of ``v`` in each row, by its id."""
Until = Callable[[int], bool]
"""Whether a process is done, given how many turns it has had."""


@dataclass
class Journal:
    """What one process was about to do, did, and saw: one line of JSON each."""

    path: Path

    def note(self, **what: Any) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        text = self.path.read_text(encoding="utf-8")
        # The last line of a process that was killed may be half a line.
        return [json.loads(line) for line in text.split("\n")[:-1]]


@dataclass
class Findings:
    """What came of it."""

    versions: int = 0
    done: int = 0
    refused: int = 0
    killed: int = 0
    reads: int = 0
    overtaken: int = 0
    """Reads whose files were vacuumed before they were over."""
    wrong: list[str] = field(default_factory=list)


def _writer(root: Path, journal: Journal, number: int, until: Until, rng: random.Random) -> None:
    """Append, delete and update rows of one's own."""
    first, mine = number * SPAN, [number * SPAN]
    for turn in itertools.count():
        if until(turn):
            return
        mark = f"{number}-{turn}"
        kind = rng.choice(["append", "append", "delete", "update"])
        if kind == "append":
            ids = list(range(mine[-1] + 1, mine[-1] + 1 + rng.randint(1, 8)))
            mine += ids
        else:
            ids = rng.sample(mine, min(len(mine), rng.randint(1, 5)))
        journal.note(about=mark, kind=kind, ids=ids, value=turn)
        chosen = frozenset(ids)
        assert all(first <= x < first + SPAN for x in ids)
        if kind == "append":
            _attempt(journal, mark, partial(_append, root, ids, turn, mark))
        elif kind == "delete":
            _attempt(journal, mark, partial(writes.delete, root, chosen.__contains__, mark))
        else:
            _attempt(journal, mark, partial(writes.update, root, turn, chosen.__contains__, mark))


def _append(root: Path, ids: list[int], value: int, mark: str) -> None:
    table = writes.rows_from(ids[0], len(ids))
    writes.append(root, table.set_column(1, "v", [[value] * len(ids)]), mark)


def _attempt(journal: Journal, mark: str, work: Callable[[], None]) -> None:
    try:
        with_retries(work, attempts=40)
    except (SidestepError, FileNotFoundError) as problem:
        journal.note(refused=mark, why=str(problem))
    else:
        journal.note(done=mark)


def _optimizer(root: Path, journal: Journal, number: int, until: Until, rng: random.Random) -> None:
    for turn in itertools.count():
        if until(turn):
            return
        mark = f"{number}-{turn}"
        journal.note(about=mark, kind="optimize", ids=[], value=0)
        _attempt(journal, mark, partial(writes.optimize, root, mark))
        time.sleep(rng.uniform(0, 0.3))


def _cleaner(root: Path, journal: Journal, number: int, until: Until, rng: random.Random) -> None:
    """Vacuum, and index what is missing."""
    while not until(0):
        vacuum(root, hours=RETENTION / 3600, force=True)
        writes.index(root)
        time.sleep(rng.uniform(0, 0.5))


def _reader(root: Path, journal: Journal, number: int, until: Until, rng: random.Random) -> None:
    """Read versions whole, and see that the index tells the truth of them."""
    while not until(0):
        try:
            snapshot = read_snapshot(root)
            tables = [pq.read_table(root / file.path, columns=["x", "v"]) for file in snapshot.files]
        except FileNotFoundError:
            journal.note(overtaken=True)
            continue
        rows = [[x, v] for table in tables for x, v in zip(*table.to_pydict().values(), strict=True)]
        journal.note(saw=snapshot.version, rows=sorted(rows))
        try:
            check_index(root)
        except FileNotFoundError:
            journal.note(overtaken=True)
        except AssertionError as problem:
            journal.note(wrong=str(problem))
        time.sleep(rng.uniform(0, 0.1))


_ROLES = {"writer": _writer, "optimizer": _optimizer, "cleaner": _cleaner, "reader": _reader}


def run_role(role: str, root: str, journal: str, number: int, turns: int, seed: int, ready: Any, over: Any) -> None:
    """What a process does, once all are ready: a writer its turns, the others until the writers are done."""
    ready.wait()
    until: Until = (lambda turn: turn >= turns) if role == "writer" else (lambda turn: bool(over.is_set()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SidestepWarning)
        _ROLES[role](Path(root), Journal(Path(journal)), number, until, random.Random(seed * 1_000 + number))


def live_together(folder: Path, *, turns: int, seed: int = 1) -> Findings:
    """Let writers, an optimizer, a cleaner and readers at a table until every writer has had its turns.

    One writer and one optimizer are killed on the way.
    """
    root = folder / "table"
    writes.create(root, writes.rows_from(-10, 10))
    roles = ["writer", "writer", "writer", "optimizer", "optimizer", "cleaner", "reader", "reader"]
    doomed = [0, 3]
    context = multiprocessing.get_context("spawn")
    ready, over = context.Barrier(len(roles) + 1), context.Event()
    journals = [Journal(folder / f"journal-{number}.jsonl") for number in range(len(roles))]
    processes = [
        context.Process(target=run_role, args=(role, str(root), str(journal.path), number, turns, seed, ready, over))
        for number, (role, journal) in enumerate(zip(roles, journals, strict=True))
    ]
    for process in processes:
        process.start()
    ready.wait()
    rng = random.Random(seed)
    for number in doomed:
        reached = rng.randint(1, max(1, turns // 2))
        _wait_for(lambda: sum("about" in line for line in journals[number].lines()) >= reached)  # noqa: B023
        time.sleep(rng.uniform(0, 0.1))
        processes[number].kill()
    findings = Findings()
    for number in (1, 2):
        processes[number].join()
    for number in (6, 7):  # each reader sees something
        _wait_for(lambda: any("saw" in line for line in journals[number].lines()))  # noqa: B023
    over.set()
    for number, process in enumerate(processes):
        process.join()
        expected = -signal.SIGKILL if number in doomed else 0
        if process.exitcode != expected:
            findings.wrong.append(f"process {number} ({roles[number]}) ended with {process.exitcode}")
    return check_history(root, [journal.lines() for journal in journals], findings)


def _wait_for(happened: Callable[[], bool], seconds: float = 300.0) -> None:
    until = time.monotonic() + seconds
    while not happened() and time.monotonic() < until:
        time.sleep(0.02)


def replay(root: Path, about: dict[str, dict[str, Any]], wrong: list[str]) -> tuple[dict[int, Model], list[str]]:
    """What each version must hold, and the marks in the log in its order."""
    model: Model = {row[0]: row[1] for row in zip(*writes.rows_from(-10, 10).to_pydict().values(), strict=True)}
    versions, marks = {0: dict(model)}, []
    for path in sorted((root / "_delta_log").glob("*.json"))[1:]:
        actions = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        mark = next(action["commitInfo"]["operation"] for action in actions if "commitInfo" in action)
        marks.append(mark)
        intent = about.get(mark)
        if intent is None:
            wrong.append(f"{path.name} is of no writer ({mark})")
            continue
        ids, value = intent["ids"], intent["value"]
        if intent["kind"] == "append":
            if twice := model.keys() & set(ids):
                wrong.append(f"{path.name} appends rows that are there: {sorted(twice)}")
            model |= dict.fromkeys(ids, value)
        elif intent["kind"] == "delete":
            model = {x: v for x, v in model.items() if x not in ids}
        elif intent["kind"] == "update":
            model |= {x: value for x in ids if x in model}
        versions[int(path.stem)] = dict(model)
    return versions, marks


def check_history(root: Path, journals: list[list[dict[str, Any]]], findings: Findings) -> Findings:
    """Hold what all processes noted against the log."""
    lines = [line for journal in journals for line in journal]
    about = {line["about"]: line for line in lines if "about" in line}
    versions, marks = replay(root, about, findings.wrong)
    done = {line["done"] for line in lines if "done" in line}
    refused = {line["refused"]: line["why"] for line in lines if "refused" in line}
    if len(marks) != len(set(marks)):
        findings.wrong.append("a write is in the log twice")
    for mark in sorted(done - set(marks)):
        # A write that concerns no row commits nothing.
        intent = about[mark]
        if intent["kind"] == "append":
            findings.wrong.append(f"an append was done and is not in the log: {mark}")
    findings.wrong += [f"{mark} was refused and is in the log: {refused[mark]}" for mark in refused if mark in marks]
    for journal in journals:
        newest = -1
        for line in journal:
            if "wrong" in line:
                findings.wrong.append(line["wrong"])
            if "saw" not in line:
                continue
            findings.reads += 1
            if line["saw"] < newest:
                findings.wrong.append(f"a reader went back from version {newest} to {line['saw']}")
            newest = line["saw"]
            if dict(line["rows"]) != versions.get(newest) or len(line["rows"]) != len(versions.get(newest, ())):
                findings.wrong.append(f"what was read is not version {newest}")
    final = {x: v for x, v, _ in writes.contents(root) or ()}
    if final != versions[max(versions)]:
        findings.wrong.append("the table at the end is not what the log says")
    lost = [mark for mark in done if about[mark]["kind"] == "update" and mark not in marks]
    findings.wrong += [f"an update was done and is not in the log: {mark}" for mark in lost if _had_rows(about, mark)]
    vacuum(root, hours=0, force=True)
    findings.wrong += [f"vacuum left {name}" for name in leftovers(root)]
    findings.versions, findings.done, findings.refused = len(versions), len(done), len(refused)
    findings.killed = len(about) - len(done) - len(refused)
    findings.overtaken = sum("overtaken" in line for line in lines)
    return findings


def _had_rows(about: dict[str, dict[str, Any]], mark: str) -> bool:
    """Whether an update must have found rows: some of its ids were appended before, and none was ever deleted."""
    number, turn = (int(part) for part in mark.split("-"))
    earlier = [about[each] for each in about if each.startswith(f"{number}-") and int(each.split("-")[1]) < turn]
    gone = {x for each in earlier if each["kind"] == "delete" for x in each["ids"]}
    there = {x for each in earlier if each["kind"] == "append" for x in each["ids"]}
    return bool((there - gone) & set(about[mark]["ids"]))
