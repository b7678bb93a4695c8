"""Sidecars: an addressed one is what its name says, of numbered ones the newest that can be read counts."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from sidestep.errors import SidestepError, SidestepWarning
from sidestep.store.location import locate
from sidestep.store.sidecars.sidecar import Addressed, JsonObject, Numbered, read_object


def dump(value: int) -> dict[str, Any]:
    return {"format": 1, "value": value}


def parse(written: JsonObject, source: str) -> int:
    if written["format"] != 1:
        raise SidestepError(f"{source} is newer.")
    return int(written["value"])


def digest(value: int) -> str:
    return hashlib.sha256(str(value).encode()).hexdigest()[:16]


NOTES: Numbered[int] = Numbered("notes", dump, parse)
VALUES: Addressed[int] = Addressed("value", 16, digest, dump, parse)


def test_the_newest_note_counts_and_names_never_collide(tmp_path: Path) -> None:
    folder = locate(tmp_path)
    assert NOTES.load(folder) is None
    for value in (5, 3, 4):
        NOTES.save(folder, value)
    assert NOTES.load(folder) == 4
    assert [name[:15] for name in NOTES.names(folder)] == [f"_notes-0000000{n}" for n in (1, 2, 3)]
    assert [each["value"] for each in NOTES.objects(folder).values()] == [5, 3, 4]


@pytest.mark.parametrize("text", ["", "[]", "3", "{half", '{"format": 9}', "{}", '{"format": 1, "value": "x"}', "\xff"])
def test_a_damaged_or_newer_note_is_passed_over_by_name(tmp_path: Path, text: str) -> None:
    folder = locate(tmp_path)
    NOTES.save(folder, 7)
    NOTES.save(folder, 8)
    newest = NOTES.names(folder)[-1]
    (tmp_path / newest).write_bytes(text.encode("latin-1"))
    with pytest.warns(SidestepWarning, match=f"{newest} is left out"):
        assert NOTES.load(folder) == 7
    NOTES.save(folder, 9)
    assert NOTES.load(folder) == 9, "what comes after a damaged one still has a greater number"


def test_other_files_are_no_notes(tmp_path: Path) -> None:
    for name in ("_notes-1-a.json", f"_notes-00000001-{'0' * 31}.json", f"notes-00000001-{'0' * 32}.json"):
        (tmp_path / name).write_text(json.dumps(dump(1)))
    assert NOTES.names(locate(tmp_path)) == ()


def test_an_addressed_value_is_written_once_and_repaired(tmp_path: Path) -> None:
    folder = locate(tmp_path)
    assert VALUES.load(folder, digest(5)) is None
    VALUES.save(folder, 5)
    path = Path(VALUES.file(folder, digest(5)).path)
    os.utime(path, (1, 1))
    VALUES.save(folder, 5)
    assert path.stat().st_mtime == 1, "the one that is there stays"
    path.write_text("{")
    with pytest.raises(SidestepError, match=path.name):
        VALUES.load(folder, digest(5))
    VALUES.save(folder, 5)
    assert VALUES.load(folder, digest(5)) == 5


@pytest.mark.parametrize("text", ["[]", "{}", json.dumps(dump(6)), '{"format": 9}', '{"format": 1, "value": []}'])
def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path: Path, text: str) -> None:
    path = Path(VALUES.file(locate(tmp_path), digest(5)).path)
    path.write_text(text)
    with pytest.raises(SidestepError, match=path.name):
        VALUES.load(locate(tmp_path), digest(5))


def test_what_is_no_address_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text(json.dumps(dump(1)))
    assert VALUES.load(locate(tmp_path), "../secret") is None
    assert VALUES.load(locate(tmp_path), digest(1).upper()) is None


def test_unused_files_are_old_and_not_named(tmp_path: Path) -> None:
    folder = locate(tmp_path)
    for value in (1, 2, 3):
        VALUES.save(folder, value)
    for value in (1, 2):
        os.utime(VALUES.file(folder, digest(value)).path, (1, 1))
    (tmp_path / f"_other-{digest(4)}.json").write_text("{}")
    assert VALUES.unused(folder, {digest(1)}, 2_000) == [VALUES.file(folder, digest(2))]
    assert VALUES.unused(locate(tmp_path / "none"), (), 2_000) == []


def test_deep_json_is_damaged_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(SidestepError, match="cannot be read"):
        read_object(locate(tmp_path / "deep.json"))
