"""The log follows a client's list: what is new in it is written.

First words that the provider refused as too long are written and made shorter. The same words give
the same page each time, so they are tried out in a book that keeps nothing, and written to the log
only with their answer. Neighbours: `observer` says when, `book` opens conversations.
"""

from __future__ import annotations

from refold.edges.proxy.body import Asked
from refold.edges.proxy.book import Book, Held
from refold.engine.mirror import Unchanging

Refusal = dict[str, int | str]  # the status and the body of an answer to what was not taken


def mirror(held: Held, asked: Asked) -> None:
    """Hands the list over; what stands beside it only if it is not what came last time."""
    messages = Unchanging(asked.messages)
    if asked.beside == held.beside:
        mirrored = held.mirror(messages)
    else:
        mirrored = held.mirror(messages, asked)
        held.beside = asked.beside
    held.places = mirrored.seqs
    if mirrored.kind == "amended" and mirrored.first_new < len(messages):
        # The client has other words than came: each answer taken would be written twice.
        held.takes_replies = False


def take_refused(book: Book, held: Held, asked: Asked, refusal: Refusal) -> bool:
    """Writes first words that were refused, and makes them shorter. False if the refusal is not
    about their size."""
    mirror(held, asked)
    held.context.close()
    # What a conversation has when it is opened is taken for what was shown, and refused.
    held.context = book.open(asked, held.context.id, held.native)
    held.is_swapped = held.context.recover(refusal)
    return held.is_swapped
