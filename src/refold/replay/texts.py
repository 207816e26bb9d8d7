"""What the measures see of a message: its text, its size, and the names in it.

A message is `{"role", "content"}`, with `tool_calls` (`id`, `name`, `arguments`) or `tool_call_id`.
Its text is what it says, then each call's name and a line per argument. A token is four characters,
and a message costs four more. All policies are measured with this one counter, whatever they count
with themselves. Neighbours: `needs` looks for names, `policies` count.
"""

from __future__ import annotations

import json
import re
from typing import Any

Message = dict[str, Any]

MESSAGE_TOKENS = 4
NAME_CHARS_MIN, NAME_CHARS_MAX = 4, 120
EXTENSIONS = (
    "py|js|ts|go|rs|c|h|cpp|java|rb|md|txt|json|yaml|yml|toml|cfg|ini|sh|html|css|sql|csv|xml|lock"
)

# In this order: at one place in the text the first kind that fits is taken.
_KINDS = {
    "path": r"[\w.-]*/[\w./-]*\w",
    "file": rf"\b\w+\.(?:{EXTENSIONS})\b",
    "snake": r"\b[A-Za-z]+_\w+\b",
    "camel": r"\b[A-Z]?[a-z]+[A-Z]\w+\b",
    "id": r"\b(?=\w*\d\w*[A-Za-z])\w+\b",
    "code": r"#?\b[A-Z]+\d+\b",
    "number": r"\b\d{4,}\b",
}
_NAME = re.compile("|".join(_KINDS.values()))
_WORD = re.compile(r"[A-Za-z]{3,}")


# --- text ---


def text_of(message: Message) -> str:
    parts = [message.get("content") or ""]
    for call in message.get("tool_calls") or ():
        # Recorded as a plain name with its arguments; sent in the provider's own shape.
        made = call.get("function") or call
        parts += [made.get("name", ""), argument_text(made.get("arguments"))]
    return "\n".join(parts)


def argument_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return str(arguments)
    if not isinstance(arguments, dict):
        return str(arguments or "")
    return "\n".join(f"{name}: {value}" for name, value in (arguments or {}).items())


def tokens_of_text(text: str) -> int:
    return len(text) // 4


def tokens_of_said(text: str) -> int:
    """The size of a message that says this."""
    return tokens_of_text(text) + MESSAGE_TOKENS


def tokens_of(message: Message) -> int:
    return tokens_of_said(text_of(message))


def tokens_of_all(messages: list[Message]) -> int:
    return sum(map(tokens_of, messages))


# --- names ---


def names_in(text: str) -> set[str]:
    """The specific things a text speaks of: paths, files, identifiers, ids, long numbers."""
    found = (name.strip("./-") for name in _NAME.findall(text))
    return {name for name in found if NAME_CHARS_MIN <= len(name) <= NAME_CHARS_MAX}


def words_besides(text: str, name: str) -> int:
    """How many words of three letters or more a text has once the name is taken out."""
    return len(_WORD.findall(text.replace(name, " ")))


def is_telling(text: str, name: str) -> bool:
    """A text tells something of a name if it says at least three other words: a bare list tells
    nothing."""
    return words_besides(text, name) >= 3


def telling_share(text: str) -> float:
    """The part of a text's characters that stands in lines that tell of one of their names, or
    have three words."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    told = sum(
        len(line)
        for line in lines
        if any(is_telling(line, name) for name in names_in(line) or ("\n",))
    )
    return told / max(1, sum(map(len, lines)))


def schema_words(messages: list[Message]) -> set[str]:
    """The names of tools and of their arguments. They stand in the tool definitions: nobody has
    to remember them."""
    words: set[str] = set()
    for message in messages:
        for call in message.get("tool_calls") or ():
            words.add(call.get("name", ""))
            if isinstance(call.get("arguments"), dict):
                words.update(call["arguments"])
    return words


def opening_of(messages: list[Message]) -> int:
    """How many messages the opening has: everything up to and including the first request."""
    return next((at for at, one in enumerate(messages) if one["role"] == "user"), len(messages)) + 1
