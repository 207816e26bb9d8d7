"""What comes in becomes drafts of events: counted once, and a large tool result moved out of the
way.

A tool result above `offload_tokens` is kept whole as an artifact; the message shows a stub in its
place. In a message that the caller put together itself only a result larger than the window goes
that way. Its artifact is drafted before the message that names it. Neighbours: `offload` makes
stubs, `engine` appends the drafts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from refold.artifacts import offload
from refold.artifacts.describe import summarized
from refold.artifacts.values import Written
from refold.config import Config
from refold.core.budget import offload_tokens
from refold.core.model import Artifact, Body, Message, Origin, Text, ToolCall, ToolResult
from refold.log.log import Draft
from refold.stores.protocol import Store
from refold.tokens.counter import MESSAGE_TOKENS, Counter, count_message

# What no counter of any use exceeds: with them, counting is spared at both ends.
CHARS_PER_TOKEN_MAX, TOKENS_PER_CHAR_MAX = 8, 4

Calls = Callable[[str], ToolCall | None]
Tell = Callable[..., None]


def _unheard(name: str, **fields: Any) -> None:
    """Nobody is told."""


class Desk:
    """Where drafts are made, for one store, configuration and counter. `calls` finds a tool call
    on the page; `tell` hears what is kept out of the page, and which function of the caller's
    failed (see `notices`)."""

    def __init__(
        self, store: Store, config: Config, counter: Counter, calls: Calls, tell: Tell = _unheard
    ) -> None:
        self.store, self.config, self.counter, self.calls, self.tell = (
            store,
            config,
            counter,
            calls,
            tell,
        )
        self.sized_for(0)

    def sized_for(self, window: int) -> None:
        """Lets the sizes from which results are moved out follow the window."""
        self.result_tokens_max = offload_tokens(self.config, window)
        self.message_tokens_max = (
            self.result_tokens_max if self.config.offload_tokens is not None else window
        )

    def draft(self, body: Body, tokens: int = 0, by: str = "user") -> Draft:
        if not by.isascii():
            by = by.encode(
                "utf-8", "replace"
            ).decode()  # a tool's name is data and may hold anything
        return Draft(body=body, by=by, tokens=tokens, counter=self.counter.name if tokens else "")

    def message(self, message: Message, by: str | None = None) -> list[Draft]:
        """A message as it is to be appended, behind the artifacts of its large results."""
        drafts: list[Draft] = []
        blocks = []
        for block in message.blocks:
            if isinstance(block, ToolResult) and self._is_large(block, self.message_tokens_max):
                origin = offload.origin_of(self.calls(block.call), self._failed, name=block.name)
                artifact, block = self._moved(block, "\n".join(_texts(block)), origin)
                drafts.append(self.draft(artifact, by=f"tool:{origin.tool}"))
            blocks.append(block)
        if drafts:
            message = replace(message, blocks=tuple(blocks))
        return [*drafts, self._counted(message, by)]

    def _counted(self, message: Message, by: str | None = None) -> Draft:
        return self.draft(message, count_message(message, self.counter), by or author(message))

    def result(
        self,
        call: str,
        content: offload.Content,
        *,
        is_error: bool,
        name: str,
        task: str,
        query: str,
    ) -> list[Draft]:
        """What a tool call gave, as a message of its own. Its mime says that it was data, and no
        text that looks the same."""
        asked = self.calls(call)
        result = ToolResult(call, is_error=is_error, name=name or (asked.name if asked else ""))
        by = f"tool:{result.name}" if result.name else "tool"
        mime = offload.JSON if isinstance(content, Written) else None
        if isinstance(content, Written) and content.whole is not None:
            content = content.whole.decode()
        if (
            isinstance(content, str)
            and (small := self._small(result, content, by, mime)) is not None
        ):
            return [small]
        origin = offload.origin_of(asked, self._failed, name=name, task=task, query=query)
        artifact, stubbed = self._moved(result, content, origin, mime)
        return [self.draft(artifact, by=by), self._counted(_answer(stubbed, mime), by)]

    def _small(self, result: ToolResult, text: str, by: str, mime: str | None) -> Draft | None:
        """The result whole, counted, unless it is so large that it is to be moved out."""
        limit, stays = self.result_tokens_max, self._stays(result)
        if not stays and len(text) > limit * CHARS_PER_TOKEN_MAX:
            return None
        whole = replace(result, content=(Text(text),)) if text else result
        draft = self._counted(_answer(whole, mime), by)
        return draft if stays or draft.tokens - MESSAGE_TOKENS <= limit else None

    def _is_large(self, result: ToolResult, limit: int) -> bool:
        if result.artifact or self._stays(result):
            return False
        texts = _texts(result)
        characters = sum(map(len, texts))
        if characters > limit * CHARS_PER_TOKEN_MAX:
            return True
        return characters * TOKENS_PER_CHAR_MAX > limit and sum(map(self.counter, texts)) > limit

    def _stays(self, result: ToolResult) -> bool:
        """Whether a result is never moved out, by the name of its tool."""
        asked = None if result.name else self.calls(result.call)
        name = asked.name if asked else result.name
        return name in self.config.exclude_tools or offload.is_own(name)

    def _moved(
        self, result: ToolResult, content: offload.Content, origin: Origin, mime: str | None = None
    ) -> tuple[Artifact, ToolResult]:
        name = origin.description or "output"
        artifact = offload.kept(
            self.store, content, name=name, type="command_output", mime=mime, origin=origin
        )
        summary = (
            summarized(lambda: offload.sample(content), origin, self._failed)
            if artifact.size_chars
            else ""
        )
        shown = offload.stub(artifact, content, self.store.location(artifact.digest), summary)
        self.tell(
            "output-kept",
            details={"handle": artifact.id, "bytes": artifact.size_bytes, "tool": origin.tool},
        )
        others = tuple(part for part in result.content if not isinstance(part, Text))
        return artifact, replace(result, content=(Text(shown), *others), artifact=artifact.id)

    def _failed(self, reason: str) -> None:
        self.tell("hook-failed", reason=reason)


def _answer(result: ToolResult, mime: str | None) -> Message:
    return Message(role="tool", blocks=(result,), metadata={"mime": mime} if mime else {})


def _texts(result: ToolResult) -> list[str]:
    return [part.text for part in result.content if isinstance(part, Text)]


def author(message: Message) -> str:
    """Who wrote a message, where the caller does not say."""
    if message.role == "assistant":
        return "model"
    results = [block for block in message.blocks if isinstance(block, ToolResult)]
    if results and results[0].name:
        return f"tool:{results[0].name}"
    return "tool" if message.role == "tool" else message.role
