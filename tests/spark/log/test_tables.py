"""A log over normalized tables that are known by their paths: understood once they are named, else with a hint."""

from __future__ import annotations

import pytest

import sidestep
from bench.tpch import TABLES, make_tpch, queries


@pytest.fixture(scope="module")
def tpch(tmp_path_factory):
    folder = make_tpch(tmp_path_factory.mktemp("tpch"), sf=0.001, files=1)
    return {name: str(folder / name) for name in TABLES}


def test_all_22_queries_are_understood_by_paths(spark, tpch, tmp_path):
    log = list(queries().values())
    found = sidestep.analyze(spark, log, tables=tpch, miner="numpy")
    assert [(failure.statement.sql, failure.reason) for failure in found.failures] == []
    assert found.analysis.queries == len(log) == 22
    assert set(found.tables) == set(TABLES)
    others = {name: path for name, path in tpch.items() if name != "lineitem"}
    copy = str(tmp_path / "copy")
    report = sidestep.load(spark, tpch["lineitem"], copy, name="lineitem", log=log, tables=others, min_size=500)
    assert report.not_understood == ()
    assert not any("could not be used" in note for note in report.notes)
    # The copy knows what its log called what it was made of.
    assert sidestep.status(None, copy).log_name == "lineitem"


def test_what_is_not_understood_is_listed_with_what_to_pass(spark, tpch):
    log = [*queries().values(), "SELEC 1"]
    only = {"lineitem": tpch["lineitem"]}
    found = sidestep.analyze(spark, log, tables=only, miner="numpy")
    assert found.analysis.queries == 2  # the pricing summary and the forecast, which read no other table
    groups = {group.reason.split(":")[0]: group for group in found.analysis.not_understood}
    assert sum(group.count for group in groups.values()) == 21
    assert groups["unknown table `orders`"].hint == "tables={'orders': PATH}, or -t orders=PATH"
    assert "dialect" in groups["not parsable"].hint
    advice = sidestep.advise(spark, log, tpch["lineitem"], name="lineitem", min_size=500)
    assert {group.reason for group in advice.not_understood} == {
        group.reason for group in found.analysis.not_understood
    }
    for shown in (str(found), found._repr_html_(), str(advice), advice._repr_html_()):
        assert "-t orders=PATH" in shown.replace("\n", " ")
        assert "not parsable" in shown
    assert advice.to_dict()["not_understood"][0]["hint"]
