"""Stored formats: what every version wrote is read as it was meant, and what is written is as docs/formats says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from sidestep.errors import NewerFormat, SidestepError, SidestepWarning
from sidestep.layout.demand import Demand
from sidestep.layout.tree import Cut
from sidestep.predicate import (
    BINARY,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    Cast,
    Column,
    Comparison,
    DataType,
    In,
    IsNull,
    Kind,
    Literal,
    Match,
    MatchKind,
    Not,
    Op,
    Opaque,
    Or,
    sql,
)
from sidestep.spark.jvm import plan_reader
from sidestep.spark.jvm.plan_reader import read_document
from sidestep.spark.jvm.sessions import same_interpreter
from sidestep.spark.log import recording
from sidestep.spark.log.recording import read_recording
from sidestep.store import read_snapshot
from sidestep.store.index import index_file
from sidestep.store.index.index_file import open_index_file
from sidestep.store.location import locate
from sidestep.store.sidecars import column_groups, denormalized, group_layouts, layout, range_tables
from sidestep.store.sidecars.column_groups import COLUMN_GROUPS, ColumnGroups, GroupRows
from sidestep.store.sidecars.denormalized import DENORMALIZED
from sidestep.store.sidecars.group_layouts import GROUP_LAYOUTS, GroupLayouts
from sidestep.store.sidecars.layout import LAYOUTS, LayoutSpec, load_features, load_layout, save_features, save_layout
from sidestep.store.sidecars.range_tables import load_range_table, save_range_table
from sidestep.store.upkeep import false_positives
from sidestep.store.upkeep.false_positives import Estimates, KeptShare, TriedSynopsis, load_estimates, save_estimates
from sidestep.store.upkeep.update import update_index
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.values.code_ranges import CodeRanges
from sidestep.synopsis.values.codes import Coding
from sidestep.workload.features import feature_set
from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.fixtures.make import items, record_queries, write_tables
from tests.schemas import Invalid, check

ROOT = Path(__file__).resolve().parent
FIXTURES = ROOT / "fixtures" / "formats"
NEWEST = {
    "recording": recording.FORMAT,
    "layout": layout.FORMAT,
    "features": feature_set.FORMAT,
    "range-table": range_tables.FORMAT,
    "estimates": false_positives.FORMAT,
    "index": index_file.FORMAT,
    "groups": column_groups.FORMAT,
    "group-layouts": group_layouts.FORMAT,
    "denormalized": denormalized.FORMAT,
}
VERSIONS = [(name, version) for name, newest in NEWEST.items() for version in range(1, newest + 1)]


def fixture(name: str, version: int) -> tuple[Path, Any]:
    """The file of a format and what the version that wrote it says of it."""
    (path,) = (path for path in (FIXTURES / name).glob(f"v{version}.*") if not path.name.endswith(".expected.json"))
    return path, json.loads((FIXTURES / name / f"v{version}.expected.json").read_text(encoding="utf-8"))


def read_layout(path: Path, expected: Any, folder: Path) -> Any:
    shutil.copy(path, folder / f"_layout-00000001-{'0' * 32}.json")
    spec = load_layout(locate(folder))
    assert spec is not None
    return {name: value for name, value in json.loads(json.dumps(spec.to_json())).items() if name != "format"}


def read_features(path: Path, expected: Any, folder: Path) -> Any:
    shutil.copy(path, folder / f"_features-{expected['id']}.json")
    features = load_features(locate(folder), expected["id"])
    assert features is not None
    assert features == FeatureSet.load(path)
    return {
        "id": features.id,
        "table": features.table,
        "features": [[str(feature), feature.weight, feature.additional] for feature in features.features],
        "found": [features.queries, features.covered, features.threshold],
    }


def read_range_table(path: Path, expected: Any, folder: Path) -> Any:
    shutil.copy(path, folder / f"_grt-{expected['identity']}.json")
    table = load_range_table(locate(folder), expected["identity"])
    assert table is not None
    ends = {"lows": table.ranges.lows.tolist(), "highs": table.ranges.highs.tolist()}
    return {"identity": table.identity, "type": str(table.coding.type), **ends}


def read_estimates(path: Path, expected: Any, folder: Path) -> Any:
    shutil.copy(path, folder / f"_estimates-00000001-{'0' * 32}.json")
    estimates = load_estimates(locate(folder))
    shares = {name: [each.zone_map, each.kept] for name, each in estimates.shares.items()}
    return {"shares": shares, "tried": [asdict(each) for each in estimates.tried]} if "shares" in expected else shares


def read_index(path: Path, expected: Any, folder: Path) -> Any:
    named = {} if "name" not in expected else {"name": expected["name"]}
    file, keys = open_index_file(locate(shutil.copy(path, folder / expected.get("name", path.name))))
    assert file.checked == bool(named), "since format 2 the name says what is in the file"
    return {
        **named,
        "columns": {name: str(type) for name, type in file.columns.items()},
        "partition_columns": sorted(file.partition_columns),
        "layout_columns": sorted(file.layout_columns),
        "recipes": {name: recipe.to_json() for name, recipe in file.recipes.items()},
        "rates": dict(file.rates),
        "paths": keys["path"].to_pylist(),
    }


def read_groups(path: Path, expected: Any, folder: Path) -> Any:
    shutil.copy(path, folder / f"_groups-00000001-{'0' * 32}.json")
    groups = COLUMN_GROUPS.load(locate(folder))
    assert groups is not None
    columns = [list(group) for group in groups.groups]
    rows = [[number, some.features, some.rest_of] for number, some in groups.rows.items()]
    found = {"schema": json.loads(groups.schema), "groups": columns, "buckets": groups.buckets}
    return found | ({"rows": rows} if rows else {})


def read_group_layouts(path: Path, expected: Any, folder: Path) -> Any:
    shutil.copy(path, folder / f"_group-layouts-00000001-{'0' * 32}.json")
    layouts = GROUP_LAYOUTS.load(locate(folder))
    assert layouts is not None
    told = [json.loads(json.dumps(spec.to_json())) for spec in layouts.layouts]
    plain = [{name: value for name, value in one.items() if name != "format"} for one in told]
    read = {"layouts": plain, "filtered": list(layouts.filtered)}
    return read | ({"storage": layouts.storage} if "storage" in expected else {})


def read_denormalized(path: Path, expected: Any, folder: Path) -> Any:
    shutil.copy(path, folder / f"_denormalized-00000001-{'0' * 32}.json")
    tables = DENORMALIZED.load(locate(folder))
    assert tables is not None
    return {"tables": json.loads(json.dumps(tables.to_json()))["tables"]}


def read_log(path: Path, expected: Any, folder: Path) -> Any:
    workload = read_recording(path)
    assert workload.failures == ()
    return [
        {
            "sql": query.sql,
            "uses": [
                {"table": use.table, "columns": sorted(use.columns), "predicates": sorted(map(sql, use.predicates))}
                for use in query.uses
            ],
            "joins": [[list(join.left), list(join.right)] for join in query.joins],
        }
        for query in workload.queries
    ]


READERS: dict[str, Callable[[Path, Any, Path], Any]] = {
    "recording": read_log,
    "layout": read_layout,
    "features": read_features,
    "range-table": read_range_table,
    "estimates": read_estimates,
    "index": read_index,
    "groups": read_groups,
    "group-layouts": read_group_layouts,
    "denormalized": read_denormalized,
}


def metadata(path: Path) -> dict[str, Any]:
    """What an index file says of itself."""
    found = {key.decode(): value.decode() for key, value in pq.read_metadata(path).metadata.items()}
    plain = ("sidestep.format", "sidestep.writer", "sidestep.digests", "sidestep.nonce")
    return {key: found[key] if key in plain else json.loads(found[key]) for key in found if key.startswith("sidestep.")}


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_what_every_version_wrote_is_read_as_it_was_meant(name: str, version: int, tmp_path: Path) -> None:
    path, expected = fixture(name, version)
    assert READERS[name](path, expected, tmp_path) == expected


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_what_every_version_wrote_is_as_its_schema_says(name: str, version: int) -> None:
    path, _ = fixture(name, version)
    if name == "index":
        check(metadata(path), f"index.v{version}")
    elif name == "recording":
        for line in path.read_text(encoding="utf-8").splitlines():
            check(json.loads(line), f"recording.v{line_version(line)}")
        assert line_version(path.read_text(encoding="utf-8")) == version
    else:
        check(json.loads(path.read_text(encoding="utf-8")), f"{name}.v{version}")


def line_version(line: str) -> int:
    """Of the first line of a recording; those of 3 name tables, and queries come in lines of 2."""
    return int(json.loads(line.splitlines()[0])["recording"])


def test_every_version_has_a_schema_and_is_described() -> None:
    text = (ROOT.parent / "docs" / "formats.md").read_text(encoding="utf-8")
    for name, version in [*VERSIONS, *(("plan", version) for version in range(1, plan_reader.FORMAT + 1))]:
        assert f"formats/{name}.v{version}.schema.json" in text


def test_a_recording_may_have_lines_of_several_versions(tmp_path: Path) -> None:
    files = [fixture("recording", version)[0] for version in range(1, recording.FORMAT + 1)]
    both = tmp_path / "log.jsonl"
    both.write_text("".join(path.read_text(encoding="utf-8") for path in files), encoding="utf-8")
    assert len(read_recording(both).queries) == sum(len(read_recording(path).queries) for path in files)


# ---- what is written


def test_recordings_are_written_as_described(spark, tmp_path: Path) -> None:
    write_tables(tmp_path)
    with same_interpreter(spark.sparkContext):
        record_queries(spark, tmp_path, tmp_path / "log.jsonl")
    for line in (tmp_path / "log.jsonl").read_text(encoding="ascii").splitlines():
        check(json.loads(line), f"recording.v{line_version(line)}")
    _, expected = fixture("recording", 2)
    assert read_log(tmp_path / "log.jsonl", expected, tmp_path) == expected


def test_index_files_are_written_as_described(tmp_path: Path) -> None:
    rows = items(range(50))
    (tmp_path / "t").mkdir()
    pq.write_table(rows, tmp_path / "t" / "f.parquet")
    types = {"key": LONG, "mode": STRING, "day": DATE}
    recipes = {"key": Recipe(range_set=2), "day": Recipe(grt=4)}
    update_index(read_snapshot(tmp_path / "t"), types, recipes=recipes)
    (path,) = (tmp_path / "t" / "_sidestep").glob("_index-*")
    check(metadata(path), f"index.v{index_file.FORMAT}")
    (path,) = (tmp_path / "t" / "_sidestep").glob("_grt-*")
    check(json.loads(path.read_text(encoding="utf-8")), f"range-table.v{range_tables.FORMAT}")


A, S = Column("a", INTEGER), Column("s", STRING)
FEATURES = FeatureSet(
    "t",
    (
        Feature((Comparison(Op.LT, A, Literal(3, INTEGER)), Not(IsNull(S))), 3, 1),
        Feature((Or((In(A, (Literal(1, INTEGER), Literal(2, INTEGER))), Match(MatchKind.LIKE, S, "a!%", "!"))),)),
        Feature((Comparison(Op.GT, Cast(A, DOUBLE), Literal(float("inf"), DOUBLE)),)),
        Feature((Opaque("f(b)", (Column("b", BINARY),), "0|UTC", True, "not a form that sidestep knows"),)),
        Feature((Match(MatchKind.PREFIX, Column("odd", DataType(Kind.STRING, detail="UTF8_LCASE")), "x"),)),
    ),
    9,
    8,
    2,
)
SPEC = LayoutSpec(
    "day",
    500,
    ("d",),
    1_000,
    2_000,
    FEATURES.id,
    ("month(d)",),
    (Demand((0,), (("d", None, 3),), 2.0),),
    tree=Cut(Comparison(Op.GE, A, Literal(3, INTEGER)), Cut(0, None, None), None),
    tree_units=(0, 2),
    page_order=("a", "d"),
    page_share=0.25,
)
TABLE = GlobalRangeTable(Coding(INTEGER), CodeRanges(np.array([1, 5], np.uint64), np.array([3, 2**64 - 1], np.uint64)))


def written(folder: Path) -> Any:
    (path,) = folder.iterdir()
    return json.loads(path.read_text(encoding="utf-8"))


def test_layouts_are_written_as_described(tmp_path: Path) -> None:
    save_layout(locate(tmp_path), SPEC)
    check(written(tmp_path), f"layout.v{layout.FORMAT}")
    assert load_layout(locate(tmp_path)) == SPEC


def test_feature_sets_are_written_as_described(tmp_path: Path) -> None:
    save_features(locate(tmp_path), FEATURES)
    check(written(tmp_path), f"features.v{feature_set.FORMAT}")
    assert load_features(locate(tmp_path), FEATURES.id) == FEATURES


def test_range_tables_are_written_as_described(tmp_path: Path) -> None:
    save_range_table(locate(tmp_path), TABLE)
    check(written(tmp_path), f"range-table.v{range_tables.FORMAT}")
    loaded = load_range_table(locate(tmp_path), TABLE.identity)
    assert loaded is not None
    assert loaded.ranges.highs.tolist() == [3, 2**64 - 1]


def test_estimates_are_written_as_described(tmp_path: Path) -> None:
    estimates = Estimates({"a": KeptShare(0.5, 0.25)}, (TriedSynopsis("b", "bloom:64", 640, 1.0, 0.1, "too large"),))
    save_estimates(locate(tmp_path), estimates)
    check(written(tmp_path), f"estimates.v{false_positives.FORMAT}")
    assert load_estimates(locate(tmp_path)) == estimates


def test_column_groups_and_their_layouts_are_written_as_described(tmp_path: Path) -> None:
    fields: list[dict[str, Any]] = [
        {"name": name, "type": "integer", "nullable": True, "metadata": {}} for name in ("a", "b c")
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    groups = ColumnGroups(schema, (("b c",), ("a", "b c"), ("a",)), 4, rows={1: GroupRows("x"), 2: GroupRows("x", 1)})
    layouts = GroupLayouts((SPEC, LayoutSpec()), ("a",), 1.5)
    for sidecar, value, name in ((COLUMN_GROUPS, groups, "groups"), (GROUP_LAYOUTS, layouts, "group-layouts")):
        folder = tmp_path / name
        sidecar.save(locate(folder), value)  # type: ignore[arg-type]
        check(written(folder), f"{name}.v{NEWEST[name]}")
        assert sidecar.load(locate(folder)) == value
    plain = ColumnGroups(schema, (("b c",), ("a",)), 4)
    check(plain.to_json(), "groups.v1")
    check(json.loads(json.dumps(GroupLayouts((SPEC,)).to_json())), f"group-layouts.v{group_layouts.FORMAT}")
    for wrong in (0.9, float("nan"), float("inf"), "2", True):
        with pytest.raises(SidestepError, match="may be stored"):
            GroupLayouts((SPEC,), (), wrong)  # type: ignore[arg-type]


def test_denormalized_tables_are_written_as_described(tmp_path: Path) -> None:
    path, _ = fixture("denormalized", denormalized.FORMAT)
    tables = denormalized.DenormalizedTables.from_json(json.loads(path.read_text(encoding="utf-8")), str(path))
    DENORMALIZED.save(locate(tmp_path), tables)
    check(written(tmp_path), f"denormalized.v{denormalized.FORMAT}")
    assert DENORMALIZED.load(locate(tmp_path)) == tables


# ---- what is of a newer version, or of none


def test_a_newer_plan_is_refused() -> None:
    with pytest.raises(NewerFormat, match="The plan has format 99, newer than the 2 that this sidestep reads"):
        read_document({"format": 99, "depends": "", "plans": []})


@pytest.mark.parametrize("stated", [99, 0, "1", None, True])
def test_a_newer_layout_is_passed_over_with_a_warning_that_names_it(tmp_path: Path, stated: object) -> None:
    save_layout(locate(tmp_path), SPEC)
    newer = tmp_path / f"_layout-00000009-{'0' * 32}.json"
    newer.write_text(json.dumps({"format": stated}))
    with pytest.warns(SidestepWarning, match=newer.name):
        assert load_layout(locate(tmp_path)) == SPEC


def test_a_newer_feature_set_or_range_table_is_refused_by_name(tmp_path: Path) -> None:
    folder = locate(tmp_path)
    for name in (f"_features-{FEATURES.id}.json", f"_grt-{TABLE.identity}.json"):
        (tmp_path / name).write_text(json.dumps({"format": 99, "id": "", "features": []}))
    with pytest.raises(NewerFormat, match=FEATURES.id):
        load_features(folder, FEATURES.id)
    with pytest.raises(NewerFormat, match=TABLE.identity):
        load_range_table(folder, TABLE.identity)


def test_numbers_beyond_eight_digits_are_newer(tmp_path: Path) -> None:
    for number, size in ((99_999_999, 1), (100_000_000, 2)):
        text = json.dumps({"format": 1, "min_size": size})
        (tmp_path / f"_layout-{number:08d}-{'0' * 32}.json").write_text(text)
    spec = load_layout(locate(tmp_path))
    assert spec is not None
    assert spec.min_size == 2
    save_layout(locate(tmp_path), SPEC)
    assert LAYOUTS.names(locate(tmp_path))[-1].startswith("_layout-100000001-")


# ---- the checks themselves


@pytest.mark.parametrize(
    "change",
    [
        {"format": 1},
        {"demands": "[]"},
        {"min_size": 0},
        {"min_size": True},
        {"order": "day"},
        {"colour": "red"},
        {"demands": [{"features": [0], "ranges": [["d", 1]], "weight": 1.0}]},
        {"demands": [{"features": [0], "ranges": []}]},
        {"tree": []},
        {"tree_units": [-1]},
        {"log_name": 1},
        {"page_order": "day"},
        {"page_share": -1},
    ],
)
def test_what_is_not_as_described_is_found(change: dict[str, Any]) -> None:
    good = json.loads(json.dumps(SPEC.to_json()))
    check(good, f"layout.v{layout.FORMAT}")
    with pytest.raises(Invalid):
        check({**good, **change}, f"layout.v{layout.FORMAT}")


def test_a_schema_with_words_that_are_not_checked_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.schemas._schema", lambda file: {"maxLength": 3})
    with pytest.raises(KeyError, match="maxLength"):
        check("long", "any")


@pytest.mark.parametrize(
    "tree",
    [
        {"test": True, "no": None, "yes": None},
        {"test": {"is": "opaque", "text": "rand() < a"}, "no": None, "yes": None},
        {"test": 1, "no": None},
        {"test": {"is": "=", "left": {"column": "a", "type": "int"}, "right": {"column": "b", "type": "int"}}},
        [],
    ],
)
def test_a_damaged_tree_is_no_layout(tree: object) -> None:
    with pytest.raises(SidestepError, match=r"The layout /t/x\.json is damaged"):
        LayoutSpec.from_json({"format": 3, "tree": tree}, "/t/x.json")


def test_a_damaged_demand_is_no_layout() -> None:
    with pytest.raises(SidestepError, match=r"The layout /t/x\.json is damaged"):
        LayoutSpec.from_json({"format": 2, "demands": [{"features": ["x"], "ranges": [], "weight": 1}]}, "/t/x.json")
