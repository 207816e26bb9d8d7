"""Our tools in a client's request, with the same bytes from the first call of a conversation on;
and its exchanges of which the client sees only a part.

Tools come before everything else, in the provider's cache and in the front that thinking is bound
to, so they are added at the beginning or never, in the form that the log has. The log also has the
exchanges, by the client's repetition; `Kept` serves a list that leaves the log and comes back, and
a client that repeats an answer differently. How texts are cut and joined does not matter. If the
client drops the thinking of an exchange, all of it is dropped; a reworded exchange is another
answer. Neighbours: `engine.toolbox` runs the tools, `conversation_registry` has one `Kept` per
conversation, `observer` asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw, Struct

import refold
from refold import decoding, dialects
from refold.artifacts.intake import OWN_TOOLS, is_own
from refold.core.model import Message, Text, Thinking, ToolCall
from refold.edges.proxy.body import ParsedCall, Wire
from refold.edges.proxy.own_tools.events import Inside
from refold.edges.proxy.page import is_thinking
from refold.log.fingerprints import mark_of
from refold.log.notes import Noted

NOTE = "proxy-tools"
# Dialects whose answers can be split and joined while they stream.
DIALECTS = frozenset({"anthropic", "gemini", "openai_chat", "openai_responses"})
# Dialects in which one tool declares all functions.
_DECLARATIONS = ("functionDeclarations", "function_declarations")
FAILED = "Error: refold cannot answer now. Go on without it."
# For the person, who would see no answer.
SILENT = (
    "[refold: the model called refold's tools in this turn and gave no answer after them. "
    "Write to it to go on.]"
)
ENOUGH = "Error: refold's tools were called often enough in this turn. Go on without them."


@cache
def definitions(dialect: str) -> str:
    """Our tools in a provider's form: JSON, for a list with other tools."""
    with refold.open("tools", store="memory:") as context:
        made: list[dict[str, Any]] = context.toolbox.tools(dialect)
    if dialect == "gemini":
        made = made[0][_DECLARATIONS[0]]
    return msgspec.json.encode(made).decode()[1:-1]


def can_be_added(parsed: ParsedCall) -> bool:
    """Whether a first call can have our tools: its dialect is supported, it has none of them yet,
    and no tool of the client has one of our names."""
    if parsed.dialect not in DIALECTS or not parsed.tools or _asks_for_several(parsed):
        return False
    if parsed.dialect == "gemini" and _declaring(parsed) is None:
        return False
    return not any(name in str(parsed.tools) for name in OWN_TOOLS)


def _asks_for_several(parsed: ParsedCall) -> bool:
    settings = parsed.fields.get("generationConfig", parsed.fields.get("generation_config"))
    said = decoding.decode(settings, dict[str, Raw]) if settings is not None else parsed.fields
    several = [said[name] for name in ("n", "candidateCount", "candidate_count") if name in said]
    return any(bytes(one).strip() not in (b"null", b"1") for one in several)


def _declaring(parsed: ParsedCall) -> int | None:
    """The tool of a Gemini request that declares functions: ours follow its own, because not every
    version accepts two."""
    tools = parsed.tools or ()
    places = (at for at, one in enumerate(tools) if isinstance(one, dict) and _declared(one))
    return next(places, None)


def _declared(tool: Mapping[str, Any]) -> str:
    """The name under which a tool declares functions; empty if it declares none."""
    return next((name for name in _DECLARATIONS if isinstance(tool.get(name), list)), "")


def with_tools(parsed: ParsedCall, added: str) -> ParsedCall:
    """The call with our tools after the client's."""
    if not added or not parsed.has_tools:
        return parsed
    if parsed.dialect == "gemini":
        tools = _with_declarations(parsed, added)
    else:
        tools = _extended(parsed.fields["tools"], added)
    return msgspec.structs.replace(parsed, fields={**parsed.fields, "tools": tools})


def _with_declarations(parsed: ParsedCall, added: str) -> Raw:
    tools = decoding.decode(parsed.fields["tools"], list[Raw])
    place = _declaring(parsed)
    if place is None:
        return Raw(b'[%s,{"functionDeclarations":[%s]}]' % (b",".join(tools), added.encode()))
    fields = decoding.decode(tools[place], dict[str, Raw])
    name = next(one for one in _DECLARATIONS if one in fields)
    tools[place] = Raw(msgspec.json.encode({**fields, name: _extended(fields[name], added)}))
    return Raw(msgspec.json.encode(tools))


def _extended(listed: Raw, added: str) -> Raw:
    """A list with more values at its end; its bytes stay as they came."""
    theirs = bytes(listed).strip()[:-1]
    comma = b"" if theirs.strip() == b"[" else b","
    return Raw(theirs + comma + added.encode() + b"]")


def own_list(parsed: ParsedCall) -> list[bytes]:
    """The client's own messages as they came, with cache marks, for `with_list`. For Gemini, an
    answer in pieces is joined, as it must be once it has rounds inside."""
    if not parsed.came or parsed.dialect == "gemini":
        return list(map(msgspec.json.encode, parsed.messages))
    return [bytes(parsed.came[1:-1])]


# --- answering ---


def added_in(notes: Sequence[Noted]) -> str:
    """The definitions that a conversation began with, from its notes; empty if it has none."""
    data = next((note.data for note in reversed(notes) if note.kind == NOTE), None)
    found = data.get("definitions") if isinstance(data, Mapping) else None
    return found if isinstance(found, str) else ""


def begin(context: refold.Context, dialect: str) -> str:
    """Notes that a conversation has our tools, with their bytes, and returns these."""
    added = definitions(dialect)
    context.note(NOTE, {"definitions": added}, by="proxy")
    return added


