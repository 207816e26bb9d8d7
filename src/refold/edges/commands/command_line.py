"""The words of a command line: the command they name, and the commands that hints name.

`refold context messages ID` and `/context messages` name the same command: `resolved` replaces an
alias with its command and rejects a former name. Options may come before the name, inside it and
after it (`named_first`). A word may be quoted (`"two words"`, `--name="two words"`); a quote inside
a word is an ordinary character, so `don't` is a word. Neighbours: click reads the words after the
name, in a shell (`edges/cli/app`) and in a chat (`edges/cli/options`).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from refold.display import nearest, suggestion
from refold.edges.commands import ALIASES, COMMANDS, MOVED, PREFIXES, Entry, load
from refold.edges.commands.command import parameters_of, short_line
from refold.errors import Invalid

NO_COMMAND = "/help lists them; with a space before it, the line goes to the model"
OUTPUT = ("--json", "--no-color", "--debug")
HELP_OPTIONS = ("--help", "-h")
MISSPELT_MIN = 0.8
# A word: an option's name up to its value, then text between quotes or anything but spaces.
_WORD = re.compile(r"""(--[\w-]+=)?(?:"((?:\\.|[^"\\])*)"|'([^']*)')(?=\s|$)|\S+""")
_SHELL_CALL = re.compile(r"\brefold [a-z][a-z-]*(?: [^\s.,;:()]+){0,2}")
_OWN_ID = re.compile(r"\b(refold [a-z][a-z-]*(?: [a-z][a-z-]*)? )ID\b")
_PLAIN_ID = re.compile(r"@?\w[\w.-]*", re.ASCII)
_ESCAPED = re.compile(r'\\(["\\])')


def table() -> dict[str, Entry]:
    """The commands of a chat, by name without the slash (`context messages`)."""
    return {name: entry for name, entry in COMMANDS.items() if not entry.is_shell_only}


def split(text: str) -> list[str]:
    """The words of a line, without the quotes around them."""
    return [_unquoted(found) for found in _WORD.finditer(text)]


def _unquoted(found: re.Match[str]) -> str:
    option, double, single = found[1] or "", found[2], found[3]
    if double is None and single is None:
        return found[0]
    return option + (single if double is None else _ESCAPED.sub(r"\1", double))


def as_lines(text: str, conversation: str = "") -> str:
    """A hint with shell commands rewritten for a chat: `refold undo ID` becomes `/undo`. Never use
    it on content."""
    return _SHELL_CALL.sub(lambda found: _as_line(found, conversation), text)


def with_id(text: str, conversation: str) -> str:
    """A hint with ID replaced by this conversation, unless its name needs quotes."""
    is_plain = _PLAIN_ID.fullmatch(conversation)
    return _OWN_ID.sub(rf"\g<1>{conversation}", text) if is_plain else text


def _as_line(found: re.Match[str], conversation: str) -> str:
    words, known = found[0].split()[1:], table()
    if shell_only(words):
        return found[0]
    for count in (2, 1):
        name = " ".join(words[:count])
        if len(words) >= count and (name in known or name in ALIASES):
            after = words[count:]
            # A chat already has its conversation.
            is_named = after[:1] in (["ID"], [conversation])
            return " ".join([f"/{name}", *after[is_named:]])
    return found[0]


# --- which command ---


def resolved(words: Sequence[str], *, is_shell: bool) -> list[str]:
    """The words with an alias replaced by its command and options. Raises Invalid for a former
    name, with the new one."""
    if words and words[0] in OUTPUT:
        return [*resolved(words[1:], is_shell=is_shell), words[0]]
    for count in (3, 2, 1):
        name, rest = " ".join(words[:count]), words[count:]
        if len(words) < count or name in COMMANDS:
            continue
        if name in ALIASES:
            return _without_alias(name, rest, is_shell=is_shell)
        if name in MOVED:
            raise _moved(name, is_shell=is_shell)
    return list(words)


def asked_help(words: Sequence[str]) -> str | None:
    """The command whose help a chat line requests: `/show --help`; None for other lines."""
    positions = [at for at, word in enumerate(words) if word in HELP_OPTIONS]
    if not positions or "--" in words[: positions[0]] or shell_only(words):
        return None
    known = {*table(), *ALIASES, *(prefix for prefix in PREFIXES if members(prefix))}
    for count in (2, 1):
        name = " ".join(words[:count])
        if len(words) > count - 1 and name in known:
            return name
    return None


def _moved(name: str, *, is_shell: bool) -> Invalid:
    new, start = MOVED[name], "refold " if is_shell else "/"
    if not is_shell:
        new = new.replace(" ID", "")
    command = max((one for one in COMMANDS if f"{new} ".startswith(f"{one} ")), key=len)
    hint = f"refold {command} --help" if is_shell else f"/help {command}"
    return Invalid(f"{start}{name} is now {start}{new}", hint=hint)


def _plain_words(name: str, rest: Sequence[str]) -> list[str]:
    """The words that are neither options of the command nor their values."""
    values = _values(name)
    needing = {option for option, value in values.items() if value != "none"}
    return [
        word
        for before, word in zip(("", *rest), rest)
        if not _is_option(word) and before not in needing
    ]


