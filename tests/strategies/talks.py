"""Agent conversations for the tests of strategies: how they are built, folded, sized and compacted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from refold.config import Config
from refold.core.budget import budget_for
from refold.core.codec import decode
from refold.core.fold import Fold, folded, switches, text_of
from refold.core.model import (
    Body,
    Event,
    Media,
    Message,
    Pin,
    Role,
    Slot,
    Span,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    View,
)
from refold.strategies.brief import Brief, Strategy
from refold.strategies.ladder import Climb, climb
from tests.core.logs import bodies, sealed

MESSAGE_TOKENS = 4


def count(message: Message) -> int:
    """Four signs are a token, four tokens a message; media have a price of their own."""
    return MESSAGE_TOKENS + sum(_block(block) for block in message.blocks)


def _block(block: Any) -> int:
    if isinstance(block, Thinking):
        return (len(block.text) + len(block.data)) // 4
    if isinstance(block, Media):
        return 300
    media = sum(300 for part in getattr(block, "content", ()) if isinstance(part, Media))
    return len(text_of(block)) // 4 + media


def log_of(parts: Sequence[Body]) -> list[Event]:
    """A log in which every message has its counted size."""
    return sealed(list(parts), [count(part) if isinstance(part, Message) else 10 for part in parts])


def state_of(log: Sequence[Event]) -> Fold:
    return folded(log, switches(log))


def brief_of(
    log: Sequence[Event], target: int = 0, *, window: int = 10_000, task: str = "", config: Config | None = None,
    view: View | None = None, **settings: Any,
) -> Brief:  # fmt: skip
    def originals(span: Span) -> list[Slot]:
        found = [(event, decode(event)) for event in log if event.seq in span]
        return [Slot(e.seq, e.seq, body, e.tokens) for e, body in found if isinstance(body, Message)]

    config = config or Config()
    return Brief(
        view=view or state_of(log).view(), budget=budget_for(config, window=window, output=None), config=config,
        count=count, target=target, batch="b-test", originals=originals, task=task, settings=settings,
    )  # fmt: skip


def climbed(
    log: Sequence[Event], strategy: Strategy, target: int = 0, *, state: Fold | None = None, **options: Any
) -> Climb:
    """What one strategy alone makes of the page, through the ladder."""
    state = state or state_of(log)
    return climb(state, brief_of(log, target, view=state.view(), **options), [("tested", strategy)])


def pages(climb: Climb) -> list[str]:
    return [text for slot in climb.state.view().slots for text in shown(slot)]


def shown(slot: Slot) -> list[str]:
    return [text_of(block) for block in slot.message.blocks]


# --- conversations by hand -----------------------------------------------------------------------------------------


def alternating(n: int, size: int = 400) -> list[Body]:
    """User and assistant in turn, the user first; `size` signs each."""
    return [said("user" if i % 2 == 0 else "assistant", f"m{i} ".ljust(size, ".")) for i in range(n)]


def said(role: Role, text: str) -> Message:
    return Message(role=role, blocks=(Text(text),))


def used(
    id: str, output: str, *, tool: str = "run", text: str = "", error: bool = False, **arguments: Any
) -> list[Body]:
    """One tool use: the call and its result."""
    blocks = (*((Text(text),) if text else ()), ToolCall(id, tool, arguments or {"command": f"do {id}"}))
    return [Message(role="assistant", blocks=blocks), answered(id, output, error=error)]


def answered(id: str, output: str, *, error: bool = False, artifact: str = "") -> Message:
    return Message(role="tool", blocks=(ToolResult(id, (Text(output),), is_error=error, artifact=artifact),))


# --- conversations by chance ---------------------------------------------------------------------------------------

_WORDS = ["src/auth.py", "error", "fix", "the", "login", "decided", "TODO", "parser.ts", "ok", "Traceback", "日本", "x"]
_short = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=12).map(" ".join)
_long = st.builds(lambda line, times: "\n".join([line] * times), _short, st.integers(5, 120))
_texts = st.one_of(_short, _short, _long, _short.map(lambda text: text * 60))


@st.composite
def _uses(draw: st.DrawFn, number: int) -> list[Body]:
    """A step of the agent: thinking, words, parallel calls, their results in one message or in many."""
    ids = [f"c{number}-{i}" for i in range(draw(st.integers(1, 3)))]
    blocks: list[Any] = [Thinking(draw(_texts), "sig")] if draw(st.booleans()) else []
    blocks += [Text(draw(_short))] if draw(st.booleans()) else []
    for id in ids:
        arguments = "{}" if draw(st.booleans()) else {"path": draw(_texts)}
        blocks.append(ToolCall(id, draw(st.sampled_from(["read", "run", "memory"])), arguments))
    results = [ToolResult(id, draw(_content), is_error=draw(st.booleans())) for id in ids]
    together = draw(st.booleans())
    answers = [Message(role="user" if together else "tool", blocks=tuple(results))] if together else [
        Message(role="tool", blocks=(result,)) for result in results
    ]
    return [Message(role="assistant", blocks=tuple(blocks)), *answers]


_content = st.one_of(
    _texts.map(lambda text: (Text(text),)),
    _texts.map(lambda text: (Text(text), Media(media="image", mime="image/png", data="aGk="))),
)


@st.composite
def talks(draw: st.DrawFn, turns_max: int = 5) -> list[Event]:
    """A lawful agent conversation: requests, steps with tools, replies, now and then a pin; perhaps still at work."""
    parts: list[Body] = [said("system", "be brief")] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(1, turns_max))):
        parts.append(said("user", draw(_texts)))
        for step in range(draw(st.integers(0, 4))):
            parts += draw(_uses(turn * 10 + step))
        if draw(st.booleans()):
            parts.append(said("assistant", draw(_texts)))
        if draw(st.integers(0, 4)) == 0:
            parts.append(Pin(seq=draw(st.integers(1, len(parts)))))
    return log_of(parts)


unlawful = bodies().map(
    lambda parts: sealed(parts, [count(part) if isinstance(part, Message) else 10 for part in parts])
)
anything = st.one_of(talks(), talks(), unlawful)


def same_slots(before: View, after: View, seqs: set[int]) -> bool:
    """Whether the slots at these seqs are on both pages, unaltered."""
    old, new = ({slot.seq: slot for slot in view.slots if slot.seq in seqs} for view in (before, after))
    return old == new


def resized(log: Sequence[Event], sizes: dict[int, int]) -> list[Event]:
    """The log with some of its sizes set by hand."""
    return [replace(event, tokens=sizes.get(event.seq, event.tokens)) for event in log]
