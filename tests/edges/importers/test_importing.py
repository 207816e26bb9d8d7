"""Sessions of other programs become conversations: whole, once, and followed when they go on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import refold
from refold.config import Config
from refold.core.model import Event, Text, ToolCall, ToolResult
from refold.edges.importers.entry import Report
from refold.edges.importers.importer import import_file
from refold.edges.importers.recognition import SNIFFED_LINES
from refold.engine import bulk_write
from refold.engine.context import Context
from refold.errors import Invalid, NotFound
from refold.log import log
from refold.stores import open_store
from refold.stores.in_memory import MemoryStore
from refold.stores.protocol import Store
from tests.edges.importers import transcripts
from tests.edges.importers.transcripts import SESSION, block, call, result, text, user, write

CLAUDE = f"claude-code-{SESSION}"


@pytest.fixture
def store() -> Store:
    return open_store("memory:")


def imported(store: Store, path: Path) -> Report:
    return import_file(store, Config(), path)


def texts(store: Store, id: str) -> list[str]:
    """What the page says, message by message."""
    return [" ".join(map(said, slot.message.blocks)) for slot in Context(store, id).view.slots]


def said(block: Any) -> str:
    match block:
        case Text():
            return block.text
        case ToolCall():
            return f"call {block.id}"
        case ToolResult():
            return f"result {block.call}"
    return type(block).__name__


def test_somebody_who_writes_meanwhile_loses_nothing(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", transcripts.parallel())
    meddled: list[int] = []

    def meddle(done: int) -> None:
        if len(meddled) < 2 and done > 1_000:
            meddled.append(done)
            Context(store, CLAUDE).note("theirs", len(meddled))

    import_file(store, Config(), path, advance=meddle)
    assert [note.data for note in Context(store, CLAUDE).log.notes(kind="theirs")] == [1, 2]
    assert texts(store, CLAUDE)[-1] == "one.py and two.py."
    assert imported(store, path).sessions[0].new == 0


@pytest.mark.parametrize("lines", [transcripts.parallel(), transcripts.rollout()])
def test_two_who_import_a_file_at_once_tell_of_it_once(
    lines: list[Any], store: Store, tmp_path: Path
) -> None:
    path, alone = write(tmp_path / "a.jsonl", lines), open_store("memory:")
    others: list[int] = []

    def meddle(done: int) -> None:
        if not others and done > 1_000:
            others.append(done)
            imported(store, path)

    [session] = import_file(store, Config(), path, advance=meddle).sessions
    imported(alone, path)
    assert others
    id = session.conversation
    kinds = [[event.kind for event in Context(at, id).log.events()] for at in (store, alone)]
    assert sorted(kinds[0]) == sorted(kinds[1])


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_two_who_import_a_file_at_once_count_each_message_once(
    tmp_path: Path, data: st.DataObject
) -> None:
    """Whatever of a message that grew, or was rewound, the one had written when the other came."""
    store, alone = open_store("memory:"), open_store("memory:")
    lines = [*transcripts.parallel(), *(user(f"v{n}", "a4", f"v{n}") for n in range(4))]
    before = data.draw(st.integers(2, len(lines)))
    imported(store, write(tmp_path / "a.jsonl", lines[:before]))
    imported(alone, tmp_path / "a.jsonl")
    path = write(tmp_path / "a.jsonl", lines)
    after = data.draw(st.sets(st.integers(0, 4_000), max_size=3))
    counted: list[Any] = []

    def meddle(done: int) -> None:
        for place in {place for place in after if place <= done}:
            after.remove(place)
            if data.draw(st.booleans()):
                counted.extend(imported(store, path).sessions)
            else:
                Context(store, CLAUDE).note("theirs", place)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("refold.log.draft.RUN_EVENTS_MAX", data.draw(st.integers(1, 4)))
        counted += import_file(store, Config(), path, advance=meddle).sessions
    [once] = imported(alone, path).sessions
    assert texts(store, CLAUDE) == texts(alone, CLAUDE)
    assert sum(one.new for one in counted) == once.new
    assert sum(one.restored for one in counted) == once.restored


@pytest.mark.parametrize("lines", [transcripts.parallel(), transcripts.rollout()])
def test_a_conversation_begins_when_its_session_did(
    store: Store, tmp_path: Path, lines: list[transcripts.Line]
) -> None:
    report = imported(store, write(tmp_path / "a.jsonl", lines))
    id = report.sessions[0].conversation
    began = {"claude-code": 1_777_630_272_000, "codex": 1_781_773_158_573}[report.source]
    stats = Context(store, id).stats()
    assert stats.created_ms == store.conversation(id).at_ms == began
    assert stats.created_ms <= stats.updated_ms
    assert stats.oldest_age_ms > 24 * 3_600_000


# --- Claude Code ---


def test_a_response_in_several_lines_is_one_message_and_is_billed_once(
    store: Store, tmp_path: Path
) -> None:
    report = imported(store, write(tmp_path / "a.jsonl", transcripts.parallel()))
    assert (report.source, report.unread_total) == ("claude-code", 0)
    assert texts(store, CLAUDE) == [
        "List both folders.", "Both at once. call t1 call t2", "result t1", "result t2",
        "one.py and two.py.",
    ]  # fmt: skip
    context = Context(store, CLAUDE)
    assert context.view.totals.calls == 2 and context.view.totals.output == 14
    assert context.view.title == "Listing folders" and context.view.model == "claude-opus-4-5"
    assert [*context.log.events()][-1].at_ms == 1_777_630_273_000


def test_what_was_billed_counts_once_and_whole_however_often_it_is_imported(
    store: Store, tmp_path: Path
) -> None:
    """The other program's page had a system prompt, tools and a past that are not in the file."""
    lines = [user("u0", None, "Go on.")]
    for n in range(150):
        line = block(f"a{n}", lines[-1]["uuid"], f"msg_{n}", text(f"Step {n}."))
        line["message"]["usage"] = {
            "input_tokens": 5,
            "cache_read_input_tokens": 90_000,
            "output_tokens": 3,
        }
        lines += [line, user(f"u{n + 1}", f"a{n}", "Next.")]
    for length in (100, 301, 301):
        imported(store, write(tmp_path / "a.jsonl", lines[:length]))
    context = Context(store, CLAUDE)
    assert context.view.totals.calls == 150 and context.view.totals.input == 150 * 90_005
    assert context.view.totals.cost > 0 and context.view.totals.unpriced == 0
    assert context.view.tokens < 20_000


