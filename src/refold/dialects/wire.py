"""Rules that all dialects share: JSON values, blocks, foreign blocks, system prompts.

Everything that goes out is a copy, so changing a request never changes the log. The log keeps any
content; a request has only what its provider accepts. A part that would be refused is sent as its
text, as a note, or not at all, and `lost` reports it; a part of an unknown type is sent unchanged.
Neighbours: `input` converts values to plain ones on the way in, `original_form` restores a message
exactly, `faults` checks a rendered request.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeGuard, TypeVar, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold.checked import quoted
from refold.core.call_arguments import arguments_object, decoded
from refold.core.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.core.shortened import text_of
from refold.dialects.input import plain, refused, without_marks
from refold.errors import Invalid

EMPTY = "(empty)"
MISSING: Any = object()

T = TypeVar("T")
Path = tuple[str | int, ...]
Same = Callable[[Any, Any], bool]


# --- JSON values ---


def copied(value: Any) -> Any:
    """A copy that shares no dict or list with the value."""
    kind = type(value)
    if kind is dict:
        return {key: copied(item) if type(item) in _NESTED else item for key, item in value.items()}
    if kind is list:
        return [copied(item) for item in value]
    return value


_NESTED = (dict, list)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values have the same bytes: key order counts, and true is not 1."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is list:
        return len(one) == len(other) and all(map(same, one, other))
    if kind is not dict:
        return bool(one == other)
    if len(one) != len(other):
        return False
    # A plain loop, because this runs for every message that is not plain text.
    for key, name in zip(one, other):
        if key != name:
            return False
        item, value = one[key], other[key]
        if item is not value and not same(item, value):
            return False
    return True


def alike(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same except for key order: an SDK's object has the key order
    of its class, not of the provider's message."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if type(one) is list:
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def equality(message: Any) -> Same:
    """The comparison that a parsed message must pass to be stored without a form."""
    return same if is_json(message) else alike


def is_json(message: Any) -> bool:
    """Whether a message is plain JSON, in its sender's key order, without SDK objects."""
    if type(message) is not dict:
        return False
    content = message.get("content")
    return type(content) is not list or all_objects(content)


def all_objects(values: list[Any]) -> bool:
    """Whether every value is a plain object."""
    return all(type(value) is dict for value in values)


def at(value: Any, path: Path) -> Any:
    """The value at a path, or MISSING."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return MISSING
    return value


def objects_in(values: Any) -> list[dict[str, Any]]:
    """The objects in a list; none in anything else."""
    if not isinstance(values, list):
        return []
    return [value for value in values if isinstance(value, dict)]


def present(values: Iterable[T | None]) -> list[T]:
    """The values without those that are None."""
    return [value for value in values if value is not None]


# --- blocks ---


def is_text_part(part: Any) -> bool:
    """Whether this is a text part in the shape that most providers use."""
    return type(part) is dict and part.get("type") == "text" and type(part.get("text")) is str


def is_gone(block: Any) -> bool:
    """Whether this is thinking whose content was removed: nothing is left to send."""
    return type(block) is Thinking and not (block.text or block.signature or block.data)


def is_text(block: Any) -> TypeGuard[Text | Opaque]:
    """Whether this is text, including text that JSON could not represent."""
    return type(block) is Text or (type(block) is Opaque and block.raw is None)


def only_text(message: Message) -> Text | None:
    """The only block of a message that is plain text in its usual form, or None."""
    blocks = message.blocks
    if len(blocks) != 1 or message.form is not None or type(blocks[0]) is not Text:
        return None
    return blocks[0]


def text_within(content: Sequence[Text | Media | Opaque]) -> str:
    """The text of a result's content, joined by newlines."""
    if len(content) == 1 and type(content[0]) is Text:
        return content[0].text
    return "\n".join(text for text in map(shown_text, content) if text)


def shown_text(block: Text | Media | Opaque) -> str:
    """A block as text, for places that accept nothing else; media becomes a note."""
    match block:
        case Text():
            return block.text
        case Opaque():
            return text_of(block)
        case Media():
            name = f" {block.name}" if block.name else ""
            url = f": {block.url}" if block.url else ""
            return f"[{block.media}{name}{url}]"


_DATA_URL = re.compile(r"data:([^,]*);base64,(.*)", re.DOTALL)


