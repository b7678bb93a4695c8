"""How the source is laid out: sizes, names that say little, and how far a query walks through it.

    .venv/bin/python scripts/structure.py [--root DIR]

Prints a table for people and one JSON object, the last line. Everything but the walk is read from the sources. For the
walk a recorded plan (a star of three tables with a semi join) is put to the planner twice, over tables that are made
and indexed for it; the second time, when indexes are open, each call of one of sidestep's functions is a step.
``--root`` is another checkout, of any version: the walk runs in a process that imports sidestep from there.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parent
NOT_PARTICIPLES = {"embed", "exceed", "feed", "need", "proceed", "red", "seed", "speed", "succeed"}
Figures = dict[str, Any]


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="structure.py", description=__doc__, allow_abbrev=False)
    parser.add_argument("--root", type=Path, default=HERE.parent, help="a checkout of sidestep")
    parser.add_argument("--walk", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    root = args.root.resolve()
    if not (root / "src" / "sidestep").is_dir():
        parser.error(f"{root} has no src/sidestep: --root takes a checkout of sidestep")
    if args.walk:
        print(json.dumps(query_walk(root / "src")))
        return 0
    figures = source_figures(root / "src") | {"query": walk_elsewhere(root)}
    print(text_table(figures))
    print(json.dumps({"root": str(root), **figures}))
    return 0


# ---- what the sources say


def source_figures(src: Path) -> Figures:
    trees = {
        module_name(path, src): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((src / "sidestep").rglob("*.py"))
    }
    packages = {name for name in trees if (src / Path(*name.split(".")) / "__init__.py").exists()}
    modules = {name: tree for name, tree in trees.items() if name not in packages}
    folders = Counter(name.rpartition(".")[0] for name in modules)
    importers = importers_of(trees, packages)
    participles = sorted(participle_functions(modules))
    return {
        "modules": len(modules),
        "folders": len(folders),
        "largest_folder": list(folders.most_common(1)[0]),
        "modules_per_folder": dict(folders.most_common()),
        "single_importer": sorted(name for name in modules if len(importers[name]) == 1),
        "ed_public": [name for name in participles if not name.rpartition(".")[2].startswith("_")],
        "ed_private": [name for name in participles if name.rpartition(".")[2].startswith("_")],
        "ing_modules": sorted(name for name in modules if name.endswith("ing")),
        "found_bound": sum(1 for node in names_in(modules, "found") if isinstance(node.ctx, ast.Store)),
        "found_named": sum(1 for _ in names_in(modules, "found")),
        "one_name_many_types": types_of_one_name(modules),
    }


def module_name(path: Path, src: Path) -> str:
    parts = path.relative_to(src).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers_of(trees: dict[str, ast.Module], packages: set[str]) -> dict[str, set[str]]:
    """Of each module, who imports it; a name that a package re-exports is imported from where it is defined."""
    exported = {
        (package, alias.asname or alias.name): f"{node.module}.{alias.name}"
        for package in packages
        for node in ast.walk(trees[package])
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }

    def module_of(name: str) -> str | None:
        """The module that a dotted name is in, or is."""
        for _ in range(len(packages)):
            if name in trees and name not in packages:
                return name
            package, _, last = name.rpartition(".")
            if package in trees and package not in packages:
                return package
            if (package, last) not in exported or exported[package, last] == name:
                return None
            name = exported[package, last]
        return None

    importers: dict[str, set[str]] = defaultdict(set)
    for importer, tree in trees.items():
        if importer in packages:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            for name in names:
                module = module_of(name)
                if module is not None and module != importer:
                    importers[module].add(importer)
    return importers


def participle_functions(modules: dict[str, ast.Module]) -> Iterator[str]:
    """Functions and methods whose name ends in -ed; a property is a value, and may be an adjective."""
    for name, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.endswith("ed"):
                decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
                if "property" not in decorators and node.name.rpartition("_")[2] not in NOT_PARTICIPLES:
                    yield f"{name}.{node.name}"


def names_in(modules: dict[str, ast.Module], wanted: str) -> Iterator[ast.Name]:
    for tree in modules.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id == wanted:
                yield node


def types_of_one_name(modules: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Classes and aliases of types that several modules define under one name."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                alias = node.targets[0].id
                variable = isinstance(node.value, ast.Call)  # TypeVar("T") and the like
                if alias[0].isupper() and not alias.isupper() and not variable:
                    places[alias].append(name)
    return {name: where for name, where in sorted(places.items()) if len(where) > 1}


# ---- the way of a query


def walk_elsewhere(root: Path) -> Figures | None:
    """The walk of a query through the sidestep of another folder, or None if its planner takes no recorded plan."""
    command = [sys.executable, str(Path(__file__).resolve()), "--walk", "--root", str(root)]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return None
    walk: Figures = json.loads(done.stdout.splitlines()[-1])
    return walk


def query_walk(src: Path) -> Figures:
    sys.path.insert(0, str(src))
    planner_class = from_first("Planner", "sidestep.spark.rule.planner", "sidestep.spark.planner")
    indexes_class = from_first("Indexes", "sidestep.spark.rule.indexes", "sidestep.spark.indexes")
    with tempfile.TemporaryDirectory() as folder:
        make_tables(Path(folder))
        ignore = SimpleNamespace(putKeys=lambda *_: None, dropKeys=lambda *_: None)
        planner = planner_class(indexes_class(ignore))
        planner.complete = lambda number, scans: "1" * (scans.count("\n") + 1)
        plan = (HERE / "structure_plan.json").read_text(encoding="utf-8").replace("ROOT", folder)
        message, first = "", ""
        for verb in ("plan\t1\t", "plan 1"):  # as planners take it now, and as they did before settings came with it
            message = f"{verb}\n\n{plan}"
            try:
                first = planner.apply(message)
            except ValueError:
                continue
            if first:
                break
        assert first, f"The planner skipped nothing: {planner.last_problem or 'no reason given'}."
        steps: list[str] = []

        def note(frame: FrameType, event: str, argument: object) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(f"{src}{os.sep}"):
                steps.append(module_name(Path(frame.f_code.co_filename), src))

        if hasattr(planner, "forget"):  # or it would give the first answer again
            planner.forget()
        sys.setprofile(note)
        try:
            again = planner.apply(message)
        finally:
            sys.setprofile(None)
        assert again == first
    return {
        "calls": len(steps),
        "modules_touched": len(set(steps)),
        "package_changes": changes([step.split(".")[1] for step in steps]),
        "room_changes": changes([step.rpartition(".")[0] for step in steps]),
        "module_changes": changes(steps),
    }


def changes(steps: Sequence[str]) -> int:
    return sum(one != next_one for one, next_one in pairwise(steps))


def from_first(name: str, *modules: str) -> Any:
    """What the first of these modules that exists calls so: the module may have moved between versions."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as problem:
            if problem.name is None or not module.startswith(problem.name):
                raise
    raise ModuleNotFoundError(f"{name} is in none of {', '.join(modules)}.")


