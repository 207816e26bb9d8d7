"""What a person typed in a text of a user: without what the person's program put before it.

Agents put rules of the folder, their surroundings and commands into the words of the user, each as
an element whose name no text for people has (`<environment_context>`, `<command-name>`). Such
elements in front go; what a command was called by and was given stays. Neighbours: `listing` makes
titles of the words, `log.front` knows reminders.
"""

from __future__ import annotations

import re

# Names with a hyphen or an underscore; those of HTML have none.
_OPENING = re.compile(r"\s*<([A-Za-z]+[-_][\w-]*|INSTRUCTIONS)>")
_RULES = re.compile(r"\s*# AGENTS\.md instructions[^\n]*\n")
_COMMAND = ("command-name", "command-args")
_INPUT = re.compile(r"</?user_input[^<>]{0,100}>")  # what Cline puts around what was typed


def typed(text: str) -> str:
    """The words of a text that a person typed; nothing if there are none."""
    command: dict[str, str] = {}
    text = _INPUT.sub("", text)
    at = 0
    while (found := _element(text, at)) is not None:
        name, inner, at = found
        command[name] = inner.strip()
    called = [command[name] for name in _COMMAND if command.get(name)]
    return " ".join([*called, text[at:].strip()]).strip()


def _element(text: str, at: int) -> tuple[str, str, int] | None:
    """The name of the element that begins there, what is in it, and where it ends."""
    rules = _RULES.match(text, at)
    opening = _OPENING.match(text, rules.end() if rules else at)
    if opening is None:
        return None
    closing = f"</{opening[1]}>"
    end = text.find(closing, opening.end())
    if end < 0:
        return None
    return opening[1], text[opening.end() : end], end + len(closing)
