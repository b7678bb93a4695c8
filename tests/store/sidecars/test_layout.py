"""The layout of a table is remembered, and a damaged note of it is as good as none."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidestep.errors import SidestepError, SidestepWarning
from sidestep.store.location import locate
from sidestep.store.sidecars.layout import LAYOUTS, LayoutSpec, load_layout, save_layout


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    spec = LayoutSpec("date_trunc('MONTH', d)", 500, ("d", "e"), 1_000, 2_000, "abc")
    save_layout(locate(tmp_path), spec)
    assert load_layout(locate(tmp_path)) == spec


def test_the_newest_wins(tmp_path: Path) -> None:
    for size in (10, 30, 20):
        save_layout(locate(tmp_path), LayoutSpec(min_size=size))
    assert load_layout(locate(tmp_path)) == LayoutSpec(min_size=20)
    assert len(LAYOUTS.names(locate(tmp_path))) == 3


def test_a_folder_without_a_layout_has_none(tmp_path: Path) -> None:
    assert load_layout(locate(tmp_path / "none")) is None
    (tmp_path / "_layout-old.json").write_text("{}")
    assert load_layout(locate(tmp_path)) is None


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 99}', '{"format": 1, "min_size": 0}', '{"format": 1, "colour": 1}', "\xff\x00"]
)
def test_a_damaged_one_is_passed_over(tmp_path: Path, text: str) -> None:
    save_layout(locate(tmp_path), LayoutSpec(min_size=7))
    damaged = tmp_path / f"_layout-00000009-{'0' * 32}.json"
    damaged.write_bytes(text.encode("latin-1"))
    with pytest.warns(SidestepWarning, match=damaged.name):
        assert load_layout(locate(tmp_path)) == LayoutSpec(min_size=7)


def test_sizes_are_positive() -> None:
    with pytest.raises(SidestepError, match="min_size is 0"):
        LayoutSpec(min_size=0)
    with pytest.raises(SidestepError, match="unit_rows is -1"):
        LayoutSpec(unit_rows=-1)
