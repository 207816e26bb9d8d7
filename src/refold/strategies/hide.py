"""Truncation: the oldest whole units leave the page, and one notice says how many went and how to
read them.

By itself it hides just enough to reach the target. A preset fixes the amount instead: `none`,
`lastTwo`, `half`, `quarter`, `auto`, or a `fraction`. The opening (first request and its plain
reply), pins, the latest request and the newest unit stay. Neighbours: `window` and `importance`
choose otherwise and hide through `hidden`, which keeps the notices from stacking.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from refold.core.laws import calls_of, is_request, results_of, units
from refold.core.model import Edit, Hide, Slot, Span, Text, View
from refold.core.plan import Ask
from refold.errors import Invalid
from refold.strategies.brief import Brief, protected, text_tokens

PRESETS = ("none", "lastTwo", "half", "quarter", "auto")
SPANS_NAMED = 4
_NOTICE = re.compile(r"\[(\d+) earlier messages? (?:is|are) hidden; ")
_NOTICE_SPAN = re.compile(r"#(\d+)(?:-(\d+))?")


def hide(brief: Brief) -> list[Edit | Ask]:
    """Hides the oldest units until the target is met, or the amount that the settings fix."""
    preset, fraction = brief.setting("preset", ""), brief.setting("fraction", 0.0)
    if preset and preset not in PRESETS:
        raise Invalid(f"there is no truncation {preset!r}", hint="known: " + ", ".join(PRESETS))
    if not 0 <= fraction <= 1:
        raise Invalid(f"a fraction of {fraction}", hint="give a number from 0 to 1")
    if "fraction" in brief.settings:
        return hidden(
            brief, _by_fraction(brief.view, fraction), lambda _: f"{fraction:g} of the messages"
        )
    if preset:
        preset = auto_preset(brief) if preset == "auto" else preset
        return hidden(brief, _by_preset(brief.view, preset), lambda _: f"truncation {preset}")
    return hidden(brief, _oldest(brief), lambda _: "oldest first")


# --- what stays ---


def staying(view: View, whole: Sequence[range]) -> set[int]:
    """The indices that no truncation takes: system slots at the front, the first request, and
    what is protected. `whole` are the units of the page."""
    slots, held = view.slots, protected(view)
    first = first_request(slots)
    out = {index for index, slot in enumerate(slots) if slot.seq in held}
    for unit in whole:
        if first in unit or (slots[unit.start].message.role == "system" and unit.start < first):
            out.update(unit)
    return out


def first_request(slots: Sequence[Slot]) -> int:
    """The index of the first thing a user asked for; behind the end if nothing was."""
    return next((index for index, slot in enumerate(slots) if is_request(slot)), len(slots))


def _oldest(brief: Brief) -> set[int]:
    """The units that must go, oldest first, for the page to meet the target with a notice on it."""
    slots = brief.view.slots
    left = brief.excess + text_tokens(
        brief.count, notice_of(len(slots), [Span(brief.view.head, brief.view.head)] * 2)
    )
    left -= sum(slot.tokens for slot in slots if is_notice(slot))
    going: set[int] = set()
    for unit in _candidates(brief.view):
        if left <= 0:
            break
        going.update(unit)
        left -= sum(slots[index].tokens for index in unit)
    return going


def _candidates(view: View) -> list[range]:
    """The units that may go, in the order in which they go: messages, then summaries, then a first
    reply with tools.

    A summary is the last trace of what it stands for, so it outlives messages; a plain first reply
    always stays.
    """
    slots, whole = view.slots, units(view.slots)
    stays, reply = staying(view, whole), first_request(slots) + 1
    messages: list[range] = []
    summaries: list[range] = []
    replies: list[range] = []
    for unit in whole[:-1]:
        slot = slots[unit.start]
        if unit.start in stays or is_notice(slot):
            continue
        if unit.start == reply and slot.message.role == "assistant":
            replies += [unit] if calls_of(slot.message) else []
        else:
            (summaries if slot.standin else messages).append(unit)
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


def preset_for(total: int, limit: int) -> str:
    return "quarter" if total > 2 * limit else "half"


def _by_preset(view: View, preset: str) -> set[int]:
    front = first_request(view.slots)
    slots = view.slots[front:]
    roles = [slot.message.role for slot in slots]
    first, last = truncation_range(len(slots), preset, _previous_end(view, front), roles)
    return _whole(view, front + first, front + last + 1)


def _previous_end(view: View, front: int) -> int | None:
    """Where the last truncation ended: its notice, and what had to stay directly behind it."""
    at = [index for index, slot in enumerate(view.slots) if index >= front and is_notice(slot)]
    if not at:
        return None
    end, held = at[-1], protected(view)
    while end + 1 < len(view.slots) and view.slots[end + 1].seq in held:
        end += 1
    return end - front


def _by_fraction(view: View, fraction: float) -> set[int]:
    """Roo's way: a share of the visible messages after the first, an even number of them."""
    front = first_request(view.slots)
    visible = [
        index for index in range(front + 1, len(view.slots)) if not is_notice(view.slots[index])
    ]
    count = fraction_count(len(visible), fraction)
    return _whole(view, visible[0], visible[count - 1] + 1) if count else set()


