"""Stores, settings, memories and host files are used only if no other user could have written them,
or if this user trusts them. Who may have written them is asked of the system, never of the files.

The tests own files as root does, so root alone can generate owners; everybody else generates the
other half of the class, by modes."""

from __future__ import annotations

import importlib
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

import refold
from refold.edges import statusline
from refold.edges.hooks import follower, state
from refold.edges.host_config import place_of, read
from refold.errors import Denied
from refold.memory.files.descriptors import place_of as memories_of
from refold.settings.sources import default_store, from_files
from refold.system import disk, posix
from tests.edges.cli.rooms import as_json, run
from tests.edges.hooks.inputs import SESSION, Transcript

IS_ROOT = os.geteuid() == 0
# Two users and two groups of nobody, and a user who runs refold; as root, that is another one.
ME, OTHER = (54_321, 54_322) if IS_ROOT else (os.geteuid(), os.geteuid())
OWNERS = [0, ME, OTHER] if IS_ROOT else [ME]
MY_GROUP = ME if IS_ROOT else os.getegid()
GROUPS = [MY_GROUP, OTHER] if IS_ROOT else [MY_GROUP]
MODES = [0o700, 0o755, 0o770, 0o775, 0o777, 0o1777, 0o1770, 0o702]
KINDS = [".refold", ".refold/refold.db", "above", "between", "link", "target of a link"]


