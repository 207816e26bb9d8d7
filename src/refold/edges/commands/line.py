"""A line of a chat, such as `/context messages --role user`, read as a command of the table.

`table()` is what a line can name, `parse(line)` gives the command and its arguments, ready for
`command.run(session, arguments)`; what it does not understand is `Invalid`, with the nearest name.
A line never names the conversation: that is the one of the session. A word may stand between
quotes (`"two words"`, `--name="two words"`); a quote inside a word is a character like any other,
so `don't` is a word. Neighbours: `parameters` says what a command takes; the shell reads the same
values through click (`edges/cli/options`).

Options may stand before the name of a command, inside it and after it: `artifacts --json list`
means what `artifacts list --json` means.

The name is put first, and what reads the words after it need not know. What takes a value is known
only once the command is, so every name that the words could mean is tried, the longest first.
Neighbours: the shell (`edges/cli/app`) and the chat (`line`) both put their words in order here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from refold.display import nearest, suggestion
from refold.edges.commands import ALIASES, COMMANDS, MOVED, PREFIXES, Entry, load
from refold.edges.commands.command import (
    Arguments,
    Command,
    Parameter,
    Taking,
    parameters_of,
    short_line,
)
from refold.errors import Invalid

NO_COMMAND = "/help lists them; with a space before it, the line goes to the model"
HELP_OPTIONS = ("--help", "-h")
MISSPELT_MIN = 0.8
# A word: an option's name up to its value, then a text between quotes or anything but spaces.
_WORD = re.compile(r"""(--[\w-]+=)?(?:"((?:\\.|[^"\\])*)"|'([^']*)')(?=\s|$)|\S+""")
_SHELL_CALL = re.compile(r"\brefold [a-z][a-z-]*(?: [^\s.,;:()]+){0,2}")
_OWN_ID = re.compile(r"\b(refold [a-z][a-z-]*(?: [a-z][a-z-]*)? )ID\b")
_PLAIN_ID = re.compile(r"@?\w[\w.-]*", re.ASCII)
_ESCAPED = re.compile(r'\\(["\\])')


class Line(NamedTuple):
    """What a line says: a command of the table, what it is given, and whether its result is
    wanted as JSON."""

    command: Command[Any, Any]
    arguments: Arguments
    json_output: bool = False


def table() -> dict[str, Entry]:
    """Every command that a line can name, by its name without the slash (`context messages`)."""
    return {name: entry for name, entry in COMMANDS.items() if not entry.is_shell_only}


def parse(line: str, also: Iterable[str] = ()) -> Line:
    """The command that a line names, and its arguments. `also` are names that the caller
    understands itself: they are suggested, too. Raises Invalid, with what to write instead."""
    typed = named_first(split(line.strip().removeprefix("/")), table())
    if not typed:
        raise Invalid("no command is named", hint="/help lists them")
    words = resolved(typed, is_shell=False)
    if words[0] in PREFIXES and members(words[0]) and words[1:] and words[1] in HELP_OPTIONS:
        return _help(words[0])
    name, rest = _named(words, also)
    if any(word in HELP_OPTIONS for word in _before_dashes(rest)):
        return _help(name)
    given = [word for word in rest if word != "--json"]
    command = load(name)
    return Line(command, arguments_of(command, given), json_output=len(given) < len(rest))


def _help(name: str) -> Line:
    return Line(load("help"), load("help").arguments(command=name))


def split(text: str) -> list[str]:
    """The words of a line, without the quotes around them."""
    return [_unquoted(found) for found in _WORD.finditer(text)]


def _unquoted(found: re.Match[str]) -> str:
    option, double, single = found[1] or "", found[2], found[3]
    if double is None and single is None:
        return found[0]
    return option + (single if double is None else _ESCAPED.sub(r"\1", double))


def as_lines(text: str, conversation: str = "") -> str:
    """A text of ours that names commands of the shell, for a chat: `refold undo ID` is `/undo`.
    For hints of errors and help, never for content."""
    return _SHELL_CALL.sub(lambda found: _as_line(found, conversation), text)


