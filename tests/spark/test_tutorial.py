"""The tutorial, cell by cell in this session; ``make notebook`` runs it as a notebook, in a kernel of its own."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import sidestep
from sidestep.render.report import Report
from tests.render.markup import check

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "tutorial.ipynb"
CHANGED = "spark.sql.shuffle.partitions"


def sources() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run(source: str, names: dict[str, object]) -> object:
    """What a cell shows: the value of its last line, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if isinstance(last, ast.Expr) else None


def test_it_is_kept_without_outputs():
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert len(text) < 30_000
    assert all(not cell["outputs"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "code")


@pytest.mark.aside
def test_every_cell_does_what_the_text_says(spark, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = spark.conf.get(CHANGED)
    names: dict[str, object] = {}
    shown: list[Report] = []
    try:
        for source in sources():
            value = run(source, names)
            if isinstance(value, Report):
                check(value._repr_html_(), 100_000)
                shown.append(value)
    finally:
        spark.conf.set(CHANGED, before)
        spark.sparkContext.setLogLevel("WARN")
        sidestep.disable(spark)
        for view in ("sales", "sales_laid_out"):
            spark.catalog.dropTempView(view)
    assert [type(one).__name__ for one in shown] == [
        "IndexStatus",
        "Explanation",
        "Explanation",
        "Metrics",
        "LogAnalysis",
        "Advice",
        "LoadReport",
        "Explanation",
        "IndexStatus",
    ]
    days, regions, laid_out = (one.scans[0] for one in shown if isinstance(one, sidestep.Explanation))
    assert days.files == sidestep.Amounts(12, 2)
    assert regions.files == sidestep.Amounts(12, 12)
    assert laid_out.row_groups is not None
    assert laid_out.row_groups.kept < laid_out.row_groups.total / 2
    first, last = (one for one in shown if isinstance(one, sidestep.IndexStatus))
    assert (first.complete, last.log_name) == (True, "sales")