def answers(context: refold.Context, calls: list[ToolCall]) -> list[str]:
    """The results of our tools."""
    return [_answer(context, call) for call in calls]


def answers_of_nothing(calls: list[ToolCall]) -> list[str]:
    """The results of our tools for an empty conversation."""
    with refold.open("nothing", store="memory:") as context:
        return answers(context, calls)


def _answer(context: refold.Context, call: ToolCall) -> str:
    given = call.arguments
    return context.toolbox.call(call.name, given if isinstance(given, str | Mapping) else None)


def is_ours(call: ToolCall) -> bool:
    return is_own(call.name)


KEPT_NOTE = "proxy-inside"
_THOUGHT = "reasoning_content"


class _Exchange(Struct, frozen=True):
    """An exchange: its position in the client's list, its messages there, and all messages for each
    of them that has more."""

    begin: int
    seen: list[Wire]
    inner: dict[int, list[Wire]]

    @property
    def placed(self) -> dict[int, list[Wire]]:
        """All messages, by position in the client's list."""
        return {self.begin + at: whole for at, whole in self.inner.items()}


class Kept:
    """Exchanges by position in the client's list."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._exchanges: dict[int, _Exchange] = {}

    def add(self, begin: int, inside: Inside) -> None:
        """Keeps an exchange that begins at this position."""
        self._exchanges[begin] = _Exchange(begin, inside.seen, inside.inner)

    def inner(self, messages: Sequence[Wire]) -> dict[int, list[Wire]]:
        """All messages for each message of the list that belongs to an exchange."""
        found = [self._found(one, messages) for one in self._exchanges.values()]
        return {at: whole for one in found for at, whole in one.placed.items()}

    def part(self, messages: Sequence[Wire]) -> bool:
        """Takes the client's current list; returns whether it repeats an exchange differently."""
        has_parted = False
        for begin, kept in list(self._exchanges.items()):
            there = {at: whole for at, whole in kept.placed.items() if at < len(messages)}
            found = self._found(kept, messages)
            if found.placed == there:
                continue
            has_parted = True
            del self._exchanges[begin]
            if found.inner:
                self._exchanges[begin] = found
        return has_parted

    def _found(self, kept: _Exchange, messages: Sequence[Wire]) -> _Exchange:
        """An exchange as the list has it; with nothing inside if it is missing."""
        at = kept.begin
        inner: dict[int, list[Wire]] = {}
        waiting: list[Wire] = []  # messages before an item that is left out
        is_thought = True
        for place, seen in enumerate(kept.seen):
            if at >= len(messages):
                break
            said = kept.inner.get(place, [seen])
            whole = self._whole(seen, said, messages[at])
            if whole or not _is_reasoning(seen):
                if whole and (waiting or place in kept.inner):
                    inner[at - kept.begin] = [*waiting, *whole]
                waiting, at = [], at + 1
            else:
                waiting, is_thought = [*waiting, *said], False
        if waiting and at > kept.begin:
            last = at - 1 - kept.begin
            inner[last] = [*inner.get(last, [messages[at - 1]]), *waiting]
        if not is_thought:
            inner = {place: _unreasoned(whole) for place, whole in inner.items()}
        return _Exchange(kept.begin, list(messages[kept.begin : at]), inner)

    def _whole(self, seen: Wire, whole: list[Wire], message: Wire) -> list[Wire]:
        """All messages for one message; empty if it is another one."""
        if message == seen:
            return whole
        came, known = self._said(message), self._said(seen)
        if came == known:
            return whole
        is_same = came.texts == known.texts and came.rest == known.rest
        return list(map(unthought, whole)) if is_same and not came.thoughts else []

    def _said(self, message: Wire) -> _Said:
        """The content of a message, however its texts are cut, joined and ordered among its
        calls."""
        blocks = [block for one in dialects.parse(message, self._dialect) for block in one.blocks]
        texts = "".join(block.text for block in blocks if isinstance(block, Text))
        thoughts = [block for block in blocks if isinstance(block, Thinking)]
        rest = [block for block in blocks if not isinstance(block, Text | Thinking)]
        return _Said(
            "".join(texts.split()),
            "".join(one.text + one.signature + one.data for one in thoughts),
            sorted(mark_of(Message(role="assistant", blocks=(block,))) for block in rest),
        )


class _Said(Struct, frozen=True):
    texts: str  # without spaces: clients join texts with some, or trim them
    thoughts: str
    rest: list[bytes]


def unthought(message: Wire) -> Wire:
    """A message without its thinking."""
    plain = {key: value for key, value in message.items() if key != _THOUGHT}
    for key in ("content", "parts"):
        if isinstance(plain.get(key), list):
            plain[key] = [one for one in plain[key] if not _is_thought(one)]
    return plain


def _is_reasoning(item: Wire) -> bool:
    return item.get("type") == "reasoning"


def _unreasoned(items: Sequence[Wire]) -> list[Wire]:
    """Items without reasoning, and so without the ids that connect them to it."""
    return [
        {key: value for key, value in item.items() if key != "id"}
        for item in items
        if not _is_reasoning(item)
    ]


def _is_thought(part: Any) -> bool:
    return is_thinking(part) or (isinstance(part, dict) and part.get("thought") is True)


def note(context: refold.Context, inside: Inside) -> None:
    """Notes in the log that something is answered inside, before it is."""
    names = [call.name for whole in inside.inner.values() for call in _calls(whole)]
    said = f"answered inside: {', '.join(names)}"
    context.note(KEPT_NOTE, {"tools": names, "text": said}, by="proxy")


def _calls(whole: Sequence[Wire]) -> list[ToolCall]:
    return [call for one in whole for call in dialects.tool_calls(one) if is_own(call.name)]
