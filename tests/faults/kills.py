"""Real kills: a process with a real Spark runs a write and is killed, with everything that it had started."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.disk import Killed
from tests.faults.sweep import Prepared, check_after

HERE = Path(__file__).resolve().parents[2]


in_long_runs = pytest.mark.skipif(os.environ.get("FAULTS") != "all", reason="starts Spark several times: make faults")
"""Of tests that take a minute and more."""


def run_child(arguments: Sequence[str], **settings: str) -> tuple[int, str]:
    """Python in a process and group of its own; its end and what it said. Nothing of the group is left after it."""
    paths = f"{HERE / 'src'}{os.pathsep}{HERE}"
    environment = {**os.environ, "PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable, **settings}
    child = subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        cwd=HERE,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        said, _ = child.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    return child.returncode, said.decode(errors="replace")


def kill_for_real(prepared: Prepared, folder: Path, source: Path, share: str) -> None:
    """Have a process killed in the middle of a write, and see here that all is well."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    root = shutil.copytree(prepared.template, folder / "table")
    if (source / "rows").exists():
        shutil.copytree(source / "rows", folder / "source" / "rows")
    ended, said = run_child(["-m", "tests.faults.spark_writes", str(folder), prepared.write.name, share])
    if ended != -signal.SIGKILL:
        raise AssertionError(f"{prepared.write.name} was not killed at {share}, but ended with {ended}: {said[-2000:]}")
    check_after(prepared, root, Killed())
