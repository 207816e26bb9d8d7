"""Truncation: the oldest whole units leave the page, and one notice says how many went and how to
read them.

Without a preset it hides just enough to reach the target. A preset fixes the amount instead:
`none`, `lastTwo`, `half`, `quarter`, `auto`, `condense`, or a `fraction`. The opening (first
request and its plain reply), pins, the latest request and the newest unit stay. Neighbours:
`hide_notice` writes the edits and their notice; `window` and `importance` choose differently and
hide through it.

Hiding what a person chose: the messages of a span leave the page, and can be unfolded.

Tool pairs go whole, and a summary goes whole, so more may leave than was named; the reason says
what. Pins and the latest request are refused, by name. It is not in the registry, because it is
meant for one span and not for a size. Neighbours: `hide_notice` writes the notice,
`compaction.planning` makes a plan of it.

Hiding with one notice: the sentence that stands for all that is hidden, and the edits that carry
it.

Slots go in runs, each by its span; one of the runs carries the notice, which takes in the notices
of earlier truncations, so that they do not pile up. Neighbours: `hide`, `window` and `importance`
choose what goes, `fit` asks what is a notice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from refold.core.laws import calls_of, is_request, results_of, units
from refold.core.model import Edit, Hide, Message, Slot, Span, View
from refold.core.plan import Ask
from refold.errors import Invalid, NotFound
from refold.strategies.brief import (
    Brief,
    check_choice,
    first_text,
    protected,
    reach,
    run_tokens,
    tokens_of,
)

PRESETS = ("none", "lastTwo", "half", "quarter", "auto", "condense")
_HANDLES_EXPECTED = 2  # in the notice, when its size must be known before it is written


def hide(brief: Brief) -> list[Edit | Ask]:
    """Hides the oldest units until the target is met, or the amount that the settings fix."""
    going, reason = _amount(brief)
    return hide_edits(brief, going, lambda _: reason)


def _amount(brief: Brief) -> tuple[set[int], str]:
    """What goes, and why so much."""
    preset, fraction = brief.setting("preset", ""), brief.setting("fraction", 0.0)
    check_choice("there is no truncation", preset, ("", *PRESETS))
    _check_fraction(fraction)
    if "fraction" in brief.settings:
        return _by_fraction(brief.view, fraction), f"{fraction:g} of the messages"
    if not preset:
        return _oldest(brief), "oldest first"
    if preset == "auto":
        preset = auto_preset(brief)
    elif preset == "condense":
        preset = condense_preset(brief.view)
    return _by_preset(brief.view, preset), f"truncation {preset}"


def _check_fraction(fraction: float) -> None:
    if not 0 <= fraction <= 1:
        raise Invalid(f"a fraction of {fraction}", hint="give a number from 0 to 1")


# --- what stays ---


def staying(view: View, whole: Sequence[range]) -> set[int]:
    """The indices that no truncation takes: system slots at the front, the first request, and
    what is protected. `whole` are the units of the page."""
    slots = view.slots
    held = protected(view)
    first = first_request(slots)
    out = {index for index, slot in enumerate(slots) if slot.seq in held}
    for unit in whole:
        is_system = slots[unit.start].message.role == "system"
        if first in unit or (is_system and unit.start < first):
            out.update(unit)
    return out


def first_request(slots: Sequence[Slot]) -> int:
    """The index of the first thing a user asked for; after the end if nothing was."""
    return next((index for index, slot in enumerate(slots) if is_request(slot)), len(slots))


def newest_work(view: View, whole: Sequence[range]) -> range:
    """The newest unit if it is a tool use: the agent is in the middle of it, so no preset takes
    it."""
    newest = whole[-1] if whole else range(0)
    is_work = any(_uses_tools(view.slots[index].message) for index in newest)
    return newest if is_work else range(0)


def _uses_tools(message: Message) -> bool:
    """Whether a message calls tools or brings their results."""
    return bool(calls_of(message) or results_of(message))


# --- oldest first ---


def _oldest(brief: Brief) -> set[int]:
    """The units that must go, oldest first, for the page to meet the target with a notice on it,
    in tokens and, where they are too many, in messages."""
    slots = brief.slots
    left = brief.excess + notice_tokens(brief, _HANDLES_EXPECTED)
    left -= shown_notice_tokens(slots)
    going: set[int] = set()
    for unit in oldest_units(brief.view):
        if left <= 0 and not brief.is_crowded(len(slots) - len(going) + 1):
            break
        going.update(unit)
        left -= run_tokens(slots, unit)
    return going


def oldest_units(view: View) -> list[range]:
    """The units that may go, in the order in which they go: messages, then summaries, then a first
    reply with tools.

    A summary is the last trace of what it stands for, so it outlives messages; a plain first reply
    always stays.
    """
    slots, whole = view.slots, units(view.slots)
    stays = staying(view, whole)
    first_reply = first_request(slots) + 1
    messages: list[range] = []
    summaries: list[range] = []
    replies: list[range] = []
    for unit in whole[:-1]:
        slot = slots[unit.start]
        if unit.start in stays or is_notice(slot):
            continue
        if unit.start == first_reply and slot.message.role == "assistant":
            if calls_of(slot.message):
                replies.append(unit)
        elif slot.standin:
            summaries.append(unit)
        else:
            messages.append(unit)
    return [*messages, *summaries, *replies]


# --- presets ---


def truncation_range(
    n: int, preset: str, previous_end: int | None, roles: Sequence[str]
) -> tuple[int, int]:
    """The first and last index to remove from `n` messages after an earlier range that ended at
    `previous_end`.

    The first pair stays, so every range starts at 2; (2, 1) is the empty one. The last removed is
    an assistant's.
    """
    start = 2 if previous_end is None else min(max(previous_end, 1) + 1, n)
    rest = max(0, n - start)
    removed = {
        "none": rest,
        "lastTwo": max(0, rest - 2),
        "half": rest // 4 * 2,
        "quarter": rest * 3 // 8 * 2,
    }[preset]
    end = start + removed - 1
    if end >= 2 and roles[end] != "assistant":
        end -= 1
    return 2, max(end, 1)


def auto_preset(brief: Brief) -> str:
    """A quarter stays if even half the page is above the limit, as after a switch to a smaller
    window."""
    return preset_for(round(brief.view.tokens * brief.budget.factor), brief.budget.compact_at)


def condense_preset(view: View) -> str:
    """The last pair stays if it ends with the assistant's words, which then stand for all that
    goes; else there is nothing to keep."""
    slots = view.slots
    return "lastTwo" if slots and slots[-1].message.role == "assistant" else "none"


def preset_for(total: int, limit: int) -> str:
    return "quarter" if total > 2 * limit else "half"


def _by_preset(view: View, preset: str) -> set[int]:
    front = first_request(view.slots)
    roles = [slot.message.role for slot in view.slots[front:]]
    first, last = truncation_range(len(roles), preset, _previous_end(view, front), roles)
    return _whole_units(view, front + first, front + last + 1)


def _previous_end(view: View, front: int) -> int | None:
    """Where the last truncation ended: its notice, and what had to stay directly after it."""
    end = _last_notice(view, front)
    if end is None:
        return None
    slots, held = view.slots, protected(view)
    while end + 1 < len(slots) and slots[end + 1].seq in held:
        end += 1
    return end - front


def _last_notice(view: View, front: int) -> int | None:
    """The index of the last notice from here on; None if there is none."""
    for index in reversed(range(front, len(view.slots))):
        if is_notice(view.slots[index]):
            return index
    return None


def _by_fraction(view: View, fraction: float) -> set[int]:
    """Roo's way: a share of the visible messages after the first, an even number of them."""
    visible = _visible_after(view, first_request(view.slots))
    count = fraction_count(len(visible), fraction)
    if not count:
        return set()
    return _whole_units(view, visible[0], visible[count - 1] + 1)


