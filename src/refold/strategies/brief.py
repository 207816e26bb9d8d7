"""What a strategy is given, and what it gives back.

A strategy is a function `(Brief) -> list[Edit | Ask]`: it proposes, and changes nothing. It speaks
of the log by `seq`, cuts at seams only (`laws.units`), and never touches a slot that `protected`
names. The ladder sizes what it proposes, shows it to the next rung, and stops at the target.
Neighbours: `ladder` runs strategies, `registry` names them.

What a strategy gave is held to what it may give before it touches a page: a strategy may be
anybody's code.

A list of edits and asks, each of which could be written to a log and read again, and is about what
was said so far. Neighbours: `ladder` asks the strategies, and leaves out one whose answer is
refused.

How the page says where the rest is: by handle, and by the tool that reads handles.

The tool is named only if the model was given it, because a text on the page must promise nothing
that its reader cannot do. The handle stands there in any case: a person can unfold it. Neighbours:
every strategy that writes a text for the page, `artifacts.intake` for its stubs.

The words of a text as code and prose have them, and how much a word says.

`getUserName`, `user_name` and `user name` have the same words; `is` is not in `this`. Words come
lower-case and without their endings, so that `fixes` meets `fixing`; words that say nothing are
left out; Chinese, Japanese and Korean go by pairs of characters. A word that is everywhere weighs
nothing. Neighbours: `keep` and `scores` look for the words of the task, `artifacts.word_ranking`
for those of a query.
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

# Of what is free: what the latest request may have where all of it leaves nothing for the rest.
REQUEST_SHARE = 0.75
# Of the input limit: what may stay whole of results of excluded tools, and of system messages.
EXCLUDED_SHARE, SYSTEM_SHARE = 0.25, 0.15

# What every strategy takes in a call: how many messages at the end stay whole.
KEEP_RECENT = "keep_recent"

Count = Callable[[Message], int]
Originals = Callable[[Span], Sequence[Slot]]
Ages = Callable[[Sequence[int]], Mapping[int, int]]


def _no_ages(seqs: Sequence[int]) -> Mapping[int, int]:
    return {}


class Brief(Struct, frozen=True, kw_only=True):
    """The page, the budget, and the size to reach, in tokens of our own estimate (`view.tokens`).

    `full` is the size at which a page is compacted, `enough` one with room for the next turn, both
    in the same tokens. `count` sizes a whole message. `originals` reads the messages of a span as
    they came, from the log, `ages` how many milliseconds ago events came, by seq;
    neither costs anything unless it is called. `task` is what the agent works on now, for
    relevance; `redact` takes secrets out of a text; `settings` are the strategy's own, from the
    configuration, and `named` says which of them the call itself gave; `scratch` outlives the plan:
    it remembers what is expensive to find out twice, and may be lost at any time. `messages_max` is
    set where the page has too many messages and not too many tokens; `has_writer` where somebody
    will put an ask in words, `is_chosen` where a person named what goes, `is_asked` where the
    target was named and is not to be exceeded. A page that is brought to `lossless_enough` without
    losing anything is left at that.
    """

    view: View
    budget: Budget
    config: Config
    count: Count
    target: int
    batch: str
    originals: Originals
    ages: Ages = _no_ages
    enough: int = 0
    full: int = 0
    lossless_enough: int = 0
    messages_max: int = 0
    has_writer: bool = False
    is_chosen: bool = False
    is_asked: bool = False
    task: str = ""
    redact: Callable[[str], str] = str
    settings: dict[str, Any] = {}
    named: Set[str] = frozenset()
    scratch: dict[str, Any] = {}

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots of the page."""
        return self.view.slots

    @property
    def excess(self) -> int:
        """How many tokens must still go."""
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
        """The size of one block of a message alone."""
        frame = self.count(replace(message, blocks=()))
        return self.count(replace(message, blocks=(block,))) - frame

    def hide_tokens(self, edit: Hide) -> int:
        """What hiding adds to the page: its notice."""
        return self.text_tokens(edit.notice) if edit.notice else 0

    def freed_tokens(self, slot: Slot, edit: Replace) -> int:
        """What a replace takes off its slot, as it is on the page."""
        message = slot.message
        block = message.blocks[edit.block]
        after = self.block_tokens(message, shortened(block, edit))
        return self.block_tokens(message, block) - after


