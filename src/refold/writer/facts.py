"""What a writer finds worth remembering in messages: one fact a line, each with the message that
says it.

An answer is checked line by line, and only what holds is used: the message was quoted, the fact is
one sentence of bearable length, and its values and most of its words stand in that message. What
stands there only in what a tool gave is marked so. What is known of the same is shown, and a line
may say which of that it replaces; of ids that were not shown nothing is believed. Neighbours:
`quote` (what goes in), `asker` (the call), `memory.extraction` (the same by rules).
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
from refold.writer.accept import Rejected, quoted
from refold.writer.asker import ROOM_MIN, SYSTEM, WINDOW_SHARE, Asker, Request, window_of

KINDS = ("constraint", "decision", "preference", "role", "place", "value", "todo", "event")
NOTHING = "NOTHING"
TASK = (
    "List what in the quoted history is worth remembering in later conversations: decisions, "
    "constraints, preferences, values such as ports and versions, places such as paths and hosts, "
    "people and their roles, what is still to be done. One fact a line, in this form:\n"
    "#12 constraint: one sentence that can be understood by itself\n"
    "The number is that of the message which says it. The word after it is one of "
    f"{', '.join(KINDS)}. Use the words of the message, and its values unchanged. Leave out what "
    "matters only for the step at hand, secrets, and what nobody said. If there is nothing, answer "
    f"with the one word {NOTHING}."
)
CHANGES = (
    "Above it stands what is known already. If a fact is so instead of one of those, because it "
    "has changed, add the id of that at the end of its line: (replaces mem-0123). Do not list "
    "again what is known and has not changed."
)
KNOWN_TOKENS_MAX = 800
TOKENS_MAX, CALLS_MAX, FACTS_MAX = 1_500, 4, 60
CHARS_MIN, CHARS_MAX = 8, 240
WORDS_SHARE = 0.5  # of the words of a fact that the message must have

_LINE = re.compile(r"\s*(?:[-*•]\s*)?#(\d{1,9})\s+\(?(\w{1,20})\)?\s*:\s*(\S.*)")
_REPLACES = re.compile(r"\s*[(\[]?\breplaces:?\s+(mem-[^()\[\]]{0,400})[)\]]?[.\s]*$")
_ID = re.compile(r"mem-[^\s,;.]*")
_WORD = re.compile(r"[^\W_][\w./:@+-]*[^\W_]|[^\W_]")
_NEGATION = re.compile(
    r"\b(?:not|never|no|without|none|neither|nor|avoid|forbidden|stop)\b|n['’]t\b", re.IGNORECASE
)
_BEGINNING = 4  # letters by which words of one stem are known


class Noted(Struct, frozen=True):
    """A fact and the message that says it; `by_tool` if only what a tool gave there says it.
    `replaces` are ids of what the writer was shown as known, `unshown` others that it named."""

    seq: int
    kind: str
    sentence: str
    by_tool: bool
    replaces: tuple[str, ...] = ()
    unshown: tuple[str, ...] = ()


class Known(Struct, frozen=True):
    """Something that is remembered."""

    id: str
    content: str


def noted(
    asker: Asker,
    slots: Sequence[Slot],
    wait_s: float,
    known: Callable[[Sequence[Slot]], Sequence[Known]] = lambda slots: (),
) -> tuple[list[Noted], list[Usage]]:
    """What the writer finds in these messages, in at most `CALLS_MAX` calls and `wait_s` seconds,
    and what that used. `known` gives what is remembered of messages. Rejected if not even the first
    call was answered."""
    deadline = time.monotonic() + wait_s
    found: dict[str, Noted] = {}
    usage: list[Usage] = []
    for part in _parts(asker, slots)[:CALLS_MAX]:
        left_s = deadline - time.monotonic()
        try:
            if left_s <= 0:
                raise Rejected("the time for the writer is over")
            shown = _fitting(known(part), asker)
            words, used = asker.words(_request(part, shown, asker, left_s))
        except Rejected:
            if not usage:
                raise
            break
        usage.append(used)
        for one in grounded(words, part, shown.keys()):
            found.setdefault(one.sentence.casefold(), one)
    return list(found.values())[:FACTS_MAX], usage


def _parts(asker: Asker, slots: Sequence[Slot]) -> list[list[Slot]]:
    """The messages in runs that fit into one call each; one that is too long goes alone, cut."""
    room = _room(asker)
    parts: list[list[Slot]] = [[]]
    used = 0
    for slot in slots:
        size = asker.count("\n".join(quoted([slot], asker.redact)))
        if parts[-1] and used + size > room:
            parts.append([])
            used = 0
        parts[-1].append(slot)
        used += size
    return [part for part in parts if part]


def _room(asker: Asker) -> int:
    window = int(WINDOW_SHARE * window_of(asker.writer))
    said = asker.count(SYSTEM + TASK + CHANGES) + KNOWN_TOKENS_MAX
    return max(ROOM_MIN, window - TOKENS_MAX - said - 100)


def _fitting(known: Sequence[Known], asker: Asker) -> dict[str, str]:
    """As much of what is known as there is room for: a line each, by id."""
    lines: dict[str, str] = {}
    left = KNOWN_TOKENS_MAX
    for one in known:
        line = f"{one.id}: {one_line(asker.redact(one.content))}"
        left -= asker.count(line) + 1
        if left < 0:
            break
        lines[one.id] = line
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


# --- what of an answer holds ---


def grounded(words: str, slots: Sequence[Slot], shown: Container[str] = ()) -> list[Noted]:
    """The lines of an answer that the messages bear out; `shown` are ids of what is known."""
    by_seq = {slot.seq: slot for slot in slots}
    found: list[Noted] = []
    for line in words.splitlines():
        match = _LINE.fullmatch(line)
        slot = by_seq.get(int(match[1])) if match else None
        if match is None or slot is None:
            continue
        sentence, named = _split(one_line(match[3]))
        if not CHARS_MIN <= len(sentence) <= CHARS_MAX:
            continue
        by_tool = not _is_said(sentence, own_text(slot.message))
        whole = "\n".join(map(text_of, slot.message.blocks))
        if not by_tool or _is_said(sentence, whole):
            kind = match[2].lower() if match[2].lower() in KINDS else "event"
            replaces = tuple(id for id in named if id in shown)
            unshown = tuple(id for id in named if id not in shown)
            found.append(Noted(slot.seq, kind, sentence, by_tool, replaces, unshown))
    return found


def _split(line: str) -> tuple[str, tuple[str, ...]]:
    """A sentence, and the ids that are named at its end as replaced."""
    named = _REPLACES.search(line)
    ids = tuple(dict.fromkeys(_ID.findall(named[1]))) if named else ()
    return (line[: named.start()], ids) if named and ids else (line, ())


def _is_said(sentence: str, text: str) -> bool:
    """Whether a text has all values of a sentence and most of its words, and says no where the
    sentence does."""
    if _NEGATION.search(sentence) and not _NEGATION.search(text):
        return False
    said = [word.casefold() for word in _WORD.findall(text)]
    whole = set(said)
    beginnings = {word[:_BEGINNING] for word in said}
    words = [word.casefold() for word in _WORD.findall(sentence)]
    values = [word for word in words if not word.isalpha()]
    others = [word for word in words if word.isalpha() and len(word) >= _BEGINNING]
    known = sum(word[:_BEGINNING] in beginnings for word in others)
    return all(map(whole.__contains__, values)) and known >= WORDS_SHARE * len(others)
