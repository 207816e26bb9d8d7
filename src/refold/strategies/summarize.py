"""Everything before the last messages becomes one summary: the ledger by code, and prose beside it by a writer.

The last `keep` messages stay (from a seam on), and so do the latest request, pins and system messages at the front;
what lies between them is asked for span by span. The draft is a heading that tells what is covered, and the ledger of
the whole conversation so far, so it can stand alone. An earlier summary is covered by the next one, which therefore
carries its counts and facts on. Neighbours: `gist` chooses lines instead; the engine puts an ask in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from refold.core.laws import units
from refold.core.model import Edit, Fact, Slot, Span, Summarize, ToolCall, View
from refold.core.plan import Ask
from refold.strategies.brief import Brief, protected
from refold.strategies.gist import one_line, per_char
from refold.strategies.ledger import facts_of, files_in_work, ledger_lines, merged

REASON = "summarize"
TOKENS_MAX = 4_096
WINDOW_RATIO = 0.05  # of the window: what a summary may have, its prose included
LEDGER_SHARE = 0.55  # of that: the ledger; the rest is for prose
RAW_MIN = 2  # messages that are not summarized yet: fewer are not worth a summary
TOOLS_SHOWN = 12


def summarize(brief: Brief) -> list[Edit | Ask]:
    """An ask for every run of messages before the last `keep`."""
    view, keep = brief.view, brief.setting("keep", brief.config.keep_recent)
    instructions, threshold = brief.setting("instructions", ""), brief.setting("threshold", 0)
    runs = covered(view, keep)
    raw = [slot for run in runs for slot in run if not slot.standin]
    if len(raw) < RAW_MIN or len(view.slots) <= threshold:
        return []
    facts = facts_of(raw, brief.config, view.facts)
    told = merged(view.facts, facts)
    room = LEDGER_SHARE * min(TOKENS_MAX, WINDOW_RATIO * brief.budget.window) / per_char(brief, raw)
    gone = {slot.seq for run in runs for slot in run}
    in_work = files_in_work([slot for slot in view.slots if slot.seq not in gone], brief.config)
    asks: list[Edit | Ask] = []
    for run in runs:
        first = not asks
        draft = _draft(brief, run, ledger_lines(told, int(room), in_work) if first else [], facts if first else ())
        asks.append(Ask(span=draft.span, draft=draft, instructions=instructions))
    return asks


def covered(view: View, keep: int) -> list[list[Slot]]:
    """What is to be summarized: the runs before the last `keep` messages, cut at seams and around what stays."""
    whole = units(view.slots)
    latest = max(0, len(view.slots) - max(1, keep))
    start = max((unit.start for unit in whole if unit.start <= latest), default=0)
    held = protected(view)
    front = next((i for i, slot in enumerate(view.slots) if slot.message.role != "system"), 0)
    runs: list[list[Slot]] = [[]]
    for slot in view.slots[front:start]:
        if slot.seq in held and not slot.standin:
            runs.append([])
        else:
            runs[-1].append(slot)
    return [run for run in runs if run]


class _Tally(Struct, frozen=True):
    """How many messages a run stands for, and which tools were called in them."""

    messages: int
    tools: dict[str, int]


def _draft(brief: Brief, run: Sequence[Slot], ledger: Sequence[str], facts: tuple[Fact, ...]) -> Summarize:
    span, tally = Span(run[0].seq, run[-1].last), _tally(brief, run)
    return Summarize(
        batch=brief.batch,
        span=span,
        text="\n".join([_heading(span, tally), *ledger]),
        line=one_line(span, facts),
        facts=facts,
        notes={"summary": 1, "messages": tally.messages, "tools": tally.tools},
        reason=REASON,
    )


def _heading(span: Span, tally: _Tally) -> str:
    most = sorted(tally.tools.items(), key=lambda item: (-item[1], item[0]))[:TOOLS_SHOWN]
    tools = f" Tools used: {', '.join(f'{name} ×{count}' for name, count in most)}." if most else ""
    what = "1 earlier message" if tally.messages == 1 else f"{tally.messages} earlier messages"
    return f"[Summary of {what}, {span}: background, not a new request; unfold {span} gives them whole.{tools}]"


def _tally(brief: Brief, run: Sequence[Slot]) -> _Tally:
    """Counted from the page; a summary noted its own counts, so the log is read only where another strategy left a
    stand-in."""
    messages, tools = 0, Counter[str]()
    for slot in run:
        noted: dict[str, Any] = (slot.notes or {}) if slot.standin else {}
        if "messages" in noted:
            messages += noted["messages"]
            tools.update(noted.get("tools", {}))
            continue
        originals = brief.originals(slot.span) if slot.standin else [slot]
        messages += len(originals)
        tools.update(block.name for one in originals for block in one.message.blocks if isinstance(block, ToolCall))
    return _Tally(messages, dict(sorted(tools.items())))
