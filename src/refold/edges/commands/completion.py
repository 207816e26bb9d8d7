"""Completion of a word: names of commands, options, choices, conversations, artifacts, checkpoints,
models and files.

One engine for a shell and a chat: both pass the words up to the cursor. A failure gives no
candidates, because completion cannot report errors. Neighbours: `command_line` splits a chat line,
`help_and_completion` has the completion scripts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from refold.display import one_line, visible
from refold.edges.commands import ALIASES, COMMANDS, PREFIXES, Entry, load
from refold.edges.commands.command import Parameter, Taking, parameters_of
from refold.edges.commands.command_line import split, table
from refold.edges.commands.session import Session
from refold.errors import RefoldError

LIMIT = 50
HELP_CHARS = 60
SHARED = {"--json": "Print one JSON object and nothing else.", "--help": "Show what it takes."}
SHELL_SHARED = {**SHARED, "--store": "The store.", "--no-color": "Print without colors."}


class Candidate(NamedTuple):
    """A completion of the word, and its meaning."""

    text: str
    help: str = ""


def in_chat(
    text: str, session: Session | None = None, also: Mapping[str, Taking] | None = None
) -> list[Candidate]:
    """Completions of the last word of a line such as `/context mess`. `also` are the caller's own
    commands, which take precedence over those of the table."""
    if not text.startswith("/"):
        return []
    words = split(text[1:])
    if not words or text[-1].isspace():
        words.append("")
    return _candidates(words, session, table(), also or {}, is_shell=False)


def in_shell(words: Sequence[str], session: Session | None = None) -> list[Candidate]:
    """Completions of the last word after `refold`."""
    return _candidates(list(words) or [""], session, COMMANDS, {}, is_shell=True)


def shell_lines(words: Sequence[str]) -> list[str]:
    """The answer to a shell that completes a command line: a line for each candidate, with the
    word, a tab, and its meaning. Never raises."""
    try:
        with _session(words) as session:
            found = in_shell(words, session)
    except Exception:
        return []
    spaces = str.maketrans("\n\t", "  ")
    return [f"{visible(one.text)}\t{visible(one.help).translate(spaces)}" for one in found]


def _session(words: Sequence[str]) -> Session:
    """A session with the store and the conversation named so far."""
    rest = list(words[:-1])
    url = None
    if "--store" in rest[:-1]:
        at = rest.index("--store")
        url = rest[at + 1]
        del rest[at : at + 2]
    plain = [word for word in rest if not word.startswith("-")]
    size = 2 if " ".join(plain[:2]) in COMMANDS and len(plain) > 1 else 1
    name = plain[size] if len(plain) > size else None
    return Session(store_url=url, conversation=name, read_only=True)


def _candidates(
    words: list[str],
    session: Session | None,
    known: dict[str, Entry],
    also: Mapping[str, Taking],
    *,
    is_shell: bool,
) -> list[Candidate]:
    typed = words[-1]
    names = [*known, *ALIASES]
    found = _names(words, names, also)
    name = _command(words[:-1], [*names, *also])
    if name:
        command = also.get(name) or load(name)
        after = ["", *words[len(name.split()) :]]
        found += _in_command(command, after, session, is_shell=is_shell)
    return [one for one in found if one.text.startswith(typed)][:LIMIT]


def _names(
    words: Sequence[str], known: Sequence[str], also: Mapping[str, Taking]
) -> list[Candidate]:
    """Names of commands: the first word, or the second within a group."""
    if len(words) == 1:
        first_words = dict.fromkeys(name.split()[0] for name in known)
        own = [
            Candidate(name, one.summary) for name, one in also.items() if name not in first_words
        ]
        return [Candidate(name, _summary(name)) for name in first_words] + own
    if len(words) == 2 and words[0] in PREFIXES:
        inside = [name for name in known if name.startswith(f"{words[0]} ")]
        return [Candidate(name.split()[1], _summary(name)) for name in inside]
    return []


def _summary(name: str) -> str:
    if name in COMMANDS or name in ALIASES:
        return (COMMANDS.get(name) or ALIASES[name]).summary
    return PREFIXES[name]


def _command(words: Sequence[str], known: Sequence[str]) -> str:
    """The longest name of a command that the words begin with; empty if there is none."""
    for count in (2, 1):
        name = " ".join(words[:count])
        if len(words) >= count and name in known:
            return name
    return ""


def _in_command(
    command: Taking, words: Sequence[str], session: Session | None, *, is_shell: bool
) -> list[Candidate]:
    """Options and values of a command, for the last word."""
    parameters = parameters_of(command)
    before, typed = words[1:-1], words[-1]
    options = {text: one for one in parameters for text in (one.option, one.short) if text}
    option = options.get(before[-1]) if before else None
    if option is not None and option.kind != "flag":
        return _values(option, typed, session)
    if is_shell and before and before[-1] == "--store":
        return []
    if typed.startswith("-"):
        return _options(parameters, before, is_shell=is_shell)
    positional = [one for one in parameters if not one.option]
    if is_shell and command.on in ("conversation", "either"):
        positional.insert(0, Parameter(name="conversation", completes="conversation"))
    at = _positional_count(before, options)
    if at < len(positional):
        return _values(positional[at], typed, session)
    if positional and positional[-1].is_many:
        return _values(positional[-1], typed, session)
    return []


def _options(
    parameters: Sequence[Parameter], before: Sequence[str], *, is_shell: bool
) -> list[Candidate]:
    """The options that can still be given: the command's own, then the shared ones."""
    shared = SHELL_SHARED if is_shell else SHARED
    own = [
        Candidate(one.option, one.help)
        for one in parameters
        if one.option and (one.is_many or one.option not in before)
    ]
    return own + [Candidate(text, help) for text, help in shared.items() if text not in before]


