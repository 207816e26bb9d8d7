"""Sessions that the programs themselves wrote here: what was said, called, answered and billed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import apsw
import pytest

from refold.config import Config
from refold.edges.importers.entry import Report
from refold.edges.importers.importer import import_file
from refold.engine.context import Context
from refold.errors import Invalid
from refold.stores import open_store
from refold.stores.protocol import Store
from tests.edges.importers.test_importing import texts

RECORDED = Path(__file__).with_name("recorded")
ASKED, LOOKS, DONE = (
    "What is in this folder?",
    "I look at the folder first.",
    "The folder holds hello.py, which prints a greeting. Done.",
)


def imported(path: Path) -> tuple[Store, Report]:
    store = open_store("memory:")
    return store, import_file(store, Config(), path)


def database(path: Path) -> Path:
    """The recorded export as the rows that the program keeps."""
    value = json.loads((RECORDED / "opencode.json").read_text(encoding="utf-8"))
    info = value["info"]
    rows = apsw.Connection(str(path))
    rows.execute("""
        create table session(id text primary key, parent_id text, title text, time_created int);
        create table message(id text primary key, session_id text, time_created int, data text);
        create table part(id text primary key, message_id text, session_id text, data text);
    """)
    rows.execute("insert into session values(?, null, ?, 1)", (info["id"], info["title"]))
    for one in value["messages"]:
        about = one["info"]
        given = (about["id"], info["id"], about["time"]["created"], json.dumps(about))
        rows.execute("insert into message values(?, ?, ?, ?)", given)
        for part in one["parts"]:
            given = (part["id"], about["id"], info["id"], json.dumps(part))
            rows.execute("insert into part values(?, ?, ?, ?)", given)
    rows.close()
    return path


SESSIONS = {
    "gemini-cli.jsonl": "gemini-cli-c7b7711b-136a-4601-b57c-cea948754e98",
    "opencode.json": "opencode-ses_e1691334fffeMaXjSMFH8U9BHU",
    "cline.messages.json": "cline-1794918030598_mbrta",
    "openhands/base_state.json": "openhands-26ce99ee-5ce8-470d-8eb3-a46725616dc5",
}


@pytest.mark.parametrize("name", SESSIONS)
def test_a_recorded_session_is_all_there(name: str) -> None:
    store, report = imported(RECORDED / name)
    [session] = report.sessions
    assert session.conversation == SESSIONS[name] and report.unread_total == 0
    shown = texts(store, session.conversation)
    called = shown[-3].removeprefix(f"{LOOKS} call ")
    assert ASKED in shown[-4] and shown[-2] == f"result {called}" and shown[-1] == DONE
    context = Context(store, session.conversation)
    assert context.view.totals.input == 240 and context.view.totals.cache_read == 40
    assert context.view.model in ("scripted-1", "gemini-2.5-flash")
    assert context.view.metadata["imported"] == report.source
    first = next(event for event in context.log.events() if event.kind == "message")
    assert first.at_ms < 1_794_999_999_999


def test_a_title_is_what_the_user_asked() -> None:
    for name in ("gemini-cli.jsonl", "cline.messages.json"):
        assert imported(RECORDED / name)[1].sessions[0].title == ASKED


def test_an_answer_of_aider_keeps_its_paragraphs_and_its_bill(tmp_path: Path) -> None:
    text = (RECORDED / "aider.chat.history.md").read_text(encoding="utf-8")
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(text.replace(DONE, f"{DONE}\n\n\nIt ends here."), encoding="utf-8")
    store, report = imported(path)
    [session] = report.sessions
    assert texts(store, session.conversation) == [ASKED, f"{DONE}\n\n\nIt ends here."]
    context = Context(store, session.conversation)
    assert (context.view.totals.input, context.view.totals.output) == (728, 13)
    assert context.view.model == "scripted-1"


def test_why_mini_swe_agent_stopped_is_a_note_and_no_message() -> None:
    store, report = imported(RECORDED / "mini-swe-agent.traj.json")
    [session] = report.sessions
    assert session.messages == 6 and report.unread_total == 0
    context = Context(store, session.conversation)
    assert [note.data["extra"]["exit_status"] for note in context.log.notes(kind="exit")] == [
        "Submitted"
    ]
    assert context.view.totals.input == 240


def test_a_database_of_opencode_gives_the_same_conversation_and_stays_as_it_was(
    tmp_path: Path,
) -> None:
    path = database(tmp_path / "opencode.db")
    before = path.read_bytes()
    store, report = imported(path)
    [session] = report.sessions
    assert session.conversation == SESSIONS["opencode.json"]
    exported, _ = imported(RECORDED / "opencode.json")
    assert texts(store, session.conversation) == texts(exported, session.conversation)
    assert import_file(store, Config(), path).sessions[0].new == 0
    assert path.read_bytes() == before and [one.name for one in tmp_path.iterdir()] == [path.name]


def test_what_was_reverted_in_opencode_is_taken_back_and_comes_again(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db")
    store, report = imported(path)
    id = report.sessions[0].conversation
    last = json.loads((RECORDED / "opencode.json").read_text())["messages"][-1]["info"]["id"]
    rows = apsw.Connection(str(path))
    rows.execute("alter table session add column revert text")
    rows.execute("update session set revert = ?", (json.dumps({"messageID": last}),))
    rows.execute("insert into message values('msg_2', ?, 9999999999999, '{}')", ("other",))
    rows.close()
    [session] = import_file(store, Config(), path).sessions
    assert (session.new, session.missing) == (0, 1) and texts(store, id)[-1] == DONE
    rows = apsw.Connection(str(path))
    said = json.dumps({"role": "user", "time": {"created": 1}})
    rows.execute("update session set revert = null")
    rows.execute("delete from part where message_id = ?", (last,))
    rows.execute("update message set id = 'msg_9', data = ? where id = ?", (said, last))
    part = (json.dumps({"type": "text", "text": "No, the other folder."}),)
    rows.execute("insert into part select 'p9', 'msg_9', id, ? from session", part)
    rows.close()
    [session] = import_file(store, Config(), path).sessions
    assert (session.new, session.restored) == (1, 1)
    assert texts(store, id)[-1] == "No, the other folder."


HOSTILE = {
    "another database": "create table x(y);",
    "a view in place of a table": """
        create table message(id, session_id, time_created, data);
        create table part(id, message_id, session_id, data);
        create view session as with recursive n(i) as (select 1 union all select i + 1 from n)
            select i as id, null as parent_id, 'x' as title, 1 as time_created from n;
    """,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_database_that_is_something_else_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    made = apsw.Connection(str(path))
    made.execute(HOSTILE[name])
    made.close()
    with pytest.raises(Invalid, match="not a database of opencode"):
        imported(path)


def test_a_session_of_cline_that_was_rewound_is_followed(tmp_path: Path) -> None:
    value = json.loads((RECORDED / "cline.messages.json").read_text(encoding="utf-8"))
    path = tmp_path / "a.messages.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    store, _ = imported(path)
    other = {**value["messages"][-1], "id": "msg_other", "content": "Something else."}
    value["messages"][-1] = other
    path.write_text(json.dumps(value), encoding="utf-8")
    [session] = import_file(store, Config(), path).sessions
    assert (session.new, session.restored) == (1, 1)
    assert texts(store, session.conversation)[-1] == "Something else."


def test_what_openhands_left_is_no_part_of_the_conversation(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    shutil.copytree(RECORDED / "openhands", folder)
    state = json.loads((folder / "base_state.json").read_text(encoding="utf-8"))
    answer = json.loads(next((folder / "events").glob("event-00004-*")).read_text(encoding="utf-8"))
    answer |= {"id": "other", "parent_id": state["leaf_event_id"]}
    (folder / "events" / "event-00005-other.json").write_text(json.dumps(answer))
    (folder / "events" / "event-00006-torn.json").write_text('{"id": "to')
    (folder / "events" / "event-00007-link.json").symlink_to("/etc/passwd")
    store, report = imported(folder / "base_state.json")
    assert texts(store, report.sessions[0].conversation).count(DONE) == 1
    assert [(one.line, "cut off" in one.reason) for one in report.unread] == [(7, True)]
    assert report.unit == "event"
    notes = Context(store, report.sessions[0].conversation).log.notes(kind="left-branch")
    assert [note.data["id"] for note in notes] == ["other"]
