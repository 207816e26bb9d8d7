"""`refold chat`: an agent in the terminal, on the files of this folder.

Neighbour: `edges.chat` is the chat itself, and is loaded when it begins.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Result, Screen, Window, command, number
from refold.edges.commands.handover import HandsOver
from refold.edges.commands.session import Session


class ChatEnded(Result, frozen=True, kw_only=True):
    """The replies of a chat, and the final state of its conversation. `failure` is the code of the
    first error in a script, empty if every request was answered."""

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

    def show(self, screen: Screen) -> None:
        if not self.messages:
            screen.line("Nothing was said.")
            return
        # In a note: the output of a pipe is the replies.
        again = screen.call("chat", "", "--resume", self.conversation)
        screen.note(f"{number(self.messages, 'message')} kept; go on with: {again}")


@command(
    "chat",
    details="Lines that begin with / are commands: /help lists them. @FILE attaches a file. Ctrl-C "
    "stops a reply or a tool, Ctrl-D leaves. Tools stay in this folder.",
    on="store",
)
def chat(
    session: Session,
    *,
    model: Annotated[
        str,
        Meta(
            description="openai:NAME, anthropic:NAME, gemini:NAME, ollama:NAME, llamacpp:NAME, "
            "vllm:NAME, openrouter:NAME, URL#NAME, or scripted.",
            extra={"metavar": "MODEL", "short": "-m", "completes": "chat-model"},
        ),
    ] = "",
    resume: Annotated[
        str,
        Meta(
            description="Continue this conversation; without an ID, the newest.",
            extra={"metavar": "ID", "short": "-r", "bare": "@", "completes": "conversation"},
        ),
    ] = "",
    yes: Annotated[bool, Meta(description="Write files and run commands without asking.")] = False,
    read_only: Annotated[bool, Meta(description="Offer nothing that changes anything.")] = False,
    no_tools: Annotated[
        bool, Meta(description="Offer no tools at all: some small models do not accept any.")
    ] = False,
    cost_max: Annotated[
        float, Meta(description="Stop before the conversation costs more, in dollars.", ge=0)
    ]
    | None = None,
    window: Window | None = None,
    reply_max: Annotated[int, Meta(description="How long a reply may be, in tokens.", ge=1)]
    | None = None,
    allow: Annotated[
        tuple[str, ...],
        Meta(
            description="Another folder that tools may use; may be repeated.",
            extra={"metavar": "FOLDER"},
        ),
    ] = (),
    writer: Annotated[
        bool, Meta(description="Let the chat's model write the summaries of compactions.")
    ] = False,
    handover: HandsOver = False,
) -> ChatEnded:
    from refold.edges.chat.terminal import Options, talk

    options = Options(
        model=model,
        resume=resume,
        yes=yes,
        offered="none" if no_tools else "reading" if read_only else "all",
        cost_max=cost_max,
        window=window,
        reply_tokens_max=reply_max,
        folders=allow,
        writes_summaries=writer,
        hands_over=handover,
    )
    return talk(session, options)