Strategy = Callable[[Brief], "list[Edit | Ask]"]


def check_kind(name: str, value: object, kinds: Sequence[type]) -> None:
    """Refuses a value that is of none of these types."""
    if not _is_of_kind(value, kinds):
        known = " or ".join(kind.__name__ for kind in kinds)
        raise Invalid(f"the setting {name} is {shown(value)}", hint=f"give a value of type {known}")


def _is_of_kind(value: object, kinds: Sequence[type]) -> bool:
    """A whole number is accepted where a float is wanted; True and False are not numbers here."""
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, int) and float in kinds:
        return True
    return isinstance(value, tuple(kinds))


def check_choice(refusal: str, value: str, known: Sequence[str]) -> None:
    """Refuses a value that is not one of these, with this beginning of a sentence."""
    if value not in known:
        names = ", ".join(name for name in known if name)
        raise Invalid(f"{refusal} {shown(value)}", hint=f"known: {names}")


def check_needed(name: str, settings: Mapping[str, Any], task: str) -> None:
    """Refuses a strategy that is not told what it cannot do without."""
    if name == "relevance" and not task.strip():
        raise Invalid("relevance needs a task", hint="say what the agent works on, as the task")
    if name == "relevance" and "max_tokens" not in settings:
        raise Invalid("relevance needs a size", hint="set max_tokens")
    if name == "window" and settings.get("by") == "tokens" and "max_tokens" not in settings:
        raise Invalid("a window by tokens needs a size", hint="set max_tokens")


def protected(view: View) -> set[int]:
    """The seqs that no edit may touch: pins, the latest request, and the units they belong to."""
    return with_units(view, {*view.pins, view.request})


def with_kept(view: View, config: Config, budget: Budget) -> View:
    """The page with what stays whole as far as it is bearable pinned, so that no strategy has to
    know of it: system messages, results of excluded tools, and what a provider wrote for messages
    that are not here."""
    limit = budget.input_max / budget.factor
    held = {*view.pins, *_system_seqs(view, SYSTEM_SHARE * limit), *_compacted_seqs(view)}
    held |= _excluded_seqs(view, config.exclude_tools, EXCLUDED_SHARE * limit)
    return view if held == view.pins else replace(view, pins=frozenset(held))


def with_named_tail(view: View, settings: Mapping[str, Any]) -> View:
    """The page with the last messages pinned that a caller named in a call, by `keep_recent`, so
    that they stay whole even if the target is missed. The default is no promise: it gives way."""
    count: int = settings.get(KEEP_RECENT, 0)
    said = [slot.seq for slot in view.slots if not slot.standin]
    tail = set(said[-count:]) if count else set()
    return replace(view, pins=view.pins | with_units(view, tail)) if tail else view


def _system_seqs(view: View, left: float) -> set[int]:
    """The system messages that fit: the first, which sets the scene, and the newest."""
    said = [slot for slot in view.slots if slot.message.role == "system" and not slot.standin]
    held: set[int] = set()
    for slot in (*said[:1], *reversed(said[1:])):
        left -= slot.tokens
        if left < 0:
            break
        held.add(slot.seq)
    return held


def _compacted_seqs(view: View) -> set[int]:
    """The newest compaction that came as a message: nobody else can read what it stands for."""
    for slot in reversed(view.slots):
        for block in slot.message.blocks:
            if isinstance(block, Opaque) and _is_compaction(block.raw):
                return {slot.seq}
    return set()