def with_id(text: str, conversation: str) -> str:
    """A text of ours that names commands of the shell, with this conversation in the place of
    ID; one whose name could be read otherwise by a shell stays ID."""
    is_plain = _PLAIN_ID.fullmatch(conversation)
    return _OWN_ID.sub(rf"\g<1>{conversation}", text) if is_plain else text


def _as_line(found: re.Match[str], conversation: str) -> str:
    words, known = found[0].split()[1:], table()
    if shell_only(words):
        return found[0]
    for count in (2, 1):
        name = " ".join(words[:count])
        if len(words) >= count and name in known:
            after = words[count:]
            # The chat has its conversation.
            is_named = after[:1] in (["ID"], [conversation])
            return " ".join([f"/{name}", *after[is_named:]])
    return found[0]


# --- which command ---


def resolved(words: Sequence[str], *, is_shell: bool) -> list[str]:
    """The words with an alias replaced by its command and options. Raises Invalid for a name that
    moved, with its new one."""
    for count in (3, 2, 1):
        name, rest = " ".join(words[:count]), words[count:]
        if len(words) < count or name in COMMANDS:
            continue
        if name in ALIASES:
            return _without_alias(name, rest, is_shell=is_shell)
        if name in MOVED:
            raise _moved(name, is_shell=is_shell)
    return list(words)


def _moved(name: str, *, is_shell: bool) -> Invalid:
    new, start = MOVED[name], "refold " if is_shell else "/"
    if not is_shell:
        new = new.replace(" ID", "")
    command = max((one for one in COMMANDS if f"{new} ".startswith(f"{one} ")), key=len)
    hint = f"refold {command} --help" if is_shell else f"/help {command}"
    return Invalid(f"{start}{name} is now {start}{new}", hint=hint)


def _without_alias(name: str, rest: Sequence[str], *, is_shell: bool) -> list[str]:
    alias = ALIASES[name]
    inside = [one.removeprefix(f"{name} ") for one in ALIASES if one.startswith(f"{name} ")]
    plain = [word for word in rest if not _order_is_option(word)]
    if inside and any(word in HELP_OPTIONS for word in rest):
        return ["help", name]
    if inside and is_shell and not plain:
        return ["help", name, *rest]
    # A word after `context` is an ID in a shell, unless it looks like one of its forms.
    is_form = len(plain) > 1 or bool(plain and nearest(plain[0], inside, alike_min=MISSPELT_MIN))
    if inside and plain and (is_form or not is_shell):
        start = "" if is_shell else "/"
        reason = f"there is no command {start}{name} {short_line(plain[0], 40)}"
        raise Invalid(reason, hint=suggestion(plain[0], inside))
    words: list[str] = []
    for word in rest:
        option, equals, value = word.partition("=")
        new, start = alias.options.get(option, (option, ""))
        if words and words[-1] in alias.options:
            new, start = alias.options[words.pop()]
            words += [new, start + word]
        elif option in alias.options and equals:
            words += [new, start + value]
        else:
            words.append(word)
    given = {word.partition("=")[0] for word in words}
    preset = [word for word in alias.preset if word.partition("=")[0] not in given]
    if is_shell and alias.id_option and words and not _order_is_option(words[0]):
        preset += [alias.id_option, words.pop(0)]
    return [*alias.command.split(), *preset, *words]


def _named(words: Sequence[str], also: Iterable[str]) -> tuple[str, list[str]]:
    """The longest name that the words begin with, and the words after it."""
    known = table()
    if found := shell_only(words):
        raise found
    for count in (2, 1):
        name = " ".join(words[:count])
        if name in known and len(words) >= count:
            return name, list(words[count:])
    raise _unknown(words, [*known, *also])