def _positional_count(before: Sequence[str], options: dict[str, Parameter]) -> int:
    """The number of words that are neither an option nor its value."""
    count, rest = 0, list(before)
    while rest:
        word = rest.pop(0)
        option = options.get(word)
        if word == "--store" or (option is not None and option.kind != "flag"):
            rest = rest[1:]
        elif not word.startswith("-"):
            count += 1
    return count


# --- values ---


def _values(parameter: Parameter, typed: str, session: Session | None) -> list[Candidate]:
    kind = parameter.completes
    if parameter.choices:
        return [Candidate(choice) for choice in parameter.choices]
    try:
        if kind in VALUES:
            return list(islice(VALUES[kind](typed), LIMIT))
        if kind in STORED_VALUES and session is not None:
            return list(islice(STORED_VALUES[kind](typed, session), LIMIT))
    except (RefoldError, OSError):
        return []
    return []


def _short(text: str) -> str:
    return one_line(text)[:HELP_CHARS]


def _commands(typed: str) -> Iterable[Candidate]:
    names = (name for name in (*COMMANDS, *ALIASES) if name.startswith(typed))
    return (Candidate(name, _summary(name)) for name in names)


def _models(typed: str) -> Iterable[Candidate]:
    from refold.tokens.models import table as models

    return (Candidate(name) for name in models().models if name.startswith(typed))


def _chat_models(typed: str) -> Iterable[Candidate]:
    """Models as a chat names them: by their provider, or the scripted agent."""
    from refold.edges.chat.scripted import SPEC
    from refold.edges.endpoints.model_names import PROVIDERS
    from refold.tokens.models import table as models

    specs = [SPEC, *(f"{provider}:" for provider in PROVIDERS)]
    for name, one in models().models.items():
        if one.provider in PROVIDERS:
            specs.append(f"{one.provider}:{name}")
    return (Candidate(spec) for spec in specs if spec.startswith(typed))


def _strategies(typed: str) -> Iterable[Candidate]:
    from refold.strategies.registry import BUILT_IN

    return (Candidate(name) for name in BUILT_IN)


def _paths(typed: str, *, folders_only: bool = False) -> Iterable[Candidate]:
    """Names in the folder that is being typed. Hidden ones only if a dot was typed."""
    folder, _, start = typed.rpartition("/")
    before = f"{folder}/" if "/" in typed else ""
    with os.scandir(before or ".") as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        is_hidden = entry.name.startswith(".") and not start.startswith(".")
        is_folder = entry.is_dir()
        if is_hidden or not entry.name.startswith(start) or (folders_only and not is_folder):
            continue
        yield Candidate(f"{before}{entry.name}{'/' if is_folder else ''}")


def _batches(typed: str, session: Session) -> Iterable[Candidate]:
    """The batches that can be reverted, newest first."""
    with session.context() as context:
        batches = [one for one in context.log.batches() if one.live]
    return (Candidate(one.id, _short(one.strategy)) for one in reversed(batches))


def _conversations(typed: str, session: Session) -> Iterable[Candidate]:
    from refold.conversations.listing import newest

    return (Candidate(one.id) for one in newest(session.store) if one.id.startswith(typed))


def _artifacts(typed: str, session: Session) -> Iterable[Candidate]:
    from refold.edges.commands.artifacts import stored_artifacts

    listed = stored_artifacts(session).artifacts.list()
    matching = (one for one in reversed(listed) if one.id.startswith(typed))
    return (Candidate(one.id, _short(one.artifact.name)) for one in matching)


def _points(typed: str, session: Session) -> Iterable[Candidate]:
    with session.context() as context:
        checkpoints = context.view.checkpoints
    return (Candidate(name, f"#{seq}") for name, seq in checkpoints.items())


def _handles(typed: str, session: Session) -> Iterable[Candidate]:
    """The handles of folded slots."""
    with session.context() as context:
        slots = [slot for slot in context.view.slots if slot.edits]
    return (Candidate(str(slot.span), slot.message.role) for slot in slots)


VALUES: dict[str, Callable[[str], Iterable[Candidate]]] = {
    "chat-model": _chat_models,
    "command": _commands,
    "file": _paths,
    "folder": partial(_paths, folders_only=True),
    "model": _models,
    "strategy": _strategies,
}
STORED_VALUES: dict[str, Callable[[str, Session], Iterable[Candidate]]] = {
    "artifact": _artifacts,
    "batch": _batches,
    "conversation": _conversations,
    "handle": _handles,
    "point": _points,
}
