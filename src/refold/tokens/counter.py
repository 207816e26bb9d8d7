"""A counter turns text into tokens; this counts whatever a request carries with one.

Rule: what is not empty counts at least one, what is empty counts nothing, and each message adds
what its frame costs with the provider at hand. A caller's own function becomes a counter by
`custom`, which checks its results. Nothing is cached, so no count outlives its text.
Neighbours: `choice` finds the counter for a model, `framing` knows what providers add, `media`
images and sound.

What a provider adds around the texts of a request: delimiters, tool prompts, and its way of
counting media.

Figures are the providers' own where they publish them: OpenAI's are those of its cookbook, which
the API's reported usage confirms to the token; Anthropic states the prompt that it adds for tools.
What nobody publishes is left to calibration. Neighbours: `counter` adds them up, `media` has the
rules for images, `schemas` the text of tools.

What a request carries that no block of ours stands for: unknown keys, and a provider's own
blocks.

It is sent, so it is counted: as JSON, without what only frames a message (roles, types, ids, empty
values). An image inside counts as an image, and sealed data by its size, because neither is read
letter by letter. Neighbours: `counter` adds it to the blocks, `dialects.form` keeps unknown keys,
with a hole `{"$": …}` where a block stands.

Tools as OpenAI's models read them: not the JSON of the request, but declarations in TypeScript.

The form is the published one of the harmony format, and gives the sizes that the API reports for
older chat models to within a few tokens. JSON would count a third too much. Neighbour: `counter`
asks for it where a provider's framing says so.

Which counter a conversation gets: the caller's own, one registered for the model, the exact one,
or the estimate.

Nothing asked for: the exact counter where the extra `exact` is installed and the vocabulary is the
model's own, as with OpenAI, else the estimate, which is faster and after a few replies nearly as
good. `"exact"` asks for the nearest vocabulary whatever the model; a missing package gives the
estimate and a note. Whichever it is, it carries the framing of the model's provider. Neighbours:
`counter`, `exact`, `framing`.
"""

from __future__ import annotations

import operator
import re
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
from refold.tokens import exact
from refold.tokens.estimate import NAME, estimate
from refold.tokens.media import ANY, MediaRule, media_tokens, rule_for
from refold.tokens.models import Model, listed_name, model_info

MESSAGE_TOKENS = 4


class Framing(Struct, frozen=True, kw_only=True):
    """Tokens beside the text: per message, per tool call, per result, and once for having tools.
    `declared`: tools are read as TypeScript, not as JSON."""

    message: int = MESSAGE_TOKENS
    call: int = 0
    result: int = 0
    tools: int = 0
    declared: bool = False
    media: MediaRule = ANY


PLAIN = Framing()
_PROVIDERS = {
    # A call and its result cost 25 tokens where their texts and messages have 19.
    "openai": Framing(call=3, result=3, declared=True),
    "anthropic": Framing(tools=346),
    "gemini": Framing(message=1),
}


@lru_cache(maxsize=256)
def framing_for(model: Model) -> Framing:
    """The framing of a model's provider, with that model's way of counting media."""
    return replace(
        _PROVIDERS.get(model.provider, PLAIN), media=rule_for(model.provider, model.name)
    )


Count = Callable[[str], int]


class Counter(Struct, frozen=True):
    """A function from text to tokens, with the name that is written beside its counts. `framing`
    is what the provider adds to them. `additive`: parts of a text count what the whole counts.
    `note` says why another one was wanted."""

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
    """A caller's function as a counter. A result that is not a count, or an error, becomes
    `Invalid`."""
    if not callable(function):
        given = type(function).__name__
        hint = "give counter=callable(text)"
        raise Invalid(f"a counter must be callable, not {given}", hint=hint)
    name = f"{CUSTOM}{getattr(function, '__qualname__', type(function).__qualname__)}"

    def checked(text: str) -> int:
        try:
            result: object = function(text)
        except Exception as error:
            hint = "see the error it was raised from"
            raise Invalid(f"the counter {name} failed: {failure(error)}", hint=hint) from error
        return _checked_count(name, result)

    return Counter(name, checked)


def forgiving(counter: Counter, failed: Callable[[str], None]) -> Counter:
    """A caller's counter, with the estimate for every text at which it fails; `failed` is told the
    first time. Other counters do not fail."""
    if not counter.name.startswith(CUSTOM):
        return counter
    told: list[str] = []

    def count(text: str) -> int:
        try:
            return counter.function(text)
        except Invalid as error:
            if not told:
                told.append(error.message)
                failed(error.message)
            return estimate(text)

    return replace(counter, function=count)


