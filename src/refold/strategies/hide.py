"""Truncation: the oldest units leave the page, and one notice gives their number and how to read
them.

Without a preset it hides just enough to reach the target. A preset fixes the amount instead:
`none`, `lastTwo`, `half`, `quarter`, `auto`, `condense`, or a `fraction`. The opening (first
request and its plain reply), pins, the latest request and the newest unit stay. `hide_span` hides
messages chosen by a person. Messages are hidden in runs, each by its span; one run carries the
notice, which absorbs the notices of earlier truncations. Neighbours: `window` and `importance`
choose differently and hide through `hide_edits`; `compaction.planning` turns `hide_span` into a
plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from refold.core.laws import calls_of, is_request, results_of, units
from refold.core.model import Edit, Hide, Slot, Span, View
from refold.core.plan import Ask
from refold.errors import Invalid, NotFound
from refold.strategies.brief import Brief, check_choice, first_text, reach
from refold.strategies.protected_messages import protected, run_tokens

PRESETS = ("none", "lastTwo", "half", "quarter", "auto", "condense")
REASON = "hidden by hand"
PINS_NAMED = 20
SPANS_NAMED = 4
_HANDLES_EXPECTED = 2  # in the notice, when its size must be known before it is written
_NOTICE = re.compile(r"\[(\d+) earlier messages? (?:is|are) hidden[;:] ")
_NOTICE_SPAN = re.compile(r"#(\d+)(?:-(\d+))?")


def hide(brief: Brief) -> list[Edit | Ask]:
    """Hides the oldest units until the target is met, or the amount that the settings fix."""
    view = brief.view
    preset, fraction = brief.setting("preset", ""), brief.setting("fraction", 0.0)
    check_choice("unknown preset of hide:", preset, ("", *PRESETS))
    if not 0 <= fraction <= 1:
        raise Invalid(f"a fraction of {fraction}", hint="use a number from 0 to 1")
    if "fraction" in brief.settings:
        hidden, reason = _by_fraction(view, fraction), f"{fraction:g} of the messages"
    elif not preset:
        hidden, reason = _oldest(brief), "oldest first"
    else:
        if preset == "auto":
            tokens = round(view.tokens * brief.budget.factor)
            preset = preset_for(tokens, brief.budget.compact_at)
        elif preset == "condense":
            # The last pair stays if it ends with the assistant's words about the removed messages.
            ends_with_reply = view.slots and view.slots[-1].message.role == "assistant"
            preset = "lastTwo" if ends_with_reply else "none"
        hidden, reason = _by_preset(view, preset), f"truncation {preset}"
    return hide_edits(brief, hidden, lambda _: reason)


# --- protected messages ---


def staying(view: View, page_units: Sequence[range]) -> set[int]:
    """The indices that no truncation removes: system slots at the front, the first request, and
    protected slots."""
    slots = view.slots
    held = protected(view)
    first = first_request(slots)
    stays = {index for index, slot in enumerate(slots) if slot.seq in held}
    for unit in page_units:
        is_system = slots[unit.start].message.role == "system"
        if first in unit or (is_system and unit.start < first):
            stays.update(unit)
    return stays


def first_request(slots: Sequence[Slot]) -> int:
    """The index of the first user request; the number of slots if there is none."""
    return next((index for index, slot in enumerate(slots) if is_request(slot)), len(slots))


def newest_work(view: View, page_units: Sequence[range]) -> range:
    """The newest unit if it is a tool use: the agent is in the middle of it, so no preset removes
    it."""
    newest = page_units[-1] if page_units else range(0)
    messages = [view.slots[index].message for index in newest]
    is_work = any(calls_of(message) or results_of(message) for message in messages)
    return newest if is_work else range(0)


# --- oldest first ---


def _oldest(brief: Brief) -> set[int]:
    """The oldest units to remove for the page, with a notice on it, to meet the target in tokens
    and, if there are too many, in messages."""
    slots = brief.slots
    left = brief.excess + notice_tokens(brief, _HANDLES_EXPECTED)
    left -= shown_notice_tokens(slots)
    hidden: set[int] = set()
    for unit in oldest_units(brief.view):
        if left <= 0 and not brief.is_crowded(len(slots) - len(hidden) + 1):
            break
        hidden.update(unit)
        left -= run_tokens(slots, unit)
    return hidden


def oldest_units(view: View) -> list[range]:
    """The removable units, in the order of their removal: messages, then summaries, then a first
    reply with tools.

    A summary is the last trace of its messages, so it is removed after other messages; a plain
    first reply always stays.
    """
    slots, page_units = view.slots, units(view.slots)
    stays = staying(view, page_units)
    first_reply = first_request(slots) + 1
    messages: list[range] = []
    summaries: list[range] = []
    replies: list[range] = []
    for unit in page_units[:-1]:
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

    The first pair stays, so every range starts at 2; (2, 1) is the empty range. The last removed
    message is an assistant's.
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


def preset_for(total: int, limit: int) -> str:
    """The preset for `auto`: a quarter stays if even half the page is above the limit, as after a
    switch to a smaller window."""
    return "quarter" if total > 2 * limit else "half"


def _by_preset(view: View, preset: str) -> set[int]:
    slots = view.slots
    front = first_request(slots)
    # The last truncation ended at its notice and the protected slots directly after it.
    notices = [index for index in range(front, len(slots)) if is_notice(slots[index])]
    previous_end = None
    if notices:
        held = protected(view)
        end = notices[-1]
        while end + 1 < len(slots) and slots[end + 1].seq in held:
            end += 1
        previous_end = end - front
    roles = [slot.message.role for slot in slots[front:]]
    first, last = truncation_range(len(roles), preset, previous_end, roles)
    return _whole_units(view, front + first, front + last + 1)


def _by_fraction(view: View, fraction: float) -> set[int]:
    """Roo's way: a share of the visible messages after the first, an even number of them."""
    start = first_request(view.slots) + 1
    slots = enumerate(view.slots[start:], start)
    visible = [index for index, slot in slots if not is_notice(slot)]
    count = fraction_count(len(visible), fraction)
    return _whole_units(view, visible[0], visible[count - 1] + 1) if count else set()


