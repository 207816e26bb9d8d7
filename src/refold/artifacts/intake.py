"""What comes in becomes drafts of events: counted once, with large tool results moved out of the
way.

A tool result above `offload_tokens` is kept whole as an artifact; the message shows a stub in its
place. In a message that the caller put together itself only a result larger than half the window
goes that way, unless the model binds its thinking to what it read. Artifacts are drafted before the
message that names them. Neighbours: `output` reads what a tool gave, `offload` keeps it, `stub` has
what is shown in its place, the engine appends the drafts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict, Unpack

import msgspec
from msgspec.structs import replace

from refold.artifacts import offload
from refold.artifacts.output import FORM, Content, Output
from refold.artifacts.stub import stub_of
from refold.artifacts.types import type_of_output
from refold.core.budget import offload_tokens
from refold.core.model import ORIGIN, Artifact, Message, Origin, Text, ToolResult
from refold.log.draft import Draft
from refold.log.notices import Notice
from refold.log.open_log import OpenLog
from refold.redaction import redactor
from refold.stores import synced_of
from refold.strategies.reach import unfolder
from refold.tokens.counter import MESSAGE_TOKENS, count_message

# What no counter of any use exceeds: with them, counting is spared at both ends.
CHARS_PER_TOKEN_MAX, TOKENS_PER_CHAR_MAX = 8, 4
HALVED_FROM = 64_000  # the window from which half of it is too much for one result

Metadata = dict[str, Any]


def whole_tokens(window: int) -> int:
    """The size up to which a result in the caller's own message is shown whole. In a small window
    the whole result serves the next steps better than any stub does."""
    return window // 2 if window >= HALVED_FROM else window


class ResultFields(TypedDict):
    """What is said of a result besides its call and its output."""

    is_error: bool
    name: str
    task: str
    query: str
    key: str


class Intake:
    """Makes drafts for one open log. `resize` says from which size on results are moved out."""

    def __init__(self, log: OpenLog) -> None:
        self._log = log
        self.resize(0)

    def resize(self, window: int, *, bound: bool = False) -> None:
        """Lets the sizes from which results are moved out follow the window. A model whose thinking
        is `bound` to what it read cannot be shown a result shortened later: for it, results in the
        caller's own messages are moved out as early as others."""
        self._config = self._log.config
        self._redact = redactor(self._config.redact, "summaries")
        self.result_tokens_max = offload_tokens(self._config, window)
        is_early = bound or self._config.offload_tokens is not None
        self.message_tokens_max = self.result_tokens_max if is_early else whole_tokens(window)

    def message(
        self,
        message: Message,
        by: str | None = None,
        *,
        at_ms: int | None = None,
        ahead: Sequence[Message] = (),
    ) -> list[Draft]:
        """A message as it is to be appended, after the artifacts of its large results. `ahead` is
        what is appended before it and not in the log yet."""
        drafts: list[Draft] = []
        blocks = list(message.blocks)
        for place, block in enumerate(message.blocks):
            if type(block) is ToolResult and self._is_large(block, ahead):
                origin = offload.origin_of(
                    self._log.log.call(block.call, ahead),
                    self._report_failure,
                    name=block.name,
                    redact=self._redact,
                )
                artifact, blocks[place] = self._move_out(block, "\n".join(_texts(block)), origin)
                by_tool = f"tool:{origin.tool}"
                drafts.append(self._log.draft(artifact, by=by_tool, at_ms=at_ms))
        if drafts:
            message = replace(message, blocks=tuple(blocks))
        return [*drafts, self._counted(message, by, at_ms)]

    def _counted(self, message: Message, by: str | None = None, at_ms: int | None = None) -> Draft:
        tokens = count_message(message, self._log.counter)
        return self._log.draft(message, tokens, by or author(message), at_ms)

    def result(self, call: str, output: Output, **given: Unpack[ResultFields]) -> list[Draft]:
        """What a tool call gave, as a message of its own, after the artifacts of its media and of
        its text, if that is large. The message says what makes the value whole again."""
        asked = self._log.log.call(call)
        name = given["name"] or (asked.name if asked else "")
        result = ToolResult(call, is_error=given["is_error"], name=name)
        by = f"tool:{name}" if name else "tool"
        about = _about(output)
        if not output.found and not given["task"] and not given["query"]:
            small = self._small(result, output, about, by, given["key"])
            if small is not None:
                return [small]
        origin = offload.origin_of(
            asked,
            self._report_failure,
            name=given["name"],
            task=given["task"],
            query=given["query"],
            redact=self._redact,
        )
        drafts = [self._log.draft(one, by=by) for one in self._kept_media(output, origin)]
        about_origin = {**about, ORIGIN: msgspec.to_builtins(origin)}
        is_grouped = bool(given["task"] or given["query"])
        told = about_origin if is_grouped else about
        small = self._small(result, output, told, by, given["key"])
        if small is not None:
            return [*drafts, small]
        with_media = replace(result, content=output.media)
        artifact, stubbed = self._move_out(with_media, output.content, origin, output.mime)
        drafts.append(self._log.draft(artifact, by=by))
        return [*drafts, self._counted(_answer(stubbed, about, given["key"]), by)]

    def _kept_media(self, output: Output, origin: Origin) -> Iterator[Artifact]:
        """The media of an output as artifacts, each once."""
        for one in {one.id: one for one in output.found if one.content}.values():
            yield offload.keep(
                self._log.store,
                one.content,
                name=one.media.name or origin.description or "output",
                type=type_of_output(origin, self._config.tool_kinds),
                mime=one.media.mime or None,
                origin=origin,
            )

    def _small(
        self, result: ToolResult, output: Output, about: Metadata, by: str, key: str
    ) -> Draft | None:
        """The result whole, counted, unless it is so large that it is to be moved out."""
        text = output.text
        limit, stays = self.result_tokens_max, self._stays(result)
        if text is None or (not stays and len(text) > limit * CHARS_PER_TOKEN_MAX):
            return None
        blocks = output.blocks or ((Text(text),) if text else ()) + output.media
        draft = self._counted(_answer(replace(result, content=blocks), about, key), by)
        if stays or draft.tokens - MESSAGE_TOKENS <= limit:
            return draft
        is_small = bool(output.found) and self._log.counter(text) <= limit
        return draft if is_small else None

    def _is_large(self, result: ToolResult, ahead: Sequence[Message]) -> bool:
        texts, limit = _texts(result), self.message_tokens_max
        characters = sum(map(len, texts))
        if characters * TOKENS_PER_CHAR_MAX <= limit:
            return False
        if result.artifact or self._stays(result, ahead):
            return False
        if characters > limit * CHARS_PER_TOKEN_MAX:
            return True
        return sum(map(self._log.counter, texts)) > limit

    def _stays(self, result: ToolResult, ahead: Sequence[Message] = ()) -> bool:
        """Whether a result is never moved out, by the name of its tool."""
        asked = None if result.name else self._log.log.call(result.call, ahead)
        name = asked.name if asked else result.name
        return name in self._config.exclude_tools or offload.is_own(name)

    def _move_out(
        self, result: ToolResult, content: Content, origin: Origin, mime: str | None = None
    ) -> tuple[Artifact, ToolResult]:
        """The result with a stub in place of its text, and the artifact that has the text."""
        tool = unfolder(self._log.known)
        stub = stub_of(content, origin, self._report_failure, tool=tool, redact=self._redact)
        artifact = offload.keep(
            self._log.store,
            content,
            name=origin.description or "output",
            type=type_of_output(origin, self._config.tool_kinds),
            mime=mime,
            origin=origin,
        )
        shown = stub.text(artifact, self._location(artifact))
        details = {"handle": artifact.id, "bytes": artifact.size_bytes, "tool": origin.tool}
        self._log.notices.add(Notice(name="artifact-kept", details=details))
        others = tuple(part for part in result.content if not isinstance(part, Text))
        return artifact, replace(result, content=(Text(shown), *others), artifact=artifact.id)

    def _location(self, artifact: Artifact) -> str | None:
        """The file that a stub names. One of a log that is synced names none: others read it, and a
        path of this device leads nowhere there, and shows its folders."""
        store = self._log.store
        return None if synced_of(store) else store.location(artifact.digest)

    def _report_failure(self, reason: str) -> None:
        self._log.notify("hook-failed", reason)


def _answer(result: ToolResult, about: Metadata, key: str) -> Message:
    return Message(role="tool", blocks=(result,), metadata=about, key=key)


def _about(output: Output) -> Metadata:
    """What the value of a result is made of, where its text alone does not say it."""
    about: Metadata = {"mime": output.mime} if output.mime else {}
    return about if output.form is None else {**about, FORM: output.form}


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