def _checked_count(name: str, result: object) -> int:
    hint = "a counter gives the number of tokens as an int, 0 or more"
    try:
        # Takes what is an integer by nature, such as numpy's; a float has no index.
        tokens = operator.index(result)  # type: ignore[arg-type]
    except TypeError as error:
        raise Invalid(f"the counter {name} gave {shown(result)}", hint=hint) from error
    if not 0 <= tokens <= NUMBER_MAX or isinstance(result, bool):
        raise Invalid(f"the counter {name} gave {shown(result)}", hint=hint)
    return tokens


def framing_of(count: Count) -> Framing:
    """The framing that a counter carries; a bare function has none of its own."""
    return count.framing if isinstance(count, Counter) else PLAIN


def count_message(message: Message, count: Count) -> int:
    """The tokens of a message, its frame and its unknown keys included."""
    framing = framing_of(count)
    tokens = framing.message
    for block in message.blocks:
        tokens += count_block(block, count)
    if isinstance(message.form, list):
        # It begins with the number of its blocks.
        tokens += unknown_tokens(message.form[1:], count, framing.media)
    return tokens


def count_block(block: Block, count: Count) -> int:
    """The tokens of one block."""
    match block:
        case Text():
            return count(block.text) if block.text else 0
        case Thinking():
            return _thinking_tokens(block, count)
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


def _thinking_tokens(thinking: Thinking, count: Count) -> int:
    """Where a summary stands beside the sealed original, the original is what is sent and
    billed."""
    shown = count(thinking.text) if thinking.text else 0
    return max(shown, sealed_tokens(thinking.data))


def _argument_tokens(arguments: str | dict[str, Any], count: Count) -> int:
    """With a caller's counter, arguments never count less than the lines they are shown by once
    shortened."""
    if not arguments:
        return 0
    if isinstance(arguments, str):
        return count(arguments)
    whole = count(json_text(arguments))
    if isinstance(count, Counter) and count.additive:
        # The JSON text counts what its parts count; counting the lines as well would double the
        # work.
        return whole
    return max(whole, sum(count(f"{key}: {value}") for key, value in arguments.items()))


def _opaque_tokens(block: Opaque, count: Count) -> int:
    """A provider's own block is sent as it came, whatever is shown of it."""
    # "replace", because counters of other makers refuse lone surrogates.
    text = block.text or block.data.decode("utf-8", "replace")
    shown = count(text) if text else 0
    if block.raw is None:
        return shown
    return max(shown, unknown_tokens(block.raw, count, framing_of(count).media))


def count_system(system: object, count: Count) -> int:
    """The tokens of a system prompt in any provider's shape: a text, a list of text blocks, or
    an object."""
    if not system:
        return 0
    parts = system if isinstance(system, list | tuple) else [system]
    return framing_of(count).message + sum(_part_tokens(part, count) for part in parts)


def _part_tokens(part: object, count: Count) -> int:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        part = part["text"]
    return count(part if isinstance(part, str) else json_text(part))


def count_tools(tools: list[Any] | None, count: Count) -> int:
    """The tokens of the tool definitions, in the form in which the provider's models read them."""
    if not tools:
        return 0
    framing = framing_of(count)
    if framing.declared:
        return framing.tools + count(declarations(tools))
    return framing.tools + sum(count(json_text(tool)) for tool in tools)


HOLE = "$"
# Keys whose values say how a message is built, unless a value is longer than any such word.
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
# Withheld thinking is its text, sealed and written as base64: 4 characters for 3 bytes, 4 bytes
# for a token.
SEALED_CHARS_PER_TOKEN = 16 / 3
SEALED_CHARS_MIN = 256
_SEALED = re.compile(r"[A-Za-z0-9+/_=-]+\Z")
_IMAGES = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")  # PNG, JPEG, GIF and WebP as base64
_IMAGE_URL = "data:image/"


def unknown_tokens(value: object, count: Callable[[str], int], rule: MediaRule) -> int:
    """The tokens of a value that is sent as it came; nothing where it only frames what blocks
    hold."""
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        encoded = b""
    is_small = 0 < len(encoded) <= SMALL_BYTES_MAX
    text, apart = _small_parts(encoded, rule) if is_small else _parts(value, rule)
    return (count(text) if text else 0) + apart


@lru_cache(maxsize=SMALL_KEPT)
def _small_parts(encoded: bytes, rule: MediaRule) -> tuple[str, int]:
    """What `_parts` gives. Messages of one kind have one form, so the same comes again and
    again."""
    return _parts(msgspec.json.decode(encoded), rule)


def _parts(value: object, rule: MediaRule) -> tuple[str, int]:
    """The text that is to be counted, and the tokens of what is not read letter by letter."""
    apart: list[int] = []
    rest = _rest(value, apart, rule, 0)
    return ("" if rest is None else json_text(rest)), sum(apart)


