"""Incoming messages and results become drafts of events: counted once, with large tool results
moved out as artifacts.

A tool result above `offload_tokens` is stored verbatim as an artifact, and the message has a stub
instead. In a message that the caller built itself only a result larger than half the window is
moved out, unless the model binds its thinking to its input. This happens at append, before the
result is ever sent: no cache is broken, and no thinking is bound to it. An artifact's type follows
from its tool or its file name, never from its content. Neighbours: `tool_output` reads an output,
`stub` has its replacement, the engine appends the drafts, artifacts before the message that names
them.
"""

from __future__ import annotations

import codecs
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, get_args, get_type_hints

import msgspec
from msgspec.structs import replace

from refold import decoding
from refold.artifacts.json_values import Written
from refold.artifacts.stub import Failed, call_description, stub_of
from refold.artifacts.tool_output import BYTES, FORM, JSON, TEXT, Content, Output
from refold.core.budget import offload_tokens
from refold.core.call_arguments import canonical_arguments, decoded
from refold.core.ids import artifact_id
from refold.core.model import (
    ORIGIN,
    Artifact,
    ArtifactType,
    Message,
    Origin,
    Text,
    ToolCall,
    ToolResult,
)
from refold.errors import Invalid
from refold.ledger.arguments import paths_of
from refold.ledger.facts import ActionKind
from refold.ledger.tools import kind_by_name
from refold.log.draft import Draft
from refold.log.notices import Notice
from refold.log.open_log import OpenLog
from refold.patterns import regex
from refold.redaction import redactor
from refold.stores import is_redacting, synced_of
from refold.stores.protocol import Store
from refold.strategies.brief import unfolder
from refold.tokens.counter import MESSAGE_TOKENS, count_message

if TYPE_CHECKING:
    from refold.redaction import Redact

# No useful counter is outside these bounds, so very small and very large text need not be counted.
CHARS_PER_TOKEN_MAX, TOKENS_PER_CHAR_MAX = 8, 4
HALVED_FROM = 64_000  # from this window on, half of it is too much for one result
CHUNK_CHARS = 256 * 1024
ARGUMENTS_BYTES = 512
OWN_TOOLS = ("refold_search", "refold_unfold", "refold_grep", "refold_artifacts")  # see `toolbox`
TYPES = get_args(get_type_hints(Artifact)["type"])
SUFFIXES = {
    TEXT: ".txt",
    JSON: ".json",
    "text/markdown": ".md",
    "text/html": ".html",
    "text/csv": ".csv",
    BYTES: ".bin",
}
_BY_KIND: dict[ActionKind, ArtifactType] = {
    "read": "file",
    "create": "file",
    "modify": "file",
    "search": "search_result",
}
_FILE = regex(r"(.*[/\\])?([^/\\]*\.[A-Za-z][\w+-]{0,15}|[A-Z][a-z]+file)")

Metadata = dict[str, Any]


def whole_tokens(window: int) -> int:
    """The size up to which a result in the caller's own message is shown whole. In a small window
    the whole result is more useful for the next steps than any stub."""
    return window // 2 if window >= HALVED_FROM else window


class ResultFields(TypedDict):
    """The fields of a result besides its call and its output."""

    is_error: bool
    name: str
    task: str
    query: str
    key: str


