"""A fact on its way into a log: encoded once, and read back before any store sees it.

What cannot be read again is never written. So there is no draft that could not be: what a caller
gave is encoded when the draft is made, decoded from its own bytes, and refused with the name of the
field where that fails. Neighbours: `core.codec` encodes and decodes, `log` seals drafts as events.

Text that JSON cannot carry (lone surrogates) is kept as bytes in opaque blocks, and shown with
U+FFFD.

Only a message may hold such text: what users and tools say is data. Anything else with it is
refused. Neighbours: `core.codec` encodes, `draft` is written, `unfold` gives the exact text back.

What is kept is what was given: a value that JSON would change on the way is refused.

JSON has no word for not-a-number and would make it null; a key that is a number would become a
text, a set a list, bytes and times a text. Whoever reads the log could not tell. Only a tuple may
become a list, which means the same. Neighbours: `draft` compares what it was given with what its
bytes say; `artifacts.values` writes what a tool gave, whatever it is, as JSON that leads back.
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

RUN_EVENTS_MAX, RUN_BYTES_MAX = 1_000, 4 << 20  # of what is appended together
_TOKENS_MAX = 1 << 53
_Envelope = tuple[str, Annotated[int, msgspec.Meta(gt=-_TOKENS_MAX, lt=_TOKENS_MAX)], str]
FORM_LEVELS = 2  # what a dialect may put around a message that it keeps as it came
_NESTED = (dict, list)
_READ_ERRORS = (msgspec.MsgspecError, RecursionError, TypeError, ValueError)


class Draft(Struct, frozen=True, kw_only=True):
    """A fact that is to become an event. `encoded` are the bytes of what was given, and `body` is
    what they say. `at_ms` is when it happened, if that is not when it is appended. Invalid if it
    could not be read again."""

    body: Body
    by: str
    tokens: int = 0
    counter: str = ""
    at_ms: int | None = None
    encoded: bytes = b""

    def __post_init__(self) -> None:
        _check_envelope(self)
        kind = codec.kind_of(self.body)
        content, is_exact = _encode(self.body)
        try:
            body = codec.body_of(kind, content)
        except _READ_ERRORS as error:
            raise _wrong_field(kind, error) from error
        if is_exact:
            check_unchanged(self.body, body, kind)
        free = [value for value in _free_values(body) if type(value) in _NESTED and value]
        # What has so few brackets is not nested deeper; most bodies have.
        if free and content.count(b"{") + content.count(b"[") > codec.DEPTH_MAX:
            for value in free:
                check_depth(value, levels=codec.DEPTH_MAX + FORM_LEVELS)
        force_setattr(self, "encoded", content)
        force_setattr(self, "body", body)


def _encode(body: Body) -> tuple[bytes, bool]:
    """The bytes of a body, and whether they say all of it: texts that JSON cannot carry are
    shielded."""
    try:
        return codec.encode(body), True
    except UnicodeEncodeError:
        return encode_shielded(body), False


def _check_envelope(draft: Draft) -> None:
    """Invalid unless the author, the tokens and the counter can stand in an event's envelope."""
    if type(draft.by) is type(draft.counter) is str and type(draft.tokens) is int:
        is_short = draft.by.isascii() and draft.counter.isascii()
        if is_short and -_TOKENS_MAX < draft.tokens < _TOKENS_MAX:
            return
    try:
        decoding.convert((draft.by, draft.tokens, draft.counter), _Envelope)
        draft.by.encode()
        draft.counter.encode()
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        said = str(error).replace("$[0]", "by").replace("$[1]", "tokens").replace("$[2]", "counter")
        hint = "by and counter are texts, tokens a whole number"
        raise Invalid(f"the event cannot be kept: {said}", hint=hint) from error


