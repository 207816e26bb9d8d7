"""`refold chat`: an agent in the terminal, on the files of this folder.

Neighbour: `edges.chat` is the chat itself, and is loaded when it begins.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from refold.edges.commands.command import Arguments, Command, Result, Screen, number
from refold.edges.commands.session import Session

MODEL = Meta(
    description="openai:NAME, anthropic:NAME, gemini:NAME, ollama:NAME, llamacpp:NAME, vllm:NAME, "
    "openrouter:NAME, URL#NAME, or scripted.",
    extra={"metavar": "MODEL", "short": "-m", "completes": "chat-model"},
)
CONTINUE = Meta(description="Continue the newest conversation.", extra={"short": "-c"})
RESUME = Meta(
    description="Continue this conversation.",
    extra={"metavar": "ID", "short": "-r", "completes": "conversation"},
)
YES = Meta(description="Write files and run commands without asking.")
READ_ONLY = Meta(description="Offer no tool that writes or runs something.")
NO_TOOLS = Meta(description="Offer no tools at all: some small models do not accept any.")
COST_MAX = Meta(description="Stop before the conversation costs more, in dollars.", ge=0)
REPLY_MAX = Meta(description="How long a reply may be, in tokens.", ge=1)
WINDOW = Meta(description="The window to work in, in tokens.", ge=1)
ALLOW = Meta(
    description="Another folder that tools may use; may be repeated.", extra={"metavar": "FOLDER"}
)
WRITER = Meta(description="Let the chat's model write the summaries of compactions.")


class ChatArguments(Arguments, frozen=True, kw_only=True):
    model: Annotated[str, MODEL] = ""
    continue_: Annotated[bool, CONTINUE] = field(default=False, name="continue")
    resume: Annotated[str, RESUME] = ""
    yes: Annotated[bool, YES] = False
    read_only: Annotated[bool, READ_ONLY] = False
    no_tools: Annotated[bool, NO_TOOLS] = False
    cost_max: Annotated[float, COST_MAX] | None = None
    window: Annotated[int, WINDOW] | None = None
    reply_max: Annotated[int, REPLY_MAX] | None = None
    allow: Annotated[tuple[str, ...], ALLOW] = ()
    writer: Annotated[bool, WRITER] = False


class ChatEnded(Result, frozen=True, kw_only=True):
    """A chat that is over: what the model said in it, and what the conversation is now. `failure`
    is the code of the error by which the last request of a script ended, empty if it was
    answered."""

    conversation: str
    model: str
    replies: tuple[str, ...]
    messages: int
    tokens: int
    window: int
    cost: float | None
    failure: str = ""

    @property
    def outcome(self) -> str:
        return self.failure or "ok"


def run(session: Session, arguments: ChatArguments) -> ChatEnded:
    from refold.edges.chat.start import talk

    return talk(session, arguments)


def show(ended: ChatEnded, screen: Screen) -> None:
    if not ended.messages:
        screen.line("Nothing was said.")
        return
    # Beside the output: in a pipe, that is what was replied.
    kept = f"{number(ended.messages, 'message')} kept"
    again = screen.call("chat", "", "--resume", ended.conversation)
    screen.note(f"{kept}; go on with: {again}")


CHAT = Command(
    name="chat",
    details="Lines that begin with / are commands: /help lists them. @FILE attaches a file. Ctrl-C "
    "stops a reply or a tool, Ctrl-D leaves. Tools stay in this folder.",
    on="store",
    arguments=ChatArguments,
    run=run,
    show=show,
)
