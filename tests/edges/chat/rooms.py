"""A chat without a terminal: replies that are written down, lines that are given, output to read."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from refold.config import Config
from refold.edges.chat.loop import Chat
from refold.edges.chat.output import Shown
from refold.edges.chat.terminal import Options
from refold.edges.chat.tools import Workspace
from refold.edges.cli.screen import Screen
from refold.edges.endpoints.model_names import NamedModel
from refold.edges.workspace import guarded
from refold.stores import open_store
from refold.stores.protocol import Store

Reply = Sequence[Any]


class Terminal(io.StringIO):
    """Text that a person would see, as a terminal would be given it."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class GivenLines:
    """Lines and answers that were written before."""

    shows_status = False

    def __init__(self, *lines: str, answers: Sequence[str] = (), can_ask: bool = True) -> None:
        self.lines, self.answers, self.can_ask = list(lines), list(answers), can_ask
        self.asked: list[str] = []

    def read(self, status: str) -> str | None:
        return self.lines.pop(0) if self.lines else None

    def ask(self, question: str) -> str:
        self.asked.append(question)
        return self.answers.pop(0) if self.answers else ""


class Replies:
    """A model that gives these replies, one after the other. A reply is a list of chunks; what is
    callable in it is called, an error is raised."""

    def __init__(
        self, *replies: Reply, name: str = "gpt-4o", url: str = "https://x.invalid"
    ) -> None:
        self.replies, self.requests = list(replies), []
        self.model = NamedModel(spec=f"openai:{name}", kind="openai", url=url, name=name)
        self.call = {"dialect": "openai_chat", "model": name}

    def stream(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self.requests.append(request)
        for chunk in self.replies.pop(0):
            if isinstance(chunk, Exception):
                raise chunk
            if callable(chunk):
                chunk()
            else:
                yield chunk


def said(text: str, *, usage: dict[str, int] | None = None) -> list[dict[str, Any]]:
    """A reply of some words."""
    words = [delta({"content": word}) for word in text.split(" ")]
    end = {"choices": [], "usage": usage} if usage else {"choices": []}
    return [*words, delta({}, "stop"), end]


def called(name: str, arguments: str, id: str = "c1") -> list[dict[str, Any]]:
    """A reply that calls a tool."""
    function = {"name": name, "arguments": arguments}
    call = {"index": 0, "id": id, "type": "function", "function": function}
    return [delta({"tool_calls": [call]}), delta({}, "tool_calls")]


def delta(given: dict[str, Any], finished: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": given, "finish_reason": finished}
    return {"object": "chat.completion.chunk", "choices": [choice]}


def chat_in(
    folder: Path,
    endpoint: Any,
    lines: GivenLines | None = None,
    *,
    id: str = "talk",
    store: Store | None = None,
    config: Config | None = None,
    **options: Any,
) -> Chat:
    store = store or open_store("memory:")
    chat = Chat(
        store,
        id,
        endpoint,
        config=config or Config(),
        options=Options(**options),
        workspace=Workspace(folder, guards=guarded(store)),
        shown=Shown(Screen(out=Terminal())),
        lines=lines or GivenLines(),
    )
    return chat


def printed(chat: Chat) -> str:
    """All that was printed, with its colors."""
    out = chat.shown.screen.out
    assert isinstance(out, io.StringIO)
    return out.getvalue()


def seen(chat: Chat) -> str:
    """What a person sees of it."""
    return re.sub(r"\x1b\[\d+m", "", printed(chat))


def words(chat: Chat) -> str:
    """The same in one line, wherever the terminal broke it."""
    return " ".join(seen(chat).split())


def roles(chat: Chat) -> list[str]:
    return [slot.message.role for slot in chat.context.view.slots]


Act = Callable[[], None]
