"""What comes in becomes drafts of events: counted once, with large tool results moved out of the
way.

A tool result above `offload_tokens` is kept whole as an artifact; the message shows a stub in its
place. In a message that the caller put together itself only a result larger than half the window
goes that way, unless the model binds its thinking to what it read. Artifacts are drafted before the
message that names them. Neighbours: `output` reads what a tool gave, `offload` keeps it, `stub` has
what is shown in its place, the engine appends the drafts.

A content becomes an artifact: kept whole, measured, with a type and where it came from.

This happens at append, before the result is ever sent: nothing cached is broken, and no thinking is
bound to it. Neighbours: the store keeps the bytes, `intake` decides what is large and drafts the
artifact's event before the message that names it, `stub` says what the page shows instead.

The type of an artifact: by what its tool does, as the ledger knows it, or by the name of a file.

What an output looks like says nothing here: two results of one tool have one type. Neighbours:
`intake` and `listing` ask for outputs of tools, `artifacts` for what a program keeps itself.
"""

from __future__ import annotations

import codecs
import hashlib
import mimetypes
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, get_args, get_type_hints

import msgspec
from msgspec.structs import replace

from refold import decoding
from refold.artifacts.json_values import Written
from refold.artifacts.stub import Failed, described, stub_of
from refold.artifacts.tool_output import BYTES, FORM, JSON, TEXT, Content, Output
from refold.core.budget import offload_tokens
from refold.core.call_arguments import canonical_arguments, decoded
from refold.core.codec import artifact_id
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
from refold.redaction import redactor
from refold.stores import is_redacting, synced_of
from refold.stores.protocol import Store
from refold.strategies.brief import unfolder
from refold.tokens.counter import MESSAGE_TOKENS, count_message

