"""Damage to the files of an index folder: each is told, and costs no more than what the damaged file said."""

from __future__ import annotations

import os
import random
import shutil
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidestep.errors import SidestepError, SidestepWarning
from sidestep.predicate import DATE, DOUBLE, INTEGER, LONG, STRING, Comparison, DataType, Literal, Op
from sidestep.store import TableIndex, open_index, read_snapshot, status, update_index
from sidestep.store.digest import SEGMENT, CheckedReader, segment_digests, stamp
from sidestep.store.index import table_index
from sidestep.store.index.index_file import open_index_file
from sidestep.store.location import locate
from sidestep.store.parquet.blocks import LAYOUT
from sidestep.store.sidecars.layout import LayoutSpec, load_features, load_layout, save_features, save_layout
from sidestep.store.sidecars.range_tables import load_range_table
from sidestep.store.upkeep.compact import append_blocks
from sidestep.store.upkeep.false_positives import Estimates, KeptShare, load_estimates, save_estimates
from sidestep.synopsis.recipe import Recipe
from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.store.sealed import as_first_format, rewrite, seal
from tests.store.tables import index_rows, kept, write_parquet
from tests.test_formats import FEATURES, A

COLUMNS: dict[str, DataType] = {"x": LONG, "s": STRING, "d": DATE, "f": DOUBLE}
RECIPES = {"x": Recipe(range_set=3, bloom=64), "s": Recipe(grt=8)}


@pytest.fixture(autouse=True)
def forget_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is warned anew."""
    monkeypatch.setattr(table_index, "_warned", set())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Five files, each with values of its own."""
    for number in range(5):
        ids = range(100 * number, 100 * number + 20)
        data = {
            "x": [*ids],
            "s": [f"v{id:05d}" for id in ids],
            "d": pa.array([19_000 + id for id in ids], pa.date32()),
            "f": [id / 7 for id in ids],
        }
        write_parquet(tmp_path / "t" / f"p={number % 2}" / f"f{number}", data)
    return tmp_path / "t"


def the_index_file(table: Path) -> Path:
    (path,) = (table / "_sidestep").glob("_index-*")
    return path


def everything(index: TableIndex) -> dict[str, Any]:
    """All that a query could be told by an index, as plain data."""
    told: dict[str, Any] = {"files": index.files.to_pylist(), "rows": index.map.rows.tolist()}
    told["groups"] = index.map.row_group.tolist()
    for name, type in COLUMNS.items():
        told[name] = {part: array.to_pylist() for part, array in (index.stored_arrays(name, type) or {}).items()}
        for value in [5, 105, 250, 399, 1_000] if type == LONG else ():
            told[f"{name}={value}"] = kept(index, name, type, value)
    told["p"] = None if (texts := index.partition_texts("p")) is None else texts.to_pylist()
    told["layout"] = {field.name: getattr(index.layout, field.name).to_pylist() for field in LAYOUT}
    return told


def flips(content: bytes, count: int) -> Iterator[bytes]:
    """The content with one bit flipped, at ``count`` places: the first and last bytes, and at random."""
    chance = random.Random(len(content))
    ends = [*range(16), *range(len(content) - 16, len(content))]
    for number in range(count):
        at = ends[number] if number < len(ends) else chance.randrange(len(content))
        damaged = bytearray(content)
        damaged[at] ^= 1 << chance.randrange(8)
        yield bytes(damaged)


def test_no_flipped_bit_of_an_index_file_changes_what_is_told(table: Path) -> None:
    whole = everything(update_index(read_snapshot(table), COLUMNS, recipes=RECIPES))
    path = the_index_file(table)
    content = path.read_bytes()
    noticed = 0
    for damaged in flips(content, 1_000):
        path.write_bytes(damaged)
        table_index._warned.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            index = open_index(table)
            index.verify()
            found = everything(index)
        assert found == whole or not found["files"]
        noticed += any(path.name in str(warning.message) for warning in caught) and bool(index.problems)
    assert noticed == 1_000, "all that is written is under some digest"