def _is_compaction(raw: Any) -> bool:
    return isinstance(raw, dict) and raw.get("type") == "compaction"


def _excluded_seqs(view: View, names: Sequence[str], left: float) -> set[int]:
    """The results of these tools that fit, the newest first, with their calls."""
    calling = {
        at
        for at, slot in enumerate(view.slots)
        for block in slot.message.blocks
        if type(block) is ToolCall and block.name in names
    }
    held: set[int] = set()
    # Most pages call none of them, and need not be divided.
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
    """What no compaction touches: system, tools, pins, and the latest request."""
    held = {*view.pins, view.request}
    slots = [slot for slot in view.slots if slot.seq in held and not slot.standin]
    return view.system_tokens + view.tools_tokens + tokens_of(slots)


def request_excess(view: View, fixed: int, full: int) -> int:
    """By how much the latest request is too large, where the `fixed` part of the page, which has
    it, leaves nothing of the full page; a pinned one is not."""
    slots = [slot for slot in view.slots if slot.seq == view.request and slot.seq not in view.pins]
    if not slots or fixed <= full:
        return 0
    tokens = tokens_of(slots)
    return max(0, tokens - int(REQUEST_SHARE * max(0, full - fixed + tokens)))


def with_units(view: View, seqs: Set[int]) -> set[int]:
    """These seqs with all others of the units they belong to."""
    out: set[int] = set()
    for unit in units(view.slots):
        in_unit = [view.slots[index].seq for index in unit]
        if not seqs.isdisjoint(in_unit):
            out.update(in_unit)
    return out


def opening(view: View) -> int:
    """How many leading slots are the task itself: up to and including the first user request."""
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


def last_seam(whole: Sequence[range], latest: int) -> int:
    """The last seam that is not after this index; `whole` are the units of a page."""
    return max((unit.start for unit in whole if unit.start <= latest), default=0)


def first_text(slot: Slot) -> str:
    """The text that a slot begins with; all of it where it is a stand-in."""
    first = slot.message.blocks[0] if slot.message.blocks else None
    return first.text if isinstance(first, Text) else ""


def tokens_of(slots: Sequence[Slot]) -> int:
    """What these slots take on the page together."""
    return sum(slot.tokens for slot in slots)


def run_tokens(slots: Sequence[Slot], run: range) -> int:
    """What the slots of a run take together; a run is given by their indices."""
    return tokens_of(slots[run.start : run.stop])


def text_tokens(count: Count, text: str) -> int:
    """The size of a text as a message of its own."""
    return count(Message(role="user", blocks=(Text(text),)))


def checked_answer(given: object, brief: Brief) -> Sequence[Edit | Ask]:
    """The edits and asks for a brief; an error if one of them is none, or for something else."""
    if not isinstance(given, list | tuple):
        raise TypeError(f"it gave {type(given).__name__}, not a list of edits")
    for item in given:
        _check_item(item, brief)
    return given


def _check_item(item: object, brief: Brief) -> None:
    edit = item.draft if isinstance(item, Ask) else item
    if not isinstance(edit, Hide | Replace | Summarize):
        raise TypeError(f"it gave {type(edit).__name__} among its edits")
    if isinstance(item, Ask) and not isinstance(item.instructions, str):
        raise TypeError(f"it gave an ask with {type(item.instructions).__name__} for instructions")
    body_of(kind_of(edit), encode(edit))
    if edit.batch != brief.batch:
        raise ValueError("it gave an edit of another batch than brief.batch")
    span = Span(edit.seq, edit.seq) if isinstance(edit, Replace) else edit.span
    if not 1 <= span.first <= span.last <= brief.view.head:
        raise ValueError(f"it gave an edit of {span}, but the log ends at #{brief.view.head}")


UNFOLD = "refold_unfold"


def unfolder(known: View | Meta) -> str:
    """The tool by which the model reads a handle; empty if it was not given."""
    return UNFOLD if has_tool(known.tools, UNFOLD) else ""