class Intake:
    """Creates drafts for one open log. `resize` sets the size above which results are moved out."""

    def __init__(self, log: OpenLog) -> None:
        self._log = log
        self.resize(0)

    def resize(self, window: int, *, bound: bool = False) -> None:
        """Adapts the limits to the window. A model with thinking `bound` to its input cannot be
        shown a result shortened later: for it, results in the caller's own messages are moved out
        as early as all others."""
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
        """The drafts of a message, after the artifacts of its large results. `ahead` are messages
        to be appended before it."""
        drafts: list[Draft] = []
        blocks = list(message.blocks)
        for index, block in enumerate(message.blocks):
            if type(block) is ToolResult and self._is_large(block, ahead):
                origin = origin_of(
                    self._log.log.call(block.call, ahead),
                    self._report_failure,
                    name=block.name,
                    redact=self._redact,
                )
                artifact, blocks[index] = self._move_out(block, "\n".join(_texts(block)), origin)
                by_tool = f"tool:{origin.tool}"
                drafts.append(self._log.draft(artifact, by=by_tool, at_ms=at_ms))
        if drafts:
            message = replace(message, blocks=tuple(blocks))
        return [*drafts, self._counted(message, by, at_ms)]

    def _counted(self, message: Message, by: str | None = None, at_ms: int | None = None) -> Draft:
        tokens = count_message(message, self._log.counter)
        return self._log.draft(message, tokens, by or author(message), at_ms)

    def result(self, call: str, output: Output, **fields: Unpack[ResultFields]) -> list[Draft]:
        """The drafts of a tool's result as a message of its own, after the artifacts of its media
        and of its text, if that is large. The message has the metadata to restore the value."""
        asked = self._log.log.call(call)
        name = fields["name"] or (asked.name if asked else "")
        result = ToolResult(call, is_error=fields["is_error"], name=name)
        by = f"tool:{name}" if name else "tool"
        metadata: Metadata = {"mime": output.mime} if output.mime else {}
        if output.form is not None:
            metadata[FORM] = output.form
        is_grouped = bool(fields["task"] or fields["query"])
        if not output.found and not is_grouped:
            small = self._small(result, output, metadata, by, fields["key"])
            if small is not None:
                return [small]
        origin = origin_of(
            asked,
            self._report_failure,
            name=fields["name"],
            task=fields["task"],
            query=fields["query"],
            redact=self._redact,
        )
        drafts = [self._log.draft(artifact, by=by) for artifact in self._kept_media(output, origin)]
        with_origin = {**metadata, ORIGIN: msgspec.to_builtins(origin)} if is_grouped else metadata
        small = self._small(result, output, with_origin, by, fields["key"])
        if small is not None:
            return [*drafts, small]
        with_media = replace(result, content=output.media)
        artifact, stubbed = self._move_out(with_media, output.content, origin, output.mime)
        drafts.append(self._log.draft(artifact, by=by))
        return [*drafts, self._counted(_answer(stubbed, metadata, fields["key"]), by)]

    def _kept_media(self, output: Output, origin: Origin) -> Iterator[Artifact]:
        """The media of an output as artifacts, each once."""
        for found in {found.id: found for found in output.found if found.content}.values():
            yield store_content(
                self._log.store,
                found.content,
                name=found.media.name or origin.description or "output",
                type=type_of_output(origin, self._config.tool_kinds),
                mime=found.media.mime or None,
                origin=origin,
            )

    def _small(
        self, result: ToolResult, output: Output, about: Metadata, by: str, key: str
    ) -> Draft | None:
        """The whole result, counted; None if it is large enough to be moved out."""
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
        """Whether a result is never moved out, by its tool's name."""
        asked = None if result.name else self._log.log.call(result.call, ahead)
        name = asked.name if asked else result.name
        return name in self._config.exclude_tools or is_own(name)

    def _move_out(
        self, result: ToolResult, content: Content, origin: Origin, mime: str | None = None
    ) -> tuple[Artifact, ToolResult]:
        """The artifact of a result's text, and the result with a stub instead of it."""
        tool = unfolder(self._log.metadata)
        stub = stub_of(content, origin, self._report_failure, tool=tool, redact=self._redact)
        artifact = store_content(
            self._log.store,
            content,
            name=origin.description or "output",
            type=type_of_output(origin, self._config.tool_kinds),
            mime=mime,
            origin=origin,
        )
        # A stub in a synced log names no file: on other devices a path would be wrong, and would
        # reveal the folders of this one.
        store = self._log.store
        location = None if synced_of(store) else store.location(artifact.digest)
        shown = stub.text(artifact, location)
        details = {"handle": artifact.id, "bytes": artifact.size_bytes, "tool": origin.tool}
        self._log.notices.add(Notice(name="artifact-kept", details=details))
        others = tuple(part for part in result.content if not isinstance(part, Text))
        return artifact, replace(result, content=(Text(shown), *others), artifact=artifact.id)

    def _report_failure(self, reason: str) -> None:
        self._log.notify("hook-failed", reason)


