"""How things are timed: variants run in turns, so that a machine that slows down slows all of them alike."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Timing:
    """The seconds that each run of one variant took, in the order they ran."""

    name: str
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.seconds:
            raise ValueError(f"Variant {self.name!r} has no runs: time it at least once.")

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass(frozen=True, slots=True)
class Race:
    """The timings of variants that ran in turns; the first is the baseline that the others are compared with.

    >>> race = Race((Timing("off", (2.0, 4.0, 3.0)), Timing("on", (1.0, 1.0, 1.5))))
    >>> race.ratio("on"), race.paired_ratio("on")
    (0.3333333333333333, 0.5)
    """

    timings: tuple[Timing, ...]

    def __getitem__(self, name: str) -> Timing:
        for timing in self.timings:
            if timing.name == name:
                return timing
        raise KeyError(f"No variant is called {name!r}; there are {', '.join(t.name for t in self.timings)}.")

    @property
    def baseline(self) -> Timing:
        return self.timings[0]

    def ratio(self, name: str) -> float:
        """The variant's median over the baseline's: below 1 is faster."""
        return self[name].median / self.baseline.median

    def paired_ratio(self, name: str) -> float:
        """The median, over rounds, of the variant's time by the baseline's in the same round.

        Steadier than :meth:`ratio` on a shared machine, where a slow minute hits both members of a pair.
        """
        pairs = zip(self[name].seconds, self.baseline.seconds, strict=True)
        return statistics.median(mine / base for mine, base in pairs)

    def figures(self) -> dict[str, dict[str, float | int]]:
        """The race as plain numbers, by variant, for the JSON record."""
        return {
            timing.name: {
                "median_s": timing.median,
                "min_s": min(timing.seconds),
                "max_s": max(timing.seconds),
                "runs": len(timing.seconds),
                "ratio": self.ratio(timing.name),
                "paired_ratio": self.paired_ratio(timing.name),
            }
            for timing in self.timings
        }

    def table(self, title: str) -> Table:
        """The race as a table for people, in milliseconds."""
        table = Table(title=title)
        table.add_column("variant")
        for heading in ("median ms", "min", "max", "runs", "× baseline", "× paired"):
            table.add_column(heading, justify="right")
        for name, row in self.figures().items():
            milliseconds = (f"{1000 * row[key]:,.1f}" for key in ("median_s", "min_s", "max_s"))
            table.add_row(name, *milliseconds, str(row["runs"]), f"{row['ratio']:.2f}", f"{row['paired_ratio']:.2f}")
        return table


def race(variants: Mapping[str, Callable[[], object]], *, runs: int = 5, warmups: int = 1) -> Race:
    """Time the variants in turns: round by round, each once, a different one first in each round.

    The warm-up rounds are not counted: a JVM compiles what it runs, and caches fill. Garbage is collected before each
    timed call, so that no variant pays for what the one before it left.
    """
    if not variants:
        raise ValueError("There is nothing to time: give at least one variant.")
    if runs < 1:
        raise ValueError(f"A variant is timed at least once, not {runs} times.")
    names = list(variants)
    for _ in range(warmups):
        for name in names:
            variants[name]()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(runs):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            start = time.perf_counter()
            variants[name]()
            seconds[name].append(time.perf_counter() - start)
    return Race(tuple(Timing(name, tuple(seconds[name])) for name in names))


def machine() -> dict[str, Any]:
    """What a figure depends on besides the code: processor, memory, load, and the versions that did the work."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": _memory_gb(),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "java": _java_version(),
        **{package: _version(package) for package in ("sidestep", "pyspark", "pyarrow", "numpy")},
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError):
        return None


def _java_version() -> str | None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        # Java prints its version on stderr, the first line being: openjdk version "17.0.1" 2021-10-19
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    quoted = answer.partition("\n")[0].split('"')
    return quoted[1] if len(quoted) > 1 else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
