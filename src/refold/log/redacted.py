"""Messages and outputs without their secrets, before they are sealed.

A log that a team shares may ask for this (`redact=append` in the URL of a synced store): what is
sealed is what travels, because the chain covers the body. Ids, signatures and encoded bytes stay
as they are; a thought whose words changed loses its signature, which would no longer be true.
Redacting twice changes nothing, so a history that comes back is known again. Neighbours:
`redaction` finds secrets, `engine.recorder` calls this, `stores.hybrid.hold` keeps them near.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from refold.core.model import Message, Thinking
from refold.redaction import redacted

LEFT_ALONE = frozenset({"id", "call", "artifact", "signature", "data", "type", "dialect", "key"})


def message_redacted(message: Message) -> Message:
    """The message without its secrets; itself if it has none."""
    plain = msgspec.to_builtins(message)
    without = value_redacted(plain)
    if without == plain:
        return message
    changed = msgspec.convert(without, Message)
    blocks = tuple(
        replace(new, signature="")
        if isinstance(new, Thinking) and isinstance(old, Thinking) and new.text != old.text
        else new
        for old, new in zip(message.blocks, changed.blocks)
    )
    return replace(changed, blocks=blocks)


def value_redacted(value: Any) -> Any:
    """A text, or plain data, with every secret in it replaced by a note."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return {
            name: inner if name in LEFT_ALONE else value_redacted(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(map(value_redacted, value))
    return value
