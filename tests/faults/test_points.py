"""The points at which writes are cut short are all there are: nothing goes past the disk that fails."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import sidestep
from tests.faults.disk import Disk, Fault, Killed, mounted
from tests.faults.writes import WRITES, append, rows_from

SOURCE = Path(sidestep.__file__).parent
ROOMS = ("store", "spark/table", "spark/organize", "advisor")
WRAPPED = {"store/location.py", "store/commit/log_entry.py"}
"""The modules whose every use of files passes the disk."""
_HARMLESS = {"fspath", "PathLike", "cpu_count", "path", "environ", "getpid", "BytesIO", "RawIOBase"}
_HARMLESS |= {"SEEK_SET", "SEEK_CUR", "SEEK_END"}
_MODULES = {"os", "shutil", "tempfile", "pathlib", "io", "mmap"}


def uses_of_files(source: str) -> list[str]:
    """The names by which a module could reach files on its own."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            found.append("open")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _MODULES:
            found += [f"{node.value.id}.{node.attr}"] if node.attr not in _HARMLESS else []
        elif isinstance(node, ast.ImportFrom) and node.module in _MODULES:
            found += [f"{node.module}.{alias.name}" for alias in node.names if alias.name not in _HARMLESS]
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_only_two_modules_touch_files(room):
    for path in sorted((SOURCE / room).rglob("*.py")):
        if path.relative_to(SOURCE).as_posix() not in WRAPPED:
            assert uses_of_files(path.read_text(encoding="utf-8")) == [], path


def test_a_module_that_reaches_past_it_is_seen():
    assert set(uses_of_files("import os\nos.replace('a', 'b')\nopen('c')")) == {"os.replace", "open"}
    assert uses_of_files("from shutil import move") == ["shutil.move"]


def test_a_write_has_points_of_every_kind(tmp_path):
    write = next(write for write in WRITES if write.name == "append")
    write.prepare(tmp_path / "t")
    with mounted(Disk(tmp_path)) as disk:
        write(tmp_path / "t")
    kinds = {point.kind for point in disk.points}
    assert kinds == {
        "open",
        "stat",
        "list",
        "read log",
        "create folder",
        "create",
        "write",
        "close",
        "sync",
        "link",
    } | {"delete"}


def test_nothing_happens_after_a_kill(tmp_path):
    write = next(write for write in WRITES if write.name == "append")
    write.prepare(tmp_path / "t")
    with mounted(Disk(tmp_path)) as disk:
        append(tmp_path / "t", rows_from(100, 5))
    link = max(number for number, point in enumerate(disk.points) if point.kind == "link")
    with mounted(Disk(tmp_path, fault=Fault.KILLED, at=link)), pytest.raises(Killed):
        append(tmp_path / "t", rows_from(200, 5))
    assert list((tmp_path / "t" / "_delta_log").glob(".*.partial")), "what a real kill leaves is left"
