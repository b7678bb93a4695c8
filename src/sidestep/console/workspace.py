"""What the console may touch: the tables and logs in the folders that it was given, known by names.

No path ever comes from the page. Tables and logs have names, a new table gets a plain name in one of the folders, and
what a name stands for is looked up here. A table or log that leads out of the folders, by a symbolic link of its own or
of one of its files, is not opened, and the page says why.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sidestep import SidestepError

MOST_LEVELS, MOST_ENTRIES = 3, 500
"""How deep tables and logs are looked for, and how many of them are listed."""
LOG_ENDINGS = (".sql", ".jsonl", ".ndjson", ".json", ".csv", ".log")
SECONDS = 2.0
"""How long a look at the folders holds."""
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
"""What a new table may be called."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A table or a log that was found."""

    name: str
    path: Path
    kind: str
    """parquet or delta, groups for a table in column groups, log."""
    folder: str
    """Where it lies, for people: relative to the folder that was given."""
    problem: str = ""
    """Why it cannot be opened, if so."""


class Workspace:
    """The folders that the console was given, and what is in them."""

    def __init__(
        self,
        folders: Iterable[str | os.PathLike[str]],
        tables: Mapping[str, str] | None = None,
        logs: Iterable[str] = (),
    ) -> None:
        self.folders = tuple(Path(folder).expanduser().resolve() for folder in folders)
        for folder in self.folders:
            if not folder.is_dir():
                raise SidestepError(f"There is no folder {folder}: give one that holds tables and logs.")
        self._given = {name: Path(path).expanduser().resolve() for name, path in (tables or {}).items()}
        for name, path in self._given.items():
            if not path.is_dir():
                raise SidestepError(f"There is no table at {path}, which --table calls {name}.")
        self._logs = [Path(log).expanduser().resolve() for log in logs]
        for log in self._logs:
            if not log.exists():
                raise SidestepError(f"There is no log at {log}: give the path of a file or a folder.")
        if not (self.folders or self._given):
            raise SidestepError("The console needs a folder of tables, or a table: sidestep serve FOLDER.")
        self._known = {*self._given.values(), *self._logs}
        """What has a name already: it is not listed once more by that of its folder."""
        self._lock = threading.Lock()
        self._looked = -SECONDS
        self._entries: dict[str, Entry] = {}

    def forget(self) -> None:
        """Look again at once: something was written."""
        self._looked = -SECONDS

    @property
    def tables(self) -> dict[str, Entry]:
        """The tables by name."""
        return {name: entry for name, entry in self._look().items() if entry.kind != "log"}

    @property
    def logs(self) -> dict[str, Entry]:
        """The logs by name."""
        return {name: entry for name, entry in self._look().items() if entry.kind == "log"}

    @property
    def paths(self) -> dict[str, str]:
        """Where each table is that can be opened."""
        return {name: str(entry.path) for name, entry in self.tables.items() if not entry.problem}

    def table(self, name: str) -> Entry:
        """The table of a name."""
        return self._find(self.tables, name, "table")

    def log(self, name: str) -> Entry:
        """The log of a name."""
        return self._find(self.logs, name, "log")

    def _find(self, among: Mapping[str, Entry], name: str, what: str) -> Entry:
        entry = among.get(name)
        if entry is None:
            raise UnknownName(f"There is no {what} {name[:80]!r} here.")
        if entry.problem:
            raise SidestepError(f"{name} cannot be opened: {entry.problem}")
        return entry

    def new_table(self, name: str) -> Path:
        """Where a new table of this name goes: nothing is there yet."""
        if not NAME.fullmatch(name):
            raise SidestepError("A new table is called by letters, digits and _, and begins with a letter.")
        if not self.folders:
            raise SidestepError("The console was given no folder to write new tables to: sidestep serve FOLDER.")
        path = self.folders[0] / name
        if name in self.tables or os.path.lexists(path):
            raise SidestepError(f"There is something called {name} already: choose another name for the new table.")
        return path

    def _look(self) -> dict[str, Entry]:
        with self._lock:
            if time.monotonic() - self._looked >= SECONDS:
                self._entries = self._named(self._search())
                self._looked = time.monotonic()
            return self._entries

    def _search(self) -> Iterator[Entry]:
        for name, path in self._given.items():
            yield Entry(name, path, _kind_of(path) or "parquet", str(path.parent))
        for log in self._logs:
            yield Entry(log.name, log, "log", str(log.parent))
        for folder in self.folders:
            kind = _kind_of(folder)
            if kind:
                yield Entry(_identifier(folder.name), folder, kind, str(folder.parent))
            else:
                yield from self._search_folder(folder, folder, 0)

    def _search_folder(self, root: Path, folder: Path, level: int) -> Iterator[Entry]:
        try:
            inside = sorted(folder.iterdir())
        except OSError:
            return
        for path in inside:
            if path.name.startswith((".", "_")) or path in self._known:
                continue
            where = str(folder.relative_to(root)) if folder != root else ""
            if not path.resolve().is_relative_to(root):
                if path.is_dir() or path.suffix in LOG_ENDINGS:
                    yield Entry(_identifier(path.name), path, "parquet" if path.is_dir() else "log", where, _LEADS_OUT)
            elif path.is_dir():
                kind = _kind_of(path)
                if kind:
                    problem = "" if stays_inside(path, root) else _LEADS_OUT
                    yield Entry(_identifier(path.name), path, kind, where, problem)
                elif level + 1 < MOST_LEVELS:
                    yield from self._search_folder(root, path, level + 1)
            elif path.suffix in LOG_ENDINGS:
                yield Entry(path.name, path, "log", where)

    def _named(self, found: Iterable[Entry]) -> dict[str, Entry]:
        """The entries by names that tell them apart."""
        named: dict[str, Entry] = {}
        for entry in found:
            name, number = entry.name, 2
            while name in named:
                name, number = f"{entry.name}_{number}", number + 1
            named[name] = Entry(name, entry.path, entry.kind, entry.folder, entry.problem)
            if len(named) >= MOST_ENTRIES:
                break
        return named


class UnknownName(SidestepError):
    """A name that stands for nothing here."""


_LEADS_OUT = "a symbolic link leads out of the folder that the console was given."


def stays_inside(path: Path, root: Path) -> bool:
    """Whether no symbolic link in a folder leads out of another."""
    left = [path]
    while left:
        with os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(root):
                    return False
                if entry.is_dir(follow_symlinks=False):
                    left.append(Path(entry.path))
    return True


def _kind_of(folder: Path) -> str:
    """Whether a folder is a table, and of which kind; empty if it is none."""
    try:
        names = {entry.name for entry in os.scandir(folder)}
    except OSError:
        return ""
    if "_delta_log" in names:
        return "delta"
    if "_sidestep" in names and (folder / "_sidestep" / "groups").is_dir():
        return "groups"
    if any(name.endswith(".parquet") and not name.startswith((".", "_")) for name in names):
        return "parquet"
    parts = sorted(name for name in names if re.fullmatch(r"[^=./][^=/]*=[^/]*", name))
    return "parquet" if any(_kind_of(folder / name) for name in parts[:3]) else ""


def _identifier(name: str) -> str:
    """A name that SQL takes without quotes.

    >>> _identifier("denorm-sf0.1"), _identifier("2024"), _identifier("überblick")
    ('denorm_sf0_1', 't_2024', '_berblick')
    """
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)[:80]
    return plain if not plain[:1].isdigit() else f"t_{plain}"
