"""Hooks for other agents: Claude Code calls them after every tool, and around a compaction.

`refold hook claude-code event` reads one event on standard input and answers it. It runs many times
a minute, so it uses the standard library until an output is large, and leaves slow work to another
process. It never disturbs the agent: on any error it prints nothing, exits normally, and logs the
reason (`state`). Neighbours: `events` answers events, `follower` writes the session to a store.
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

        above = _option(args, "--above")
        above_chars = int(above) if above.isdecimal() else ABOVE_CHARS
        event = given_input(EVENT_BYTES_MAX, READ_S)
        if text := answer(event, above_chars, _option(args, "--store")):
            sys.stdout.write(text)
            sys.stdout.flush()
    except Exception as error:
        state.log_error("event", error)


def _option(args: list[str], name: str) -> str:
    """The argument after a name; empty if the name is missing."""
    return args[args.index(name) + 1] if name in args[:-1] else ""