def test_a_branch_that_was_left_is_no_part_of_the_session(store: Store, tmp_path: Path) -> None:
    lines = [
        user("u1", None, "Say one."),
        block("a1", "u1", "msg_1", text("One.")),
        user("u2", "a1", "Say two."),
        block("a2", "u2", "msg_2", text("Two.")),
        user("u3", "a1", "Say three."),
        block("a3", "u3", "msg_3", text("Three.")),
    ]
    write(tmp_path / "a.jsonl", lines[:4])
    imported(store, tmp_path / "a.jsonl")
    assert texts(store, CLAUDE) == ["Say one.", "One.", "Say two.", "Two."]
    [session] = imported(store, write(tmp_path / "a.jsonl", lines)).sessions
    assert (session.new, session.restored) == (2, 2)
    assert texts(store, CLAUDE) == ["Say one.", "One.", "Say three.", "Three."]
    assert [one.kind for one in Context(store, CLAUDE).log.notes()] == ["left-branch"] * 2


def test_side_chains_are_conversations_of_their_own(store: Store, tmp_path: Path) -> None:
    lines = [
        user("u1", None, "Ask somebody."),
        user("s1", None, "Look.", isSidechain=True, agentId="77"),
        block("s2", "s1", "msg_s", text("Looked."), isSidechain=True, agentId="77"),
        block("a1", "u1", "msg_1", text("Asked.")),
    ]
    report = imported(store, write(tmp_path / "a.jsonl", lines))
    assert [one.conversation for one in report.sessions] == [CLAUDE, f"{CLAUDE}-agent-77"]
    assert texts(store, f"{CLAUDE}-agent-77") == ["Look.", "Looked."]
    assert Context(store, f"{CLAUDE}-agent-77").view.metadata["part_of"] == CLAUDE


def test_the_compaction_of_another_agent_is_adopted_and_can_be_undone(
    store: Store, tmp_path: Path
) -> None:
    boundary = {
        "type": "system", "subtype": "compact_boundary", "uuid": "b1", "parentUuid": None,
        "logicalParentUuid": "a1", "sessionId": SESSION,
    }  # fmt: skip
    lines = [
        user("u1", None, "Fix it."),
        block("a1", "u1", "msg_1", text("Fixed.")),
        boundary,
        user("u2", "b1", "It was fixed.", isCompactSummary=True),
        user("u3", "u2", "Thanks."),
    ]
    imported(store, write(tmp_path / "a.jsonl", lines))
    context = Context(store, CLAUDE)
    assert len(context.view.slots) == 2 and "It was fixed." in texts(store, CLAUDE)[0]
    [again] = imported(store, tmp_path / "a.jsonl").sessions
    assert (again.new, again.restored, again.missing) == (0, 0, 0)
    assert context.undo()
    assert texts(store, CLAUDE) == ["Fix it.", "Fixed.", "Thanks."]


