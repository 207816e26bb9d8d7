"""Plain files of refold: opened only if they are what was put there, and every error says what to
do."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from refold.errors import Corrupt, Denied, RefoldError, Unavailable
from refold.system import disk


@pytest.mark.parametrize(
    ("number", "expected", "step"),
    [
        (errno.ENOSPC, Unavailable, "space"),
        (errno.EDQUOT, Unavailable, "space"),
        (errno.EROFS, Unavailable, "read-only"),
        (errno.EACCES, Denied, "owner"),
        (errno.EPERM, Denied, "owner"),
        (errno.EIO, Unavailable, "disk"),
    ],
)
def test_a_failed_system_call_says_what_to_do(
    number: int, expected: type[RefoldError], step: str
) -> None:
    error = disk.os_failure(OSError(number, os.strerror(number)), "cannot write x")
    assert type(error) is expected and step in error.hint
    assert error.message == f"cannot write x: {os.strerror(number)}"


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "other size"])
def test_what_is_not_the_file_that_was_put_there_is_corrupt(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    match kind:
        case "link":
            (tmp_path / "secret").write_bytes(b"12345")
            path.symlink_to(tmp_path / "secret")
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case _:
            path.write_bytes(b"1234567")
    with pytest.raises(Corrupt, match="file"):
        disk.open_regular(str(path), 5)
    with pytest.raises(Corrupt, match="file"):
        disk.check_size(str(path), 5)
    assert disk.is_regular(str(path)) == (kind == "other size")


def test_a_file_of_the_known_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    for size_bytes in (5, None):
        with disk.open_regular(str(path), size_bytes) as file:
            assert file.read() == b"12345"
    disk.check_size(str(path), 5)
    assert disk.is_regular(str(path))


def test_a_file_that_is_gone_is_for_the_reader_to_miss(tmp_path: Path) -> None:
    disk.check_size(str(tmp_path / "gone"), 5)
    assert not disk.is_regular(str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError):
        disk.open_regular(str(tmp_path / "gone"))


@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_folders_are_for_the_owner_alone_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        disk.make_folder(str(tmp_path / "a" / "b"))
        disk.make_folder(str(tmp_path / "a" / "b"))
    finally:
        os.umask(before)
    for folder in (tmp_path / "a", tmp_path / "a" / "b"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_descriptor_is_closed_also_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyError), disk.closing(disk.open_folder(str(tmp_path))) as fd:
        os.fstat(fd)
        raise KeyError
    with pytest.raises(OSError):
        os.fstat(fd)


def test_a_file_is_replaced_whole_for_its_owner_alone(tmp_path: Path) -> None:
    path, other = tmp_path / "kept", tmp_path / "other"
    other.write_bytes(b"not ours")
    path.symlink_to(other)
    disk.replace_file(str(path), b"one")
    disk.replace_file(str(path), b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert other.read_bytes() == b"not ours"


def test_a_file_that_cannot_be_replaced_leaves_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "kept" / "full").mkdir(parents=True)
    with pytest.raises(OSError):
        disk.replace_file(str(tmp_path / "kept"), b"one")
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]
