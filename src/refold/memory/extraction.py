"""What messages say that is worth remembering, read by rules: decisions, constraints, preferences,
and sentences that give something a value (a port, a version, a place).

Only what people and models say themselves is looked at, never what a tool gave. A sentence that
holds a secret is left out. Neighbours: `ledger.sentences` knows what binds, `claim` what has a
value, `semantic` keeps what is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from refold.core.model import Message, Trust, shows_memories
from refold.ledger.sentences import marked, own_text, sentences
from refold.memory.claim import claim_of
from refold.redaction import redacted

SENTENCE_CHARS_MIN, SENTENCE_CHARS_MAX = 8, 240
MESSAGE_MAX = 12  # sentences of one message: beyond that it is a document


class Taken(Struct, frozen=True):
    """A sentence that is worth remembering, and where it was said."""

    content: str
    seq: int
    trust: Trust
    kind: str


def taken_from(messages: Iterable[tuple[int, Message]]) -> list[Taken]:
    """What these messages say that is worth remembering, each sentence once."""
    found: dict[str, Taken] = {}
    for seq, message in messages:
        if message.role in ("user", "assistant") and not shows_memories(message):
            for one in list(_taken(seq, message))[:MESSAGE_MAX]:
                found.setdefault(claim_of(one.content).said, one)
    return list(found.values())


def _taken(seq: int, message: Message) -> Iterator[Taken]:
    by_user = message.role == "user"
    trust: Trust = "user" if by_user else "model"
    text = own_text(message)
    binding = {one.sentence: one.kind for one in marked(text, by_user=by_user)}
    for sentence in sentences(text):
        kind = binding.get(sentence) or ("value" if by_user and _has_value(sentence) else "")
        if kind and _may_be_kept(sentence):
            yield Taken(sentence.strip(), seq, trust, kind)


def _has_value(sentence: str) -> bool:
    """Whether a sentence says what something is; a question does not."""
    return claim_of(sentence).is_single and not sentence.rstrip().endswith("?")


def _may_be_kept(sentence: str) -> bool:
    size = len(sentence.strip())
    return SENTENCE_CHARS_MIN <= size <= SENTENCE_CHARS_MAX and redacted(sentence) == sentence
