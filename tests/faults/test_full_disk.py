"""A disk that is full for real: a small file system of its own, where the system lets one be mounted."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings

import pytest

import sidestep
from sidestep.errors import SidestepError
from sidestep.store.upkeep.vacuum import vacuum
from tests.faults.spark_writes import frame
from tests.faults.sweep import check_index, leftovers
from tests.faults.writes import append, contents, create, rows_from

MEGABYTES = 3


@pytest.fixture
def small(tmp_path):
    """A folder on a disk of few megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def leave(folder, room: int) -> None:
    """Fill the disk but for so many bytes."""
    free = shutil.disk_usage(folder).free
    with open(folder / "ballast", "wb") as file:
        file.write(os.urandom(max(0, free - room)))


def test_writes_on_a_full_disk(small):
    root = small / "table"
    create(root, rows_from(0, 10), rows_from(10, 10))
    said: list[str] = []
    for number, room in enumerate(range(0, 8 * 4_096, 4_096)):
        before = contents(root)
        leave(small, room)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                append(root, rows_from(1_000 + 10 * number, 10))
        except SidestepError as problem:
            said.append(str(problem))
            grown = 0
        else:
            grown = 10
        assert len(contents(root) or ()) == len(before or ()) + grown
        check_index(root)
        (small / "ballast").unlink()
        vacuum(root, hours=0, force=True)
        assert list(leftovers(root)) == []
    append(root, rows_from(5_000, 10))
    assert len(said) >= 3, "data, index and log each found it full"
    assert all("space" in each for each in said), "it says what is missing"
    assert len(contents(root) or ()) == 20 + 10 * (8 - len(said)) + 10


def test_workers_on_a_full_disk(spark, small):
    root = small / "table"
    create(root, rows_from(0, 10), rows_from(10, 10))
    before = contents(root)
    leave(small, 4_096)
    with pytest.raises(SidestepError, match="No space left"):
        sidestep.append(spark, str(root), frame(spark, 100, 20))
    (small / "ballast").unlink()
    assert contents(root) == before
    sidestep.append(spark, str(root), frame(spark, 100, 20))
    assert len(contents(root) or ()) == 40
    vacuum(root, hours=0, force=True)
    assert list(leftovers(root)) == []