class Run:
    """Drafts that go into a log together, as many as one write may have. With `is_single`, the
    first fill it: where checkpoints are set every so many messages, each is to stand in its
    place."""

    def __init__(self, *, is_single: bool = False) -> None:
        self.drafts: list[Draft] = []
        self.size_bytes = 0
        self._events_max = 1 if is_single else RUN_EVENTS_MAX

    @property
    def is_full(self) -> bool:
        return len(self.drafts) >= self._events_max or self.size_bytes >= RUN_BYTES_MAX

    def take(self, drafts: Sequence[Draft]) -> bool:
        """Takes drafts, all of them; False if they are too many to be written with the others."""
        events = len(self.drafts) + len(drafts)
        size_bytes = self.size_bytes + sum([len(draft.encoded) for draft in drafts])
        if self.drafts and (events > RUN_EVENTS_MAX or size_bytes > RUN_BYTES_MAX):
            return False
        self.drafts += drafts
        self.size_bytes = size_bytes
        return True


def runs_of(drafts: Iterable[Draft]) -> Iterator[list[Draft]]:
    """The drafts in runs that go into a log together."""
    run = Run()
    for draft in drafts:
        if not run.take([draft]):
            yield run.drafts
            run = Run()
            run.take([draft])
    if run.drafts:
        yield run.drafts


def message_checked(message: Message) -> Message:
    """The same message, if every field has its type; else Invalid, with the field."""
    try:
        return decoding.convert(msgspec.to_builtins(message), Message)
    except _READ_ERRORS as error:
        raise _wrong_field("message", error) from error


def _wrong_field(kind: str, error: Exception) -> Invalid:
    what, _, path = str(error).partition(" - at `$")
    field = f"{kind}{path.rstrip('`')}"
    return Invalid(f"{field}: {what}", hint=f"give {field} a value of that type")


def check_depth(value: Any, levels: int = codec.BODY_DEPTH_MAX) -> None:
    """Invalid if plain JSON is nested deeper than so many levels. Walks without recursion."""
    level = [value] if isinstance(value, _NESTED) else []
    for _ in range(levels):
        level = [child for item in level for child in _nested_in(item)]
        if not level:
            return
    hint = "pass deep structures as text"
    raise Invalid(f"nested more than {codec.DEPTH_MAX} levels deep", hint=hint)


def _nested_in(item: Any) -> list[Any]:
    """The objects and lists that stand directly in a value."""
    children = item.values() if isinstance(item, dict) else item
    return [child for child in children if isinstance(child, _NESTED)]


def _free_values(body: Body) -> list[Any]:
    """The values in a body whose shape is the caller's or the provider's."""
    match body:
        case Message():
            values = [body.form, body.metadata]
            for block in body.blocks:
                if type(block) in _FREE_BLOCKS:  # texts and thoughts are most
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


_FREE_BLOCKS = (ToolCall, ToolResult, Opaque)


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


KEY_CHARS = 60
HINT = "pass texts, finite numbers, truth values, None, and lists and dicts of those"


def check_unchanged(given: Any, kept: Any, place: str) -> None:
    """Invalid, with the place, if what was kept is not what was given."""
    if given == kept:
        return
    match given, kept:
        case Struct(), Struct():
            for name in given.__struct_fields__:
                check_unchanged(getattr(given, name), getattr(kept, name), f"{place}.{name}")
        case _, Struct():
            return  # a plain form of it was given, and decoding has held it to its type
        case dict(), dict():
            _check_keys(given, kept, place)
        case ((list() | tuple()), (list() | tuple())):
            for at, (one, other) in enumerate(zip(given, kept, strict=True)):
                check_unchanged(one, other, f"{place}[{at}]")
        case _:
            raise Invalid(f"{place}: {_describe_value(given)} is not JSON", hint=HINT)


def _check_keys(given: dict[Any, Any], kept: dict[str, Any], place: str) -> None:
    for key, value in given.items():
        if not isinstance(key, str):
            raise Invalid(f"{place}: the key {_describe_value(key)} is not text", hint=HINT)
        # A long one may be a secret, and half of it would not be known as one.
        named = key if len(key) <= KEY_CHARS else "…"
        check_unchanged(value, kept.get(key), f"{place}.{named}")


def _describe_value(value: object) -> str:
    """A number, or the type: what a stranger's value says of itself may fail."""
    if type(value) in (int, float):
        return str(value)
    return f"a {type(value).__name__}"