def _visible_after(view: View, at: int) -> list[int]:
    """The indices after this one, without notices."""
    slots = enumerate(view.slots)
    return [index for index, slot in slots if index > at and not is_notice(slot)]


def fraction_count(visible: int, fraction: float) -> int:
    return int(visible * fraction) // 2 * 2


def _whole_units(view: View, start: int, stop: int) -> set[int]:
    """The indices of the units between start and stop, without what stays and without a tool
    pair at the end."""
    whole = units(view.slots)
    inside = [unit for unit in whole if start <= unit.start and unit.stop <= stop]
    if not inside:
        return set()
    return set(chain(*inside)) - staying(view, whole).union(newest_work(view, whole))


REASON = "hidden by hand"
PINS_NAMED = 20


def hide_span(brief: Brief, span: Span) -> list[Edit | Ask]:
    """The edit that takes these messages off the page."""
    view = brief.view
    run = _run_of(view, span)
    _check_free(view, run)
    slots = view.slots[run.start : run.stop]
    whole = Span(slots[0].seq, slots[-1].last)
    notice = notice_of(view, _message_count(brief, slots), [whole])
    # A page must not grow because something was taken off it.
    fits = brief.text_tokens(notice) < run_tokens(view.slots, run)
    return [
        Hide(
            batch=brief.batch,
            span=whole,
            notice=notice if fits else "",
            reason=_reason(slots, span),
        )
    ]


