"""Tables that a long benchmark loads, and what it measured of them, kept so that a run goes on where one stopped."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.journal import Journal


def add_kept_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a benchmark that can go on where it stopped."""
    parser.add_argument(
        "--keep", action="store_true", help="keep what is loaded for the next run, or if this is cut short"
    )
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs have kept")


class KeptTables:
    """A folder of tables with a journal of what is known of each.

    A table counts as loaded when the journal says so: files that no entry tells of are those of a run that was cut
    short, and are removed. With ``keep`` the next run of the same benchmark finds all as it is.

    >>> import tempfile
    >>> kept = KeptTables(Path(tempfile.mkdtemp()) / "tables", keep=True, fresh=False)
    >>> kept.load("rows", lambda path: {"name": path.name, "seconds": 12})
    {'name': 'rows', 'seconds': 12}
    >>> KeptTables(kept.home, keep=True, fresh=False).load("rows", lambda path: {"seconds": 99})
    {'name': 'rows', 'seconds': 12}
    """

    def __init__(self, home: Path, *, keep: bool, fresh: bool) -> None:
        self.home, self.keep = home, keep
        if fresh:
            shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True, exist_ok=True)
        self.journal = Journal(home / "journal.jsonl")

    def path(self, name: str) -> Path:
        return self.home / name

    def load(self, name: str, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """What loading the table of that name showed, now or in an earlier run."""

        def made() -> dict[str, Any]:
            shutil.rmtree(self.path(name), ignore_errors=True)
            return make(self.path(name))

        found: dict[str, Any] = self.journal.once(f"load {name}", made)
        return found

    def finish(self) -> None:
        """At the end of a run, whether it succeeded or not: the tables go, unless they are to be kept."""
        if not self.keep:
            shutil.rmtree(self.home, ignore_errors=True)