def make_tables(root: Path) -> None:
    """The tables of the recorded plan, indexed: what is sold in a store on a day, stores by city, days by month."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sidestep.predicate import parse_type
    from sidestep.store import read_snapshot, update_index

    rows = range(40)
    tables: dict[str, list[dict[str, list[Any]]]] = {
        "sales": [
            {
                "day": [10 * n + i % 10 for i in rows],
                "store": [(n + i) % 12 for i in rows],
                "price": [*map(float, rows)],
            }
            for n in range(12)
        ],
        "stores": [
            {"store": [3 * n, 3 * n + 1, 3 * n + 2], "city": [city] * 3, "size": [10 * n, 10 * n + 1, 10 * n + 2]}
            for n, city in enumerate(("Oslo", "Riga", "Bern", "Rome"))
        ],
        "days": [{"day": [*range(30 * n, 30 * n + 30)], "month": [n + 5] * 30} for n in range(4)],
    }
    types = {pa.int64(): "bigint", pa.float64(): "double", pa.string(): "string"}
    for name, files in tables.items():
        folder = root / name
        folder.mkdir()
        for number, columns in enumerate(files):
            path = folder / f"f{number}.parquet"
            pq.write_table(pa.table(columns), path)
            os.utime(path, (1_700_000_000, 1_700_000_000))
        schema = pa.table(files[0]).schema
        update_index(read_snapshot(folder), {field.name: parse_type(types[field.type]) for field in schema})


# ---- a table for people


def text_table(figures: Figures) -> str:
    query = figures["query"] or {}
    folder, most = figures["largest_folder"]
    repeated = figures["one_name_many_types"]
    rows = [
        ("modules", figures["modules"], f"in {figures['folders']} folders"),
        ("most in one folder", most, folder),
        ("modules with one importer", len(figures["single_importer"]), ""),
        ("functions ending in -ed, public", len(figures["ed_public"]), ""),
        ("functions ending in -ed, private", len(figures["ed_private"]), ""),
        ("modules ending in -ing", len(figures["ing_modules"]), ", ".join(short(figures["ing_modules"]))),
        ("locals called found, bound", figures["found_bound"], f"named {figures['found_named']} times"),
        ("types of one name in several modules", len(repeated), ", ".join(repeated)),
        ("a query: modules touched", query.get("modules_touched", "?"), f"in {query.get('calls', '?')} calls"),
        ("a query: changes of package", query.get("package_changes", "?"), ""),
        ("a query: changes of room", query.get("room_changes", "?"), ""),
        ("a query: changes of module", query.get("module_changes", "?"), ""),
    ]
    return "\n".join(f"{name:38}{number!s:>7}  {more}".rstrip() for name, number, more in rows)


def short(modules: Sequence[str]) -> list[str]:
    return [name.removeprefix("sidestep.") for name in modules]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
