"""The beginning of a conversation: first words, and the answer that their client has not repeated.

Its client goes on from that answer in words of its own (without thinking, without a space at the
end), or asks again because it gave up on the answer. Both are the same conversation, and only this
answer is in doubt: every later one stands behind a front that is known. Two answers are alike if
they make the same call, or if the text of one begins the text of the other. Neighbours: `book`
looks among the conversations that are held, and in the store; `body` says what is an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import refold
from refold import dialects
from refold.conversations.recognition import Recognised, recognise
from refold.core.arguments import canonical_arguments
from refold.core.model import Block, Text, ToolCall, View
from refold.edges.proxy.body import Asked, Wire, is_answer
from refold.errors import RefoldError
from refold.settings.noted import KEEPER, LIMITS, limits_of, noted
from refold.stores.protocol import Store

TAG = KEEPER  # of the conversations that were kept here
_Said = tuple[set[tuple[str, str, str]], str]  # the calls of an answer, and its text


def words_in(messages: Sequence[Wire]) -> int:
    """How many messages come before the first answer."""
    return next((at for at, one in enumerate(messages) if is_answer(one)), len(messages))


def is_unrepeated(messages: Sequence[Wire]) -> bool:
    """Whether a list has nothing after its first answer."""
    words = words_in(messages)
    return words < len(messages) and all(map(is_answer, messages[words:]))


def are_alike(one: Sequence[Wire], other: Sequence[Wire], dialect: str) -> bool:
    """Whether two lists that have the same first words have the same first answer, however each
    words it."""
    return _are_alike(_said(_first_answer(one), dialect), _said(_first_answer(other), dialect))


# --- in the store ---


def has_first_answer(store: Store, found: Recognised, asked: Asked) -> bool:
    """Whether a stored conversation has the first answer of a list, in whatever words."""
    words = words_in(asked.messages)
    if found.shared != words:
        return found.shared > words
    answer = _unrepeated(_view(store, found))
    theirs = _said(_first_answer(asked.messages), asked.dialect)
    return answer is not None and _are_alike(_said_in(answer), theirs)


def tag(context: refold.Context, asked: Asked) -> None:
    """Tags a conversation as kept here, and notes by which limits."""
    view, limits = context.view, limits_of(context.config)
    if TAG in view.tags and noted(view.metadata) == limits:
        return
    known = view.metadata.get(TAG)
    about = dict(known) if isinstance(known, Mapping) else {}
    about.pop(LIMITS, None)
    if TAG not in view.tags and asked.session:
        about["session"] = asked.session
    if limits:
        about[LIMITS] = limits
    tags = view.tags if TAG in view.tags else (*view.tags, TAG)
    context.update(tags=tags, metadata={**view.metadata, TAG: about})


def begun_in(store: Store, asked: Asked) -> str | None:
    """The stored conversation that the same client began with these words, and gave up on."""
    if not asked.session and not asked.retries:
        return None
    words = asked.messages[: words_in(asked.messages)]
    found = recognise(store, words, asked.dialect)
    if found is None or found.shared < len(words):
        return None
    view = _view(store, found)
    about = view.metadata.get(TAG)
    session = about.get("session", "") if isinstance(about, Mapping) else ""
    is_same = _unrepeated(view) is not None and session == asked.session
    return found.conversation.id if is_same else None


def _view(store: Store, found: Recognised) -> View:
    with refold.open(found.conversation.id, store=store, read_only=True) as context:
        return context.view


def _unrepeated(view: View) -> Sequence[Block] | None:
    """The answer of a page that has nothing after its first answer; None for any other."""
    roles = [slot.message.role for slot in view.slots]
    words = roles.index("assistant") if "assistant" in roles else len(roles)
    if set(roles[words:]) != {"assistant"}:
        return None
    return [block for slot in view.slots[words:] for block in slot.message.blocks]


# --- what an answer says ---


def _first_answer(messages: Sequence[Wire]) -> Sequence[Wire]:
    first = words_in(messages)
    rest = messages[first:]
    ends = next((at for at, one in enumerate(rest) if not is_answer(one)), len(rest))
    return rest[:ends]


def _said(answer: Sequence[Wire], dialect: str) -> _Said:
    """What an answer says; nothing, if it cannot be read."""
    try:
        parsed = [message for one in answer for message in dialects.parse(one, dialect)]
    except RefoldError:
        return set(), ""
    return _said_in([block for message in parsed for block in message.blocks])


def _said_in(blocks: Sequence[Block]) -> _Said:
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    made = {(call.id, call.name, canonical_arguments(call)) for call in calls}
    texts = [block.text for block in blocks if isinstance(block, Text)]
    return made, "".join("".join(texts).split())


def _are_alike(one: _Said, other: _Said) -> bool:
    if one[0] or other[0]:
        return not one[0].isdisjoint(other[0])
    shorter, longer = sorted((one[1], other[1]), key=len)
    return bool(shorter) and longer.startswith(shorter)
