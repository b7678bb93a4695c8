"""What is found in folders, what names stand for, and that nothing leads out of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidestep import SidestepError
from sidestep.console.workspace import UnknownName, Workspace


def write(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"a": [1]}), path)


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "given"
    write(inside / "sales" / "part.parquet")
    write(inside / "deep" / "down" / "by-day" / "day=2024-01-01" / "part.parquet")
    (inside / "lake" / "_delta_log").mkdir(parents=True)
    (inside / "grouped" / "_sidestep" / "groups").mkdir(parents=True)
    (inside / "log.sql").write_text("SELECT 1")
    (inside / "notes.txt").write_text("no log")
    write(tmp_path / "secret" / "part.parquet")
    return inside


def test_tables_and_logs_are_found(folder):
    found = Workspace([folder])
    assert {name: entry.kind for name, entry in found.tables.items()} == {
        "sales": "parquet",
        "by_day": "parquet",
        "lake": "delta",
        "grouped": "groups",
    }
    assert list(found.logs) == ["log.sql"]
    assert found.table("sales").path == folder / "sales"


def test_two_of_one_name_are_told_apart(folder):
    write(folder / "deep" / "sales" / "part.parquet")
    assert {"sales", "sales_2"} <= Workspace([folder]).tables.keys()


@pytest.mark.parametrize(
    "name", ["../secret", "/etc", "sales/../../secret", "", "nothing", "log.sql", "sales/", "%2e%2e"]
)
def test_only_names_are_known(folder, name):
    with pytest.raises(UnknownName):
        Workspace([folder]).table(name)


def test_a_link_out_of_the_folder_is_not_opened(folder):
    (folder / "linked").symlink_to(folder.parent / "secret")
    (folder / "other.sql").symlink_to(folder.parent / "secret" / "part.parquet")
    write(folder / "mixed" / "part.parquet")
    (folder / "mixed" / "more.parquet").symlink_to(folder.parent / "secret" / "part.parquet")
    found = Workspace([folder])
    for name in ("linked", "mixed"):
        assert name not in found.paths
        with pytest.raises(SidestepError, match="leads out"):
            found.table(name)
    with pytest.raises(SidestepError, match=r"leads out|no log"):
        found.log("other.sql")


def test_a_link_inside_the_folder_is_fine(folder):
    (folder / "also").symlink_to(folder / "sales")
    assert "also" in Workspace([folder]).paths


@pytest.mark.parametrize("name", ["../out", "a/b", "", ".hidden", "a b", "x" * 65, "1st", "a.b", "sales"])
def test_a_new_table_has_a_plain_name_that_is_free(folder, name):
    with pytest.raises(SidestepError):
        Workspace([folder]).new_table(name)


def test_a_new_table_lies_in_the_folder(folder):
    assert Workspace([folder]).new_table("sales_sop") == folder / "sales_sop"


def test_what_is_given_has_to_be_there(tmp_path):
    nowhere = str(tmp_path / "no")
    given: list[dict[str, Any]] = [
        {"folders": [nowhere]},
        {"folders": [], "tables": {"t": nowhere}},
        {"folders": []},
        {"folders": [tmp_path], "logs": [nowhere]},
    ]
    for arguments in given:
        with pytest.raises(SidestepError):
            Workspace(**arguments)