def media_of_url(media: str, url: str, **fields: str) -> Media:
    """Media at a URL; a data URL is split into its type and its data."""
    match = _DATA_URL.fullmatch(url)
    if match:
        return Media(media, mime=match[1], data=match[2], **fields)
    return Media(media, url=url, **fields)


def data_url(media: Media) -> str:
    """The content of media as a data URL."""
    return f"data:{media.mime};base64,{media.data}"


def report(lost: list[str], line: str) -> None:
    """Adds a line about lost content, unless it is already in the list."""
    if line not in lost:
        lost.append(line)


_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")


@lru_cache(4096)
def plain_id(id: str, length_max: int) -> str:
    """The id in characters that every provider accepts; distinct ids stay distinct."""
    if id and len(id) <= length_max and not _UNFIT.search(id):
        return id
    digest = blake2b(id.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{_UNFIT.sub('_', id)[:31]}_{digest}"


class Accepts(Struct, frozen=True, kw_only=True):
    """How a dialect accepts foreign blocks: `media` and `call` convert them and report losses,
    `marks_errors` says whether a tool result can be marked as an error."""

    name: str
    media: Callable[[Media, str, list[str]], Text | Media]
    call: Callable[[ToolCall, list[str]], ToolCall]
    marks_errors: bool


def translated(message: Message, accepts: Accepts, lost: list[str]) -> Message:
    """Another provider's message, in blocks that this dialect can send."""
    blocks = Translation(message, accepts, lost).blocks(message.blocks)
    speaker = at(message.form, (1, "name"))
    if isinstance(speaker, str) and speaker and at(message.form, (1, "role")) != "function":
        report(lost, f"the speaker's name {quoted(speaker, 80)} is not sent to {accepts.name}")
    return Message(role=message.role, blocks=tuple(blocks))


class Translation:
    """Translates one message of another provider into a dialect."""

    def __init__(self, message: Message, accepts: Accepts, lost: list[str]) -> None:
        self.source = message.dialect or "elsewhere"
        self.accepts, self.lost = accepts, lost

    def blocks(self, blocks: Iterable[Block]) -> list[Block]:
        """The blocks that the dialect can send, in order."""
        return present(map(self.block, blocks))

    def block(self, block: Block) -> Block | None:
        """The block as the dialect can send it, or None."""
        match block:
            case Text():
                return block
            case ToolCall():
                return self.accepts.call(block, self.lost)
            case ToolResult():
                return self.result(block)
            case Media():
                return self.accepts.media(block, self.source, self.lost)
            case Opaque():
                return self.opaque(block)
            case Thinking():
                if not is_gone(block):
                    name = self.accepts.name
                    report(self.lost, f"thinking from {self.source} is not sent to {name}")
                return None
            case _:
                assert_never(block)

    def result(self, result: ToolResult) -> ToolResult:
        """The result with the part of its content that the dialect can send."""
        name = self.accepts.name
        if result.is_error and not self.accepts.marks_errors:
            report(self.lost, f"{name} has no mark for a tool result that is an error")
        blocks = self.blocks(result.content)
        content = tuple(block for block in blocks if isinstance(block, Text | Media))
        return replace(result, content=content)

    def opaque(self, block: Opaque) -> Text | None:
        """The text of a block that only its own provider understands, or None."""
        text = shown_text(block)
        if block.raw is not None:
            kind = block.raw.get("type") if isinstance(block.raw, dict) else None
            fate = "sent as text" if text else "not sent"
            report(self.lost, f"a block of type {kind!r} from {self.source} is {fate}")
        return Text(text) if text else None


def media_as_note(media: Media, source: str, name: str, lost: list[str]) -> Text:
    """A note that replaces media which the dialect `name` cannot send."""
    note = shown_text(media)
    report(lost, f"{note} from {source} is sent as a note: {name} has no form for it")
    return Text(note)


_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
# The types of inline media that each provider documents; a kind of media without an entry may have
# any type.
MEDIA_TYPES: dict[str, dict[str, frozenset[str]]] = {
    "anthropic": {
        "image": _IMAGES,
        "document": frozenset({"application/pdf"}),
        "audio": frozenset(),
        "video": frozenset(),
    },
    "openai_chat": {
        "image": _IMAGES,
        "audio": frozenset({"audio/wav", "audio/mp3"}),
        "video": frozenset(),
    },
    "openai_responses": {"image": _IMAGES, "audio": frozenset(), "video": frozenset()},
    "gemini": {
        "image": _IMAGES - {"image/gif"} | {"image/heic", "image/heif", "image/bmp"},
        "audio": frozenset(
            f"audio/{name}"
            for name in ("wav", "mp3", "mpeg", "aiff", "aac", "ogg", "flac", "mp4", "m4a", "webm")
        ),
    },
}
# Other names of types.
_SAME_TYPES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "audio/mpeg": "audio/mp3",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
}


