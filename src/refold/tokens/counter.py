"""A counter turns text into tokens; this counts whatever a request carries with one.

Rule: what is not empty counts at least one, what is empty counts nothing, and each message adds
what its frame costs with the provider at hand. A caller's own function becomes a counter by
`custom`, which checks its results. Nothing is cached, so no count outlives its text.
Neighbours: `choice` finds the counter for a model, `framing` knows what providers add, `media`
images and sound.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from refold.checked import NUMBER_MAX, shown
from refold.core.model import Block, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.display import failure
from refold.errors import Invalid
from refold.tokens.estimate import NAME, estimate
from refold.tokens.framing import MESSAGE_TOKENS as MESSAGE_TOKENS
from refold.tokens.framing import PLAIN, Framing
from refold.tokens.media import media_tokens
from refold.tokens.schemas import declarations, json_text
from refold.tokens.unknown import sealed_tokens, unknown_tokens

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