def _answer(result: ToolResult, about: Metadata, key: str) -> Message:
    return Message(role="tool", blocks=(result,), metadata=about, key=key)


def _texts(result: ToolResult) -> list[str]:
    return [part.text for part in result.content if isinstance(part, Text)]


def author(message: Message) -> str:
    """The author of a message, if the caller does not name one."""
    if message.role == "assistant":
        return "model"
    results = [block for block in message.blocks if isinstance(block, ToolResult)]
    if results and results[0].name:
        return f"tool:{results[0].name}"
    return "tool" if message.role == "tool" else message.role


def is_own(tool: str) -> bool:
    """Whether a tool belongs to refold. Its output is bounded already, and a stub would only refer
    to the same tool again."""
    return tool in OWN_TOOLS


def store_content(
    store: Store, content: Content, *, name: str, type: str, mime: str | None = None, origin: Origin
) -> Artifact:
    """Stores the content as an artifact, streamed, never copied whole. The default `mime` follows
    from its bytes and its name. Raises Invalid, before anything is stored, if it cannot be an
    artifact. A redacting store gets no secrets."""
    if is_redacting(store):
        mime = mime or (JSON if isinstance(content, Written) else None)
        content = _redacted(content)
    chars, lines = _measures(content)
    if not mime:
        is_text = chars > 0 or not content
        mime = JSON if isinstance(content, Written) else _mime(_ending(name, origin), is_text)
    artifact = _checked_artifact(
        type=type,
        name=name,
        mime=mime,
        size_bytes=content_bytes(content),
        size_chars=chars,
        lines=lines,
        origin=msgspec.to_builtins(origin),
    )
    digest = store.put(_chunks(content), suffix=suffix_of(artifact))
    return replace(artifact, id=artifact_id(digest), digest=digest)


def _mime(ending: str, is_text: bool) -> str:
    """The type by the extension of a name, unless the bytes contradict it: `a.ts` may be source
    code instead of video, and `a.txt` may have bytes that are not text."""
    named = _mimes_by_ending().get(ending, "")
    is_text_type = named.startswith("text/") or (named in SUFFIXES and named != BYTES)
    if is_text:
        return named if is_text_type else TEXT
    return BYTES if is_text_type else named or BYTES


def _redacted(content: Content) -> Content:
    """The content without secrets. Binary content stays as it is."""
    from refold.log.notes import bytes_redacted, value_redacted
    from refold.redaction import redacted

    match content:
        case str():
            return redacted(content)
        case bytes():
            return bytes_redacted(content)
        case Written():
            text = b"".join(_chunks(content)).decode()
            plain = msgspec.json.decode(text)
            clean = value_redacted(plain)
            return content if clean == plain else msgspec.json.encode(clean).decode()


def _checked_artifact(**fields: object) -> Artifact:
    """An artifact without an id, with its fields checked, because the caller chose type, name and
    mime."""
    try:
        return decoding.convert({"id": "", "digest": "", **fields}, Artifact)
    except msgspec.ValidationError as error:
        raise Invalid(
            f"this cannot be kept as an artifact: {error}", hint="types: " + ", ".join(TYPES)
        ) from error


def _ending(name: str, origin: Origin) -> str:
    """The extension of a file name. The name of a tool's output describes the call, so its end
    belongs to an argument and not to the content."""
    return "" if name == origin.description else os.path.splitext(str(name))[1].lower()