def is_taken(dialect: str, media: str, mime: Any) -> bool:
    """Whether a provider accepts inline media of this type; an unknown type counts as accepted."""
    types = MEDIA_TYPES.get(dialect, {}).get(media)
    return types is None or not isinstance(mime, str) or not mime or mime in types


def with_taken_media(message: Message, seq: int, dialect: str, lost: list[str]) -> Message:
    """The message as a provider accepts it: a note with a handle replaces media of other types."""

    def taken(block: Any) -> Any:
        if isinstance(block, ToolResult):
            content = tuple(map(taken, block.content))
            is_same = all(map(operator.is_, content, block.content))
            return block if is_same else replace(block, content=content)
        if not isinstance(block, Media) or not block.data:
            return block
        # Every provider asks for the type of what it takes inline.
        if block.mime and is_taken(dialect, block.media, block.mime):
            return block
        plain = block.mime.lower().partition(";")[0].strip()
        plain = _SAME_TYPES.get(plain, plain)
        if plain and is_taken(dialect, block.media, plain):
            return replace(block, mime=plain)
        kind = f"of type {quoted(block.mime, 40)}" if block.mime else "without a type"
        note = f"{shown_text(block)[:-1]} {kind}, kept as #{seq}]"
        report(lost, f"{note} is sent as a note: {dialect} takes no such type")
        return Text(note)

    blocks = tuple(map(taken, message.blocks))
    is_same = all(map(operator.is_, blocks, message.blocks))
    return message if is_same else replace(message, blocks=blocks)


def with_file_name(media: Media) -> Media:
    """The media; a document gets a name, for providers that require one."""
    if media.media != "document" or media.name:
        return media
    return replace(media, name=f"document.{media.mime.rpartition('/')[2]}")


def with_object(call: ToolCall, lost: list[str]) -> ToolCall:
    """The call with its arguments as an object, for providers that do not accept text."""
    arguments = arguments_object(call)
    if arguments is None:
        arguments = _wrapped(call.arguments, call.id, lost)
    return replace(call, arguments=arguments)


def object_text(arguments: Any, id: Any, lost: list[str]) -> str:
    """The arguments of a call as the text of a JSON object: many servers parse those of earlier
    calls, too, and refuse the whole request if they cannot."""
    if isinstance(arguments, str):
        if is_object_text(arguments):
            return arguments
        return _ENCODE(_wrapped(arguments, id, lost)) if arguments.strip() else "{}"
    return "{}" if arguments is None else _ENCODE(arguments)


def is_object_text(text: str) -> bool:
    """Whether this is the JSON of an object."""
    return type(decoded(text)) is dict


def _wrapped(arguments: Any, id: Any, lost: list[str]) -> dict[str, Any]:
    report(lost, f"the arguments of call {id} are not a JSON object: sent as text under _raw")
    return {"_raw": arguments}


def as_it_is(call: ToolCall, lost: list[str]) -> ToolCall:
    """The call unchanged, for providers that accept any arguments."""
    return call


