"""Answers to plans that were asked about before: the same query again, on tables that are as they were.

A query is planned whenever it is run, and its plan has the same text each time. All that an answer depends on is in its
key, or asked for anew before it is given again: the text of the plan, the session's settings, the indexes of the tables
that it reads (a newer one has another id), and which of these tables are covered whole.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from sidestep.prune.analysis import Settings

MOST_CHARACTERS = 8_000_000
"""What plans and answers may take together; those that were not asked for lately are forgotten first."""

Key = tuple[str, Settings]
"""The text of a plan, and the settings that it was answered by."""


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """An answer, and what it rests on besides its key."""

    reply: str
    indexes: Mapping[tuple[str, ...], tuple[str, ...]]
    """For the folders of each scan, the ids of the indexes that were found."""
    coverage: tuple[tuple[str, str], ...]
    """What was asked of tables, and what was said."""
    roots: tuple[str, ...] = ()
    """The folders that the query reads: of one that has been denormalized since, there is more to say."""


class Answers:
    """The answers of a session that may be given again, from whichever thread."""

    def __init__(self, most: int = MOST_CHARACTERS) -> None:
        self._most = most
        self._known: OrderedDict[Key, KnownAnswer] = OrderedDict()
        """The one asked for last is last."""
        self._characters = 0
        self._lock = threading.Lock()

    def get(self, key: Key) -> KnownAnswer | None:
        with self._lock:
            answer = self._known.get(key)
            if answer is not None:
                self._known.move_to_end(key)
            return answer

    def put(self, key: Key, answer: KnownAnswer) -> None:
        with self._lock:
            self._forget(key)
            self._known[key] = answer
            self._characters += _size(key, answer)
            while self._characters > self._most:
                self._forget(next(iter(self._known)))

    def clear(self) -> None:
        with self._lock:
            self._known.clear()
            self._characters = 0

    def _forget(self, key: Key) -> None:
        answer = self._known.pop(key, None)
        if answer is not None:
            self._characters -= _size(key, answer)


def _size(key: Key, answer: KnownAnswer) -> int:
    return len(key[0]) + len(answer.reply) + sum(len(asked) + len(said) for asked, said in answer.coverage)
