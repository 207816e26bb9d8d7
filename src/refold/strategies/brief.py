"""The input of a strategy, and the rules for its output.

A strategy is a function `(Brief) -> list[Edit | Ask]`: it proposes, and changes nothing. It names
messages by `seq`, cuts at seams only, and never touches a protected message. Anyone may write one,
so `checked_answer` validates its edits before they touch a page. `reach` names a handle on the
page, with the tool that unfolds it if the model has that tool. Neighbours: `ladder` runs
strategies, `registry` names them, `protected_messages` has the messages that stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from refold.checked import shown
from refold.config import Config
from refold.core.budget import Budget
from refold.core.call_arguments import has_tool
from refold.core.codec import body_of, encode, kind_of
from refold.core.model import (
    Block,
    Edit,
    Hide,
    Message,
    Meta,
    Prose,
    Replace,
    Slot,
    Span,
    Summarize,
    Text,
    View,
)
from refold.core.plan import Ask
from refold.core.shortened import shortened
from refold.errors import Invalid

# A setting of every call: the number of messages at the end that stay as they are.
KEEP_RECENT = "keep_recent"

Count = Callable[[Message], int]
Originals = Callable[[Span], Sequence[Slot]]
Ages = Callable[[Sequence[int]], Mapping[int, int]]


class Brief(Struct, frozen=True, kw_only=True):
    """The page, the budget, and the size to reach, in tokens by our own estimate (`view.tokens`).

    `full` is the size at which a page is compacted, `enough` a size that leaves room for the next
    turn, both by the same estimate. `count` sizes a whole message. `originals` reads the messages
    of a span from the log, verbatim; `ages` gives the age of events in milliseconds, by seq;
    neither costs anything unless it is called. `task` is the agent's current work, for relevance;
    `redact` removes secrets from text; `settings` are the strategy's own, from the configuration
    and the call, and `named` has the names of those that the call set. `scratch` outlives the plan:
    it remembers expensive results, and may be lost at any time. `messages_max` is set if the page
    has too many messages rather than too many tokens. `has_writer` is true if a writer will put an
    ask in words, `is_chosen` if a person chose the messages, `is_asked` if the caller set the
    target, which must then not be exceeded; `tail` is the number of messages at the end that are
    pinned. A page that gets down to `lossless_enough` without any loss is not reduced further.
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
        """The size of the text as a message of its own."""
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
        raise Invalid(f"the setting {name} is {shown(value)}", hint=f"use a value of type {known}")


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


def first_text(slot: Slot) -> str:
    """The text of a slot's first block; the whole text of a stand-in."""
    first = slot.message.blocks[0] if slot.message.blocks else None
    return first.text if isinstance(first, Text) else ""


def text_tokens(count: Count, text: str) -> int:
    """The size of the text as a message of its own."""
    return count(Message(role="user", blocks=(Text(text),)))


def checked_answer(answer: object, brief: Brief) -> Sequence[Edit | Ask]:
    """The edits and asks of a strategy; raises if the answer has anything else, an edit that cannot
    be written to the log, or one for another batch or span."""
    if not isinstance(answer, list | tuple):
        raise TypeError(f"it returned {type(answer).__name__}, not a list of edits")
    for item in answer:
        edit = item.draft if isinstance(item, Ask) else item
        if not isinstance(edit, Hide | Replace | Summarize):
            raise TypeError(f"it returned {type(edit).__name__} among its edits")
        if isinstance(item, Ask) and not isinstance(item.instructions, str):
            kind = type(item.instructions).__name__
            raise TypeError(f"it returned an ask with {kind} for instructions")
        body_of(kind_of(edit), encode(edit))
        if edit.batch != brief.batch:
            raise ValueError("it returned an edit of another batch than brief.batch")
        span = Span(edit.seq, edit.seq) if isinstance(edit, Replace) else edit.span
        if not 1 <= span.first <= span.last <= brief.view.head:
            raise ValueError(
                f"it returned an edit of {span}, but the log ends at #{brief.view.head}"
            )
    return answer


UNFOLD = "refold_unfold"


def unfolder(known: View | Meta) -> str:
    """The name of the tool that unfolds handles; empty if the model does not have it."""
    return UNFOLD if has_tool(known.tools, UNFOLD) else ""


def reach(view: View, handles: str, purpose: str = "") -> str:
    """`; refold_unfold #41 to read it`, or `: #41` if the model does not have that tool: the page
    must not promise a model something that it cannot do, but a person can always unfold it."""
    if not unfolder(view):
        return f": {handles}"
    return f"; {UNFOLD} {handles} {purpose}".rstrip()


# --- the size of a summary, and prose carried from an earlier one ---

SUMMARY_TOKENS_MAX = 4_096
SUMMARY_RATIO = 0.05  # of the window: the limit of a summary, its prose included
PROSE_TOKENS_MIN = 48  # with less room, prose is worth neither a call nor a place on the page


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
