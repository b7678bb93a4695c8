"""The analysis as data, on a terminal and as a page."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from sidestep.errors import SidestepError
from sidestep.predicate import INTEGER, STRING, column, compare
from sidestep.render.html import page
from sidestep.workload import ExtractOptions, Failure, Statement, Workload, analyze, analyze_table, to_json
from tests.workload.queries import query, tpch, workload

A, NAME = column("a", INTEGER), column("name", STRING)


def text_of(analysis):
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(analysis)
    return console.export_text()


@pytest.fixture(scope="module")
def tpch_analysis():
    return analyze(tpch(200), tune=True)


def test_the_parts_of_a_report(tpch_analysis):
    (table,) = tpch_analysis.tables
    assert (tpch_analysis.queries, tpch_analysis.failures) == (200, 0)
    assert (table.scans, table.filtered, table.unfiltered, table.empty) == (200, 200, 0, 0)
    assert table.refused["date or time"] > 0
    assert table.choice is not None
    assert len(table.features) <= table.choice.num_features
    assert table.coverage.at(len(table.features)) == pytest.approx(table.features.coverage)
    returned = next(n for n, feature in enumerate(table.features.features) if str(feature) == "l_returnflag = 'R'")
    assert set(table.subsumed[returned].examples) == {"q10"}


def test_as_json(tpch_analysis):
    data = json.loads(json.dumps(to_json(tpch_analysis)))
    assert data["tables"][0]["table"] == "denormalized"
    assert {"commonality", "stability", "coverage"} == data["tables"][0]["curves"].keys()
    assert data["tables"][0]["features"][0]["weight"] > 0


def test_on_a_terminal(tpch_analysis):
    text = text_of(tpch_analysis)
    for expected in ("200 queries understood", "l_returnflag = 'R'", "filter commonality", "filter stability", "⠉"):
        assert expected in text


def test_as_a_page_without_network(tpch_analysis, tmp_path):
    tpch_analysis.save_html(tmp_path / "report.html", "My <log>")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h1>My &lt;log&gt;</h1>" in text
    assert text.count("<svg") == 3
    assert "<script" not in text
    assert "src=" not in text
    assert len(text) < 100_000
    with pytest.raises(SidestepError, match="could not be written"):
        tpch_analysis.save_html(tmp_path / "none" / "report.html")


def test_a_page_of_many_tables_with_long_texts_is_small():
    long = [f"{number}{'x' * 400}" for number in range(30)]
    found = analyze(
        workload(
            *(
                query(compare(NAME, "=", text), table=f"table{at}", count=3, sql=f"SELECT {text} {'y' * 900}")
                for at in range(12)
                for text in long
            )
        ),
        options=ExtractOptions(num_features=30, threshold=1),
    )
    assert len(found.tables) == 12
    assert len(found.tables[0].features) == 30
    written = page("A log", found._document())
    assert "table11" in written
    assert len(written) < 300_000


def test_markup_in_queries_stays_text():
    found = analyze(workload(query(compare(NAME, "=", "<script>alert(1)</script>[bold]"), count=3)))
    assert "<script>alert" not in found._repr_html_()
    assert "[bold]" in text_of(found)


def test_an_empty_log():
    with pytest.raises(SidestepError, match="The log is empty"):
        analyze(Workload(()))


def test_nothing_understood():
    failure = Failure(Statement("SELEC 1", source="log.sql:1"), "Syntax error at or near SELEC.")
    with pytest.raises(SidestepError, match=r"None of the log's 1 statements.*log.sql:1.*Syntax error"):
        analyze(Workload((), (failure,)))


def test_failures_are_counted_by_reason():
    failures = (
        Failure(Statement("x"), "no such table"),
        Failure(Statement("y", count=4), "syntax"),
        Failure(Statement("z"), "no such table"),
    )
    found = analyze(Workload((query(compare(A, "=", 1)),), failures))
    assert (found.failures, found.reasons) == (6, (("syntax", 4), ("no such table", 2)))
    assert "no such table" in text_of(found)


def test_no_filters_at_all():
    found = analyze(workload(query(count=4)))
    assert found.tables[0].notes == ("No query filters sales: there is nothing to learn features from.",)
    assert "nothing to learn" in text_of(found)
    assert "nothing to learn" in found._repr_html_()


def test_only_contradictions_or_refused_predicates():
    found = analyze(workload(query(compare(A, ">", 5), compare(A, "<", 3), count=2), query(compare(A, "<>", 1))))
    notes = found.tables[0].notes
    assert "negation (1)" in notes[0]
    assert "2 scans have predicates that contradict" in notes[1]


def test_a_table_no_one_reads():
    with pytest.raises(SidestepError, match="the queries read sales"):
        analyze(workload(query()), ["orders"])
    found = analyze(workload(query(), query(table="orders")), ["orders"])
    assert [table.table for table in found.tables] == ["orders"]
    with pytest.raises(SidestepError, match="has no table sales"):
        found.table("sales")


def test_queries_that_read_no_known_table():
    with pytest.raises(SidestepError, match="read no table that is known"):
        analyze(Workload((query().__class__(uses=()),)))


def test_a_threshold_that_is_given_is_kept():
    found = analyze(tpch(100), options=ExtractOptions(threshold=7), tune=True)
    assert found.tables[0].features.threshold == 7
    assert found.tables[0].choice is None


def test_features_are_selected_again_as_an_analysis_with_these_options_would(tpch_analysis):
    table = tpch_analysis.tables[0]
    again = table.select(num_features=3, threshold=4)
    fresh = analyze_table(table.augmented.workload, ExtractOptions(num_features=3, threshold=4))
    assert again.features == fresh.features
    assert again.coverage == fresh.coverage
    assert (again.subsumed, again.commonality, again.stability) == (fresh.subsumed, table.commonality, table.stability)
    assert table.select(threshold=4).features.threshold == 4
    assert again.to_dict()["curves"].keys() == {"commonality", "stability", "coverage"}


def test_an_analysis_without_its_queries_selects_nothing(tpch_analysis):
    with pytest.raises(SidestepError, match="analyze the log again"):
        replace(tpch_analysis.tables[0], augmented=None).select(num_features=2)