def fraction_count(visible: int, fraction: float) -> int:
    return int(visible * fraction) // 2 * 2


def _whole_units(view: View, start: int, stop: int) -> set[int]:
    """The indices of the units between start and stop, without protected slots and without a tool
    pair at the end."""
    page_units = units(view.slots)
    inside = [unit for unit in page_units if start <= unit.start and unit.stop <= stop]
    if not inside:
        return set()
    return set(chain(*inside)) - staying(view, page_units).union(newest_work(view, page_units))


# --- a span chosen by a person ---


def hide_span(brief: Brief, span: Span) -> list[Edit | Ask]:
    """The edit that takes these messages off the page.

    Tool pairs and summaries are hidden completely, so more messages may leave than were named; the
    reason lists them. Pins and the latest request are refused.
    """
    view = brief.view
    run = _run_of(view, span)
    _check_free(view, run)
    slots = view.slots[run.start : run.stop]
    full_span = _run_span(view, run)
    count = sum(len(brief.originals(slot.span)) or 1 if slot.standin else 1 for slot in slots)
    notice = notice_of(view, count, [full_span])
    # A page must not grow because something was removed from it.
    fits = brief.text_tokens(notice) < run_tokens(view.slots, run)
    added = [slot for slot in slots if slot.seq < span.first or slot.last > span.last]
    reason = REASON
    if added:
        reason += f", with related messages: {', '.join(str(slot.span) for slot in added)}"
    edit = Hide(batch=brief.batch, span=full_span, notice=notice if fits else "", reason=reason)
    return [edit]


def _run_of(view: View, span: Span) -> range:
    """The slots of a span, with the other halves of their tool pairs."""
    named = [
        index
        for index, slot in enumerate(view.slots)
        if slot.seq <= span.last and span.first <= slot.last
    ]
    if not named:
        hint = "refold show ID lists what is on the page"
        raise NotFound(f"nothing of {span} is on the page", hint=hint)
    touched = [u for u in units(view.slots) if u.start <= named[-1] and named[0] < u.stop]
    run = range(touched[0].start, touched[-1].stop)
    while reaches_over(view, run):
        run = range(run.start, run.stop + 1)
    return run


