"""What comes in is recorded: messages in any provider's shape, results of tool calls, replies with
their usage.

Neighbours: `dialects` parse, `artifacts.intake` makes drafts and moves large results out of the
way, `log.open_log` appends.

Which calls wait for their results, and which of them a result answers that does not say so.

Neighbour: `recorder` appends results.

Messages that each have a key of their own, appended in few writes.

Drafts are made as if those before them were in the log already. A run is written whole, or not at
all if somebody else wrote one of its keys meanwhile: whoever appends looks at the log again then.
Neighbours: `recorder` parses and drafts, `mirror` hands over what is new in a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
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
from refold.core.laws import calls_of, is_request, results_of
from refold.core.model import UPTO, Block, Event, Message, Slot, Text, Thinking, Usage
from refold.dialects.protocol import Reply
from refold.dialects.streams import CHUNKS_MAX, CUT_OFF, is_stream, take_chunk
from refold.dialects.usage import read_usage
from refold.display import number, suggestion
from refold.engine.replies import Late, PendingRequests, append_reply, thinks, without_late_marker
from refold.errors import Invalid
from refold.log.draft import Draft, Run, message_checked, runs_of
from refold.log.log import message_of
from refold.log.notes import NOW, Keys, Stamp, append_once, message_redacted, value_redacted
from refold.log.open_log import OpenLog
from refold.tokens.counter import count_block, count_message

OnError = Literal["raise", "degrade"]


class Parsed(Struct, frozen=True):
    """A message in any shape as messages of ours, and the dialect that it was taken for."""

    dialect: str
    messages: list[Message]


class Recorder:
    """Appends to one open log."""

    def __init__(
        self, log: OpenLog, model: ActiveModel, intake: Intake, asked: PendingRequests
    ) -> None:
        self._log, self._model, self._intake, self._asked = log, model, intake, asked
        self.keys = Keys(log.log)

    def append(self, message: Any, by: str | None, stamp: Stamp = NOW) -> list[Event]:
        if lacks_call(message):
            message = answering(message, self._waiting())
        parsed = self.parse(message)
        stamp = stamp.of(parsed[0].key if parsed else "")
        if stamp.key:
            parsed = [replace(one, key=stamp.key) for one in parsed]
        shown = self._answered([parsed])
        with self._log.guard:
            if shown is None:
                return append_once(self._log, self.keys, stamp, lambda: self._drafts([parsed], by))
            self._log.catch_up()
            return append_reply(
                self._log, shown, lambda late: self._once(stamp, late, parsed, by), stamp.at_ms
            )

    def _once(
        self, stamp: Stamp, late: Late, parsed: Sequence[Message], by: str | None
    ) -> list[Draft]:
        """The drafts of a reply that came late, unless the log has its key."""
        if stamp.key and self.keys.hold(stamp.key):
            return []
        return self._drafts([[*map(late, parsed)]], by)

    def _answered(self, given: Sequence[Sequence[Message]]) -> int | None:
        """The head that the request showed which is answered by hand, with thinking, by the first
        of what is given."""
        shown = self._asked.unanswered
        for parsed in given:
            self._asked.follow(is_reply=any(one.role == "assistant" for one in parsed))
        return shown if any(map(thinks, given[0] if given else ())) else None

    def _waiting(self) -> list[str]:
        with self._log.reading() as state:
            return unanswered(state.slots)

    def extend(self, messages: Sequence[Any], by: str | None) -> list[Event]:
        """Appends a list in few writes, none of them larger than a store takes."""
        given = self._parsed(messages)
        shown = self._answered(given)
        with self._log.guard:
            events: list[Event] = []
            if shown is not None:
                self._log.catch_up()
                events += append_reply(
                    self._log,
                    shown,
                    lambda late: self._drafts([[*map(late, given[0])]], by),
                )
                given = given[1:]
            runs = runs_of(self._drafts(given, by))
            return [*events, *(event for run in runs for event in self._log.append(run))]

    def _parsed(self, messages: Sequence[Any]) -> list[list[Message]]:
        """Every message as it would be read if those before it were in the log: some shapes are
        those of two providers, and the last reply tells whose they are; a result that names no
        call answers the one that waits there."""
        waiting = dict.fromkeys(self._waiting() if any(map(lacks_call, messages)) else ())
        given: list[list[Message]] = []
        reply: list[Message] = []
        for place in range(len(messages)):
            parsed = self._parsed_at(messages, place, reply, waiting)
            for one in parsed:
                follow_calls(waiting, one)
            reply = [one for one in parsed if one.role == "assistant"][-1:] or reply
            given.append(parsed)
        return given

    def _parsed_at(
        self, messages: Sequence[Any], place: int, ahead: Sequence[Message], waiting: Iterable[str]
    ) -> list[Message]:
        message = messages[place]
        try:
            if lacks_call(message):
                message = answering(message, [*waiting])
            return self.parse(message, ahead)
        except Invalid as error:
            said = f"message {place + 1} of {len(messages)}: {error.message}"
            raise Invalid(said, hint=error.hint) from error

    def _drafts(self, given: Sequence[Sequence[Message]], by: str | None) -> list[Draft]:
        """What was given, each in the messages that it was parsed into."""
        ahead: list[Message] = []
        drafts = [draft for parsed in given for draft in self.drafts_after(ahead, parsed, by)]
        self._tell_unasked(ahead)
        return drafts

    def _tell_unasked(self, messages: Sequence[Message]) -> None:
        """Says which results no request will show, because nobody made their calls. They are
        taken: a list from elsewhere may begin behind a call."""
        made: set[str] = set()
        unasked: dict[str, None] = {}
        for message in messages:
            made.update(calls_of(message))
            unasked.update(dict.fromkeys(id for id in results_of(message) if id not in made))
        unasked = {id: None for id in unasked if self._log.log.call(id) is None}
        if unasked:
            self._log.catch_up()
        found = self._called(unasked.keys())
        nobodys = [id for id in unasked if id not in found]
        if nobodys:
            those = ", ".join(quoted(id, 40) for id in nobodys[:SHOWN_MAX])
            said = f"nobody made the call of {number(len(nobodys), 'result')}: {those}"
            self._log.notify("result-unasked", f"{said}; no request shows it", calls=nobodys)

    def drafts_after(
        self, ahead: list[Message], parsed: Sequence[Message], by: str | None, stamp: Stamp = NOW
    ) -> list[Draft]:
        """The drafts of messages that are to be appended after others, which are not in the log
        yet. They are put to those."""
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

        self._asked.follow(is_reply=False)
        with self._log.guard:
            self._log.check_open()
            return append_once(self._log, self.keys, stamp, drafts)

    def record(
        self, response: Any, *, shown: int, usage: Any = None, at_ms: int | None = None
    ) -> list[Event]:
        """Appends a reply to the request that showed the log up to `shown`. A stream is read to
        its end; if it breaks, what came is recorded and the error raised."""
        given = None if usage is None else read_usage(usage, self._model.dialect())
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

    def record_usage(
        self, usage: Any, *, shown: int | None, at_ms: int | None = None
    ) -> list[Event]:
        """Appends a usage that came apart from its reply, to the request that showed the log up
        to `shown`; where that is not known, up to the reply that stands last."""
        read = read_usage(usage, self._model.dialect())
        with self._log.reading() as state:
            if read.response and read.response in state.responses:
                return []
            upto = self._before_reply() if shown is None else shown
            billed = self._model.received(read, upto=upto, replied=False)
            return self._log.append([Draft(body=billed, by="model")], at_ms=at_ms)

    def _before_reply(self) -> int:
        """The head that a request showed whose reply stands last, or is still to come."""
        state = self._log.state
        newest = state.slots[-1] if state.slots else None
        replied = newest is not None and newest.message.role == "assistant" and not newest.standin
        return newest.seq - 1 if newest is not None and replied else state.head

    def stream(self, response: Iterable[Any], *, shown: int) -> Iterator[Any]:
        """Hands the chunks of a stream on, and records the reply once it ends, however it ends."""
        chunks: list[Any] = []
        try:
            for chunk in response:
                take_chunk(chunks, chunk)
                yield chunk
        finally:
            self._record_chunks(chunks, shown)

    def _record_chunks(self, chunks: list[Any], shown: int) -> None:
        """Records what came of a stream, if anything did, and it was one."""
        if 0 < len(chunks) < CHUNKS_MAX:
            self._record(dialects.reply(chunks, self._model.dialect()), shown)

    def _record(self, reply: Reply, shown: int, at_ms: int | None = None) -> list[Event]:
        """Appends a reply and its usage. Of a stream that was cut off before the answer began, only
        the usage."""
        message, is_cut = reply.message, reply.finished == CUT_OFF
        if self._log.redacts:
            message = message_redacted(message)
        if is_cut:
            message = replace(message, metadata={**message.metadata, CUT_OFF: True})
        is_empty = is_cut and says_nothing(message)
        with self._log.reading():
            usage = self._billed(reply, is_empty=is_empty)
            if usage is not None and self._is_recorded(usage, None if is_empty else message):
                return []
            given = () if is_empty else (message,)
            events = append_reply(
                self._log,
                shown,
                lambda late: self._replied(reply, map(late, given), usage, shown),
                at_ms,
            )
            if events:
                self._log.sync("turn")
            return events

    def _replied(
        self, reply: Reply, given: Iterable[Message], usage: Usage | None, shown: int
    ) -> list[Draft]:
        """The drafts of a reply, of its message if there is one, and of what it was billed."""
        drafts = [draft for message in given for draft in self._intake.message(message, "model")]
        if usage is not None:
            billed = self._model.received(usage, upto=shown, replied=bool(drafts))
            drafts.append(Draft(body=billed, by="model"))
        return drafts + [
            draft for one in reply.results for draft in self._intake.message(one, None)
        ]

    def _billed(self, reply: Reply, *, is_empty: bool) -> Usage | None:
        """What a reply was billed, as it says, or as we estimate where its stream said nothing of
        its end: the count at the beginning of a stream is not that of its answer."""
        said = reply.usage
        if not reply.is_stream or (is_empty and said is None):
            return said
        if said is None:
            return self._estimated(reply.message)
        if reply.finished != CUT_OFF:
            return said
        output = 0 if is_empty else self._estimated(reply.message).output
        return replace(said, output=output, estimated=True) if said.output < output // 2 else said

    def _check_call(self, call: str) -> None:
        """Refuses the result of a call that nobody made. One that the page no longer shows is
        looked for in the log."""
        if self._log.log.call(call) is not None or self._called({call}):
            return
        waiting = unanswered(self._log.state.slots)
        raise Invalid(
            f"nobody made a call {quoted(call, 80)}",
            hint=suggestion(call, waiting) if waiting else "no call is waiting for its result",
        )

    def _called(self, calls: Set[str]) -> set[str]:
        """Those of these calls that the log has, on the page or off it."""
        if self._log.state.head == 0 or not calls:
            return set()
        parts = [msgspec.json.encode(id)[1:-1] if id.isascii() else b"" for id in calls]
        found: set[str] = set()
        for event in self._log.log.read():
            if event.kind == "message" and any(part in event.body for part in parts):
                message = message_of(event, self._log.state)
                found |= calls & set(calls_of(message)) if message is not None else set()
        return found

    def _estimated(self, message: Message) -> Usage:
        """What a reply was probably billed, where its stream did not say."""
        output = round(count_message(message, self._log.counter) * self._model.budget.factor)
        return Usage(input=self._model.current, output=output, estimated=True)

    def count(self, message: Any) -> int:
        """The tokens of a message, in the provider's count."""
        tokens = sum(count_message(one, self._log.counter) for one in self.parse(message))
        return round(tokens * self._model.budget.factor)

    def count_content(self, content: str | list[Any]) -> int:
        """The tokens of a text or of blocks, without what a message has around them."""
        messages = self.parse({"role": "user", "content": content})
        blocks = [block for message in messages for block in message.blocks]
        tokens = sum(count_block(block, self._log.counter) for block in blocks)
        return round(tokens * self._model.budget.factor)

    def parse(self, message: Any, ahead: Sequence[Message] = ()) -> list[Message]:
        """A message in any shape, as messages of ours. `ahead` is what comes before it and is not
        in the log yet."""
        if isinstance(message, Message):
            parsed = [message_checked(message)]
        else:
            parsed = dialects.parse(message, self._model.dialect(ahead=ahead))
        return [message_redacted(one) for one in parsed] if self._log.redacts else parsed

    def parse_once(
        self, message: Any, known: Parsed | None = None, ahead: Sequence[Message] = ()
    ) -> Parsed:
        """The same for a message that may have been read before; then it is as it was, unless it
        is taken for another dialect now."""
        dialect = self._model.dialect(ahead=ahead)
        if known is not None and known.dialect == dialect:
            return known
        return Parsed(dialect, self.parse(message, ahead))

    def _is_recorded(self, usage: Usage, message: Message | None) -> bool:
        """Whether the very reply is the latest on the page: an id alone says nothing, some servers
        give the same one again, and what is off the page or was asked since needs its answer. A
        reply without a message has nothing but its id."""
        if not usage.response or usage.response not in self._log.state.responses:
            return False
        if message is None:
            return True
        seq = _latest_reply(self._log.state.slots)
        said = seq and message_of(next(iter(self._log.log.read(seq - 1, seq))), self._log.state)
        return (
            isinstance(said, Message)
            and without_late_marker(said) == Draft(body=message, by="model").body
        )


