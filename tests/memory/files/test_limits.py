"""Sizes, numbers and depth are bounded, and long views come in pages."""

from __future__ import annotations

import os
import re
from contextlib import suppress

import pytest

from refold.errors import Invalid
from refold.memory import FileLimits, MemoryFiles
from tests.memory.files.kit import contents, opened, refused, said, tree

NOTES = "/memories/notes.md"


def test_one_more_than_a_limit_is_refused_and_nothing_is_written(tmp_path):
    """Y-73."""
    limits = FileLimits(file_bytes=10, total_bytes=25, files=3, depth=2)
    files = opened(tmp_path, limits=limits)
    assert "11 bytes" in refused(files, "create", NOTES, file_text="x" * 11)
    assert "levels" in refused(files, "create", "/memories/a/b/c.md", file_text="")
    assert contents(tmp_path / "base" / "memories") == {}
    for name in ("a/1", "2"):
        said(files, "create", f"/memories/{name}", file_text="é" * 5)
    assert "26 bytes" in refused(files, "create", "/memories/3", file_text="x" * 6)
    said(files, "create", "/memories/3", file_text="x" * 5)
    assert "3 files" in refused(files, "create", "/memories/4", file_text="")
    assert "27 bytes" in refused(files, "insert", "/memories/3", insert_line=1, insert_text="")
    assert "12 bytes" in refused(files, "insert", "/memories/2", insert_line=1, insert_text="")
    assert "levels" in refused(files, "rename", old_path="/memories/a", new_path="/memories/b/a")
    assert "levels" in refused(files, "rename", old_path="/memories/2", new_path="/memories/b/c/2")
    assert contents(tree(tmp_path)) == {"a/1": "é" * 5, "2": "é" * 5, "3": "x" * 5}
    assert not (tree(tmp_path) / "b").exists()


def test_what_is_over_a_limit_already_may_still_shrink(tmp_path):
    """Y-73."""
    files = opened(tmp_path, limits=FileLimits(file_bytes=100, total_bytes=50))
    said(files, "create", NOTES, file_text="")
    (tree(tmp_path) / "notes.md").write_text("x" * 200 + "cut")
    said(files, "str_replace", NOTES, old_str="cut", new_str="")
    assert len(contents(tree(tmp_path))["notes.md"]) == 200
    assert "bytes" in refused(files, "insert", NOTES, insert_line=0, insert_text="y")


def test_ten_megabytes_are_refused_by_their_size(tmp_path):
    """Y-73."""
    files = opened(tmp_path)
    assert "10,000,000 bytes" in refused(files, "create", NOTES, file_text="x" * 10_000_000)
    said(files, "create", NOTES, file_text="ab")
    for old in ("y" * 10_000_000, "a"):
        text = refused(files, "str_replace", NOTES, old_str=old, new_str="x" * 10_000_000)
        assert len(text) < 2_000


def test_a_long_view_comes_in_pages_with_a_notice(tmp_path):
    """Y-73."""
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="x")
    lines = [f"line {n} {'x' * 40}" for n in range(1, 100_001)]
    (tree(tmp_path) / "notes.md").write_text("\n".join(lines))
    assert (tree(tmp_path) / "notes.md").stat().st_size > 5_000_000
    seen: list[str] = []
    span = [1, 5_000]
    while True:
        text = said(files, "view", NOTES, view_range=span)
        assert len(text) < 33_000
        seen += [row.split("\t")[1] for row in text.split("\n") if "\t" in row]
        more = re.search(
            r"Lines .* of 100,000 are shown. View again with view_range (\[\d+, \d+\])", text
        )
        if not more:
            break
        span = [int(number) for number in re.findall(r"\d+", more[1])]
    assert seen == lines[:5_000]


def test_one_line_that_is_longer_than_a_page_is_cut_and_said(tmp_path):
    """Y-73."""
    files = opened(tmp_path, limits=FileLimits(view_chars=200))
    said(files, "create", NOTES, file_text="x" * 1_000 + "\nsecond\n")
    text = said(files, "view", NOTES)
    assert "x" * 200 in text and "x" * 201 not in text
    assert text.endswith(
        "[Line 1 is cut: it has 1,000 characters. View again with view_range [2, 2].]"
    )
    text = said(files, "str_replace", NOTES, old_str="second", new_str="y\n" * 300)
    assert len(text) < 1_600 and text.endswith("[The snippet is cut.]")


def test_a_long_list_is_cut_and_said(tmp_path):
    files = opened(tmp_path, limits=FileLimits(view_chars=200))
    for n in range(30):
        said(files, "create", f"/memories/{n}.md", file_text="")
    text = said(files, "view", "/memories")
    assert len(text) < 500 and "more are not shown" in text


def test_more_lines_than_the_vendor_allows_are_said_in_its_words(tmp_path):
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="")
    (tree(tmp_path) / "notes.md").write_text("\n" * 1_000_000)
    text = refused(files, "view", NOTES)
    assert text == f"File {NOTES} exceeds maximum line limit of 999,999 lines."


def test_limits_that_are_none_are_refused(tmp_path):
    for wrong in ({"files": 0}, {"depth": 99}, {"file_bytes": "1"}, {"view_chars": 1.5}):
        with pytest.raises(Invalid, match="limits"):
            MemoryFiles(folder=str(tmp_path), limits=FileLimits(**wrong))


def test_a_folder_that_is_too_deep_to_keep_is_not_deleted(tmp_path):
    """Y-73."""
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="x")
    deep = tree(tmp_path) / "deep"
    for _ in range(70):
        deep.mkdir()
        deep /= "d"
    for command, given in [
        ("delete", {"path": "/memories/deep"}),
        ("rename", {"old_path": "/memories/deep", "new_path": "/memories/b"}),
    ]:
        assert "too many" in refused(files, command, **given)
    assert (tree(tmp_path) / "deep").exists()
    assert said(files, "view", "/memories").endswith("1B\t/memories/notes.md")


def descriptors() -> set[tuple[str, str]]:
    """What is open, by number. What earlier tests left may be closed meanwhile."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
    return found


def test_no_descriptor_is_left_open(tmp_path):
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="x\n")
    (tree(tmp_path) / "link").symlink_to("/")
    before = descriptors()
    for path in (
        NOTES,
        "/memories",
        "/memories/link/x",
        f"{NOTES}/x",
        "/memories/a/b/c",
        "/memories/..",
    ):
        for command, given in [
            ("view", {"path": path}),
            ("create", {"path": path, "file_text": "x"}),
            ("insert", {"path": path, "insert_line": 0, "insert_text": "x"}),
            ("rename", {"old_path": path, "new_path": "/memories/link/y"}),
            ("delete", {"path": f"{path}/nope"}),
        ]:
            files.call({"command": command, **given})
    assert descriptors() <= before