def test_a_session_is_followed_from_wherever_it_was_cut(store: Store, tmp_path: Path) -> None:
    """Every cut of the file, imported one after the other, gives what the whole file gives."""
    lines = [*transcripts.parallel(), user("u9", "a4", "And now?"), block("a9", "u9", "m9", call("t9")),
             user("r9", "a9", result("t9"))]  # fmt: skip
    for length in range(1, len(lines) + 1):
        if any("parentUuid" in line for line in lines[:length]):
            imported(store, write(tmp_path / "a.jsonl", lines[:length]))
    whole = open_store("memory:")
    imported(whole, tmp_path / "a.jsonl")
    assert texts(store, CLAUDE) == texts(whole, CLAUDE)
    [again] = imported(store, tmp_path / "a.jsonl").sessions
    assert (again.new, again.restored, again.missing) == (0, 0, 0)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_rewinds_anywhere_end_at_the_branch_of_the_last_line(tmp_path: Path, data: Any) -> None:
    """A tree that grows anywhere, imported at any moment: the page is the branch of its last
    message."""
    store, lines, paths = open_store("memory:"), list[Any](), {"": list[str]()}
    for number in range(data.draw(st.integers(2, 12))):
        parent = data.draw(st.sampled_from([*paths]))
        uuid = f"n{number}"
        paths[uuid] = [*paths[parent], uuid]
        lines.append(user(uuid, parent or None, uuid))
        if data.draw(st.booleans()):
            imported(store, write(tmp_path / "a.jsonl", lines))
    imported(store, write(tmp_path / "a.jsonl", lines))
    assert texts(store, CLAUDE) == paths[uuid]


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=5), min_size=2, max_size=5))
def test_the_branch_that_was_left_comes_back_alone(tmp_path: Path, lists: list[list[str]]) -> None:
    """By a restore of the seq that the import names, or in a fork there. That is the user's wish:
    an import adds nothing to it. An undo gives the session again."""
    store, file, before = open_store("memory:"), tmp_path / "m.json", list[str]()
    for number, words in enumerate(lists):
        file.write_text(json.dumps([{"role": "user", "content": word} for word in words]))
        [session] = imported(store, file).sessions
        id = session.conversation
        shown = texts(store, id)
        assert shown[: len(words)] == words and (len(shown) == len(words) + session.missing)
        if session.restored:
            with Context(store, id) as context:
                context.fork(f"left-{number}", at=session.left_at).close()
                context.restore(session.left_at)
            assert texts(store, id) == texts(store, f"left-{number}") == before
            [again] = imported(store, file).sessions
            assert (again.new, again.restored, texts(store, id)) == (0, 0, before)
            assert Context(store, id).undo()
            assert texts(store, id) == words
        before = texts(store, id)


def branched() -> list[Any]:
    """A session that was rewound, with a side chain beside it."""
    return [
        user("u1", None, "Begin."),
        block("a1", "u1", "m1", call("t1")),
        user("r1", "a1", result("t1")),
        user("s1", None, "Look around.", isSidechain=True, agentId="x"),
        user("u2", "r1", "The way that was left."),
        user("u3", "r1", "The way that was taken."),
        user("c1", "u3", "What was said so far.", isCompactSummary=True),
        user("u4", "c1", "Go on."),
    ]


