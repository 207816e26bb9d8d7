"""Chooses the counter of a conversation, and counts messages, system prompts and tools with it.

A provider's framing adds delimiters and tool prompts, as far as they are published; calibration
covers the rest. Unknown keys and a provider's own blocks are sent, so they are counted: as JSON
without framing keys (roles, types, ids), with separate rules for images and sealed data. OpenAI's
models read tools as TypeScript declarations; counted as JSON, they would come out a third too high.
The default is the exact counter if the model's own vocabulary is installed, and otherwise the
estimate, which is faster and, after a few replies, nearly as accurate. Neighbours: `estimate`,
`exact`, `media`, `models`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from math import ceil
from typing import Any, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold.checked import NUMBER_MAX, shown
from refold.core.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.display import failure, suggestion
from refold.errors import Invalid
from refold.patterns import regex
from refold.tokens import exact
from refold.tokens.estimate import NAME, estimate
from refold.tokens.media import ANY, MediaRule, media_tokens, rule_for
from refold.tokens.models import Model, listed_name, model_info

MESSAGE_TOKENS = 4


class Framing(Struct, frozen=True, kw_only=True):
    """Tokens added to the text: per message, per tool call, per result, and once for all tools.
    `declared` means that the model reads tools as TypeScript declarations, not as JSON."""

    message: int = MESSAGE_TOKENS
    call: int = 0
    result: int = 0
    tools: int = 0
    declared: bool = False
    media: MediaRule = ANY


PLAIN = Framing()
_PROVIDERS = {
    # A call and its result are billed as 25 tokens if their text and message frames have 19.
    "openai": Framing(call=3, result=3, declared=True),
    "anthropic": Framing(tools=346),
    "gemini": Framing(message=1),
}


@lru_cache(maxsize=256)
def framing_for(model: Model) -> Framing:
    """The framing of a model's provider, with the model's own rule for media."""
    framing = _PROVIDERS.get(model.provider, PLAIN)
    return replace(framing, media=rule_for(model.provider, model.name))


Count = Callable[[str], int]


class Counter(Struct, frozen=True):
    """A function from text to a number of tokens, with its name in the log and the provider's
    framing. `additive` means that the counts of the parts of some text add up to the count of the
    whole. `note` is the reason why the requested counter was not available."""

    name: str
    function: Count
    framing: Framing = PLAIN
    additive: bool = False
    note: str = ""

    def __call__(self, text: str) -> int:
        return self.function(text)


CUSTOM = "custom:"
ESTIMATE = Counter(NAME, estimate, additive=True)


def custom(function: Count) -> Counter:
    """Wraps a caller's function as a counter. The counter raises Invalid if the function fails or
    returns anything but a count."""
    if not callable(function):
        message = f"a counter must be callable, not {type(function).__name__}"
        raise Invalid(message, hint="pass a function from text to a number of tokens")
    name = f"{CUSTOM}{getattr(function, '__qualname__', type(function).__qualname__)}"

    def checked(text: str) -> int:
        try:
            result: object = function(text)
        except Exception as error:
            hint = "see the cause of this error"
            raise Invalid(f"the counter {name} failed: {failure(error)}", hint=hint) from error
        hint = "a counter returns the number of tokens as an int, 0 or more"
        try:
            # This accepts other integer types, such as numpy's, but not floats.
            tokens = operator.index(result)  # type: ignore[arg-type]
        except TypeError as error:
            raise Invalid(f"the counter {name} returned {shown(result)}", hint=hint) from error
        if not 0 <= tokens <= NUMBER_MAX or isinstance(result, bool):
            raise Invalid(f"the counter {name} returned {shown(result)}", hint=hint)
        return tokens

    return Counter(name, checked)


def forgiving(counter: Counter, report: Callable[[str], None]) -> Counter:
    """A caller's counter that falls back on the estimate whenever it fails, and reports the first
    failure. Our own counters do not fail and are returned unchanged."""
    if not counter.name.startswith(CUSTOM):
        return counter
    has_reported = False

    def count(text: str) -> int:
        nonlocal has_reported
        try:
            return counter.function(text)
        except Invalid as error:
            if not has_reported:
                has_reported = True
                report(error.message)
            return estimate(text)

    return replace(counter, function=count)


def framing_of(count: Count) -> Framing:
    """The framing of a counter; a bare function has only the default one."""
    return count.framing if isinstance(count, Counter) else PLAIN


def count_message(message: Message, count: Count) -> int:
    """The tokens of a message, including its framing and unknown keys."""
    framing = framing_of(count)
    tokens = framing.message
    for block in message.blocks:
        tokens += count_block(block, count)
    if isinstance(message.form, list):
        # The first item of the form is the number of blocks.
        tokens += unknown_tokens(message.form[1:], count, framing.media)
    return tokens


def count_block(block: Block, count: Count) -> int:
    """The tokens of one block."""
    match block:
        case Text():
            return count(block.text) if block.text else 0
        case Thinking():
            # Even if there is a readable summary, the sealed original is sent and billed.
            readable = count(block.text) if block.text else 0
            return max(readable, sealed_tokens(block.data))
        case ToolCall():
            text = count(block.name) + _argument_tokens(block.arguments, count)
            return framing_of(count).call + text
        case ToolResult():
            tokens = framing_of(count).result
            for part in block.content:
                tokens += count_block(part, count)
            return tokens
        case Media():
            return media_tokens(block, framing_of(count).media)
        case Opaque():
            return _opaque_tokens(block, count)
        case _:
            assert_never(block)


def _argument_tokens(arguments: str | dict[str, Any], count: Count) -> int:
    """The tokens of a call's arguments: never fewer than those of their shortened form, even with a
    caller's counter."""
    if not arguments:
        return 0
    if isinstance(arguments, str):
        return count(arguments)
    total = count(json_text(arguments))
    if isinstance(count, Counter) and count.additive:
        # The JSON text counts no less than its parts: counting the lines would double the work.
        return total
    return max(total, sum(count(f"{key}: {value}") for key, value in arguments.items()))


