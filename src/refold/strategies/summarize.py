"""Everything before the last messages becomes one summary: a ledger written by code, with
prose by a writer.

The last `keep` messages stay (from a seam on), and so do the latest request, pins and system
messages at the front; the spans between them become asks. A draft has a heading and the ledger of
the whole conversation so far, so it is complete without prose. An earlier summary is covered by the
next one, which takes over its counts, facts and prose; if room is short, the ledger is shortened
first. Without a writer the ledger gets all the room under the target, and up to half of it is for
the answers that ended a turn. Neighbours: `gist` chooses lines instead; `core.shortened` shows
prose; `compaction.summary_text` and `writer.asker` get new prose.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import zip_longest

from msgspec import Struct

from refold.config import recent_messages
from refold.core.laws import is_request, units
from refold.core.model import Edit, Fact, Prose, Slot, Span, Summarize, View
from refold.core.plan import Ask
from refold.core.shortened import prose_text
from refold.display import one_line
from refold.ledger.facts import RANK_RULE, Cutter, rank
from refold.ledger.ledger import facts_of, files_in_work, ledger_lines, merged, noted, tools_used
from refold.ledger.sentences import own_text
from refold.strategies.brief import UNFOLD, Brief, cap_tokens, carried, unfolder
from refold.strategies.gist.draft import line_of
from refold.strategies.gist.passages import per_char
from refold.strategies.protected_messages import last_seam, protected, standin_max, tokens_of

REASON = "summarize"
DRAFT_SHARE = 0.9  # of the replaced messages and summaries: a draft must make the page shorter
LEDGER_SHARE = 0.55  # of a summary's limit: the ledger; the rest is for prose
# Of a draft: the limit of carried prose; the rest always belongs to the ledger.
CARRIED_SHARE = 0.8
# Of a draft: the limit of a user's rules, which come before carried prose, and the margin for
# their size, which is an estimate.
RULES_SHARE, RULES_MARGIN = 0.6, 1.5
NEW_PROSE_TOKENS = 200  # reserved for a writer's new words next to carried prose
# The ledger gets this much before room is reserved for a first prose: it covers a short span alone.
LEDGER_TOKENS_MIN = 400
RAW_MIN = 2  # minimum of unsummarized messages for a first summary
RAW_MIN_AGAIN = 3  # the same for a further summary
TOOLS_SHOWN = 12
SHARE_MAX = 0.7  # of the replaced messages: the limit of a summary with new prose
ANSWERS_SHARE = 0.5  # of the ledger's room, for answers
ANSWER_CHARS, ANSWER_CHARS_MIN, TAG_CHARS = 300, 40, 14
ANSWERS_HEADING = "Answers:"
READ_MAX = 500  # messages of an earlier summary whose answers are read again
SPEAKERS = {"assistant": "agent"}
FRAME_TOKENS = 60  # the heading and the marks around prose


def summarize(brief: Brief) -> list[Edit | Ask]:
    """An ask for every run of messages before the last `keep`."""
    keep = brief.setting("keep", recent_messages(brief.config))
    instructions = brief.setting("instructions", "")
    if len(brief.slots) <= brief.setting("threshold", 0):
        return []
    runs = covered(brief.view, keep)
    slots = [slot for run in runs for slot in run]
    new = sum(not slot.standin for slot in slots)
    is_again = any(slot.summary and slot.summary.counted for slot in slots)
    if is_again and new < _fewest(brief, RAW_MIN_AGAIN):
        return []
    return [*asks_for(brief, runs, instructions)]


def _fewest(brief: Brief, usual: int) -> int:
    """The minimum of new messages for a summary: 1 if the call itself sets `keep`."""
    return 1 if "keep" in brief.named else usual


def asks_for(brief: Brief, runs: Sequence[Sequence[Slot]], instructions: str = "") -> list[Ask]:
    """An ask for each of these runs; the largest has the ledger. Empty if there are too few
    messages for a summary."""
    raw = [slot for run in runs for slot in run if not slot.standin]
    if len(raw) < _fewest(brief, RAW_MIN):
        return []
    ledger = _ledger_of(brief, runs, raw)
    largest = max(runs, key=tokens_of)
    drafts = [_draft(brief, run, ledger if run is largest else _Ledger()) for run in runs]
    return [
        Ask(span=draft.span, draft=draft, instructions=instructions)
        for draft in drafts
        # Nobody will write prose for a draft without content.
        if brief.has_writer or draft.prose or "\n" in draft.text
    ]


def covered(view: View, keep: int) -> list[list[Slot]]:
    """The runs to summarize: everything before the last `keep` messages, cut at seams and around
    protected messages, without system messages at the front."""
    start = last_seam(units(view.slots), max(0, len(view.slots) - max(1, keep)))
    is_other = (at for at, slot in enumerate(view.slots) if slot.message.role != "system")
    held = protected(view)
    runs: list[list[Slot]] = [[]]
    for slot in view.slots[next(is_other, 0) : start]:
        if slot.seq in held and not slot.standin:
            runs.append([])
        else:
            runs[-1].append(slot)
    return [run for run in runs if run]


# --- the ledger ---


class _Ledger(Struct, frozen=True):
    """The ledger of a summary: all facts, the new ones, and the token rate of its text."""

    facts: tuple[Fact, ...] = ()
    new: tuple[Fact, ...] = ()
    in_work: Set[str] = frozenset()
    per_char: float = 1.0
    free_tokens: int = 0  # the room under the target; 0 if a writer needs it

    def rules(self) -> str:
        """A user's rules as the ledger lists them."""
        return "\n".join(ledger_lines([fact for fact in self.facts if rank(fact) == RANK_RULE]))

    def lines(self, tokens_max: float) -> list[str]:
        return ledger_lines(self.facts, int(tokens_max / self.per_char), self.in_work)


