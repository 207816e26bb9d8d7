"""Where conversations show what is forgotten: found and erased, message by message.

A message shows an entry if it was put on the page for it (`engine.shown_memories`), if a tool's
answer recalled it, if a call told the memory to keep it, or if it is the source and that is to go
as well. Such a message is erased whole; its shape stays. A summary that may say something of an
erased message goes with it: the page is folded without it, and made again at the next request.
That a message is gone is written to every log that reads it before its bytes go, so no page shows
it from then on, however this ends. What else says the same words is told. Neighbour: `forgetting`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from msgspec import Struct

from refold.core.arguments import arguments_object, arguments_text
from refold.core.codec import decode
from refold.core.laws import calls_of, results_of
from refold.core.model import (
    MEMORIES,
    Block,
    Body,
    Conversation,
    Edit,
    Erase,
    Event,
    Hide,
    Message,
    Replace,
    Summarize,
    ToolCall,
    ToolResult,
)
from refold.core.shortened import text_of
from refold.core.summary import summary_text
from refold.errors import Corrupt
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.reading import conversations, pages_of
from refold.search.upkeep import SEARCH_EVENTS, Upkeep, index_path
from refold.stores import erase_events
from refold.stores.protocol import Store

BY = "memory"
REMEMBER = "remember"
_WORD = re.compile(r"\w+")


class Sought(Struct, frozen=True, kw_only=True):
    """What is to go: entries by their ids, what they said, and the messages that said it first."""

    ids: frozenset[str]
    contents: tuple[str, ...] = ()
    sources: frozenset[tuple[str, int]] = frozenset()


class Erased(Struct, frozen=True, kw_only=True):
    """How many messages and summaries went, the messages that say the same words and stay, and
    the artifacts that erased messages named."""

    messages: int = 0
    summaries: int = 0
    mentions: tuple[tuple[str, int], ...] = ()
    artifacts: tuple[str, ...] = ()


class _Place(Struct):
    """What was found in one conversation."""

    about: Conversation
    erasures: dict[int, Erase]
    summaries: list[int]
    mentions: list[int]
    artifacts: list[str]


def erase_shown(store: Store, sought: Sought) -> Erased:
    """Erases what is sought from all conversations of a store, and from its index."""
    spoken = [words for words in map(_spelt, sought.contents) if words]
    about_all = list(conversations(store))
    places = [place for about in about_all if (place := _place(store, about, sought, spoken))]
    going = [place for place in places if place.erasures]
    for place in going:
        _announce(store, place)
    for place in going:
        _erase_bytes(store, place)
    if going:
        _erase_from_index(store)
    return Erased(
        messages=len({_own(place.about, seq) for place in going for seq in _messages(place)}),
        summaries=len({_own(place.about, seq) for place in going for seq in place.summaries}),
        mentions=tuple((place.about.id, seq) for place in places for seq in place.mentions),
        artifacts=tuple(dict.fromkeys(name for place in going for name in place.artifacts)),
    )


def _messages(place: _Place) -> set[int]:
    return place.erasures.keys() - set(place.summaries)


def _own(about: Conversation, seq: int) -> tuple[str, int]:
    """An event by the log that has it: a fork reads those of its parent."""
    return (about.id if seq > about.parent_seq else about.parent or about.id), seq


# --- finding ---


def _place(
    store: Store, about: Conversation, sought: Sought, spoken: Sequence[str]
) -> _Place | None:
    """What one conversation has of it; None if it has nothing."""
    place = _Place(about, {}, [], [], [])
    edits: list[tuple[int, Edit]] = []
    for event, body in _bodies(store, about):
        if isinstance(body, Message):
            _look_at(place, event, body, sought, spoken)
        elif isinstance(body, Summarize | Replace):
            edits.append((event.seq, body))
    for seq, edit in edits:
        if _tells_of(edit, set(place.erasures), spoken):
            place.erasures[seq] = Erase(seq=seq)
            place.summaries.append(seq)
    return place if place.erasures or place.mentions else None


def _bodies(store: Store, about: Conversation) -> Iterator[tuple[Event, Body]]:
    """The messages and edits of a log, as far as it can be read."""
    with suppress(Corrupt):
        for events in pages_of(store, about.id, last=about.head):
            for event in events:
                body = decode(event) if event.kind in ("message", "edit") else None
                if body is not None:
                    yield event, body


def _look_at(
    place: _Place, event: Event, message: Message, sought: Sought, spoken: Sequence[str]
) -> None:
    is_source = (place.about.id, event.seq) in sought.sources
    if is_source or _shows(message, sought.ids, spoken):
        place.erasures[event.seq] = Erase(
            seq=event.seq,
            role=message.role,
            calls=tuple(calls_of(message)),
            results=tuple(results_of(message)),
            ids=message.ids,
        )
        place.artifacts += [name for block in message.blocks if (name := _artifact(block))]
    elif _says("\n".join(map(_block_text, message.blocks)), spoken):
        place.mentions.append(event.seq)


def _artifact(block: Block) -> str:
    return block.artifact if isinstance(block, ToolResult) else ""


def _shows(message: Message, ids: frozenset[str], spoken: Sequence[str]) -> bool:
    """Whether a message shows an entry: as memories on the page, as an answer that recalls it, or
    as the call that had it remembered."""
    if not ids.isdisjoint(message.metadata.get(MEMORIES, ())):
        return True
    for block in message.blocks:
        text = _block_text(block)
        recalls = isinstance(block, ToolResult) and any(id in text for id in ids)
        remembers = isinstance(block, ToolCall) and block.name == REMEMBER
        if (recalls or remembers) and _says(text, spoken):
            return True
    return False


def _block_text(block: Block) -> str:
    """The text of a block; of a call, its arguments as they mean it, without the escapes."""
    if not isinstance(block, ToolCall):
        return text_of(block)
    given = arguments_object(block)
    return arguments_text(block) if given is None else "\n".join(map(str, given.values()))


def _tells_of(edit: Edit, erased: set[int], spoken: Sequence[str]) -> bool:
    """Whether an edit may hold words of a message that is erased."""
    match edit:
        case Hide():
            return False
        case Replace():
            return edit.seq in erased
        case Summarize():
            if not any(seq in edit.span for seq in erased):
                return False
            seqs = {one.seq for one in edit.quotes} | {one.seq for one in edit.facts}
            told = "\n".join([summary_text(edit), edit.line, *(one.text for one in edit.facts)])
            return edit.prose is not None or bool(seqs & erased) or _says(told, spoken)


def _says(text: str, spoken: Sequence[str]) -> bool:
    """Whether a text has one of these sentences, however it is spelt and broken."""
    folded = text.casefold()
    # Few texts have the longest word: the others need no further look.
    likely = [words for words in spoken if max(words.split(), key=len) in folded]
    spelt = f" {_spelt(text)} " if likely else ""
    return any(f" {words} " in spelt for words in likely)


def _spelt(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


# --- erasing ---


def _announce(store: Store, place: _Place) -> None:
    """Writes to a log what is gone, unless it says so already."""
    log = Log(store, place.about.id)
    new = [one for seq, one in sorted(place.erasures.items()) if seq not in log.state.erased]
    if new:
        log.append([Draft(body=one, by=BY) for one in new])


def _erase_bytes(store: Store, place: _Place) -> None:
    """Erases the events, but for those that another log's turn erased: forks share them."""
    id = place.about.id
    events = [store.read(id, after=seq - 1, last=seq, limit=1)[0] for seq in sorted(place.erasures)]
    erase_events(store, id, [event.seq for event in events if not event.erased])


def _erase_from_index(store: Store) -> None:
    """Lets the index of search read that the messages are gone, if there is one."""
    upkeep = Upkeep(store, index_path(store), tell=lambda name, reason: None)
    try:
        if upkeep.has_file():
            while upkeep.catch_up(SEARCH_EVENTS):
                pass
    finally:
        upkeep.close()
