"""Our tools in a client's request: the very same bytes from the first call of a conversation on.

Tools stand before everything else, in the provider's cache and in what thinking is bound to. So
they are added at the beginning or never, and as the log has them: another version of refold may
describe them otherwise. Neighbours: `engine.toolbox` has and runs them, `observer` asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw

import refold
from refold import decoding
from refold.artifacts.offload import OWN_TOOLS, is_own
from refold.core.model import ToolCall
from refold.edges.proxy.body import Asked
from refold.log.notes import Noted

NOTE = "proxy-tools"
# Dialects whose answers can be taken apart and put together again while they stream.
DIALECTS = frozenset({"anthropic", "gemini", "openai_chat", "openai_responses"})
# Where one tool of a request has the declarations of all functions.
_DECLARATIONS = ("functionDeclarations", "function_declarations")
FAILED = "Error: refold cannot answer now. Go on without it."
# To the person, who would see no answer.
SILENT = (
    "[refold: the model called refold's tools in this turn and gave no answer after them. "
    "Write to it to go on.]"
)
ENOUGH = "Error: refold's tools were called often enough in this turn. Go on without them."


@cache
def definitions(dialect: str) -> str:
    """Our tools as a provider takes them: JSON, to stand in a list with others."""
    with refold.open("tools", store="memory:") as context:
        made: list[dict[str, Any]] = context.toolbox.tools(dialect)
    if dialect == "gemini":
        made = made[0][_DECLARATIONS[0]]
    return msgspec.json.encode(made).decode()[1:-1]


def can_be_added(asked: Asked) -> bool:
    """Whether a first call can have our tools: in a dialect that we can answer in, once, and with
    no tool of the client's by one of our names."""
    if asked.dialect not in DIALECTS or not asked.tools or _asks_for_several(asked):
        return False
    if asked.dialect == "gemini" and _declaring(asked) is None:
        return False
    return not any(name in str(asked.tools) for name in OWN_TOOLS)


def _asks_for_several(asked: Asked) -> bool:
    settings = asked.fields.get("generationConfig", asked.fields.get("generation_config"))
    said = decoding.decode(settings, dict[str, Raw]) if settings is not None else asked.fields
    several = [said[name] for name in ("n", "candidateCount", "candidate_count") if name in said]
    return any(bytes(one).strip() not in (b"null", b"1") for one in several)


def _declaring(asked: Asked) -> int | None:
    """The tool of a Gemini request that declares functions: ours stand behind its own, because not
    every version takes two such."""
    tools = asked.tools or ()
    places = (at for at, one in enumerate(tools) if isinstance(one, dict) and _declared(one))
    return next(places, None)


def _declared(tool: Mapping[str, Any]) -> str:
    """The name under which a tool declares functions; empty if it declares none."""
    return next((name for name in _DECLARATIONS if isinstance(tool.get(name), list)), "")


def with_tools(asked: Asked, added: str) -> Asked:
    """The call with our tools behind the client's."""
    if not added or not asked.has_tools:
        return asked
    if asked.dialect == "gemini":
        tools = _with_declarations(asked, added)
    else:
        tools = _extended(asked.fields["tools"], added)
    return msgspec.structs.replace(asked, fields={**asked.fields, "tools": tools})


def _with_declarations(asked: Asked, added: str) -> Raw:
    tools = decoding.decode(asked.fields["tools"], list[Raw])
    place = _declaring(asked)
    if place is None:
        return Raw(b'[%s,{"functionDeclarations":[%s]}]' % (b",".join(tools), added.encode()))
    fields = decoding.decode(tools[place], dict[str, Raw])
    name = next(one for one in _DECLARATIONS if one in fields)
    tools[place] = Raw(msgspec.json.encode({**fields, name: _extended(fields[name], added)}))
    return Raw(msgspec.json.encode(tools))


def _extended(listed: Raw, added: str) -> Raw:
    """A list with more behind what it has, which stays as it came."""
    theirs = bytes(listed).strip()[:-1]
    comma = b"" if theirs.strip() == b"[" else b","
    return Raw(theirs + comma + added.encode() + b"]")


def own_list(asked: Asked) -> list[bytes]:
    """The client's own messages as they came, cache marks and all; as what `with_list` takes. Of
    Gemini's, an answer that came in pieces is whole: so it stays once more was said inside."""
    if not asked.came or asked.dialect == "gemini":
        return list(map(msgspec.json.encode, asked.messages))
    return [bytes(asked.came[1:-1])]


# --- answering ---


def added_in(notes: Sequence[Noted]) -> str:
    """The definitions that a conversation began with, by its notes; empty if it has none."""
    data = next((note.data for note in reversed(notes) if note.kind == NOTE), None)
    found = data.get("definitions") if isinstance(data, Mapping) else None
    return found if isinstance(found, str) else ""


def begin(context: refold.Context, dialect: str) -> str:
    """Writes down that a conversation has our tools, and as which bytes; gives these."""
    added = definitions(dialect)
    context.note(NOTE, {"definitions": added}, by="proxy")
    return added


def answers(context: refold.Context, calls: list[ToolCall]) -> list[str]:
    """What our tools give."""
    return [_answer(context, call) for call in calls]


def answers_of_nothing(calls: list[ToolCall]) -> list[str]:
    """The same where nothing was said before."""
    with refold.open("nothing", store="memory:") as context:
        return answers(context, calls)


def _answer(context: refold.Context, call: ToolCall) -> str:
    given = call.arguments
    return context.toolbox.call(call.name, given if isinstance(given, str | Mapping) else None)


def is_ours(call: ToolCall) -> bool:
    return is_own(call.name)