def _run_of(view: View, span: Span) -> range:
    """The slots that go: those of the span, with the others of their tool pairs."""
    named = [index for index, slot in enumerate(view.slots) if _overlaps(slot, span)]
    if not named:
        hint = "refold show ID lists what is on the page"
        raise NotFound(f"nothing of {span} is on the page", hint=hint)
    going = [unit for unit in units(view.slots) if _touches(unit, named)]
    run = range(going[0].start, going[-1].stop)
    while reaches_over(view, run):
        run = range(run.start, run.stop + 1)
    return run


def _overlaps(slot: Slot, span: Span) -> bool:
    return slot.seq <= span.last and span.first <= slot.last


def _touches(unit: range, named: Sequence[int]) -> bool:
    return unit.start <= named[-1] and named[0] < unit.stop


def _check_free(view: View, run: range) -> None:
    """Refuses pins and the latest request."""
    slots = view.slots[run.start : run.stop]
    if pinned := [slot.seq for slot in slots if slot.seq in view.pins]:
        seqs = " ".join(map(str, pinned[:PINS_NAMED]))
        raise Invalid(f"#{pinned[0]} is pinned", hint=f"unpin first: refold pin ID {seqs} --off")
    for slot in slots:
        if slot.seq == view.request:
            hint = "hide what comes before or after it"
            raise Invalid(f"#{slot.seq} is the latest request, which stays", hint=hint)
    if run.stop == len(view.slots) and _is_waiting(view.slots[run.start :]):
        raise Invalid("a tool call there waits for its result", hint="append the result first")


def _is_waiting(slots: Sequence[Slot]) -> bool:
    """Whether a call has no result yet: it would come without its call."""
    asked = {id for slot in slots for id in calls_of(slot.message)}
    return not asked.issubset(id for slot in slots for id in results_of(slot.message))


def _message_count(brief: Brief, slots: Sequence[Slot]) -> int:
    """How many messages these slots stand for."""
    return sum(len(brief.originals(slot.span)) or 1 if slot.standin else 1 for slot in slots)


def _reason(slots: Sequence[Slot], span: Span) -> str:
    """By whom, and what went beside what was named."""
    added = [slot for slot in slots if slot.seq < span.first or slot.last > span.last]
    if not added:
        return REASON
    names = ", ".join(str(slot.span) for slot in added)
    return f"{REASON}, with what belongs to it: {names}"


SPANS_NAMED = 4
_NOTICE = re.compile(r"\[(\d+) earlier messages? (?:is|are) hidden[;:] ")
_NOTICE_SPAN = re.compile(r"#(\d+)(?:-(\d+))?")


# --- the notice ---


def notice_of(view: View, count: int, spans: Sequence[Span]) -> str:
    """One sentence: how many messages are hidden, and the handles that give them back."""
    handles = _handles(spans)
    if count == 1:
        return f"[1 earlier message is hidden{reach(view, handles, 'to read it')}.]"
    return f"[{count} earlier messages are hidden{reach(view, handles, 'to read them')}.]"


def _handles(spans: Sequence[Span]) -> str:
    """The handles of these spans, or one that reaches over all of them."""
    if len(spans) > SPANS_NAMED:
        spans = [Span(spans[0].first, spans[-1].last)]
    return ", ".join(map(str, spans))


