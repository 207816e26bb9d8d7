"""Agent conversations for the tests of strategies: how they are built, folded, sized and
compacted."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from refold.config import Config
from refold.core.active_events import switches
from refold.core.budget import budget_for
from refold.core.codec import decode
from refold.core.fold import Fold, folded
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
from refold.core.shortened import text_of
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
    log: Sequence[Event],
    target: int = 0,
    *,
    window: int = 10_000,
    task: str = "",
    config: Config | None = None,
    view: View | None = None,
    **settings: Any,
) -> Brief:
    def originals(span: Span) -> list[Slot]:
        found = [(event, decode(event)) for event in log if event.seq in span]
        return [
            Slot(e.seq, e.seq, body, e.tokens) for e, body in found if isinstance(body, Message)
        ]

    config = config or Config()
    return Brief(
        view=view or state_of(log).view(),
        budget=budget_for(config, window=window, output=None),
        config=config,
        count=count,
        target=target,
        batch="b-test",
        originals=originals,
        task=task,
        settings=settings,
    )


def climbed(
    log: Sequence[Event],
    strategy: Strategy,
    target: int = 0,
    *,
    state: Fold | None = None,
    **options: Any,
) -> Climb:
    """What one strategy alone makes of the page, through the ladder."""
    state = state or state_of(log)
    return climb(
        state,
        brief_of(log, target, view=state.view(), **options),
        [(getattr(strategy, "__name__", "tested"), strategy)],
    )


def pages(climb: Climb) -> list[str]:
    return [text for slot in climb.state.view().slots for text in shown(slot)]


def shown(slot: Slot) -> list[str]:
    return [text_of(block) for block in slot.message.blocks]


# --- conversations by hand ---


def alternating(n: int, size: int = 400) -> list[Body]:
    """User and assistant in turn, the user first; `size` signs each."""
    return [
        said("user" if i % 2 == 0 else "assistant", f"m{i} ".ljust(size, ".")) for i in range(n)
    ]


def said(role: Role, text: str) -> Message:
    return Message(role=role, blocks=(Text(text),))


def used(
    id: str,
    output: str,
    *,
    tool: str = "run",
    text: str = "",
    error: bool = False,
    **arguments: Any,
) -> list[Body]:
    """One tool use: the call and its result."""
    blocks = (
        *((Text(text),) if text else ()),
        ToolCall(id, tool, arguments or {"command": f"do {id}"}),
    )
    return [Message(role="assistant", blocks=blocks), answered(id, output, error=error)]


def answered(id: str, output: str, *, error: bool = False, artifact: str = "") -> Message:
    return Message(
        role="tool", blocks=(ToolResult(id, (Text(output),), is_error=error, artifact=artifact),)
    )


# --- conversations by chance ---

_WORDS = [
    "src/auth.py",
    "error",
    "fix",
    "the",
    "login",
    "decided",
    "TODO",
    "parser.ts",
    "ok",
    "Traceback",
    "日本",
    "x",
]


def by_chance(seed: int, turns: int) -> list[Event]:
    """A lawful agent conversation: requests, steps with tools, replies, now and then a pin; perhaps
    still at work.

    Drawn by a seed and not block by block: hypothesis would spend its time on drawing.
    """
    chance = Random(seed)
    parts: list[Body] = [said("system", "be brief")] if chance.random() < 0.5 else []
    for turn in range(turns):
        parts.append(said("user", _text(chance)))
        for step in range(chance.randint(0, 4)):
            parts += _step(chance, turn * 10 + step)
        if chance.random() < 0.5:
            parts.append(said("assistant", _text(chance)))
        if chance.random() < 0.2:
            parts.append(
                Pin(
                    seq=chance.choice(
                        [at for at, part in enumerate(parts, 1) if isinstance(part, Message)]
                    )
                )
            )
    return log_of(parts)


def _text(chance: Random) -> str:
    short = " ".join(chance.choices(_WORDS, k=chance.randint(1, 12)))
    kind = chance.randrange(4)
    if kind == 0:
        return "\n".join([short] * chance.randint(5, 120))
    return short * 60 if kind == 1 else short


def _step(chance: Random, number: int) -> list[Body]:
    """A step of the agent: thinking, words, parallel calls, their results in one message or in
    many."""
    ids = [f"c{number}-{i}" for i in range(chance.randint(1, 3))]
    blocks: list[Any] = [Thinking(_text(chance), "sig")] if chance.random() < 0.5 else []
    blocks += [Text(_text(chance))] if chance.random() < 0.5 else []
    for id in ids:
        arguments = "{}" if chance.random() < 0.5 else {"path": _text(chance)}
        blocks.append(ToolCall(id, chance.choice(["read", "run", "memory"]), arguments))
    results = [ToolResult(id, _content(chance), is_error=chance.random() < 0.3) for id in ids]
    call = Message(role="assistant", blocks=tuple(blocks))
    if chance.random() < 0.5:
        return [call, Message(role="user", blocks=tuple(results))]
    return [call, *(Message(role="tool", blocks=(result,)) for result in results)]


def _content(chance: Random) -> tuple[Text | Media, ...]:
    text = Text(_text(chance))
    return (
        (text, Media(media="image", mime="image/png", data="aGk="))
        if chance.random() < 0.2
        else (text,)
    )


class Drawn(list[Event]):
    """A log that shows itself by what it was drawn from: hypothesis would print every event."""

    def __init__(self, seed: int, turns: int) -> None:
        super().__init__(by_chance(seed, turns))
        self.name = f"by_chance({seed}, {turns})"

    def __repr__(self) -> str:
        return self.name


def talks(turns_max: int = 5) -> st.SearchStrategy[list[Event]]:
    return st.builds(Drawn, st.integers(0, 10**6), st.integers(1, turns_max))


unlawful = bodies().map(
    lambda parts: sealed(
        parts, [count(part) if isinstance(part, Message) else 10 for part in parts]
    )
)
anything = st.one_of(talks(), talks(), unlawful)


def same_slots(before: View, after: View, seqs: set[int]) -> bool:
    """Whether the slots at these seqs are on both pages, unaltered."""
    old, new = (
        {slot.seq: slot for slot in view.slots if slot.seq in seqs} for view in (before, after)
    )
    return old == new


def resized(log: Sequence[Event], sizes: dict[int, int]) -> list[Event]:
    """The log with some of its sizes set by hand."""
    return [replace(event, tokens=sizes.get(event.seq, event.tokens)) for event in log]
