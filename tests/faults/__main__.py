"""``python -m tests.faults``: cut every write short at every point, and tell how often all was well.

First the writes without Spark, at all points with all faults. Then, for as many seconds as it is given: the writes that
users call at random points, and real kills of a process with a Spark of its own. Then, for as many, many processes at
once. The table goes to the standard error as Markdown, and all of it as JSON to the standard output.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path

from sidestep.errors import SidestepWarning
from tests.faults import foreign, history
from tests.faults.disk import Fault
from tests.faults.kills import kill_for_real
from tests.faults.spark_writes import session, spark_writes
from tests.faults.sweep import Broken, Tally, prepare, sweep
from tests.faults.writes import WRITES


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def without_spark(folder: Path, every: int, seed: int) -> Tally:
    """All points, or each ``every``-th from a random one on."""
    tally, rng = Tally(), random.Random(seed)
    for number, write in enumerate(WRITES):
        own = folder / f"write-{number}"
        own.mkdir()
        first = rng.randrange(every)
        sweep(prepare(write, own), own, tally, chosen=lambda at, first=first: at % every == first)  # type: ignore[misc]
        say(f"{write.name}: {tally.points[write.name]} points, {len(tally.wrong)} wrong so far")
    return tally


def on_spark(folder: Path, seconds: float, seed: int) -> tuple[Tally, Tally]:
    """What users call, at random points: in this process, and by real kills."""
    here, killed, rng = Tally(), Tally(), random.Random(seed)
    with session(folder / "spark", "local[2]") as spark:
        source = folder / "source"
        made = [prepare(write, folder / f"spark-{n}") for n, write in enumerate(_in_folders(spark, source, folder))]
        until = time.monotonic() + seconds
        while True:
            for prepared in rng.sample(made, len(made)):
                for fault in Fault:
                    chosen = rng.randrange(len(prepared.points))
                    own = folder / "here"
                    own.mkdir(exist_ok=True)
                    sweep(prepared, own, here, [fault], lambda at, chosen=chosen: at == chosen)  # type: ignore[misc]
                share = rng.choice(["commit", "committed", f"{rng.random():.3f}"])
                killed.count(prepared.write.name, "killed for real", _killed(prepared, folder, source, share))
                if time.monotonic() > until:
                    return here, killed
            say(f"on Spark: {sum(here.tried.values())} tried, {sum(killed.tried.values())} real kills")


def _in_folders(spark, source, folder):
    for number, write in enumerate(spark_writes(spark, source)):
        (folder / f"spark-{number}").mkdir()
        yield write


def _killed(prepared, folder, source, share) -> str | None:
    try:
        kill_for_real(prepared, folder / "killed", source, share)
    except (Broken, AssertionError) as problem:
        return f"{prepared.write.name}, killed for real at {share}: {problem}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__, allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=300.0, help="for Spark, and as long for many processes (300)")
    parser.add_argument("--seed", type=int, default=1, help="where chance begins (1)")
    parser.add_argument("--every", type=int, default=1, help="without Spark, every so many points (1)")
    options = parser.parse_args()
    warnings.simplefilter("ignore", SidestepWarning)
    logging.disable(logging.ERROR)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tally = without_spark(folder, options.every, options.seed)
        here, killed = (Tally(), Tally()) if options.seconds <= 0 else on_spark(folder, options.seconds, options.seed)
        together: list[history.Findings] = []
        looked, known, seed = 0, 0, options.seed
        until = time.monotonic() + options.seconds
        while not together or time.monotonic() < until:
            own = folder / f"together-{seed}"
            own.mkdir()
            together.append(history.live_together(own, turns=20, seed=seed))
            some = foreign.live_together(own / "foreign", turns=60, seed=seed)
            looked, known, seed = looked + some[0], known + some[1], seed + 1
            say(f"together: {together[-1]}")
    wrong = [*tally.wrong, *here.wrong, *killed.wrong, *(problem for one in together for problem in one.wrong)]
    for title, one in (("Without Spark", tally), ("On Spark", here), ("Killed for real", killed)):
        if one.tried:
            say(f"\n{title}\n\n{one}")
    report = {
        "without_spark": tally.to_dict(),
        "on_spark": here.to_dict(),
        "killed_for_real": killed.to_dict(),
        "together": {
            "runs": len(together),
            **{key: sum(getattr(one, key) for one in together) for key in ("versions", "done", "refused", "killed")},
            **{key: sum(getattr(one, key) for one in together) for key in ("reads", "overtaken")},
        },
        "index_beside_foreign_writer": {"looked": looked, "known": known},
        "wrong": len(wrong),
    }
    print(json.dumps(report))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