@pytest.fixture
def top() -> Iterator[Path]:
    """A folder that other users can reach, in one that is open to all, like /tmp itself."""
    folder = Path(os.path.realpath(tempfile.mkdtemp()))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def as_me(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Makes this process one of the user `ME` until the test ends."""
    # Imported before, because this user may not be able to read the installation.
    importlib.import_module("grp")
    posix.user_name(0)
    monkeypatch.setenv("XDG_DATA_HOME", "/nowhere")
    monkeypatch.delenv("SUDO_UID", raising=False)
    groups = os.getgroups()

    def become() -> None:
        if IS_ROOT:
            os.setgroups([])
            os.setegid(MY_GROUP)
            os.seteuid(ME)

    try:
        yield become
    finally:
        if IS_ROOT:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(groups)


def is_ours(owner: int, group: int, mode: int, *, is_above: bool) -> bool:
    """The rule, in other words than those of the code."""
    writers = {"owner"} | {who for bit, who in ((0o20, group), (0o2, "all")) if mode & bit}
    protected = is_above and mode & 0o1000
    return owner in (0, ME) and (bool(protected) or writers <= {"owner", MY_GROUP})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [0, 2])
def test_a_store_is_found_exactly_if_no_other_user_can_have_written_it(
    kind: str, depth: int, top: Path, as_me: Callable[[], None]
) -> None:
    depth += kind == "between"
    cases = []
    for number, (owner, group, mode) in enumerate(product(OWNERS, GROUPS, MODES)):
        project = top / str(number)
        here = project / "/".join("abc"[:depth])
        (project / ".refold").mkdir(parents=True)
        here.mkdir(parents=True, exist_ok=True)
        (project / ".refold" / "refold.db").touch(mode=0o600)
        if "link" in kind:
            (project / "elsewhere").mkdir()
            shutil.rmtree(project / ".refold")
            (project / ".refold").symlink_to("elsewhere")
        for path in (project, *project.rglob("*")):
            if IS_ROOT:
                os.chown(path, ME, MY_GROUP, follow_symlinks=False)
        places = {"above": project, "between": here, "target of a link": project / "elsewhere"}
        judged = places.get(kind, project / kind)
        if kind == "link":
            judged = project / ".refold"
        if IS_ROOT:
            os.chown(judged, owner, group, follow_symlinks=False)
        if kind != "link":
            judged.chmod(mode)
        # The mode of a link counts nowhere.
        is_above = kind in ("above", "between")
        expected = is_ours(owner, group, 0o700 if kind == "link" else mode, is_above=is_above)
        # Whoever owns it, a link needs the user's permission.
        expected = expected and "link" not in kind
        cases.append((here, project / ".refold" / "refold.db", expected, judged))
    as_me()
    for here, database, expected, judged in cases:
        try:
            found = default_store(here)
        except Denied as error:
            found = error.message
            if found.startswith(disk.UNKNOWN):
                continue  # the system itself keeps it from this user
        if expected:
            assert found == f"sqlite:{database}"
        else:
            named = database.parent if "link" in kind else judged
            assert f" can write {str(named)!r}, so it is not used" in found.replace('"', "'")


def access_list(path: Path, named: int, who: int, allowed: int, mask: int) -> None:
    """Gives a path an access control list with one named user (2) or group (8)."""
    rows = [(1, 7, -1), (4, 5, -1), (0x10, mask, -1), (0x20, 5, -1), (named, allowed, who)]
    packed = (struct.pack("<HHi", *row) for row in sorted(rows))
    try:
        os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(packed))
    except OSError as error:  # pragma: no cover
        pytest.skip(f"this disk has no access control lists: {error}")


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="this system shows no such lists")
@pytest.mark.parametrize("judged", [".", ".refold", ".refold/refold.db"])
def test_an_access_control_list_tells_who_else_can_write(
    judged: str, top: Path, as_me: Callable[[], None]
) -> None:
    cases = []
    entries = product((2, 8), (ME, 0, 54_323), (4, 5, 7), (5, 7))
    for number, (named, who, allowed, mask) in enumerate(entries):
        project = top / str(number)
        (project / ".refold").mkdir(parents=True)
        (project / ".refold" / "refold.db").touch(mode=0o600)
        for path in (project, *project.rglob("*")) if IS_ROOT else ():
            os.chown(path, ME, MY_GROUP)
        access_list(project / judged, named, who, allowed, mask)
        mine = (0, ME) if named == 2 else (MY_GROUP,)
        cases.append((project, who in mine or not allowed & mask & 2))
    as_me()
    for project, expected in cases:
        if expected:
            assert default_store(project) == f"sqlite:{project / '.refold' / 'refold.db'}"
        else:
            with pytest.raises(Denied, match="can write"):
                default_store(project)


def test_a_chain_of_links_is_followed_to_its_end(top: Path, as_me: Callable[[], None]) -> None:
    inner = top / "open"
    inner.mkdir()
    (inner / "store").mkdir()
    (top / ".refold").symlink_to("first")
    (top / "first").symlink_to("open/store")
    (top / "loop").symlink_to("loop")
    as_me()
    with pytest.raises(Denied, match=f"the author of the link to {inner / 'store'} can write"):
        default_store(top)
    if IS_ROOT:
        os.seteuid(0)
    inner.chmod(0o777)
    as_me()
    with pytest.raises(Denied, match=r"anybody can write .*\.refold"):
        default_store(top)
    assert disk.foreign_writer(str(top / "loop")) == disk.UNKNOWN


def test_the_user_who_called_sudo_owns_what_root_uses(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = top.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    status = os.stat_result([0o40700, 0, 0, 0, OTHER + 1, 0, 0, 0, 0, 0])
    monkeypatch.setattr(os, "lstat", lambda path: status)
    for sudo, is_fine in (
        ("", False),
        (str(OTHER + 1), True),
        (str(OTHER + 2), False),
        ("x", False),
    ):
        monkeypatch.setenv("SUDO_UID", sudo)
        assert (disk.foreign_writer(str(top)) == "") is is_fine, owner


@pytest.mark.parametrize("name", [".refold", ".refold/refold.db", ".refold/memory"])
@pytest.mark.parametrize("is_relative", [True, False])
def test_a_link_that_a_clone_brings_is_used_only_after_permission_for_its_target(
    name: str, is_relative: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = planted(tmp_path, monkeypatch)
    uses = [memory_files] if name.endswith("memory") else [library, memory_files]
    for target in ("one", "two"):
        own = project / name
        shutil.move(own, tmp_path / target)
        own.symlink_to(
            f"{'../' * name.count('/')}../{target}" if is_relative else tmp_path / target
        )
        before = contents(tmp_path / target)
        for use in uses:
            with pytest.raises(Denied, match=f"link to {tmp_path / target} can write"):
                use(project)
        assert contents(tmp_path / target) == before
        assert f"the author of the link to {tmp_path / target} can write" in run("allow").stdout
        for use in uses:
            assert use(project) == "used"
        own.unlink()
        shutil.move(tmp_path / target, own)


# --- every way in ---

SECRET = "the password of prod is hunter2"


def library(project: Path) -> str:
    with refold.open("talk") as context:
        context.append({"role": "user", "content": SECRET})
        return "used"


def command(project: Path) -> str:
    talk = project.parent / "talk.json"
    talk.write_text(f'[{{"role": "user", "content": "{SECRET}"}}]')
    return said("import", str(talk))


def said(*words: str) -> str:
    done = run(*words)
    assert done.exit_code in (0, 7, 8), done.output
    return done.stderr if done.exit_code == 7 else "used"


def proxy(project: Path) -> str:
    return said("proxy", "--check")


def agent(project: Path) -> str:
    return said("run", "true")


def mcp(project: Path) -> str:
    return said("mcp", "--check")


def hook(project: Path) -> str:
    transcript = Transcript(project.parent)
    transcript.say("user", SECRET)
    follower.main([SESSION, str(transcript.path), ""])
    log = Path(state.root()) / state.ERRORS
    return log.read_text() if log.exists() else "used"


def line(project: Path) -> str:
    # A status line says nothing of what is wrong.
    return "used" if statusline.line("@1") else "so it is not used"


def memory(project: Path) -> str:
    return said("memory", "add", SECRET)


def memory_files(project: Path) -> str:
    memories_of("project")
    return "used"


def settings(project: Path) -> str:
    return "used" if from_files(None) else ""


def doctor(project: Path) -> str:
    owner = as_json("doctor")["store"]["owner"]
    return "so it is not used" if owner.endswith("(not used)") else "used"


def host_files(project: Path) -> str:
    place = place_of("claude-code", "project")
    read(place)
    return said("install", "claude-code", "--yes")


STORES = (".refold", ".refold/refold.db", "project")
ENTRIES = [
    *product((library, command, proxy, agent, mcp, hook, line, memory, doctor), STORES),
    *product((memory_files,), (*STORES, ".refold/memory", ".refold/memory/project")),
    *product((library, settings, command, hook, line), ("refold.toml",)),
    *product((library, settings), ("pyproject.toml", "project")),
    *product((host_files,), ("project", ".mcp.json")),
    *product((doctor,), ("refold.toml", "pyproject.toml", ".mcp.json")),
]


@pytest.mark.parametrize(
    ("entry", "kind"), [pytest.param(e, k, id=f"{e.__name__} {k}") for e, k in ENTRIES]
)
@pytest.mark.parametrize("fault", ["owner", "mode"] if IS_ROOT else ["mode"])
def test_no_way_in_uses_what_another_user_could_have_written(
    entry: Callable[[Path], str],
    kind: str,
    fault: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = planted(tmp_path, monkeypatch)
    path = project if kind == "project" else project / kind
    if fault == "owner":
        os.chown(path, OTHER, OTHER)
    else:
        path.chmod(path.stat().st_mode | 0o002)
    before = contents(project)
    try:
        answer = entry(project)
    except Denied as error:
        answer = error.message
    assert "so it is not used" in answer
    assert contents(project) == before
    assert run("allow").exit_code == 0
    if entry is hook:
        (Path(state.root()) / state.ERRORS).unlink()
    if entry is not agent:  # a second test starts it: tests/system/test_own_python.py
        assert entry(project) == "used"


def planted(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with everything in it that refold would use, all of it the user's own."""
    project = root / "project"
    (project / ".refold" / "memory" / "project").mkdir(parents=True)
    monkeypatch.chdir(project)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(root / name.lower()))
    for name in ("REFOLD_STORE", "CLAUDE_PROJECT_DIR", "SUDO_UID"):
        monkeypatch.delenv(name, raising=False)
    with refold.open("planted", model="gpt-4o") as context:
        context.append({"role": "user", "content": "hello"})
    (project / "refold.toml").write_text("tokens_cap = 50_000\n")
    (project / "pyproject.toml").write_text("[tool.refold]\ntokens_cap = 60_000\n")
    (project / ".mcp.json").write_text("{}\n")
    return project