def _check_free(view: View, run: range) -> None:
    """Refuses pins, the latest request, and a call without a result."""
    slots = view.slots[run.start : run.stop]
    if pinned := [slot.seq for slot in slots if slot.seq in view.pins]:
        seqs = " ".join(map(str, pinned[:PINS_NAMED]))
        raise Invalid(f"#{pinned[0]} is pinned", hint=f"unpin first: refold pin ID {seqs} --off")
    for slot in slots:
        if slot.seq == view.request:
            hint = "hide what comes before or after it"
            raise Invalid(f"#{slot.seq} is the latest request, which stays", hint=hint)
    if run.stop == len(view.slots):
        calls = {id for slot in slots for id in calls_of(slot.message)}
        if not calls.issubset(id for slot in slots for id in results_of(slot.message)):
            raise Invalid("a tool call there waits for its result", hint="append the result first")


# --- the notice ---


def notice_of(view: View, count: int, spans: Sequence[Span]) -> str:
    """One sentence with the number of hidden messages and the handles that unfold them; one handle
    for all if there are many."""
    if len(spans) > SPANS_NAMED:
        spans = [Span(spans[0].first, spans[-1].last)]
    handles = ", ".join(map(str, spans))
    if count == 1:
        return f"[1 earlier message is hidden{reach(view, handles, 'to read it')}.]"
    return f"[{count} earlier messages are hidden{reach(view, handles, 'to read them')}.]"


def notice_tokens(brief: Brief, handles: int) -> int:
    """The size of a notice with this many handles, estimated before its spans are known."""
    head = brief.view.head
    notice = notice_of(brief.view, len(brief.slots), [Span(head, head)] * handles)
    return brief.text_tokens(notice)


def shown_notice_tokens(slots: Iterable[Slot]) -> int:
    """The size of the notices among these slots, which a new one replaces."""
    return sum(slot.tokens for slot in slots if is_notice(slot))


def is_notice(slot: Slot) -> bool:
    """Whether the slot is the notice of an earlier truncation, not a summary and not something a
    user typed."""
    return slot.standin and _NOTICE.match(first_text(slot)) is not None


# --- the edits ---


def hide_edits(brief: Brief, hidden: set[int], reason: Callable[[range], str]) -> list[Edit | Ask]:
    """The edits that hide these slots: one per run, each with its reason, and one notice for all,
    which absorbs earlier notices.

    Empty if no run is large enough to carry the notice: hiding would then cost more than it frees.
    """
    slots = brief.slots
    notices = {index for index, slot in enumerate(slots) if is_notice(slot)}
    if not hidden - notices:
        return []
    runs = runs_of(brief.view, hidden | notices)
    spans = [_run_span(brief.view, run) for run in runs]
    for index in notices:
        for first, last in _NOTICE_SPAN.findall(first_text(slots[index])):
            spans.append(Span(int(first), int(last or first)))
    count = sum(_message_count(brief, slots[index]) for run in runs for index in run)
    notice = notice_of(brief.view, count, _united(spans))
    size = brief.text_tokens(notice)
    carrier = next((run for run in runs if run_tokens(slots, run) > size), None)
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


def _message_count(brief: Brief, slot: Slot) -> int:
    """The number of messages that a slot represents. Only for a summary, the log is read."""
    if not slot.standin:
        return 1
    if notice := _NOTICE.match(first_text(slot)):
        return int(notice[1])
    return len(brief.originals(slot.span)) or 1


def _run_span(view: View, run: range) -> Span:
    return Span(view.slots[run.start].seq, view.slots[run.stop - 1].last)


def _united(spans: Sequence[Span]) -> list[Span]:
    """The spans in order, touching and overlapping ones merged."""
    united: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.first, span.last)):
        if united and span.first <= united[-1].last + 1:
            united[-1] = Span(united[-1].first, max(united[-1].last, span.last))
        else:
            united.append(span)
    return united


# --- runs ---


def runs_of(view: View, indices: set[int]) -> list[range]:
    """The slots as runs of neighbours, without runs whose span would cover a visible slot after
    them: a summary can cover a span in which a message was kept."""
    runs: list[range] = []
    for index in sorted(indices):
        if runs and runs[-1].stop == index:
            runs[-1] = range(runs[-1].start, index + 1)
        else:
            runs.append(range(index, index + 1))
    return [run for run in runs if not reaches_over(view, run)]


def reaches_over(view: View, run: range) -> bool:
    """Whether hiding the run by its span would also hide a slot after it."""
    last = view.slots[run.stop - 1].last
    for slot in view.slots[run.stop :]:
        if slot.seq > last:
            return False
        if slot.seq not in view.pins and slot.last <= last:
            return True
    return False