# Part types of the known providers. Such a part is refused in another provider's message, or in the
# wrong place of its own. Any other type may be new, and is sent unchanged.
KNOWN_PARTS = frozenset({
    "text", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result",
    "image_url", "input_audio", "file", "refusal", "input_text", "output_text", "input_image",
    "input_file",
})  # fmt: skip
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` makes one for every call
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_SPEAKER = re.compile(r"[^\s<|\\/>]{1,64}")
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"


def is_fitting(name: Any, length_max: int) -> bool:
    """Whether providers accept this as a tool name."""
    return isinstance(name, str) and len(name) <= length_max and bool(_NAME.fullmatch(name))


def fitting_name(name: Any, dialect: str, length_max: int, lost: list[str]) -> str:
    """A tool name in characters that the provider accepts; the same name always gets the same."""
    if is_fitting(name, length_max):
        return name  # type: ignore[no-any-return]
    fit = plain_id(name if isinstance(name, str) else "tool", length_max)
    report(lost, f"the tool {quoted(name, 80)} is called {fit} here: {dialect} takes no such name")
    return fit


def is_speaker(name: Any) -> bool:
    """Whether OpenAI accepts this as the name of a message's speaker."""
    return isinstance(name, str) and bool(_SPEAKER.fullmatch(name))


def argument_text(arguments: Any) -> str:
    """The arguments of a call as text; an empty object if there are none."""
    if isinstance(arguments, str):
        return arguments
    return "{}" if arguments is None else _ENCODE(arguments)


def is_base64(data: Any) -> bool:
    """Whether this is base64, of either alphabet."""
    if not isinstance(data, str) or not data:
        return False
    digits = data.rstrip("=")
    if not digits or len(data) - len(digits) > 2 or not digits.isascii():
        return False
    return not digits.encode().translate(None, _BASE64)


def is_data_url(url: str) -> bool:
    """Whether this is a data URL whose content can be decoded."""
    return is_base64(url.partition(";base64,")[2])


_MEDIA = ("image", "document", "audio", "file", "video", "inlineData", "fileData")


def refused_text(part: Any, dialect: str, lost: list[str]) -> str:
    """The text that replaces a part which the provider would refuse: the part's own text, a note
    for media, or nothing."""
    if isinstance(part, dict):
        kind = part.get("type")
        text = shown_text(Opaque(raw=part))
        if not text and isinstance(kind, str):
            text = next((f"[{name}]" for name in _MEDIA if name in kind), "")
    else:
        kind = type(part).__name__
        text = part if isinstance(part, str) else ""
    fate = "sent as text" if text else "not sent"
    report(lost, f"a part of type {quoted(kind, 40)} is {fate}: {dialect} takes no such part there")
    return text


# --- system prompts, for providers that keep them outside the messages ---


def text_blocks(system: Any, *, unmarked: bool = True) -> list[dict[str, Any]]:
    """A system prompt (text, blocks, or system messages) as text blocks, none of them empty."""
    match system:
        case None | "":
            return []
        case str():
            return [{"type": "text", "text": system}] if system.strip() else []
        case list() | tuple():
            return [block for entry in system for block in text_blocks(entry, unmarked=unmarked)]
        case {"role": "system" | "developer", "content": content}:
            return text_blocks(content, unmarked=unmarked)
        case {"parts": list(parts)}:
            return text_blocks(parts, unmarked=unmarked)
        case {"text": str(text), **rest} if rest.get("type", "text") == "text":
            block = without_marks(system) if unmarked else dict(system)
            block.setdefault("type", "text")
            return [block] if text.strip() else []
        case _ if not isinstance(system, Mapping | int | float):
            return text_blocks(plain(system), unmarked=unmarked)
        case _:
            accepted = "text, a text block or a system message"
            raise refused("a part of the system prompt", system, accepted)


def prompt_text(system: Any) -> str:
    """A system prompt as one string, empty if it is blank."""
    if isinstance(system, str):
        return system if system.strip() else ""
    return "\n\n".join(block["text"] for block in text_blocks(system))


def readable_prompt(system: Any) -> str:
    """A system prompt for people: its text, or JSON if its shape is unknown."""
    try:
        return prompt_text(system)
    except Invalid:
        encoded = msgspec.json.encode(system)
        return msgspec.json.format(encoded, indent=2).decode("utf-8", "replace")


def system_text(message: Message) -> str:
    """The text of a system message."""
    blocks = (block for block in message.blocks if isinstance(block, Text | Media | Opaque))
    return "\n\n".join(map(shown_text, blocks))


def is_silent(message: Message) -> bool:
    """Whether this is a system message without text: its metadata holds the caller's notes."""
    if message.role != "system":
        return False
    return all(isinstance(block, Text) and not block.text.strip() for block in message.blocks)


def as_system(text: str) -> str:
    """A system message in the middle of a conversation, as text for a user message."""
    return f"<system>\n{text}\n</system>"


def leading(messages: Sequence[Mapping[str, Any]], roles: tuple[str, ...]) -> int:
    """Number of leading messages with these roles, which belong to the system prompt; 0 if there
    are no others, because a request needs a message."""
    for index, message in enumerate(messages):
        if message["role"] not in roles:
            return index
    return 0
