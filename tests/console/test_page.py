"""The page in a real browser: the whole story, from an analysis to the proof of a block."""

from __future__ import annotations

import re
import shutil
import time
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import expect, sync_playwright

import sidestep
from tests.console.conftest import JOIN, QUERY
from tests.spark.tables import write_file

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: make setup installs it where it may")
SLOW = 300_000
"""Milliseconds that Spark may take for a step on a machine that has much else to do."""
expect.set_options(timeout=SLOW)


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def problems() -> list[str]:
    """What the page complained of, and what it asked for from elsewhere."""
    return []


@pytest.fixture
def page(browser, served, problems):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(SLOW)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("request", lambda asked: None if asked.url.startswith(served.url) else problems.append(asked.url))
    yield page
    context.close()
    assert problems == []


def test_the_whole_story(page, served, spark):
    # Open, and analyze the log.
    page.goto(f"{served.url}/#/workload")
    page.click("#analyze")
    page.wait_for_selector("#num-features")
    features = page.locator("section.card:has(h2:text-is('Features')) tbody tr")
    before = features.count()
    assert before > 2
    # Move the slider: the features are selected again.
    page.locator("#num-features").fill("2")
    expect(features).to_have_count(2)
    expect(page.get_by_text(re.compile(r"Selected again in \d+ ms"))).to_be_visible()
    # Load the page again: the analysis is still there.
    page.reload()
    page.wait_for_selector("#num-features")
    expect(features).to_have_count(before)
    # A small load, with progress.
    page.keyboard.press("2")
    page.wait_for_selector("#load")
    page.fill("#target", "sales_sop")
    page.fill("#min-size", "250")
    page.click("#load")
    page.wait_for_selector("#load-step")
    page.wait_for_selector("h2:text-is('Loaded sales_sop'), .note.bad")
    assert page.locator(".note.bad").all_inner_texts() == []
    expect(page.locator(".tile:has-text('Rows') .value").first).to_contain_text("16,000")
    # Run a query on it.
    page.keyboard.press("3")
    page.fill("#sql", QUERY)
    page.select_option("select[aria-label='Read sales from']", "sales_sop")
    page.click("#run")
    page.wait_for_selector("#answer canvas[data-drawn]")
    # The numbers are those of explain.
    session = spark.newSession()
    with sidestep.enable(session):
        df = sidestep.query(session, QUERY, tables={"sales": str(served.root / "sales_sop")})
        explained: Any = sidestep.explain(df)
    (scan,) = explained.scans
    for name, amounts in (("Files", scan.files), ("Row groups", scan.row_groups), ("Rows", scan.rows)):
        shown = page.locator(f"[data-share='{name}'] .value").inner_text()
        assert shown.startswith(f"{amounts.kept:,} of {amounts.total:,}"), (name, shown)
    blocks = explained.blocks[0]
    counted = {kind: blocks.kinds.count(kind) for kind in set(blocks.kinds)}
    chips = page.locator("#answer .chip[data-kind]")
    assert chips.count() == len(counted)
    for at in range(chips.count()):
        chip = chips.nth(at)
        assert chip.locator(".count").inner_text() == f"{counted[chip.get_attribute('data-kind')]:,}"
    # Read the map by the keyboard: the proof of a block that is skipped.
    skipped = next(number for number, read in enumerate(blocks.read) if not read)
    canvas = page.locator("#answer canvas").first
    canvas.focus()
    for _ in range(skipped + 1):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#proof")).to_have_text(blocks.proof(skipped))


def test_joins_and_layouts(page, served, problems):
    page.goto(f"{served.url}/#/skipping")
    page.fill("#sql", JOIN)
    page.click("#explain")
    page.wait_for_selector("svg.graph .flow", state="attached")
    expect(page.locator("[data-scan='sales'] .chip[data-kind='induced predicate']")).to_be_visible()
    page.fill("#sql", "DROP TABLE sales")
    page.click("#run")
    expect(page.get_by_role("alert")).to_contain_text("Only queries can be run here")
    assert all("400" in problem for problem in problems), "of nothing but what was refused"
    problems.clear()


def test_work_is_stopped_and_a_table_optimized(page, served, spark):
    out = served.root / "sales_sop"
    if not out.exists():
        sidestep.load(spark, served.root / "sales", out, log=served.root / "queries.sql", min_size=250, name="sales")
    sidestep.append(spark, str(out), spark.read.parquet(str(served.root / "sales" / "part-0.parquet")))
    served.console.workspace.forget()
    # A long job, stopped from the drawer: it says so, and offers to begin again.
    page.goto(f"{served.url}/#/layout")
    page.select_option("#layout-table", "sales")
    page.click("#what-if")
    page.keyboard.press("j")
    newest = page.locator("#jobs article.job").first
    newest.get_by_role("button", name="Stop").click()
    expect(newest.locator(".state")).to_have_text("stopped")
    expect(page.locator("#what-if")).to_be_visible()
    page.keyboard.press("j")
    # The appended file waits for optimize, which the page offers and runs.
    page.goto(f"{served.url}/#/tables")
    page.click("tr.pick:has-text('sales_sop')")
    waits = page.get_by_text("came since the table was laid out: optimize organizes")
    expect(waits).to_be_visible()
    page.get_by_role("button", name="Optimize", exact=True).click()
    expect(waits).to_be_hidden()
    assert page.locator(".note.bad").all_inner_texts() == []
    status = sidestep.status(spark, str(out))
    assert (status.unorganized_files, status.indexed_rows) == (0, 18_000)
    # The log speaks of sales, of which this is a copy.
    expect(page.locator("select[aria-label='which calls it']")).to_have_value("sales")
    page.click("#drift")
    expect(page.get_by_text(re.compile(r"\d+ queries \(.*\) read"))).to_be_visible()
    assert page.locator(".note.bad").all_inner_texts() == []


def test_tables_and_themes(page, served):
    page.goto(f"{served.url}/#/tables")
    page.click("tr.pick:has-text('items')")
    expect(page.get_by_text("1 to 10 of 10 blocks")).to_be_visible()
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.keyboard.press("j")
    expect(page.locator("#jobs h2")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280, "the page is wider than the window"


@pytest.mark.long
def test_a_hundred_thousand_blocks(page, served, spark, capsys):
    """Real blocks of a real index; how long the map takes is told, and judged elsewhere."""
    root = served.root / "many"
    if not root.exists():
        table = pa.table({"k": pa.array(range(100_000), pa.int32())})
        for number in range(10):
            write_file(root / f"part-{number}.parquet", table.slice(10_000 * number, 10_000), row_group_size=1)
        sidestep.index(spark, str(root), limit=0)
        served.console.workspace.forget()
    page.goto(f"{served.url}/#/skipping")
    page.fill("#sql", "SELECT sum(k) FROM many WHERE k BETWEEN 31000 AND 40000")
    page.click("#explain")
    page.wait_for_selector("#answer canvas[data-drawn='100000']")
    began = time.perf_counter()
    page.click("#explain")
    page.wait_for_selector("#answer [aria-busy]", state="attached")
    page.wait_for_selector("#answer canvas[data-drawn='100000']")
    with capsys.disabled():
        print(f" the map is there after {time.perf_counter() - began:.2f} s ", end="")
    expect(page.locator("[data-share='Row groups'] .value")).to_contain_text("of 100,000")
    box = page.locator("#answer canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    expect(page.locator("#proof")).to_contain_text("no row of it satisfies")
