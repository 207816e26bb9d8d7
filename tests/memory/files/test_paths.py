"""No text leads out of the folder, none is raised about, and what is refused says why."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.errors import RefoldError
from refold.memory.files.commands import ROOT, fault, parsed
from tests.memory.files.kit import call, contents, opened, outside, refused, said, tree

REFUSED = [
    # dot-dot
    "/memories/../canary.txt", "/memories/../memories-evil/canary.txt", "/memories/a/../../canary.txt",
    "/memories/nope/../../x", "/memories/notes.md/../../x", "/memories////..////..", "/memories/..",
    "/memories/./../x", "/memories/a/./b", "/memories/.", "/memories//a", "/memories/a//b",
    # absolute, and other roots
    "/etc/passwd", "/proc/self/environ", "/proc/self/root/etc/passwd", "/dev/zero", "//server/share",
    "C:\\x", "\\\\?\\C:\\x", "file:///etc/passwd", "/", "", "~", "~/x", ".", "..", "../x", "..\\x",
    # prefixes
    "/memories_evil/x", "/memoriesfoo", "/memories.bak/x", "/memories-evil/canary.txt", "/Memories/x",
    "memories/x", "//memories/x", " /memories/x", "/memories /x", "/outside/secret", "/mem\u200bories/x",
    # encodings
    "/memories/%2e%2e/x", "/memories/..%2fx", "/memories/%252e%252e/x", "/memories/%c0%ae/x", "/memories/%u002e/x",
    # look-alikes
    "/memories/．．/x", "/memories/‥/x", "/memories/a∕b", "/memories/a⁄b", "/memories/\u2024\u2024/x",
    "/memories/\u212a.md", "/memories/ﬁle", "/memories/a＼b", "/memories/e\u0301.md", "/memories/a╱b",
    # control and format characters
    "/memories/a\0b", "/memories/a\nb", "/memories/\x1b[31m", "/memories/\x7f", "/memories/\x9b1m",
    "/memories/\u202etxt.md", "/memories/a\u200bb", "/memories/\ufeffa", "/memories/a\u2028b", "/memories/\ud800",
    "/memories/\U000e0041", "/memories/\u3164", "/memories/a\ufe0f", "/memories/\ue000",
    # shapes that mean something on Windows
    "/memories/a\\b", "/memories/CON", "/memories/nul.txt", "/memories/Com1.md", "/memories/notes.md:stream",
    "/memories/a.", "/memories/a ", "/memories/ a", "/memories/a/CON/b", "/memories/a?", "/memories/a*",
    # lengths
    "/memories/" + "a" * 256, "/memories/" + "é" * 200, "/memories/" + "a/" * 2_048, "/memories/" + "a" * 300 + "/x",
]  # fmt: skip
ALLOWED = ["/memories", "/memories/", "/memories/a/b.md", "/memories/.hidden", "/memories/ñandú.md", "/memories/日本.md",
           "/memories/100%.md", "/memories/a b.md", "/memories/" + "a" * 255, "/memories/console.md", "/memories/&#46;"]  # fmt: skip


@pytest.mark.parametrize("path", REFUSED, ids=lambda one: ascii(one)[:40])
def test_no_path_leads_out_of_the_folder(tmp_path, path):
    """Y-61, Y-63."""
    outside(tmp_path)
    files = opened(tmp_path)
    said(files, "create", "/memories/notes.md", file_text="kept")
    before = contents(tmp_path / "outside"), contents(tree(tmp_path))
    answers = [
        call(files, "view", path),
        call(files, "create", path, file_text="x"),
        call(files, "str_replace", path, old_str="canary", new_str="x"),
        call(files, "insert", path, insert_line=0, insert_text="x"),
        call(files, "delete", path),
        call(files, "rename", old_path=path, new_path="/memories/stolen"),
        call(files, "rename", old_path="/memories/notes.md", new_path=path),
    ]
    for answer in answers:
        assert answer.is_error and "the tool failed" not in answer.text
        assert str(tmp_path) not in answer.text and "canary:" not in answer.text
        assert answer.text.isprintable() and len(answer.text) < 600
    assert before == (contents(tmp_path / "outside"), contents(tree(tmp_path)))


@pytest.mark.parametrize("path", ALLOWED, ids=lambda one: ascii(one)[:40])
def test_plain_paths_are_taken_as_they_are(path):
    """Y-61."""
    assert str(parsed(path)) == path.rstrip("/")


PIECES = [
    "..", ".", "", "a", "notes.md", "memories", "/", "//", "\\", "..\\", "%2e%2e", "%2f", "．．", "∕", "\0", "\n", "\u202e",
    "CON", "etc", "passwd", "canary.txt", "outside", "link", "~", "é", "e\u0301", "x" * 256, " ", "\ud800", "base", "C:",
]  # fmt: skip


def hostile_paths(number: int) -> list[str]:
    choose = random.Random(11)
    heads = [
        "/memories/",
        "/memories/link/",
        "/memories",
        "",
        "/",
        "../",
        "/memories/../",
        "/memories/a/",
    ]
    return [
        choose.choice(heads)
        + choose.choice(["/", "", "//"]).join(choose.choices(PIECES, k=choose.randint(1, 6)))
        for _ in range(number)
    ]


def test_a_thousand_hostile_paths_escape_nowhere_and_raise_nothing(tmp_path):
    """Y-61, Y-62, Y-71, X-50."""
    away = outside(tmp_path)
    files = opened(tmp_path)
    said(files, "create", "/memories/a/notes.md", file_text="kept")
    (tree(tmp_path) / "link").symlink_to(away)
    beside = {
        name: text for name, text in contents(tmp_path).items() if name.endswith("canary.txt")
    }
    for number, path in enumerate(hostile_paths(1_000)):
        command = [
            {"command": "view", "path": path},
            {"command": "create", "path": path, "file_text": "x"},
            {"command": "delete", "path": path},
            {"command": "rename", "old_path": "/memories/a/notes.md", "new_path": path},
            {"command": "rename", "old_path": path, "new_path": "/memories/stolen.md"},
        ][number % 5]
        answer = files.call(command)
        assert "the tool failed" not in answer.text, (path, answer.text)
        assert "canary:" not in answer.text and str(tmp_path) not in answer.text, path
        if call(files, "view", "/memories/a/notes.md").is_error:
            files.undo()
    after = {
        name: text
        for name, text in contents(tmp_path).items()
        if name.endswith("canary.txt") and "base/memories/" not in name
    }
    assert after == beside
    assert set(contents(away)) == {"canary.txt"}


@settings(max_examples=500)
@given(st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=6).map("/".join))
def test_a_parsed_path_has_only_names_that_stay_where_they_are(text):
    """Y-61."""
    for given_path in (text, f"/memories/{text}"):
        try:
            path = parsed(given_path)
        except RefoldError as error:
            assert str(error).isprintable()
            continue
        assert str(path) == given_path.removesuffix("/") and str(path).startswith(ROOT)
        assert not any(fault(name) or "/" in name for name in path.names)


def test_names_of_our_own_files_do_not_clash(tmp_path):
    files = opened(tmp_path)
    for name in ("lock", ".lock", "staging", "history.db", ".tmp-1", "index.jsonl", "memories"):
        said(files, "create", f"/memories/{name}", file_text=name)
    assert len(contents(tree(tmp_path))) == 7
    assert refused(files, "view", "/memories/../lock")