def contents(project: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}


def test_a_permission_ends_when_it_is_taken_back_and_with_a_new_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = planted(tmp_path, monkeypatch)
    project.chmod(0o777)
    shown = run("allow").stdout
    assert f"anybody can write {project}." in shown
    assert f"refold may use the store and files in {project}." in shown
    library(project)
    assert "may no longer use" in run("allow", "--revoke").stdout
    with pytest.raises(Denied):
        library(project)
    run("allow")
    library(project)
    if IS_ROOT:
        os.chown(project, OTHER, OTHER)
        with pytest.raises(Denied, match="the user 54322 can write"):
            library(project)


@pytest.mark.skipif(not IS_ROOT, reason="only root can own files as two other users do")
def test_who_is_trusted_in_a_folder_is_no_other_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = planted(tmp_path, monkeypatch)
    os.chown(project / ".refold", OTHER, OTHER)
    run("allow")
    library(project)
    os.chown(project / "refold.toml", OTHER, OTHER)
    assert settings(project) == "used"
    os.chown(project / "refold.toml", OTHER + 1, OTHER)
    with pytest.raises(Denied, match="the user 54323 can write"):
        settings(project)


def test_trust_in_a_folder_is_no_permission_for_the_writer_that_its_files_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = planted(tmp_path, monkeypatch)
    project.chmod(0o777)
    (project / "refold.toml").write_text('[writer]\nurl = "http://127.0.0.1:9/v1"\nmodel = "m"\n')
    assert as_json("allow")["url"] == ""
    refused = run("compact", "planted", "--writer")
    assert refused.exit_code == 7 and "refold allow" in refused.stderr
    assert as_json("allow")["url"] == "http://127.0.0.1:9/v1"


def test_files_without_settings_may_be_of_anybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(tmp_path, monkeypatch)
    for name in ("refold.toml", "pyproject.toml"):
        Path(name).write_text("[tool.other]\nx = 1\n" if name == "pyproject.toml" else "")
        Path(name).chmod(0o666)
    assert [table for _, table in from_files(None)] == [{}, {}]
