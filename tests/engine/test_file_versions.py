"""Files that an agent wrote to, kept before each write and put back as they were at a point."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import refold
from refold.errors import Denied, Invalid, NotFound
from refold.system.contained_files import place_in, read, write


def opened(url: str = "memory:") -> refold.Context:
    context = refold.open("work", store=url, window=100_000)
    context.append({"role": "user", "content": "begin"})
    return context


def wrote(context: refold.Context, root: Path, path: str, text: str | None) -> int:
    """A write of a tool, or a removal; gives the head before it."""
    head = context.view.head
    context.files.keep(path, root=root)
    place = root / path
    if text is None:
        place.unlink()
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    context.append({"role": "user", "content": f"after {path}"})
    return head


def test_restore_puts_files_back_and_undo_takes_that_back(tmp_path: Path) -> None:
    """M-85"""
    (tmp_path / "a.py").write_text("one\n")
    context = opened()
    start = wrote(context, tmp_path, "a.py", "two\n")
    wrote(context, tmp_path, "new/b.py", "b\n")
    planned = context.restore(start, files=True, root=tmp_path, dry_run=True)
    assert [(one.path, one.change) for one in planned.changes] == [
        ("a.py", "change"),
        ("new/b.py", "remove"),
    ]
    assert "-two\n+one\n" in planned.changes[0].diff
    assert (tmp_path / "a.py").read_text() == "two\n", "a dry run changes nothing"
    assert context.view.head == planned.seq + 5

    context.restore(start, files=True, root=tmp_path)
    assert (tmp_path / "a.py").read_text() == "one\n"
    assert not (tmp_path / "new/b.py").exists()

    undone = context.undo(files=True, root=tmp_path)
    assert {one.path for one in undone.changes} == {"a.py", "new/b.py"}
    assert (tmp_path / "a.py").read_text() == "two\n"
    assert (tmp_path / "new/b.py").read_text() == "b\n"

    context.redo(files=True, root=tmp_path)
    assert (tmp_path / "a.py").read_text() == "one\n"
    assert not (tmp_path / "new/b.py").exists()


def test_files_stay_unless_they_are_asked_for(tmp_path: Path) -> None:
    """M-85: conversation only."""
    context = opened()
    start = wrote(context, tmp_path, "a.py", "two\n")
    assert context.restore(start).changes == []
    assert context.undo().changes == []
    assert (tmp_path / "a.py").read_text() == "two\n"


def test_some_files_can_be_chosen_and_files_alone_put_back(tmp_path: Path) -> None:
    """M-85: selected files, files only."""
    context = opened()
    start = wrote(context, tmp_path, "a.py", "a\n")
    wrote(context, tmp_path, "b.py", "b\n")
    slots = len(context.view.slots)
    done = context.files.put_back(start, root=tmp_path, only=["b.py"])
    assert [(one.path, one.change) for one in done] == [("b.py", "remove")]
    assert (tmp_path / "a.py").exists() and not (tmp_path / "b.py").exists()
    assert len(context.view.slots) == slots
    with pytest.raises(NotFound):
        context.files.put_back(start, root=tmp_path, only=["c.py"])


def test_the_difference_of_two_points_is_a_unified_diff(tmp_path: Path) -> None:
    """M-85: diff of two snapshots with one changed file."""
    context = opened()
    first = wrote(context, tmp_path, "a.py", "one\n")
    second = wrote(context, tmp_path, "a.py", "two\n")
    third = wrote(context, tmp_path, "a.py", "three\n")
    [one] = context.files.diff(second, third, root=tmp_path)
    assert (one.change, "-one\n+two\n" in one.diff) == ("change", True)
    context.checkpoint("end")
    wrote(context, tmp_path, "a.py", "four\n")
    [named] = context.files.diff(second, "end", root=tmp_path)
    assert "-one\n+three\n" in named.diff
    assert context.files.changes("end", root=tmp_path)[0].diff.endswith("-four\n+three\n")
    context.files.put_back("end", root=tmp_path)
    with pytest.raises(NotFound):
        context.files.diff("no such checkpoint")
    [now] = context.files.diff(first, root=tmp_path)
    assert (now.change, "+three\n" in now.diff) == ("create", True)


@settings(max_examples=25, deadline=None)
@given(
    writes=st.lists(
        st.tuples(st.sampled_from(["a.py", "b.py"]), st.sampled_from(["", "1\n", "2\n"])),
        max_size=6,
    ),
    data=st.data(),
)
def test_a_difference_backward_is_the_one_forward_reversed(
    tmp_path_factory: pytest.TempPathFactory,
    writes: list[tuple[str, str]],
    data: st.DataObject,
) -> None:
    """M-85"""
    root = tmp_path_factory.mktemp("work")
    context = opened()
    points = [wrote(context, root, path, text) for path, text in writes] + [context.view.head]
    first, last = (data.draw(st.sampled_from(points)) for _ in range(2))
    forward = {one.path: one for one in context.files.diff(first, last, root=root)}
    backward = {one.path: one for one in context.files.diff(last, first, root=root)}
    reverse = {"create": "remove", "remove": "create"}
    assert forward.keys() == backward.keys()
    for path, one in forward.items():
        assert backward[path].change == reverse.get(one.change, one.change)
        assert _changed(backward[path].diff, "+") == _changed(one.diff, "-")
        assert _changed(backward[path].diff, "-") == _changed(one.diff, "+")


def _changed(diff: str, sign: str) -> list[str]:
    return [line[1:] for line in diff.splitlines()[2:] if line.startswith(sign)]


def test_a_log_from_elsewhere_reaches_nothing_outside_of_the_folder(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "secret"
    root.mkdir()
    outside.write_text("secret")
    (root / "link").symlink_to(outside)
    context = opened()
    kept = context.artifacts.put("evil", name="x")
    for path in ("../secret", str(outside), "link", "a/../../secret", "\0", ".", ""):
        context.note("refold.file", {"path": path, "artifact": kept.id, "mode": 0o644})
    context.note("refold.file", {"path": 3})
    done = context.files.put_back(0, root=root)
    assert {one.change for one in done} == {"impossible"}
    assert outside.read_text() == "secret"


def test_what_lies_outside_is_not_kept(tmp_path: Path) -> None:
    context = opened()
    with pytest.raises(Denied):
        context.files.keep("../x", root=tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(Invalid):
        context.files.keep("folder", root=tmp_path)
    with pytest.raises(Invalid):
        context.files.changes(999, root=tmp_path)


def test_bytes_and_modes_come_back(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_bytes(b"\xff\x00\r\n")
    script.chmod(0o750)
    context = opened()
    start = context.view.head
    context.files.keep("run.sh", root=tmp_path)
    script.unlink()
    [one] = context.files.put_back(start, root=tmp_path)
    assert (one.change, "bytes" in one.diff) == ("create", True)
    assert script.read_bytes() == b"\xff\x00\r\n"
    assert script.stat().st_mode & 0o777 == 0o750


def test_a_file_that_was_changed_by_hand_is_kept_before_it_is_put_back(tmp_path: Path) -> None:
    context = opened()
    start = wrote(context, tmp_path, "a.py", "agent\n")
    (tmp_path / "a.py").write_text("by hand\n")
    context.restore(start, files=True, root=tmp_path)
    assert not (tmp_path / "a.py").exists()
    context.undo(files=True, root=tmp_path)
    assert (tmp_path / "a.py").read_text() == "by hand\n"


def test_versions_last_in_a_new_process(tmp_path: Path) -> None:
    url, root = f"sqlite:{tmp_path / 'x.db'}", tmp_path / "root"
    root.mkdir()
    with opened(url) as context:
        start = wrote(context, root, "a.py", "a\n")
    with refold.open("work", store=url) as again:
        again.restore(start, files=True, root=root)
        assert not (root / "a.py").exists()
    with refold.open("work", store=url) as third:
        third.undo(files=True, root=root)
    assert (root / "a.py").read_text() == "a\n"


STEPS = st.lists(
    st.tuples(st.sampled_from("ab"), st.none() | st.sampled_from(["1\n", "2\n", "3"])), max_size=6
)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(STEPS, st.data())
def test_any_point_can_be_restored_and_undone(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, str | None]],
    data: st.DataObject,
) -> None:
    """After any writes, the files at any point are what they were then; undo gives what was
    before the restore, and redo what was before the undo."""
    root = tmp_path_factory.mktemp("root")
    context = opened()
    states: list[tuple[int, dict[str, str]]] = []

    def now() -> dict[str, str]:
        return {path.name: path.read_text() for path in root.iterdir()}

    for name, text in steps:
        states.append((context.view.head, now()))
        if text is None and not (root / name).exists():
            continue
        wrote(context, root, name, text)
    states.append((context.view.head, now()))
    seq, then = data.draw(st.sampled_from(states))
    before = now()
    context.restore(seq, files=True, root=root)
    assert now() == then
    context.undo(files=True, root=root)
    assert now() == before
    context.redo(files=True, root=root)
    assert now() == then


# --- in which folder ---


FOLDERS = ("one", "two", "one/inner")


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    writes=st.lists(st.tuples(st.sampled_from(FOLDERS), st.sampled_from("ab")), max_size=6),
    where=st.sampled_from(FOLDERS),
    only=st.sampled_from([(), ("a",)]),
)
def test_only_files_of_the_folder_they_were_kept_in_are_put_back(
    tmp_path_factory: pytest.TempPathFactory,
    writes: list[tuple[str, str]],
    where: str,
    only: tuple[str, ...],
) -> None:
    root = tmp_path_factory.mktemp("work")
    context = opened()
    start = context.view.head
    for folder in FOLDERS:
        (root / folder).mkdir(exist_ok=True)
        for name in "ab":
            (root / folder / name).write_text("before\n")
    context.files.keep("a", root=root / "two")  # so that there always is one
    for folder, name in writes:
        wrote(context, root / folder, name, "after\n")
    for one in context.files.diff(start, root=root / where):
        assert (one.change == "impossible") == ("kept in" in one.reason)
    done = context.files.put_back(start, root=root / where, only=only)
    for folder in FOLDERS:
        for name in "ab":
            is_back = folder == where and (not only or name in only)
            is_left = (folder, name) in writes and not is_back
            said = (root / folder / name).read_text()
            assert said == ("after\n" if is_left else "before\n"), (folder, name)
    for one in done:
        assert (one.change == "impossible") == ("which is not this folder" in one.reason)


def test_files_of_a_folder_that_was_moved_are_put_back_if_they_are_named(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    (old / "a.py").write_text("one\n")
    context = opened()
    start = wrote(context, old, "a.py", "two\n")
    old.rename(new)
    [alone] = context.restore(start, files=True, root=new).changes
    assert alone.change == "impossible" and "names the file" in alone.reason
    assert str(old) in alone.reason
    for _ in range(2):  # once more, when it was kept in the new folder, too
        context.restore(start, files=["a.py"], root=new)
        assert (new / "a.py").read_text() == "one\n"
        context.undo(files=True, root=new)
        assert (new / "a.py").read_text() == "two\n"


def test_a_version_that_names_no_folder_is_put_back_if_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("two\n")
    context = opened()
    kept = context.artifacts.put("one\n", name="a.py")
    context.note("refold.file", {"path": "a.py", "artifact": kept.id})
    [left] = context.files.put_back(0, root=tmp_path)
    assert left.change == "impossible" and (tmp_path / "a.py").read_text() == "two\n"
    context.files.put_back(0, root=tmp_path, only=["a.py"])
    assert (tmp_path / "a.py").read_text() == "one\n"


# --- files inside a folder ---


def test_links_inside_are_followed_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "short").symlink_to("real")
    place = place_in(tmp_path, "short/a")
    write(place, b"x")
    assert (tmp_path / "real/a").read_bytes() == b"x"
    (tmp_path / "out").symlink_to("/etc")
    with pytest.raises(Denied):
        place_in(tmp_path, "out/passwd")


def test_a_link_that_appears_after_the_look_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    place = place_in(tmp_path, "sub/a")
    (tmp_path / "sub").rmdir()
    (tmp_path / "sub").symlink_to("/tmp")
    with pytest.raises(Invalid):
        write(place, b"x")
    with pytest.raises(Invalid):
        read(place)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Invalid):
        read(place_in(tmp_path, "pipe"))
    with pytest.raises(Invalid):
        write(place_in(tmp_path, "pipe"), b"x")


@given(st.text(max_size=30))
def test_no_path_leads_out(path: str) -> None:
    try:
        place = place_in("/usr/share", path)
    except (Denied, Invalid):
        return
    assert os.path.realpath(place.path).startswith("/usr/share")


# --- notes that came with a clone ---

HOOK = "#!/bin/sh\ntouch owned\n"
ACTED_ON = (
    ".mcp.json",
    ".claude/settings.json",
    ".vscode/tasks.json",
    "sub/.env",
    "refold.toml",
    "Refold.TOML",
    "\u200c.env",
)
NEVER = (
    *(".git/hooks/pre-commit", ".GIT/config", ".g\u200cit/config", ".git. /config", "git~1/config"),
    *("sub/.git/config", ".git", ".refold/refold.db", "sub/.Refold/x", ".hg/hgrc", ".jj/x"),
    *("link/a.py", "linked.py", "hooks/pre-commit", "./a.py", "sub//a.py", "sub/../a.py"),
)
PLAIN = ("a.py", "sub/b.sh", "new/c.py", "run.sh")


def clone(folder: Path) -> Path:
    """A project with a repository, links, and an executable file."""
    root = folder / "project"
    for name in ("sub", ".git/hooks", ".refold", "real"):
        (root / name).mkdir(parents=True)
    (root / "a.py").write_text("mine\n")
    (root / "a.py").chmod(0o640)
    (root / "run.sh").write_text("mine\n")
    (root / "run.sh").chmod(0o750)
    (root / ".git/config").write_text("[core]\n")
    (root / ".refold/refold.db").write_text("data")
    (root / "hooks").symlink_to(".git/hooks")
    (root / "link").symlink_to("real")
    (root / "linked.py").symlink_to("a.py")
    return root


def state(root: Path) -> dict[str, tuple[bytes, int]]:
    files = (one for one in root.rglob("*") if one.is_file() and not one.is_symlink())
    return {str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode) for path in files}


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from([*NEVER, *ACTED_ON, *PLAIN]),
    mode=st.none() | st.integers(0, 0o7777),
    is_named=st.booleans(),
    root_named=st.sampled_from(["here", "gone", ""]),
    removes=st.booleans(),
)
def test_a_planted_note_writes_only_plain_files_of_the_project_with_a_mode_that_is_shown(
    tmp_path_factory, path, mode, is_named, root_named, removes
):
    root = clone(tmp_path_factory.mktemp("clone"))
    context = opened()
    kept = "" if removes else context.artifacts.put(HOOK, name="x").id
    note_root = {"here": str(root), "gone": str(root.parent / "gone"), "": ""}[root_named]
    note = {"path": path, "artifact": kept, "mode": mode, "root": note_root}
    context.note("refold.file", note)
    only = [path] if is_named else []
    before = state(root)
    [planned] = context.files.changes(0, root=root, only=only)
    assert state(root) == before
    [done] = context.files.put_back(0, root=root, only=only)
    assert done == planned
    changed = {name for name, was in (before | state(root)).items() if before.get(name) != was}
    changed |= before.keys() - state(root).keys()
    is_plain = path in PLAIN and (root_named == "here" or is_named)
    if not is_plain and not (path in ACTED_ON and is_named):
        assert done.change == "impossible" and done.reason and changed == set()
        return
    assert changed <= {path}
    if removes or path not in state(root):
        return
    now = state(root)[path][1] & 0o7777
    was = before.get(path, (b"", 0))[1] & 0o7777
    assert now & 0o7000 == 0 and now & 0o600 == 0o600 and now & 0o002 == 0
    assert now & ~planned.mode == 0 and planned.mode_before == was
    if was:
        assert now & 0o666 == was & 0o666
    if now & 0o111:
        assert (mode is not None and mode & 0o111) or was & 0o111
        assert planned.mode & 0o111


@given(st.lists(st.sampled_from([".git", ".refold", "a", "B", "x.py"]), min_size=1, max_size=4))
def test_nothing_inside_the_data_of_git_or_refold_is_ever_put_back(tmp_path_factory, names):
    root = tmp_path_factory.mktemp("root")
    context = opened()
    kept = context.artifacts.put(HOOK, name="x").id
    path = "/".join(names)
    context.note("refold.file", {"path": path, "artifact": kept, "root": str(root)})
    [done] = context.files.put_back(0, root=root, only=[path])
    is_inside = not {".git", ".refold"}.isdisjoint(names)
    assert (done.change == "impossible") == is_inside
    assert (root / path).exists() == (not is_inside)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 0o7777), st.integers(0, 0o7777) | st.none())
def test_no_written_file_runs_as_another_user(tmp_path, before, mode):
    place = place_in(tmp_path, "x")
    for was in (None, before):
        if was is not None:
            (tmp_path / "x").chmod(was)
        write(place, b"x", mode=mode)
        assert (tmp_path / "x").stat().st_mode & 0o7000 == 0
    (tmp_path / "x").unlink()
