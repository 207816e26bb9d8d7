"""The chat as a program: the first prompt, then the engine, then the loop until its end.

Where nobody watches and nothing is to be printed, it reads what it is given and says at its end
what was replied. Neighbours: `edges.commands.chat` is the command, `terminal` has the lines,
`start` opens the conversation.
"""

from __future__ import annotations

from refold.edges.chat.terminal import lines_for, read_ahead
from refold.edges.cli.screen import Screen
from refold.edges.commands.chat import ChatArguments, ChatEnded
from refold.edges.commands.session import Session


def talk(session: Session, given: ChatArguments) -> ChatEnded:
    """Runs a chat from its first prompt to its end."""
    watched = session.screen
    screen = watched if isinstance(watched, Screen) else Screen(json_output=True)
    lines = lines_for(screen, session.stdin)
    is_greeted = read_ahead(screen, lines, given)
    # The engine is large: a person who types first does not wait for it.
    from refold.edges.chat.output import Shown
    from refold.edges.chat.slash import obey
    from refold.edges.chat.start import greet, started

    chat = started(session, given, Shown(screen), lines)
    try:
        if lines.can_ask and not is_greeted:
            greet(chat)
        chat.run(obey)
        stats = chat.context.stats()
    finally:
        chat.close()
    return ChatEnded(
        conversation=chat.context.id,
        model=chat.endpoint.model.spec,
        replies=tuple(chat.replies),
        messages=stats.messages,
        tokens=stats.current,
        window=stats.window,
        cost=stats.cost,
        # Who types has seen it; a script is told by the exit status.
        failure="" if lines.can_ask else chat.failure,
    )
