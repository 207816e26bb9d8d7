"""`refold restore`, `points`, `checkpoint` and `diff`: going back to a point, and seeing what
lies between two."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import refold
from refold.core.model import View
from refold.edges.cli.screen import Screen
from refold.edges.commands.command import point_seq, seq_of
from refold.edges.commands.session import Session
from refold.edges.commands.undo import confirm_changes
from refold.errors import Conflict, Denied, Invalid, NotFound, RefoldError
from refold.log.undo import FileChange
from tests.edges.cli.rooms import as_json, run
from tests.edges.commands.golden import printed, refused

pytestmark = pytest.mark.usefixtures("alone")

SWITCHED_OFF = """\
Off the page: 11 messages. Back on it: 0 messages.
3 requests of the user taken back:
  #11 user: question 2 about login.py
  #14 user: question 3 about login.py
  #17 user: question 4 about login.py
1 call since then stays billed: 900 tokens in, 9 out, $0.0028.
"""


def test_a_dry_run_says_what_would_be_switched_off_and_changes_nothing(url: str) -> None:
    before = as_json("show", "fix-login", "--all")
    assert printed("restore", "fix-login", "9", "--dry-run") == (
        "fix-login would be restored to #9.\n"
        + SWITCHED_OFF
        + "Nothing was changed. Do it with: refold restore fix-login 9\n"
    )
    assert as_json("show", "fix-login", "--all") == before


def test_a_restore_to_the_head_changes_nothing_and_names_no_undo(url: str) -> None:
    """An undo would take back the step before."""
    before = as_json("show", "fix-login", "--all")
    head = as_json("show", "fix-login")["head"]
    said = f"fix-login is at #{head} already; nothing was changed.\n"
    assert printed("restore", "fix-login", str(head)) == said
    assert printed("restore", "fix-login", str(head), "--dry-run") == said
    assert as_json("show", "fix-login", "--all") == before


def test_restore_names_what_it_switched_off_and_its_way_back(url: str) -> None:
    before = as_json("show", "fix-login")["slots"]
    assert printed("restore", "fix-login", "#9") == (
        "fix-login is restored to #9.\n" + SWITCHED_OFF + "Undo with: refold undo fix-login\n"
    )
    assert [slot["seq"] for slot in as_json("show", "fix-login")["slots"]] == [4, 5, 6, 7, 8]
    run("undo", "fix-login")
    assert as_json("show", "fix-login")["slots"] == before


def test_restore_as_json_has_the_same_facts(url: str) -> None:
    told = as_json("restore", "fix-login", "9", "--dry-run")
    assert told["dry_run"] is True and told["seq"] == 9
    assert [row["seq"] for row in told["requests"]] == [11, 14, 17]
    assert [row["seq"] for row in told["off"]] == [10, *range(11, 21)] and told["back"] == []
    assert told["billed"]["calls"] == 1 and told["billed"]["input"] == 900


def test_restore_names_files_changed_since(url: str) -> None:
    with refold.open("fix-login", store=url) as context:
        head = context.view.head
        call = {"type": "tool_use", "id": "w", "name": "write_file"}
        content = [{**call, "input": {"path": "src/login.py", "content": "pass"}}]
        context.append({"role": "assistant", "content": content})
        context.append_result("w", "written")
    assert "1 file changed since, left as on disk:\n  src/login.py\n" in printed(
        "restore", "fix-login", str(head), "--dry-run"
    )


def test_restore_without_a_point_lists_the_points(url: str) -> None:
    assert printed("restore", "fix-login") == printed("history", "--points", "fix-login")


def test_a_checkpoint_is_a_point_by_its_name(url: str) -> None:
    assert printed("checkpoint", "fix-login", "before it") == (
        "\"before it\" is fix-login at #21.\nGo back with: refold restore fix-login 'before it'\n"
    )
    run("compact", "fix-login", "--strategy", "hide", "--target", "60")
    assert as_json("restore", "fix-login", "before it")["seq"] == 21
    again = printed("checkpoint", "fix-login", "before it")
    assert again.startswith('"before it" is fix-login at #25, and no longer #21.\n')


def test_points_are_listed_newest_first(url: str) -> None:
    run("checkpoint", "fix-login", "good")
    assert printed("history", "--points", "fix-login", "--every", "5") == (
        "SEQ  MESSAGES  POINT              AT\n"
        '#21        16  "good"             TIME\n'
        "#19        15  after 15 messages  TIME\n"
        "#14        10  after 10 messages  TIME\n"
        " #8         5  after 5 messages   TIME\n"
        "Go back with: refold restore fix-login POINT --dry-run"
        " (POINT is a name, or any seq from 1 to 22)\n"
    )
    assert [point["seq"] for point in as_json("history", "--points", "fix-login")["points"]] == [
        21,
        14,
    ]


def test_named_points_come_before_the_others(url: str) -> None:
    """Undos and compactions after a checkpoint must not bury it."""
    run("checkpoint", "fix-login", "good")
    for _ in range(3):
        run("compact", "fix-login", "--strategy", "hide", "--target", "60")
        run("undo", "fix-login")
    rows = printed("history", "--points", "fix-login").splitlines()
    assert '"good"' in rows[1]
    assert len(rows) > 4


def test_diff_shows_what_differs_message_by_message(url: str) -> None:
    [artifact] = as_json("artifact", "list", "fix-login")["artifacts"]
    assert printed("history", "--diff", "fix-login", "4", "#9") == (
        "fix-login #4 -> #9: +4 -0 ~0 messages on the page\n"
        "  + #5 assistant: [call run t0]\\ncommand: cat login.py\n"
        "  + #6 tool: " + "def login():\\n" * 5 + "\n"
        "  + #7 user: question 1 about login.py\n"
        "  + #8 assistant: [call run t1]\\ncommand: cat login.py\n"
        f"1 artifact: {artifact['id']}\n"
    )
    run("compact", "fix-login", "--strategy", "hide", "--target", "60")
    since = as_json("history", "--diff", "fix-login", "20")
    assert len(since["removed"]) == 13 and since["added"] == [] and len(since["batches"]) == 1


@pytest.mark.parametrize("command", [("restore", "fix-login"), ("history", "--diff", "fix-login")])
def test_a_point_that_is_not_there_is_an_error_that_says_what_is(
    url: str, command: tuple[str, ...]
) -> None:
    run("checkpoint", "fix-login", "good")
    assert refused(*command, "god").startswith("there is no checkpoint 'god'; checkpoints: good;")
    assert refused(*command, "99") == "there is no event #99; the log goes from #1 to #22"
    assert refused(*command, "#0") == "there is no event #0; the log goes from #1 to #22"
    assert refused(*command, "#4-9").startswith("there is no checkpoint '#4-9';")


def test_a_checkpoint_is_not_called_like_an_event(url: str) -> None:
    for name in ("41", "#41", " 7 "):
        assert "choose a name that is not a number" in refused("checkpoint", "fix-login", name)


@given(st.text(max_size=30), st.integers(0, 50))
@example("41", 50)
@example("#41", 41)
@example("٤١", 50)
@example("1" * 40, 50)
@example("-1", 50)
@settings(deadline=None)
def test_any_text_is_a_point_of_the_log_or_an_error_of_ours(text: str, head: int) -> None:
    view = View(head=head, checkpoints={"good": 1})
    try:
        assert 1 <= point_seq(view, text) <= max(head, 1)
    except NotFound as error:
        assert error.hint
    try:
        assert seq_of(text) >= 0
    except RefoldError as error:
        assert isinstance(error, Invalid) and error.hint


def test_nothing_is_created_by_asking(tmp_path: Path) -> None:
    for command in (
        ("restore", "x", "1"),
        ("history", "--points", "x"),
        ("checkpoint", "x"),
        ("history", "--diff", "x", "1"),
    ):
        assert run(*command).exit_code == 3
    assert list(tmp_path.iterdir()) == []


# --- files ---


@pytest.fixture
def start(url: str) -> str:
    """A conversation that wrote to two files of its folder: the place before that."""
    Path("a.py").write_text("one\n")
    with refold.open("files", store=url) as context:
        context.append({"role": "user", "content": "go"})
        seq = context.view.head
        for path, text in (("a.py", "two\n"), ("b.py", "b\n")):
            context.files.keep(path)
            Path(path).write_text(text)
        context.append({"role": "user", "content": "on"})
    return str(seq)


def files() -> dict[str, str]:
    return {path.name: path.read_text() for path in Path().glob("*.py")}


def test_restore_puts_files_back_and_undo_brings_them(start: str) -> None:
    """M-85"""
    before = files()
    told = printed("restore", "files", start, "--files", "--dry-run")
    assert "-two\n+one\n" in told and "-b\n" in told
    assert files() == before, "a preview changes nothing"
    told = printed("restore", "files", start, "--files", "--yes")
    assert "  a.py is as it was then\n  b.py was not there then: removed\n" in told
    assert files() == {"a.py": "one\n"}
    assert "  b.py is there again\n" in printed("undo", "files", "--files", "--yes")
    assert files() == before
    printed("redo", "files", "--files", "--yes")
    assert files() == {"a.py": "one\n"}


@pytest.mark.parametrize("step", ["undo", "redo"])
def test_a_step_that_changes_files_asks_first(start: str, step: str) -> None:
    """An edit by hand is not lost without a question."""
    printed("restore", "files", start, "--files", "--yes")
    if step == "redo":
        printed("undo", "files", "--files", "--yes")
    Path("a.py").write_text("by hand\n")
    before, head = files(), as_json("show", "files")["head"]
    asked = run(step, "files", "--files")
    assert asked.exit_code == 2 and "-by hand" in asked.output and "--yes" in asked.output
    assert files() == before and as_json("show", "files")["head"] == head
    printed(step, "files", "--files", "--yes")
    assert files() != before


@pytest.mark.parametrize(
    ("kinds", "question"),
    [
        (["change"], "Put 1 file back?"),
        (["remove"], "Remove 1 file?"),
        (["create", "change", "remove"], "Put 2 files back and remove 1 file?"),
    ],
)
def test_the_question_says_what_becomes_of_files(kinds: list[Any], question: str) -> None:
    changes = [FileChange(path="a", change=kind) for kind in kinds]
    with patch("refold.edges.cli.screen.Screen.ask", return_value=True) as ask:
        assert confirm_changes(Session(screen=Screen()), changes, lambda: changes, yes=False)
    ask.assert_called_once_with(question)


@pytest.mark.parametrize("meanwhile", ["said", "kept", "redone", "edited"])
@pytest.mark.parametrize(
    "words",
    [
        ("restore", "files", "START", "--files"),
        ("restore", "files", "START", "--file", "a.py"),
        ("restore", "files", "START", "--only-files"),
        ("restore", "files", "START", "--only-files", "--file", "a.py"),
        ("undo", "files", "--files"),
        ("redo", "files", "--files"),
        ("clear", "files"),
    ],
)
def test_what_changed_while_a_question_stood_stops_the_act(
    start: str, url: str, words: tuple[str, ...], meanwhile: str
) -> None:
    """The answer is for what was shown: the head of the log, and the files on disk."""
    if words[0] in ("undo", "redo"):
        printed("restore", "files", start, "--files", "--yes")
    if words[0] == "redo":
        printed("undo", "files", "--files", "--yes")
    asked: list[str] = []

    def answer(_: Screen, question: str) -> bool:
        asked.append(question)
        with refold.open("files", store=url) as other:
            if meanwhile == "said" or words[0] == "clear":
                other.append({"role": "user", "content": "more"})
            elif meanwhile == "kept":
                other.files.keep("agent.py")
                Path("agent.py").write_text("new work\n")
            elif meanwhile == "redone":
                other.restore(int(start))
            else:
                Path("a.py").write_text("by hand\n")
        at_answer.append((files(), as_json("show", "files")["head"]))
        return True

    at_answer: list[Any] = []
    typed = [start if word == "START" else word for word in words]
    with (
        patch.object(Screen, "can_ask", True),
        patch.object(Screen, "ask", answer),
    ):
        done = run(*typed)
    assert len(asked) in (1, 2), done.output
    assert done.exit_code == 4, done.output
    assert at_answer[-1] == (files(), as_json("show", "files")["head"])


def test_an_answer_for_files_is_not_an_answer_for_others(start: str, url: str) -> None:
    """Even if the log grows between the check of the head and the files."""
    with refold.open("files", store=url) as context, refold.open("files", store=url) as other:
        head = context.view.head
        other.files.keep("agent.py")
        Path("agent.py").write_text("new work\n")
        with pytest.raises(Conflict):
            context.files.put_back(int(start), expect=head)
        assert context.files._put_back(int(start), ".", (), head)
    assert files() == {"a.py": "one\n", "agent.py": "new work\n"}


def test_files_alone_report_what_happened_to_them(
    start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise Denied("the disk is read-only")

    monkeypatch.setattr("refold.engine.file_versions.remove", failing)
    told = printed("restore", "files", start, "--only-files", "--yes")
    assert "b.py is left alone: the disk is read-only" in told
    assert files()["b.py"] == "b\n"


def test_files_are_put_back_only_after_a_question(start: str) -> None:
    """M-85: where nobody can be asked, --yes must say it."""
    before = files()
    asked = run("restore", "files", start, "--files")
    assert asked.exit_code == 2 and "+one\n" in asked.stdout and "--yes" in asked.stderr
    assert files() == before
    printed("restore", "files", start)
    assert files() == before, "without --files, files stay"


def test_the_question_shows_path_size_and_mode(start: str, url: str) -> None:
    Path("a.py").chmod(0o604)
    script = Path("run.py")
    with refold.open("files", store=url) as context:
        for mode in (0o750, 0o640):
            script.write_text("go\n")
            script.chmod(mode)
            context.files.keep("run.py")
        script.write_text("went\n")
    asked = run("restore", "files", start, "--files")
    assert "a.py will have 4 bytes, mode 604\n" in asked.stdout
    assert "run.py will have 3 bytes, mode 640 -> 750\n" in asked.stdout
    assert "b.py will be removed\n" in asked.stdout
    script.unlink()
    asked = run("restore", "files", start, "--files", "--dry-run")
    assert "run.py will have 3 bytes, mode 750\n" in asked.stdout
    run("restore", "files", start, "--files", "--yes")
    assert script.stat().st_mode & 0o700 == 0o700


def test_a_file_that_tools_act_on_is_put_back_only_if_it_is_named(start: str, url: str) -> None:
    with refold.open("files", store=url) as context:
        context.files.keep(".mcp.json")
        Path(".mcp.json").write_text("{}")
    told = printed("restore", "files", start, "--only-files", "--yes")
    assert ".mcp.json is left alone" in told and "--file" in told
    assert Path(".mcp.json").exists()
    printed("restore", "files", start, "--only-files", "--yes", "--file", ".mcp.json")
    assert not Path(".mcp.json").exists()


def test_some_files_alone_can_be_put_back(start: str) -> None:
    """M-85: selected files, files only."""
    messages = as_json("stats", "files")["messages"]
    printed("restore", "files", start, "--only-files", "--file", "b.py", "--yes")
    assert files() == {"a.py": "two\n"}
    assert as_json("stats", "files")["messages"] == messages
    refused("restore", "files", start, "--file", "c.py", "--yes")


def test_files_of_another_folder_are_left_alone_and_it_is_named(
    start: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_in, before = Path.cwd(), files()
    Path("other").mkdir()
    monkeypatch.chdir("other")
    Path("a.py").write_text("mine\n")
    named = f"the file was kept in '{kept_in}', which is not this folder"
    for chosen in (("--files",), ("--file", "a.py"), ("--only-files",)):
        told = printed("restore", "files", start, *chosen, "--yes", "--store", url)
        assert f"  a.py is left alone: {named}" in told
        assert files() == {"a.py": "mine\n"}
    told = printed("history", "--diff", "files", start, "--store", url)
    assert f"a.py cannot be compared: {named}" in told
    monkeypatch.chdir(kept_in)
    assert files() == before


def test_a_diff_shows_how_files_differ_line_by_line(start: str) -> None:
    """M-85: between two points, by seq or name, and up to what is in the folder now."""
    run("checkpoint", "files", "now")
    shown = printed("history", "--diff", "files", start, "now")
    assert "2 files of this folder: +2 -1 lines" in shown
    assert "\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+two\n" in shown
    [changed] = [
        one
        for one in as_json("history", "--diff", "files", start)["changes"]
        if one["path"] == "a.py"
    ]
    assert changed["change"] == "change"
    Path("a.py").unlink()
    Path("a.py").symlink_to("/etc/passwd")
    assert "a.py cannot be compared" in printed("history", "--diff", "files", start)


def test_a_time_goes_back_to_the_last_event_until_then(url: str) -> None:
    events = as_json("show", "fix-login", "--all")
    with refold.open("fix-login", store=url, read_only=True) as context:
        [*_, newest] = context.log.events(limit=10_000)
    seconds = newest.at_ms // 1_000 + 1
    for when in (str(seconds), str(seconds * 1_000), "0m"):
        found = as_json("restore", "fix-login", "--at", when, "--dry-run")
        assert (found["seq"], found["point"]) == (newest.seq, when)
    assert as_json("show", "fix-login", "--all") == events
    assert "no event as early as" in refused("restore", "fix-login", "--at", "2001-01-01")
    assert "exclude each other" in refused("restore", "fix-login", "9", "--at", "1m")
    assert "is not a time" in refused("restore", "fix-login", "--at", "soon")
