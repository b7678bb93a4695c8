from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

from rich.console import Console

from sidestep.prune.analysis import StageReport
from sidestep.prune.explain.explanation import Amounts, Explanation, Reason, ScanReport

SCAN = ScanReport(
    table="lineitem",
    root="file:/data/lineitem",
    files=Amounts(16, 2),
    row_groups=Amounts(16, 2),
    rows=Amounts(6_001_215, 750_000),
    bytes=Amounts(223_800_000, 27_900_000),
    reasons=(
        Reason("l_orderkey >= 100 AND l_orderkey <= 2000", "zone map", files=14, row_groups=14),
        Reason("l_tax <= 1", "zone map"),
        Reason("l_comment <> '[b]<i>'", "zone map", why_not="every block may hold such a row"),
        Reason("reverse(l_comment) = 'x'", None, why_not="opaque"),
    ),
)
PARTLY = replace(SCAN, table="part", unknown_files=1)
BARE = ScanReport(table="orders", root="file:/data/orders", reason="it is not indexed")
EXPLANATION = Explanation((SCAN, PARTLY, BARE, BARE), ("A note.",), "ValueError: deep")


def test_the_text_says_what_is_read_and_why():
    text = str(EXPLANATION)
    assert "2 of 16" in text
    assert "750,000 of 6,001,215 + ?" in text
    assert "zone map skips 14 files" in text
    assert "zone map skips nothing more" in text
    assert "zone map skips nothing: every block may hold such a row" in text
    assert "not used: opaque" in text
    assert "1 file has no up-to-date index entry" in text
    assert "nothing is skipped, as it is not indexed" in text
    assert "l_comment <> '[b]<i>'" in text
    assert text.endswith("ValueError: deep")


def test_one_line_names_every_stage():
    stages = (
        StageReport("static", 0.0012),
        StageReport("induced", 0.0501, stopped=True),
        StageReport("reuse", off=True),
    )
    told = replace(EXPLANATION, stages=stages)
    line = "stages: static 1.2 ms, induced 50.1 ms (stopped by its time budget), reuse off"
    assert line in str(told).splitlines()
    assert line in told._repr_html_()
    assert told.to_dict()["stages"][1] == {"name": "induced", "seconds": 0.0501, "stopped": True, "off": False}
    assert "stages" not in str(EXPLANATION)


def test_scans_of_one_table_are_numbered():
    assert "orders (1)" in str(EXPLANATION)
    assert "orders (2)" in str(EXPLANATION)
    assert "lineitem (1)" not in str(EXPLANATION)


def test_what_is_read_fits_80_columns_unfolded():
    console = Console(width=80, color_system=None)
    with console.capture() as capture:
        console.print(Explanation((SCAN, BARE, BARE)))
    assert "750,000 of 6,001,215   27.9 MB of 223.8 MB" in capture.get()
    assert max(map(len, capture.get().splitlines())) <= 80


def test_a_query_without_files_says_so():
    assert str(Explanation(())) == "The query reads no files."
    assert "reads no files" in Explanation(())._repr_html_()


def test_html_is_balanced_and_escaped():
    class Balance(HTMLParser):
        depth = 0

        def handle_starttag(self, tag, attrs):
            self.depth += 1

        def handle_endtag(self, tag):
            self.depth -= 1

    html = EXPLANATION._repr_html_()
    parser = Balance()
    parser.feed(html)
    assert parser.depth == 0
    assert "[b]&lt;i&gt;" in html
    assert "zone map skips 14 files" in html


def test_the_data_is_json():
    data = json.loads(json.dumps(EXPLANATION.to_dict()))
    assert data["scans"][0]["files"] == {"total": 16, "kept": 2}
    assert data["scans"][2]["covered"] is False
