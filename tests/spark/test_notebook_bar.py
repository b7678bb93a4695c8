"""The bar that long work shows in a notebook: drawn once, then in its place; never a reason to fail."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from sidestep.spark import progress
from sidestep.spark.progress import NotebookBar, Step, notebook_bar
from tests.render.markup import check


class Handle:
    def __init__(self, shown):
        self.shown = shown

    def update(self, data, raw):
        assert raw
        self.shown.append(("update", data))


@pytest.fixture
def shown(monkeypatch):
    monkeypatch.setattr(progress, "WAIT_SECONDS", 0.0)
    return []


def display_into(shown):
    def display(data, raw, display_id):
        assert raw
        assert display_id
        shown.append(("display", data))
        return Handle(shown)

    return display


def test_it_is_drawn_in_its_place(shown):
    bar = NotebookBar(display_into(shown))
    bar(Step("sample", 0, 0, 1.0))
    bar(Step("write", 250, 1_000, 5.0, detail="<script>"))
    bar(Step("write", 1_000, 1_000, 9.0))
    assert [kind for kind, _ in shown] == ["display", "update", "update"]
    second = shown[1][1]["text/html"]
    read = check(second, 5_000)
    assert 'style="width:25.0%"' in second
    assert any("250 of 1,000 rows" in text and "<script>" in text for text in read.text)
    assert "sample" in read.text
    assert shown[2][1]["text/plain"] == "sample: 1 s, write: 1,000 of 1,000 rows, 111 a second, 0 s left"


def test_what_is_quick_shows_none(monkeypatch):
    monkeypatch.setattr(progress, "WAIT_SECONDS", 3_600.0)
    NotebookBar(lambda *_, **__: pytest.fail("nothing is shown"))(Step("sample", 0, 0, 0.1))


def test_a_display_that_fails_stops_no_job(shown):
    def display(*_, **__):
        raise RuntimeError("no one is there")

    NotebookBar(display)(Step("sample", 0, 0, 1.0))


def test_only_a_kernel_has_one(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", None)
    assert notebook_bar() is None
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert notebook_bar() is None
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace()))
    assert notebook_bar() is None  # a terminal
    kernel = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=lambda *_, **__: None))
    assert isinstance(notebook_bar(), NotebookBar)
