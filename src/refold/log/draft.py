"""A draft is a future event: it is encoded once, and decoded again before any store sees it.

A body that cannot be read back is refused when the draft is made, with the name of the field, and
so is a value that JSON would change silently: NaN, a key that is not text, a set, bytes, a time.
Only a tuple may become a list. Text with lone surrogates, which JSON cannot carry, is allowed in
messages: it is stored as bytes in opaque blocks, and shown with U+FFFD. Neighbours: `core.codec`
encodes and decodes, `log` seals drafts as events, `handles` returns the exact text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from refold import decoding
from refold.core import codec
from refold.core.codec import encode, kind_of
from refold.core.model import (
    Block,
    Body,
    Memory,
    Message,
    Meta,
    Note,
    Opaque,
    Text,
    ToolCall,
    ToolResult,
)
from refold.errors import Invalid

RUN_EVENTS_MAX, RUN_BYTES_MAX = 1_000, 4 << 20  # limits of one append
_TOKENS_MAX = 1 << 53
_Envelope = tuple[str, Annotated[int, msgspec.Meta(gt=-_TOKENS_MAX, lt=_TOKENS_MAX)], str]
FORM_LEVELS = 2  # nesting that a dialect may add around an original message
KEY_CHARS = 60
HINT = "pass strings, finite numbers, booleans, None, and lists and dicts of those"
_NESTED = (dict, list)
_FREE_BLOCKS = (ToolCall, ToolResult, Opaque)
_READ_ERRORS = (msgspec.MsgspecError, RecursionError, TypeError, ValueError)


class Draft(Struct, frozen=True, kw_only=True):
    """A future event. `encoded` are the bytes of the body, and `body` is decoded from them. `at_ms`
    is the time of the fact, if not the time of the append. Raises Invalid if the body cannot be
    read back."""

    body: Body
    by: str
    tokens: int = 0
    counter: str = ""
    at_ms: int | None = None
    encoded: bytes = b""

    def __post_init__(self) -> None:
        _check_envelope(self)
        kind = codec.kind_of(self.body)
        try:
            content, is_exact = codec.encode(self.body), True
        except UnicodeEncodeError:
            content, is_exact = encode_shielded(self.body), False
        try:
            body = codec.body_of(kind, content)
        except _READ_ERRORS as error:
            raise _wrong_field(kind, error) from error
        if is_exact:
            check_unchanged(self.body, body, kind)
        free = [value for value in _free_values(body) if type(value) in _NESTED and value]
        # Most bodies have fewer brackets than allowed levels: those need no walk.
        if free and content.count(b"{") + content.count(b"[") > codec.DEPTH_MAX:
            for value in free:
                check_depth(value, levels=codec.DEPTH_MAX + FORM_LEVELS)
        force_setattr(self, "encoded", content)
        force_setattr(self, "body", body)


def _check_envelope(draft: Draft) -> None:
    """Raises Invalid unless author, tokens and counter fit an event's envelope. Plain values take a
    short path."""
    if type(draft.by) is type(draft.counter) is str and type(draft.tokens) is int:
        is_ascii = draft.by.isascii() and draft.counter.isascii()
        if is_ascii and -_TOKENS_MAX < draft.tokens < _TOKENS_MAX:
            return
    try:
        decoding.convert((draft.by, draft.tokens, draft.counter), _Envelope)
        draft.by.encode()
        draft.counter.encode()
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        why = str(error).replace("$[0]", "by").replace("$[1]", "tokens").replace("$[2]", "counter")
        hint = "by and counter are strings, tokens is a whole number"
        raise Invalid(f"the event cannot be stored: {why}", hint=hint) from error


class Run:
    """Drafts for one append, up to its limits. With `is_single`, the first drafts fill it, so that
    regular checkpoints come at the right message."""

    def __init__(self, *, is_single: bool = False) -> None:
        self.drafts: list[Draft] = []
        self.size_bytes = 0
        self._events_max = 1 if is_single else RUN_EVENTS_MAX

    @property
    def is_full(self) -> bool:
        return len(self.drafts) >= self._events_max or self.size_bytes >= RUN_BYTES_MAX

    def take(self, drafts: Sequence[Draft], events_max: int = RUN_EVENTS_MAX) -> bool:
        """Adds the drafts; returns False and adds none if they are too many for this append."""
        events = len(self.drafts) + len(drafts)
        size_bytes = self.size_bytes + sum([len(draft.encoded) for draft in drafts])
        if self.drafts and (events > events_max or size_bytes > RUN_BYTES_MAX):
            return False
        self.drafts += drafts
        self.size_bytes = size_bytes
        return True


def runs_of(drafts: Iterable[Draft]) -> Iterator[list[Draft]]:
    """The drafts, grouped into appends."""
    run = Run()
    for draft in drafts:
        if not run.take([draft]):
            yield run.drafts
            run = Run()
            run.take([draft])
    if run.drafts:
        yield run.drafts


def message_checked(message: Message) -> Message:
    """The message itself; Invalid, with the field, if one has a wrong type."""
    try:
        return decoding.convert(msgspec.to_builtins(message), Message)
    except _READ_ERRORS as error:
        raise _wrong_field("message", error) from error


def _wrong_field(kind: str, error: Exception) -> Invalid:
    what, _, path = str(error).partition(" - at `$")
    field = f"{kind}{path.rstrip('`')}"
    return Invalid(f"{field}: {what}", hint=f"set {field} to a value of that type")


def check_depth(value: Any, levels: int = codec.BODY_DEPTH_MAX) -> None:
    """Raises Invalid if plain JSON is nested deeper than `levels`. Walks without recursion."""
    level = [value] if isinstance(value, _NESTED) else []
    for _ in range(levels):
        children = (item.values() if isinstance(item, dict) else item for item in level)
        level = [child for each in children for child in each if isinstance(child, _NESTED)]
        if not level:
            return
    hint = "pass deep structures as text"
    raise Invalid(f"nested more than {codec.DEPTH_MAX} levels deep", hint=hint)


def _free_values(body: Body) -> list[Any]:
    """The values in a body whose shape only the caller or the provider knows."""
    match body:
        case Message():
            values = [body.form, body.metadata]
            for block in body.blocks:
                if type(block) in _FREE_BLOCKS:  # most blocks are text and thinking
                    values += _free_in(block)
            return values
        case Meta():
            return [body.system, body.tools, body.metadata]
        case Note():
            return [body.data]
        case Memory():
            return [body.metadata]
        case _:
            return []


def _free_in(block: Block) -> list[Any]:
    match block:
        case ToolResult():
            return [part.raw for part in block.content if type(part) is Opaque]
        case ToolCall():
            return [block.arguments]
        case Opaque():
            return [block.raw]
        case _:
            return []


def encode_shielded(body: Body) -> bytes:
    """The bytes of a message with text that JSON cannot carry. Raises Invalid for other bodies."""
    if not isinstance(body, Message):
        hint = "decode the text with errors='replace'"
        raise Invalid(f"the {kind_of(body)} holds a lone surrogate", hint=hint)
    try:
        return encode(shielded(body))
    except (UnicodeEncodeError, AttributeError, TypeError, RecursionError) as error:
        # A field has a wrong type, in addition to text that JSON cannot carry.
        raise Invalid(
            f"the message is not JSON: {error}", hint="pass blocks and strings"
        ) from error


def shielded(message: Message) -> Message:
    """The message, with all text that has lone surrogates moved into opaque bytes."""
    blocks = tuple(_shield(block) for block in message.blocks)
    return msgspec.structs.replace(
        message, blocks=blocks, form=None, metadata=_replaced(message.metadata)
    )


def _shield(block: Block) -> Block:
    """The block with its own text as bytes, and surrogates in other fields (ids, names, urls)
    replaced."""
    if isinstance(block, Text):
        if not _has_surrogate(block.text):
            return block
        return Opaque(data=block.text.encode("utf-8", "surrogatepass"), text=_replaced(block.text))
    fields: dict[str, Any] = {
        name: _replaced(getattr(block, name)) for name in block.__struct_fields__
    }
    if isinstance(block, ToolResult):
        fields["content"] = tuple(_shield(part) for part in block.content)
    return msgspec.structs.replace(block, **fields)


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


def check_unchanged(given: Any, kept: Any, path: str) -> None:
    """Raises Invalid, with the path of the value, if encoding changed it."""
    if given == kept:
        return
    match given, kept:
        case Struct(), Struct():
            for name in given.__struct_fields__:
                check_unchanged(getattr(given, name), getattr(kept, name), f"{path}.{name}")
        case _, Struct():
            return  # it arrived in plain form, and decoding has checked its type
        case dict(), dict():
            for key, value in given.items():
                if not isinstance(key, str):
                    raise Invalid(f"{path}: the key {_describe_value(key)} is not text", hint=HINT)
                # A long key may be a secret, and a part of one would not be recognized.
                name = key if len(key) <= KEY_CHARS else "…"
                check_unchanged(value, kept.get(key), f"{path}.{name}")
        case ((list() | tuple()), (list() | tuple())):
            for at, (one, other) in enumerate(zip(given, kept, strict=True)):
                check_unchanged(one, other, f"{path}[{at}]")
        case _:
            raise Invalid(f"{path}: {_describe_value(given)} is not JSON", hint=HINT)


def _describe_value(value: object) -> str:
    """A number, or the type: the repr of a foreign value may fail."""
    if type(value) in (int, float):
        return str(value)
    return f"a {type(value).__name__}"
