"""A session of Claude Code is written to the log as it goes, with its large outputs, and what the log
knows waits to be offered."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

import refold
from refold.edges.hooks import follower, state
from refold.edges.hooks.events import answer, shortened
from refold.edges.hooks.state import PENDING
from refold.edges.importers.importer import import_file
from tests.edges.hooks.inputs import SESSION, Transcript, bash, lines

LARGE = lines(2_000)


@pytest.fixture
def place(project: Path) -> str:
    return f"sqlite:{project}/.refold/refold.db"


def opened(place: str) -> refold.Context:
    return refold.open(state.conversation_of(SESSION), store=place, read_only=True)


def follow(project: Path) -> None:
    follower.main([SESSION, str(project / f"{SESSION}.jsonl"), ""])


def errors() -> str:
    return state.read(state.root(), state.ERRORS, 10_000)


def test_what_is_said_is_appended_once(project, place):
    transcript = Transcript(project)
    transcript.say("user", "Why does the login test fail?")
    follow(project)
    transcript.call("toolu_1", "pytest -q", "1 failed")
    follow(project)
    follow(project)
    with opened(place) as context:
        roles = [slot.message.role for slot in context.view.slots]
    assert roles == ["user", "assistant", "tool"]
    assert errors() == ""


def test_it_is_the_conversation_that_import_gives(project, place):
    transcript = Transcript(project)
    transcript.say("user", "Hello.")
    follow(project)
    store = refold.open_store(place)
    [session] = import_file(store, refold.Config(), transcript.path).sessions
    store.close()
    assert session.conversation == state.conversation_of(SESSION)
    assert session.new == 0


def test_a_large_output_is_found_under_the_handle_of_its_stub(project, place):
    stub = shortened(bash(LARGE, project), SESSION, 16_000)["stdout"]
    transcript = Transcript(project)
    transcript.say("user", "Run the tests.")
    transcript.call("toolu_1", "pytest -q", stub)
    follow(project)
    with opened(place) as context:
        [artifact] = context.artifacts.list()
        assert f"artifact://{artifact.id}" in stub
        assert context.artifacts.value(artifact.id) == LARGE
        about = artifact.artifact
        assert (about.origin.tool, about.name) == ("Bash", "Bash: pytest -q")
    assert os.listdir(os.path.join(state.folder_of(SESSION), PENDING)) == []


@pytest.mark.parametrize("text", ["ä€😀" * 9_000, "\ud83d" * 20_000, "a\r\n\x00\x1b[31m" * 3_000])
def test_any_text_is_kept_whole(text, project, place):
    stub = shortened(bash(text, project), SESSION, 16_000)["stdout"]
    follow(project)
    with opened(place) as context:
        [artifact] = context.artifacts.list()
        kept = context.artifacts.value(artifact.id)
    assert f"artifact://{artifact.id}" in stub
    content = kept if isinstance(kept, bytes) else kept.encode("utf-8", "surrogatepass")
    assert content == text.encode("utf-8", "surrogatepass")


def test_an_output_that_could_not_be_put_waits_for_the_next_time(project, place, monkeypatch):
    shortened(bash(LARGE, project), SESSION, 16_000)
    with monkeypatch.context() as broken:
        broken.setattr(follower, "open_store", lambda url: (_ for _ in ()).throw(OSError("full")))
        follow(project)
    assert "OSError: full" in errors()
    follow(project)
    with opened(place) as context:
        assert len(context.artifacts.list()) == 1


def test_what_the_log_knows_is_offered_after_a_compaction(project, place):
    transcript = Transcript(project)
    transcript.say("user", "Mend the login test. Never touch the database.")
    todos = [{"content": "Mend test_login", "status": "in_progress", "activeForm": "Mending"}]
    use = {"type": "tool_use", "id": "t1", "name": "TodoWrite", "input": {"todos": todos}}
    transcript.say("assistant", [use])
    transcript.say("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}])
    transcript.say("assistant", [{"type": "text", "text": "We decided to use a fixed clock."}])
    follow(project)
    offer = state.read(state.folder_of(SESSION), "offer", 20_000)
    assert "Mend the login test. Never touch the database." in offer
    assert "Mend test_login" in offer
    assert f"refold search claude-code-{SESSION}" in offer
    transcript.say("user", "Summary: a clock.", isCompactSummary=True)
    follow(project)
    after = state.read(state.folder_of(SESSION), "offer", 20_000)
    assert "Mend test_login" in after and "Never touch the database." in after


def test_no_offer_shows_a_secret(project):
    transcript = Transcript(project)
    transcript.say("user", "Use the key sk-ant-api03-" + "A1b2C3d4" * 11 + " for it.")
    follow(project)
    assert "A1b2C3d4" not in state.read(state.folder_of(SESSION), "offer", 20_000)


def test_one_process_at_a_time_and_the_other_is_asked_to_look_again(project, place):
    transcript = Transcript(project)
    transcript.say("user", "Hello.")
    folder = state.folder_of(SESSION)
    state.make(folder)
    with open(os.path.join(folder, "lock"), "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        follow(project)
        assert not (project / ".refold").exists()
    assert os.path.exists(os.path.join(folder, follower.AGAIN))
    follow(project)
    assert not os.path.exists(os.path.join(folder, follower.AGAIN))
    with opened(place) as context:
        assert len(context.view.slots) == 1


@pytest.mark.parametrize("content", [b"", b"not json\n", b"\x00\xff", b'{"type": "user"}\n{"half'])
def test_a_transcript_that_is_none_disturbs_nobody(content, project):
    (project / f"{SESSION}.jsonl").write_bytes(content)
    follow(project)


def test_no_transcript_at_all_disturbs_nobody(project):
    follow(project)
    assert errors() == ""


def test_the_status_line_tells_what_was_kept_off_the_page(project):
    from refold.edges.statusline import claude_line

    given = b'{"session_id": "%b", "model": {"id": "claude-opus-5-5"}}' % SESSION.encode()
    assert "refold" not in claude_line(given, short=False, color=False)
    shortened(bash(LARGE, project), SESSION, 16_000)
    shortened(bash(LARGE * 2, project), SESSION, 16_000)
    shown = claude_line(given, short=False, color=False)
    assert "refold: 2 outputs, " in shown and "tokens kept off" in shown
    assert answer(b"", 1, "") == ""


def test_what_was_kept_for_old_sessions_is_removed_but_not_what_waits(project):
    shortened(bash(LARGE, project), "waiting", 16_000)
    state.write(state.folder_of("old"), "offer", b"x")
    state.write(state.folder_of("new"), "offer", b"x")
    for name in ("waiting", "old"):
        os.utime(state.folder_of(name), (0, 0))
    follow(project)
    left = {one for one in ("waiting", "old", "new") if os.path.exists(state.folder_of(one))}
    assert left == {"waiting", "new"}
    assert errors() == ""


def test_nobody_else_may_read_what_is_kept(project):
    shortened(bash(LARGE, project), SESSION, 16_000)
    assert os.stat(state.root()).st_mode & 0o077 == 0
    waiting = Path(state.folder_of(SESSION)) / PENDING
    assert all(path.stat().st_mode & 0o077 == 0 for path in waiting.iterdir())
