"""Which tables are denormalized: by the joins of a log, through keys alone, and with the columns that are used."""

from __future__ import annotations

import pytest

from sidestep.advisor.layouts.join_trees import choose_tree
from sidestep.errors import SidestepError
from sidestep.workload.query import JoinUse, LoggedQuery, TableUse, Workload

SCHEMAS = {
    "line": {"l_order": "bigint", "l_part": "bigint", "l_supp": "bigint", "l_price": "double", "l_text": "string"},
    "orders": {"o_id": "bigint", "o_cust": "bigint", "o_day": "date"},
    "cust": {"c_id": "bigint", "c_nation": "int", "name": "string"},
    "supp": {"s_id": "bigint", "s_nation": "int", "name": "string"},
    "partsupp": {"ps_part": "bigint", "ps_supp": "bigint", "ps_cost": "double"},
    "nation": {"n_id": "int", "n_name": "string"},
    "odd": {"x": "string", "y": "double"},
}
KEYS: dict[str, set[tuple[str, ...]]] = {
    "orders": {("o_id",)},
    "cust": {("c_id",)},
    "supp": {("s_id",)},
    "nation": {("n_id",)},
}
KEYS |= {"partsupp": {("ps_part", "ps_supp")}, "odd": {("x",), ("y",)}}


class Known:
    """Keys as they are said to be; of some look-ups, not every row finds a partner."""

    def __init__(self, missing: set[tuple[str, str]] = frozenset()) -> None:  # type: ignore[assignment]
        self.missing = missing

    def unique(self, table: str, columns: tuple[str, ...]) -> bool:
        return tuple(sorted(columns)) in KEYS.get(table, set())

    def total(self, parent: str, child: str, on: object) -> bool:
        return (parent, child) not in self.missing


def join(text: str) -> JoinUse:
    owners = {name: table for table, columns in SCHEMAS.items() for name in columns}
    first, second = text.split("=")
    return JoinUse((owners[first], first), (owners[second], second))


def query(columns: str, *joins: str, count: int = 1) -> LoggedQuery:
    """Columns as ``table.column``; joins as ``column=column``."""
    used: dict[str, set[str]] = {"line": set()}
    for table, name in (each.split(".") for each in columns.split()):
        used.setdefault(table, set()).add(name)
    joined = tuple(map(join, joins))
    for one in joined:
        for table, name in (one.left, one.right):
            used.setdefault(table, set()).add(name)
    uses = tuple(TableUse(table, frozenset(), frozenset(names)) for table, names in used.items())
    return LoggedQuery(uses, joined, count=count)


def chosen(*queries: LoggedQuery, **options):
    return choose_tree(Workload(queries), "line", SCHEMAS, options.pop("keys", Known()), options.pop("declared", None))


def test_a_snowflake_with_a_table_in_two_roles():
    made = chosen(
        query("line.l_price orders.o_day cust.name", "l_order=o_id", "o_cust=c_id", "c_nation=n_id"),
        query("line.l_price supp.name nation.n_name", "l_supp=s_id", "s_nation=n_id"),
    )
    roles = {role.name: (made.tree.roles[role.parent].name, role.on) for role in made.tree.roles[1:]}
    assert roles == {
        "orders": ("line", (("l_order", "o_id"),)),
        "supp": ("line", (("l_supp", "s_id"),)),
        "cust": ("orders", (("o_cust", "c_id"),)),
        "nation": ("supp", (("s_nation", "n_id"),)),
        "cust_nation": ("cust", (("c_nation", "n_id"),)),
    }
    stored = {(made.tree.roles[column.role].name, column.name): column.stored for column in made.tree.columns}
    assert stored["cust", "name"] == "cust_name"
    assert stored["supp", "name"] == "supp_name"
    assert stored["nation", "n_name"] == "nation_n_name"
    assert stored["line", "l_price"] == "l_price"
    assert ("line", "l_text") not in stored, "no query uses it"
    assert ("orders", "o_id") not in stored, "it is l_order"
    assert made.tree.held[1, "o_id"].stored == "l_order"
    assert made.queries == 2


def test_keys_of_several_columns_and_one_look_up_by_two_ways():
    made = chosen(
        query("line.l_price", "l_part=ps_part", "l_supp=ps_supp", "ps_supp=s_id"),
        query("line.l_price supp.name", "l_supp=s_id"),
    )
    on = {role.name: role.on for role in made.tree.roles[1:]}
    assert on == {"partsupp": (("l_part", "ps_part"), ("l_supp", "ps_supp")), "supp": (("l_supp", "s_id"),)}


def test_where_rows_have_no_partner_the_key_tells():
    made = chosen(query("line.l_price orders.o_day", "l_order=o_id"), keys=Known({("line", "orders")}))
    assert not made.tree.roles[1].total
    assert made.tree.held[1, "o_id"].stored == "o_id"
    assert made.tree.never_null == frozenset()
    assert chosen(query("orders.o_day", "l_order=o_id")).tree.never_null == {"l_order"}


def test_what_is_no_key_of_one_type_or_rarely_joined_is_left_out():
    text = chosen(query("odd.y", "l_text=x"))
    assert [role.name for role in text.tree.roles] == ["line", "odd"]
    floats = chosen(query("odd.x", "l_price=y"))
    assert len(floats.tree.roles) == 1, "equal floating-point numbers need not be the same"
    assert "line.l_price = odd.y, which is a key of neither" in floats.notes[0]
    other = chosen(query("cust.name", "l_order=c_nation"))
    assert len(other.tree.roles) == 1
    rare = chosen(query("line.l_price", count=200), query("orders.o_day", "l_order=o_id"))
    assert len(rare.tree.roles) == 1


def test_declared_keys_are_held_against_the_data():
    asked = query("partsupp.ps_cost", "l_part=ps_part", "l_supp=ps_supp")
    assert len(chosen(asked, declared={"partsupp": ["ps_part", "ps_supp"]}).tree.roles) == 2
    with pytest.raises(SidestepError, match="ps_part is no key of partsupp"):
        chosen(asked, declared={"partsupp": ["ps_part"]})
    with pytest.raises(SidestepError, match="No query of the log reads line"):
        chosen()