def notice_tokens(brief: Brief, handles: int) -> int:
    """The size of a notice with this many handles, estimated before it is known what goes."""
    head = brief.view.head
    notice = notice_of(brief.view, len(brief.slots), [Span(head, head)] * handles)
    return brief.text_tokens(notice)


def shown_notice_tokens(slots: Iterable[Slot]) -> int:
    """What the notices among these slots take: a new one replaces them."""
    return tokens_of([slot for slot in slots if is_notice(slot)])


def is_notice(slot: Slot) -> bool:
    """Whether the slot is the notice of an earlier truncation, not a summary and not something a
    user typed."""
    return slot.standin and _NOTICE.match(first_text(slot)) is not None


def _spans_named(notice: Slot) -> list[Span]:
    """The spans whose handles a notice names."""
    found = _NOTICE_SPAN.findall(first_text(notice))
    return [Span(int(first), int(last or first)) for first, last in found]


def _hide_notice_message_count(brief: Brief, slot: Slot) -> int:
    """How many messages a slot stands for. Only a summary needs the log to know."""
    if not slot.standin:
        return 1
    notice = _NOTICE.match(first_text(slot))
    if notice:
        return int(notice[1])
    return len(brief.originals(slot.span)) or 1


# --- the edits ---


def hide_edits(brief: Brief, going: set[int], reason: Callable[[range], str]) -> list[Edit | Ask]:
    """The edits that hide these slots: one per run, each with its reason, one notice for all,
    earlier notices taken in.

    Nothing at all if no run is large enough to carry the notice: hiding would then cost more than
    it frees.
    """
    slots = brief.slots
    notices = {index for index, slot in enumerate(slots) if is_notice(slot)}
    if not going - notices:
        return []
    runs = runs_of(brief.view, going | notices)
    named = [span for index in notices for span in _spans_named(slots[index])]
    notice = _notice_for(brief, runs, named)
    carrier = _carrier(brief, runs, notice)
    if carrier is None:
        return []
    return [
        Hide(
            batch=brief.batch,
            span=_run_span(brief.view, run),
            notice=notice if run is carrier else "",
            reason=reason(run),
        )
        for run in runs
    ]


def _notice_for(brief: Brief, runs: Sequence[range], named: Sequence[Span]) -> str:
    """The notice for what is hidden now, and for the spans that earlier notices named."""
    spans = [_run_span(brief.view, run) for run in runs]
    return notice_of(brief.view, _hidden_count(brief, runs), _united([*spans, *named]))


def _hidden_count(brief: Brief, runs: Sequence[range]) -> int:
    """How many messages these runs stand for."""
    count = 0
    for run in runs:
        for index in run:
            count += _hide_notice_message_count(brief, brief.slots[index])
    return count


def _carrier(brief: Brief, runs: Sequence[range], notice: str) -> range | None:
    """The first run that is larger than the notice."""
    size = brief.text_tokens(notice)
    for run in runs:
        if run_tokens(brief.slots, run) > size:
            return run
    return None


def _run_span(view: View, run: range) -> Span:
    return Span(view.slots[run.start].seq, view.slots[run.stop - 1].last)


def _united(spans: Sequence[Span]) -> list[Span]:
    """The spans in order, those that touch or overlap as one."""
    out: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.first, span.last)):
        if out and span.first <= out[-1].last + 1:
            out[-1] = Span(out[-1].first, max(out[-1].last, span.last))
        else:
            out.append(span)
    return out


# --- runs ---


def runs_of(view: View, going: set[int]) -> list[range]:
    """The going slots as runs of neighbours. A run whose span would reach over a slot that stays
    is left out: a summary can stand for a span in which something was kept."""
    runs = _neighbours(going)
    return [run for run in runs if not reaches_over(view, run)]


def _neighbours(going: set[int]) -> list[range]:
    """The indices as ranges of neighbours, in order."""
    out: list[range] = []
    for index in sorted(going):
        if out and out[-1].stop == index:
            out[-1] = range(out[-1].start, index + 1)
        else:
            out.append(range(index, index + 1))
    return out


def reaches_over(view: View, run: range) -> bool:
    """Whether hiding the run by its span would also take a slot after it."""
    last = view.slots[run.stop - 1].last
    for slot in view.slots[run.stop :]:
        if slot.seq > last:
            return False
        if slot.seq not in view.pins and slot.last <= last:
            return True
    return False
