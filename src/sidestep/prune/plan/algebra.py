"""The small relational algebra that queries are pruned in.

A tree of operators over scans. A column is known by the number that Catalyst gave it (unique in the query, so that two
occurrences of a table never mix): predicates here are about :class:`~sidestep.predicate.nodes.Column` whose name is
that number as text, and :class:`Scan` tells which column of the table it is. Aliases are resolved by whoever builds the
tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Flag

from sidestep.errors import SidestepError
from sidestep.predicate import Cast, Column, Op, Predicate
from sidestep.prune.plan.computed import Computed


class Sides(Flag):
    """Inputs of a join."""

    NEITHER = 0
    LEFT = 1
    RIGHT = 2
    BOTH = 3


@dataclass(frozen=True, slots=True)
class JoinType:
    """What a type of join does with its inputs: all that pruning need know of it.

    A row of an input *matters* if the result would be another without it. A claim that is not made prunes less, and is
    always sound.
    """

    name: str
    """Spark's name for it."""
    condition_holds: Sides = Sides.NEITHER
    """The inputs whose rows cannot matter if they fail the join's condition, by themselves or for want of a partner."""
    above_holds: Sides = Sides.NEITHER
    """The inputs whose rows cannot matter if they fail a filter above the join: those it passes on just as they are.

    A filter above an outer join says nothing of rows on the null-supplying side: ``WHERE r.x IS NULL`` is there to
    find those without a match, and skipping blocks of ``r`` would invent more of them.
    """
    passes: Sides = Sides.BOTH
    """The inputs whose columns are among those of the result."""
    emptied_by: Sides = Sides.NEITHER
    """The inputs which, being empty, make the result empty: then the other need not be read."""
    made_of_inputs: bool = True
    """Whether each row of the result is a row of one input or of both, with NULL for columns of the other: then values
    can be followed through the join, and two empty inputs give an empty result."""

    def is_empty(self, left: bool, right: bool) -> bool:
        """Whether the result must be empty if these inputs are."""
        if left and right:
            return self.made_of_inputs
        return (left and Sides.LEFT in self.emptied_by) or (right and Sides.RIGHT in self.emptied_by)


_LEFT, _RIGHT, _BOTH = Sides.LEFT, Sides.RIGHT, Sides.BOTH
_ROWS = (
    JoinType("INNER", condition_holds=_BOTH, above_holds=_BOTH, emptied_by=_BOTH),
    JoinType("CROSS", condition_holds=_BOTH, above_holds=_BOTH, emptied_by=_BOTH),
    JoinType("LEFT OUTER", condition_holds=_RIGHT, above_holds=_LEFT, emptied_by=_LEFT),
    JoinType("RIGHT OUTER", condition_holds=_LEFT, above_holds=_RIGHT, emptied_by=_RIGHT),
    JoinType("FULL OUTER"),
    JoinType("LEFT SEMI", condition_holds=_BOTH, above_holds=_LEFT, passes=_LEFT, emptied_by=_BOTH),
    JoinType("LEFT ANTI", condition_holds=_RIGHT, above_holds=_LEFT, passes=_LEFT, emptied_by=_LEFT),
    # Keeps all left rows, and adds a column that says whether there was a match.
    JoinType("EXISTENCE", condition_holds=_RIGHT, above_holds=_LEFT, passes=_LEFT, emptied_by=_LEFT),
)
JOIN_TYPES = {row.name: row for row in _ROWS}
"""Every type of join that predicates pass, by Spark's name. A new one is a row of this table."""

UNKNOWN_JOIN = JoinType("unknown", made_of_inputs=False)
"""Any other: nothing passes it."""


