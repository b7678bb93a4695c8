"""The load benchmark: how it judges growth and memory, and a tiny run."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from bench.__main__ import main
from bench.load import linearity
from bench.memory import python_descendants, watched


def test_a_cost_at_the_start_is_no_fault_and_faster_growth_is():
    assert linearity({0.1: 3.0, 0.5: 7.0, 1: 12.0, 2: 22.0}) == pytest.approx(0, abs=1e-9)
    assert linearity({0.1: 0.063, 0.5: 0.435, 1: 1.0, 2: 2.3}) > 0.2
    assert linearity({1: 5.0}) == 0.0


def test_the_memory_of_python_processes_below_this_one_is_seen():
    hold = "held = bytearray(64 << 20); print('.', flush=True); input()"
    command, pipe = [sys.executable, "-c", hold], subprocess.PIPE
    with watched(0.02) as memory, subprocess.Popen(command, stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        child.stdout.read(1)
        assert child.pid in python_descendants(os.getpid())
        memory.look()
        child.kill()
    assert memory.peaks[child.pid] > 64 << 20


def test_a_tiny_load_ends_with_its_figures(spark, tmp_path, capsys):
    options = "--sf 0.001 --scales 0.001 --width narrow --train 8 --runs 1 --min-size 2000"
    assert main(["load", *options.split(), "--data", str(tmp_path)]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures.keys() >= {"time_ratio", "size_ratio", "peak_mb", "stages", "linearity"}
    assert figures["rows"] == 6_005
    assert 0 < sum(figures["stages"].values()) < figures["load_seconds"] + 0.01, "they are rounded"
    assert not (tmp_path / "load").exists()
