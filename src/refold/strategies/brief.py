"""The input of a strategy, and the rules for its output.

A strategy is a function `(Brief) -> list[Edit | Ask]`: it proposes, and changes nothing. It names
messages by `seq`, cuts at seams only (`laws.units`), and never touches a slot that `protected`
names. A strategy may be anybody's code, so `checked_answer` validates its edits before they touch a
page. The second half has the shared words: `reach` names a handle on the page, with the tool that
unfolds it if the model has that tool; `words` splits texts into stemmed words. Neighbours: `ladder`
runs strategies, `registry` names them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from math import log
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.checked import shown
from refold.config import Config
from refold.core.budget import Budget
from refold.core.call_arguments import has_tool
from refold.core.codec import body_of, encode, kind_of
from refold.core.laws import is_request, units
from refold.core.model import (
    Block,
    Edit,
    Hide,
    Message,
    Meta,
    Opaque,
    Prose,
    Replace,
    Slot,
    Span,
    Summarize,
    Text,
    ToolCall,
    View,
)
from refold.core.plan import Ask
from refold.core.shortened import shortened
from refold.errors import Invalid

# Of the free room: the share of a latest request that would otherwise leave nothing for the rest.
REQUEST_SHARE = 0.75
# Of the input limit: the largest share of pinned results of excluded tools, and of system messages.
EXCLUDED_SHARE, SYSTEM_SHARE = 0.25, 0.15

# A setting of every call: the number of messages at the end that stay as they are.
KEEP_RECENT = "keep_recent"

Count = Callable[[Message], int]
Originals = Callable[[Span], Sequence[Slot]]
Ages = Callable[[Sequence[int]], Mapping[int, int]]


class Brief(Struct, frozen=True, kw_only=True):
    """The page, the budget, and the size to reach, in tokens of our own estimate (`view.tokens`).

    `full` is the size at which a page is compacted, `enough` one with room for the next turn, both
    in the same tokens. `count` sizes a whole message. `originals` reads the messages of a span from
    the log, verbatim; `ages` gives the age of events in milliseconds, by seq; neither costs
    anything unless it is called. `task` is the agent's current work, for relevance; `redact`
    removes secrets from a text; `settings` are the strategy's own, from the configuration and the
    call, and `named` the names of those from the call. `scratch` outlives the plan: it remembers
    expensive results, and may be lost at any time. `messages_max` is set if the page has too many
    messages, not too many tokens; `has_writer` if a writer will put an ask in words; `is_chosen` if
    a person chose the messages; `is_asked` if the caller named the target, which is then not to be
    exceeded; `tail` is the number of messages at the end that are pinned. A page that reaches
    `lossless_enough` without losing anything is left at that.
    """

    view: View
    budget: Budget
    config: Config
    count: Count
    target: int
    batch: str
    originals: Originals
    ages: Ages = lambda seqs: {}
    enough: int = 0
    full: int = 0
    lossless_enough: int = 0
    messages_max: int = 0
    has_writer: bool = False
    is_chosen: bool = False
    is_asked: bool = False
    tail: int = 0
    task: str = ""
    redact: Callable[[str], str] = str
    settings: dict[str, Any] = {}
    named: Set[str] = frozenset()
    scratch: dict[str, Any] = {}

    @property
    def slots(self) -> tuple[Slot, ...]:
        return self.view.slots

    @property
    def excess(self) -> int:
        """The tokens above the target."""
        return max(0, self.view.tokens - self.target)

    def is_crowded(self, count: int) -> bool:
        """Whether this many messages are too many."""
        return 0 < self.messages_max < count

    def setting(self, name: str, default: Any) -> Any:
        """One of the strategy's own settings; its type follows from the default."""
        value = self.settings.get(name, default)
        if default is not None:
            check_kind(name, value, (type(default),))
        return value

    def text_tokens(self, text: str) -> int:
        """The size of a text as a message of its own."""
        return text_tokens(self.count, text)

    def block_tokens(self, message: Message, block: Block) -> int:
        """The size of one block of a message, without the message's frame."""
        frame = self.count(replace(message, blocks=()))
        return self.count(replace(message, blocks=(block,))) - frame

    def hide_tokens(self, edit: Hide) -> int:
        """The tokens that a hide adds to the page: its notice."""
        return self.text_tokens(edit.notice) if edit.notice else 0

    def freed_tokens(self, slot: Slot, edit: Replace) -> int:
        """The tokens that a replace frees of its slot, as it is on the page."""
        message = slot.message
        block = message.blocks[edit.block]
        after = self.block_tokens(message, shortened(block, edit))
        return self.block_tokens(message, block) - after


