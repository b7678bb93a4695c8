from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyarrow import fs

from sidestep.errors import SidestepError
from sidestep.store.location import (
    FileStatus,
    Location,
    delete,
    is_folder,
    list_files,
    list_names,
    locate,
    open_file,
    stat,
    write_once,
)


@pytest.fixture
def remote(tmp_path: Path) -> Location:
    """The same folder through pyarrow's own file system calls, as a remote store would be."""
    return Location(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "t", "test://t")


@pytest.mark.parametrize("text", ["file:{}", "file://{}", "{}", "{}/", "file://localhost{}"])
def test_hadoop_forms_of_a_local_path_are_one_location(tmp_path: Path, text: str) -> None:
    located = locate(text.format(tmp_path))
    assert (located.path, located.uri, located.local) == (str(tmp_path), f"file:{tmp_path}", True)


def test_nothing_is_percent_decoded(tmp_path: Path) -> None:
    folder = tmp_path / "a%20b"
    folder.mkdir()
    (folder / "x%3Dy").write_text("hello")
    assert [status.path for status in list_files(locate(f"file://{folder}"))] == ["x%3Dy"]


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert locate("t/x").path == str(tmp_path / "t" / "x")


@pytest.mark.parametrize("text", ["", "file:", "nosuch://host/a"])
def test_an_unusable_path_is_a_sentence(text: str) -> None:
    with pytest.raises(SidestepError, match=r"[.:] "):
        locate(text)


def test_the_parent_and_child_of_a_location() -> None:
    located = locate("/data/t")
    assert located.child("a=1/x").uri == "file:/data/t/a=1/x"
    assert (located.parent.path, located.parent.parent.path, locate("/").child("x").path) == ("/data", "/", "/x")


@pytest.mark.parametrize("nanoseconds", [1_700_000_000_999_999_999, 1_700_000_000_000_000_000, 1])
def test_times_are_whole_milliseconds_rounded_down(tmp_path: Path, remote: Location, nanoseconds: int) -> None:
    (tmp_path / "t").mkdir()
    path = tmp_path / "t" / "f"
    path.write_bytes(b"12345")
    os.utime(path, ns=(nanoseconds, nanoseconds))
    expected = FileStatus("f", 5, nanoseconds // 1_000_000)
    assert stat(locate(path)) == expected
    assert list_files(locate(path.parent)) == [expected]
    assert list_files(remote) == [expected]
    assert stat(remote.child("f")) == expected


def test_listing_goes_down_but_not_into_what_is_hidden(tmp_path: Path, remote: Location) -> None:
    for name in ["b", "a/x", "a/.y", "a/b/c", "_h/z", "é/ü"]:
        path = tmp_path / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    os.symlink(tmp_path / "nowhere", tmp_path / "t" / "dangling")
    os.symlink(tmp_path / "t" / "a", tmp_path / "t" / "link")

    def hidden(name: str) -> bool:
        return name.startswith((".", "_"))

    expected = ["a/b/c", "a/x", "b", "link/b/c", "link/x", "é/ü"]
    assert [status.path for status in list_files(locate(tmp_path / "t"), hidden)] == expected
    through_arrow = [status.path for status in list_files(remote, hidden)]
    assert set(through_arrow) >= {"a/b/c", "a/x", "b", "é/ü"}
    assert not any("z" in path or ".y" in path for path in through_arrow)


def test_a_name_that_is_not_text_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "good").write_text("x")
    with open(os.fsencode(tmp_path) + b"/bad\xff", "w") as stream:
        stream.write("x")
    assert [status.path for status in list_files(locate(tmp_path))] == ["good"]


def test_stat_of_what_is_no_file(tmp_path: Path, remote: Location) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "f").write_text("x")
    for place in (locate(tmp_path / "t"), remote):
        assert stat(place) is None
        assert is_folder(place)
        assert stat(place.child("nothing")) is None
        assert stat(place.child("f/below")) is None
        assert not is_folder(place.child("f"))
        assert sorted(list_names(place)) == ["f"]
        assert list_names(place.child("nothing")) == []


def test_write_once_never_overwrites_and_leaves_nothing_half_done(tmp_path: Path, remote: Location) -> None:
    for place in (locate(tmp_path / "local"), remote):
        target = place.child("deep/file")
        write_once(target, lambda stream: stream.write(b"first"))
        with pytest.raises(SidestepError, match="exists already"):
            write_once(target, lambda stream: stream.write(b"second"))

        def fail(stream: object) -> None:
            raise RuntimeError("half way")

        with pytest.raises(RuntimeError, match="half way"):
            write_once(place.child("deep/other"), fail)
        with open_file(target) as stream:
            assert stream.read() == b"first"
        assert list_names(target.parent) == ["file"]
        delete(target)
        delete(target)
        assert list_names(target.parent) == []


def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SidestepError, match="index_dir"):
        write_once(locate(tmp_path / "file" / "x"), lambda stream: stream.write(b"x"))