def _opaque_tokens(block: Opaque, count: Count) -> int:
    """The tokens of a provider's own block, which is sent unchanged even if it has a readable
    form."""
    # "replace", because some external counters refuse lone surrogates.
    text = block.text or block.data.decode("utf-8", "replace")
    readable = count(text) if text else 0
    if block.raw is None:
        return readable
    return max(readable, unknown_tokens(block.raw, count, framing_of(count).media))


def count_system(system: object, count: Count) -> int:
    """The tokens of a system prompt in any provider's form: a string, a list of text blocks, or an
    object."""
    if not system:
        return 0
    tokens = framing_of(count).message
    for part in system if isinstance(system, list | tuple) else [system]:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            part = part["text"]
        tokens += count(part if isinstance(part, str) else json_text(part))
    return tokens


def count_tools(tools: list[Any] | None, count: Count) -> int:
    """The tokens of the tool definitions, in the form that the provider's models read."""
    if not tools:
        return 0
    framing = framing_of(count)
    if framing.declared:
        return framing.tools + count(declarations(tools))
    return framing.tools + sum(count(json_text(tool)) for tool in tools)


HOLE = "$"
# Keys whose values only frame a message, unless a value is longer than `FRAME_CHARS_MAX`.
FRAMES = frozenset(
    {
        "cache_control", "call_id", "created_at", "detail", "format", "id", "index", "media_type",
        "mime_type", "mimeType", "name", "object", "phase", "role", "status", "tool_call_id",
        "tool_use_id", "type",
    }
)  # fmt: skip
FRAME_CHARS_MAX = 64
SMALL_BYTES_MAX, SMALL_KEPT = 512, 1_024
DEPTH_MAX = 64
# Sealed thinking is encrypted text in base64: 4 characters encode 3 bytes, and a token has about 4
# bytes.
SEALED_CHARS_PER_TOKEN = 16 / 3
SEALED_CHARS_MIN = 256
_SEALED = regex(r"[A-Za-z0-9+/_=-]+\Z")
_IMAGES = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")  # PNG, JPEG, GIF and WebP as base64
_IMAGE_URL = "data:image/"


