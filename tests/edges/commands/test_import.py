"""`refold import` as a person uses it: files, folders, what is on the machine, what can be read."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from refold.edges.importers import SOURCES
from tests.edges.cli.rooms import as_json, on_terminal, run
from tests.edges.importers import transcripts
from tests.edges.importers.test_recorded import RECORDED, database
from tests.edges.importers.transcripts import SESSION, write

pytestmark = pytest.mark.usefixtures("alone")


def test_a_session_is_imported_and_imported_again(url: str, tmp_path: Path) -> None:
    file = str(write(tmp_path / "s.jsonl", transcripts.parallel()))
    first = run("import", file)
    assert first.exit_code == 0 and f"is now claude-code-{SESSION}" in first.stdout
    assert "5 messages, 5 new" in first.stdout
    assert "5 messages, 0 new" in run("import", file).stdout
    assert "one.py and two.py." in run("show", f"claude-code-{SESSION}").stdout
    assert run("verify").exit_code == 0


def test_the_branch_that_a_rewound_session_left_is_a_command_away(url: str, tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    for words in (["one", "two", "three"], ["one", "four"]):
        file.write_text(json.dumps([{"role": "user", "content": word} for word in words]))
        done = run("import", str(file))
    said = " ".join(done.stdout.split())
    assert "The session was rewound: 2 messages taken back. To go back: refold " in said
    assert "undo" not in said
    back = said.partition("To go back: refold ")[2].partition(";")[0].split()
    beside = said.partition("to keep both: refold ")[2].split()
    assert run(*(word.replace("NEW", "left") for word in beside)).exit_code == 0
    assert run(*back).exit_code == 0
    for id in (back[1], "left"):
        shown = run("show", id).stdout
        assert "three" in shown and "four" not in shown


def test_a_file_that_may_bring_back_an_erased_message_is_refused(url: str, tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    for words in (["one", "a secret"], ["something else, which is longer", "a secret"]):
        file.write_text(json.dumps([{"role": "user", "content": word} for word in words]))
        done = run("import", str(file), "--id", "m")
        if words[0] == "one":
            assert run("erase", "m", "3", "--yes").exit_code == 0
    said = " ".join(done.stderr.split())
    assert "m.json, element 1: new since you erased part of m" in said and "--id m-2" in said
    assert "secret" not in run("show", "m").stdout
    assert run("import", str(file), "--id", "m-2").exit_code == 0


def test_branches_that_were_left_before_are_a_command_away_too(url: str, tmp_path: Path) -> None:
    lines = [
        transcripts.user("u1", None, "Begin."),
        transcripts.user("u2", "u1", "The way that was left."),
        transcripts.user("u3", "u1", "The way that was taken."),
    ]
    file = str(write(tmp_path / "s.jsonl", lines))
    said = " ".join(run("import", file).stdout.split())
    assert (
        "1 message of branches that were left are only notes. To make them forks: refold import"
        in said
    )
    again = run("import", file, "--branches")
    assert again.exit_code == 0 and "only notes" not in again.stdout
    shown = run("show", f"claude-code-{SESSION}-left-u2").stdout
    assert "Begin." in shown and "The way that was left." in shown and "taken" not in shown


def test_a_session_goes_through_a_pipe(url: str, tmp_path: Path) -> None:
    content = write(tmp_path / "s.jsonl", transcripts.parallel()).read_bytes()
    assert "standard input is now mine" in run("import", "-", "--id", "mine", input=content).stdout


def test_lines_that_were_not_understood_are_shown(url: str, tmp_path: Path) -> None:
    file = write(tmp_path / "s.jsonl", transcripts.parallel())
    with file.open("a") as end:
        end.write('{"type": "user", "mess')
    done = run("import", str(file))
    assert done.exit_code == 2 and "s.jsonl, line 9: not JSON" in done.stdout
    assert "5 messages, 5 new" in done.stdout


def test_what_is_not_understood_in_a_list_is_an_element(url: str, tmp_path: Path) -> None:
    said = [{"role": "user", "content": "Hello"}, 5, {"role": "assistant", "content": "Hi."}]
    for name, value, element in (("l", said, 2), ("o", {"messages": said}, 2)):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
        done = run("import", f"{name}.json")
        assert done.exit_code == 2 and "2 messages, 2 new" in done.stdout
        assert f"{name}.json, element {element}: " in done.stdout and "line" not in done.stdout
        [report] = as_json("import", f"{name}.json")["files"]
        assert (report["unit"], report["unread"][0]["line"]) == ("element", element)


def test_what_is_not_understood_is_told_each_time_and_is_no_message(
    url: str, tmp_path: Path
) -> None:
    said = [
        {"role": "user", "content": "Hello"},
        {"role": "narrator", "content": "A door opens."},
        {"role": "assistant", "content": "Hi."},
    ]
    (tmp_path / "m.json").write_text(json.dumps({"messages": said, "system": {"no": "prompt"}}))
    for new in (2, 0, 0):
        done = run("import", "m.json", "--id", "m")
        assert done.exit_code == 2 and f"(2 messages, {new} new)" in " ".join(done.stdout.split())
        assert "m.json, element 1: " in done.stdout and "m.json, element 2: " in done.stdout
        [report] = as_json("import", "m.json", "--id", "m")["files"]
        assert report["unread_total"] == 2 and "'narrator'" in report["unread"][1]["reason"]
    listed = {one["id"]: one["messages"] for one in as_json("list")["conversations"]}
    assert listed["m"] == 2


def test_what_is_too_large_is_told_each_time(url: str, tmp_path: Path) -> None:
    said = [{"role": "user", "content": text} for text in ("Hello", "x" * (17 << 20))]
    (tmp_path / "m.json").write_text(json.dumps(said))
    for new in (1, 0):
        done = run("import", "m.json")
        assert done.exit_code == 2 and "not kept: " in done.stdout
        assert f"(1 message, {new} new)" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "lines",
    [
        [{"role": "user", "content": "Hi"}, {"type": "session_meta", "payload": {"id": "x"}}],
        [{"role": "narrator", "content": "A door opens."}, {"role": "choir", "content": "Oh!"}],
        transcripts.rollout()[:2],
    ],
)
def test_a_file_without_a_message_leaves_nothing(
    lines: list[transcripts.Line], url: str, tmp_path: Path
) -> None:
    file, before = str(write(tmp_path / "s.jsonl", lines)), as_json("list")
    for id in ([], ["--id", "mine"]):
        done = run("import", file, *id)
        assert "s.jsonl has no messages." in " ".join(done.stdout.split())
        assert ("line 1: " in done.stdout) == (done.exit_code == 2) == ("role" in lines[0])
    assert as_json("list") == before


@pytest.mark.parametrize("cut", range(20, 200, 20))
def test_a_list_that_was_cut_says_where(cut: int, url: str, tmp_path: Path) -> None:
    whole = json.dumps([{"role": "user", "content": f"part {n}"} for n in range(5)], indent=1)
    assert 0 < len(whole[:cut]) < len(whole)
    (tmp_path / "cut.json").write_text(whole[:cut])
    done = run("import", "cut.json")
    line = whole[:cut].rstrip().count("\n") + 1
    assert done.exit_code == 2 and f"cut.json, line {line}: the file is cut off" in done.stderr


@pytest.mark.parametrize("command", ["import", "replay"])
def test_a_file_that_is_missing_says_what_can_be_read(command: str, url: str) -> None:
    done = run(command, "missing.json")
    assert done.exit_code == 3 and "refold export" not in done.stderr
    assert command == "replay" or "import --list" in done.stderr


def test_a_file_that_needs_the_extra_says_so_by_its_exit_status(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "backports", None)
    (tmp_path / "r.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd packed")
    done = run("import", "r.jsonl.zst")
    assert done.exit_code == 8 and "refold[zstd]" in " ".join(done.stderr.split())
    good = str(write(tmp_path / "s.jsonl", transcripts.parallel()))
    assert run("import", "r.jsonl.zst", good).exit_code == 2


def test_a_folder_gives_its_sessions_and_passes_over_the_rest(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "all" / "deep"
    folder.mkdir(parents=True)
    write(folder / "s.jsonl", transcripts.parallel())
    write(folder / "r.jsonl", transcripts.rollout())
    (folder / "package.json").write_text('{"name": "x"}')
    (folder / "link.jsonl").symlink_to(folder / "s.jsonl")
    done = as_json("import", str(tmp_path / "all"))
    assert [report["source"] for report in done["files"]] == ["codex", "claude-code"]
    assert done["failed"] == {}
    assert run("import", str(tmp_path / "all"), "--id", "x").exit_code == 2


@pytest.mark.parametrize("name", [b"\xff", b"caf\xe9", "☃".encode()])
def test_a_file_of_a_folder_may_have_any_name(url: str, tmp_path: Path, name: bytes) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name + b".json"))
    try:
        path.write_text('[{"role": "user", "content": "Hello"}]')
    except OSError:
        pytest.skip("this disk has names of text only")
    for new in (1, 0):
        [report] = as_json("import", str(tmp_path))["files"]
        assert report["file"] == os.fsencode(path).decode("utf-8", "replace")
        assert [session["new"] for session in report["sessions"]] == [new]


def test_of_several_files_the_good_ones_are_imported(url: str, tmp_path: Path) -> None:
    good = write(tmp_path / "s.jsonl", transcripts.parallel())
    (tmp_path / "bad.json").write_text("hello")
    done = run("import", str(tmp_path / "bad.json"), str(good))
    assert done.exit_code == 2
    assert "bad.json" in done.stdout and "5 messages, 5 new" in done.stdout


def test_a_scan_says_what_there_is_and_imports_when_it_may(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    assert "No sessions were found" in run("import", "--scan").stdout
    project = tmp_path / "claude" / "projects" / "-home-user"
    project.mkdir(parents=True)
    write(project / f"{SESSION}.jsonl", transcripts.parallel())
    asked = run("import", "--scan")
    assert asked.stdout.count("Claude Code: 1 file") == 1 and "Nothing was imported" in asked.stdout
    assert [one["source"] for one in as_json("import", "--scan")["found"]] == ["claude-code"]
    done = run("import", "--scan", "--yes").stdout
    assert "1 session with 5 new messages" in done and "refold replay --all" in done
    assert f"claude-code-{SESSION}" not in done


def test_a_scan_says_a_line_for_each_project_and_agent_and_nothing_of_what_is_unchanged(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    folders = ["/home/me/shop", "/home/me/shop", "/work/shop", "/home/me/notes"]
    files = []
    for position, folder in enumerate(folders):
        lines = [{**line, "cwd": folder} for line in transcripts.parallel()]
        text = "\n".join(map(json.dumps, lines)).replace(SESSION, f"{SESSION[:-1]}{position}")
        files.append(tmp_path / "claude" / "projects" / f"p{position}" / f"s{position}.jsonl")
        files[-1].parent.mkdir(parents=True)
        files[-1].write_text(text)
    done = run("import", "--scan", "--yes")
    rows = [line.split() for line in done.stdout.splitlines()[1:4]]
    assert rows == [
        ["/home/me/shop", "claude", "2", "10"],
        ["notes", "claude", "1", "5"],
        ["/work/shop", "claude", "1", "5"],
    ]
    assert "4 sessions with 20 new messages" in done.stdout
    again = run("import", "--scan", "--yes")
    assert again.exit_code == 0 and "Nothing is new in 4 files." in again.stdout
    assert "shop" not in again.stdout and as_json("import", "--scan", "--yes")["projects"] == []
    with files[3].open("a") as file:
        file.write("\nnot a line")
    broken = run("import", "--scan", "--yes")
    assert broken.exit_code == 2 and "1 line not understood" in broken.stdout


@pytest.mark.parametrize(("typed", "imported"), [("n\n", False), ("\n", False), ("y\n", True)])
def test_a_scan_that_asks_says_once_what_there_is(
    typed: str, imported: bool, tmp_path: Path
) -> None:
    project = tmp_path / "claude" / "projects" / "-home-user"
    project.mkdir(parents=True)
    write(project / f"{SESSION}.jsonl", transcripts.parallel())
    environ = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
    status, shown = on_terminal(
        "import", "--scan", cwd=tmp_path, typed=typed, when="Import 1 file", **environ
    )
    shown = " ".join(shown.split())
    assert status == 0 and shown.count("Claude Code: 1 file") == 1
    assert (
        ("1 session with 5 new messages" in shown) == imported != ("Nothing was imported" in shown)
    )


def test_a_scan_looks_where_every_program_keeps_its_sessions(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "CLINE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    kept = {
        "gemini-cli.jsonl": ".gemini/tmp/shop/chats/session-1.jsonl",
        "cline.messages.json": ".cline/data/sessions/1/1.messages.json",
    }
    for name, place in kept.items():
        (home / place).parent.mkdir(parents=True)
        shutil.copy(RECORDED / name, home / place)
    (home / ".local/share/opencode").mkdir(parents=True)
    database(home / ".local/share/opencode/opencode.db")
    shutil.copytree(RECORDED / "openhands", home / ".openhands/conversations/1")
    found = as_json("import", "--scan", "--yes")
    assert [one["source"] for one in found["found"]] == [
        "gemini-cli", "opencode", "cline", "openhands",
    ]  # fmt: skip
    assert [one["sessions"][0]["messages"] for one in found["files"]] == [5, 4, 4, 4]


def test_what_can_be_read_is_listed_with_what_it_was_tried_on(url: str) -> None:
    listed = as_json("import", "--list")["sources"]
    assert [one["source"] for one in listed] == [*SOURCES]
    assert all(one["tried"] for one in listed)
    assert "not run here" in run("import", "--list").stdout.replace("\n", " ")


def test_a_file_is_named_or_there_is_nothing_to_do(url: str) -> None:
    assert run("import").exit_code == 2


def test_control_characters_of_a_session_never_reach_the_terminal(url: str, tmp_path: Path) -> None:
    lines = [transcripts.user("u1", None, "hello"), {"type": "summary", "summary": "\x1b[2Jtitle"}]
    lines.append({"type": 5, "sessionId": "\x1b]0;x\x07"})
    (tmp_path / "s.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    done = run("import", str(tmp_path / "s.jsonl"))
    assert "\x1b[2J" not in done.stdout and "\x07" not in done.stdout


@pytest.mark.parametrize("content", [None, "{}", "text", "[]"])
def test_a_folder_without_a_session_is_named(content: str | None, tmp_path: Path) -> None:
    (tmp_path / "empty" / "below").mkdir(parents=True)
    if content is not None:
        (tmp_path / "empty" / "below" / "x.json").write_text(content)
    done = run("import", str(tmp_path / "empty"))
    assert done.exit_code == 3 and f"there are no sessions in {tmp_path / 'empty'}" in done.stderr
