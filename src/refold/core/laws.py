"""The rules that every page obeys, and the seams they leave: the places where a cut is legal.

The log may hold anything (a user typing between a call and its result, a process that died in a
tool call). `settled` puts slots in lawful order: one result per call, directly after it. Calls wait
for their results until somebody else speaks; a result that comes later is told as a text, at its
own place. That follows from the slots alone, so a page never changes behind what was sent. `seams`
tells strategies where to cut. `broken` names every law a view breaks. A provider's own rules live
with its dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from msgspec.structs import replace

from refold.core.eras import era_at, unchanged_since
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

NO_RESULT = "[no result recorded]"
OPENING = "(the conversation goes on from here)"
# The dialects in which one reply may be appended as several messages, one for each of its items.
ITEMWISE = frozenset({"openai_responses"})
Stands = Callable[[Slot], bool]  # whether what was thought in a slot still stands
CONTINUES = "$continues"  # in the metadata of a message that is the rest of the reply before it


def calls_of(message: Message) -> list[str]:
    """The ids of its tool calls. Only an assistant calls tools, whatever a log may hold."""
    if message.role != "assistant":
        return []
    return [block.id for block in message.blocks if isinstance(block, ToolCall)]


def results_of(message: Message) -> list[str]:
    return [block.call for block in message.blocks if isinstance(block, ToolResult)]


def is_request(slot: Slot) -> bool:
    """Whether this is something a user asked for: not a summary, a tool result, memories, or
    what was added."""
    is_users = slot.message.role == "user" and not is_shown(slot.message)
    return is_users and not slot.standin and says_something(slot.message)


def says_something(message: Message) -> bool:
    return any(not isinstance(block, ToolResult) for block in message.blocks)


# --- seams ---


def seams(slots: Sequence[Slot]) -> list[int]:
    """Every index before which the slots may be cut: no call before it is answered after it.
    Starts with 0."""
    reach = _reaches(slots)
    found, furthest = [], -1
    for index in range(len(slots)):
        if furthest < index:
            found.append(index)
        furthest = max(furthest, reach[index])
    return [*found, len(slots)]


def units(slots: Sequence[Slot]) -> list[range]:
    """The runs between seams: a message alone, or calls with all of their results."""
    return [range(first, last) for first, last in pairwise(seams(slots))]


def _reaches(slots: Sequence[Slot]) -> list[int]:
    """For each slot the index of the furthest slot that answers one of its calls."""
    reach = list(range(len(slots)))
    asked: dict[str, int] = {}
    for index, slot in enumerate(slots):
        for id in results_of(slot.message):
            if id in asked:
                reach[asked[id]] = max(reach[asked[id]], index)
        asked.update(dict.fromkeys(calls_of(slot.message), index))
    return reach


# --- order ---


def groups(slots: Sequence[Slot]) -> list[range]:
    """The runs that are put in order together: a message alone, or calls with what comes until
    all are answered or somebody else speaks. Only the last can still grow."""
    starts: list[int] = []
    waiting: set[str] = set()
    answered = False  # whether a result of the calls that wait has come
    for index, slot in enumerate(slots):
        speaks = bool(waiting) and _speaks(slot.message, answered=answered)
        came = waiting.intersection(results_of(slot.message)) if waiting else waiting
        if speaks and not came:
            waiting = set()
        if not waiting:
            starts.append(index)
            answered = False
        waiting = set() if speaks else waiting - came
        waiting.update(calls_of(slot.message))
        answered = answered or bool(came)
    return [range(first, last) for first, last in pairwise([*starts, len(slots)])]


def _speaks(message: Message, *, answered: bool) -> bool:
    """Whether a user or the assistant says something else here, so that calls before it wait no
    longer. The items of one reply do not interrupt each other."""
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
    """The slots in lawful order, and what had to be repaired. Slots that obey already come back
    as they are. For slots that follow others `opens` is False, and `overdue` has the calls that
    those left without a result: the tool's name by the call's id. It is brought up to date."""
    repairs: list[str] = []
    if not in_order(slots):
        overdue = {} if overdue is None else overdue
        ordered: list[Slot] = []
        for group in groups(slots):
            part = slots[group.start : group.stop]
            ordered += part if in_order(part) else _reordered(part, overdue, repairs)
        slots = ordered
    first = next(filter(opens_page, slots), None) if opens else None
    if first is not None and first.message.role != "user":
        repairs.append(f"#{first.seq} comes before any user message: an opening was put before it")
        at = slots.index(first)
        opening = Slot(first.seq, first.seq, Message(role="user", blocks=(Text(OPENING),)), 0)
        slots = [*slots[:at], opening, *slots[at:]]
    return slots, repairs


def opens_page(slot: Slot) -> bool:
    """Whether this is what the page begins with: a system message stands apart, an empty user
    message is not sent."""
    return slot.message.role != "system" and (
        slot.message.role != "user" or _has_content(slot.message)
    )


def in_order(slots: Sequence[Slot]) -> bool:
    """Whether every call is answered, once, directly after it, and nothing else is."""
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
    """Whether a slot may follow while these calls wait for their results."""
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
    """A group in lawful order: each reply, its results, and then whatever else was said."""
    waiting: dict[str, dict[str, Slot]] = {}
    replies: list[tuple[Slot, dict[str, Slot]]] = []
    others: list[Slot] = []
    for slot in group:
        late = _take_results(slot, waiting, overdue, repairs)
        said = _said(slot.message)
        if slot.message.role != "assistant":
            others += _with_blocks(slot, (*late, *said))
            continue
        others += _with_blocks(replace(slot, message=Message(role="user")), tuple(late))
        for reply in map(_distinct, _with_blocks(slot, said)):
            answers: dict[str, Slot] = {}
            replies.append((reply, answers))
            waiting.update(dict.fromkeys(calls_of(reply.message), answers))
    shown = [one for reply in replies for one in _with_answers(*reply, overdue, repairs)]
    return [*shown, *others]


def _take_results(
    slot: Slot,
    waiting: dict[str, dict[str, Slot]],
    overdue: dict[str, str],
    repairs: list[str],
) -> list[Block]:
    """Gives each result of a slot to the call that waits for it; what comes late is given back,
    as texts. A result that no call on the page still lacks is left out."""
    late: list[Block] = []
    for result in slot.message.blocks:
        if not isinstance(result, ToolResult):
            continue
        answers = waiting.pop(result.call, None)
        if answers is not None:
            answers[result.call] = _alone(slot, result)
        elif result.call in overdue:
            repairs.append(f"#{slot.seq} answers {result.call!r} late: it is told as a text")
            late += _told_late(result, overdue.pop(result.call))
        else:
            repairs.append(f"#{slot.seq} answers {result.call!r}, which is not waiting: left out")
    return late


def _with_answers(
    reply: Slot, answers: dict[str, Slot], overdue: dict[str, str], repairs: list[str]
) -> list[Slot]:
    """A reply with a result for each of its calls; one that says so where none came."""
    out = [reply]
    for block in reply.message.blocks:
        if isinstance(block, ToolCall) and reply.message.role == "assistant":
            out.append(answers.get(block.id) or _missing(reply, block.id, repairs))
            overdue.pop(block.id, None)
            if block.id not in answers:
                overdue[block.id] = block.name
    return out


def _said(message: Message) -> tuple[Block, ...]:
    """What a message says besides results, and besides calls that nobody but an assistant can
    make."""
    out_of_place = ToolResult if message.role == "assistant" else ToolResult | ToolCall
    return tuple(block for block in message.blocks if not isinstance(block, out_of_place))


def _with_blocks(slot: Slot, blocks: tuple[Block, ...]) -> list[Slot]:
    """The slot with these blocks, if there are any. What a tool says besides results was just
    said."""
    message = slot.message
    if not blocks:
        return []
    if blocks == message.blocks and message.role != "tool":
        return [slot]
    role = "user" if message.role == "tool" else message.role
    return [replace(slot, message=replace(message, role=role, blocks=blocks, form=None))]


def _told_late(result: ToolResult, name: str) -> list[Block]:
    """A result that comes when its call waits no longer, in a form that needs no call."""
    heading = f"[late result of call {result.call}" + (f" ({name})]" if name else "]")
    texts = [heading, *(part.text for part in result.content if not isinstance(part, Media))]
    media = [part for part in result.content if isinstance(part, Media)]
    return [Text("\n".join(texts)), *media]


def _alone(slot: Slot, result: ToolResult) -> Slot:
    if len(slot.message.blocks) == 1 and slot.message.role in ("user", "tool"):
        return slot
    return replace(
        slot, message=Message(role="tool", blocks=(result,), dialect=slot.message.dialect)
    )


def _distinct(slot: Slot) -> Slot:
    """The slot with each call id once."""
    calls = calls_of(slot.message)
    if len(set(calls)) == len(calls):
        return slot
    seen: set[str] = set()
    blocks: list[Block] = []
    for block in slot.message.blocks:
        if isinstance(block, ToolCall):
            if block.id in seen:
                continue
            seen.add(block.id)
        blocks.append(block)
    return replace(slot, message=replace(slot.message, blocks=tuple(blocks), form=None))


def _missing(slot: Slot, call: str, repairs: list[str]) -> Slot:
    repairs.append(f"#{slot.seq} calls {call!r} and has no result: one that says so was put in")
    return Slot(
        slot.seq, slot.seq, Message(role="tool", blocks=(ToolResult(call, (Text(NO_RESULT),)),)), 0
    )


# --- thinking ---


def thinking(view: View, *, bound: bool, native: bool = False) -> Stands:
    """Which slots keep what was thought in them: those before which stands what stood there then.
    What the provider wrote in the place of messages is no change, as long as that is what is sent
    (`native`).

    Models that bind thinking to everything before it, the system prompt and the tools included,
    refuse it elsewhere. Others want the thinking of a tool loop that was open at the change back:
    for them it stays after the request of that time.
    """
    if bound:
        since = unchanged_since(view.eras, native=native)
        return partial(_stands, view.eras, since, native)
    edited_at = view.undoable[-1][0] if view.undoable else 0
    earlier = (slot for slot in reversed(view.slots) if slot.seq < edited_at)
    first = next((slot.seq for slot in earlier if is_request(slot)), 0)
    return lambda slot: slot.seq >= first


def _stands(eras: Sequence[Era], since: int, native: bool, slot: Slot) -> bool:
    """What came late was thought under the page of its request, or under none that there is. What
    stands in the list of an owner may have been thought under his words: those are ours only as
    long as nothing changes."""
    upto = slot.message.metadata.get(UPTO, slot.seq)
    if not isinstance(upto, int) or upto <= 0:
        return False
    if slot.message.key.startswith(MIRRORED):
        return upto >= since
    era = era_at(eras, upto)
    return slot.seq < (era.until_native if native else era.until)


def without_thinking(slots: Sequence[Slot], stands: Stands) -> Sequence[Slot]:
    """The slots, without thinking that no longer stands."""
    gone = {slot.seq for slot in slots if _thinks(slot) and not stands(slot)}
    return [_thoughtless(slot) if slot.seq in gone else slot for slot in slots] if gone else slots


def _thinks(slot: Slot) -> bool:
    return any(isinstance(block, Thinking) for block in slot.message.blocks)


def _thoughtless(slot: Slot) -> Slot:
    blocks = tuple(
        Thinking() if isinstance(block, Thinking) else block for block in slot.message.blocks
    )
    return replace(slot, message=replace(slot.message, blocks=blocks))


# --- laws ---


def broken(view: View) -> list[str]:
    """Every law that the view breaks; empty for a page that may be sent."""
    slots, _ = settled(view.slots)
    present = {slot.seq for slot in view.slots if not slot.standin}
    found = [] if in_order(slots) else ["calls and results are not in order"]
    found += [
        f"the pinned message #{seq} is not on the page" for seq in sorted(view.pins - present)
    ]
    spoken = {slot.seq for slot in view.slots if slot.message.role != "system"} - view.pins
    if view.request and view.request not in present and spoken:  # a cleared page asks nothing
        found.append(f"the latest user request #{view.request} is not on the page")
    found += [f"#{slot.seq} is empty" for slot in view.slots if not _has_content(slot.message)]
    return found


def _has_content(message: Message) -> bool:
    return any(
        isinstance(block, ToolCall | ToolResult | Media)
        or any(getattr(block, name) for name in block.__struct_fields__)
        for block in message.blocks
    )