def unknown_tokens(value: object, count: Callable[[str], int], rule: MediaRule) -> int:
    """The tokens of an unknown value that is sent unchanged; 0 if the value only frames blocks."""
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        encoded = b""
    is_small = 0 < len(encoded) <= SMALL_BYTES_MAX
    text, tokens = _small_parts(encoded, rule) if is_small else _parts(value, rule)
    return (count(text) if text else 0) + tokens


@lru_cache(maxsize=SMALL_KEPT)
def _small_parts(encoded: bytes, rule: MediaRule) -> tuple[str, int]:
    """Cached `_parts`: many messages have the same form."""
    return _parts(msgspec.json.decode(encoded), rule)


def _parts(value: object, rule: MediaRule) -> tuple[str, int]:
    """The text to count, and the tokens of images and sealed data."""
    tokens: list[int] = []
    rest = _rest(value, tokens, rule, 0)
    return ("" if rest is None else json_text(rest)), sum(tokens)


def _rest(value: Any, tokens: list[int], rule: MediaRule, depth: int) -> Any:
    """The part of a value that counts as text; None if there is no such part. Appends the counts of
    images and sealed data to `tokens`."""
    if depth > DEPTH_MAX:
        return value
    if isinstance(value, str):
        return _text_rest(value, tokens, rule)
    if isinstance(value, dict):
        pairs = {
            key: _rest(item, tokens, rule, depth + 1)
            for key, item in _entries(value)
            if not _is_frame(key, item)
        }
        return {key: item for key, item in pairs.items() if item is not None} or None
    if isinstance(value, list | tuple):
        items = [_rest(item, tokens, rule, depth + 1) for item in value]
        return [item for item in items if item is not None] or None
    return None if value is False else value


def _entries(value: dict[str, Any]) -> list[tuple[str, Any]]:
    """The entries of an object to count. For a hole, these are the entries that were sent around
    its block; for a sender's own object that looks like a hole, all entries."""
    if len(value) != 1 or HOLE not in value:
        return list(value.items())
    inside = value[HOLE]
    if isinstance(inside, list) and len(inside) == 2:
        return [(HOLE, inside[1])]
    return list(inside.items()) if isinstance(inside, dict) else []


def _is_frame(key: str, value: object) -> bool:
    if key not in FRAMES:
        return False
    return not isinstance(value, str | list | dict) or len(json_text(value)) <= FRAME_CHARS_MAX


def _text_rest(text: str, tokens: list[int], rule: MediaRule) -> str | None:
    """Returns the text; None if it is empty, an image or sealed data."""
    if text.startswith((_IMAGE_URL, *_IMAGES)):
        data, url = ("", text) if text.startswith(_IMAGE_URL) else (text, "")
        tokens.append(media_tokens(Media(media="image", data=data, url=url), rule))
        return None
    if len(text) >= SEALED_CHARS_MIN and _SEALED.match(text):
        tokens.append(sealed_tokens(text))
        return None
    return text or None


def sealed_tokens(data: str) -> int:
    """The tokens of data that only the provider can read."""
    return ceil(len(data) / SEALED_CHARS_PER_TOKEN)


SCHEMAS_DEPTH_MAX = 8  # deeper parts of a schema are counted as JSON


def declarations(tools: list[Any]) -> str:
    """The text that declares all tools in the published harmony format. A provider's own tools,
    which have no schema, are written as JSON."""
    functions = [_function(tool) for tool in tools]
    return "\n\n".join(
        ["# Tools", "## functions", "namespace functions {", *functions, "} // namespace functions"]
    )


