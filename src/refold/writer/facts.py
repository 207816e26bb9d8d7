"""Facts for the memory that a writer extracts from messages: one per line, with its source.

Each line of an answer is checked: its message must have been quoted, the fact must be one sentence
of reasonable length, and its values and most of its words must be in that message. A fact found
only in a tool result is marked. The writer sees related memories, and a line may name those it
replaces; other ids do not count. Neighbours: `quoted_history` quotes messages, `asker` makes the
call, `memory.extraction` extracts facts by rules.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Container, Mapping, Sequence

from msgspec import Struct

from refold.core.model import Slot, Usage
from refold.core.shortened import text_of
from refold.display import fenced, one_line
from refold.ledger.sentences import own_text
from refold.patterns import regex
from refold.writer.answer_check import Rejected
from refold.writer.asker import ROOM_MIN, SYSTEM, WINDOW_SHARE, Asker, Request, window_of
from refold.writer.quoted_history import quoted

KINDS = ("constraint", "decision", "preference", "role", "place", "value", "todo", "event")
NOTHING = "NOTHING"
TASK = (
    "List what in the quoted history is worth remembering in later conversations: decisions, "
    "constraints, preferences, values such as ports and versions, places such as paths and hosts, "
    "people and their roles, what is still to be done. One fact a line, in this form:\n"
    "#12 constraint: one sentence that can be understood on its own\n"
    "The number is the number of its message. The word after it is one of "
    f"{', '.join(KINDS)}. Use the words of the message, and its values unchanged. Leave out what "
    "matters only for the step at hand, secrets, and what nobody said. If there is nothing, answer "
    f"with the one word {NOTHING}."
)
CHANGES = (
    "The list above the history is already known. If a fact replaces one of these, because "
    "something has changed, add the old id at the end of its line: (replaces mem-0123). Do not "
    "repeat known facts that have not changed."
)
KNOWN_TOKENS_MAX = 800
TOKENS_MAX, CALLS_MAX, FACTS_MAX = 1_500, 4, 60
CHARS_MIN, CHARS_MAX = 8, 240
WORDS_SHARE = 0.5  # of a fact's words that must be in the message

_LINE = regex(r"\s*(?:[-*•]\s*)?#(\d{1,9})\s+\(?(\w{1,20})\)?\s*:\s*(\S.*)")
_REPLACES = regex(r"\s*[(\[]?\breplaces:?\s+(mem-[^()\[\]]{0,400})[)\]]?[.\s]*$")
_ID = regex(r"mem-[^\s,;.]*")
_WORD = regex(r"[^\W_][\w./:@+-]*[^\W_]|[^\W_]")
_NEGATION = regex(
    r"\b(?:not|never|no|without|none|neither|nor|avoid|forbidden|stop)\b|n['’]t\b", re.IGNORECASE
)
_BEGINNING = 4  # letters shared by words of one stem


class Noted(Struct, frozen=True):
    """A fact and the seq of its message; `by_tool` if it is only in a tool result there. `replaces`
    are ids of memories that the writer saw, `unshown` other ids in its answer."""

    seq: int
    kind: str
    sentence: str
    by_tool: bool
    replaces: tuple[str, ...] = ()
    unshown: tuple[str, ...] = ()


class Known(Struct, frozen=True):
    """A memory entry."""

    id: str
    content: str


def noted(
    asker: Asker,
    slots: Sequence[Slot],
    wait_s: float,
    known: Callable[[Sequence[Slot]], Sequence[Known]] = lambda slots: (),
) -> tuple[list[Noted], list[Usage]]:
    """Returns the facts in these messages and the usage, after at most `CALLS_MAX` calls and
    `wait_s` seconds. `known` finds related memories. Raises Rejected if the first call fails."""
    deadline = time.monotonic() + wait_s
    facts: dict[str, Noted] = {}
    usage: list[Usage] = []
    for run in _runs(asker, slots)[:CALLS_MAX]:
        left_s = deadline - time.monotonic()
        try:
            if left_s <= 0:
                raise Rejected("the time for the writer is over")
            shown = _fitting(known(run), asker)
            words, used = asker.words(_request(run, shown, asker, left_s))
        except Rejected:
            if not usage:
                raise
            break
        usage.append(used)
        for fact in grounded(words, run, shown.keys()):
            facts.setdefault(fact.sentence.casefold(), fact)
    return list(facts.values())[:FACTS_MAX], usage


def _runs(asker: Asker, slots: Sequence[Slot]) -> list[list[Slot]]:
    """The messages, grouped to fit one call each; a message that is too long gets its own call."""
    window = int(WINDOW_SHARE * window_of(asker.writer))
    own = asker.count(SYSTEM + TASK + CHANGES) + KNOWN_TOKENS_MAX
    room = max(ROOM_MIN, window - TOKENS_MAX - own - 100)
    runs: list[list[Slot]] = [[]]
    used = 0
    for slot in slots:
        size = asker.count("\n".join(quoted([slot], asker.redact)))
        if runs[-1] and used + size > room:
            runs.append([])
            used = 0
        runs[-1].append(slot)
        used += size
    return [run for run in runs if run]


def _fitting(memories: Sequence[Known], asker: Asker) -> dict[str, str]:
    """The first memories that fit: one line each, by id."""
    lines: dict[str, str] = {}
    left = KNOWN_TOKENS_MAX
    for memory in memories:
        line = f"{memory.id}: {one_line(asker.redact(memory.content))}"
        left -= asker.count(line) + 1
        if left < 0:
            break
        lines[memory.id] = line
    return lines


def _request(
    slots: Sequence[Slot], known: Mapping[str, str], asker: Asker, wait_s: float
) -> Request:
    texts = "\n\n".join(quoted(slots, asker.redact))
    prompt = f"{fenced(texts, 'history')}\n\n{TASK}"
    if known:
        lines = "\n".join(known.values())
        prompt = f"{fenced(lines, 'known')}\n\n{prompt} {CHANGES}"
    return Request(prompt=prompt, max_tokens=TOKENS_MAX, wait_s=wait_s)


def grounded(words: str, slots: Sequence[Slot], shown: Container[str] = ()) -> list[Noted]:
    """The facts of an answer that the messages support; `shown` are the ids the writer saw."""
    by_seq = {slot.seq: slot for slot in slots}
    facts: list[Noted] = []
    for line in words.splitlines():
        match = _LINE.fullmatch(line)
        slot = by_seq.get(int(match[1])) if match else None
        if match is None or slot is None:
            continue
        sentence = one_line(match[3])
        # The ids of replaced memories are at the end of a line.
        replaced = _REPLACES.search(sentence)
        ids = dict.fromkeys(_ID.findall(replaced[1])) if replaced else {}
        if replaced and ids:
            sentence = sentence[: replaced.start()]
        if not CHARS_MIN <= len(sentence) <= CHARS_MAX:
            continue
        by_tool = not _supports(own_text(slot.message), sentence)
        full_text = "\n".join(map(text_of, slot.message.blocks))
        if not by_tool or _supports(full_text, sentence):
            kind = match[2].lower() if match[2].lower() in KINDS else "event"
            replaces = tuple(id for id in ids if id in shown)
            unshown = tuple(id for id in ids if id not in shown)
            facts.append(Noted(slot.seq, kind, sentence, by_tool, replaces, unshown))
    return facts


def _supports(text: str, sentence: str) -> bool:
    """Whether the text contains all values and most words of a sentence, and a negation if the
    sentence does."""
    if _NEGATION.search(sentence) and not _NEGATION.search(text):
        return False
    in_text = {word.casefold() for word in _WORD.findall(text)}
    beginnings = {word[:_BEGINNING] for word in in_text}
    words = [word.casefold() for word in _WORD.findall(sentence)]
    values = [word for word in words if not word.isalpha()]
    others = [word for word in words if word.isalpha() and len(word) >= _BEGINNING]
    matching = sum(word[:_BEGINNING] in beginnings for word in others)
    return in_text.issuperset(values) and matching >= WORDS_SHARE * len(others)
