"""Random conditions on columns of every type: those that an index can judge, and those that it cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tests.fuzz.choices import Choices
from tests.fuzz.values import EDGES, GREATEST, NESTED, NUMBERS, literal

T = TypeVar("T")

COMMON = ("int", "bigint", "string", "double", "date", "decimal(9,2)", "smallint", "tinyint", "boolean", EDGES)
"""Types whose constants and comparisons DuckDB has as Spark does."""


class Conditions:
    """Writes conditions, and keeps in mind whether they say the same to DuckDB."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.common = True
        """Whether all so far says the same to DuckDB, as far as that is known."""
        self.plain = choices.happens(0.35)
        """Whether it is kept to what DuckDB knows, where there is a choice."""

    def pick(self, common: Sequence[T], spark: Sequence[T] = ()) -> T:
        """One of several forms; with one of the latter, the query is in Spark's dialect alone."""
        number = self.choices.below(len(common) + (0 if self.plain and common else len(spark)))
        if number < len(common):
            return common[number]
        self.common = False
        return spark[number - len(common)]

    def comparable(self, columns: Mapping[str, str]) -> list[tuple[str, str]]:
        return [(name, kind) for name, kind in columns.items() if kind not in NESTED]

    def condition(self, columns: dict[str, str], depth: int = 1) -> str:
        """A condition on columns; not always one that a synopsis can judge."""
        kinds = self.comparable(columns)
        if self.plain:
            kinds = [(name, kind) for name, kind in kinds if kind in COMMON] or kinds
        if not kinds:
            return "TRUE"
        if depth and self.choices.happens(0.25):
            return self.connected(columns, depth)
        nested = [(name, kind) for name, kind in columns.items() if kind in NESTED]
        if nested and not self.plain and self.choices.happens(0.3):
            return self.of_nested(*self.choices.among(nested))
        return self.atom(*self.choices.among(kinds), columns)

    def connected(self, columns: dict[str, str], depth: int) -> str:
        one, other = (self.condition(columns, depth - 1) for _ in range(2))
        return self.choices.among(
            (f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})", f"({one}) <=> ({other})")
        )

    def atom(self, name: str, kind: str, columns: Mapping[str, str]) -> str:
        number = self.choices.below(GREATEST + 1)
        text = literal(kind, number)
        more = literal(kind, min(GREATEST, number + self.choices.below(9)))
        if self.choices.happens(0.5):
            # What an index speaks of: half of all conditions.
            made = self.pick(
                (
                    f"{name} = {text}",
                    f"{name} < {text}",
                    f"{name} >= {text}",
                    f"{name} BETWEEN {text} AND {more}",
                    f"{name} IN ({text}, {more})",
                    f"{name} IS NULL",
                )
            )
            self.common = self.common and kind in COMMON
            return made
        alike = [other for other, type in columns.items() if type == kind and other != name] or [name]
        common = [
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"{name} <> {text}",
            f"{name} NOT IN ({text}, {more})",
            f"{name} IN ({text}, NULL, {more})",
            f"{name} NOT IN ({text}, NULL)",
            f"{name} <=> {text}",
            f"{name} = {self.choices.among(alike)}",
            f"{name} <= {self.choices.among(alike)}",
            f"coalesce({name}, {text}) = {more}",
            f"nullif({name}, {text}) IS NULL",
            f"CASE WHEN {name} > {text} THEN {name} IS NULL ELSE {name} = {more} END",
            f"({name} = {text}) IS NOT TRUE",
            f"NOT ({name} < {text} OR {name} IS NULL)",
        ]
        spark: list[str] = [f"hash({name}) % 2 = 0", f"if({name} IS NULL, TRUE, {name} < {text})"]
        if kind == "string":
            common += [f"{name} LIKE 'k%'", f"{name} LIKE '%1_'", f"{name} LIKE 'p%1'", f"{name} NOT LIKE '%0%'"]
            spark += [
                f"startswith({name}, 'p')",
                f"upper({name}) > 'K'",
                f"{name} RLIKE '^k0'",
                f"{name} LIKE 'k\\\\'%'",
            ]
            spark += [f"{name} LIKE ANY ('k%', '%2')", f"length({name}) < 4", f"substring({name}, 1, 1) = 'k'"]
            spark += [f"{name} COLLATE UTF8_LCASE = 'K005'", f"contains({name}, '01')", f"endswith({name}, '7')"]
        if kind in NUMBERS:
            common += [f"-{name} > -{number}", f"abs({name}) = {number}"]
            spark += [
                f"{name} + 1 = {number}",
                f"CAST({name} AS DOUBLE) < {number}",
                f"CAST({name} AS STRING) = '{number}'",
                f"{name} % 3 = 1",
                f"CAST({name} AS DECIMAL(12, 3)) >= {number}.5",
                f"{name} = '{number}'",
                f"{name} < {number}.5",
                f"CAST({name} AS BIGINT) IN ({number}, {number + 2})",
                f"try_cast({name} AS TINYINT) = {number}",
            ]
        if kind in ("date", "timestamp", "timestamp_ntz"):
            spark += [
                f"dayofweek({name}) = {1 + number % 7}",
                f"CAST({name} AS DATE) = {literal('date', number)}",
                f"{name} > {literal('timestamp', number)}",
                f"{name} = '2020-01-{1 + number % 28:02d}'",
                f"year({name}) = 2020",
                f"date_trunc('MONTH', {name}) = TIMESTAMP '2020-01-01'",
                f"CAST({name} AS STRING) < '2020-01-2'",
            ]
        made = self.pick(common, spark)
        self.common = self.common and kind in COMMON
        return made

    def null_or_atom(self, name: str, kind: str, columns: Mapping[str, str]) -> str:
        """Of what an outer or lateral join gives, NULL is asked for most."""
        return f"{name} IS NULL" if self.choices.below(2) == 0 else self.atom(name, kind, columns)

    def of_nested(self, name: str, kind: str) -> str:
        number = self.choices.below(GREATEST + 1)
        if kind.startswith("struct"):
            forms = [
                f"{name}.a = {number}",
                f"{name}.b IS NULL",
                f"CAST({name} AS STRING) LIKE '%s1%'",
                f"{name} IS NULL",
                f"{name} = named_struct('a', {number}, 'b', 's1')",
                f"{name}.a BETWEEN {number} AND {number + 3}",
            ]
        elif kind.startswith("array"):
            forms = [
                f"array_contains({name}, {number})",
                f"size({name}) > 2",
                f"CAST({name} AS STRING) LIKE '[0%'",
                f"exists({name}, e -> e = {number})",
                f"forall({name}, e -> e < {number})",
                f"aggregate({name}, 0, (a, e) -> a + e) > {number}",
                f"size(filter({name}, e -> e > {number})) = 1",
                f"array_contains(transform({name}, e -> e + 1), {number})",
                f"try_element_at({name}, 1) = {number}",
            ]
        else:
            forms = [
                f"element_at({name}, 'k1') = {number}",
                f"{name}['k0'] < {number}",
                f"size({name}) > 0",
                f"CAST({name} AS STRING) LIKE '[%'",
                f"map_contains_key({name}, 'k2')",
                f"size(map_filter({name}, (k, v) -> v > {number})) = 1",
            ]
        return self.pick((), forms)
