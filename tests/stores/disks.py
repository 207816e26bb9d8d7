"""Disks that misbehave on purpose: full, read-only, or cut off from power. They need root; tests
say so and skip."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SHUTDOWN = 0x8004587D
WITHOUT_LOG_FLUSH = 2

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


def run(*command: str | Path) -> str:
    """The command's output; a failure names the command and what it said."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextlib.contextmanager
def tmpfs(place: Path, size_bytes: int) -> Iterator[Path]:
    """A small disk in memory."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    place.mkdir(exist_ok=True)
    try:
        run("mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=700", "tmpfs", place)
    except OSError as error:
        pytest.skip(f"mount of a tmpfs is not allowed here: {error}")
    try:
        yield place
    finally:
        run("umount", "-l", place)


class Disk:
    """An ext4 file system in a file, on a loop device, whose power can be cut."""

    def __init__(self, folder: Path, *, size_mb: int = 24) -> None:
        self.image, self.place = folder / "disk.img", folder / "disk"
        self.place.mkdir()
        self.image.write_bytes(b"")
        os.truncate(self.image, size_mb * 1024 * 1024)
        run("mkfs.ext4", "-q", "-F", "-m", "0", self.image)
        self.mount()

    def mount(self) -> None:
        run("mount", "-o", "loop", self.image, self.place)

    def unmount(self) -> None:
        run("umount", self.place)

    def clear(self) -> None:
        """Removes all files, for good."""
        for path in self.place.iterdir():
            shutil.rmtree(path)
        os.sync()

    def cut(self) -> None:
        """All that was not synced is gone, as after power loss; then the disk comes back.

        Nobody may write meanwhile: where this call meets a sync in flight, the kernel lets that
        sync report success and loses it (seen with a plain write and fsync in 4 of 400 cuts), which
        no real disk would do.
        """
        fd = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", WITHOUT_LOG_FLUSH))
        finally:
            os.close(fd)
        self.unmount()
        self.mount()


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    """A disk whose power can be cut, or a skip that names what is missing."""
    if os.geteuid() != 0:
        pytest.skip("a loop device needs root")
    for tool in ("mkfs.ext4", "mount", "umount"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    try:
        made = Disk(folder)
    except OSError as error:
        pytest.skip(f"no loop device with ext4 can be mounted here: {error}")
    try:
        yield made
    finally:
        run("umount", "-l", made.place)
