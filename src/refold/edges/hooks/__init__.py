"""Hooks of other agents: what Claude Code calls after every tool, before a compaction and after it.

`refold hook claude-code event` reads one event on standard input and answers it. It is called many
times a minute, so it is the standard library until an output is large, and everything slow is left
to a process of its own. It never disturbs the agent: whatever happens, it says nothing and ends
well, and the reason stands in our own log (`state`). Neighbours: `events` has what each event leads
to, `follower` writes the session to a store, `settings_file` installs.
"""

from __future__ import annotations

import sys

# Claude Code waits ten seconds for a hook, and puts the whole output of a tool into an event.
EVENT_BYTES_MAX, READ_S = 512 * 1024 * 1024, 8.0
ABOVE_CHARS = 16_000  # from this size on, an output becomes an artifact


def main(args: list[str]) -> None:
    """Answers the event on standard input."""
    from refold.edges.hooks import state

    try:
        from refold.edges.hooks.events import answer
        from refold.edges.statusline import given_input

        said = answer(given_input(EVENT_BYTES_MAX, READ_S), _above(args), _store(args))
        if said:
            sys.stdout.write(said)
            sys.stdout.flush()
    except Exception as error:
        state.log_error("event", error)


def _above(args: list[str]) -> int:
    value = _option(args, "--above")
    return int(value) if value.isdecimal() else ABOVE_CHARS


def _store(args: list[str]) -> str:
    return _option(args, "--store")


def _option(args: list[str], name: str) -> str:
    """The value after a name; empty if it is not there."""
    return args[args.index(name) + 1] if name in args[:-1] else ""