Strategy = Callable[[Brief], "list[Edit | Ask]"]


def check_kind(name: str, value: object, kinds: Sequence[type]) -> None:
    """Refuses a value of any other type. An int is accepted for a float; a bool is not a number."""
    if isinstance(value, bool):
        is_valid = bool in kinds
    else:
        is_valid = isinstance(value, (*kinds, int) if float in kinds else tuple(kinds))
    if not is_valid:
        known = " or ".join(kind.__name__ for kind in kinds)
        raise Invalid(f"the setting {name} is {shown(value)}", hint=f"give a value of type {known}")


def check_choice(refusal: str, value: str, known: Sequence[str]) -> None:
    """Refuses a value that is not one of these; `refusal` is the start of the error's text."""
    if value not in known:
        names = ", ".join(name for name in known if name)
        raise Invalid(f"{refusal} {shown(value)}", hint=f"known: {names}")


def check_needed(name: str, settings: Mapping[str, Any], task: str) -> None:
    """Refuses a strategy without the settings it requires."""
    if name == "relevance" and not task.strip():
        raise Invalid("relevance needs a task", hint="set task to the agent's current work")
    if name == "relevance" and "max_tokens" not in settings:
        raise Invalid("relevance needs a size", hint="set max_tokens")
    if name == "window" and settings.get("by") == "tokens" and "max_tokens" not in settings:
        raise Invalid("a window by tokens needs a size", hint="set max_tokens")


def protected(view: View) -> set[int]:
    """The seqs that no edit may touch: pins, the latest request, and the units they belong to."""
    return with_units(view, {*view.pins, view.request})


def with_kept(view: View, config: Config, budget: Budget) -> View:
    """The page with additional pins, so that strategies need no special cases: system messages and
    results of excluded tools as far as they fit, and the newest compaction of a provider."""
    limit = budget.input_max / budget.factor
    held = {*view.pins, *_system_seqs(view, SYSTEM_SHARE * limit)}
    # Only the provider can read the messages covered by its compaction.
    for slot in reversed(view.slots):
        raw = [block.raw for block in slot.message.blocks if isinstance(block, Opaque)]
        if any(isinstance(each, dict) and each.get("type") == "compaction" for each in raw):
            held.add(slot.seq)
            break
    held |= _excluded_seqs(view, config.exclude_tools, EXCLUDED_SHARE * limit)
    return view if held == view.pins else replace(view, pins=frozenset(held))


def with_tail(view: View, count: int) -> View:
    """The page with that many messages at its end pinned: they stay even if the target is
    missed."""
    seqs = [slot.seq for slot in view.slots if not slot.standin]
    tail = set(seqs[-count:]) if count else set()
    return replace(view, pins=view.pins | with_units(view, tail)) if tail else view


def _system_seqs(view: View, left: float) -> set[int]:
    """The system messages that fit: the first one, then the newest."""
    system = [slot for slot in view.slots if slot.message.role == "system" and not slot.standin]
    held: set[int] = set()
    for slot in (*system[:1], *reversed(system[1:])):
        left -= slot.tokens
        if left < 0:
            break
        held.add(slot.seq)
    return held


def _excluded_seqs(view: View, names: Sequence[str], left: float) -> set[int]:
    """The results of these tools that fit, the newest first, with their calls."""
    calling = {
        at
        for at, slot in enumerate(view.slots)
        for block in slot.message.blocks
        if type(block) is ToolCall and block.name in names
    }
    held: set[int] = set()
    # Most pages have no such call, and need not be divided into units.
    for unit in reversed(units(view.slots)) if calling else ():
        if calling.isdisjoint(unit):
            continue
        slots = view.slots[unit.start : unit.stop]
        left -= tokens_of(slots)
        if left < 0:
            break
        held.update(slot.seq for slot in slots)
    return held


def untouched_tokens(view: View) -> int:
    """The size of the parts that no compaction touches: system, tools, pins, latest request."""
    held = {*view.pins, view.request}
    slots = [slot for slot in view.slots if slot.seq in held and not slot.standin]
    return view.system_tokens + view.tools_tokens + tokens_of(slots)


def request_excess(view: View, fixed: int, full: int) -> int:
    """The tokens by which the latest request is too large, if the `fixed` part, which includes it,
    exceeds the full page. A pinned request is never too large."""
    slots = [slot for slot in view.slots if slot.seq == view.request and slot.seq not in view.pins]
    if not slots or fixed <= full:
        return 0
    tokens = tokens_of(slots)
    return max(0, tokens - int(REQUEST_SHARE * max(0, full - fixed + tokens)))


