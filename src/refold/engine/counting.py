"""Messages counted without a conversation: what a request of them would have, before anything is
appended.

The count is what the same messages have on a page of a new conversation; no report corrects it.
Neighbours: `dialects` parse, `tokens.counter` counts.
"""

from __future__ import annotations

from typing import Any

from refold import dialects
from refold.checked import checked
from refold.core.model import Message
from refold.dialects.outside import plain_value
from refold.log.draft import message_checked
from refold.tokens.choice import counter_for
from refold.tokens.counter import Count, count_message, count_system, count_tools
from refold.tokens.models import model_info


@checked
def count_messages(
    messages: list[Any] | tuple[Any, ...],
    *,
    model: str | None = None,
    system: Any = None,
    tools: list[Any] | None = None,
    dialect: str | None = None,
    counter: Count | str | None = None,
) -> int:
    """The tokens of messages in any provider's shape, with a system prompt and tools, as a model
    counts them. Nothing is written."""
    info = model_info(model)
    count = counter_for(counter, model)
    spoken = dialects.dialect(dialect or info.dialect or dialects.DEFAULT).name
    parsed = [one for message in messages for one in _parsed(message, spoken)]
    beside = count_system(plain_value(system), count)
    beside += count_tools(plain_value(tools), count)
    return beside + sum(count_message(one, count) for one in parsed)


def _parsed(message: Any, dialect: str) -> list[Message]:
    if isinstance(message, Message):
        return [message_checked(message)]
    return dialects.parse(message, dialect)
