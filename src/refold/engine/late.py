"""A reply that comes to a log which grew while it was made.

Somebody edited the page meanwhile, or spoke: what the model thought stands under the page that its
request showed. The log keeps that head with the thinking (`UPTO`), and the law of thinking goes by
it; 0 where others spoke before the reply, or where the request ended with words that a dialect put
there because an answer came last: no page has the thinking where it was thought. So that nobody can
write in between unseen, a reply is written on top of the log that was looked at, or looked at
again. Neighbours: `asked` knows what was shown, `core.laws` leaves thinking out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from refold.core.model import UPTO, Event, Message, Text, Thinking
from refold.errors import Conflict
from refold.log.draft import Draft
from refold.log.log import TRIES_MAX
from refold.log.open_log import OpenLog

Late = Callable[[Message], Message]


def thinks(message: Message) -> bool:
    return any(isinstance(block, Thinking) for block in message.blocks)


def append_reply(
    log: OpenLog, shown: int, make: Callable[[Late], Sequence[Draft]], at_ms: int | None = None
) -> list[Event]:
    """Appends what `make` gives for a request that showed the log up to `shown`: it is handed
    what marks a message that came late. Asked with the lock held and the log read."""
    for _ in range(TRIES_MAX):
        drafts = make(_marker(log, shown))
        if not drafts:
            return []
        if events := log.append(drafts, fresh=lambda _: False, at_ms=at_ms):
            return events
    said = f"{log.id}: other writers were faster {TRIES_MAX} times"
    raise Conflict(said, head=log.state.head, hint="try again")


def on_time(message: Message) -> Message:
    """The message without what says that it came late."""
    if UPTO not in message.metadata:
        return message
    rest = {name: value for name, value in message.metadata.items() if name != UPTO}
    return replace(message, metadata=rest)


def _marker(log: OpenLog, shown: int) -> Late:
    slots = log.sums.slots
    is_asked = not slots or (slots[-1].last <= shown and not _is_finished(slots[-1].message))
    # A system message that stands alone is said by the user, until somebody speaks.
    stands = is_asked and (not slots or any(slot.message.role != "system" for slot in slots))
    is_late = log.sums.head > shown or bool(log.pending) or not stands

    def mark(message: Message) -> Message:
        if not is_late or not thinks(message):
            return message
        return replace(message, metadata={**message.metadata, UPTO: shown if stands else 0})

    return mark


def _is_finished(message: Message) -> bool:
    """Whether this is an answer that its model would not go on with by itself."""
    return message.role == "assistant" and all(
        isinstance(block, Text | Thinking) for block in message.blocks[-1:]
    )