def fraction_count(visible: int, fraction: float) -> int:
    return int(visible * fraction) // 2 * 2


def _whole(view: View, start: int, stop: int) -> set[int]:
    """The indices from start to stop, drawn in to seams, without what stays and without a tool
    pair at the end."""
    whole = units(view.slots)
    inside = {
        index for unit in whole if start <= unit.start and unit.stop <= stop for index in unit
    }
    return inside - staying(view, whole) - set(newest_work(view, whole)) if inside else set()


def newest_work(view: View, whole: Sequence[range]) -> range:
    """The newest unit if it is a tool use: the agent is in the midst of it, so no preset takes
    it."""
    newest = whole[-1] if whole else range(0)
    worked = any(
        calls_of(view.slots[i].message) or results_of(view.slots[i].message) for i in newest
    )
    return newest if worked else range(0)


# --- hiding with one notice ---


def hidden(brief: Brief, going: set[int], reason: Callable[[range], str]) -> list[Edit | Ask]:
    """The edits that hide these slots: one per run, each with its reason, one notice for all,
    earlier notices taken in.

    Nothing at all if no run is large enough to carry the notice: hiding would then cost more than
    it frees.
    """
    slots = brief.view.slots
    notices = {index for index, slot in enumerate(slots) if is_notice(slot)}
    if not going - notices:
        return []
    runs = runs_of(brief.view, going | notices)
    spans = [Span(slots[run.start].seq, slots[run.stop - 1].last) for run in runs]
    named = _united([*spans, *(span for i in notices for span in _spans_named(slots[i]))])
    notice = notice_of(sum(_messages(brief, slots[i]) for run in runs for i in run), named)
    size = text_tokens(brief.count, notice)
    carrier = next((run for run in runs if sum(slots[i].tokens for i in run) > size), None)
    if carrier is None:
        return []
    return [
        Hide(
            batch=brief.batch,
            span=span,
            notice=notice if run is carrier else "",
            reason=reason(run),
        )
        for run, span in zip(runs, spans, strict=True)
    ]


def runs_of(view: View, going: set[int]) -> list[range]:
    """The going slots as runs of neighbours. A run whose span would reach over a slot that stays
    is left out: a summary can stand for a span in which something was kept."""
    out: list[range] = []
    for index in sorted(going):
        if out and out[-1].stop == index:
            out[-1] = range(out[-1].start, index + 1)
        else:
            out.append(range(index, index + 1))
    return [run for run in out if not reaches_over(view, run)]


def reaches_over(view: View, run: range) -> bool:
    """Whether hiding the run by its span would take a slot behind it along."""
    last = view.slots[run.stop - 1].last
    for slot in view.slots[run.stop :]:
        if slot.seq > last:
            return False
        if slot.seq not in view.pins and slot.last <= last:
            return True
    return False


def notice_of(count: int, spans: Sequence[Span]) -> str:
    """One sentence: how many messages are hidden, and the handles that give them back."""
    shown = spans if len(spans) <= SPANS_NAMED else [Span(spans[0].first, spans[-1].last)]
    handles = ", ".join(map(str, shown))
    what = "1 earlier message is" if count == 1 else f"{count} earlier messages are"
    return f"[{what} hidden; unfold {handles} to read {'it' if count == 1 else 'them'}.]"


def is_notice(slot: Slot) -> bool:
    """Whether the slot is the notice of an earlier truncation, not a summary and not something a
    user typed."""
    return slot.standin and _NOTICE.match(_words(slot)) is not None


def _words(slot: Slot) -> str:
    first = slot.message.blocks[0] if slot.message.blocks else None
    return first.text if isinstance(first, Text) else ""


def _spans_named(notice: Slot) -> list[Span]:
    found = _NOTICE_SPAN.findall(_words(notice))
    return [Span(int(first), int(last or first)) for first, last in found]


def _messages(brief: Brief, slot: Slot) -> int:
    """How many messages a slot stands for. Only a summary needs the log to know."""
    if not slot.standin:
        return 1
    counted = _NOTICE.match(_words(slot))
    return int(counted[1]) if counted else max(1, len(brief.originals(slot.span)))


def _united(spans: Sequence[Span]) -> list[Span]:
    """The spans in order, those that touch or overlap as one."""
    out: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.first, span.last)):
        if out and span.first <= out[-1].last + 1:
            out[-1] = Span(out[-1].first, max(out[-1].last, span.last))
        else:
            out.append(span)
    return out