@dataclass(frozen=True, slots=True)
class Scan:
    """One occurrence of a stored table."""

    key: str
    """Tells occurrences apart; copies that Spark makes of one occurrence share it."""
    table: str | None
    roots: tuple[str, ...]
    columns: tuple[tuple[str, Column], ...]
    """(number in the query, column of the table)."""
    partitions: frozenset[str] = frozenset()
    """Names of the columns whose values are in the folder names."""
    reason: str | None = None
    """Why this table cannot be pruned, if so."""
    copy: int = 0
    """Which of the copies of one occurrence it is, in plan order."""
    groups: tuple[int, ...] | None = None
    """Of a table in column groups, the numbers of those that hold what the query needs."""
    copies: tuple[int, ...] | None = None
    """Of a table that has cells more than once, the numbers of the groups with some rows only; None for any other."""
    needs: tuple[str, ...] = ()
    """The columns of such a table that the query needs."""
    stored_names: tuple[tuple[str, str], ...] = ()
    """Columns that are called otherwise in the files, and here, than by the table: its name, and theirs."""
    by_log: bool = False
    """Whether a log says which files there are, and with which partition values, whatever a catalog says."""
    fields: tuple[tuple[str, int], ...] | None = None
    """(column, id) of a table whose files have columns by id (Iceberg); None of one whose files have them by name."""

    @property
    def name(self) -> str:
        return self.table or (self.roots[0].rstrip("/").rsplit("/", 1)[-1] if self.roots else "?")


@dataclass(frozen=True, slots=True)
class Filter:
    condition: Predicate
    child: Operator
    random: bool = False


@dataclass(frozen=True, slots=True)
class Project:
    """What adds columns to rows, drops some, repeats or orders rows, and leaves the columns it passes on as they were.

    Columns are resolved where they are used, so a projection matters only in being one that may be random. A sort, a
    repartitioning, an expansion for grouping sets and a generator are projections in this sense: whether a row that
    fails a condition on an untouched column is dropped before or after them makes no difference.
    """

    child: Operator
    random: bool = False
    name: str = "Project"
    """Which of these it is, by Spark's name."""
    computes: bool = False
    """Whether some of its columns are more than columns of its input under other names."""


Compared = Column | Cast | Computed
"""A column as it is compared with others: as it is, cast, or computed from."""

PARAMETER = "?"
"""What names of columns begin with whose value is a constant, but one that is known only when the query runs."""


def is_parameter(name: str) -> bool:
    return name.startswith(PARAMETER)


@dataclass(frozen=True, slots=True)
class Meeting:
    """A comparison of a column of one input of a join with whatever the other input has to compare it with."""

    conjunct: int
    """Which part of the join's condition it is."""
    op: Op
    key: Column | Cast
    other: Sides
    """The input that the column is not of."""

    def parameter(self, join: int) -> Column:
        """What a row of the other input gives, as a constant."""
        return Column(f"{PARAMETER}{join}.{self.conjunct}", self.key.type)


