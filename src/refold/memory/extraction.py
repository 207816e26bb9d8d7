"""What messages say that is worth remembering, read by rules: decisions, constraints, preferences,
roles, places, values, what is to be done, and what happened to somebody.

Only what people and models say themselves is looked at, never what a tool gave. A sentence that
holds a secret is left out. Of what happened, only as much is taken as fits into a share of the
talk, the most telling first. Neighbours: `worth` has the rules, `semantic` keeps what is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from refold.core.model import Message, Trust, shows_memories
from refold.ledger.sentences import marked, own_text, sentences
from refold.memory.claim import claim_of
from refold.memory.worth import EVENT, kind_of, worth
from refold.redaction import redacted

SENTENCE_CHARS_MIN, SENTENCE_CHARS_MAX = 8, 240
MESSAGE_MAX = 12  # sentences of one message: beyond that it is a document
EVENTS_SHARE = 0.2  # of the characters of the talk


class Taken(Struct, frozen=True):
    """A sentence that is worth remembering, and where it was said; `replaces` are ids of entries
    that are true no longer since it is."""

    content: str
    seq: int
    trust: Trust
    kind: str
    replaces: tuple[str, ...] = ()


def taken_from(messages: Iterable[tuple[int, Message]], share: float = EVENTS_SHARE) -> list[Taken]:
    """What these messages say that is worth remembering, each sentence once, in order. What
    happened may have this share of what was said."""
    found: dict[str, Taken] = {}
    said = 0
    for seq, message in messages:
        if message.role not in ("user", "assistant") or shows_memories(message):
            continue
        text = own_text(message)
        said += len(text)
        for one in list(_taken(seq, message.role == "user", text))[:MESSAGE_MAX]:
            found.setdefault(claim_of(one.content).said, one)
    return _within(list(found.values()), int(share * said))


def _taken(seq: int, by_user: bool, text: str) -> Iterator[Taken]:
    trust: Trust = "user" if by_user else "model"
    binding = {one.sentence: one.kind for one in marked(text, by_user=by_user)}
    for sentence in sentences(text) if by_user else binding:
        kind = kind_of(sentence, binding.get(sentence, ""), by_user=by_user)
        if kind and may_be_kept(sentence):
            yield Taken(sentence.strip(), seq, trust, kind)


def may_be_kept(sentence: str) -> bool:
    """Whether a sentence is of bearable length and holds no secret."""
    size = len(sentence.strip())
    return SENTENCE_CHARS_MIN <= size <= SENTENCE_CHARS_MAX and redacted(sentence) == sentence


def _within(taken: list[Taken], room: int) -> list[Taken]:
    """All but those events that do not fit into the room, the most telling first."""
    room -= sum(len(one.content) for one in taken if one.kind != EVENT)
    events = [one for one in taken if one.kind == EVENT]
    kept: set[int] = set()
    for one in sorted(events, key=lambda one: worth(one.content), reverse=True):
        if len(one.content) <= room:
            room -= len(one.content)
            kept.add(id(one))
    return [one for one in taken if one.kind != EVENT or id(one) in kept]
