"""Logs for property tests: any sequence of events that a hostile but well-typed writer could
append."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from refold.core.codec import ZERO, encode, kind_of, seal
from refold.core.ids import uuid7
from refold.core.model import (
    Artifact,
    Body,
    Checkpoint,
    Erase,
    Event,
    Fact,
    Hide,
    Message,
    Meta,
    Pin,
    Replace,
    Restore,
    Revert,
    Span,
    Summarize,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)

AT_MS = 1_700_000_000_000


def sealed(bodies: list[Body | tuple[str, bytes]], tokens: list[int] | None = None) -> list[Event]:
    """A log of these bodies; a pair (kind, bytes) stands for a kind that this version does not
    know."""
    log: list[Event] = []
    chain = ZERO
    for seq, body in enumerate(bodies, 1):
        kind, data = body if isinstance(body, tuple) else (kind_of(body), encode(body))
        size = tokens[seq - 1] if tokens else 10
        if isinstance(body, Replace):
            size = -3
        event = seal(
            chain,
            seq,
            id=uuid7(AT_MS + seq, bytes(10)),
            at_ms=AT_MS + seq,
            by="user",
            kind=kind,
            body=data,
            salt=b"s" * 16,
            tokens=size,
            counter="test",
        )
        log.append(event)
        chain = event.chain
    return log


def user(text: str = "hello") -> Message:
    return Message(role="user", blocks=(Text(text),))


def call(*ids: str, text: str = "") -> Message:
    return Message(
        role="assistant",
        blocks=(*((Text(text),) if text else ()), *(ToolCall(i, "run", {"a": 1}) for i in ids)),
    )


def result(id: str, text: str = "done") -> Message:
    return Message(role="tool", blocks=(ToolResult(id, (Text(text),)),))


_ids = st.sampled_from(["a", "b", "c"])
_texts = st.sampled_from(["x", "one\ntwo\nthree\nfour", "", "née \u2028 \x00"])
_blocks = st.one_of(
    st.builds(Text, _texts),
    st.builds(Thinking, _texts, st.just("sig")),
    st.builds(ToolCall, _ids, st.just("run"), st.just({"a": 1})),
    st.builds(lambda id, text: ToolResult(id, (Text(text),)), _ids, _texts),
)
messages = st.builds(
    lambda role, blocks: Message(role=role, blocks=tuple(blocks)),
    st.sampled_from(["user", "assistant", "tool", "system"]),
    st.lists(_blocks, max_size=3),
)


def _span(n: int) -> st.SearchStrategy[Span]:
    return st.tuples(st.integers(1, n), st.integers(1, n)).map(lambda p: Span(min(p), max(p)))


# A strategy costs more to build than to draw from.
@cache
def _others(n: int) -> st.SearchStrategy[Body | tuple[str, bytes]]:
    """Everything but messages, pointing anywhere in a log of so many events."""
    seqs = st.integers(0, n + 1)
    batch = st.sampled_from(["b1", "b2", "b3"])
    span = _span(n)
    keep = st.none() | st.lists(_span(5), max_size=2).map(tuple)
    return st.one_of(
        st.builds(Replace, batch=batch, seq=seqs, block=st.integers(0, 3), keep=keep, text=_texts),
        st.builds(Hide, batch=batch, span=span, notice=st.sampled_from(["", "[hidden]"])),
        st.builds(
            Summarize,
            batch=batch,
            span=span,
            text=st.just("summary"),
            facts=st.just((Fact(kind="file", text="a.py", seq=1),)),
        ),
        st.builds(Revert, batch=batch) | st.builds(Revert, seq=seqs),
        st.builds(Restore, seq=seqs),
        st.builds(Checkpoint, name=_ids, seq=seqs),
        st.builds(Pin, seq=seqs, on=st.booleans()),
        st.builds(
            Usage,
            response=_ids,
            model=_ids,
            input=st.integers(0, 500),
            output=st.integers(0, 50),
            upto=seqs,
            replied=st.booleans(),
        ),
        st.builds(Meta, system=st.none() | _texts, title=st.none() | _texts),
        st.builds(Meta, system_seq=st.none() | seqs, tools=st.none() | st.just([{"name": "run"}])),
        st.builds(Artifact, id=st.just("art-x"), digest=st.just("00")),
        st.builds(Erase, seq=seqs),
        st.just(("future-kind", b'{"anything":[1,2]}')),
    )


@st.composite
def bodies(draw: st.DrawFn, max_size: int = 24) -> list[Body | tuple[str, bytes]]:
    """Half messages, half everything else, pointing anywhere in the log."""
    n = draw(st.integers(0, max_size))
    others = _others(max(n, 1))
    return [draw(messages if draw(st.booleans()) else others) for _ in range(n)]


logs = bodies().map(sealed)