@dataclass(frozen=True, slots=True)
class Join:
    type: JoinType
    left: Operator
    right: Operator
    condition: Predicate | None = None
    random: bool = False
    exists: str | None = None
    """For an existence join: the number of the column that says whether there was a match."""
    computed: tuple[tuple[Op, Compared, Compared], ...] = ()
    """Comparisons among the condition's conjuncts that predicates cannot say, as ``a = b - 53``: a side is computed."""
    number: int = -1
    """What Spark's side of the plan knows it by."""
    bytes: tuple[int, int] = (0, 0)
    """How large Spark thinks the inputs are."""
    meetings: tuple[Meeting, ...] = ()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A group-by, or a distinct."""

    groups: frozenset[str]
    """Numbers of the columns it groups by, or by something computed from them, aliases resolved; above it nothing of
    them is left but that. Grouping by more than these is no harm."""
    child: Operator
    random: bool = False
    grouped: bool = True
    """False if it groups by nothing at all: then it gives one row where there was none."""


@dataclass(frozen=True, slots=True)
class Window:
    """Adds columns to each row that are worked out from all rows with the same values of ``partition``."""

    partition: frozenset[str]
    """Numbers of the plain columns it partitions by; none if there is another partitioning, or none."""
    child: Operator
    random: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """Passes on some of the rows: which, depends on the others (a limit, an offset, a tail, the top of a sort)."""

    child: Operator
    random: bool = False


@dataclass(frozen=True, slots=True)
class Union:
    """The rows of all children (UNION ALL), whose columns go on by position under new numbers."""

    children: tuple[Operator, ...]
    columns: tuple[Column, ...]
    """The columns of the result, named by their numbers."""
    outputs: tuple[tuple[Compared | None, ...], ...]
    """For each child, what it puts into each of these columns; None where that is not understood."""
    random: bool = False

    def __post_init__(self) -> None:
        if len(self.outputs) != len(self.children) or any(len(put) != len(self.columns) for put in self.outputs):
            raise SidestepError(
                f"A union of {len(self.children)} inputs needs, for each of them, what goes into its "
                f"{len(self.columns)} columns."
            )


@dataclass(frozen=True, slots=True)
class Other:
    """Any other operator: no predicate passes it, in either direction."""

    name: str
    children: tuple[Operator, ...] = ()
    random: bool = False
    """Whether its result depends on how rows are spread over tasks."""
    reason: str | None = None
    """For a leaf that reads data which sidestep does not cover: why not."""
    about: str = ""


@dataclass(frozen=True, slots=True)
class DynamicScan:
    """Reads those partitions of a table that selectors with its part scan id have chosen, once they have run."""

    part_scan_id: str
    """Tells occurrences apart: a table that is joined with itself is read by two scans with two choices."""
    table: str
    keys: tuple[Column, ...]
    """The partitioning keys, a level each, named by their numbers in the query."""
    columns: tuple[Column, ...] = ()
    """The other columns."""
    random: bool = False


@dataclass(frozen=True, slots=True)
class PartitionSelector:
    """Chooses partitions for a dynamic scan, and passes the rows of its child on as they are.

    Without a child it chooses by constants alone and gives no rows. With one, its predicates are about columns of the
    child too, and each row that passes adds the partitions that it may find a partner in.
    """

    part_scan_id: str
    keys: tuple[Column, ...]
    predicates: tuple[Predicate | None, ...]
    """What is asked of each key; None for a level that nothing is asked of."""
    child: Operator | None = None
    random: bool = False

    def __post_init__(self) -> None:
        if len(self.predicates) != len(self.keys):
            raise SidestepError(f"A selector on {len(self.keys)} keys needs as many predicates.")


@dataclass(frozen=True, slots=True)
class Sequence:
    """Runs its children one after the other, and gives the rows of the last."""

    children: tuple[Operator, ...]
    random: bool = False


@dataclass(frozen=True, slots=True)
class Motion:
    """Sends rows to other processes: by the hash of some columns, or, without columns, all of them to each."""

    child: Operator
    by: tuple[str, ...] = ()
    """Numbers of the columns whose hash says where a row goes."""
    random: bool = False


Operator = (
    Scan
    | Filter
    | Project
    | Join
    | Aggregate
    | Window
    | Limit
    | Union
    | Other
    | DynamicScan
    | PartitionSelector
    | Sequence
    | Motion
)


@dataclass(frozen=True, slots=True)
class Query:
    """A query's own plan first, then the plans of its subqueries."""

    plans: tuple[Operator, ...]
    parts: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """What Spark may run once and use again if it occurs twice: for each such part of a plan a number that equal parts
    have in common, and the keys of the scans in it."""


def children(operator: Operator) -> tuple[Operator, ...]:
    match operator:
        case Scan() | DynamicScan():
            return ()
        case Join(left=left, right=right):
            return (left, right)
        case Union(children=below) | Other(children=below) | Sequence(children=below):
            return below
        case PartitionSelector(child=child):
            return () if child is None else (child,)
        case _:
            return (operator.child,)


def with_children(operator: Operator, new: tuple[Operator, ...]) -> Operator:
    """The same operator over other children, as many as it has."""
    if len(new) != len(children(operator)):
        raise SidestepError(f"{type(operator).__name__} has {len(children(operator))} children, not {len(new)}.")
    match operator:
        case Scan() | DynamicScan():
            return operator
        case Join():
            return replace(operator, left=new[0], right=new[1])
        case Union() | Other() | Sequence():
            return replace(operator, children=new)
        case PartitionSelector():
            return replace(operator, child=new[0]) if new else operator
        case _:
            return replace(operator, child=new[0])


def is_sample(operator: Operator) -> bool:
    """Whether it passes on rows by chance: which, depends on the files read."""
    return isinstance(operator, Other) and operator.name == "Sample"


def walk(operator: Operator) -> Iterator[Operator]:
    """The operator and all below it, top first."""
    waiting = [operator]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(children(current)))
