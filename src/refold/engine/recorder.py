"""Records messages in any provider's format, tool results, and replies with their usage.

A result without a call id answers the only pending call. Each thread and each asyncio task has its
own pending request; a reply answers that or, without one, the newest of all. A reply appended by
hand leaves its request pending, because its usage may arrive separately; the next append closes it.
Thinking in a late reply is stored with the head that its request showed (`UPTO`), or with 0 if no
page has it in its original position; the thinking law (`core.laws`) reads this. Neighbours:
`dialects` parse, `artifacts.intake` creates drafts, `log.open_log` appends, `pages` adds requests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextvars import ContextVar
from functools import partial
from typing import Any, Literal, Unpack

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from refold import dialects
from refold.artifacts import tool_output as outputs
from refold.artifacts.intake import Intake, ResultFields
from refold.checked import quoted
from refold.compaction.active_model import ActiveModel
from refold.core.laws import CUT_OFF, calls_of, is_request, results_of
from refold.core.model import UPTO, Event, Message, Slot, Text, Thinking, ToolResult, Usage
from refold.dialects.protocol import Reply
from refold.dialects.streams import CHUNKS_MAX, is_stream, take_chunk
from refold.dialects.tools import check_parts
from refold.display import number, suggestion
from refold.errors import Conflict, Invalid
from refold.log.draft import Draft, Run, message_checked, runs_of
from refold.log.log import TRIES_MAX, message_of
from refold.log.notes import NOW, Keys, Stamp, append_once, message_redacted, value_redacted
from refold.log.open_log import OpenLog
from refold.tokens.counter import count_block, count_message

OnError = Literal["raise", "degrade"]


class Parsed(Struct, frozen=True):
    """A message in parsed form, and the dialect it was parsed as."""

    dialect: str
    messages: list[Message]


class Recorder:
    """Appends to one open log."""

    def __init__(
        self, log: OpenLog, model: ActiveModel, intake: Intake, requests: PendingRequests
    ) -> None:
        self._log, self._model, self._intake, self._requests = log, model, intake, requests
        self.keys = Keys(log.log)

    def append(self, message: Any, by: str | None, stamp: Stamp = NOW) -> list[Event]:
        if lacks_call(message):
            message = with_call_id(message, self._pending_calls())
        parsed = self.parse(message)
        for one in parsed:
            check_parts(one)
        stamp = stamp.of(parsed[0].key if parsed else "")
        if stamp.key:
            parsed = [replace(one, key=stamp.key) for one in parsed]
        shown = self._answered_head([parsed])
        with self._log.guard:
            if shown is None:
                return append_once(self._log, self.keys, stamp, lambda: self._drafts([parsed], by))

            def late_drafts(mark: MarkLate) -> list[Draft]:
                if stamp.key and self.keys.hold(stamp.key):
                    return []
                return self._drafts([[*map(mark, parsed)]], by)

            self._log.catch_up()
            return append_reply(self._log, shown, late_drafts, stamp.at_ms)

    def _answered_head(self, given: Sequence[Sequence[Message]]) -> int | None:
        """The head shown by the request that the first of these manually appended messages answers;
        None if that message contains no thinking."""
        heads = [
            self._requests.note_manual_append(
                is_reply=any(one.role == "assistant" for one in parsed)
            )
            for parsed in given
        ]
        return heads[0] if heads and any(map(thinks, given[0])) else None

    def _pending_calls(self) -> list[str]:
        with self._log.reading() as state:
            return unanswered(state.slots)

    def extend(self, messages: Sequence[Any], by: str | None) -> list[Event]:
        """Appends a list of messages in as few writes as possible, none too large for a store."""
        given = self._parse_list(messages)
        shown = self._answered_head(given)
        with self._log.guard:
            events: list[Event] = []
            if shown is not None:
                reply = given.pop(0)
                self._log.catch_up()
                events += append_reply(
                    self._log, shown, lambda mark: self._drafts([[*map(mark, reply)]], by)
                )
            runs = runs_of(self._drafts(given, by))
            return [*events, *(event for run in runs for event in self._log.append(run))]

    def _parse_list(self, messages: Sequence[Any]) -> list[list[Message]]:
        """Parses each message as if the ones before it were in the log. If two providers share its
        format, the latest reply decides between them; a result without a call id answers the
        pending call."""
        pending = dict.fromkeys(self._pending_calls() if any(map(lacks_call, messages)) else ())
        given: list[list[Message]] = []
        reply: list[Message] = []
        for place, message in enumerate(messages, 1):
            try:
                if lacks_call(message):
                    message = with_call_id(message, [*pending])
                parsed = self.parse(message, reply)
                for one in parsed:
                    check_parts(one)
            except Invalid as error:
                text = f"message {place} of {len(messages)}: {error.message}"
                raise Invalid(text, hint=error.hint) from error
            for one in parsed:
                follow_calls(pending, one)
            reply = [one for one in parsed if one.role == "assistant"][-1:] or reply
            given.append(parsed)
        return given

    def _drafts(self, given: Sequence[Sequence[Message]], by: str | None) -> list[Draft]:
        """The drafts for several messages, each in parsed form."""
        ahead: list[Message] = []
        drafts = [draft for parsed in given for draft in self.drafts_after(ahead, parsed, by)]
        if any(type(block) is ToolResult for message in ahead for block in message.blocks):
            self._report_orphans(ahead)
        return drafts

    def _report_orphans(self, messages: Sequence[Message]) -> None:
        """Reports results whose calls are not in the log, because no request will show them. They
        are appended anyway: a list from another source may begin after a call."""
        called: set[str] = set()
        orphans: dict[str, None] = {}
        for message in messages:
            called.update(calls_of(message))
            orphans.update(dict.fromkeys(id for id in results_of(message) if id not in called))
        orphans = {id: None for id in orphans if self._log.log.call(id) is None}
        if orphans:
            self._log.catch_up()
        known = self._calls_in_log(orphans.keys())
        unknown = [id for id in orphans if id not in known]
        if unknown:
            names = ", ".join(quoted(id, 40) for id in unknown[:SHOWN_MAX])
            what = f"there is no call for {number(len(unknown), 'result')}: {names}"
            self._log.notify("result-unasked", f"{what}; no request shows it", calls=unknown)

    def drafts_after(
        self, ahead: list[Message], parsed: Sequence[Message], by: str | None, stamp: Stamp = NOW
    ) -> list[Draft]:
        """Returns the drafts for messages that follow those in `ahead`, which are not in the log
        yet, and appends these messages to `ahead`."""
        slots = self._log.sums.slots
        before = ahead[-1] if ahead else slots[-1].message if slots else None
        find_calls = partial(self._log.log.calling, ahead)
        answers = [dialects.answering(one, find_calls) for one in parsed]
        answers[:1] = [dialects.following(one, before) for one in answers[:1]]
        drafts: list[Draft] = []
        for one in answers:
            drafts += self._intake.message(one, by, at_ms=stamp.at_ms, ahead=ahead)
        ahead += answers
        return drafts

    def append_result(
        self,
        call: str,
        output: Any,
        *,
        mime: str,
        on_error: OnError,
        stamp: Stamp = NOW,
        **given: Unpack[ResultFields],
    ) -> list[Event]:
        def drafts() -> list[Draft]:
            self._check_call(call)
            given_output = value_redacted(output) if self._log.redacts else output
            read = outputs.read(given_output, mime=mime, on_error=on_error)
            return self._intake.result(call, read, **given)

        self._requests.note_manual_append(is_reply=False)
        with self._log.guard:
            self._log.check_open()
            return append_once(self._log, self.keys, stamp, drafts)

    def record(
        self, response: Any, *, usage: Any, upto: int | None, at_ms: int | None
    ) -> list[Event]:
        """Appends the reply to the request that showed the log up to `upto`, by default to the
        newest request, or its usage alone. A stream is read to its end; if it breaks, the part that
        arrived is recorded and the error re-raised."""
        head = self._log.state.head
        if upto is not None and not 0 <= upto <= head:
            raise Invalid(
                f"upto={upto} is outside the log (0 to {head})", hint="pass one of its seqs"
            )
        if response is None and usage is not None:
            shown = self._requests.head if upto is None else upto
            return self._record_usage(usage, shown=shown, at_ms=at_ms)
        shown = self._requests.match(head) if upto is None else upto
        given = None if usage is None else self._read_usage(usage)
        chunks: list[Any] = []
        if is_stream(response):
            try:
                for chunk in response:
                    take_chunk(chunks, chunk)
            except BaseException:
                self._record_chunks(chunks, shown)
                raise
            response = chunks
        reply = dialects.reply(response, self._model.dialect())
        if given is not None:
            reply = replace(reply, usage=given, is_stream=False)
        return self._record(reply, shown, at_ms)

    def _read_usage(self, usage: Any) -> Usage:
        from refold.dialects.usage import read_usage  # loads every dialect

        return read_usage(usage, self._model.dialect())

    def _record_usage(self, usage: Any, *, shown: int | None, at_ms: int | None) -> list[Event]:
        """Appends usage that arrived without its reply, for the request that showed the log up to
        `shown`; if `shown` is None, for the request that the latest reply answers."""
        read = self._read_usage(usage)
        with self._log.reading() as state:
            if read.response and read.response in state.responses:
                return []
            if shown is None:
                newest = state.slots[-1] if state.slots else None
                is_reply = newest and newest.message.role == "assistant" and not newest.standin
                shown = newest.seq - 1 if newest and is_reply else state.head
            billed = self._model.received(read, upto=shown, replied=False)
            return self._log.append([Draft(body=billed, by="model")], at_ms=at_ms)

    def stream(self, response: Iterable[Any], shown: int) -> Iterator[Any]:
        """Yields the chunks of a stream, and records the reply when it ends, complete or not."""
        chunks: list[Any] = []
        try:
            for chunk in response:
                take_chunk(chunks, chunk)
                yield chunk
        finally:
            self._record_chunks(chunks, shown)

    def _record_chunks(self, chunks: list[Any], shown: int) -> None:
        """Records the part of a stream that arrived, unless it is empty or too long."""
        if 0 < len(chunks) < CHUNKS_MAX:
            self._record(dialects.reply(chunks, self._model.dialect()), shown)

    def _record(self, reply: Reply, shown: int, at_ms: int | None = None) -> list[Event]:
        """Appends a reply and its usage, or only the usage if the stream was cut off before the
        answer began."""
        message, is_cut = reply.message, reply.finished == CUT_OFF
        if self._log.redacts:
            message = message_redacted(message)
        if is_cut:
            message = replace(message, metadata={**message.metadata, CUT_OFF: True})
        is_empty = is_cut and is_blank(message)

        def drafts(mark: MarkLate) -> list[Draft]:
            made = [] if is_empty else self._intake.message(mark(message), "model")
            if usage is not None:
                billed = self._model.received(usage, upto=shown, replied=bool(made))
                made.append(Draft(body=billed, by="model"))
            for result in reply.results:
                made += self._intake.message(result, None)
            return made

        with self._log.reading():
            usage = self._usage_of(reply, is_empty=is_empty)
            if usage is not None and self._is_recorded(usage, None if is_empty else message):
                return []
            events = append_reply(self._log, shown, drafts, at_ms)
            if events:
                self._log.sync("turn")
            return events

    def _usage_of(self, reply: Reply, *, is_empty: bool) -> Usage | None:
        """The usage of a reply. It is estimated if its stream did not report usage at the end: a
        report at the beginning does not include the answer."""
        usage = reply.usage
        if not reply.is_stream or (is_empty and usage is None):
            return usage
        if usage is None:
            return self._estimate(reply.message)
        if reply.finished != CUT_OFF:
            return usage
        output = 0 if is_empty else self._estimate(reply.message).output
        is_short = usage.output < output // 2
        return replace(usage, output=output, estimated=True) if is_short else usage

    def _check_call(self, call: str) -> None:
        """Raises Invalid if the log does not contain the call, whether on the page or off it."""
        if self._log.log.call(call) is not None or self._calls_in_log({call}):
            return
        pending = unanswered(self._log.state.slots)
        raise Invalid(
            f"there is no call {quoted(call, 80)}",
            hint=suggestion(call, pending) if pending else "no call is waiting for its result",
        )

    def _calls_in_log(self, calls: Set[str]) -> set[str]:
        """The subset of these calls that is in the log, on the page or off it."""
        if self._log.state.head == 0 or not calls:
            return set()
        parts = [msgspec.json.encode(id)[1:-1] if id.isascii() else b"" for id in calls]
        found: set[str] = set()
        for event in self._log.log.read():
            if event.kind == "message" and any(part in event.body for part in parts):
                message = message_of(event, self._log.state)
                found |= calls & set(calls_of(message)) if message is not None else set()
        return found

    def _estimate(self, message: Message) -> Usage:
        """The estimated usage of a reply."""
        output = round(count_message(message, self._log.counter) * self._model.budget.factor)
        return Usage(input=self._model.current, output=output, estimated=True)

    def count(self, message: Any) -> int:
        """The token count of a message, as the provider would count it."""
        tokens = sum(count_message(one, self._log.counter) for one in self.parse(message))
        return round(tokens * self._model.budget.factor)

    def count_content(self, content: str | list[Any]) -> int:
        """The token count of a string or of blocks, without the framing of a message."""
        messages = self.parse({"role": "user", "content": content})
        blocks = [block for message in messages for block in message.blocks]
        tokens = sum(count_block(block, self._log.counter) for block in blocks)
        return round(tokens * self._model.budget.factor)

    def parse(self, message: Any, ahead: Sequence[Message] = ()) -> list[Message]:
        """Parses a message in any format. The messages in `ahead` come before it, and are not in
        the log yet."""
        if isinstance(message, Message):
            parsed = [message_checked(message)]
        else:
            parsed = dialects.parse(message, self._model.dialect(ahead=ahead))
        return [message_redacted(one) for one in parsed] if self._log.redacts else parsed

    def parse_once(
        self, message: Any, known: Parsed | None = None, ahead: Sequence[Message] = ()
    ) -> Parsed:
        """Like `parse`, but reuses an earlier result if the dialect is still the same."""
        dialect = self._model.dialect(ahead=ahead)
        if known is not None and known.dialect == dialect:
            return known
        return Parsed(dialect, self.parse(message, ahead))

    def _is_recorded(self, usage: Usage, message: Message | None) -> bool:
        """Whether this very reply is the latest on the page. Its id is not sufficient, since some
        servers reuse ids; and a reply that has left the page, or was followed by a request, must be
        recorded again. A reply without a message can be recognized only by its id."""
        if not usage.response or usage.response not in self._log.state.responses:
            return False
        if message is None:
            return True
        for slot in reversed(self._log.state.slots):
            if slot.standin or is_request(slot):
                return False
            if slot.message.role == "assistant":
                [event] = self._log.log.read(slot.seq - 1, slot.seq)
                recorded = message_of(event, self._log.state)
                new = Draft(body=message, by="model").body
                return recorded is not None and without_late_marker(recorded) == new
        return False


def is_blank(message: Message) -> bool:
    """Whether a message has no text, no call, and no thinking that could be sent back."""
    return all(
        not (block.signature or block.data)
        if isinstance(block, Thinking)
        else isinstance(block, Text) and not block.text.strip()
        for block in message.blocks
    )


SHOWN_MAX = 5  # call ids listed in an error or a notice


def unanswered(slots: Sequence[Slot]) -> list[str]:
    """The pending calls on the page, oldest first."""
    pending: dict[str, None] = {}
    for slot in slots:
        follow_calls(pending, slot.message)
    return [*pending]


def follow_calls(pending: dict[str, None], message: Message) -> None:
    """Adds the calls that a message makes to `pending`, and removes those that it answers."""
    pending.update(dict.fromkeys(calls_of(message)))
    for id in results_of(message):
        pending.pop(id, None)


def with_call_id(message: Mapping[str, Any], pending: Sequence[str]) -> dict[str, Any]:
    """The result with the id of the only pending call. Raises Invalid if none is pending, or more
    than one."""
    if len(pending) == 1:
        return {**message, "tool_call_id": pending[0]}
    names = f"one of {', '.join(quoted(id, 40) for id in pending[:SHOWN_MAX])}"
    none_pending = "no call is waiting; append unrequested output as a user message"
    hint = f"set tool_call_id to {names}" if pending else none_pending
    raise Invalid("a tool message without tool_call_id", hint=hint)


def lacks_call(message: Any) -> bool:
    """Whether this is a tool message without a call id."""
    is_tool = isinstance(message, Mapping) and message.get("role") == "tool"
    return (
        is_tool and message.get("tool_call_id") is None and isinstance(message.get("content"), str)
    )


class Keyed(Struct, frozen=True):
    """Messages in any format to append under a key. `parsed` is the result of an earlier parse.
    `upto` is the head that any replies among the messages were generated from, if known."""

    key: str
    messages: Sequence[Any]
    parsed: Parsed | None = None
    upto: int | None = None


def append_keyed(log: OpenLog, recorder: Recorder, given: Iterable[Keyed]) -> None:
    """Appends, in order, the messages whose keys are not in the log yet."""
    is_single = bool(log.config.checkpoint_every)
    with log.guard:
        run, keys, ahead = Run(is_single=is_single), list[str](), list[Message]()
        for one in given:
            if recorder.keys.hold(one.key):
                continue
            known = len(ahead)
            drafts: list[Draft] = []
            for message in one.messages:
                parsed = recorder.parse_once(message, one.parsed, ahead).messages
                named = [_with_key(part, one) for part in parsed]
                drafts += recorder.drafts_after(ahead, named, None)
            if run.is_full or not run.take(drafts):
                _write(log, recorder, run, keys)
                run, keys = Run(is_single=is_single), []
                run.take(drafts)
                del ahead[:known]
            keys.append(one.key)
        _write(log, recorder, run, keys)


def _with_key(message: Message, one: Keyed) -> Message:
    """The message with its key and, if it contains thinking, the head it was generated from."""
    late = {UPTO: one.upto} if one.upto is not None and thinks(message) else {}
    return replace(message, key=one.key, metadata={**message.metadata, **late})


def _write(log: OpenLog, recorder: Recorder, run: Run, keys: Sequence[str]) -> None:
    if not run.drafts:
        return
    known = recorder.keys
    events = log.append(run.drafts, fresh=lambda _: not any(map(known.hold, keys)))
    known.take(keys, events)


PENDING_MAX = 100  # beyond this, the oldest requests without a reply are dropped
# Identifies a caller without a thread of its own: `aio` uses any free thread.
CALLER: ContextVar[int | None] = ContextVar("caller", default=None)


class _Request:
    """A request waiting for its reply, or only for its usage."""

    def __init__(self, head: int) -> None:
        self.head, self.is_replied, self.is_closed = head, False, False


class PendingRequests:
    """The pending requests of one context. `newest_head` is the head that the newest request
    showed, even if it is no longer pending."""

    def __init__(self, head: int) -> None:
        self.reset(head)

    def reset(self, head: int) -> None:
        """Starts over for another log."""
        self._pending: dict[int, _Request] = {}  # by caller, newest last
        self.newest_head = head

    def add(self, head: int) -> None:
        """Registers a request built from the log up to `head`."""
        caller = _caller()
        # The dict is replaced, not changed, because other threads may be reading it.
        others = [item for item in self._pending.items() if item[0] != caller]
        self._pending = {**dict(others[1 - PENDING_MAX :]), caller: _Request(head)}
        self.newest_head = head

    @property
    def head(self) -> int | None:
        """The head shown by the caller's pending request, or by the newest if the caller has none;
        None if no request is pending."""
        request = self._newest()
        return None if request is None else request.head

    def match(self, head: int) -> int:
        """Returns the head shown by the request that a reply answers, and removes that request.
        If none is pending, the caller must have built its own from the whole log, up to `head`."""
        request = self._newest()
        if request is None:
            return head
        self._pending = {key: one for key, one in self._pending.items() if one is not request}
        return request.head

    def note_manual_append(self, *, is_reply: bool) -> int | None:
        """Notes that a reply, part of one, or a later message was appended by hand. Returns the
        head of the request that it may answer; None if no request is still open."""
        request = self._newest()
        if request is None:
            return None
        head = None if request.is_closed else request.head
        request.is_closed = request.is_closed or (request.is_replied and not is_reply)
        request.is_replied = request.is_replied or is_reply
        return head

    def _newest(self) -> _Request | None:
        if not self._pending:
            return None
        own = self._pending.get(_caller())
        return own or next(reversed(self._pending.values()), None)


def _caller() -> int:
    return CALLER.get() or threading.get_ident()


MarkLate = Callable[[Message], Message]


def thinks(message: Message) -> bool:
    """Whether the message contains thinking."""
    return any(isinstance(block, Thinking) for block in message.blocks)


def append_reply(
    log: OpenLog,
    shown: int,
    drafts_of: Callable[[MarkLate], Sequence[Draft]],
    at_ms: int | None = None,
) -> list[Event]:
    """Appends the drafts of a reply to the request that showed the log up to `shown`. `drafts_of`
    receives the function that marks late messages. The caller must hold the lock and have caught up
    with the log. If another writer appends in between, new drafts are created and tried."""
    for _ in range(TRIES_MAX):
        drafts = drafts_of(_marker(log, shown))
        if not drafts:
            return []
        if events := log.append(drafts, fresh=lambda _: False, at_ms=at_ms):
            return events
    message = f"{log.id}: other writers got in first {TRIES_MAX} times"
    raise Conflict(message, head=log.state.head, hint="try again")


def without_late_marker(message: Message) -> Message:
    """The message without its late marker."""
    if UPTO not in message.metadata:
        return message
    rest = {name: value for name, value in message.metadata.items() if name != UPTO}
    return replace(message, metadata=rest)


def _marker(log: OpenLog, shown: int) -> MarkLate:
    """Returns a function that adds the late marker if the log has changed since the request."""
    slots = log.sums.slots
    last = slots[-1] if slots else None
    # A model is not asked to continue an answer that ends in text or thinking.
    is_finished = last is not None and (
        last.message.role == "assistant"
        and all(isinstance(block, Text | Thinking) for block in last.message.blocks[-1:])
    )
    is_asked = last is None or (last.last <= shown and not is_finished)
    # A lone system message is sent as a user message until another message follows.
    holds = is_asked and (not slots or any(slot.message.role != "system" for slot in slots))
    is_late = log.sums.head > shown or bool(log.pending) or not holds

    def mark(message: Message) -> Message:
        if not is_late or not thinks(message):
            return message
        return replace(message, metadata={**message.metadata, UPTO: shown if holds else 0})

    return mark