def _ledger_of(brief: Brief, runs: Sequence[Sequence[Slot]], raw: Sequence[Slot]) -> _Ledger:
    """The ledger with the new facts of these runs."""
    view = brief.view
    new = facts_of(raw, brief.config, view.facts, Cutter(brief.redact))
    covered_seqs = {slot.seq for run in runs for slot in run}
    left = [slot for slot in view.slots if slot.seq not in covered_seqs]
    free = 0
    if not brief.has_writer:
        free = brief.target - view.system_tokens - view.tools_tokens - tokens_of(left)
    in_work = files_in_work(left, brief.config)
    return _Ledger(merged(view.facts, new), new, in_work, per_char(brief, raw), free)


# --- the draft ---


def _draft(brief: Brief, run: Sequence[Slot], ledger: _Ledger) -> Summarize:
    span = Span(run[0].seq, run[-1].last)
    count, counted = _represented(brief, run)
    tools = tools_used(counted)
    what = "1 earlier message" if count == 1 else f"{count} earlier messages"
    where = f"; {UNFOLD} {span} gives them whole" if unfolder(brief.view) else ""
    heading = f"[Summary of {what}, {span}: background, not a new request{where}."
    if tools:
        most_used = list(tools.items())[:TOOLS_SHOWN]
        heading += f" Tools used: {', '.join(f'{name} ×{used.count}' for name, used in most_used)}."
    prose, text = _prose_and_text(brief, run, f"{heading}]", ledger)
    return Summarize(
        batch=brief.batch,
        span=span,
        text=text,
        prose=prose,
        line=line_of(span, ledger.new),
        facts=ledger.new,
        counted=noted(tools, count),
        reason=REASON,
    )