if TYPE_CHECKING:
    from refold.redaction import Redact

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
                origin = origin_of(
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
        origin = origin_of(
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
            yield keep(
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
        return name in self._config.exclude_tools or is_own(name)

    def _move_out(
        self, result: ToolResult, content: Content, origin: Origin, mime: str | None = None
    ) -> tuple[Artifact, ToolResult]:
        """The result with a stub in place of its text, and the artifact that has the text."""
        tool = unfolder(self._log.known)
        stub = stub_of(content, origin, self._report_failure, tool=tool, redact=self._redact)
        artifact = keep(
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


TYPES = get_args(get_type_hints(Artifact)["type"])
CHUNK_CHARS = 256 * 1024
ARGUMENTS_BYTES = 512
OWN_TOOLS = ("refold_search", "refold_unfold", "refold_grep", "refold_artifacts")  # see `toolbox`
SUFFIXES = {
    TEXT: ".txt",
    JSON: ".json",
    "text/markdown": ".md",
    "text/html": ".html",
    "text/csv": ".csv",
    BYTES: ".bin",
}


def is_own(tool: str) -> bool:
    """Whether a tool is one of ours: what it gives is bounded already, and a stub for it would
    only lead back to it."""
    return tool in OWN_TOOLS


def keep(
    store: Store, content: Content, *, name: str, type: str, mime: str | None = None, origin: Origin
) -> Artifact:
    """Keeps the content in the store as an artifact, streamed, never copied whole. Without a
    `mime` it is what its bytes and its name say. Raises Invalid, before anything is kept, if it
    cannot be an artifact. A store that takes secrets out gets none."""
    if is_redacting(store):
        mime = mime or (JSON if isinstance(content, Written) else None)
        content = _redacted(content)
    chars, lines = _measures(content)
    artifact = _checked_artifact(
        type=type,
        name=name,
        mime=mime or _content_mime(content, chars, _ending(name, origin)),
        size_bytes=content_bytes(content),
        size_chars=chars,
        lines=lines,
        origin=msgspec.to_builtins(origin),
    )
    digest = store.put(_chunks(content), suffix=suffix_of(artifact))
    return replace(artifact, id=artifact_id(digest), digest=digest)


def _redacted(content: Content) -> Content:
    """The content without secrets. Bytes that are no text stay as they are."""
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
    """An artifact without an id, its fields checked: type, name and mime are the caller's."""
    try:
        return decoding.convert({"id": "", "digest": "", **fields}, Artifact)
    except msgspec.ValidationError as error:
        raise Invalid(
            f"this cannot be kept as an artifact: {error}", hint="types: " + ", ".join(TYPES)
        ) from error


def _content_mime(content: Content, chars: int, ending: str) -> str:
    if isinstance(content, Written):
        return JSON
    is_text = chars > 0 or not content
    return _mime(ending, is_text=is_text)


def _mime(ending: str, *, is_text: bool) -> str:
    """What the ending of a name says, unless the bytes say otherwise: a text may be called
    `a.ts`, which is a video elsewhere, and bytes that are not text `a.txt`."""
    named = _mimes_by_ending().get(ending, "")
    says_text = named.startswith("text/") or (named in SUFFIXES and named != BYTES)
    if is_text:
        return named if says_text else TEXT
    return BYTES if says_text else named or BYTES


def _ending(name: str, origin: Origin) -> str:
    """The ending of a file's name. The name of a tool's output describes the call: it ends as an
    argument does, and says nothing of the content."""
    return "" if name == origin.description else os.path.splitext(str(name))[1].lower()


def suffix_of(artifact: Artifact) -> str:
    """How the name of an artifact's file ends."""
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
    """Types by the ending of a name: ours, and those that Python knows, whatever this machine
    adds."""
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
    """Lines as a person counts them: a final newline ends the last one."""
    has_open_line = text != "" and not text.endswith("\n")
    return text.count("\n") + has_open_line


def _measures(content: Content) -> tuple[int, int]:
    """The characters and lines of a content; none if it is not text."""
    match content:
        case str():
            return len(content), count_lines(content)
        case Written():
            return content.size_chars, 1
        case bytes():
            return _measures_of_bytes(content)


def _measures_of_bytes(content: bytes) -> tuple[int, int]:
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
    """Where an artifact came from: the tool, its arguments and their hash, a one-line description.
    `failed` is told why a describer of the caller's had none. Secrets go before anything is
    cut."""
    if call is None:
        return Origin(tool=name, description=name, task=task, query=query)
    arguments = canonical_arguments(call)
    is_long = len(arguments.encode(errors="replace")) > ARGUMENTS_BYTES
    return Origin(
        tool=call.name,
        arguments=_beginning(redact(arguments)) if is_long else arguments,
        arguments_hash=_arguments_hash(arguments),
        description=described(call.name, call.arguments, failed, redact),
        task=task,
        query=query,
    )


def _beginning(arguments: str) -> str:
    """As much of the arguments as is kept, without half a character at its end."""
    kept = arguments[:ARGUMENTS_BYTES].encode(errors="replace")[:ARGUMENTS_BYTES]
    return kept.decode(errors="ignore")


def _arguments_hash(arguments: str) -> str:
    digest = hashlib.sha256(arguments.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:12]


_BY_KIND: dict[ActionKind, ArtifactType] = {
    "read": "file",
    "create": "file",
    "modify": "file",
    "search": "search_result",
}
_FILE = re.compile(r"(.*[/\\])?([^/\\]*\.[A-Za-z][\w+-]{0,15}|[A-Z][a-z]+file)")


def type_of_output(origin: Origin, tool_kinds: Mapping[str, str] = {}) -> ArtifactType:
    """The type of what a tool gave: `file` for one that reads or writes files, `search_result` for
    one that searches, `command_output` for every other."""
    arguments = decoded(origin.arguments)
    has_path = isinstance(arguments, dict) and bool(paths_of(arguments))
    kind = kind_by_name(origin.tool, tool_kinds.get(origin.tool, ""), has_path=has_path)
    return _BY_KIND.get(kind, "command_output")


def type_named(name: str) -> ArtifactType:
    """The type that a name says: `file` if it is that of a file, else `custom`."""
    return "file" if _FILE.fullmatch(name) else "custom"