def _unknown(words: Sequence[str], known: Sequence[str]) -> Invalid:
    group = words[0]
    if group not in PREFIXES:
        firsts = dict.fromkeys(f"/{name.split()[0]}" for name in known)
        is_typo = bool(nearest(f"/{group}", firsts)) and "/" not in group
        hint = suggestion(f"/{group}", firsts) if is_typo else NO_COMMAND
        return Invalid(f"there is no command /{short_line(group, 40)}", hint=hint)
    inside = members(group)
    if len(words) == 1:
        return Invalid(f"/{group} needs one of: {', '.join(inside)}", hint=f"/help {group}")
    return _no_member(group, words[1])


def shell_only(words: Sequence[str]) -> Invalid | None:
    """Why a line cannot name this: it is a command, or a group of them, for a shell only."""
    for count in (3, 2, 1):
        name = " ".join(words[:count])
        meant = [entry for one, entry in COMMANDS.items() if f"{one} ".startswith(f"{name} ")]
        if meant and all(entry.is_shell_only for entry in meant):
            return Invalid(f"/{name} is for a shell, not for a chat", hint=f"refold {name} --help")
    return None


def _no_member(group: str, name: str) -> Invalid:
    hint = suggestion(name, members(group))
    return Invalid(f"there is no command /{group} {short_line(name, 40)}", hint=hint)


def members(group: str) -> list[str]:
    """The names inside a group, without the name of the group."""
    return [name.partition(" ")[2] for name in table() if name.startswith(f"{group} ")]


# --- what it is given ---


def arguments_of(command: Taking, words: Sequence[str]) -> Arguments:
    """The words as the arguments of the command. Invalid if it does not take them."""
    reader = _Reader(command)
    reader.read(words)
    arguments: Arguments = command.arguments(**reader.values())
    return arguments


class _Reader:
    """Reads words from the left: options by name, the others by place."""

    def __init__(self, command: Taking) -> None:
        self._name = command.name
        self._parameters = parameters_of(command)
        self._options = {
            name: one for one in self._parameters for name in (one.option, one.short) if name
        }
        self._places = [one for one in self._parameters if not one.option]
        self._given: dict[str, list[Any]] = {}

    def read(self, words: Sequence[str]) -> None:
        placed: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                placed += rest
                break
            if _is_option(word):
                self._read_option(word, rest)
            else:
                placed.append(word)
        self._fill_places(placed)

    def values(self) -> dict[str, Any]:
        """What was given, by the names of the fields; Invalid if something is missing."""
        for one in self._parameters:
            if one.is_required and one.name not in self._given:
                raise self._refused(f"needs {one.shown}")
        return {
            one.name: tuple(self._given[one.name]) if one.is_many else self._given[one.name][-1]
            for one in self._parameters
            if one.name in self._given
        }

    def _read_option(self, word: str, rest: list[str]) -> None:
        name, equals, value = word.partition("=")
        parameter = self._options.get(name)
        if parameter is None:
            known = [one.option for one in self._parameters if one.option]
            hint = suggestion(name, known) if known else f"/help {self._name}"
            raise self._refused(f"has no option {short_line(name, 40)}", hint)
        if parameter.kind == "flag":
            if equals:
                raise self._refused(f"{name} takes no value")
            self._give(parameter, True)
        elif equals:
            self._give(parameter, self._value(parameter, value))
        else:
            self._give(parameter, self._next_value(parameter, rest))

    def _next_value(self, parameter: Parameter, rest: list[str]) -> Any:
        """What stands after an option; an option that may stand alone takes no other option."""
        if rest and not (parameter.bare is not None and _is_option(rest[0])):
            return self._value(parameter, rest.pop(0))
        if parameter.bare is None:
            raise self._refused(f"{parameter.option} needs a value")
        return parameter.bare

    def _fill_places(self, words: list[str]) -> None:
        for place in self._places:
            if not words:
                return
            if place.takes_rest:
                taken, words = [" ".join(words)], []
            elif place.is_many:
                taken, words = words, []
            else:
                taken, words = words[:1], words[1:]
            for word in taken:
                self._give(place, self._value(place, word))
        if words and self._name in PREFIXES and not self._places:
            raise _no_member(self._name, words[0])
        if words:
            raise self._refused(f"does not take {short_line(words[0], 40)!r}")

    def _give(self, parameter: Parameter, value: Any) -> None:
        self._given.setdefault(parameter.name, []).append(value)

    def _value(self, parameter: Parameter, word: str) -> Any:
        """A word as the value of a parameter; Invalid if it cannot be one."""
        named = parameter.option or parameter.metavar
        shown = f"{named} {short_line(word, 40)!r}"
        if parameter.kind == "choice":
            if word not in parameter.choices:
                raise self._refused(f"{shown} is not one of {', '.join(parameter.choices)}")
            return word
        if parameter.kind not in ("int", "float"):
            return word
        try:
            value = int(word) if parameter.kind == "int" else float(word)
        except ValueError:
            raise self._refused(f"{shown} is not a number") from None
        if not _is_within(value, parameter):
            raise self._refused(f"{shown} is not {_range(parameter)}")
        return value

    def _refused(self, reason: str, hint: str = "") -> Invalid:
        return Invalid(f"/{self._name} {reason}", hint=hint or f"/help {self._name}")


