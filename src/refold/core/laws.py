"""The laws of every page, and the seams where a cut is legal.

The log may contain anything (a user message between a call and its result, a process that died in a
tool call). `settled` puts slots in lawful order: one result per call, directly after it. A call
waits for its result until another speaker's message; a later result becomes text at its own
position. This depends on the slots alone, so the sent part of a page never changes. `seams` lists
legal cuts for strategies, `broken` every violated law. A provider's own rules are in its dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from msgspec.structs import replace

from refold.core.call_arguments import arguments_object, arguments_text
from refold.core.model import (
    MIRRORED,
    UPTO,
    Block,
    Era,
    Media,
    Message,
    Slot,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    View,
    is_shown,
)
from refold.core.thinking_validity import era_at, unchanged_since

NO_RESULT = "[no result recorded]"
OPENING = "(the conversation goes on from here)"
# Dialects in which one reply may be appended as several messages, one per item.
ITEMWISE = frozenset({"openai_responses"})
ThinkingCheck = Callable[[Slot], bool]  # whether the thinking in a slot is still valid
CUT_OFF = "cut_off"  # metadata key of a reply whose stream broke off
CONTINUES = "$continues"  # metadata key of a message that continues the reply before it


def calls_of(message: Message) -> list[str]:
    """The ids of its tool calls. Only an assistant calls tools, whatever a log may contain."""
    if message.role != "assistant":
        return []
    return [block.id for block in message.blocks if isinstance(block, ToolCall)]


def results_of(message: Message) -> list[str]:
    return [block.call for block in message.blocks if isinstance(block, ToolResult)]


def is_request(slot: Slot) -> bool:
    """Whether this is a user's own request: not a summary, a tool result, memories or added
    content."""
    is_user = slot.message.role == "user" and not is_shown(slot.message)
    return is_user and not slot.standin and says_something(slot.message)


def says_something(message: Message) -> bool:
    return any(not isinstance(block, ToolResult) for block in message.blocks)


# --- seams ---


def seams(slots: Sequence[Slot]) -> list[int]:
    """Every index before which the slots may be cut: no earlier call is answered later. Starts
    with 0."""
    # For each slot the index of the furthest slot that answers one of its calls.
    reach = list(range(len(slots)))
    callers: dict[str, int] = {}
    for index, slot in enumerate(slots):
        for id in results_of(slot.message):
            if id in callers:
                reach[callers[id]] = max(reach[callers[id]], index)
        callers.update(dict.fromkeys(calls_of(slot.message), index))
    legal, furthest = [], -1
    for index in range(len(slots)):
        if furthest < index:
            legal.append(index)
        furthest = max(furthest, reach[index])
    return [*legal, len(slots)]


def units(slots: Sequence[Slot]) -> list[range]:
    """The runs between seams: a message alone, or calls with all of their results."""
    return [range(first, last) for first, last in pairwise(seams(slots))]


# --- order ---


def groups(slots: Sequence[Slot]) -> list[range]:
    """The runs that are put in order together: a message alone, or calls with everything until all
    are answered or another message interrupts. Only the last run can still grow."""
    starts: list[int] = []
    waiting: set[str] = set()
    answered = False  # whether one of the waiting calls has a result
    for index, slot in enumerate(slots):
        speaks = bool(waiting) and _speaks(slot.message, answered=answered)
        results = waiting.intersection(results_of(slot.message)) if waiting else waiting
        if speaks and not results:
            waiting = set()
        if not waiting:
            starts.append(index)
            answered = False
        waiting = set() if speaks else waiting - results
        waiting.update(calls_of(slot.message))
        answered = answered or bool(results)
    return [range(first, last) for first, last in pairwise([*starts, len(slots)])]


def _speaks(message: Message, *, answered: bool) -> bool:
    """Whether this message ends the wait for results, because a user or the assistant says
    something else. The items of one reply do not interrupt each other."""
    if message.role not in ("user", "assistant"):
        return False
    is_item = message.dialect in ITEMWISE and not answered
    if message.role == "assistant" and (is_item or CONTINUES in message.metadata):
        return False
    rest = tuple(block for block in message.blocks if not isinstance(block, ToolResult))
    return bool(rest) and _has_content(replace(message, blocks=rest))


def settled(
    slots: Sequence[Slot], *, opens: bool = True, overdue: dict[str, str] | None = None
) -> tuple[Sequence[Slot], list[str]]:
    """The slots in lawful order, and the repairs made. Lawful slots are returned unchanged. For
    slots that continue a page, `opens` is False, and `overdue` maps the ids of earlier calls
    without a result to the names of their tools; it is updated."""
    repairs: list[str] = []
    if not in_order(slots):
        overdue = {} if overdue is None else overdue
        ordered: list[Slot] = []
        for group in groups(slots):
            run = slots[group.start : group.stop]
            ordered += run if in_order(run) else _reordered(run, overdue, repairs)
        slots = ordered
    first = next(filter(opens_page, slots), None) if opens else None
    if first is not None and first.message.role != "user":
        repairs.append(
            f"#{first.seq} comes before any user message: an opening was inserted before it"
        )
        at = slots.index(first)
        opening = Slot(first.seq, first.seq, Message(role="user", blocks=(Text(OPENING),)), 0)
        slots = [*slots[:at], opening, *slots[at:]]
    return slots, repairs


def opens_page(slot: Slot) -> bool:
    """Whether the page begins with this slot: system messages are separate, and empty user messages
    are not sent."""
    return slot.message.role != "system" and (
        slot.message.role != "user" or _has_content(slot.message)
    )


def in_order(slots: Sequence[Slot]) -> bool:
    """Whether every call is answered once, directly after it, and there are no other results."""
    waiting: set[str] = set()
    for slot in slots:
        calls, results = calls_of(slot.message), results_of(slot.message)
        if not _answers(slot, results, waiting):
            return False
        waiting.difference_update(results)
        if len(set(calls)) < len(calls) or len(calls) < sum(
            isinstance(b, ToolCall) for b in slot.message.blocks
        ):
            return False
        waiting = waiting | set(calls)
    return not waiting


def _answers(slot: Slot, results: list[str], waiting: set[str]) -> bool:
    """Whether a slot may come next while these calls are waiting for their results."""
    if not results:
        return not waiting and slot.message.role != "tool"
    if (
        slot.message.role not in ("user", "tool")
        or not waiting.issuperset(results)
        or len(set(results)) < len(results)
    ):
        return False
    closes = len(results) == len(waiting)
    leads = all(isinstance(block, ToolResult) for block in slot.message.blocks[: len(results)])
    return leads and (closes or not says_something(slot.message))


def _reordered(group: Sequence[Slot], overdue: dict[str, str], repairs: list[str]) -> list[Slot]:
    """A group in lawful order: each reply, its results, and then everything else."""
    waiting: dict[str, dict[str, Slot]] = {}
    replies: list[tuple[Slot, dict[str, Slot]]] = []
    others: list[Slot] = []
    twice: dict[str, str] = {}
    for slot in group:
        late = _take_results(slot, waiting, overdue, repairs)
        is_reply = slot.message.role == "assistant"
        # Without results, and without calls that only an assistant can make.
        misplaced = ToolResult if is_reply else ToolResult | ToolCall
        rest = tuple(block for block in slot.message.blocks if not isinstance(block, misplaced))
        if not is_reply:
            others += _with_blocks(slot, (*late, *rest))
            continue
        others += _with_blocks(replace(slot, message=Message(role="user")), tuple(late))
        for reply in _with_blocks(slot, rest):
            reply, again = _distinct(reply)
            for call in again:
                overdue[call.id] = twice[call.id] = call.name
                repairs.append(f"#{reply.seq} calls {call.id!r} twice: the second is sent as text")
            answers: dict[str, Slot] = {}
            replies.append((reply, answers))
            waiting.update(dict.fromkeys(calls_of(reply.message), answers))
    twice = {id: name for id, name in twice.items() if id in overdue}
    ordered = [slot for reply in replies for slot in _with_answers(*reply, overdue, repairs)]
    overdue.update(twice)
    return [*ordered, *others]


def _take_results(
    slot: Slot, waiting: dict[str, dict[str, Slot]], overdue: dict[str, str], repairs: list[str]
) -> list[Block]:
    """Assigns each result of a slot to its waiting call; returns late results as text. A result
    without a call on the page is left out."""
    late: list[Block] = []
    for result in slot.message.blocks:
        if not isinstance(result, ToolResult):
            continue
        answers = waiting.pop(result.call, None)
        if answers is not None:
            is_alone = len(slot.message.blocks) == 1 and slot.message.role in ("user", "tool")
            message = Message(role="tool", blocks=(result,), dialect=slot.message.dialect)
            answers[result.call] = slot if is_alone else replace(slot, message=message)
        elif result.call in overdue:
            repairs.append(f"#{slot.seq} answers {result.call!r} late: the result is sent as text")
            late += _late_blocks(result, overdue.pop(result.call))
        else:
            repairs.append(f"#{slot.seq} answers {result.call!r}, which is not waiting: left out")
    return late


def _with_answers(
    reply: Slot, answers: dict[str, Slot], overdue: dict[str, str], repairs: list[str]
) -> list[Slot]:
    """A reply with a result, or a placeholder, for each of its calls. A call without a result whose
    arguments are unreadable becomes text."""
    reply, cut = _without_cut_calls(reply, answers)
    for call in cut:
        overdue[call.id] = call.name
        repairs.append(f"#{reply.seq} calls {call.id!r} with unreadable arguments: sent as text")
    out = [reply]
    for block in reply.message.blocks:
        if not isinstance(block, ToolCall) or reply.message.role != "assistant":
            continue
        overdue.pop(block.id, None)
        answer = answers.get(block.id)
        if answer is None:
            overdue[block.id] = block.name
            why = f"calls {block.id!r} and has no result: a placeholder was inserted"
            repairs.append(f"#{reply.seq} {why}")
            result = ToolResult(block.id, (Text(NO_RESULT),))
            answer = Slot(reply.seq, reply.seq, Message(role="tool", blocks=(result,)), 0)
        out.append(answer)
    return out


def _without_cut_calls(reply: Slot, answers: dict[str, Slot]) -> tuple[Slot, list[ToolCall]]:
    """The reply, with text in place of the calls that have neither a result nor readable arguments,
    as after an interrupted stream; and those calls."""
    cut: list[ToolCall] = []
    blocks: list[Block] = []
    for block in reply.message.blocks:
        is_last = CUT_OFF in reply.message.metadata and block is reply.message.blocks[-1]
        if (
            isinstance(block, ToolCall)
            and block.id not in answers
            and _is_unreadable(block, is_cut=is_last)
        ):
            cut.append(block)
            blocks.append(told(block, "incomplete call"))
        else:
            blocks.append(block)
    if not cut or reply.message.role != "assistant":
        return reply, []
    message = replace(reply.message, blocks=tuple(blocks), form=None)
    return replace(reply, message=message), cut


def _is_unreadable(call: ToolCall, *, is_cut: bool) -> bool:
    """Whether the arguments are broken JSON, rather than the free text that some tools take; in an
    interrupted stream (`is_cut`), also whether they are missing."""
    text = arguments_text(call).strip()
    if is_cut and text in ("", "{}"):
        return True
    return arguments_object(call) is None and (is_cut or text[:1] in ("{", "["))


def _with_blocks(slot: Slot, blocks: tuple[Block, ...]) -> list[Slot]:
    """The slot with these blocks, if there are any. Other blocks of a tool message become a user
    message."""
    message = slot.message
    if not blocks:
        return []
    if blocks == message.blocks and message.role != "tool":
        return [slot]
    role = "user" if message.role == "tool" else message.role
    return [replace(slot, message=replace(message, role=role, blocks=blocks, form=None))]


def _late_blocks(result: ToolResult, name: str) -> list[Block]:
    """A late result, in a form that needs no call."""
    heading = f"[late result of call {result.call}" + (f" ({name})]" if name else "]")
    texts = [heading, *(part.text for part in result.content if not isinstance(part, Media))]
    media = [part for part in result.content if isinstance(part, Media)]
    return [Text("\n".join(texts)), *media]


def _distinct(slot: Slot) -> tuple[Slot, list[ToolCall]]:
    """The slot with each call id once, and the repeated calls. A repeated call becomes text unless
    it equals the first."""
    calls = calls_of(slot.message)
    if len(set(calls)) == len(calls):
        return slot, []
    seen: dict[str, ToolCall] = {}
    again: list[ToolCall] = []
    blocks: list[Block] = []
    for block in slot.message.blocks:
        first = seen.setdefault(block.id, block) if isinstance(block, ToolCall) else block
        if first is block:
            blocks.append(block)
        elif isinstance(block, ToolCall) and block != first:
            again.append(block)
            blocks.append(told(block, f"second call {block.id}"))
    return replace(slot, message=replace(slot.message, blocks=tuple(blocks), form=None)), again


def told(call: ToolCall, kind: str) -> Text:
    """A call that cannot be sent, as text."""
    return Text(f"[{kind}: {call.name}({arguments_text(call)})]")


# --- thinking ---


def thinking_check(view: View, *, bound: bool, native: bool = False) -> ThinkingCheck:
    """Returns a check for whether the thinking in a slot is valid. A model that binds thinking to
    everything before it, including the system prompt and tools, refuses it unless the page before
    it is the same as when it was written; a native summary in place of messages does not count as a
    change, as long as it is sent (`native`). For all other models thinking is always valid, so
    equal slots are equal requests, and an undo is exact.
    """
    if not bound:
        return lambda _: True
    since = unchanged_since(view.eras, native=native)
    return partial(_is_bound_valid, view.eras, since, native)


def _is_bound_valid(eras: Sequence[Era], since: int, native: bool, slot: Slot) -> bool:
    """A late reply belongs to the page of its request, if that is known. A message from an external
    history may belong to a page that only its owner knows: it is valid as long as nothing
    changes."""
    upto = slot.message.metadata.get(UPTO, slot.seq)
    if not isinstance(upto, int) or upto <= 0:
        return False
    if slot.message.key.startswith(MIRRORED):
        return upto >= since
    era = era_at(eras, upto)
    until = era.until_native if native else era.until
    return slot.seq < until and era.front == eras[-1].front


def without_thinking(slots: Sequence[Slot], keeps_thinking: ThinkingCheck) -> Sequence[Slot]:
    """The slots, without invalid thinking."""
    kept: list[Slot] = []
    is_changed = False
    for slot in slots:
        blocks = slot.message.blocks
        if any(isinstance(block, Thinking) for block in blocks) and not keeps_thinking(slot):
            blocks = tuple(Thinking() if type(block) is Thinking else block for block in blocks)
            slot = replace(slot, message=replace(slot.message, blocks=blocks))
            is_changed = True
        kept.append(slot)
    return kept if is_changed else slots


# --- laws ---


def broken(view: View) -> list[str]:
    """A sentence for each law that the view violates; an empty list for a page that may be sent."""
    slots, _ = settled(view.slots)
    present = {slot.seq for slot in view.slots if not slot.standin}
    faults = [] if in_order(slots) else ["calls and results are not in order"]
    faults += [
        f"the pinned message #{seq} is not on the page" for seq in sorted(view.pins - present)
    ]
    spoken = {slot.seq for slot in view.slots if slot.message.role != "system"} - view.pins
    if view.request and view.request not in present and spoken:  # a cleared page has no request
        faults.append(f"the latest user request #{view.request} is not on the page")
    faults += [f"#{slot.seq} is empty" for slot in view.slots if not _has_content(slot.message)]
    return faults


def _has_content(message: Message) -> bool:
    return any(
        isinstance(block, ToolCall | ToolResult | Media)
        or any(getattr(block, name) for name in block.__struct_fields__)
        for block in message.blocks
    )