def reach(view: View, handles: str, purpose: str = "") -> str:
    """`; refold_unfold #41 to read it`, or `: #41` where the model has no such tool."""
    if not unfolder(view):
        return f": {handles}"
    return f"; {UNFOLD} {handles} {purpose}".rstrip()


_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_RUN = re.compile(rf"[{_CJK}]+|[^\W\d_{_CJK}]+|\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_IS_CJK = re.compile(rf"[{_CJK}]")
_STOP = """
a about after all also am an and any are as at be because been before being but by can could did do
does doing for from further had has have having he her here hers him his how i if in into is it its
itself just let me more most my no nor not now of off on once only or other our out over own please
same she should so some such than that the their them then there these they this those through to
too under until up us very was we were what when where which while who whom why will with would you
your
"""
STOP = frozenset(_STOP.split())
HITS_MAX = 8  # places of a word that are looked at in one text
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
    """The words of a text in order: split, lower-cased, stemmed, without stop words."""
    out: list[str] = []
    for run in _RUN.findall(text):
        if _IS_CJK.match(run):
            out += _pairs(run)
        elif run.islower() or run.isdigit():
            out.append(_stem_or_nothing(run))
        else:  # `getHTTPResponse` is get, HTTP, Response
            out += map(_stem_or_nothing, _HUMP.split(run))
    return [word for word in out if word]


def _pairs(run: str) -> list[str]:
    """The characters of a run two by two, overlapping; one alone stays alone."""
    last = max(1, len(run) - 1)
    return [run[at : at + 2] for at in range(last)]


@lru_cache(maxsize=4096)
def _stem_or_nothing(run: str) -> str:
    """The stem of a word; nothing for a stop word."""
    lower = run.lower()
    return "" if lower in STOP else stem(lower)


def stem(word: str) -> str:
    """The word without its English ending, so that forms of one word are alike; not a linguist's
    stem."""
    if len(word) <= 3 or not word.isascii():
        return word
    word = _undoubled(_without_ending(word))
    return word.removesuffix("e") if len(word) > 3 else word


def _undoubled(word: str) -> str:
    """The word with one consonant at its end where it has two: `plann` is `plan`."""
    is_doubled = len(word) > 3 and word[-1] == word[-2]
    return word[:-1] if is_doubled and word[-1] not in "aeiouls" else word


def _without_ending(word: str) -> str:
    """The word with its first known ending taken off; at least three letters stay."""
    if word.endswith("ss"):
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + instead
    return word


def mentions(text: str, lower: str, word: str) -> bool:
    """Whether a text has a stemmed word, without taking the whole text apart. `lower` is the
    text in lower case."""
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
    """What every form of a stemmed word begins with: `queries` has no y."""
    return word.removesuffix("y") if len(word) > 3 else word


@lru_cache(maxsize=4096)
def _name_words(name: str) -> frozenset[str]:
    return frozenset(words(name))


def _name_around(text: str, start: int, stop: int) -> str:
    """The name in which a hit stands: up to 40 letters and digits more on both sides."""
    lowest = max(0, start - NAME_CHARS)
    highest = min(len(text), stop + NAME_CHARS)
    while start > lowest and text[start - 1].isalnum():
        start -= 1
    while stop < highest and text[stop].isalnum():
        stop += 1
    return text[start:stop]


def mentioning(word: str, texts: Sequence[str], lowers: Sequence[str]) -> list[int]:
    """Which of the texts have a stemmed word."""
    needle = _needle(word)
    found: list[int] = []
    for index, lower in enumerate(lowers):
        if needle in lower and mentions(texts[index], lower, word):
            found.append(index)
    return found


def weight(count: int, total: int) -> float:
    """What a word says that stands in `count` of `total` texts: rare ones weigh more, absent
    ones nothing."""
    if not count:
        return 0.0
    return log(1 + (total - count + 0.5) / (count + 0.5))