def _latest_reply(slots: Sequence[Slot]) -> int:
    """The seq of the newest reply on the page, if nobody has spoken since; 0 if there is none."""
    for slot in reversed(slots):
        if slot.standin or is_request(slot):
            return 0
        if slot.message.role == "assistant":
            return slot.seq
    return 0


def says_nothing(message: Message) -> bool:
    """Whether a message has no text, no call, and no thinking that could be sent back."""
    return all(map(_is_nothing, message.blocks))


def _is_nothing(block: Block) -> bool:
    if isinstance(block, Thinking):
        return not (block.signature or block.data)
    return isinstance(block, Text) and not block.text.strip()


SHOWN_MAX = 5  # so many calls are named to a person


def unanswered(slots: Sequence[Slot]) -> list[str]:
    """The calls on the page that wait for their results, oldest first."""
    waiting: dict[str, None] = {}
    for slot in slots:
        follow_calls(waiting, slot.message)
    return [*waiting]


def follow_calls(waiting: dict[str, None], message: Message) -> None:
    """Which calls wait after a message, if these did before it."""
    waiting.update(dict.fromkeys(calls_of(message)))
    for id in results_of(message):
        waiting.pop(id, None)


def answering(message: Mapping[str, Any], waiting: Sequence[str]) -> dict[str, Any]:
    """A result that does not say which call it answers, as that of the one that waits."""
    if len(waiting) == 1:
        return {**message, "tool_call_id": waiting[0]}
    those = f"one of {', '.join(quoted(id, 40) for id in waiting[:SHOWN_MAX])}"
    nobody = "no call is waiting; what nobody called for is a message of the user"
    hint = f"set tool_call_id to {those}" if waiting else nobody
    raise Invalid("a tool message without tool_call_id", hint=hint)