def _without_alias(name: str, rest: Sequence[str], *, is_shell: bool) -> list[str]:
    alias = ALIASES[name]
    inside = [one.removeprefix(f"{name} ") for one in ALIASES if one.startswith(f"{name} ")]
    plain = _plain_words(name, rest)
    if inside and is_shell and (not plain or any(word in HELP_OPTIONS for word in rest)):
        return ["help", name, *(word for word in rest if word in OUTPUT)]
    # In a shell, a word after `context` is an ID unless it resembles one of its forms.
    is_form = len(plain) > 1 or bool(plain and nearest(plain[0], inside, alike_min=MISSPELT_MIN))
    if inside and plain and (is_form or not is_shell):
        start = "" if is_shell else "/"
        reason = f"there is no command {start}{name} {short_line(plain[0], 40)}"
        raise Invalid(reason, hint=suggestion(plain[0], inside))
    words: list[str] = []
    for word in rest:
        option, equals, value = word.partition("=")
        if words and words[-1] in alias.options:
            new, start = alias.options[words.pop()]
            words += [new, start + word]
        elif option in alias.options and equals:
            new, start = alias.options[option]
            words += [new, start + value]
        else:
            words.append(word)
    given = {word.partition("=")[0] for word in words}
    preset = [word for word in alias.preset if word.partition("=")[0] not in given]
    if is_shell and alias.id_option and words and not _is_option(words[0]):
        preset += [alias.id_option, words.pop(0)]
    return [*alias.command.split(), *preset, *words]


def named(words: Sequence[str], also: Iterable[str] = ()) -> tuple[str, list[str]]:
    """The longest command name at the start of a chat line, and the words after it. Raises Invalid
    with the nearest name, including the caller's own names in `also`."""
    known = table()
    if refusal := shell_only(words):
        raise refusal
    for count in (2, 1):
        name = " ".join(words[:count])
        if name in known and len(words) >= count:
            return name, list(words[count:])
    raise _unknown(words, [*known, *ALIASES, *also])


def _unknown(words: Sequence[str], known: Sequence[str]) -> Invalid:
    group = words[0]
    if group not in PREFIXES:
        first_words = dict.fromkeys(f"/{name.split()[0]}" for name in known)
        is_typo = bool(nearest(f"/{group}", first_words)) and "/" not in group
        hint = suggestion(f"/{group}", first_words) if is_typo else NO_COMMAND
        return Invalid(f"there is no command /{short_line(group, 40)}", hint=hint)
    inside = members(group)
    if len(words) == 1:
        return Invalid(f"/{group} needs one of: {', '.join(inside)}", hint=f"/help {group}")
    reason = f"there is no command /{group} {short_line(words[1], 40)}"
    return Invalid(reason, hint=suggestion(words[1], inside))


def shell_only(words: Sequence[str]) -> Invalid | None:
    """The error for a command, or a group of commands, that only a shell has; None for others."""
    for count in (3, 2, 1):
        name = " ".join(words[:count])
        meant = [entry for one, entry in COMMANDS.items() if f"{one} ".startswith(f"{name} ")]
        if meant and all(entry.is_shell_only for entry in meant):
            return Invalid(f"/{name} is for a shell, not for a chat", hint=f"refold {name} --help")
    return None


def members(group: str) -> list[str]:
    """The names inside a group, without the name of the group."""
    return [name.partition(" ")[2] for name in table() if name.startswith(f"{group} ")]


# --- options before the name ---

FLAGS = (*OUTPUT, *HELP_OPTIONS)
WORDS_MAX = 100
Value = Literal["none", "maybe", "needed"]


def named_first(words: Sequence[str], known: Mapping[str, Entry]) -> list[str]:
    """The words with the name of the command first; unchanged if no known command takes the options
    before its name."""
    first, second = [*words, "", ""][:2]
    if not _is_option(first) and not (first in PREFIXES and _is_option(second)):
        return list(words)
    for positions in _name_positions(words[:WORDS_MAX], {*known, *ALIASES}):
        name = " ".join(words[at] for at in positions)
        # A value follows its option, never a word of the name.
        parts = [words[after + 1 : at] for after, at in zip((-1, *positions), positions)]
        if all(_takes(name, part) for part in parts):
            before = [word for part in parts for word in part]
            return [*name.split(), *before, *words[positions[-1] + 1 :]]
    return list(words)


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1


def _name_positions(words: Sequence[str], known: Container[str]) -> Iterator[tuple[int, ...]]:
    """The possible positions of the words of a command's name, longest names first."""
    for at, word in enumerate(words):
        if word == "--":
            return
        yield from _longer_names(words, (at,), known)


def _longer_names(
    words: Sequence[str], positions: tuple[int, ...], known: Container[str]
) -> Iterator[tuple[int, ...]]:
    """The positions of names that begin with the words at these positions."""
    name = " ".join(words[at] for at in positions)
    if name in PREFIXES:
        for later in range(positions[-1] + 1, len(words)):
            yield from _longer_names(words, (*positions, later), known)
    if name in known:
        yield positions


def _takes(name: str, words: Sequence[str]) -> bool:
    """Whether the words are options of the command, each with its value."""
    values = _values(name)
    rest = list(words)
    while rest:
        option, equals, _ = rest.pop(0).partition("=")
        value = values.get(option)
        if value is None:
            return False
        if equals or value == "none":
            continue
        # An option is never the value of another option.
        if rest and not _is_option(rest[0]):
            rest.pop(0)
        elif value == "needed":
            return False
    return True


def _values(name: str) -> dict[str, Value]:
    """Whether each option takes a value."""
    command = load(name)
    values: dict[str, Value] = dict.fromkeys(FLAGS, "none")
    if command.on != "nothing":
        values["--store"] = "needed"
    if name in ALIASES:
        values |= dict.fromkeys(ALIASES[name].options, "needed")
    for one in parameters_of(command):
        value: Value = "none" if one.kind == "flag" else "needed" if one.bare is None else "maybe"
        values |= {option: value for option in (one.option, one.short) if option}
    return values
