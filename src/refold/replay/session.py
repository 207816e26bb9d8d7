"""A conversation as the measures see it: every message that was ever said in it, in lawful order.

What a compaction hid is there again, because every policy decides for itself. What was taken back
before the session went on is not: no prompt had both. What a person took back after its last
message is no part of the session. What was erased leaves its shape, as on the page. A summary that
was adopted from another agent stands where it was made, marked, for the policy that follows the
agent. Results stand directly after their calls; a call that was never answered says so.
Neighbours: `texts` has the shape, `run` plays it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from refold.core.call_arguments import arguments_object
from refold.core.codec import decode
from refold.core.fold import merged
from refold.core.model import (
    Block,
    Event,
    Message,
    Meta,
    Revert,
    Summarize,
    Text,
    ToolCall,
    ToolResult,
)
from refold.core.shortened import skeleton
from refold.core.switches import CONTROLS, Switches, switches
from refold.engine.context import Context
from refold.replay import needs

ADOPTED = "adopted from "
SUMMARY = "compact_summary"  # marks the message that another agent's compaction left
NO_RESULT = "[no result recorded]"
_PAGE_EVENTS = 500


class ReplaySession(Struct, frozen=True):
    """A session: its messages and the model that answered last; how many messages of the log were
    `taken_back` before it went on, and are not among them; how many are `off_page` since, because a
    person went back, and are."""

    messages: list[needs.Message]
    model: str = ""
    taken_back: int = 0
    off_page: int = 0


def messages_of(context: Context) -> list[needs.Message]:
    """The messages of a conversation, oldest first; its system prompt first of all."""
    return said_in(context).messages


def said_in(context: Context) -> ReplaySession:
    """The session that a conversation has."""
    spoken: set[int] = set()
    controls: list[Event] = []
    metas: list[Event] = []
    kept = {"meta": metas, **dict.fromkeys(CONTROLS, controls)}
    for event in _events(context):
        if event.kind == "message":
            spoken.add(event.seq)
        elif event.kind in kept:
            kept[event.kind].append(event)
    now, then = switches(controls), switches(_until_the_end(controls, spoken))
    gone = then.off | now.erased.keys()
    about = _merged(event for event in metas if event.seq not in gone and not event.erased)
    first = [needs.Message(role="system", content=_system_text(about.system))]
    return ReplaySession(
        messages=[*(first if about.system else ()), *_ordered(_spoken(context, then, now))],
        model=about.model or "",
        taken_back=len(spoken & then.off),
        off_page=len(spoken & now.off - then.off),
    )


def _merged(metas: Iterable[Event]) -> Meta:
    """What these events say of a conversation, a later one over an earlier one."""
    known = Meta()
    systems: dict[int, object] = {}
    for event in metas:
        body = decode(event)
        if not isinstance(body, Meta):
            continue
        if body.system is not None:
            systems[event.seq] = body.system
        elif body.system_seq is not None:  # a system prompt that was said before
            body = replace(body, system=systems.get(body.system_seq))
        known = merged(known, body)
    return known


def _until_the_end(controls: Iterable[Event], spoken: set[int]) -> Iterator[Event]:
    """The controls without what a person took back after the last message. What a session takes
    back itself, it takes back message by message."""
    last = max(spoken, default=0)
    for event in controls:
        is_back = event.seq > last and event.kind in ("restore", "revert")
        body = decode(event) if is_back else None
        if not is_back or (isinstance(body, Revert) and body.seq in spoken):
            yield event


def _system_text(system: object) -> str:
    if isinstance(system, str):
        return system
    parts = system if isinstance(system, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def _events(context: Context) -> Iterator[Event]:
    after = 0
    while page := context.log.events(after=after, limit=_PAGE_EVENTS):
        yield from page
        after = page[-1].seq


def _spoken(context: Context, then: Switches, now: Switches) -> Iterator[needs.Message]:
    """What was said and was not off then, and where another agent compacted. What is erased now
    is."""
    erased = now.erased
    for event in _events(context):
        if event.seq in then.off or event.kind not in ("message", "edit"):
            continue
        if event.erased or event.seq in erased:
            if event.kind == "message":
                yield from _measured_message(skeleton(erased.get(event.seq)))
            continue
        body = decode(event)
        if isinstance(body, Message):
            yield from _measured_message(body)
        elif isinstance(body, Summarize) and body.reason.startswith(ADOPTED):
            yield {"role": "user", "content": body.text, SUMMARY: True}


def _measured_message(message: Message) -> Iterator[needs.Message]:
    """A message in the shape of the measures: results apart, calls beside the text."""
    for block in message.blocks:
        if isinstance(block, ToolResult):
            yield {"role": "tool", "tool_call_id": block.call, "content": _text_of(block.content)}
    calls = [_call(block) for block in message.blocks if isinstance(block, ToolCall)]
    text = _text_of(block for block in message.blocks if not isinstance(block, ToolResult))
    if calls or text.strip():
        said = needs.Message(role=message.role, content=text)
        yield {**said, "tool_calls": calls} if calls else said


def _text_of(blocks: Iterable[Block]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, Text))


def _call(call: ToolCall) -> needs.Message:
    arguments = arguments_object(call)
    given = arguments if arguments is not None else {"input": str(call.arguments)}
    return {"id": call.id, "name": call.name, "arguments": given}


def _ordered(said: Iterable[needs.Message]) -> Iterator[needs.Message]:
    """Results directly after their calls; what another agent wrote item by item is one message."""
    turn: needs.Message | None = None
    waiting: dict[str, needs.Message | None] = {}
    for message in said:
        if message["role"] == "tool":
            if message["tool_call_id"] in waiting:
                waiting[message["tool_call_id"]] = message
            continue
        if message["role"] == "assistant" and turn is not None and _is_open(waiting):
            _join(turn, message, waiting)
            continue
        if turn is not None:
            yield from _turn(turn, waiting)
            turn, waiting = None, {}
        if message["role"] == "assistant":
            turn = dict(message)
            waiting = {call["id"]: None for call in message.get("tool_calls") or ()}
        else:
            yield message
    if turn is not None:
        yield from _turn(turn, waiting)


def _is_open(waiting: dict[str, needs.Message | None]) -> bool:
    """Whether no call of a turn has its result yet: what comes then belongs to the same turn."""
    return all(result is None for result in waiting.values())


def _join(
    turn: needs.Message, message: needs.Message, waiting: dict[str, needs.Message | None]
) -> None:
    turn["content"] = "\n".join(filter(None, (turn["content"], message["content"])))
    calls = message.get("tool_calls") or []
    if calls:
        turn["tool_calls"] = [*(turn.get("tool_calls") or ()), *calls]
        waiting.update({call["id"]: None for call in calls})


def _turn(turn: needs.Message, waiting: dict[str, needs.Message | None]) -> Iterator[needs.Message]:
    yield turn
    for id, result in waiting.items():
        yield result or {"role": "tool", "tool_call_id": id, "content": NO_RESULT}