def lacks_call(message: Any) -> bool:
    """Whether a message is a tool's and does not say which call it answers."""
    is_tool = isinstance(message, Mapping) and message.get("role") == "tool"
    return (
        is_tool and message.get("tool_call_id") is None and isinstance(message.get("content"), str)
    )


class Keyed(Struct, frozen=True):
    """What is to stand under a key: a message in any shape, or several; `parsed` if one was read
    already, and `upto` is the head that replies among them were made under, where that is known."""

    key: str
    messages: Sequence[Any]
    parsed: Parsed | None = None
    upto: int | None = None


def append_keyed(log: OpenLog, recorder: Recorder, given: Iterable[Keyed]) -> None:
    """Appends in this order what the log does not have yet, as far as it was read."""
    is_single = bool(log.config.checkpoint_every)
    with log.guard:
        run, keys, ahead = Run(is_single=is_single), list[str](), list[Message]()
        for one in given:
            if recorder.keys.hold(one.key):
                continue
            known = len(ahead)
            drafts = _drafts(recorder, one, ahead)
            if run.is_full or not run.take(drafts):
                _write(log, recorder, run, keys)
                run, keys = Run(is_single=is_single), []
                run.take(drafts)
                del ahead[:known]
            keys.append(one.key)
        _write(log, recorder, run, keys)


def _drafts(recorder: Recorder, one: Keyed, ahead: list[Message]) -> list[Draft]:
    drafts: list[Draft] = []
    for message in one.messages:
        parsed = recorder.parse_once(message, one.parsed, ahead).messages
        named = [_named(part, one) for part in parsed]
        drafts += recorder.drafts_after(ahead, named, None)
    return drafts


def _named(part: Message, one: Keyed) -> Message:
    """A message under its key; thinking with the head that it was thought under."""
    thinks = any(isinstance(block, Thinking) for block in part.blocks)
    late = {UPTO: one.upto} if thinks and one.upto is not None else {}
    return replace(part, key=one.key, metadata={**part.metadata, **late})


def _write(log: OpenLog, recorder: Recorder, run: Run, keys: Sequence[str]) -> None:
    if not run.drafts:
        return
    known = recorder.keys
    events = log.append(run.drafts, fresh=lambda _: not any(map(known.hold, keys)))
    known.take(keys, events)
