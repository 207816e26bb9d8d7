"""Text that JSON cannot carry (lone surrogates) is kept as bytes in opaque blocks, and shown with
U+FFFD.

Only a message may hold such text: what users and tools say is data. Anything else with it is
refused. Neighbours: `core.codec` encodes, `draft` is written, `unfold` gives the exact text back.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from refold.core.codec import encode, kind_of
from refold.core.model import Block, Body, Message, Opaque, Text, ToolResult
from refold.errors import Invalid


def encode_shielded(body: Body) -> bytes:
    """The bytes of a body that holds text which JSON cannot carry. Invalid unless it is a
    message."""
    if not isinstance(body, Message):
        hint = "decode the text with errors='replace'"
        raise Invalid(f"the {kind_of(body)} holds a lone surrogate", hint=hint)
    try:
        return encode(shielded(body))
    except (UnicodeEncodeError, AttributeError, TypeError, RecursionError) as error:
        # A field has another type than it should, and text that JSON cannot carry besides.
        raise Invalid(f"the message is not JSON: {error}", hint="pass blocks and texts") from error


def shielded(message: Message) -> Message:
    """The message with every text that has lone surrogates moved into opaque bytes."""
    blocks = tuple(_shield(block) for block in message.blocks)
    return msgspec.structs.replace(
        message, blocks=blocks, form=None, metadata=_replaced(message.metadata)
    )


def _shield(block: Block) -> Block:
    """The block with its own text as bytes, and every other text it holds (ids, names, urls)
    shown replaced."""
    if isinstance(block, Text):
        return _shield_text(block)
    fields: dict[str, Any] = {
        name: _replaced(getattr(block, name)) for name in block.__struct_fields__
    }
    if isinstance(block, ToolResult):
        fields["content"] = tuple(_shield(part) for part in block.content)
    return msgspec.structs.replace(block, **fields)


def _shield_text(block: Text) -> Text | Opaque:
    if _has_surrogate(block.text):
        return Opaque(data=block.text.encode("utf-8", "surrogatepass"), text=_replaced(block.text))
    return block


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _replaced(value: Any) -> Any:
    """The same value with every lone surrogate shown as U+FFFD."""
    match value:
        case str():
            return re.sub("[\ud800-\udfff]", "\ufffd", value)
        case dict():
            return {_replaced(key): _replaced(item) for key, item in value.items()}
        case list() | tuple():
            return [_replaced(item) for item in value]
        case _:
            return value
