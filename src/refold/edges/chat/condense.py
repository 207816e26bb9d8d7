"""`/condense`: the model of the chat writes a summary, and the person accepts it or says what is
wrong with it.

Both are ordinary messages of the log. What is said about a summary goes to the model, which writes
another; nothing leaves the page before one is accepted. Neighbours: `edges.commands.condense` says
what then leaves it, `slash` calls `is_agreed`.
"""

from __future__ import annotations

from refold.core.model import View
from refold.edges.chat.loop import Chat
from refold.edges.commands.condense import FEEDBACK_TEXT, summary_of
from refold.engine.context import Context
from refold.errors import Invalid
from refold.log.unfold import body_text

ROUNDS_MAX = 10
ASKED = "Condense this conversation."
REQUEST = (
    f"{ASKED} Write a summary that can stand for all of it: what I asked for, what was done and "
    "decided, which files, names and values matter, and what is still to do. Call no tool. Once I "
    "accept it, only my first request, its answer, this request and your summary stay before you."
)
QUESTION = "Accept this summary? [y]es, [n]o, or say what is wrong with it:"


def is_agreed(chat: Chat, wish: str) -> bool:
    """Lets the model write a summary, with the person's wish, and again with whatever the person
    says about it; gives whether one was accepted."""
    text, head = _request(chat.context.view, wish), chat.context.view.head
    for _ in range(ROUNDS_MAX):
        chat.answer(text)
        if chat.failure or not summary_of(chat.context.view) or not chat.lines.can_ask:
            return False
        answer = _answer(chat)
        if answer.lower() in ("y", "yes"):
            return True
        if answer.lower() in ("", "n", "no"):
            break
        text = FEEDBACK_TEXT + answer
    chat.shown.aside(_left(chat.context, head))
    return False


def _answer(chat: Chat) -> str:
    """What the person says about the summary. A command is none: it would go to the model."""
    for _ in range(ROUNDS_MAX):
        answer = chat.lines.ask(QUESTION).strip()
        if not answer.startswith("/"):
            return answer
        chat.shown.aside("Commands come after this question.")
    return ""


def _left(context: Context, head: int) -> str:
    """What left the page although nothing was accepted: the request for a summary is a request
    like any other, and may have needed room."""
    made = [one.id for one in context.log.batches() if one.seq > head and one.live]
    if not made:
        return "Nothing left the page."
    back = ", then ".join(f"/revert {id}" for id in reversed(made))
    return f"No summary was accepted. To make room, older messages left the page; back with: {back}"


def _request(view: View, wish: str) -> str:
    """What the model is asked: for a summary, or for a better one where it has just written one."""
    if not view.slots:
        raise Invalid("there is nothing to condense yet", hint="ask something first")
    if not wish:
        return REQUEST
    if _is_about_a_summary(view):
        return FEEDBACK_TEXT + wish
    return f"{REQUEST}\n\nAbove all: {wish}"


def _is_about_a_summary(view: View) -> bool:
    """Whether the newest request asks for a summary."""
    requests = [slot.message for slot in view.slots if slot.message.role == "user"]
    newest = body_text(requests[-1]) if requests else ""
    return newest.startswith((ASKED, FEEDBACK_TEXT))
