"""Every part of a document as text and as HTML."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.render import as_text
from sidestep.render.document import (
    BlockMap,
    Cell,
    Command,
    Details,
    Facts,
    Grid,
    Heading,
    Line,
    Paragraph,
    Plot,
    numbers,
)
from sidestep.render.html import fragment, page
from sidestep.render.report import Report
from sidestep.render.svg import ACROSS, MOST_ROWS, WIDTH, map_svg, plot_svg
from sidestep.render.terminal import on_terminal
from tests.render.markup import HOSTILE, check


def parts(text: str):
    """One of each, with a text wherever one can be."""
    return (
        Heading(text),
        Paragraph(text, "warn"),
        Facts([(text, Cell(text, "good", 0.5))], text),
        Grid((text, *numbers(text)), [[Cell(text, code=True, more=text, lines=(text,)), "1"]], text),
        Command(text),
        Plot(text, text, text, (Line(text, ((0.0, 0.0), (1.0, 1.0))), Line(text, ((0.0, 1.0), (1.0, 0.0))))),
        BlockMap(text, ("read", text), np.array([0, 1, 1])),
        Details(text, (Paragraph(text),)),
    )


@given(st.text(st.characters(exclude_categories=("Cs", "Cc"))))
def test_whatever_a_text_says_it_is_text(text):
    check(fragment(parts(text)))


def test_hostile_text_is_shown_and_nothing_of_it_is_markup():
    read = check(fragment(parts(HOSTILE)))
    assert read.text.count(HOSTILE) >= 9
    assert "<script>" not in page(HOSTILE, parts(HOSTILE))
    check(page(HOSTILE, parts(HOSTILE)))


def test_text_shows_all_but_pictures():
    text = as_text(on_terminal(parts("some")))
    assert "some" in text
    assert "[b]" in as_text(on_terminal(parts("[b]")))


def test_numbers_stand_to_the_right():
    grid = Grid(("name", *numbers("files")), [["a", "1"], ["b", "1,000"]])
    lines = as_text(on_terminal([grid])).splitlines()
    assert lines[-1].index("1,000") + 4 == lines[-2].index("1")
    assert fragment([grid]).count('<td class="n">') == 2


def test_shares_are_bars():
    assert 'style="width:25.0%"' in fragment([Grid(("a",), [[Cell("1 of 4", share=0.25)]])])
    assert 'style="width:100.0%"' in fragment([Grid(("a",), [[Cell("5 of 4", share=1.25)]])])


def test_plots_beside_each_other():
    one = Plot("a", "x", "y", (Line("", ((0.0, 0.0), (1.0, 1.0))),))
    assert fragment([one, one, Paragraph("b"), one]).count('class="plots"') == 2


@pytest.mark.parametrize("points", [(), ((3.0, 0.2),), ((0.0, 0.0), (0.0, 0.0)), ((5.0, 2.0), (6.0, 0.1))])
@pytest.mark.parametrize("log", [False, True])
def test_odd_curves_are_drawn_or_left_out(points, log):
    drawn = plot_svg(Plot("a", "x", "y", (Line("", points),), log))
    assert bool(drawn) == bool(points)
    check(drawn)


def test_labels_of_ticks_lie_inside_the_picture():
    """The last tick of the horizontal axis and the title of the vertical one used to be cut off."""
    drawn = plot_svg(Plot("a", "features", "share of queries subsumed", (Line("", ((0.0, 0.0), (80.0, 1.0))),)))
    for piece in drawn.split("<text ")[1:]:
        x = float(piece.split('x="')[1].split('"')[0])
        letters = piece.split(">", 1)[1].split("<")[0]
        half = 6.5 * len(letters) / 2
        if "rotate" not in piece and "middle" in piece:
            assert half <= x <= WIDTH - half, letters
        elif "end" in piece:
            assert x - 6.5 * len(letters) >= 0, letters


def test_many_points_and_blocks_stay_light():
    curve = tuple((float(at), at / 100_000) for at in range(100_000))
    assert len(plot_svg(Plot("a", "x", "y", (Line("", curve),)))) < 5_000
    blocks = np.random.default_rng(1).integers(0, 4, 1_000_000)
    drawn = map_svg(BlockMap("a", ("read", "x", "y", "z"), blocks))
    assert len(drawn) < 30_000
    assert "some of" in drawn


def test_a_square_that_holds_a_block_which_is_read_says_so():
    """Of very many blocks several share a square: one that is read must not be hidden by those that are not."""
    blocks = np.ones(3 * ACROSS * MOST_ROWS, np.int64)
    blocks[500] = 0
    drawn = map_svg(BlockMap("a", ("read", "skipped"), blocks))
    assert 'stroke-opacity=".55"' in drawn
    assert "1 read" in drawn
    assert f"{len(blocks) - 1:,} skipped" in drawn


def test_a_map_has_a_square_for_each_block():
    drawn = map_svg(BlockMap("a", ("read", "skipped"), np.array([0, 1, 1, 0, 0])))
    paths = [piece.split('"')[0] for piece in drawn.split('<path d="')[1:]]
    assert paths == ["M0 26h8M27 26h17", "M9 26h17"]


def test_a_report_shows_itself(tmp_path):
    class Small(Report):
        def _document(self):
            return (Paragraph("Hello."),)

    class Printer:
        said = ""

        def text(self, text):
            self.said = text

    printer = Printer()
    Small()._repr_pretty_(printer, False)
    assert printer.said == str(Small()) == "Hello."
    assert "<p>Hello.</p>" in Small()._repr_html_()
    Small().save_html(tmp_path / "page.html")
    assert "<p>Hello.</p>" in (tmp_path / "page.html").read_text()
    with pytest.raises(SidestepError, match="could not be written"):
        Small().save_html(tmp_path / "none" / "page.html")
