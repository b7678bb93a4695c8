"""What the tests of the store share: a small table, and warnings that are given once in each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidestep.store.index import table_index as index_module
from tests.store.tables import write_parquet


@pytest.fixture(autouse=True)
def fresh_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_warned", set())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three files of two blocks each: x is 0..9, 10..19, and so on."""
    root = tmp_path / "t"
    for number in range(3):
        first = number * 20
        data = {"x": range(first, first + 20), "s": [f"v{i:03d}" for i in range(first, first + 20)]}
        write_parquet(root / f"f{number}", data, row_group_size=10)
    return root