def suffix_of(artifact: Artifact) -> str:
    """The suffix of an artifact's file name."""
    is_output = bool(artifact.origin.tool) or artifact.type in ("search_result", "command_output")
    if artifact.mime == BYTES and artifact.size_chars and is_output:
        return ".txt"
    if artifact.mime in SUFFIXES:
        return SUFFIXES[artifact.mime]
    ending = _ending(artifact.name, artifact.origin)
    if _mimes_by_ending().get(ending) == artifact.mime:
        return ending
    return ".txt" if artifact.size_chars else ".bin"


@cache
def _mimes_by_ending() -> Mapping[str, str]:
    """Types by file extension: ours and Python's, without this machine's additions."""
    import mimetypes

    ours = {suffix: mime for mime, suffix in SUFFIXES.items()}
    return mimetypes.MimeTypes().types_map[True] | ours


def content_bytes(content: Content) -> int:
    if isinstance(content, Written):
        return content.size_bytes
    if isinstance(content, bytes) or content.isascii():
        return len(content)
    return sum(map(len, _chunks(content)))


def _chunks(content: Content) -> Iterator[bytes]:
    if isinstance(content, Written):
        yield from content
        return
    for at in range(0, len(content), CHUNK_CHARS):
        part = content[at : at + CHUNK_CHARS]
        yield part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part


def count_lines(text: str) -> int:
    """The number of lines as a person counts them: a final newline ends the last one."""
    has_open_line = text != "" and not text.endswith("\n")
    return text.count("\n") + has_open_line


def _measures(content: Content) -> tuple[int, int]:
    """The number of characters and lines of the content; none if it is not text."""
    if isinstance(content, str):
        return len(content), count_lines(content)
    if isinstance(content, Written):
        return content.size_chars, 1
    chars = newlines = 0
    try:
        for text in codecs.iterdecode(_chunks(content), "utf-8"):
            chars += len(text)
            newlines += text.count("\n")
    except UnicodeDecodeError:
        return 0, 0
    has_open_line = chars > 0 and not content.endswith(b"\n")
    return chars, newlines + has_open_line


# --- origin ---


def origin_of(
    call: ToolCall | None,
    failed: Failed,
    *,
    name: str = "",
    task: str = "",
    query: str = "",
    redact: Redact = str,
) -> Origin:
    """The origin of an artifact: the tool, its arguments and their hash, a one-line description.
    `failed` receives the error of a caller's describer. Secrets are removed before anything is
    cut."""
    if call is None:
        return Origin(tool=name, description=redact(name), task=task, query=query)
    arguments = canonical_arguments(call)
    hashed = hashlib.sha256(arguments.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    if len(arguments.encode(errors="replace")) > ARGUMENTS_BYTES:
        # Cut by bytes, without an incomplete character at the end.
        start = redact(arguments)[:ARGUMENTS_BYTES].encode(errors="replace")[:ARGUMENTS_BYTES]
        arguments = start.decode(errors="ignore")
    return Origin(
        tool=call.name,
        arguments=arguments,
        arguments_hash=hashed,
        description=call_description(call.name, call.arguments, failed, redact),
        task=task,
        query=query,
    )


def type_of_output(origin: Origin, tool_kinds: Mapping[str, str] = {}) -> ArtifactType:
    """The type of a tool's output: `file` for a tool that reads or writes files, `search_result`
    for one that searches, `command_output` for any other."""
    arguments = decoded(origin.arguments)
    has_path = isinstance(arguments, dict) and bool(paths_of(arguments))
    kind = kind_by_name(origin.tool, tool_kinds.get(origin.tool, ""), has_path=has_path)
    return _BY_KIND.get(kind, "command_output")


def type_named(name: str) -> ArtifactType:
    """The type by a name: `file` for a file name, else `custom`."""
    return "file" if _FILE.fullmatch(name) else "custom"
