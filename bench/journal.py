"""What a long benchmark has done so far, so that a run which was cut short goes on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Journal:
    """A file of JSON lines, one per finished piece of work, known by its key; a line cut short by a crash is no line.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "journal.jsonl"
    >>> Journal(path).once("load", lambda: {"seconds": 12})
    {'seconds': 12}
    >>> Journal(path).once("load", lambda: {"seconds": 99})
    {'seconds': 12}
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._done: dict[str, Any] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                    self._done[entry["key"]] = entry["value"]
                except (ValueError, KeyError, TypeError):
                    continue

    def __contains__(self, key: str) -> bool:
        return key in self._done

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        """What was noted under the key, or what ``make`` returns now, noted: plain data, as JSON has it."""
        if key not in self._done:
            self.note(key, make())
        return self._done[key]

    def note(self, key: str, value: Any) -> None:
        """Write a finished piece of work down; the last entry under a key counts."""
        line = json.dumps({"key": key, "value": value})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
            file.flush()
            os.fsync(file.fileno())
        self._done[key] = json.loads(line)["value"]
