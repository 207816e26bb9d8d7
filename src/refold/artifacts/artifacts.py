"""The artifacts of a conversation, as `context.artifacts` offers them: put, list, select, read,
grep, clean up.

Artifacts are named by id only, never by a path. A handle is an artifact's id, or `#41` or `#41-58`
for messages. Contents are streamed, with no lock held. Neighbours: `listing` knows the artifacts of
a log, `log.handles` returns originals, `select` ranks, `grep` finds lines, `cleanup` removes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from refold.artifacts.intake import store_content, type_named
from refold.artifacts.listing import ArtifactIndex, StoredArtifact, is_in_log, query_id
from refold.artifacts.tool_output import BYTES, FORM, JSON, as_content, value_of
from refold.checked import checked, quoted
from refold.config import Config
from refold.core.model import Artifact, ArtifactType, Media, Message, Origin, ToolResult
from refold.errors import Corrupt, Invalid, NotFound, RefoldError
from refold.log.handles import (
    MOST,
    Original,
    Part,
    body_text,
    content_of,
    lines_between,
    original,
    span_of,
)
from refold.log.open_log import OpenLog
from refold.search.embedders import Embedder
from refold.stores.protocol import Store

if TYPE_CHECKING:
    from refold.artifacts.cleanup import Cleanup, CleanupItem
    from refold.artifacts.grep import Grepped
    from refold.artifacts.select import Selected

DAY_S = 24 * 60 * 60
GREP_WAIT_S = 5.0
PREFIX = "artifact://"


class Matches(Struct, frozen=True, kw_only=True):
    """The matches of grep in one artifact."""

    handle: str
    grepped: Grepped


class Artifacts:
    """The artifacts of one conversation."""

    def __init__(self, log: OpenLog, reader: ArtifactReader) -> None:
        self._open, self._reader = log, reader

    @checked
    def put(
        self,
        content: Any,
        *,
        name: str,
        type: ArtifactType | None = None,
        mime: str | None = None,
        origin: Origin | None = None,
    ) -> Artifact:
        """Keeps text, bytes, or data (as JSON) with the conversation; `artifact://ID` anywhere in
        text refers to it. The default `type` is `file` for a file name, else `custom`; the default
        `mime` follows from the bytes and the file extension."""
        with self._open.guard:
            self._open.check_open()
            artifact = store_content(
                self._open.store,
                as_content(content),
                name=name,
                type=type or type_named(name),
                mime=mime,
                origin=origin or Origin(),
            )
            self._open.append([self._open.draft(artifact)])
            return artifact

    @checked
    def list(
        self, *, task: str | int | None = None, query: str | None = None, tool: str | None = None
    ) -> Sequence[StoredArtifact]:
        """The artifacts in log order: all, or only for one task, query (its text or its
        `hash_query`) or tool. Includes cleaned-up ones, and small outputs with a task or a query
        (their id is the handle of their message). A very long list reads each artifact on
        access."""
        return self._reader.list(task, query, tool)

    @checked
    def select(
        self,
        query: str,
        *,
        limit: int | None = 10,
        score_min: float = 0.0,
        tokens_max: int | None = None,
        among: Sequence[StoredArtifact] | None = None,
        judge: Callable[[str, Sequence[Selected]], Sequence[str]] | None = None,
        embedder: Embedder | str | bool | None = None,
    ) -> Sequence[Selected]:
        """The artifacts that a query needs, best first, each with its score and the reason. If none
        matches, returns the newest that fit. `judge` may be a model: it gets the best candidates
        and returns the relevant ones. `embedder`, as for `search`, also finds artifacts of similar
        meaning."""
        from refold.artifacts import select

        bounds = select.Bounds(limit=limit, score_min=score_min, tokens_max=tokens_max)
        candidates = self.list() if among is None else among
        contents = self._reader.sources
        return select.selected(contents, candidates, query, bounds, judge, embedder)

    # --- contents ---

    @checked
    def value(self, handle: str) -> Any:
        """The output given to `append_result`: data as data, None as None, text as text, bytes as
        bytes. The handle names an artifact, or the message that answers the call (`#41`)."""
        found = self._reader.original(handle)
        if found.artifact is not None:
            # The type shows whether an artifact is JSON, or bytes that are text.
            mime = found.artifact.mime
            mime_kept = mime if mime in (JSON, BYTES) else None
            return value_of(self._text(found.artifact), mime_kept, fetch=self._bytes)
        with self._open.guard:
            slots = self._open.log.originals(span_of(found.handle))
        match [slot.message for slot in slots]:
            case [Message(blocks=[ToolResult(artifact=id) as result]) as message]:
                artifact = self._reader.original(id).artifact if id else None
                if artifact:
                    content = self._text(artifact)
                else:
                    texts = tuple(part for part in result.content if not isinstance(part, Media))
                    content = body_text(replace(message, blocks=texts))
                metadata = message.metadata
                return value_of(content, metadata.get("mime"), metadata.get(FORM), self._bytes)
        raise Invalid(
            f"{found.handle} is not the result of one tool", hint="unfold returns any message"
        )

    def _text(self, artifact: Artifact) -> str | bytes:
        content = b"".join(self._reader.content(artifact))
        is_text = artifact.size_chars or not content
        return content.decode("utf-8", "surrogatepass") if is_text else content

    def _bytes(self, id: str) -> bytes:
        artifact = self._reader.original(id).artifact
        if artifact is None:
            hint = "refold artifact list ID shows their ids"
            raise Invalid(f"{quoted(id, 80)} is not an artifact", hint=hint)
        return b"".join(self._reader.content(artifact))

    @checked
    def lines(
        self, handle: str, first: int, last: int | None = None, *, chars_max: int = MOST
    ) -> Part:
        """Some lines of the content of a handle, counted from 1, read as a stream: only the
        returned lines are held."""
        return lines_between(self._reader.original(handle).texts, first, last, most=chars_max)

    @checked
    def grep(
        self,
        pattern: str,
        handle: str = "",
        *,
        regex: bool = False,
        ignore_case: bool = False,
        limit: int = 50,
        wait_s: float = GREP_WAIT_S,
    ) -> Sequence[Matches]:
        """The matching lines of one artifact (or message, or span), or of all, newest first.
        `limit` and `wait_s` apply to the whole search; a regular expression that takes longer is
        stopped."""
        from refold.artifacts.grep import Grepped, check, matching_lines

        check(pattern, regex=regex, most=limit, wait_s=wait_s)
        found: list[Matches] = []
        deadline = time.monotonic() + wait_s
        for name, chunks in self._reader.contents(handle):
            left_s = min(wait_s, max(0.05, deadline - time.monotonic()))
            try:
                one = matching_lines(
                    chunks, pattern, regex=regex, ignore_case=ignore_case, most=limit, wait_s=left_s
                )
            except (NotFound, Corrupt) as error:
                if handle:
                    raise
                one = Grepped(ended=f"{name} was left out: {error.message}")
                found.append(Matches(handle=name, grepped=one))
                continue
            if one.lines or one.ended or handle:
                found.append(Matches(handle=name, grepped=one))
            limit -= len(one.lines)
            if limit <= 0 or one.ended:
                break
        return found

    # --- cleaning up ---

    @checked
    def clean(
        self,
        *,
        older_than_s: float | None = None,
        keep_bytes: int | None = None,
        keep_count: int | None = None,
        dry_run: bool = False,
    ) -> Cleanup:
        """Removes the oldest artifacts of this conversation until it is within these bounds, but
        never one that is on a page, belongs to another conversation, was stored by the user, or is
        new. Returns the removed and the kept ones, with the reasons."""
        from refold.artifacts import cleanup

        quota = cleanup.Quota(
            older_than_s=older_than_s, keep_bytes=keep_bytes, keep_count=keep_count
        )
        try:
            done = cleanup.clean(
                self._open.store,
                quota,
                conversation=self._open.id,
                now_ms=self._open.log.clock(),
                dry_run=dry_run,
            )
        except NotFound:
            # An empty conversation is not in the store yet.
            return cleanup.Cleanup()
        with self._open.reading():
            return done

    @checked
    def remove(self, handle: str) -> CleanupItem:
        """Removes one artifact from this conversation, and its bytes unless another conversation
        has it. The log keeps its description. NotFound if it does not exist or was removed
        before."""
        with self._open.guard:
            self._open.check_open()
        from refold.artifacts import cleanup

        now_ms = self._open.log.clock()
        done = cleanup.remove(self._open.store, self._open.id, id_of(handle), now_ms=now_ms)
        with self._open.reading():
            return done

    @checked
    def remove_all(self) -> Sequence[CleanupItem]:
        """Removes every stored artifact of this conversation, as `remove` does, also those that the
        page names. Small outputs are in the log, and stay."""
        from refold.artifacts.listing import is_in_log

        stored = [one for one in self.list() if not one.cleaned_ms and not is_in_log(one.artifact)]
        return [self.remove(id) for id in dict.fromkeys(one.id for one in stored)]


def clean_configured(artifacts: Artifacts, log: OpenLog) -> None:
    """Removes old artifacts, if the configuration has limits. A failure is only reported."""
    config = log.config
    days, keep_bytes = config.artifacts_days, config.artifacts_bytes
    keep_count = config.artifacts_count
    if days is None and keep_bytes is None and keep_count is None:
        return
    age_s = None if days is None else days * DAY_S
    try:
        artifacts.clean(older_than_s=age_s, keep_bytes=keep_bytes, keep_count=keep_count)
    except RefoldError as error:
        log.notify("cleanup-failed", error.message)


def artifacts_of(store: Store, conversation: str) -> Artifacts:
    """The artifacts of a stored conversation, without a `Context`; NotFound if there is no such
    conversation."""
    store.conversation(conversation)
    log = OpenLog(store, conversation, Config())
    return Artifacts(log, ArtifactReader(log))


class Sources(Struct, frozen=True):
    """The contents of outputs, by digest from the store, by handle from the log."""

    store: Store
    message_bytes: Callable[[str], Iterator[bytes]]

    def get(self, digest: str) -> Iterator[bytes]:
        return self.message_bytes(digest) if digest.startswith("#") else self.store.get(digest)

    def location(self, digest: str) -> str | None:
        return None if digest.startswith("#") else self.store.location(digest)


class ArtifactReader:
    """The artifacts of one open log."""

    def __init__(self, log: OpenLog) -> None:
        self._open = log
        self._index = ArtifactIndex(log.log)

    def move(self) -> None:
        """Switches to another log."""
        self._index = ArtifactIndex(self._open.log)

    def list(
        self, task: str | int | None, query: str | None, tool: str | None
    ) -> Sequence[StoredArtifact]:
        """The artifacts in log order, including cleaned-up ones."""
        query = query_id(query) if query is not None else None
        filters = {"task": task, "query": query, "tool": tool}
        wanted = {name: str(value) for name, value in filters.items() if value is not None}
        with self._open.reading():
            self._index.refresh()
            listing = self._index.grouped(**wanted) if wanted else self._index.listing()
            return listing.held()

    def count(self) -> int:
        """The number of artifacts that still have their bytes."""
        with self._open.reading():
            self._index.refresh()
            return self._index.count()

    def named(self, handle: str) -> Sequence[Artifact]:
        """The artifact with this handle; for an unknown handle, the newest artifacts."""
        id = id_of(handle)
        with self._open.reading():
            self._index.refresh()
            return self._index.named(id) if id.startswith("art-") else []

    def original(self, handle: str, *, level: str = "full") -> Original:
        """The original behind a handle, as a stream; raises NotFound or Invalid if there is
        none."""
        with self._open.guard:
            return original(self._open.log, self.named(handle), handle, level=level)

    def content(self, artifact: Artifact) -> Iterator[bytes]:
        if is_in_log(artifact):
            return self._message_bytes(artifact.id)
        return content_of(self._open.log, artifact)

    def _message_bytes(self, handle: str) -> Iterator[bytes]:
        texts = self.original(handle).texts
        return (text.encode("utf-8", "surrogatepass") for text in texts)

    @property
    def sources(self) -> Sources:
        """The source of the contents of listed outputs."""
        return Sources(self._open.store, self._message_bytes)

    def contents(self, handle: str) -> Iterator[tuple[str, Iterable[bytes]]]:
        """The content behind a handle; without a handle, the content of every artifact, newest
        first."""
        if handle:
            found = self.original(handle)
            if found.artifact is not None:
                yield found.handle, self.content(found.artifact)
            else:
                yield found.handle, (text.encode("utf-8", "replace") for text in found.texts)
            return
        seen: set[str] = set()
        for stored in reversed(self.list(None, None, None)):
            if not stored.cleaned_ms and stored.id not in seen:
                seen.add(stored.id)
                yield stored.id, self.content(stored.artifact)


def id_of(handle: str) -> str:
    """The id in a handle, which may be written as a reference."""
    return handle.strip().removeprefix(PREFIX)