def _represented(brief: Brief, run: Sequence[Slot]) -> tuple[int, list[Slot]]:
    """The number of messages that a run represents, and the slots with their tool calls. A summary
    has its own counts, so the log is read only for stand-ins of other strategies."""
    count = 0
    counted: list[Slot] = []
    for slot in run:
        if not slot.standin:
            count += 1
            counted.append(slot)
        elif slot.summary and slot.summary.counted:
            count += slot.summary.counted.messages
            counted.append(slot)
        else:
            originals = brief.originals(slot.span)
            count += len(originals)
            counted += originals
    return count, counted


def _prose_and_text(
    brief: Brief, run: Sequence[Slot], heading: str, ledger: _Ledger
) -> tuple[Prose | None, str]:
    """The prose of earlier summaries, and the heading with as much of the ledger as leaves room
    for new prose by a writer."""
    count = brief.text_tokens
    cap, replaced, own = cap_tokens(brief.budget.window), tokens_of(run), count(heading)
    shorter = min(standin_max(run), DRAFT_SHARE * replaced)
    most = max(0.0, min(cap, shorter) - own - FRAME_TOKENS)
    rules = min(RULES_SHARE * most, RULES_MARGIN * count(ledger.rules()))
    prose = carried(run, int(min(CARRIED_SHARE * most, most - rules)), count)
    prose_tokens = count(prose_text(prose)) if prose else 0
    beside = (prose_tokens if prose else FRAME_TOKENS) + NEW_PROSE_TOKENS
    room = min(LEDGER_SHARE * cap, cap - own - beside, SHARE_MAX * replaced - own - beside)
    if prose:
        least = max(rules, (1 - CARRIED_SHARE) * most)
    else:
        least = min(LEDGER_TOKENS_MIN, LEDGER_SHARE * cap, shorter - own)
    alone = min(ledger.free_tokens, shorter) - own - prose_tokens
    left = max(room, least, alone, 0)
    # Answers never take the room of a writer's words, which say them better.
    free = max(room, alone, 0) if brief.has_writer else left
    answers = _answers(brief, run, (ANSWERS_SHARE if ledger.facts else 1.0) * free)
    left -= count("\n".join(answers)) if answers else 0
    return prose, "\n".join([heading, *ledger.lines(left), *answers])


def turn_ends(messages: Sequence[Slot], *, ends: bool) -> list[Slot]:
    """The agent's last words before each request; the last of all if these messages end a turn."""
    spoken = [slot for slot in messages if own_text(slot.message).strip()]
    return [
        slot
        for slot, later in zip_longest(spoken, spoken[1:])
        if slot.message.role == "assistant" and (is_request(later) if later else ends)
    ]


def _answers(brief: Brief, run: Sequence[Slot], tokens_max: float) -> list[str]:
    """The starts of the answers that ended a turn, or of the last words of a run without any, the
    newest first if not all have room; without secrets."""
    messages: list[Slot] = []
    for slot in run:
        is_short = slot.last - slot.seq < READ_MAX
        messages += [slot] if not slot.standin else brief.originals(slot.span) if is_short else []
    later = next((slot for slot in brief.slots if slot.seq > run[-1].last), None)
    ends = turn_ends(messages, ends=later is not None and is_request(later))
    spoken = [slot for slot in messages if own_text(slot.message).strip()]
    shown = ends or spoken[-1:]
    chars = tokens_max / per_char(brief, run)
    chars -= len(ANSWERS_HEADING) if len(shown) > 1 else 0
    size = int(min(ANSWER_CHARS, max(ANSWER_CHARS_MIN, chars / max(1, len(shown)) - TAG_CHARS)))
    fitting = max(0, int(chars / (size + TAG_CHARS)))
    lines = [
        f"- #{slot.seq} {SPEAKERS.get(slot.message.role, slot.message.role)}: "
        + Cutter(brief.redact).end(one_line(brief.redact(own_text(slot.message))), size)
        for slot in (shown[-fitting:] if fitting else ())
    ]
    return [ANSWERS_HEADING, *lines] if len(lines) > 1 else lines