def _function(tool: Any) -> str:
    spec = tool.get("function", tool) if isinstance(tool, dict) else tool
    if not isinstance(spec, dict) or not isinstance(spec.get("name"), str):
        return json_text(tool)
    schema = spec.get("parameters") or spec.get("input_schema") or {}
    head = [*_comment(spec.get("description")), f"type {spec['name']} ="]
    if not isinstance(schema, dict) or not schema.get("properties"):
        return "\n".join(head) + " () => any;"
    return "\n".join(head) + f" (_: {_object(schema, 0)}) => any;"


def _comment(text: object) -> list[str]:
    return [f"// {line}" for line in text.split("\n")] if isinstance(text, str) and text else []


def _object(schema: dict[str, Any], depth: int) -> str:
    properties, required = schema.get("properties"), schema.get("required") or ()
    if not isinstance(properties, dict):
        return "object"
    lines = ["{"]
    for name, inner in properties.items():
        inner = inner if isinstance(inner, dict) else {}
        mark = "" if isinstance(required, list) and name in required else "?"
        default = f" // default: {json_text(inner['default'])}" if "default" in inner else ""
        lines += [
            *_comment(inner.get("description")),
            f"{name}{mark}: {_type(inner, depth + 1)},{default}",
        ]
    return "\n".join([*lines, "}"])


def _type(schema: Any, depth: int) -> str:
    if not isinstance(schema, dict) or depth > SCHEMAS_DEPTH_MAX:
        return json_text(schema)
    if isinstance(options := schema.get("enum"), list):
        return " | ".join(map(json_text, options))
    if isinstance(options := schema.get("anyOf") or schema.get("oneOf"), list):
        return " | ".join(_type(option, depth + 1) for option in options)
    match schema.get("type"):
        case "object":
            return _object(schema, depth)
        case "array":
            return _type(schema.get("items") or {}, depth + 1) + "[]"
        case "integer":
            return "number"
        case str(name):
            return name
        case list(names):
            return " | ".join(map(str, names))
        case _:
            return "any"


def json_text(value: object) -> str:
    """The JSON of a value, or its `str` if JSON cannot express it: every value is counted."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return str(value)


EXACT = "exact"

_registered: dict[str, Counter] = {}


def register_counter(model: str, function: Count) -> None:
    """Makes the function the counter of new conversations with this model, and with models whose
    names begin with this name and a separator."""
    counter = function if isinstance(function, Counter) else custom(function)
    _registered[model.strip().lower()] = counter


def forget_counter(model: str) -> None:
    """Removes a registered counter, if any."""
    _registered.pop(model.strip().lower(), None)


def counter_for(given: Count | str | None, model: str | None = None) -> Counter:
    """The counter for a caller's choice: a name (`estimate`, `exact` or a vocabulary), a function,
    or a counter, which is returned unchanged. Without a choice, it is the model's registered
    counter, else its own vocabulary if that is published and installed, else the estimate."""
    if isinstance(given, Counter):
        return given
    info = model_info(model)
    if isinstance(given, str):
        chosen = _by_name(given, info)
    elif given is not None:
        chosen = custom(given)
    elif name := listed_name((model or "").strip().lower(), _registered):
        chosen = _registered[name]
    elif info.provider == "openai" and exact.installed():
        chosen = _vocabulary_counter(exact.nearest(info.name))
    else:
        chosen = ESTIMATE
    return replace(chosen, framing=framing_for(info))


def _by_name(given: str, model: Model) -> Counter:
    name = given.strip().lower()
    if name == NAME:
        return ESTIMATE
    known = (NAME, EXACT, *exact.VOCABULARIES)
    if name not in known:
        raise Invalid(f"there is no counter {shown(given)}", hint=suggestion(name, known))
    if not exact.installed():
        note = f"counter={given!r} needs the extra exact, so the estimate is used; {exact.HINT}"
        return replace(ESTIMATE, note=note)
    return _vocabulary_counter(exact.nearest(model.name) if name == EXACT else name)


def _vocabulary_counter(name: str) -> Counter:
    return Counter(name, exact.vocabulary(name).count)
