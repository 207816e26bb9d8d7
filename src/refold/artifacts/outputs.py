"""The outputs of a conversation as a `Context` shows them: list, select, grep, clean.

Outputs are named by id only, never by a path. Neighbours: `listing` knows what there is,
`selecting` ranks, `grepping` looks for lines, `cleaning` removes, `unfolding` gives contents.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from refold.artifacts import cleanup as cleaning
from refold.artifacts import select as selecting
from refold.artifacts.grep import WAIT_S, Grepped, check, grepped
from refold.artifacts.listing import Output, Shelf, query_id
from refold.artifacts.offload import value_of
from refold.config import Config
from refold.core.model import Artifact, ToolResult
from refold.errors import Corrupt, Invalid, NotFound
from refold.log.log import Log, now_ms
from refold.log.notices import Guard
from refold.log.unfold import (
    MOST,
    Original,
    Part,
    body_text,
    content_of,
    lines_between,
    original,
    span_of,
)
from refold.search.embedders import Embedder
from refold.stores.protocol import Store

DAY_S = 24 * 60 * 60


class Found(Struct, frozen=True, kw_only=True):
    """What grep found in one output."""

    handle: str
    grepped: Grepped


class Outputs:
    """The outputs of one conversation. `fresh` reads what others appended; no lock is held while
    a content is read."""

    def __init__(self, log: Log, guard: Guard, fresh: Callable[[], object]) -> None:
        self._log, self._guard, self._fresh = log, guard, fresh
        self._shelf = Shelf(log)

    @property
    def conversation(self) -> str:
        return self._log.conversation

    def list(
        self, *, task: str | None = None, query: str | None = None, tool: str | None = None
    ) -> Sequence[Output]:
        """The outputs in the order in which they were kept: all, or those of a task, a query
        (its text or its `hash_query`), a tool. Cleaned-up ones are among them. Of very many,
        each is read when it is looked at."""
        given = {
            "task": task,
            "query": query_id(query) if query is not None else None,
            "tool": tool,
        }
        wanted = {name: str(value) for name, value in given.items() if value is not None}
        with self._guard:
            shelf = self._refreshed()
            return (shelf.grouped(**wanted) if wanted else shelf.listing()).held()

    def count(self) -> int:
        """How many outputs have their bytes still."""
        with self._guard:
            return self._refreshed().count()

    def named(self, handle: str) -> Sequence[Artifact]:
        """The artifact that a handle names; of an unknown one the newest others."""
        id = handle.strip().removeprefix("artifact://")
        with self._guard:
            return self._refreshed().named(id) if id.startswith("art-") else []

    def _refreshed(self) -> Shelf:
        self._fresh()
        self._shelf.refresh()
        return self._shelf

    def select(
        self,
        query: str,
        *,
        limit: int | None = 10,
        score_min: float = 0.0,
        tokens_max: int | None = None,
        among: Sequence[Output] | None = None,
        judge: selecting.Judge | None = None,
        embedder: Embedder | None = None,
    ) -> Sequence[selecting.Selected]:
        """The outputs that a query needs, best first, each with its score and why. Where none
        matches, the newest that fit. `judge` may be a model: it is given the best candidates and
        says which are relevant. `embedder`, as for `search`, finds what says the same in other
        words, too."""
        bounds = selecting.Bounds(limit=limit, score_min=score_min, tokens_max=tokens_max)
        outputs = self.list() if among is None else among
        return selecting.selected(self._log.store, outputs, query, bounds, judge, embedder)

    def original(self, handle: str, *, level: str = "full") -> Original:
        """What a handle names, as a stream; NotFound or Invalid if it names nothing here."""
        with self._guard:
            return original(self._log, self.named(handle), handle, level=level)

    def value(self, handle: str) -> Any:
        """What `append_result` was given, again: data as data, None as None, text as text, bytes
        that are no text as bytes. The handle is that of an output, or `#41` of the message that
        answers the call."""
        found = self.original(handle)
        if found.artifact is not None:
            return self._value(found.artifact, found.artifact.mime)
        with self._guard:
            messages = [slot.message for slot in self._log.originals(span_of(found.handle))]
        match [message.blocks for message in messages]:
            case [[ToolResult(artifact=id)]]:
                mime, artifact = (
                    messages[0].metadata.get("mime"),
                    self.original(id).artifact if id else None,
                )
                return (
                    self._value(artifact, mime)
                    if artifact
                    else value_of(body_text(messages[0]), mime)
                )
        raise Invalid(f"{found.handle} is not what one tool gave", hint="unfold gives any message")

    def _value(self, artifact: Artifact, mime: Any) -> Any:
        content = b"".join(content_of(self._log, artifact))
        is_text = artifact.size_chars or not content
        return value_of(content.decode("utf-8", "surrogatepass") if is_text else content, mime)

    def lines(
        self, handle: str, first: int, last: int | None = None, *, chars_max: int = MOST
    ) -> Part:
        """Some lines of what a handle names, counted from 1, read as a stream: no more is held
        than what is given."""
        return lines_between(self.original(handle).texts, first, last, most=chars_max)

    def grep(
        self,
        pattern: str,
        handle: str = "",
        *,
        regex: bool = False,
        ignore_case: bool = False,
        most: int = 50,
        wait_s: float = WAIT_S,
    ) -> Sequence[Found]:
        """The lines that match, of one output (or message, or span), or of all, newest first.
        `most` and `wait_s` hold for all of it together; a regular expression that takes longer
        is ended."""
        check(pattern, regex=regex, most=most, wait_s=wait_s)
        found = []
        deadline = time.monotonic() + wait_s
        for name, chunks in self._contents(handle):
            left_s = min(wait_s, max(0.05, deadline - time.monotonic()))
            try:
                one = grepped(
                    chunks, pattern, regex=regex, ignore_case=ignore_case, most=most, wait_s=left_s
                )
            except (NotFound, Corrupt) as error:
                if handle:
                    raise
                found.append(
                    Found(handle=name, grepped=Grepped(ended=f"{name} was left out: {error}"))
                )
                continue
            if one.lines or one.ended or handle:
                found.append(Found(handle=name, grepped=one))
            most -= len(one.lines)
            if most <= 0 or one.ended:
                break
        return found

    def _contents(self, handle: str) -> Iterator[tuple[str, Iterable[bytes]]]:
        if not handle:
            read: set[str] = set()
            for output in reversed(self.list()):
                if not output.cleaned_ms and output.id not in read:
                    read.add(output.id)
                    yield output.id, content_of(self._log, output.artifact)
            return
        found = self.original(handle)
        if found.artifact is not None:
            yield found.handle, content_of(self._log, found.artifact)
        else:
            yield found.handle, (text.encode("utf-8", "replace") for text in found.texts)

    def clean(
        self,
        *,
        older_than_s: float | None = None,
        keep_bytes: int | None = None,
        keep_count: int | None = None,
        dry_run: bool = False,
    ) -> cleaning.Cleanup:
        """Removes the oldest outputs of this conversation until it is within these bounds; never
        one that the page or another conversation names, that the user stored, or that is new.
        Says what went and what stayed, and why."""
        quota = cleaning.Quota(
            older_than_s=older_than_s, keep_bytes=keep_bytes, keep_count=keep_count
        )
        try:
            done = cleaning.cleaned(
                self._log.store,
                quota,
                conversation=self._log.conversation,
                now_ms=self._log.clock(),
                dry_run=dry_run,
            )
        except NotFound:
            # A conversation that nothing was appended to is not in the store yet.
            return cleaning.Cleanup()
        with self._guard:
            self._fresh()
        return done

    def remove(self, handle: str) -> cleaning.Item:
        """Removes one output from this conversation; its bytes too, unless another one has it.
        The log keeps what it was. NotFound if there is none, or none any more."""
        id = handle.strip().removeprefix("artifact://")
        with self._guard:
            self._fresh()
        done = cleaning.removed_by_hand(
            self._log.store, self._log.conversation, id, now_ms=now_ms()
        )
        with self._guard:
            self._fresh()
        return done

    def clean_as(self, config: Config) -> cleaning.Cleanup:
        """Cleans up as the configuration says."""
        days = config.outputs_days
        age_s = None if days is None else days * DAY_S
        return self.clean(
            older_than_s=age_s, keep_bytes=config.outputs_bytes, keep_count=config.outputs_count
        )


def outputs_of(store: Store, conversation: str) -> Outputs:
    """The outputs of a stored conversation, without a `Context`; NotFound if there is no such
    conversation."""
    store.conversation(conversation)
    log = Log(store, conversation)
    return Outputs(log, Guard(_nothing), log.catch_up)


def _nothing() -> None:
    """There are no listeners to tell."""