def test_a_query_that_reads_the_damaged_part_is_told(table: Path) -> None:
    """Only what a query reads is checked for it: the rest of the file is of use."""
    index = update_index(read_snapshot(table), {"x": LONG})
    parts = index_rows(table, {"s": STRING})
    wide = [rows.append_column(f"pad:{n}", pa.array([os.urandom(SEGMENT)])) for n, rows in enumerate(parts)]
    append_blocks(index.folder, wide, {"s": STRING})
    path = max((table / "_sidestep").glob("_index-*"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    index = open_index(table)
    assert kept(index, "x", LONG, 5) == [("p=0/f0", 0)]
    assert kept(index, "s", STRING, "v00005") == [("p=0/f0", 0)]
    assert index.problems == ()
    with pytest.warns(SidestepWarning, match=f"{path.name} is used in part: it is damaged between bytes"):
        assert len(status(table).problems) == 1, "should look at all of it"


ONE_FEATURE = FeatureSet("t", (Feature((Comparison(Op.LT, A, Literal(3, INTEGER)),)),))
SIDECARS: dict[str, Callable[[Path], Any]] = {
    "_layout-": lambda folder: load_layout(locate(folder)),
    "_estimates-": lambda folder: load_estimates(locate(folder)),
    "_features-": lambda folder: load_features(locate(folder), FEATURES.id),
    "_grt-": lambda folder: load_range_table(locate(folder), _identity(folder)),
}


def _identity(folder: Path) -> str:
    (path,) = folder.glob("_grt-*")
    return path.stem.removeprefix("_grt-")


def _plain(value: Any) -> Any:
    return value.to_json() if hasattr(value, "to_json") else value


def _read(read: Callable[[Path], Any], folder: Path) -> tuple[Any, str]:
    """What a sidecar says, or what is said to be wrong with it."""
    try:
        return _plain(read(folder)), ""
    except SidestepError as problem:
        return None, str(problem)


@pytest.mark.parametrize("kind", SIDECARS)
def test_no_flipped_bit_of_a_sidecar_changes_what_it_says(table: Path, kind: str) -> None:
    index = update_index(read_snapshot(table), COLUMNS, recipes=RECIPES)
    save_layout(index.folder, LayoutSpec("x", 500, ("d",), features=FEATURES.id))
    save_features(index.folder, FEATURES)
    save_estimates(index.folder, Estimates({"x": KeptShare(0.5, 0.25)}))
    folder = table / "_sidestep"
    (path,) = folder.glob(f"{kind}*")
    content, whole = path.read_bytes(), _plain(SIDECARS[kind](folder))
    noticed = 0
    for damaged in flips(content, 250):
        path.write_bytes(damaged)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found, problem = _read(SIDECARS[kind], folder)
        if problem:
            assert path.name in problem
            noticed += 1
            continue
        if found == whole:
            continue  # white space, a digit of an id in another case
        assert not found, "nothing is known, not something else"
        assert any(path.name in str(warning.message) for warning in caught)
        noticed += 1
    assert noticed >= 225


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def cut_by_one(content: bytes) -> bytes:
    return content[:-1]


def extended(content: bytes) -> bytes:
    return content + b"\x00"


def nothing(content: bytes) -> bytes:
    return b""


def zeros(content: bytes) -> bytes:
    return bytes(len(content))


def text(content: bytes) -> bytes:
    return b"PAR1 this is a text PAR1"


def endless_footer(content: bytes) -> bytes:
    return content[:-8] + b"\xff\xff\xff\xff" + content[-4:]


DAMAGES = [cut, cut_by_one, extended, nothing, zeros, text, endless_footer]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_and_made_anew(table: Path, damage: Callable[[bytes], bytes]) -> None:
    whole = everything(update_index(read_snapshot(table), COLUMNS, recipes=RECIPES))
    path = the_index_file(table)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(SidestepWarning, match=f"{path.name} is left out: it is damaged"):
        found = status(table)
    assert (found.indexed_files, len(found.problems)) == (0, 1)
    assert "Index the table again" in found.problems[0]
    again = update_index(read_snapshot(table), COLUMNS, recipes=RECIPES)
    assert everything(again) == whole
    assert not path.exists()
    assert status(table).problems == ()


def test_part_of_a_file_that_is_damaged_is_made_anew(table: Path) -> None:
    whole = everything(update_index(read_snapshot(table), COLUMNS, recipes=RECIPES))
    path = the_index_file(table)
    content = bytearray(path.read_bytes())
    content[300] ^= 4
    path.write_bytes(content)
    with pytest.warns(SidestepWarning, match=path.name):
        update_index(read_snapshot(table), COLUMNS, recipes=RECIPES)
    assert everything(open_index(table)) == whole
    assert not path.exists()


def test_the_file_of_another_table_says_nothing_of_this_one(table: Path, tmp_path: Path) -> None:
    """Entries count for the very files they were made from: path, size and time."""
    other = tmp_path / "other"
    shutil.copytree(table, other)
    for number, path in enumerate(sorted(other.rglob("f?"))):
        write_parquet(path, {"x": [7 * number], "s": ["other"]}, age=20)
    update_index(read_snapshot(table), {"x": LONG})
    theirs = update_index(read_snapshot(other), {"x": LONG})
    mine = the_index_file(table)
    shutil.copy(the_index_file(other), mine)
    with pytest.warns(SidestepWarning, match="its content is another than its name says"):
        assert len(open_index(table).files) == 0, "under the name of this table's file"
    mine.unlink()
    shutil.copy(the_index_file(other), table / "_sidestep")
    index = open_index(table)
    assert len(index.files) == len(theirs.files)
    assert (index.positions(read_snapshot(table).files) == -1).all(), "under its own name"


def test_an_old_index_that_comes_back_is_told_or_out_of_date(table: Path) -> None:
    update_index(read_snapshot(table), {"x": LONG})
    old = the_index_file(table)
    before = old.read_bytes()
    write_parquet(table / "p=0" / "f0", {"x": [777]}, age=5)
    index = update_index(read_snapshot(table), {"x": LONG})
    newest = max((table / "_sidestep").glob("_index-*"))
    assert kept(index, "x", LONG, 777) == [("p=0/f0", 0)]
    newest.write_bytes(before)
    with pytest.warns(SidestepWarning, match=newest.name):
        index = open_index(table)
    newest.unlink()
    old.write_bytes(before)
    index = open_index(table)
    (now,) = (file for file in read_snapshot(table).files if file.path == "p=0/f0")
    assert index.positions([now]).tolist() == [-1], "the file is another since"


# ---- files from before there were digests


def test_an_index_without_digests_is_used_told_of_and_made_anew(table: Path) -> None:
    whole = everything(update_index(read_snapshot(table), COLUMNS, recipes=RECIPES))
    old = as_first_format(the_index_file(table))
    with pytest.warns(SidestepWarning, match=f"{old.name} is of an older format, without digests"):
        found = status(table)
    assert (found.indexed_files, found.problems, found.unchecked_files) == (5, (), 1)
    assert "1 of 1 index files have no digests" in found.advice
    assert everything(open_index(table)) == whole
    index = update_index(read_snapshot(table), COLUMNS)
    assert everything(index) == whole
    assert not old.exists()
    assert status(table).advice == ""


def test_what_has_no_digest_never_gets_one_unseen(table: Path) -> None:
    """Nothing of an old file but layouts is carried over: a bound that was damaged there would be vouched for."""
    update_index(read_snapshot(table), COLUMNS, recipes=RECIPES)
    path = the_index_file(table)
    rows = pq.read_table(path)
    wrong = rows.set_column(rows.column_names.index("upper:x"), "upper:x", rows["lower:x"])
    union = pa.array([b"\x01"] * len(rows), pa.binary())
    wrong = wrong.append_column("union", union).append_column("features", pa.array([ONE_FEATURE.id] * len(rows)))
    old = as_first_format(rewrite(path, wrong))
    with pytest.warns(SidestepWarning, match="without digests"):
        index = open_index(table)
    save_features(index.folder, ONE_FEATURE)
    assert kept(index, "x", LONG, 5) == [], "as it was damaged"
    rows = index_rows(table, {"x": LONG})
    for _ in range(9):
        append_blocks(index.folder, rows[:1], {"x": LONG})
    assert table_index.open_index(table).suspects == {old.name}, "no merge takes it in"
    index = update_index(read_snapshot(table), COLUMNS)
    assert len(index.index_files) == 1
    assert kept(index, "x", LONG, 5) == [("p=0/f0", 0)]
    assert index.layout.union.to_pylist() == [b"\x01"] * 5
    assert [text.as_py() for text in index.partition_texts("p") or ()] == ["0", "0", "0", "1", "1"]


def test_only_a_whole_table_is_made_anew(table: Path) -> None:
    update_index(read_snapshot(table), COLUMNS)
    old = as_first_format(the_index_file(table))
    with pytest.warns(SidestepWarning, match="without digests"):
        index = open_index(table)
    snapshot = read_snapshot(table)
    update_index(replace(snapshot, files=snapshot.files[:2], whole=False), COLUMNS, index)
    assert old.exists()
    assert len(open_index(table).files) == 5


# ---- what no writer of sidestep's makes


def deep_schema(path: Path) -> Path:
    return rewrite(path, metadata={"sidestep.schema": "[" * 100_000})


def deep_recipes(path: Path) -> Path:
    return rewrite(path, metadata={"sidestep.recipes": '{"x":' * 50_000})


def no_unicode(path: Path) -> Path:
    return rewrite(path, metadata={"sidestep.schema": b'{"\xff": "bigint"}'})


def long_number(path: Path) -> Path:
    return rewrite(path, metadata={"sidestep.rates": '{"x": ' + "9" * 100_000 + "}"})


def long_format(path: Path) -> Path:
    return rewrite(path, metadata={"sidestep.format": "9" * 100_000})


def odd_format(path: Path) -> Path:
    return rewrite(path, metadata={"sidestep.format": "²"})


def list_of_rates(path: Path) -> Path:
    return rewrite(path, metadata={"sidestep.rates": "[1, 2]"})


def no_digests(path: Path) -> Path:
    content = path.read_bytes()
    at = content.index(b"sidestep.digests")
    return seal(path, content[:at] + b"sidestep.Digests" + content[at + 16 :])


def paths_that_are_no_text(path: Path) -> Path:
    rows = pq.read_table(path)
    bad = pa.array([b"\xff\xfe"] * len(rows), pa.binary()).view(pa.string())
    return rewrite(path, rows.set_column(0, "path", bad))


def deep_groups(path: Path) -> Path:
    """A schema nested deeper than any stack is."""
    return seal(path, _nested_parquet(100_000))


def many_rows(path: Path) -> Path:
    """A file that says it has 2^60 rows."""
    content = path.read_bytes()
    body = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    metadata = pq.read_metadata(path)
    count = _varint(2 * metadata.num_rows)
    footer = content[body:-8]
    # The file's rows are field 3, an i64, after the list of the schema.
    marker = b"\x16" + count + b"\x19\x1c"
    assert footer.count(marker) == 1
    footer = footer.replace(marker, b"\x16" + _varint(2 * (1 << 60)) + b"\x19\x1c")
    return seal(path, content[:body] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _nested_parquet(depth: int) -> bytes:
    """A Parquet file without rows whose one column lies in ``depth`` groups, written byte by byte."""
    group = b"\x35\x02\x18\x01g\x15\x02\x00"  # repetition, name, one child
    leaf = b"\x15\x02\x25\x02\x18\x01x\x00"  # INT32, repetition, name
    root = b"\x48\x01r\x15\x02\x00"
    elements = root + group * depth + leaf
    footer = b"\x15\x02\x19\xfc" + _varint(depth + 2) + elements + b"\x16\x00\x19\x0c\x00"
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


HOSTILE = [
    deep_schema,
    deep_recipes,
    no_unicode,
    long_number,
    long_format,
    odd_format,
    list_of_rates,
    no_digests,
    paths_that_are_no_text,
    deep_groups,
    many_rows,
]


@pytest.mark.parametrize("make", HOSTILE)
def test_no_content_of_an_index_file_is_the_cause_of_another_error(table: Path, make: Callable[[Path], Path]) -> None:
    update_index(read_snapshot(table), COLUMNS, recipes=RECIPES)
    path = make(the_index_file(table))
    with pytest.warns(SidestepWarning, match=f"{path.name} is left out"):
        found = status(table)
    assert (found.indexed_files, len(found.problems)) == (0, 1)
    index = update_index(read_snapshot(table), COLUMNS, recipes=RECIPES)
    assert kept(index, "x", LONG, 5) == [("p=0/f0", 0)], "what is made anew counts"


def test_synopses_that_make_no_sense_cost_their_own_table(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = update_index(read_snapshot(table), COLUMNS, recipes=RECIPES)

    def fail(*args: object, **options: object) -> None:
        raise RecursionError("deep")

    monkeypatch.setattr(table_index, "column_zones", fail)
    index = open_index(table)
    with pytest.warns(SidestepWarning, match=r"The index in .* is damaged \(RecursionError"):
        assert index.catalog(COLUMNS).synopses == ()
    assert index.suspects == {the_index_file(table).name}
    assert len(index.problems) == 1


# ---- the checks themselves


@pytest.mark.parametrize("size", [0, 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT + 5])
def test_what_is_read_in_parts_is_what_was_written(tmp_path: Path, size: int) -> None:
    content = np.random.default_rng(size).bytes(size)
    (tmp_path / "f").write_bytes(content + b"footer")
    with pa.OSFile(str(tmp_path / "f")) as stream:
        reader = CheckedReader(stream, size, segment_digests(content))
        reader.verify()
        for begin, length in ((0, size), (0, 1), (size // 2, 10), (max(0, size - 3), 10), (size, 5), (size + 9, 1)):
            reader.seek(begin)
            assert reader.read(length) == content[begin : begin + length]
        assert reader.seek(-1, os.SEEK_END) == max(0, size - 1)
        assert reader.read() == content[-1:]
        with pytest.raises(SidestepError, match="no digest for some of its parts"):
            CheckedReader(stream, size, segment_digests(content) + b"\x00")


def test_a_name_without_a_stamp_is_a_random_one(table: Path) -> None:
    assert all(uuid.uuid4().hex[12] == "4" for _ in range(1_000))
    assert all(stamp(bytes([n]))[12] == "d" for n in range(256))
    update_index(read_snapshot(table), {"x": LONG})
    path = the_index_file(table)
    assert path.name[len("_index-00000001-") :][12] == "d"
    path = path.rename(path.with_name(f"_index-00000001-{uuid.uuid4().hex}.sidestep"))
    with pytest.raises(SidestepError, match="does not say that it is a sidestep index"):
        open_index_file(locate(path))
