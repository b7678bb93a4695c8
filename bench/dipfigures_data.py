"""TPC-H in runs, its layouts and its planned queries: what the parts of ``bench dipfigures`` have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from bench import tpch
from bench.dips_layouts import random_tables, tpch_blocks, tuned_tpch
from bench.dips_plans import planned
from bench.dips_tables import BlockTable
from bench.journal import Journal
from bench.session import spark_session
from bench.skew import Skew
from bench.skew_tpch import skewed_tpch, tpch_tables
from sidestep.prune import Query

TUNED = "tuned"


class FigureData:
    """The data of one run; what takes long is made when it is first asked for."""

    def __init__(self, args: argparse.Namespace, journal: Journal, say: Callable[[str], None]) -> None:
        self.args, self.journal, self.say = args, journal, say
        self._made: tuple[int, dict[str, pa.Table]] | None = None

    @cached_property
    def queries(self) -> dict[str, Query]:
        """The 22 queries as Spark's optimizer leaves them. Spark is started only if they are not in the journal."""
        texts = tpch.queries()
        if all(f"plan tpch {name}" in self.journal for name in texts):
            return planned(None, self.journal, texts, "tpch")
        spark = spark_session(self.args.memory)
        tpch.register(spark, tpch.make_tpch(self.args.data, self.args.sf, 16))
        return planned(spark, self.journal, texts, "tpch")

    @property
    def seeds(self) -> range:
        return range(self.args.seed, self.args.seed + self.args.seeds)

    def tables(self, seed: int) -> dict[str, pa.Table]:
        """The tables of a seed, with the skew that was asked for."""
        if self._made is None or self._made[0] != seed:
            source = tpch_tables(tpch.make_tpch(self.args.data, self.args.sf, 16))
            self._made = seed, skewed_tpch(source, Skew("runs", self.args.zipf), seed)
        return self._made[1]

    def tuned(self, seed: int, blocks: int) -> dict[str, BlockTable]:
        return tuned_tpch(self.tables(seed), tpch_blocks(blocks))

    def layouts(self, seed: int) -> Iterator[tuple[str, Callable[[], dict[str, BlockTable]]]]:
        """The tuned layout and those by random columns, each made when it is called."""
        yield TUNED, partial(self.tuned, seed, self.args.blocks)
        for number in range(self.args.layouts):
            yield f"random {number}", partial(self._random, seed, number)

    def _random(self, seed: int, number: int) -> dict[str, BlockTable]:
        return random_tables(self.tables(seed), tpch_blocks(self.args.blocks), number)

    def key(self, part: str, seed: int, **others: object) -> str:
        """Under what a piece of work is noted: all that its figures depend on."""
        scale, zipf = (f"{value:g}" for value in (self.args.sf, self.args.zipf))
        own = {"sf": scale, "zipf": zipf, "seed": seed, "blocks": self.args.blocks} | others
        return " ".join([part, *(f"{name}={value}" for name, value in own.items())])

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        """What the journal has, or what is made now: plain data."""
        if key not in self.journal:
            self.journal.note(key, make())
            self.say(key)
        return self.journal.once(key, dict)
