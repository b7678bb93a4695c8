"""Random SQL: every operator that the reader of plans can meet, nested and correlated in every way Spark allows."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fuzz.choices import Choices
from tests.fuzz.world import GREATEST, NESTED, NUMBERS, WorldSpec, literal

JOINS = (
    "INNER",
    "INNER",
    "LEFT OUTER",
    "RIGHT OUTER",
    "FULL OUTER",
    "LEFT SEMI",
    "LEFT ANTI",
    "CROSS",
)
ONE_SIDED = ("LEFT SEMI", "LEFT ANTI")


@dataclass(frozen=True)
class Relation:
    """A query, and the columns that it gives, with their types."""

    sql: str
    columns: dict[str, str]


class Grammar:
    """Writes one query. Every column of every part has a name of its own, so that any part can refer to any other."""

    def __init__(self, choices: Choices, world: WorldSpec) -> None:
        self.choices, self.world = choices, world
        self.names = 0
        self.shared: list[tuple[str, Relation]] = []
        """Common table expressions so far, to be used again."""

    def query(self) -> str:
        relation = self.relation(self.choices.below(4))
        if not self.shared:
            return relation.sql
        tables = ", ".join(f"{name} AS ({shared.sql})" for name, shared in self.shared)
        return f"WITH {tables} {relation.sql}"

    def name(self) -> str:
        self.names += 1
        return f"x{self.names}"

    # ---- conditions

    def comparable(self, columns: dict[str, str]) -> list[tuple[str, str]]:
        return [(name, kind) for name, kind in columns.items() if kind not in NESTED]

    def condition(self, columns: dict[str, str], depth: int = 1) -> str:
        """A condition on columns; not always one that a synopsis can judge."""
        kinds = self.comparable(columns)
        if not kinds:
            return "TRUE"
        if depth and self.choices.happens(0.3):
            return self.connected(columns, depth)
        features = [text for text in self.texts() if self.speaks_of(text, columns)]
        if features and self.choices.happens(0.5):
            return self.choices.among(features)
        nested = [(name, kind) for name, kind in columns.items() if kind in NESTED]
        if nested and self.choices.happens(0.3):
            return self.of_nested(*self.choices.among(nested))
        name, kind = self.choices.among(kinds)
        return self.atom(name, kind, columns)

    def texts(self) -> list[str]:
        return [text for table in self.world.tables.values() for text in table.features]

    def speaks_of(self, text: str, columns: dict[str, str]) -> bool:
        """Whether a feature is about columns that are there under the names of their table."""
        return any(name in text for name in columns if name.startswith("t"))

    def connected(self, columns: dict[str, str], depth: int) -> str:
        one, other = (self.condition(columns, depth - 1) for _ in range(2))
        return self.choices.among(
            (f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})", f"({one}) <=> ({other})")
        )

    def atom(self, name: str, kind: str, columns: dict[str, str]) -> str:
        number = self.choices.below(GREATEST + 1)
        text = literal(kind, number)
        more = literal(kind, min(GREATEST, number + self.choices.below(9)))
        alike = [other for other, type in columns.items() if type == kind and other != name] or [name]
        forms = [
            f"{name} = {text}",
            f"{name} < {text}",
            f"{name} >= {text}",
            f"{name} BETWEEN {text} AND {more}",
            f"{name} IN ({text}, {more}, {literal(kind, (number * 7) % GREATEST)})",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"{name} <> {text}",
            f"{name} NOT IN ({text}, {more})",
            f"{name} <=> {text}",
            f"{name} = {self.choices.among(alike)}",
            f"{name} <= {self.choices.among(alike)}",
            f"coalesce({name}, {text}) = {more}",
            f"nullif({name}, {text}) IS NULL",
            f"CASE WHEN {name} > {text} THEN {name} IS NULL ELSE {name} = {more} END",
            f"({name} = {text}) IS NOT TRUE",
        ]
        if kind == "string":
            forms += [f"{name} LIKE 'k%'", f"{name} LIKE '%1_'", f"startswith({name}, 'p')", f"upper({name}) > 'K'"]
        if kind in NUMBERS:
            forms += [
                f"{name} + 1 = {number}",
                f"CAST({name} AS DOUBLE) < {number}",
                f"-{name} > -{number}",
                f"CAST({name} AS STRING) = '{number}'",
                f"{name} % 3 = 1",
                f"abs({name}) = {number}",
            ]
        if kind in ("date", "timestamp", "timestamp_ntz"):
            forms += [
                f"dayofweek({name}) = {1 + number % 7}",
                f"CAST({name} AS DATE) = {literal('date', number)}",
                f"year({name}) = 2020",
                f"date_trunc('MONTH', {name}) = TIMESTAMP '2020-01-01'",
            ]
        return self.choices.among(forms)

    def of_nested(self, name: str, kind: str) -> str:
        number = self.choices.below(GREATEST + 1)
        if kind.startswith("struct"):
            forms = [
                f"{name}.a = {number}",
                f"{name}.b IS NULL",
                f"CAST({name} AS STRING) LIKE '%s1%'",
                f"{name} IS NULL",
            ]
        elif kind.startswith("array"):
            forms = [f"array_contains({name}, {number})", f"size({name}) > 2", f"CAST({name} AS STRING) LIKE '[0%'"]
        else:
            forms = [f"element_at({name}, 'k1') = {number}", f"size({name}) > 0", f"CAST({name} AS STRING) LIKE '[%'"]
        return self.choices.among(forms)

    # ---- relations

    def base(self) -> Relation:
        table = self.choices.among(list(self.world.tables))
        own = self.world.tables[table].columns
        if self.choices.happens(0.3):
            # By its own names: features are about these, and occurrences of one table look alike.
            inner = Relation(f"SELECT * FROM {table}", dict(own))
            where = f" WHERE {self.condition(own)}" if self.choices.happens(0.7) else ""
            renamed = {self.name(): name for name in own}
            chosen = ", ".join(f"{name} AS {new}" for new, name in renamed.items())
            columns = {new: own[name] for new, name in renamed.items()}
            return Relation(f"SELECT {chosen} FROM ({inner.sql}{where})", columns)
        renamed = {self.name(): name for name in own}
        chosen = ", ".join(f"{name} AS {new}" for new, name in renamed.items())
        columns = {new: own[name] for new, name in renamed.items()}
        where = f" WHERE {self.condition(columns)}" if self.choices.happens(0.6) else ""
        return Relation(f"SELECT * FROM (SELECT {chosen} FROM {table}){where}", columns)

    def relation(self, depth: int) -> Relation:
        if depth <= 0:
            return self.base()
        below = self.relation(depth - 1)
        other = self.choices.below(depth)
        match self.choices.below(20):
            case 0 | 1:
                return Relation(f"SELECT * FROM ({below.sql}) WHERE {self.condition(below.columns, 2)}", below.columns)
            case 2 | 3 | 4:
                return self.join(below, self.relation(other))
            case 5:
                return self.using(below, self.relation(other))
            case 6 | 7:
                return self.exists(below, self.relation(other))
            case 8 | 9:
                return self.scalar(below, self.relation(other))
            case 10 | 11:
                return self.lateral(below, self.relation(other))
            case 12:
                return self.group(below)
            case 13:
                return self.combine(below, self.relation(other))
            case 14:
                return self.window(below)
            case 15:
                return self.limit(below)
            case 16:
                return self.twice(below)
            case 17:
                return self.pivot(below)
            case 18:
                return self.computed(below)
            case _:
                return self.unusual(below)

    def pairs(self, left: dict[str, str], right: dict[str, str]) -> list[tuple[str, str]]:
        """Columns that can be compared, those of one type first."""
        same = [(a, b) for a, kind in self.comparable(left) for b, other in self.comparable(right) if kind == other]
        mixed = [
            (a, b)
            for a, kind in self.comparable(left)
            for b, other in self.comparable(right)
            if kind != other and kind in NUMBERS and other in NUMBERS
        ]
        return same + mixed

    def on(self, left: dict[str, str], right: dict[str, str]) -> str | None:
        pairs = self.pairs(left, right)
        if not pairs:
            return None
        parts = []
        for number in range(1 + self.choices.happens(0.3)):
            a, b = self.choices.among(pairs)
            op = self.choices.among(("=", "=", "=", "=", "<=>", "<", ">=") if number else ("=", "=", "=", "<=>"))
            shift = " + 1" if left[a] in ("int", "bigint") and self.choices.happens(0.1) else ""
            parts.append(f"{a}{shift} {op} {b}")
        if self.choices.happens(0.3):
            parts.append(self.condition({**left, **right}))
        return " AND ".join(parts)

    def join(self, left: Relation, right: Relation) -> Relation:
        kind = self.choices.among(JOINS)
        on = self.on(left.columns, right.columns)
        if on is None:
            return left
        columns = left.columns if kind in ONE_SIDED else {**left.columns, **right.columns}
        if kind == "CROSS":
            return Relation(f"SELECT * FROM ({left.sql}), ({right.sql}) WHERE {on}", columns)
        return Relation(f"SELECT * FROM ({left.sql}) {kind} JOIN ({right.sql}) ON {on}", columns)

    def using(self, left: Relation, right: Relation) -> Relation:
        pairs = [(a, b) for a, b in self.pairs(left.columns, right.columns) if left.columns[a] == right.columns[b]]
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
        text = f"SELECT * FROM ({first}) {kind} JOIN ({second}) USING ({new})"
        return Relation(text, {new: left.columns[a], **rest})

    def exists(self, outer: Relation, inner: Relation) -> Relation:
        pairs = [(a, b) for a, b in self.pairs(outer.columns, inner.columns) if outer.columns[a] == inner.columns[b]]
        on = self.on(outer.columns, inner.columns)
        if not pairs or on is None:
            return outer
        a, b = self.choices.among(pairs)
        test = self.choices.among(
            (
                f"EXISTS (SELECT 1 FROM ({inner.sql}) WHERE {on})",
                f"NOT EXISTS (SELECT 1 FROM ({inner.sql}) WHERE {on})",
                f"{a} IN (SELECT {b} FROM ({inner.sql}))",
                f"{a} NOT IN (SELECT {b} FROM ({inner.sql}))",
                f"{a} IN (SELECT {b} FROM ({inner.sql}) WHERE {on})",
            )
        )
        either = f" OR {self.condition(outer.columns)}" if self.choices.happens(0.3) else ""
        return Relation(f"SELECT * FROM ({outer.sql}) WHERE ({test}{either})", outer.columns)

    def scalar(self, outer: Relation, inner: Relation) -> Relation:
        """A scalar subquery, whose value may be the outer row's own."""
        on = self.on(outer.columns, inner.columns)
        mine, theirs = self.comparable(outer.columns), self.comparable(inner.columns)
        if on is None or not mine or not theirs:
            return outer
        (a, kind), (b, other) = self.choices.among(mine), self.choices.among(theirs)
        value, type = self.choices.among(
            (
                (f"(SELECT max({b}) FROM ({inner.sql}) WHERE {on})", other),
                (f"(SELECT max({b}) FROM ({inner.sql}))", other),
                (f"(SELECT {a} FROM ({inner.sql}) WHERE {on} LIMIT 1)", kind),
                (f"(SELECT count(*) FROM ({inner.sql}) WHERE {on})", "bigint"),
            )
        )
        if self.choices.happens(0.5):
            number = literal(type, self.choices.below(GREATEST))
            test = self.choices.among(
                (f"{value} = {number}", f"{value} IS NULL", f"{value} > {number}", f"{value} IS NOT NULL")
            )
            either = f" OR {self.condition(outer.columns)}" if self.choices.happens(0.3) else ""
            return Relation(f"SELECT * FROM ({outer.sql}) WHERE {test}{either}", outer.columns)
        new = self.name()
        return Relation(f"SELECT *, {value} AS {new} FROM ({outer.sql})", {**outer.columns, new: type})

    def lateral(self, outer: Relation, inner: Relation) -> Relation:
        """A lateral join; what it gives may be columns of either side, or computed of both."""
        on = self.on(outer.columns, inner.columns)
        mine, theirs = self.comparable(outer.columns), self.comparable(inner.columns)
        if on is None or not mine or not theirs:
            return outer
        (a, kind), (b, other) = self.choices.among(mine), self.choices.among(theirs)
        new = self.name()
        what, type = self.choices.among(((a, kind), (b, other), (f"coalesce({a}, {a})", kind), (f"max({b})", other)))
        if kind in ("int", "bigint") and self.choices.happens(0.3):
            what, type = f"{a} + 0", kind
        join = self.choices.among(("LEFT JOIN", "JOIN", "LEFT JOIN"))
        limit = " LIMIT 1" if what in (a, f"{a} + 0") and self.choices.happens(0.3) else ""
        side = f"SELECT {what} AS {new} FROM ({inner.sql}) WHERE {on}{limit}"
        text = f"SELECT * FROM ({outer.sql}) {join} LATERAL ({side}) ON TRUE"
        columns = {**outer.columns, new: type}
        where = f" WHERE {self.atom(new, type, columns)}" if self.choices.happens(0.6) else ""
        if where and self.choices.happens(0.3):
            where += f" OR {self.condition(outer.columns)}"
        return Relation(text + where, columns)

    def group(self, below: Relation) -> Relation:
        plain = self.comparable(below.columns)
        if not plain:
            return below
        keys = list(dict.fromkeys(self.choices.among(plain)[0] for _ in range(2)))
        measure, kind = self.choices.among(plain)
        new = self.name()
        value, type = self.choices.among(
            ((f"max({measure})", kind), ("count(*)", "bigint"), (f"count(DISTINCT {measure})", "bigint"))
        )
        columns = {**{key: below.columns[key] for key in keys}, new: type}
        listed = ", ".join(keys)
        by = self.choices.among(
            (listed, listed, f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS (({listed}), ())")
        )
        having = f" HAVING {value} IS NOT NULL" if self.choices.happens(0.2) else ""
        if self.choices.happens(0.15):
            return Relation(f"SELECT {value} AS {new} FROM ({below.sql})", {new: type})
        return Relation(f"SELECT {listed}, {value} AS {new} FROM ({below.sql}) GROUP BY {by}{having}", columns)

    def combine(self, left: Relation, right: Relation) -> Relation:
        pairs = [(a, b) for a, b in self.pairs(left.columns, right.columns) if left.columns[a] == right.columns[b]]
        if not pairs:
            return left
        chosen = list(dict.fromkeys(self.choices.among(pairs) for _ in range(2)))
        word = self.choices.among(("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"))
        new = [self.name() for _ in chosen]
        one, two = (
            ", ".join(f"{pair[side]} AS {name}" for pair, name in zip(chosen, new, strict=True)) for side in (0, 1)
        )
        columns = {name: left.columns[a] for name, (a, _) in zip(new, chosen, strict=True)}
        where = f" WHERE {self.condition(columns)}" if self.choices.happens(0.5) else ""
        return Relation(
            f"SELECT * FROM (SELECT {one} FROM ({left.sql}) {word} SELECT {two} FROM ({right.sql})){where}", columns
        )

    def window(self, below: Relation) -> Relation:
        plain = [name for name, _ in self.comparable(below.columns)]
        if not plain:
            return below
        column, new = self.choices.among(plain), self.name()
        function = self.choices.among(("rank()", f"max({column})", "count(*)", f"lag({column})"))
        type = "int" if function == "rank()" else "bigint" if function == "count(*)" else below.columns[column]
        over = f"PARTITION BY {self.choices.among(plain)} ORDER BY {', '.join(plain)}"
        columns = {**below.columns, new: type}
        where = f" WHERE {self.condition(columns)}" if self.choices.happens(0.5) else ""
        return Relation(
            f"SELECT * FROM (SELECT *, {function} OVER ({over}) AS {new} FROM ({below.sql})){where}", columns
        )

    def limit(self, below: Relation) -> Relation:
        """The first rows in an order of all columns: which rows these are is decided by their values alone."""
        plain = [name for name, _ in self.comparable(below.columns)]
        if not plain:
            return below
        kept = {name: below.columns[name] for name in plain}
        offset = f" OFFSET {self.choices.below(3)}" if self.choices.happens(0.2) else ""
        listed = ", ".join(plain)
        text = f"SELECT {listed} FROM ({below.sql}) ORDER BY {listed} LIMIT {self.choices.between(1, 30)}"
        where = f" WHERE {self.condition(kept)}" if self.choices.happens(0.5) else ""
        return Relation(f"SELECT * FROM ({text}{offset}){where}", kept)

    def twice(self, below: Relation) -> Relation:
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
        return self.join(*sides) if self.choices.happens(0.6) else self.combine(*sides)

    def pivot(self, below: Relation) -> Relation:
        plain = self.comparable(below.columns)
        keys = [(name, kind) for name, kind in plain if kind in ("int", "string", "bigint")]
        if len(plain) < 2 or not keys:
            return below
        key, kind = self.choices.among(keys)
        rest = [(name, type) for name, type in plain if name != key]
        (group, group_type), (measure, type) = self.choices.among(rest), self.choices.among(rest)
        values = [self.choices.below(GREATEST) for _ in range(2)]
        if values[0] == values[1]:
            values = values[:1]
        new = [self.name() for _ in values]
        listed = ", ".join(f"{literal(kind, number)} AS {name}" for number, name in zip(values, new, strict=True))
        inner = f"SELECT {group} AS g, {key} AS k, {measure} AS m FROM ({below.sql})"
        label = self.name()
        text = f"SELECT g AS {label}, {', '.join(new)} FROM ({inner}) PIVOT (max(m) FOR k IN ({listed}))"
        return Relation(text, {label: group_type, **dict.fromkeys(new, type)})

    def computed(self, below: Relation) -> Relation:
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
        if kind in ("int", "bigint"):
            forms += [(f"{a} + 1", kind), (f"-{a}", kind), (f"CAST({a} AS BIGINT)", "bigint"), (f"{a} * 2", kind)]
        what, type = self.choices.among(forms)
        columns = {**below.columns, new: type}
        return Relation(
            f"SELECT * FROM (SELECT *, {what} AS {new} FROM ({below.sql})) WHERE {self.atom(new, type, columns)}",
            columns,
        )

    def unusual(self, below: Relation) -> Relation:
        plain = self.comparable(below.columns)
        new = self.name()
        numbers = self.choices.below(GREATEST)
        match self.choices.below(5):
            case 0:
                return Relation(
                    f"SELECT DISTINCT {', '.join(name for name, _ in plain) or '1 AS one'} FROM ({below.sql})",
                    dict(plain),
                )
            case 1:
                text = f"SELECT * FROM ({below.sql}) LATERAL VIEW explode(array({numbers}, {numbers + 1})) AS {new}"
                columns = {**below.columns, new: "int"}
                return Relation(f"{text} WHERE {self.condition(columns)}", columns)
            case 2:
                values = Relation(f"SELECT * FROM VALUES ({numbers}), (NULL), (7) AS v({new})", {new: "int"})
                return self.join(below, values)
            case 3:
                return Relation(f"SELECT * FROM ({below.sql}) TABLESAMPLE (100 PERCENT)", below.columns)
            case _:
                condition = self.condition(below.columns)
                return Relation(
                    f"SELECT * FROM (SELECT *, {condition} AS {new} FROM ({below.sql})) WHERE {new}",
                    {**below.columns, new: "boolean"},
                )