def with_units(view: View, seqs: Set[int]) -> set[int]:
    """These seqs, completed to whole units."""
    completed: set[int] = set()
    for unit in units(view.slots):
        in_unit = [view.slots[index].seq for index in unit]
        if not seqs.isdisjoint(in_unit):
            completed.update(in_unit)
    return completed


def opening(view: View) -> int:
    """The number of leading slots up to and including the first user request: the task itself."""
    for index, slot in enumerate(view.slots):
        if is_request(slot):
            return index + 1
    return 0


def tail_start(view: View, *, keep_messages: int, keep_tokens: int) -> int:
    """The index of the first slot of the tail: whole units from the end, at most this many
    messages and tokens; the newest unit always stays."""
    count = len(view.slots)
    start = count
    tokens = 0
    for unit in reversed(units(view.slots)):
        tokens += run_tokens(view.slots, unit)
        is_over = count - unit.start > keep_messages or tokens > keep_tokens
        if is_over and start < count:
            break
        start = unit.start
    return start


def last_seam(page_units: Sequence[range], latest: int) -> int:
    """The last seam at or before this index."""
    return max((unit.start for unit in page_units if unit.start <= latest), default=0)


def first_text(slot: Slot) -> str:
    """The text of a slot's first block; the whole text of a stand-in."""
    first = slot.message.blocks[0] if slot.message.blocks else None
    return first.text if isinstance(first, Text) else ""


def tokens_of(slots: Sequence[Slot]) -> int:
    """The size of these slots together."""
    return sum(slot.tokens for slot in slots)


def run_tokens(slots: Sequence[Slot], run: range) -> int:
    """The size of the slots of a run; a run is a range of indices."""
    return tokens_of(slots[run.start : run.stop])


def text_tokens(count: Count, text: str) -> int:
    """The size of a text as a message of its own."""
    return count(Message(role="user", blocks=(Text(text),)))


def checked_answer(answer: object, brief: Brief) -> Sequence[Edit | Ask]:
    """The edits and asks of a strategy; raises if the answer has anything else, an edit that cannot
    be written to the log, or one for another batch or span."""
    if not isinstance(answer, list | tuple):
        raise TypeError(f"it gave {type(answer).__name__}, not a list of edits")
    for item in answer:
        edit = item.draft if isinstance(item, Ask) else item
        if not isinstance(edit, Hide | Replace | Summarize):
            raise TypeError(f"it gave {type(edit).__name__} among its edits")
        if isinstance(item, Ask) and not isinstance(item.instructions, str):
            kind = type(item.instructions).__name__
            raise TypeError(f"it gave an ask with {kind} for instructions")
        body_of(kind_of(edit), encode(edit))
        if edit.batch != brief.batch:
            raise ValueError("it gave an edit of another batch than brief.batch")
        span = Span(edit.seq, edit.seq) if isinstance(edit, Replace) else edit.span
        if not 1 <= span.first <= span.last <= brief.view.head:
            raise ValueError(f"it gave an edit of {span}, but the log ends at #{brief.view.head}")
    return answer


UNFOLD = "refold_unfold"


def unfolder(known: View | Meta) -> str:
    """The name of the tool that unfolds handles; empty if the model does not have it."""
    return UNFOLD if has_tool(known.tools, UNFOLD) else ""


def reach(view: View, handles: str, purpose: str = "") -> str:
    """`; refold_unfold #41 to read it`, or `: #41` if the model does not have that tool: a text on
    the page must not promise anything its reader cannot do, but a person can always unfold it."""
    if not unfolder(view):
        return f": {handles}"
    return f"; {UNFOLD} {handles} {purpose}".rstrip()


CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_RUN = re.compile(rf"[{CJK}]+|[^\W\d_{CJK}]+|\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_IS_CJK = re.compile(rf"[{CJK}]")
_STOP = """
a about after all also am an and any are as at be because been before being but by can could did do
does doing for from further had has have having he her here hers him his how i if in into is it its
itself just let me more most my no nor not now of off on once only or other our out over own please
same she should so some such than that the their them then there these they this those through to
too under until up us very was we were what when where which while who whom why will with would you
your
"""
STOP = frozenset(_STOP.split())
HITS_MAX = 8  # hits of a word that are checked in one text
NAME_CHARS = 40
_ENDINGS = (
    ("ies", "y"),
    ("sses", "ss"),
    ("ing", ""),
    ("ed", ""),
    ("ly", ""),
    ("es", ""),
    ("s", ""),
)


def words(text: str) -> list[str]:
    """The words of a text in order: split, lower-cased, stemmed, without stop words. `getUserName`,
    `user_name` and `user name` have the same words; Chinese, Japanese and Korean go by pairs of
    characters."""
    found: list[str] = []
    for run in _RUN.findall(text):
        if _IS_CJK.match(run):  # overlapping pairs; a single character stays alone
            found += [run[at : at + 2] for at in range(max(1, len(run) - 1))]
        elif run.islower() or run.isdigit():
            found.append(_stem_or_nothing(run))
        else:  # `getHTTPResponse` is get, HTTP, Response
            found += map(_stem_or_nothing, _HUMP.split(run))
    return [word for word in found if word]


@lru_cache(maxsize=4096)
def _stem_or_nothing(run: str) -> str:
    """The stem of a word; nothing for a stop word."""
    lower = run.lower()
    return "" if lower in STOP else stem(lower)


def stem(word: str) -> str:
    """The word without its English ending, so that its forms are equal; not a linguistic stem."""
    if len(word) <= 3 or not word.isascii():
        return word
    if not word.endswith("ss"):
        for ending, replacement in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word[: -len(ending)] + replacement
                break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]  # `plann` is `plan`
    return word.removesuffix("e") if len(word) > 3 else word


def mentions(text: str, lower: str, word: str) -> bool:
    """Whether a text has a stemmed word, without splitting the whole text. `lower` is the text in
    lower case."""
    needle = _needle(word)
    at = lower.find(needle)
    if at >= 0 and len(lower) != len(text):
        return word in words(text)
    for _ in range(HITS_MAX):
        if at < 0:
            return False
        if word in _name_words(_name_around(text, at, at + len(needle))):
            return True
        at = lower.find(needle, at + len(needle))
    return False


def _needle(word: str) -> str:
    """The common start of all forms of a stemmed word: `queries` has no y."""
    return word.removesuffix("y") if len(word) > 3 else word


@lru_cache(maxsize=4096)
def _name_words(name: str) -> frozenset[str]:
    return frozenset(words(name))


def _name_around(text: str, start: int, stop: int) -> str:
    """The name around a hit: up to 40 more letters and digits on both sides."""
    lowest = max(0, start - NAME_CHARS)
    highest = min(len(text), stop + NAME_CHARS)
    while start > lowest and text[start - 1].isalnum():
        start -= 1
    while stop < highest and text[stop].isalnum():
        stop += 1
    return text[start:stop]


def mentioning(word: str, texts: Sequence[str], lowers: Sequence[str]) -> list[int]:
    """The indices of the texts with a stemmed word."""
    needle = _needle(word)
    return [
        index
        for index, lower in enumerate(lowers)
        if needle in lower and mentions(texts[index], lower, word)
    ]


def weight(count: int, total: int) -> float:
    """The weight of a word in `count` of `total` texts: rare words weigh more, absent ones
    nothing."""
    return log(1 + (total - count + 0.5) / (count + 0.5)) if count else 0.0


# --- the size of a summary, and prose carried from an earlier one ---

SUMMARY_TOKENS_MAX = 4_096
SUMMARY_RATIO = 0.05  # of the window: the limit of a summary, its prose included
PROSE_TOKENS_MIN = 48  # less room than this is worth neither a call nor a place on the page


def cap_tokens(window: int) -> int:
    """The limit of a summary on a page of this window."""
    return min(SUMMARY_TOKENS_MAX, int(SUMMARY_RATIO * window))


def prose_of(slot: Slot) -> Prose | None:
    """The prose of a stand-in."""
    return slot.summary.prose if slot.summary else None


def carried(slots: Sequence[Slot], tokens_max: int, count: Callable[[str], int]) -> Prose | None:
    """The prose of these slots together, each with an equal share of the room; in a small room the
    oldest are dropped."""
    all_prose = [prose for slot in slots if (prose := prose_of(slot))]
    fitting = min(len(all_prose), tokens_max // PROSE_TOKENS_MIN)
    if fitting <= 0:
        return None
    newest = all_prose[-fitting:]
    words = "\n\n".join(capped(prose.words, tokens_max // fitting, count) for prose in newest)
    return Prose(words=words, span=Span(newest[0].span.first, newest[-1].span.last))


def capped(words: str, tokens_max: int, count: Callable[[str], int]) -> str:
    """The words, cut at a line end, or inside the last remaining line, to fit the cap; each try
    removes a tenth."""
    lines = words.split("\n")
    while len(lines) > 1 and count("\n".join([*lines, "…"])) > tokens_max:
        tenth = -(-len(lines) // 10)  # rounded up
        lines = lines[:-tenth]
    text = "\n".join(lines)
    while count(text) > tokens_max and len(text) > 1:
        text = text[: len(text) * 9 // 10]
    return text if text == words else text.rstrip() + "\n…"
