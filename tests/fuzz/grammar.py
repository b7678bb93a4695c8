"""Random SQL: every operator that the reader of plans can meet, nested and correlated in every way Spark allows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.fuzz.choices import Choices
from tests.fuzz.conditions import COMMON, Conditions
from tests.fuzz.values import GREATEST, INTERVAL, NESTED, NUMBERS, literal, quoted
from tests.fuzz.world import TableSpec, WorldSpec

JOINS = (
    "INNER",
    "INNER",
    "INNER",
    "LEFT OUTER",
    "LEFT OUTER",
    "RIGHT OUTER",
    "FULL OUTER",
    "LEFT SEMI",
    "LEFT ANTI",
    "CROSS",
)
ONE_SIDED = ("LEFT SEMI", "LEFT ANTI")
WHOLE = ("int", "bigint")


def undone(column: str) -> list[str]:
    """What is computed from a column of whole numbers, and can be undone."""
    return [f"{column} + 1", f"-{column}", f"{column} * 2", f"3 - {column}", f"({column} + 1) * 2"]


@dataclass(frozen=True)
class Relation:
    """A query, and the columns that it gives, with their types."""

    sql: str
    columns: dict[str, str]


class Grammar(Conditions):
    """Writes one query. Every column of every part has a name of its own, so that any part can refer to any other."""

    def __init__(self, choices: Choices, world: WorldSpec) -> None:
        super().__init__(choices)
        self.world = world
        self.names = 0
        self.shared: list[tuple[str, Relation]] = []
        """Common table expressions so far, to be used again."""
        self.operators: Counter[str] = Counter()
        """What the query is made of."""

    def query(self) -> str:
        relation = self.whole()
        if not self.shared:
            return relation.sql
        tables = ", ".join(f"{name} AS ({shared.sql})" for name, shared in self.shared)
        return f"WITH {tables} {relation.sql}"

    def whole(self) -> Relation:
        """The query without its common table expressions, of a kind that suits what the world is about."""
        match self.world.theme:
            case "correlated" if self.choices.happens(0.9):
                return self.correlated()
            case "moments" if self.choices.happens(0.95):
                return self.joined()
            case "flips" | "drift" | "functions" if self.choices.happens(0.9):
                return self.base(filtered=1.0)
        return self.relation(self.choices.below(4))

    def correlated(self) -> Relation:
        """A subquery that gives the outer row's own columns, and a condition on what it gives."""
        outer, inner = self.base(filtered=0.2), self.base(filtered=0.5)
        if self.choices.happens(0.2):
            outer = self.relation_of(outer, 1)
        if self.choices.happens(0.6):
            return self.own_column(outer, inner)
        made = self.choices.among((self.scalar, self.lateral, self.scalar))(outer, inner)
        if self.choices.happens(0.3):
            return Relation(f"SELECT * FROM ({made.sql}) WHERE {self.condition(made.columns)}", made.columns)
        return made

    def own_column(self, outer: Relation, inner: Relation) -> Relation:
        """A column of the outer row by way of a subquery that may be empty: NULL there says nothing of the column."""
        lateral = self.choices.happens(0.3)
        on = (self.on if lateral else self.on_limited)(outer.columns, inner.columns)
        mine = self.comparable(outer.columns)
        if on is None or not mine:
            return outer
        # Of a column that equals one of the subquery's own, that one is taken, and nothing of the outer row is needed.
        a, kind = self.choices.among([each for each in mine if not re.search(rf"\b{each[0]}\b", on)] or mine)
        what = f"{a} + 0" if kind in WHOLE and self.choices.happens(0.2) else a
        new = self.name()
        either = f" OR {self.condition(outer.columns)}" if self.choices.happens(0.15) else ""
        if lateral:
            side = f"LEFT JOIN LATERAL (SELECT {what} AS {new} FROM ({inner.sql}) WHERE {on}) ON TRUE"
            text = f"SELECT * FROM ({outer.sql}) {side} WHERE {new} IS NULL{either}"
            return self.note("lateral left join", Relation(text, {**outer.columns, new: kind}))
        value = f"(SELECT {what} FROM ({inner.sql}) WHERE {on} LIMIT 1)"
        text = f"SELECT * FROM ({outer.sql}) WHERE {value} IS NULL{either}"
        return self.note("scalar subquery of outer columns", Relation(text, outer.columns))

    def joined(self) -> Relation:
        """A join of which one side is filtered: what the filter leaves there decides what is read here."""
        names = list(self.world.tables)
        left = self.base(names[0], self.choices.among((0.0, 0.2)))
        right = self.held(names[-1], left) if self.choices.happens(0.7) else self.base(names[-1], 0.95)
        pairs = self.pairs(left.columns, right.columns)
        if pairs and self.choices.happens(0.6):
            a, b = self.choices.among(pairs)
            text = f"SELECT * FROM ({left.sql}) INNER JOIN ({right.sql}) ON {a} = {b}"
            return self.note("inner join", Relation(text, {**left.columns, **right.columns}))
        if self.choices.happens(0.5):
            left, right = right, left
        return self.join(left, right)

    def name(self) -> str:
        self.names += 1
        return f"x{self.names}"

    def note(self, operator: str, relation: Relation, common: bool = True) -> Relation:
        self.operators[operator] += 1
        self.common = self.common and common
        return relation

    def base(self, table: str | None = None, filtered: float = 0.75) -> Relation:
        """A table; with its own conditions, or with what its features ask."""
        table = table or self.choices.among(list(self.world.tables))
        spec = self.world.tables[table]
        self.common = self.common and _is_common(spec)
        own = dict(spec.columns)
        renamed = {self.name(): name for name in own}
        chosen = ", ".join(f"{quoted(name)} AS {new}" for new, name in renamed.items())
        columns = {new: own[name] for new, name in renamed.items()}
        inner = ""
        if spec.features and filtered and self.choices.happens(max(0.6, filtered)):
            # By the table's own names, which its features are about.
            inner = f" WHERE {self.pick((), spec.features)}"
            filtered /= 2
        where = f" WHERE {self.condition(columns)}" if self.choices.happens(filtered) else ""
        return self.note("scan", Relation(f"SELECT * FROM (SELECT {chosen} FROM {table}{inner}){where}", columns))

    def held(self, table: str, other: Relation) -> Relation:
        """A table with a condition that some of its rows meet, on a column by which it is not joined, if it has one."""
        below, spec = self.base(table, 0.0), self.world.tables[table]
        own = dict(zip(below.columns, spec.columns, strict=True))
        keys = {key for _, key in self.pairs(other.columns, below.columns)}
        kinds = self.comparable(below.columns)
        name, kind = self.choices.among([each for each in kinds if each[0] not in keys] or kinds)
        numbers = sorted({number for file in spec.files for number in file[own[name]] if number is not None})
        sign = self.choices.among(("=", ">=", "<=", ">=", "<="))
        test = f"{name} {sign} {literal(kind, self.choices.among(numbers or [0]))}"
        self.common = self.common and kind in COMMON
        return self.note("filter", Relation(f"SELECT * FROM ({below.sql}) WHERE {test}", below.columns))

    def relation(self, depth: int) -> Relation:
        return self.relation_of(self.base(), depth)

    def relation_of(self, below: Relation, depth: int) -> Relation:
        """That relation under so many operators more."""
        for level in range(depth):
            made = self.choices.among(self.forms())
            below = made(below, self.relation(self.choices.below(level + 1)))
        return below

    def forms(self) -> Sequence[Callable[[Relation, Relation], Relation]]:
        """Operators, the frequent ones more than once; those of one input leave the other."""
        both = (
            self.filter,
            *(self.join, self.join, self.join),
            *(self.exists, self.exists, self.scalar, self.scalar, self.lateral, self.lateral),
            *(self.group, self.group, self.combine, self.combine),
            *(self.limit, self.twice, self.computed, self.distinct, self.condition_column),
        )
        if self.plain:
            return both
        rest = (self.using, self.window, self.pivot, self.unpivot, self.explode, self.values, self.sample, self.ordered)
        return (*both, *rest)

    def filter(self, below: Relation, other: Relation) -> Relation:
        text = f"SELECT * FROM ({below.sql}) WHERE {self.condition(below.columns, 2)}"
        return self.note("filter", Relation(text, below.columns))

    def pairs(self, left: Mapping[str, str], right: Mapping[str, str], mixed: bool = False) -> list[tuple[str, str]]:
        """Columns that can be compared: of one type, or also of different types of numbers."""
        return [
            (a, b)
            for a, kind in self.comparable(left)
            for b, other in self.comparable(right)
            if kind == other or (mixed and kind in NUMBERS and other in NUMBERS)
        ]

    def on_limited(self, outer: dict[str, str], inner: dict[str, str]) -> str | None:
        """What ties a subquery with a limit to the outer row: each outer column to one of its type, and once.

        Other equalities Spark takes out of the subquery and asks after the limit, which then has taken any row: that
        is a mistake of Spark's own, and what comes of it depends on the order of rows.
        """
        pairs = self.pairs(outer, inner)
        if not pairs:
            return None
        tied = dict(self.choices.among(pairs) for _ in range(1 + self.choices.happens(0.3)))
        parts = [f"{a} {self.choices.among(('=', '=', '=', '=', '<=>'))} {b}" for a, b in tied.items()]
        if self.choices.happens(0.25):
            parts.append(self.condition(self.choices.among((outer, inner))))
        return " AND ".join(parts)

    def on(self, left: dict[str, str], right: dict[str, str]) -> str | None:
        pairs = self.pairs(left, right) or self.pairs(left, right, mixed=True)
        if not pairs:
            return None
        if self.choices.happens(0.1):
            pairs = self.pairs(left, right, mixed=True)
        parts = []
        for number in range(1 + self.choices.happens(0.3)):
            a, b = self.choices.among(pairs)
            op = self.choices.among(("=", "=", "=", "=", "<=>", "<", ">=") if number else ("=", "=", "=", "=", "<=>"))
            one = self.choices.among(undone(a)) if left[a] in WHOLE and self.choices.happens(0.15) else a
            two = self.choices.among(undone(b)) if right[b] in WHOLE and self.choices.happens(0.05) else b
            parts.append(f"{one} {op} {two}")
        if self.choices.happens(0.25):
            parts.append(self.condition({**left, **right}))
        return " AND ".join(parts)

    def join(self, left: Relation, right: Relation) -> Relation:
        kind = self.choices.among([kind for kind in JOINS if not (self.plain and kind in ONE_SIDED)])
        on = self.on(left.columns, right.columns)
        if on is None:
            return left
        columns = left.columns if kind in ONE_SIDED else {**left.columns, **right.columns}
        if kind == "CROSS":
            text = f"SELECT * FROM ({left.sql}), ({right.sql}) WHERE {on}"
        else:
            text = f"SELECT * FROM ({left.sql}) {kind} JOIN ({right.sql}) ON {on}"
        return self.note(f"{kind.lower()} join", Relation(text, columns), kind not in ONE_SIDED)

    def using(self, left: Relation, right: Relation) -> Relation:
        """A join by the name of a column that both sides have."""
        pairs = self.pairs(left.columns, right.columns)
        if not pairs:
            return left
        a, b = self.choices.among(pairs)
        kind = self.choices.among(JOINS[:-1])
        new = self.name()
        one = ", ".join(f"{name} AS {new}" if name == a else name for name in left.columns)
        two = ", ".join(f"{name} AS {new}" if name == b else name for name in right.columns)
        rest = {name: type for name, type in left.columns.items() if name != a}
        if kind not in ONE_SIDED:
            rest |= {name: type for name, type in right.columns.items() if name != b}
        first, second = f"SELECT {one} FROM ({left.sql})", f"SELECT {two} FROM ({right.sql})"
        natural = self.choices.happens(0.3) and kind not in ONE_SIDED
        joined = f"NATURAL {kind} JOIN ({second})" if natural else f"{kind} JOIN ({second}) USING ({new})"
        relation = Relation(f"SELECT * FROM ({first}) {joined}", {new: left.columns[a], **rest})
        return self.note("natural join" if natural else "join using", relation, common=False)

    def exists(self, outer: Relation, inner: Relation) -> Relation:
        pairs = self.pairs(outer.columns, inner.columns)
        on = self.on(outer.columns, inner.columns)
        if not pairs or on is None:
            return outer
        (a, b), (c, d) = self.choices.among(pairs), self.choices.among(pairs)
        operator, test = self.choices.among(
            (
                ("exists", f"EXISTS (SELECT 1 FROM ({inner.sql}) WHERE {on})"),
                ("not exists", f"NOT EXISTS (SELECT 1 FROM ({inner.sql}) WHERE {on})"),
                ("in", f"{a} IN (SELECT {b} FROM ({inner.sql}))"),
                ("not in", f"{a} NOT IN (SELECT {b} FROM ({inner.sql}))"),
                ("in", f"{a} IN (SELECT {b} FROM ({inner.sql}) WHERE {on})"),
                ("not in", f"{a} NOT IN (SELECT {b} FROM ({inner.sql}) WHERE {on})"),
                ("in", f"({a}, {c}) IN (SELECT {b}, {d} FROM ({inner.sql}))"),
            )
        )
        if self.choices.happens(0.2):
            new = self.name()
            text = f"SELECT *, {test} AS {new} FROM ({outer.sql})"
            where = f"SELECT * FROM ({text}) WHERE {new}" if self.choices.happens(0.5) else text
            return self.note(f"{operator} as value", Relation(where, {**outer.columns, new: "boolean"}))
        either = f" OR {self.condition(outer.columns)}" if self.choices.happens(0.3) else ""
        return self.note(operator, Relation(f"SELECT * FROM ({outer.sql}) WHERE ({test}{either})", outer.columns))

    def scalar(self, outer: Relation, inner: Relation) -> Relation:
        """A scalar subquery, whose value may be the outer row's own."""
        on = self.on(outer.columns, inner.columns)
        mine, theirs = self.comparable(outer.columns), self.comparable(inner.columns)
        if on is None or not mine or not theirs:
            return outer
        (a, kind), (b, other) = self.choices.among(mine), self.choices.among(theirs)
        first = self.on_limited(outer.columns, inner.columns)
        own = [] if first is None else [(f"(SELECT {a} FROM ({inner.sql}) WHERE {first} LIMIT 1)", kind)]
        coalesced = [(sql.replace(f"SELECT {a} ", f"SELECT coalesce({a}, {a}) ", 1), kind) for sql, kind in own]
        value, type = self.choices.among(
            (
                *own * (6 if self.world.theme == "correlated" else 1),
                (f"(SELECT max({b}) FROM ({inner.sql}) WHERE {on})", other),
                (f"(SELECT max({b}) FROM ({inner.sql}))", other),
                (f"(SELECT count(*) FROM ({inner.sql}) WHERE {on})", "bigint"),
                *coalesced,
            )
        )
        operator = (
            "scalar subquery of outer columns"
            if f"max({b})" not in value and "count" not in value
            else "scalar subquery"
        )
        if self.choices.happens(0.6):
            number = literal(type, self.choices.below(GREATEST))
            tests = (f"{value} IS NULL", f"{value} IS NULL", f"{value} = {number}", f"{value} > {number}")
            test = self.choices.among((*tests, f"{value} IS NOT NULL"))
            self.common = self.common and type in COMMON
            either = f" OR {self.condition(outer.columns)}" if self.choices.happens(0.3) else ""
            return self.note(operator, Relation(f"SELECT * FROM ({outer.sql}) WHERE {test}{either}", outer.columns))
        new = self.name()
        columns = {**outer.columns, new: type}
        text = f"SELECT *, {value} AS {new} FROM ({outer.sql})"
        if self.choices.happens(0.4):
            text = f"SELECT * FROM ({text}) WHERE {self.null_or_atom(new, type, columns)}"
        return self.note(operator, Relation(text, columns))

    def lateral(self, outer: Relation, inner: Relation) -> Relation:
        """A lateral join; what it gives may be columns of either side, or computed of both."""
        on = self.on(outer.columns, inner.columns)
        mine, theirs = self.comparable(outer.columns), self.comparable(inner.columns)
        if on is None or not mine or not theirs:
            return outer
        (a, kind), (b, other) = self.choices.among(mine), self.choices.among(theirs)
        new = self.name()
        what, type = self.choices.among(((a, kind), (b, other), (f"coalesce({a}, {a})", kind), (f"max({b})", other)))
        if kind in WHOLE and self.choices.happens(0.3):
            what, type = f"{a} + 0", kind
        join = self.choices.among(("LEFT JOIN", "JOIN", "LEFT JOIN"))
        if what in (a, f"{a} + 0") and self.choices.happens(0.3):
            limited = self.on_limited(outer.columns, inner.columns)
            on = on if limited is None else f"{limited} LIMIT 1"
        side = f"SELECT {what} AS {new} FROM ({inner.sql}) WHERE {on}"
        text = f"SELECT * FROM ({outer.sql}) {join} LATERAL ({side}) ON TRUE"
        columns = {**outer.columns, new: type}
        where = ""
        if self.choices.happens(0.7):
            where = f" WHERE {self.null_or_atom(new, type, columns)}"
            if self.choices.happens(0.3):
                where += f" OR {self.condition(outer.columns)}"
        return self.note(f"lateral {join.lower()}", Relation(text + where, columns))

    def group(self, below: Relation, other: Relation) -> Relation:
        plain = self.comparable(below.columns)
        if not plain:
            return below
        keys = list(dict.fromkeys(self.choices.among(plain)[0] for _ in range(2)))
        measure, kind = self.choices.among(plain)
        new = self.name()
        value, type = self.choices.among(
            (
                (f"max({measure})", kind),
                ("count(*)", "bigint"),
                (f"count(DISTINCT {measure})", "bigint"),
                (f"count({measure}) FILTER (WHERE {self.condition(below.columns, 0)})", "bigint"),
                (f"min({measure})", kind),
            )
        )
        columns = {**{key: below.columns[key] for key in keys}, new: type}
        listed = ", ".join(keys)
        operator, by = self.choices.among(
            (
                ("group by", listed),
                ("group by", listed),
                ("rollup", f"ROLLUP ({listed})"),
                ("cube", f"CUBE ({listed})"),
                ("grouping sets", f"GROUPING SETS (({listed}), ())"),
            )
        )
        if self.choices.happens(0.15):
            return self.note("global aggregate", Relation(f"SELECT {value} AS {new} FROM ({below.sql})", {new: type}))
        having = ""
        if self.choices.happens(0.4):
            tests = [
                f"{value} IS NOT NULL",
                "count(*) > 1",
                self.atom(keys[0], columns[keys[0]], {keys[0]: columns[keys[0]]}),
            ]
            having = f" HAVING {self.choices.among(tests)}"
            self.operators["having"] += 1
        text = f"SELECT {listed}, {value} AS {new} FROM ({below.sql}) GROUP BY {by}{having}"
        return self.note(operator, Relation(text, columns))

    def combine(self, left: Relation, right: Relation) -> Relation:
        pairs = self.pairs(left.columns, right.columns)
        if not pairs:
            return left
        chosen = list(dict.fromkeys(self.choices.among(pairs) for _ in range(2)))
        word = self.choices.among(("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
        new = [self.name() for _ in chosen]
        one, two = (
            ", ".join(f"{pair[side]} AS {name}" for pair, name in zip(chosen, new, strict=True)) for side in (0, 1)
        )
        columns = {name: left.columns[a] for name, (a, _) in zip(new, chosen, strict=True)}
        where = f" WHERE {self.condition(columns)}" if self.choices.happens(0.6) else ""
        text = f"SELECT * FROM (SELECT {one} FROM ({left.sql}) {word} SELECT {two} FROM ({right.sql})){where}"
        return self.note(word.lower(), Relation(text, columns))

    def window(self, below: Relation, other: Relation) -> Relation:
        plain = [name for name, _ in self.comparable(below.columns)]
        if not plain:
            return below
        column, new = self.choices.among(plain), self.name()
        function = self.choices.among(("rank()", f"max({column})", "count(*)", f"lag({column})", "row_number()"))
        ranks = function in ("rank()", "row_number()")
        type = "int" if ranks else "bigint" if function == "count(*)" else below.columns[column]
        by = f"PARTITION BY {self.choices.among(plain)} " if self.choices.happens(0.8) else ""
        # Rows that tie in all of these columns are alike: which of them comes first does not matter.
        over = f"{by}ORDER BY {', '.join(plain)}"
        if any(kind in NESTED for kind in below.columns.values()) and function in ("row_number()", f"lag({column})"):
            function, type, ranks = "rank()", "int", True
        columns = {**below.columns, new: type}
        text = f"SELECT *, {function} OVER ({over}) AS {new} FROM ({below.sql})"
        if ranks and self.choices.happens(0.3):
            return self.note("qualify", Relation(f"SELECT * FROM ({text}) WHERE {new} <= 2", columns), common=False)
        where = f" WHERE {self.condition(columns)}" if self.choices.happens(0.6) else ""
        return self.note("window", Relation(f"SELECT * FROM ({text}){where}", columns), common=False)

    def limit(self, below: Relation, other: Relation) -> Relation:
        """The first rows in an order of all columns: which rows these are is decided by their values alone."""
        plain = [name for name, _ in self.comparable(below.columns)]
        if not plain:
            return below
        kept = {name: below.columns[name] for name in plain}
        offset = f" OFFSET {self.choices.below(3)}" if self.choices.happens(0.2) else ""
        listed = ", ".join(plain)
        order = ", ".join(f"{name} {self.choices.among(('', '', 'DESC', 'NULLS LAST'))}" for name in plain)
        text = f"SELECT {listed} FROM ({below.sql}) ORDER BY {order} LIMIT {self.choices.between(1, 30)}"
        where = f" WHERE {self.condition(kept)}" if self.choices.happens(0.6) else ""
        return self.note("limit", Relation(f"SELECT * FROM ({text}{offset}){where}", kept))

    def twice(self, below: Relation, other: Relation) -> Relation:
        """A common table expression that is used at two places, filtered differently at each."""
        name = f"cte{len(self.shared)}"
        self.shared.append((name, below))
        sides = []
        for _ in range(2):
            renamed = {self.name(): (column, kind) for column, kind in below.columns.items()}
            chosen = ", ".join(f"{column} AS {new}" for new, (column, _) in renamed.items())
            columns = {new: kind for new, (_, kind) in renamed.items()}
            where = f" WHERE {self.condition(columns)}" if self.choices.happens(0.7) else ""
            sides.append(Relation(f"SELECT * FROM (SELECT {chosen} FROM {name}){where}", columns))
        first, second = sides
        made = self.join(first, second) if self.choices.happens(0.6) else self.combine(first, second)
        return self.note("with, used twice", made)

    def pivot(self, below: Relation, other: Relation) -> Relation:
        plain = self.comparable(below.columns)
        keys = [(name, kind) for name, kind in plain if kind in ("int", "string", "bigint")]
        if len(plain) < 2 or not keys:
            return below
        key, kind = self.choices.among(keys)
        rest = [(name, type) for name, type in plain if name != key]
        (group, group_type), (measure, type) = self.choices.among(rest), self.choices.among(rest)
        values = list(dict.fromkeys(self.choices.below(GREATEST) for _ in range(2)))
        new = [self.name() for _ in values]
        listed = ", ".join(f"{literal(kind, number)} AS {name}" for number, name in zip(values, new, strict=True))
        inner = f"SELECT {group} AS g, {key} AS k, {measure} AS m FROM ({below.sql})"
        label = self.name()
        text = f"SELECT g AS {label}, {', '.join(new)} FROM ({inner}) PIVOT (max(m) FOR k IN ({listed}))"
        relation = Relation(text, {label: group_type, **dict.fromkeys(new, type)})
        return self.note("pivot", relation, common=False)

    def unpivot(self, below: Relation, other: Relation) -> Relation:
        by_kind: dict[str, list[str]] = {}
        for name, kind in self.comparable(below.columns):
            by_kind.setdefault(kind, []).append(name)
        several = [kind for kind, names in by_kind.items() if len(names) > 1]
        if not several:
            return below
        kind = self.choices.among(several)
        names = by_kind[kind][:3]
        label, value = self.name(), self.name()
        nulls = self.choices.among(("", "INCLUDE NULLS "))
        text = f"SELECT * FROM ({below.sql}) UNPIVOT {nulls}({value} FOR {label} IN ({', '.join(names)}))"
        rest = {name: type for name, type in below.columns.items() if name not in names}
        columns = {**rest, label: "string", value: kind}
        where = f" WHERE {self.atom(value, kind, columns)}" if self.choices.happens(0.7) else ""
        return self.note("unpivot", Relation(f"SELECT * FROM ({text}){where}", columns), common=False)

    def computed(self, below: Relation, other: Relation) -> Relation:
        """Columns renamed, computed and cast, with a condition on what came of it."""
        plain = self.comparable(below.columns)
        if not plain:
            return below
        a, kind = self.choices.among(plain)
        new = self.name()
        forms = [
            (a, kind),
            (f"coalesce({a}, {literal(kind, 5)})", kind),
            (f"CASE WHEN {a} IS NULL THEN {literal(kind, 3)} ELSE {a} END", kind),
        ]
        if kind in WHOLE:
            forms += [(made, kind) for made in undone(a)] + [(f"CAST({a} AS BIGINT)", "bigint")]
        if kind == "double" and not self.plain:
            forms += [(f"-{a}", kind), (f"{a} / 4", kind), (f"{a} * 0.1D", kind)]
            self.common = False
        if kind == "date":
            forms += [(f"{a} + 3", kind)]
        what, type = self.choices.among(forms)
        self.common = self.common and kind in COMMON
        columns = {**below.columns, new: type}
        inner = f"SELECT *, {what} AS {new} FROM ({below.sql})"
        text = f"SELECT * FROM ({inner}) WHERE {self.atom(new, type, columns)}"
        return self.note("computed column", Relation(text, columns))

    def distinct(self, below: Relation, other: Relation) -> Relation:
        plain = dict(self.comparable(below.columns))
        if not plain:
            return below
        return self.note("distinct", Relation(f"SELECT DISTINCT {', '.join(plain)} FROM ({below.sql})", plain))

    def explode(self, below: Relation, other: Relation) -> Relation:
        new, number = self.name(), self.choices.below(GREATEST)
        arrays = [name for name, kind in below.columns.items() if kind == "array<int>"]
        what = self.choices.among([f"array({number}, {number + 1})", *arrays])
        outer = self.choices.among(("", "OUTER "))
        text = f"SELECT * FROM ({below.sql}) LATERAL VIEW {outer}explode({what}) AS {new}"
        columns = {**below.columns, new: "int"}
        relation = Relation(f"{text} WHERE {self.condition(columns)}", columns)
        return self.note("lateral view", relation, common=False)

    def values(self, below: Relation, other: Relation) -> Relation:
        new, number = self.name(), self.choices.below(GREATEST)
        inline = Relation(f"SELECT * FROM VALUES ({number}), (NULL), (7) AS v({new})", {new: "int"})
        return self.note("values", self.join(below, inline), common=False)

    def sample(self, below: Relation, other: Relation) -> Relation:
        """All of it: a smaller sample depends on how rows are divided among tasks."""
        text = f"SELECT * FROM ({below.sql}) TABLESAMPLE (100 PERCENT) REPEATABLE (7)"
        return self.note("tablesample", Relation(text, below.columns), common=False)

    def condition_column(self, below: Relation, other: Relation) -> Relation:
        """A condition that is a column first."""
        new = self.name()
        inner = f"SELECT *, {self.condition(below.columns)} AS {new} FROM ({below.sql})"
        test = self.choices.among((new, f"NOT {new}", f"{new} IS NULL"))
        columns = {**below.columns, new: "boolean"}
        return self.note("condition as column", Relation(f"SELECT * FROM ({inner}) WHERE {test}", columns))

    def ordered(self, below: Relation, other: Relation) -> Relation:
        """Rows in some order, or divided among tasks in some way."""
        plain = [name for name, _ in self.comparable(below.columns)]
        if not plain:
            return below
        a = self.choices.among(plain)
        how = self.choices.among((f"SORT BY {a}", f"DISTRIBUTE BY {a}", f"CLUSTER BY {a}", f"ORDER BY {a}"))
        text = f"SELECT * FROM (SELECT * FROM ({below.sql}) {how})"
        where = f" WHERE {self.condition(below.columns)}"
        return self.note("order", Relation(text + where, below.columns), common=False)


def _is_common(table: TableSpec) -> bool:
    """Whether DuckDB reads a table's files as Spark does, and gives its values in the same form."""
    if any(kind in NESTED or kind == INTERVAL for kind in table.columns.values()):
        return False
    if any(kind.startswith(("char", "string collate")) for kind in table.declared.values()):
        return False
    return not any("use_deprecated_int96_timestamps" in way for way in table.written)
