"""Providers that fail, seen from the terminal: a wrong key, too many requests, a page that is too
long, a stream that is cut off."""

from __future__ import annotations

from pathlib import Path

from tests.edges.endpoints.test_chat import CHUNKS, OVERFLOW, events
from tests.real.terminal.screens import Terminal, chat
from tests.servers import Play, serving

HELLO = events(*CHUNKS["openai"][:2], CHUNKS["openai"][3])
KEY = "sk-test-0123456789abcdefXYZ"


def talking(folder: Path, url: str) -> Terminal:
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url}
    return chat(folder, "--model", "openai:m", environ=environ)


def test_a_wrong_key(folder: Path) -> None:
    with (
        serving(Play({"error": f"no {KEY}"}, 401), Play(HELLO)) as server,
        talking(folder, server.url) as terminal,
    ):
        said = terminal.say("hi")
        assert "answered 401; check the key in OPENAI_API_KEY" in said
        assert KEY not in terminal.all()
        assert "hello" in terminal.say("again")


def test_too_many_requests(folder: Path) -> None:
    busy = Play({"error": "slow down"}, 429, retry_after="1")
    with serving(busy, Play(HELLO)) as server, talking(folder, server.url) as terminal:
        said = terminal.say("hi")
        assert "trying again in 1 s" in said and "hello" in said


def test_ctrl_c_ends_the_waiting(folder: Path) -> None:
    busy = Play({"error": "slow down"}, 429, retry_after="59")
    with serving(busy, Play(HELLO)) as server, talking(folder, server.url) as terminal:
        terminal.type("hi")
        terminal.key("Enter")
        terminal.wait("trying again in 59 s")
        terminal.key("C-c")
        terminal.wait("Stopped.")
        assert "hello" in terminal.say("again")


def test_a_page_that_is_too_long(folder: Path) -> None:
    refused = Play({"error": {"message": OVERFLOW, "code": "context_length_exceeded"}}, 400)
    (folder / "big.txt").write_text("a line of some words that fills the page\n" * 800)
    with (
        serving(Play(HELLO), refused, Play(HELLO)) as server,
        talking(folder, server.url) as terminal,
    ):
        terminal.say("look at @big.txt")
        said = terminal.say("hi")
        assert "refused the page as too long" in said and "hello" in said
        assert "/ 4,096 tokens" in terminal.prompt()


def test_a_stream_that_is_cut_off(folder: Path) -> None:
    cut = Play(events(*CHUNKS["openai"][:2], end="") + b" " * 50, cut=40)
    with serving(cut, Play(HELLO)) as server, talking(folder, server.url) as terminal:
        said = terminal.say("hi")
        assert "hello" in said and "ended early" in said
        assert "hello" in terminal.say("go on")
        assert server.seen[1][2]["messages"][-2]["content"].startswith("hello")


def test_a_server_that_is_not_there(folder: Path) -> None:
    with serving(Play(HELLO)) as server:
        url = server.url
    with talking(folder, url) as terminal:
        terminal.type("hi")
        terminal.key("Enter")
        terminal.wait("the connection failed")
        terminal.key("C-c")
        terminal.prompt()
