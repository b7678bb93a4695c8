"""The figures of the source: read from a small one whose figures are known, and from this one, with a query's walk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "structure.py"
SOURCES = {
    "__init__.py": "",
    "errors.py": "class Bad(Exception): ...",
    "room/__init__.py": "from sidestep.room.making import packed",
    "room/making.py": """
from sidestep.errors import Bad
Words = list[str]
T = TypeVar("T")
def packed(seed):
    found = [seed]
    found.append(1)
    return found
def feed(): ...
class Box:
    @property
    def closed(self): ...
    def _opened(self): ...
""",
    "room/use.py": "from sidestep.errors import Bad\nfrom sidestep.room import packed\nclass Words: ...",
}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=False)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        path = tmp_path / "src" / "sidestep" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_what_sources_say(small):
    figures = json.loads(run("--root", str(small)).stdout.splitlines()[-1])
    assert figures["modules"] == 3
    assert figures["modules_per_folder"] == {"sidestep.room": 2, "sidestep": 1}
    assert figures["single_importer"] == ["sidestep.room.making"], "through its package"
    assert figures["ed_public"] == ["sidestep.room.making.packed"]
    assert figures["ed_private"] == ["sidestep.room.making._opened"]
    assert figures["ing_modules"] == ["sidestep.room.making"]
    assert (figures["found_bound"], figures["found_named"]) == (1, 3)
    assert figures["one_name_many_types"] == {"Words": ["sidestep.room.making", "sidestep.room.use"]}
    assert figures["query"] is None, "it has no planner"


def test_a_recorded_plan_walks_through_this_source():
    done = run()
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["query"] is not None, done.stderr
    walk = figures["query"]
    assert walk["calls"] > walk["module_changes"] >= walk["room_changes"] >= walk["package_changes"] > 0
    assert 10 < walk["modules_touched"] < figures["modules"]
    assert "a query: changes of package" in done.stdout


def test_a_folder_without_sources_is_refused(tmp_path):
    done = run("--root", str(tmp_path))
    assert done.returncode == 2
    assert "has no src/sidestep" in done.stderr
