"""The agent loop: replies, tools, interruptions, and everything that goes wrong between them."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold import dialects
from refold.config import Config
from refold.edges.chat.input import mention, mentioned
from refold.edges.chat.loop import STOPPED
from refold.edges.chat.tools import Interrupts
from refold.edges.endpoints.client import Refused
from refold.errors import Denied, Unavailable
from tests.edges.chat.rooms import (
    GivenLines,
    Replies,
    called,
    chat_in,
    delta,
    printed,
    roles,
    said,
    seen,
    words,
)
from tests.edges.endpoints.test_chat import OVERFLOW
from tests.servers import Play, serving
from tests.waiting import is_running, until

pytestmark = pytest.mark.usefixtures("alone")


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def interrupt_once_there(file: Path) -> None:
    try:
        until(lambda: file.exists() and file.read_text().strip())
    finally:
        interrupt()


def check(chat) -> None:
    """The next request is one that a provider takes."""
    request = chat.context.request("openai_chat")
    assert dialects.dialect("openai_chat").check(request) == []


# --- a turn ---


def test_a_reply_is_shown_and_recorded_and_the_first_request_is_the_title(tmp_path: Path) -> None:
    chat = chat_in(tmp_path, Replies(said("hello there")))
    chat.answer("Fix the\nlogin, please")
    assert "hellothere" in seen(chat)
    assert chat.context.view.title == "Fix the login, please"
    assert roles(chat) == ["user", "assistant"]


def test_tools_are_run_until_the_model_is_done(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    endpoint = Replies(
        called("read_file", '{"path": "a.py"}'),
        called("grep", '{"pattern": "x"}', "c2"),
        said("ok"),
    )
    chat = chat_in(tmp_path, endpoint)
    chat.answer("look")
    assert roles(chat) == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert "x = 1" in str(endpoint.requests[1]["messages"])
    assert "a.py:1: x = 1" in str(endpoint.requests[2]["messages"])
    assert len(endpoint.requests[0]["tools"]) > 8
    check(chat)


def test_a_call_that_is_wrong_is_answered_in_words(tmp_path: Path) -> None:
    endpoint = Replies(
        called("nonsense", "{}"),
        called("read_file", "not json", "c2"),
        called("read_file", '{"path": 3}', "c3"),
        said("ok"),
    )
    chat = chat_in(tmp_path, endpoint)
    chat.answer("look")
    assert str(endpoint.requests[-1]["messages"]).count("Error: ") == 3
    check(chat)


def test_no_text_of_a_model_steers_the_terminal(tmp_path: Path) -> None:
    pieces = ["\x1b", "[31m", "red\x1b]0;t\x07", "\u202e", "✔", "\ufe0f", "\r"]
    endpoint = Replies([*(delta({"content": text}) for text in pieces), delta({}, "stop")])
    chat = chat_in(tmp_path, endpoint)
    chat.answer("go")
    text = printed(chat).replace("\x1b[2m", "").replace("\x1b[0m", "")
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(text)
    assert "\\x1b[31mred" in text and "✔" in text


@pytest.mark.parametrize("said_so", ["@my\\ notes.txt", '@"my notes.txt"', '(@"my notes.txt").'])
def test_a_file_with_a_space_is_taken_along(tmp_path: Path, said_so: str) -> None:
    (tmp_path / "my notes.txt").write_text("port 8443")
    chat = chat_in(tmp_path, Replies(said("ok")))
    chat.answer(f"look at {said_so}")
    assert "port 8443" in str(chat.endpoint.requests[0]["messages"])  # type: ignore[attr-defined]


@given(st.text(st.characters(exclude_characters='"\n', exclude_categories=["Cs"]), min_size=1))
def test_what_is_completed_is_mentioned(path: str) -> None:
    assert mentioned(f"look at {mention(path)} now") == [path]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("sub", "is a folder"),
        ("sub/", "is a folder"),
        ("/etc/hostname", "is outside the folder"),
        ("../x", "is outside the folder"),
        ("nothing.txt", "is not a file here"),
        ("data.bin", "is not text"),
    ],
)
def test_a_mention_that_is_not_read_says_why(tmp_path: Path, path: str, reason: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "data.bin").write_bytes(b"\0\1")
    chat = chat_in(tmp_path, Replies(said("ok")))
    chat.answer(f"look at @{path}")
    assert f"@{path} " in seen(chat) and reason in seen(chat)


def test_a_mention_takes_the_file_along(tmp_path: Path) -> None:
    (tmp_path / "my notes.md").write_text("remember the milk")
    (tmp_path / "big.txt").write_text("word " * 20_000)
    endpoint = Replies(said("ok"))
    chat = chat_in(tmp_path, endpoint)
    chat.answer(r"compare @my\ notes.md with @big.txt, me@example.org and @../x.")
    [sent] = [m["content"] for m in endpoint.requests[0]["messages"] if m["role"] == "user"]
    assert "remember the milk" in sent and "art-" in sent and len(sent) < 10_000
    assert "@../x is outside the folder" in seen(chat)
    assert [one.artifact.name for one in chat.context.artifacts.list()] == ["big.txt"]


# --- stopping ---


def test_ctrl_c_stops_a_reply_and_keeps_what_came(tmp_path: Path) -> None:
    chat = chat_in(tmp_path, Replies([*said("one two")[:2], interrupt, *said("three")], said("ok")))
    chat.answer("go")
    assert "Stopped" in seen(chat)
    reply = chat.context.view.slots[-1].message
    assert reply.metadata.get("cut_off") and reply.blocks[0].text == "onetwo"  # type: ignore[union-attr]
    chat.answer("again")
    assert chat.context.view.slots[-1].message.blocks[0].text == "ok"  # type: ignore[union-attr]
    check(chat)


def test_ctrl_c_stops_a_command_and_all_it_started(tmp_path: Path) -> None:
    command = '{"command": "echo PARTIAL; sleep 300 & echo $! > pid; sleep 300", "seconds": 300}'
    calls = [*called("run_command", command)[:1], *called("run_command", "{}", "c2")]
    calls[1]["choices"][0]["delta"]["tool_calls"][0]["index"] = 1
    chat = chat_in(tmp_path, Replies(calls, said("ok")), yes=True)
    threading.Thread(target=interrupt_once_there, args=(tmp_path / "pid",)).start()
    chat.answer("go")
    *_, first, second = chat.context.request("openai_chat")["messages"]
    assert first["content"] == "PARTIAL\n[stopped by the user]" and second["content"] == STOPPED
    assert "PARTIAL" in seen(chat) and "Stopped. The partial reply is kept." in seen(chat)
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not is_running(pid))
    check(chat)


def test_ctrl_c_at_a_question_stops_the_turn(tmp_path: Path) -> None:
    class Stopping(GivenLines):
        def ask(self, question: str) -> str:
            raise KeyboardInterrupt

    endpoint = Replies(called("write_file", '{"path": "a", "content": "x"}'))
    chat = chat_in(tmp_path, endpoint, Stopping())
    chat.answer("go")
    assert not (tmp_path / "a").exists()
    check(chat)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.integers(0, 8), st.booleans())
def test_wherever_it_is_stopped_the_page_stays_valid(
    tmp_path: Path, at: int, with_call: bool
) -> None:
    chunks: list = [*said("one two three four"), *(called("list_files", "{}") if with_call else [])]
    chunks.insert(at, interrupt)
    chat = chat_in(tmp_path, Replies(chunks, said("ok"), said("ok")))
    chat.answer("go")
    check(chat)
    chat.answer("on")
    check(chat)


def test_an_interrupt_outside_of_waiting_is_remembered_and_raises_in_the_next_wait() -> None:
    interrupts = Interrupts()
    with interrupts:
        interrupt()
        time.sleep(0.01)
        assert interrupts.asked
        with pytest.raises(KeyboardInterrupt), interrupts.waiting():
            raise AssertionError("not reached")
    with interrupts, interrupts.waiting():
        pass


# --- what goes wrong ---


def test_a_refused_key_is_said_and_the_chat_goes_on(tmp_path: Path) -> None:
    denied = Denied("x.invalid answered 401", hint="check the key in OPENAI_API_KEY")
    chat = chat_in(tmp_path, Replies([denied], said("ok")))
    chat.answer("go")
    assert "401; check the key" in seen(chat)
    chat.answer("again")
    check(chat)


def test_too_many_requests_are_waited_for(tmp_path: Path) -> None:
    busy = Unavailable("x.invalid answered 429", retry_after_s=0.01)
    chat = chat_in(tmp_path, Replies([busy], [busy], said("ok")))
    chat.answer("go")
    assert seen(chat).count("trying again") == 2 and "ok" in seen(chat)
    assert roles(chat) == ["user", "assistant"]


def test_tries_have_an_end(tmp_path: Path) -> None:
    busy = Unavailable("x.invalid answered 429", retry_after_s=0.0)
    chat = chat_in(tmp_path, Replies(*[[busy]] * 9))
    chat.answer("go")
    assert len(chat.endpoint.replies) == 5  # type: ignore[attr-defined]


def test_a_stream_that_breaks_keeps_what_came_and_is_not_sent_again(tmp_path: Path) -> None:
    broken = Unavailable("the connection ended early", retry_after_s=0.0)
    chat = chat_in(tmp_path, Replies([*said("half an")[:2], broken], said("never")))
    chat.answer("go")
    assert "halfan" in seen(chat) and "ended early" in seen(chat) and "never" not in seen(chat)
    assert chat.context.view.slots[-1].message.metadata.get("cut_off")
    check(chat)


def test_a_page_that_the_provider_finds_too_long_is_shortened_once(tmp_path: Path) -> None:
    refused = Refused("x.invalid answered 400", body=OVERFLOW)
    chat = chat_in(tmp_path, Replies([refused], said("ok"), [refused], [refused]))
    for n in range(40):
        chat.context.append({"role": "assistant" if n % 2 else "user", "content": f"{n} " * 200})
    chat.answer("go")
    assert "refused the page as too long" in seen(chat) and "ok" in seen(chat)
    chat.answer("on")
    assert "or use a model with a larger window" in words(chat)


def test_a_model_that_takes_no_tools_is_told(tmp_path: Path) -> None:
    refused = Refused("x answered 400", body="m does not support tools", hint="check the name")
    chat = chat_in(tmp_path, Replies([refused]))
    chat.answer("go")
    assert "x answered 400; some models take no tools: refold chat --no-tools" in seen(chat)


def test_a_model_that_says_nothing_is_told(tmp_path: Path) -> None:
    chat = chat_in(tmp_path, Replies([]))
    chat.answer("go")
    assert "said nothing" in seen(chat)


def test_a_model_that_never_ends_is_stopped(tmp_path: Path) -> None:
    replies = [called("list_files", "{}", f"c{n}") for n in range(200)]
    chat = chat_in(tmp_path, Replies(*replies), config=Config(auto=False))
    chat.answer("go")
    assert "Stopped after 100 steps" in seen(chat)
    check(chat)


# --- cost ---


def test_the_cost_limit_stops_before_the_next_call(tmp_path: Path) -> None:
    dear = said("ok", usage={"prompt_tokens": 1_900, "completion_tokens": 10})
    chat = chat_in(tmp_path, Replies(dear, said("never")), cost_max=0.004)
    chat.answer("go")
    chat.answer("on")
    assert "the limit of $0.0040 is reached" in seen(chat) and "never" not in seen(chat)
    assert "--cost-max 0.008" in seen(chat)


def test_a_limit_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    chat = chat_in(tmp_path, Replies(said("never"), name="nobody-knows"), cost_max=1.0)
    chat.answer("go")
    assert "the price of 'nobody-knows' is not known" in seen(chat)


# --- warnings and compactions ---


def test_the_warning_comes_once_and_the_compaction_is_told(tmp_path: Path) -> None:
    """Y-20"""
    (tmp_path / "a.txt").write_text("line of text\n" * 300)
    replies = [called("read_file", '{"path": "a.txt"}', f"c{n}") for n in range(20)]
    chat = chat_in(tmp_path, Replies(*replies, said("done")), window=12_000)
    chat.answer("read it")
    text = seen(chat)
    warnings, compactions = text.count("Context usage at "), text.count("Compaction complete (")
    assert compactions and warnings in (compactions, compactions + 1)
    assert "Consider using /compact" in text and "/undo takes it back" in text
    assert re.search(r"Auto-compacting \(\d+% usage, strategy: dedup\+gist\+hide\)\.\.\.", text)
    assert re.search(r"Summarized \d+ messages?, saved \d+K? tokens", text)
    check(chat)


def test_the_model_of_the_chat_may_write_the_summaries(tmp_path: Path) -> None:
    talk = said("hello")
    words = {"choices": [{"message": {"content": "Goal: greet."}, "finish_reason": "stop"}]}
    with serving(Play(words)) as server:
        endpoint = Replies(*[talk] * 20, url=server.url)
        chat = chat_in(tmp_path, endpoint, writes_summaries=True)
        for n in range(20):
            chat.answer(f"say hello {n} " + "and more words " * 60)
        assert chat.context.compact("summarize", target=2_500).batch
    assert "Conversation coherence preserved" in seen(chat)
    assert server.seen and server.seen[0][2]["model"] == "gpt-4o"


def test_another_model_is_another_writer(tmp_path: Path) -> None:
    chat = chat_in(tmp_path, Replies(), writes_summaries=True)
    assert chat._writer().model == "gpt-4o"  # type: ignore[union-attr]
    chat.use(Replies(name="gpt-4.1"))
    assert chat.context._writer.model == "gpt-4.1"  # type: ignore[union-attr]
    assert chat.context.budget.window == 1_047_576


def test_a_chat_says_in_which_folder_it_was_held(tmp_path: Path) -> None:
    """Y-82"""
    chat = chat_in(tmp_path, Replies(said("hello")))
    chat.answer("say hello")
    assert chat.context.view.metadata == {"cwd": str(chat.workspace.root)}