def _is_option(word: str) -> bool:
    """Whether the word names an option; `-` is a file, and `-5` a number."""
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit()


def _before_dashes(words: Sequence[str]) -> Sequence[str]:
    return words[: words.index("--")] if "--" in words else words


def _is_within(value: float, parameter: Parameter) -> bool:
    if parameter.least is not None and not value >= parameter.least:
        return False
    return parameter.most is None or value <= parameter.most


def _range(parameter: Parameter) -> str:
    if parameter.most is None:
        return f"at least {parameter.least:,}"
    if parameter.least is None:
        return f"at most {parameter.most:,}"
    return f"between {parameter.least:,} and {parameter.most:,}"


FLAGS = ("--json", "--no-color", "--debug", "--help", "-h")
WORDS_MAX = 100
Value = Literal["none", "maybe", "needed"]


def named_first(words: Sequence[str], known: Mapping[str, Entry]) -> list[str]:
    """The same words with the name of the command first; as they are, where no command of the
    known ones takes the options that stand before its name."""
    if not _has_options_first(words):
        return list(words)
    for places in _names(words[:WORDS_MAX], known):
        name = " ".join(words[place] for place in places)
        # A value stands beside its option, never behind a word of the name.
        parts = [words[after + 1 : at] for after, at in zip((-1, *places), places)]
        if all(_takes(name, part) for part in parts):
            before = [word for part in parts for word in part]
            return [*name.split(), *before, *words[places[-1] + 1 :]]
    return list(words)


def _has_options_first(words: Sequence[str]) -> bool:
    first, second = [*words, "", ""][:2]
    return _order_is_option(first) or (first in PREFIXES and _order_is_option(second))


def _order_is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1


def _names(words: Sequence[str], known: Mapping[str, Entry]) -> Iterator[tuple[int, ...]]:
    """Where the words of a command's name could stand, of one in a group first."""
    for at, word in enumerate(words):
        if word == "--":
            return
        yield from _going_on(words, (at,), known)


def _going_on(
    words: Sequence[str], places: tuple[int, ...], known: Mapping[str, Entry]
) -> Iterator[tuple[int, ...]]:
    """The same, for names that begin with the words at these places."""
    name = " ".join(words[place] for place in places)
    if name in PREFIXES:
        for later in range(places[-1] + 1, len(words)):
            yield from _going_on(words, (*places, later), known)
    if name in known:
        yield places


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
        # An option is never another's value: else a value that is a command's name would be one.
        if rest and not _order_is_option(rest[0]):
            rest.pop(0)
        elif value == "needed":
            return False
    return True


def _values(name: str) -> dict[str, Value]:
    """By option: whether it takes a value."""
    command = load(name)
    values: dict[str, Value] = dict.fromkeys(FLAGS, "none")
    if command.on != "nothing":
        values["--store"] = "needed"
    for one in parameters_of(command):
        value: Value = "none" if one.kind == "flag" else "needed" if one.bare is None else "maybe"
        values |= {option: value for option in (one.option, one.short) if option}
    return values
