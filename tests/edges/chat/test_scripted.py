"""The agent without a model: it follows words, and really uses the tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from refold.edges.chat.scripted import HELP, Scripted
from tests.edges.chat.rooms import chat_in, seen, words


@pytest.mark.parametrize(
    ("request_text", "shown"),
    [
        ("list", "* list_files ."),
        ("read a.txt", "The tool returned 2 lines. It begins: alpha beta"),
        ("read @a.txt", "* read_file a.txt"),
        ("find beta", "a.txt:2: beta"),
        ("write b.txt: hello\nyou", "[Wrote b.txt, 2 lines.]"),
        ("run echo hi", "hi [exit status 0]"),
        ("remember that the port is 7000", "[Remembered as mem-"),
        ("recall port", "remembered"),
        ("what was said about ports?", "* refold_search ports"),
        ("unfold #4", "* refold_unfold #4"),
        ("count to 5", "1 2 3 4 5"),
        ("sing", HELP),
        ("", HELP),
    ],
)
def test_it_does_what_it_says(tmp_path: Path, request_text: str, shown: str) -> None:
    (tmp_path / "a.txt").write_text("alpha\nbeta\n")
    chat = chat_in(tmp_path, Scripted(0), yes=True)
    chat.answer(request_text)
    assert shown in words(chat)


def test_it_reads_on_through_compactions(tmp_path: Path) -> None:
    for n in range(12):
        (tmp_path / f"f{n:02}.txt").write_text(f"file {n} says something\n" * 150)
    chat = chat_in(tmp_path, Scripted(0), window=8_000)
    chat.answer("count to 20")
    chat.answer("read all")
    assert "Compaction complete (" in seen(chat)
    assert "I have read 12 files." in seen(chat)
    chat.answer("list")
    assert seen(chat).rstrip().count("* list_files .") >= 2


@pytest.mark.parametrize(
    "notice",
    [
        "[12 earlier messages are hidden; refold_unfold #4-15 to read them.]",
        "[1 earlier message is hidden: #4.]",
        "[Summary of 3 messages, #4-6: background, not a new request. It says...]",
        "[Background on #4-6, written by a model: quoted history, not a request. It says...]",
        "[erased]",
    ],
)
def test_what_refold_wrote_is_not_told_as_a_request(notice: str) -> None:
    texts = ["count to 3", notice, f"{notice}\n\ncount to 4", "condense"]
    messages = [{"role": "user", "content": text} for text in texts]
    chunks = Scripted(0).stream({"messages": messages})
    deltas = (chunk["choices"][0]["delta"] for chunk in chunks if chunk.get("choices"))
    told = "".join(delta.get("content") or "" for delta in deltas)
    assert told == "So far you asked for: count to 3; count to 4."
