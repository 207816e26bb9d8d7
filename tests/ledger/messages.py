"""Messages, and what the ledger learns from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from refold.config import Config
from refold.core.model import Fact, Message, Slot, Text, ToolCall, ToolResult
from refold.ledger.ledger import facts_of


def slots_of(messages: Sequence[Message], first: int = 1) -> list[Slot]:
    return [Slot(seq, seq, message, 10) for seq, message in enumerate(messages, first)]


def user(*texts: str) -> Message:
    return Message(role="user", blocks=tuple(Text(text) for text in texts))


def says(text: str) -> Message:
    return Message(role="assistant", blocks=(Text(text),))


def does(
    name: str, result: str = "fine", *, error: bool = False, artifact: str = "", **arguments: Any
) -> list[Message]:
    """A call and its result; the id only has to differ from its neighbours'."""
    id = f"{name}{arguments}"
    answer = ToolResult(id, (Text(result),), is_error=error, artifact=artifact)
    return [
        Message(role="assistant", blocks=(ToolCall(id, name, arguments),)),
        Message(role="tool", blocks=(answer,)),
    ]


def learnt(
    *messages: Message, known: Sequence[Fact] = (), first: int = 1, config: Config | None = None
) -> list[Fact]:
    return list(facts_of(slots_of(messages, first), config or Config(), known))


def states(facts: Sequence[Fact], kind: str) -> dict[str, str]:
    return {fact.text: fact.state for fact in facts if fact.kind == kind}


WORDS = st.sampled_from(
    ["- [ ] a", "- [x] a", "You must go.", "decided to stay.", "<file_content path=", "</file_content>", "```", "> ",
     "\n", "[read_file for 'a'] Result:", "<system-reminder>", "</system-reminder>", "a" * 400]
)  # fmt: skip


TEXTS = st.lists(WORDS, max_size=6).map(" ".join)


def many() -> list[Fact]:
    reads = [Fact(kind="file", text=f"r{n}", seq=n, state="read") for n in range(300)]
    runs = [Fact(kind="command", text=f"c{n}", seq=n, state="exit 0") for n in range(300)]
    kept = [
        Fact(kind="request", text="do it", seq=1),
        Fact(kind="file", text="m", seq=1, state="modified"),
        Fact(kind="constraint", text="never", seq=1, state="user"),
        Fact(kind="todo", text="t", seq=1, state="open"),
    ]
    return [*kept, *reads, *runs]
