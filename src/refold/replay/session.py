"""A conversation in the form that the measures need: every message ever said in it, in lawful
order.

Messages hidden by a compaction are included, because every policy decides for itself. Messages
taken back before the session went on are not: no prompt had both. A person's restore after the last
message does not belong to the session. An erased message keeps its place, as on the page. A summary
adopted from another agent is marked, for the policy that follows the agent. Results come directly
after their calls; a call without one gets a result that says so. An answer has the usage that its
provider reported, unless refold had folded the page of that call: its size is not that of the full
history. Neighbours: `needs` has the shape, `run` plays it, `scale` relates its sizes to
usage.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from refold.core.active_events import CONTROLS, Switches, switched, switches
from refold.core.call_arguments import arguments_object
from refold.core.codec import decode
from refold.core.fold import merged
from refold.core.model import (
    ADOPTED as ADOPTION,
)
from refold.core.model import (
    Block,
    Event,
    Hide,
    Message,
    Meta,
    Replace,
    Revert,
    Summarize,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from refold.core.shortened import skeleton
from refold.engine.context import Context
from refold.replay import needs
from refold.tokens.models import model_info

ADOPTED = "adopted from "
SUMMARY = "compact_summary"  # marks the summary of another agent
USAGE = "usage"  # of an answer: the largest report, with the model it was for
NO_RESULT = "[no result recorded]"


class ReplaySession(Struct, frozen=True):
    """A session: its messages, its last model and the window that was set for it (0: none was);
    `taken_back` messages were left out, because they were taken back before it went on; `off_page`
    messages are included, although a person went back later."""

    messages: list[needs.Message]
    model: str = ""
    window: int = 0
    taken_back: int = 0
    off_page: int = 0


def messages_of(context: Context) -> list[needs.Message]:
    """The messages of a conversation, oldest first, after its system prompt."""
    return said_in(context).messages


def said_in(context: Context) -> ReplaySession:
    """The session of a conversation."""
    spoken: set[int] = set()
    controls: list[Event] = []
    metas: list[Event] = []
    kept = {"meta": metas, **dict.fromkeys(CONTROLS, controls)}
    for event in context.log.events():
        if event.kind == "message":
            spoken.add(event.seq)
        elif event.kind in kept:
            kept[event.kind].append(event)
    now, then = switches(controls), switches(_until_the_end(controls, spoken))
    taken_back = {seq for seq in spoken if seq in then.off}
    active = (e for e in metas if e.seq not in then.off and e.seq not in now.erased)
    about = _merged(event for event in active if not event.erased)
    is_imported = "imported" in (about.metadata or {})
    was_folded = _folding(controls)
    spoken_now = _spoken(context, then, now, was_folded, is_imported=is_imported)
    first = [needs.Message(role="system", content=_system_text(about.system))]
    return ReplaySession(
        messages=[*(first if about.system else ()), *_ordered(spoken_now)],
        model=about.model or "",
        window=(about.windows or {}).get(model_info(about.model).name, 0),
        taken_back=len(taken_back),
        off_page=sum(seq in now.off for seq in spoken - taken_back),
    )


def _merged(metas: Iterable[Event]) -> Meta:
    """The metadata in these events, the later over the earlier."""
    known = Meta()
    systems: dict[int, object] = {}
    for event in metas:
        body = decode(event)
        if not isinstance(body, Meta):
            continue
        if body.system is not None:
            systems[event.seq] = body.system
        elif body.system_seq is not None:  # a system prompt from before
            body = replace(body, system=systems.get(body.system_seq))
        known = merged(known, body)
    return known


def _until_the_end(controls: Iterable[Event], spoken: set[int]) -> Iterator[Event]:
    """The controls, without those of a person after the last message. The session itself takes
    messages back one at a time."""
    last = max(spoken, default=0)
    for event in controls:
        is_back = event.seq > last and event.kind in ("restore", "revert")
        body = decode(event) if is_back else None
        if not is_back or (isinstance(body, Revert) and body.seq in spoken):
            yield event


def _folding(controls: Sequence[Event]) -> Callable[[int], bool]:
    """Whether an edit of refold's own was active on the page at a seq."""
    decoded = [(event.seq, None if event.erased else decode(event)) for event in controls]
    purposes: dict[str, str] = {}  # of each batch: the first edit has it
    own: list[int] = []
    for seq, body in decoded:
        if not isinstance(body, Replace | Hide | Summarize):
            continue
        if purposes.setdefault(body.batch, body.purpose) != ADOPTION:
            own.append(seq)

    @cache
    def is_folded_after(count: int) -> bool:
        off = switched(decoded[:count]).off
        last = decoded[count - 1][0] if count else 0
        return any(seq <= last and seq not in off for seq in own)

    def was_folded(seq: int) -> bool:
        return bool(own) and is_folded_after(bisect_right(decoded, seq, key=lambda one: one[0]))

    return was_folded


def _system_text(system: object) -> str:
    if isinstance(system, str):
        return system
    parts = system if isinstance(system, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def _spoken(
    context: Context,
    then: Switches,
    now: Switches,
    was_folded: Callable[[int], bool],
    *,
    is_imported: bool,
) -> Iterator[needs.Message]:
    """The messages that were not off at that time, the compactions of another agent, and the usage
    reported for unfolded pages; erased messages keep their place. An importer marks all usage as
    estimated and for no page, because its page is not refold's."""
    erased, model = now.erased, ""
    for event in context.log.events():
        if event.seq in then.off or event.kind not in ("message", "edit", "meta", "usage"):
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
        elif isinstance(body, Meta):
            model = body.model or model
        elif isinstance(body, Usage) and body.input > 0:
            if body.estimated:
                is_unfolded = is_imported and not body.upto
            else:
                is_unfolded = not was_folded(body.upto or event.seq)
            if not is_unfolded:
                continue
            yield {"role": USAGE, USAGE: replace(body, model=body.model or model)}


def _measured_message(message: Message) -> Iterator[needs.Message]:
    """A message in the shape of the measures: results separate, calls beside the text."""
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
    """Results directly after their calls; items that another agent wrote separately are one
    message."""
    turn: needs.Message | None = None
    waiting: dict[str, needs.Message | None] = {}
    for message in said:
        if message["role"] == USAGE:
            usage = message[USAGE]
            if turn is not None and (USAGE not in turn or turn[USAGE].input < usage.input):
                turn[USAGE] = usage
            continue
        if message["role"] == "tool":
            if message["tool_call_id"] in waiting:
                waiting[message["tool_call_id"]] = message
            continue
        is_open = all(result is None for result in waiting.values())
        if message["role"] == "assistant" and turn is not None and is_open:
            # No call of the turn has its result yet, so this message belongs to the same turn.
            turn["content"] = "\n".join(filter(None, (turn["content"], message["content"])))
            if calls := message.get("tool_calls"):
                turn["tool_calls"] = [*(turn.get("tool_calls") or ()), *calls]
                waiting.update({call["id"]: None for call in calls})
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


def _turn(turn: needs.Message, waiting: dict[str, needs.Message | None]) -> Iterator[needs.Message]:
    yield turn
    for id, result in waiting.items():
        yield result or {"role": "tool", "tool_call_id": id, "content": NO_RESULT}