def _rest(value: Any, apart: list[int], rule: MediaRule, depth: int) -> Any:
    """What is left to be counted as text; None if nothing is. The sizes of images and of sealed
    data go to `apart`."""
    if depth > DEPTH_MAX:
        return value
    if isinstance(value, str):
        return _text_rest(value, apart, rule)
    if isinstance(value, dict):
        pairs = {
            key: _rest(item, apart, rule, depth + 1)
            for key, item in _entries(value)
            if not _is_frame(key, item)
        }
        return {key: item for key, item in pairs.items() if item is not None} or None
    if isinstance(value, list | tuple):
        items = [_rest(item, apart, rule, depth + 1) for item in value]
        return [item for item in items if item is not None] or None
    return None if value is False else value


def _entries(value: dict[str, Any]) -> list[tuple[str, Any]]:
    """The entries of an object. A hole shows its block, and only what stands around that is
    unknown."""
    if len(value) != 1 or HOLE not in value:
        return list(value.items())
    inside = value[HOLE]
    has_form = isinstance(inside, list) and len(inside) == 2
    return [(HOLE, inside[1])] if has_form else _own_entries(inside)


def _own_entries(inside: Any) -> list[tuple[str, Any]]:
    """The sender's own object that looks like a hole; nothing for a block or one of its fields."""
    return list(inside.items()) if isinstance(inside, dict) else []


def _is_frame(key: str, value: object) -> bool:
    if key not in FRAMES:
        return False
    return not isinstance(value, str | list | dict) or len(json_text(value)) <= FRAME_CHARS_MAX


def _text_rest(text: str, apart: list[int], rule: MediaRule) -> str | None:
    """A text, unless it is empty, an image or sealed."""
    if text.startswith((_IMAGE_URL, *_IMAGES)):
        data, url = ("", text) if text.startswith(_IMAGE_URL) else (text, "")
        apart.append(media_tokens(Media(media="image", data=data, url=url), rule))
        return None
    if len(text) >= SEALED_CHARS_MIN and _SEALED.match(text):
        apart.append(sealed_tokens(text))
        return None
    return text or None


def sealed_tokens(data: str) -> int:
    """What data costs that only the provider can read."""
    return ceil(len(data) / SEALED_CHARS_PER_TOKEN)


# A schema may be nested without end; what lies deeper is counted as JSON.
SCHEMAS_DEPTH_MAX = 8


def declarations(tools: list[Any]) -> str:
    """All tools as one text. A provider's own tools, which have no schema, stand as their JSON."""
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
    for name, each in properties.items():
        each = each if isinstance(each, dict) else {}
        mark = "" if isinstance(required, list) and name in required else "?"
        default = f" // default: {json_text(each['default'])}" if "default" in each else ""
        lines += [
            *_comment(each.get("description")),
            f"{name}{mark}: {_type(each, depth + 1)},{default}",
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
    """The JSON of a value; a value that JSON cannot hold still takes its place in the request."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return str(value)


EXACT = "exact"

_registered: dict[str, Counter] = {}


def register_counter(model: str, function: Count) -> None:
    """From now on conversations with this model, or one whose name begins with it and goes on with
    another word, are counted by the function."""
    counter = function if isinstance(function, Counter) else custom(function)
    _registered[model.strip().lower()] = counter


def forget_counter(model: str) -> None:
    """Removes a registered counter; does nothing where there is none."""
    _registered.pop(model.strip().lower(), None)


def counter_for(given: Count | str | None, model: str | None = None) -> Counter:
    """The counter for what a caller gave: nothing, a name (`estimate`, `exact`, a vocabulary),
    or a function. A counter is taken as it is."""
    if isinstance(given, Counter):
        return given
    info = model_info(model)
    if given is None:
        chosen = _registered_for(model or "") or _own_vocabulary(info) or ESTIMATE
    elif isinstance(given, str):
        chosen = _by_name(given, info)
    else:
        chosen = custom(given)
    return replace(chosen, framing=framing_for(info))


def _registered_for(model: str) -> Counter | None:
    """The counter registered for this model: by its name, or by the longest that its name begins
    with, as in the table of models."""
    return _registered.get(listed_name(model.strip().lower(), _registered))


def _own_vocabulary(model: Model) -> Counter | None:
    """The exact counter, if the model's own vocabulary is published and installed."""
    is_own = model.provider == "openai" and exact.installed()
    return _vocabulary_counter(exact.nearest(model.name)) if is_own else None


def _by_name(given: str, model: Model) -> Counter:
    name = given.strip().lower()
    if name == NAME:
        return ESTIMATE
    known = (NAME, EXACT, *exact.VOCABULARIES)
    if name not in known:
        raise Invalid(f"there is no counter {shown(given)}", hint=suggestion(name, known))
    if not exact.installed():
        note = f"counter={given!r} needs the extra exact, so the estimate counts; {exact.HINT}"
        return replace(ESTIMATE, note=note)
    return _vocabulary_counter(exact.nearest(model.name) if name == EXACT else name)


def _vocabulary_counter(name: str) -> Counter:
    return Counter(name, exact.vocabulary(name).count)