@pytest.mark.parametrize("lines", [transcripts.parallel(), transcripts.rollout(), branched()])
def test_a_file_that_is_larger_than_memory_gives_the_same(
    lines: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a page that is let go after every event, in batches of one, and again after that."""
    file, usual, lean = tmp_path / "a.jsonl", open_store("memory:"), open_store("memory:")
    imported(usual, write(file, lines))
    monkeypatch.setattr("refold.log.draft.RUN_EVENTS_MAX", 1)
    monkeypatch.setattr(bulk_write, "HELD_BYTES_MAX", 0)
    monkeypatch.setattr(log, "KEPT_SLOTS", 1)
    for length in (len(lines) // 2, len(lines), len(lines)):
        imported(lean, write(file, lines[:length]))
    for about in usual.conversations():
        assert texts(lean, about.id) == texts(usual, about.id)
        with Context(usual, about.id) as one, Context(lean, about.id) as other:
            assert one.view.totals == other.view.totals
            assert [note.key for note in one.log.notes()] == [n.key for n in other.log.notes()]


def branch_texts(lines: list[Any], leaf: str) -> list[str]:
    parents = {line["uuid"]: line["parentUuid"] for line in lines}
    path: list[str] = []
    while leaf:
        path.insert(0, leaf)
        leaf = parents[leaf] or ""
    return path


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_each_branch_that_was_left_becomes_a_fork(tmp_path: Path, data: Any) -> None:
    """A tree that grows anywhere, imported at any moment with its branches: every leaf has its
    conversation, which shares the log up to where it left, and goes on when the branch does."""
    store, lines, file = open_store("memory:"), list[Any](), tmp_path / "a.jsonl"
    for number in range(data.draw(st.integers(2, 10))):
        parent = data.draw(st.sampled_from(["", *(line["uuid"] for line in lines)]))
        uuid = f"n{number:03}-of-a-tree"
        lines.append(user(uuid, parent or None, uuid))
        if data.draw(st.booleans()):
            import_file(store, Config(), write(file, lines), branches=True)
    report = import_file(store, Config(), write(file, lines), branches=True)
    inner = {line["parentUuid"] for line in lines}
    leaves = {line["uuid"] for line in lines} - inner - {uuid}
    forks = {one.conversation: one for one in report.sessions[1:]}
    assert {texts(store, id)[-1] for id in forks} == leaves
    for id in forks:
        assert texts(store, id) == branch_texts(lines, texts(store, id)[-1])
    again = import_file(store, Config(), file, branches=True)
    assert [one.new for one in again.sessions] == [0] * len(again.sessions)
    assert texts(store, CLAUDE) == branch_texts(lines, uuid)


def test_a_fork_that_was_begun_and_not_finished_is_gone_on_with(
    store: Store, tmp_path: Path
) -> None:
    file = write(tmp_path / "a.jsonl", branched())
    assert imported(store, file).sessions[0].left == 1
    with Context(store, CLAUDE) as main:
        main.fork(f"{CLAUDE[:64]}-left-u2"[:64], at=2).close()
    sessions = import_file(store, Config(), file, branches=True).sessions
    [fork] = [one for one in sessions if "left" in one.conversation]
    assert texts(store, fork.conversation)[-1] == "The way that was left."
    assert fork.title == "The way that was left."
    heads = {about.id: about.head for about in store.conversations()}
    import_file(store, Config(), file, branches=True)
    assert {about.id: about.head for about in store.conversations()} == heads
    assert imported(store, file).sessions[0].left == 0, "it has its fork"
    grown = write(file, [*branched(), user("u5", "r1", "One more way."), user("u6", "u4", "Yes.")])
    assert imported(store, grown).sessions[0].left == 2


# --- Codex ---


def test_a_rollout_keeps_items_usage_compactions_and_what_was_rolled_back(
    store: Store, tmp_path: Path
) -> None:
    report = imported(store, write(tmp_path / "r.jsonl", transcripts.rollout()))
    assert (report.source, report.unread_total) == ("codex", 0)
    context = Context(store, "codex-s-1")
    assert context.view.system == "Be brief." and context.view.model == "gpt-5.5"
    assert (context.view.totals.input, context.view.totals.cache_read) == (120, 20)
    page = texts(store, "codex-s-1")
    assert "The folder src holds main.py." in page[0] and page[1:] == ["Keep it."]
    [session] = report.sessions
    assert (session.messages, session.new, session.restored) == (8, 8, 2)
    left = context.fork("left", at=session.left_at)
    assert texts(store, left.id)[1:] == ["Delete it.", "Deleted."]
    assert imported(store, tmp_path / "r.jsonl").sessions[0].new == 0


def test_a_rollout_packed_with_zstd_is_read_or_says_which_extra_reads_it(
    store: Store, tmp_path: Path
) -> None:
    plain = write(tmp_path / "r.jsonl", transcripts.rollout()).read_bytes()
    packed = tmp_path / "r.jsonl.zst"
    try:
        from backports import zstd
    except ImportError:
        packed.write_bytes(b"\x28\xb5\x2f\xfd" + plain)
        with pytest.raises(refold.errors.Unavailable, match="zstd"):
            imported(store, packed)
        return
    packed.write_bytes(zstd.compress(plain))
    assert imported(store, packed).sessions[0].new == 6
    packed.write_bytes(zstd.compress(plain + b'{"a":"' + b"x" * (300 << 20) + b'"}'))
    assert "unpacks" in imported(store, packed).unread[-1].reason


# --- programs that were not run here ---

GEMINI = [
    {"sessionId": "g-1", "projectHash": "x", "startTime": "2026-05-01T10:00:00Z", "kind": "main"},
    {"id": "m1", "type": "user", "timestamp": "2026-05-01T10:00:01Z", "content": "List."},
    {"id": "m2", "type": "gemini", "content": "", "model": "gemini-2.5-pro",
     "tokens": {"input": 50, "output": 5, "cached": 10, "thoughts": 1},
     "toolCalls": [{"id": "c1", "name": "ls", "args": {"p": "."}, "result": [
         {"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a.py"}}}]}]},
    {"id": "m3", "type": "gemini", "content": "Half"},
    {"id": "m3", "type": "gemini", "content": "a.py."},
    {"id": "m4", "type": "info", "content": "saved"},
    {"$set": {"lastUpdated": "2026-05-01T10:00:09Z"}},
]  # fmt: skip


def test_a_session_of_gemini_cli_is_read_as_it_stands_at_its_end(
    store: Store, tmp_path: Path
) -> None:
    report = imported(store, write(tmp_path / "g.jsonl", GEMINI))
    assert (report.source, report.unread_total) == ("gemini-cli", 0)
    assert texts(store, "gemini-cli-g-1") == ["List.", "call c1", "result c1", "a.py."]
    assert Context(store, "gemini-cli-g-1").view.totals.input == 50
    more = [{"$rewindTo": "m3"}, {"id": "m5", "type": "user", "content": "Again."}]
    imported(store, write(tmp_path / "g.jsonl", [*GEMINI, *more]))
    assert texts(store, "gemini-cli-g-1") == ["List.", "call c1", "result c1", "Again."]


def test_every_chat_in_the_history_of_aider_is_a_session(store: Store, tmp_path: Path) -> None:
    history = """
# aider chat started at 2026-05-01 10:00:00

> aider v0.80
#### fix the login test
#### please

I changed `login.py`.

# aider chat started at 2026-05-02 10:00:00

#### again
"""
    (tmp_path / ".aider.chat.history.md").write_text(history)
    report = imported(store, tmp_path / ".aider.chat.history.md")
    assert report.source == "aider"
    first, second = (session.conversation for session in report.sessions)
    assert texts(store, first) == ["fix the login test\nplease", "I changed `login.py`."]
    assert texts(store, second) == ["again"]
    again = imported(store, tmp_path / ".aider.chat.history.md")
    assert [session.new for session in again.sessions] == [0, 0]


# --- lists ---

HELLO = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]
CALLED = [
    {"role": "user", "content": "List."},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "name": "ls", "arguments": {}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "a.py"},
]
LISTS = {
    "a list": (HELLO, ["Hello", "Hi."]),
    "a request": ({"model": "gpt-4o", "messages": HELLO, "system": "Be kind."}, ["Hello", "Hi."]),
    "sharegpt": (
        {"conversations": [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Hi."}]},
        ["Hello", "Hi."],
    ),
    "anthropic": (
        [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}, HELLO[1]],
        ["Hello", "Hi."],
    ),
    "gemini": (
        {"contents": [{"role": "user", "parts": [{"text": "Hello"}]},
                      {"role": "model", "parts": [{"text": "Hi."}]}]},
        ["Hello", "Hi."],
    ),
    "bare calls": (CALLED, ["List.", "call c", "result c"]),
    "mini-swe-agent": (
        {"info": {"mini_version": "1.15.0"}, "messages": HELLO, "trajectory_format": "mini-swe-agent-1"},
        ["Hello", "Hi."],
    ),
    "swe-agent": ({"trajectory": [], "history": HELLO, "info": {}}, ["Hello", "Hi."]),
    "swe-agent steps": (
        {"trajectory": [{"thought": "See", "action": "ls", "observation": "a.py"}]},
        ["See\nls", "a.py"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("indent", [None, 1])
def test_lists_of_messages_are_read(
    name: str, indent: int | None, store: Store, tmp_path: Path
) -> None:
    value, expected = LISTS[name]
    (tmp_path / "m.json").write_text(json.dumps(value, indent=indent))
    report = imported(store, tmp_path / "m.json")
    assert report.unread_total == 0, report.unread
    [session] = report.sessions
    assert [one.strip() for one in texts(store, session.conversation)] == expected
    assert imported(store, tmp_path / "m.json").sessions[0].new == 0


def test_a_list_with_an_element_per_line_is_a_list(store: Store, tmp_path: Path) -> None:
    """Its last element is an object in a line of its own, as in JSON Lines."""
    elements = ",\n".join(map(json.dumps, CALLED))
    for number, content in enumerate((f"[\n{elements}\n]", f'{{"messages": [\n{elements}\n]}}')):
        path = tmp_path / f"{number}.json"
        path.write_text(content)
        report = imported(store, path)
        assert (report.unread_total, report.sessions[0].messages) == (0, 3)


def test_json_lines_of_messages_and_of_whole_conversations(store: Store, tmp_path: Path) -> None:
    [one] = imported(store, write(tmp_path / "m.jsonl", HELLO)).sessions
    assert one.new == 2
    report = imported(
        store, write(tmp_path / "d.jsonl", [{"messages": HELLO}, {"messages": HELLO}])
    )
    assert [session.messages for session in report.sessions] == [2, 2]
    assert len({session.conversation for session in report.sessions}) == 2


PROMPT, TOOL = "Be kind.", {"name": "ls", "description": "", "parameters": {"type": "object"}}
CONTENTS = [{"role": "user", "parts": [{"text": "Hello"}]}]
TURNS = [{"from": "human", "value": "Hello"}]
BESIDE: dict[str, dict[str, Any]] = {
    "anthropic": {"system": [{"type": "text", "text": PROMPT}], "tools": [TOOL], "messages": HELLO},
    "responses": {"instructions": PROMPT, "tools": [TOOL], "input": HELLO},
    "functions": {"system_prompt": PROMPT, "functions": [TOOL], "messages": HELLO},
    "sharegpt": {"system": PROMPT, "tools": json.dumps([TOOL]), "conversations": TURNS},
    "gemini": {
        "system_instruction": {"parts": [{"text": PROMPT}]},
        "tools": [{"function_declarations": [TOOL]}],
        "contents": CONTENTS,
    },
    "gemini of REST": {
        "systemInstruction": {"role": "user", "parts": [{"text": PROMPT}]},
        "tools": [{"functionDeclarations": [TOOL]}],
        "contents": CONTENTS,
    },
    "gemini of the SDK": {
        "config": {"system_instruction": PROMPT, "tools": [{"function_declarations": [TOOL]}]},
        "contents": CONTENTS,
    },
}


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("is_line", [False, True])
def test_the_system_prompt_and_the_tools_beside_a_list_are_kept(
    name: str, is_line: bool, store: Store, tmp_path: Path
) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text((json.dumps(BESIDE[name]) + "\n") * (1 + is_line))
    report = imported(store, path)
    assert report.unread_total == 0
    for session in report.sessions:
        context = Context(store, session.conversation)
        request = context.request(dialect="openai_chat")
        assert request["messages"][0] == {"role": "system", "content": PROMPT}
        assert request["tools"][0]["function"]["name"] == "ls"
        assert context.log.notes(kind="beside") == []


def test_what_else_stands_beside_a_list_is_a_note_or_told(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    beside = {"tool_choice": "auto", "config": {"tools": [TOOL], "temperature": 0}, "tools": []}
    path.write_text(json.dumps({"messages": HELLO, **beside, "system": {"no": "prompt"}}))
    report = imported(store, path)
    assert ["a part of the system prompt" in one.reason for one in report.unread] == [True]
    with Context(store, report.sessions[0].conversation) as context:
        [note] = context.log.notes(kind="beside")
        assert note.data == {"tool_choice": "auto", "config": {"temperature": 0}}
        context.update(title="Mine")
        head = [*context.log.events()][-1].seq
    path.write_text(json.dumps({"messages": HELLO, **beside, "title": "A list", "seed": 1}))
    imported(store, path)
    imported(store, path)
    with Context(store, report.sessions[0].conversation) as context:
        kinds = [event.kind for event in context.log.events(after=head)]
        assert kinds == ["meta", "meta", "note"] and len(context.log.notes(kind="beside")) == 2


def turns(*said: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"from": who, "value": value} for who, value in said]


LS, CAT = {"name": "ls", "arguments": {"path": "."}}, {"name": "cat", "arguments": '{"file": "a"}'}
DATASETS = {
    "one": ([json.dumps(LS)], ["call-1-0"]),
    "several": ([json.dumps([LS, CAT])], ["call-1-0", "call-1-1"]),
    "one by one": ([json.dumps(LS), json.dumps(CAT)], ["call-1-0", "call-3-0"]),
}


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("names", [("from", "value"), ("role", "content")])
@pytest.mark.parametrize("is_lines", [False, True])
def test_calls_of_datasets_and_what_came_of_them_are_calls_and_results(
    name: str, names: tuple[str, str], is_lines: bool, store: Store, tmp_path: Path
) -> None:
    values, ids = DATASETS[name]
    many = len(ids) // len(values)
    called = [
        one
        for value in values
        for one in (("function_call", value), *[("observation", "a.py")] * many)
    ]
    whole = turns(("human", "List."), *called, ("gpt", "a.py."))
    whole = [{names[0]: one["from"], names[1]: one["value"]} for one in whole]
    if is_lines:
        path = write(tmp_path / "m.jsonl", whole)
    else:
        path = tmp_path / "m.json"
        path.write_text(json.dumps({"conversations": whole}))
    report = imported(store, path)
    assert report.unread_total == 0, report.unread
    context = Context(store, report.sessions[0].conversation)
    blocks = [block for slot in context.view.slots for block in slot.message.blocks]
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    assert [(call.id, call.name) for call in calls] == list(zip(ids, ("ls", "cat"), strict=False))
    assert [block.call for block in blocks if isinstance(block, ToolResult)] == ids
    assert [slot.message.role for slot in context.view.slots][:2] == ["user", "assistant"]


def test_a_result_of_no_call_and_a_call_of_no_name_are_told(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    odd = [("function_call", "ls"), ("observation", "a.py"), ("function_call", '[{"a": 1}]')]
    path.write_text(json.dumps(turns(("human", "List."), *odd, ("observation", "b"))))
    for _ in range(2):
        report = imported(store, path)
        assert [one.line for one in report.unread] == [2, 3, 4, 5]
    assert texts(store, report.sessions[0].conversation) == ["List."]


def test_two_lists_of_the_same_name_are_two_conversations(store: Store, tmp_path: Path) -> None:
    ids = set()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "messages.json").write_text(json.dumps(HELLO))
        ids.add(imported(store, tmp_path / folder / "messages.json").sessions[0].conversation)
    assert len(ids) == 2


# --- bad input ---


def test_what_is_not_understood_is_told_by_its_line_and_the_rest_is_imported(
    store: Store, tmp_path: Path
) -> None:
    lines = [json.dumps(line).encode() for line in transcripts.parallel()]
    deep = b'{"type":"progress","sessionId":"x","data":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    broken = [b'{"type": "user", "mess', b"[1, 2]", b"\xff\xfe", deep, b'{"no": "type"}']
    nested = json.dumps(user("u5", "a4", [{"type": "text", "text": {"a": [1]}}])).encode()
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([*lines[:3], *broken, *lines[3:], nested]))
    report = imported(store, tmp_path / "a.jsonl")
    told = {one.line for one in report.unread}
    assert {4, 5, 6, 7, 8} <= told
    assert texts(store, CLAUDE)[:5] == [
        "List both folders.", "Both at once. call t1 call t2", "result t1", "result t2",
        "one.py and two.py.",
    ]  # fmt: skip
    assert refold.conversations.verify(store) is not None


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_any_damage_leaves_a_report_and_a_readable_conversation(tmp_path: Path, data: Any) -> None:
    """Bytes changed, lines cut, values of other types: no other error, and the log is whole."""
    made = data.draw(st.sampled_from([transcripts.parallel(), transcripts.rollout()]))
    content = bytearray(write(tmp_path / "a.jsonl", made).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=6))
    (tmp_path / "a.jsonl").write_bytes(content)
    store = open_store("memory:")
    try:
        report = imported(store, tmp_path / "a.jsonl")
    except Invalid:
        return
    for session in report.sessions:
        with suppress(Invalid):  # a page on which nobody said anything
            Context(store, session.conversation).request()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_values_of_other_types_are_told_and_never_raised(tmp_path: Path, data: Any) -> None:
    lines = data.draw(
        st.sampled_from([transcripts.parallel(), transcripts.rollout(), CALLED, GEMINI])
    )
    lines = json.loads(json.dumps(lines))
    for _ in range(data.draw(st.integers(1, 3))):
        place: Any = data.draw(st.sampled_from(lines))
        while True:
            name = data.draw(st.sampled_from(sorted(place))) if isinstance(place, dict) else 0
            inner = place[name]
            if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
                place = inner
                continue
            place[name] = data.draw(VALUES)
            break
    store = open_store("memory:")
    try:
        report = imported(store, write(tmp_path / "a.jsonl", lines))
    except Invalid:
        return
    for session in report.sessions:
        with suppress(Invalid):  # a page on which nobody said anything
            Context(store, session.conversation).request()


def test_a_packed_file_that_ends_in_the_middle_gives_what_it_has(
    store: Store, tmp_path: Path
) -> None:
    lines = [*transcripts.parallel(), *(user(f"x{n}", "a4", "é" * n) for n in range(400))]
    packed = gzip.compress(write(tmp_path / "a.jsonl", lines).read_bytes())
    (tmp_path / "a.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    report = imported(store, tmp_path / "a.jsonl.gz")
    assert report.sessions[0].messages > 0
    assert [one.reason for one in report.unread if "compressed" in one.reason] == [
        "the compressed file is cut off or damaged here"
    ]


@pytest.mark.parametrize("name", ["deep.json", "deep.jsonl", "cut.json.gz", "damaged.json.gz"])
def test_an_error_says_what_is_wrong_with_the_file_and_nothing_of_ours(
    name: str, store: Store, tmp_path: Path
) -> None:
    listed = [{"role": "user", "content": f"{n} " * n} for n in range(300)]
    packed = bytearray(gzip.compress(json.dumps(listed).encode()))
    packed[len(packed) // 2] ^= 0xFF
    deep = b'{"messages": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    content, expected = {
        "deep.json": (deep, "nested too deep"),
        "deep.jsonl": (json.dumps(HELLO[0]).encode() + b"\n" + deep, "nested too deep"),
        "cut.json.gz": (packed[: len(packed) // 2], "the compressed file is cut off or damaged"),
        "damaged.json.gz": (packed, "the compressed file is cut off or damaged"),
    }[name]
    (tmp_path / name).write_bytes(content)
    try:
        told = "\n".join(one.reason for one in imported(store, tmp_path / name).unread)
    except Invalid as error:
        told = str(error)
    assert expected in told
    assert not any(word in told for word in ("recursion", "marker", "before its end", "zlib"))


def test_a_file_that_unpacks_to_far_more_is_left(store: Store, tmp_path: Path) -> None:
    content = write(tmp_path / "a.jsonl", transcripts.parallel()).read_bytes()
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content + b" " * (200 << 20)))
    report = imported(store, tmp_path / "a.jsonl.gz")
    assert report.sessions[0].messages == 5
    assert any("unpacks to more than" in one.reason for one in report.unread)
    listed = json.dumps(HELLO, indent=1).encode()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(listed + b" " * (70 << 20)))
    with pytest.raises(Invalid, match="far more than it has"):
        imported(store, tmp_path / "a.json.gz")


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"hello", b"{}", b"[]", b'[{"a": 1}]', b"null", b"[" * 9_999]
)
def test_what_is_no_session_is_refused(content: bytes, store: Store, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(Invalid):
        imported(store, tmp_path / "x.json")
    with pytest.raises(NotFound):
        imported(store, tmp_path / "none.json")


def test_paths_and_commands_in_a_file_are_only_text(store: Store, tmp_path: Path) -> None:
    """Nothing that a file names is opened, run or written."""
    line = user(
        "u1", None, "Read it.", cwd="/etc", toolUseResult={"file": {"filePath": "/etc/passwd"}}
    )
    line["sessionId"] = "../../../etc/cron.d/x"
    report = imported(store, write(tmp_path / "a.jsonl", [line]))
    assert "/" not in report.sessions[0].conversation
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]


# --- what is taken off beside something else ---


def test_what_was_left_before_a_rollback_stays_off(store: Store, tmp_path: Path) -> None:
    """A file that became shorter and was rolled back: two things are taken off at once."""
    file, lines = tmp_path / "a.jsonl", transcripts.rollout()
    imported(store, write(file, [*lines[:8], lines[9], lines[10]]))
    [session] = imported(store, write(file, [*lines[:7], lines[11]])).sessions
    page = texts(store, session.conversation)
    assert "Delete it." not in page and "main.py." not in page
    before = store.conversation(session.conversation).head
    [again] = imported(store, file).sessions
    assert (again.restored, store.conversation(again.conversation).head) == (0, before)


def test_what_was_left_before_a_summary_stays_off_without_it(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    summary = {"role": "user", "content": "Summed up.", "compact_summary": True}
    stories: list[list[Any]] = [["One.", "Two."], ["One.", summary, "Three."], ["One.", "Four."]]
    for story in stories:
        said = [{"role": "user", "content": one} if isinstance(one, str) else one for one in story]
        file.write_text(json.dumps(said))
        [session] = imported(store, file).sessions
    assert texts(store, session.conversation) == ["One.", "Four."]


@pytest.mark.parametrize("theirs", ["import", "note"])
def test_a_summary_is_adopted_once_whoever_writes_meanwhile(theirs: str, tmp_path: Path) -> None:
    """Between any two lines that are read, another import may come, or a user who notes
    something. The first lines are read before anything is written."""
    lines = transcripts.rollout()
    lines[1:1] = [lines[1]] * SNIFFED_LINES
    path, alone = write(tmp_path / "a.jsonl", lines), open_store("memory:")
    [session] = imported(alone, path).sessions
    id = session.conversation
    for place in range(SNIFFED_LINES, len(lines)):
        store, left = open_store("memory:"), iter(range(place, -1, -1))
        act = partial(imported, store, path) if theirs == "import" else partial(_note, store, id)
        import_file(store, Config(), path, advance=partial(_at_zero, left, act))
        kinds = [event.kind for event in Context(store, id).log.events()]
        assert next(left, None) is None and kinds.count("edit") == 1, place
        assert texts(store, id) == texts(alone, id)


def _at_zero(left: Iterator[int], act: Callable[[], object], done: int) -> None:
    if next(left, None) == 0:
        act()


def _note(store: Store, id: str) -> None:
    with suppress(NotFound):
        store.conversation(id)
        Context(store, id).note("theirs", None)


class Counting(MemoryStore):
    """A store that counts the events read from it."""

    events_read = 0

    def read(self, *args: Any, **given: Any) -> list[Event]:
        found = super().read(*args, **given)
        self.events_read += len(found)
        return found


@pytest.mark.parametrize("shape", ["siblings", "chain"])
def test_a_rewritten_session_is_read_a_bounded_number_of_times(shape: str, tmp_path: Path) -> None:
    def reads(size: int) -> float:
        store = Counting()
        chain = [user(f"u{n}", f"u{n - 1}" if n else None, "a") for n in range(size)]
        imported(store, write(tmp_path / f"{size}.jsonl", chain))
        store.events_read = 0
        other = "u" if shape == "siblings" else "v"
        rest = [
            user(f"{other}{n}", "u0" if shape == "siblings" or n == 1 else f"{other}{n - 1}", "a")
            for n in range(1, size // 4)
        ]
        [session] = imported(store, write(tmp_path / f"{size}.jsonl", [chain[0], *rest])).sessions
        assert session.restored >= size - 1 - len(rest)
        return store.events_read / size

    small, large = reads(600), reads(3_600)
    assert large < 1.3 * small


def test_a_task_folder_of_cline_keeps_its_id_and_its_words(tmp_path: Path) -> None:
    folder = tmp_path / "tasks" / "1712345678901"
    folder.mkdir(parents=True)
    said = [
        {"role": "user", "content": [{"type": "text", "text": "<task>\nFix the parser\n</task>"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    ]
    file = folder / "api_conversation_history.json"
    file.write_text(json.dumps(said))
    store = open_store("memory:")
    [session] = imported(store, file).sessions
    assert (session.conversation, session.title) == ("cline-1712345678901", "Fix the parser")
