"""The rounds of one answer: while the model calls only our tools, they are answered here and the
provider is asked again; then the client gets its answer.

Our calls in the same answer as the client's are held back: their results are in the log, and go up
with the results of the client's tools. The number of rounds is limited; then our tools answer that
it is enough, and an answer that still calls them ends with a message for the person. The log has
every round before the client sees the end, so the client never repeats an unknown answer. A
provider's error in a later round goes to the client unchanged; a request that the provider refuses
is sent once more with less in it. Neighbours: `events` joins the answers, `observer` answers and
keeps, `app` sends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from refold.core.model import ToolCall
from refold.dialects import tool_calls
from refold.edges.proxy import savings
from refold.edges.proxy.body import ParsedCall, Wire, response_of
from refold.edges.proxy.http import Send, error_body
from refold.edges.proxy.own_tools import tools
from refold.edges.proxy.own_tools.anthropic import AnthropicShape
from refold.edges.proxy.own_tools.chat import ChatShape
from refold.edges.proxy.own_tools.events import Cutter, Inside, Response, ServerEvent, Shape
from refold.edges.proxy.own_tools.gemini import GeminiShape
from refold.edges.proxy.own_tools.responses import ResponsesShape
from refold.edges.proxy.savings import UsageReader
from refold.edges.proxy.upstream import Answer, Refused, end_to_end
from refold.errors import RefoldError

T = TypeVar("T")

SHAPES: dict[str, Shape] = {
    "anthropic": AnthropicShape(),
    "gemini": GeminiShape(),
    "openai_chat": ChatShape(),
    "openai_responses": ResponsesShape(),
}
NOT_TAKEN = frozenset({400, 413, 422})
ERROR_BYTES_MAX = 1024 * 1024
WHOLE_S = 600.0
_OF_THE_BYTES = (b"content-length", b"content-encoding")
COMPRESSED = "an answer came compressed: calls of refold's tools in it are passed on"
log = logging.getLogger("refold.proxy")


class Ways(Struct, frozen=True, kw_only=True):
    """The caller's functions: ask the provider again, answer calls, keep the exchange, and wait for
    the log before the end. The second and third return None if they fail."""

    again: Callable[[bytes], Awaitable[Answer]]
    answers: Callable[[list[ToolCall]], Awaitable[list[str] | None]]
    keep: Callable[[Inside], Awaitable[object]]
    finished: Callable[[], Awaitable[None]]


def can_be_read(answer: Answer) -> bool:
    """Whether an answer can be parsed: it is not compressed."""
    if answer.headers.get("content-encoding", "identity") == "identity":
        return True
    log.warning(COMPRESSED)
    return False


class Rounds:
    """One call of a client, from its first answer on."""

    def __init__(
        self, parsed: ParsedCall, sent: list[bytes], ways: Ways, send: Send, *, rounds_max: int
    ) -> None:
        self._asked, self._sent, self._ways = parsed, sent, ways
        self._client = _Client(send, SHAPES[parsed.dialect])
        self._shape, self._rounds_max = SHAPES[parsed.dialect], rounds_max
        self._responses: list[Response] = []
        self._messages: list[list[Wire]] = []
        self._has_called = False  # our tools
        self._is_over = False  # the last answer calls only our tools, over the limit
        self.readers: list[UsageReader] = []  # of each round's usage

    @property
    def has_begun(self) -> bool:
        """Whether the client has any part of its answer."""
        return self._client.has_begun

    async def relay(self, answer: Answer) -> None:
        """Sends the client its answer."""
        while True:
            raw = await self._read(answer)
            try:
                again = await self._answered()
            except RefoldError as error:
                if not self._client.has_begun:
                    raise
                await self._client.fail(error_body(error))
                return
            if again is None:
                await self._end(raw)
                return
            if not again.is_success:
                await self._client.refuse(again)
                return
            answer = again

    async def _read(self, answer: Answer) -> bytes:
        """Reads an answer to its end; a stream, or an answer that is too long, goes to the client
        as it comes."""
        reader = UsageReader(self._asked.dialect, answer.headers)
        self.readers.append(reader)
        self._client.begin(answer)
        whole = bytearray()
        try:
            # A stream lasts as long as it is not silent; what is held has to end.
            async with asyncio.timeout(None if self._client.is_stream else WHOLE_S) as limit:
                async for chunk in answer.chunks():
                    reader.feed(chunk)
                    if self._client.is_stream:
                        await self._client.feed(chunk)
                    else:
                        whole += chunk
                    if len(whole) > savings.COPY_BYTES_MAX:
                        limit.reschedule(None)
                        await self._client.pass_on(bytes(whole))
                        whole.clear()
        except TimeoutError:
            raise Refused("slow", "the answer did not end in time") from None
        finally:
            await answer.close()
        return bytes(whole)

    async def _answered(self) -> Answer | None:
        """The next answer, if the last one calls only our tools; None at the end."""
        try:
            calls = self._calls()
        except (RefoldError, LookupError, TypeError, AttributeError, msgspec.DecodeError):
            self._responses.clear()  # unreadable: it is passed on unchanged
            return None
        ours = list(filter(tools.is_ours, calls))
        if not ours:
            return None
        texts = await self._texts(ours)
        self._messages.append(self._shape.results(list(zip(ours, texts, strict=True))))
        self._is_over = len(ours) == len(calls) and len(self._responses) > self._rounds_max
        if len(ours) < len(calls) or self._is_over:
            return None
        answer = await self._ways.again(self._body())
        if answer.status not in NOT_TAKEN or not any(text != tools.FAILED for text in texts):
            return answer
        await answer.close()
        self._messages[-1] = self._shape.results([(call, tools.FAILED) for call in ours])
        return await self._ways.again(self._body())

    def _calls(self) -> list[ToolCall]:
        """The complete calls of the newest answer; it is kept from now on, unless it is
        unreadable."""
        copy = self.readers[-1].copy
        if copy is None:
            raise TypeError("an answer that is too long")
        response = response_of(copy)
        self._shape.one([response])
        self._messages.append(self._shape.messages(response))
        self._responses.append(response)
        calls = tool_calls(response)
        self._has_called = self._has_called or any(map(tools.is_ours, calls))
        return calls if self._shape.has_ended_well(response) else []

    async def _texts(self, ours: list[ToolCall]) -> list[str]:
        if len(self._responses) >= self._rounds_max:
            return [tools.ENOUGH] * len(ours)
        return await self._ways.answers(ours) or [tools.FAILED] * len(ours)

    def _body(self) -> bytes:
        said = [msgspec.json.encode(one) for part in self._messages for one in part]
        return self._asked.with_list([*self._sent, *said])

    async def _end(self, raw: bytes) -> None:
        if not self._responses:
            await self._ways.finished()
            await self._client.end(raw, None)
            return
        if self._is_over or self._is_silent():
            await self._say(tools.SILENT)
        seen = self._shape.one(self._responses)
        inside = self._shape.inside(self._messages, seen)
        await self._ways.keep(inside)
        await self._ways.finished()
        await self._client.end(raw, seen if self._has_called else None)

    def _is_silent(self) -> bool:
        """Whether the client would get nothing of an answer with content."""
        return any(self._messages) and not self._shape.messages(self._shape.one(self._responses))

    async def _say(self, text: str) -> None:
        """Ends the answer with text that the provider never sees: an empty answer would puzzle the
        person, and some clients drop it from their list."""
        response, events = self._shape.words(self._responses[-1], text)
        self._responses.append(response)
        await self._client.say(events)


class _Client:
    """The client's side: one status, one body."""

    def __init__(self, send: Send, shape: Shape) -> None:
        self._send, self._stream = send, shape.stream()
        self._answer: Answer | None = None
        self._cutter = Cutter()
        self.has_begun = False
        self.is_stream = False

    def begin(self, answer: Answer) -> None:
        """Takes another answer; the client gets the head of the first, or of the last if it is
        whole."""
        if not self.has_begun:
            self._answer = answer
            self.is_stream = "text/event-stream" in answer.headers.get("content-type", "")
        self._stream.begin()

    async def feed(self, chunk: bytes) -> None:
        await self._pass_on(self._cutter.feed(chunk))

    async def say(self, events: list[ServerEvent]) -> None:
        """Continues with an answer made here, if this is a stream."""
        if self.is_stream:
            await self._pass_on(self._cutter.rest())
            self._stream.begin()
            await self._pass_on(events)

    async def _pass_on(self, events: list[ServerEvent]) -> None:
        seen = b"".join(map(self._stream.take, events))
        if seen:
            await self._start()
            await self._send({"type": "http.response.body", "body": seen, "more_body": True})

    async def pass_on(self, raw: bytes) -> None:
        """Passes on a part of an answer unchanged."""
        await self._start(is_changed=False)
        await self._send({"type": "http.response.body", "body": raw, "more_body": True})

    async def _start(self, *, is_changed: bool = True) -> None:
        if self.has_begun:
            return
        self.has_begun = True
        assert self._answer is not None
        headers = [(name.lower(), value) for name, value in end_to_end(self._answer.headers.raw)]
        if is_changed:
            headers = [one for one in headers if one[0] not in _OF_THE_BYTES]
        status = self._answer.status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def end(self, raw: bytes, seen: Response | None) -> None:
        """Ends the answer: with the joined one, or unchanged if that is None."""
        if self.is_stream:
            await self._pass_on(self._cutter.rest())
            raw = self._stream.end(seen)
        elif seen is not None:
            # A stream without server-sent events is a list.
            raw = msgspec.json.encode([seen] if raw.lstrip().startswith(b"[") else seen)
        await self._start(is_changed=self.is_stream or seen is not None)
        await self._send({"type": "http.response.body", "body": raw, "more_body": False})

    async def refuse(self, answer: Answer) -> None:
        """Passes on an error from the provider: unchanged, or inside a stream that has begun."""
        try:
            error = await answer.peek(ERROR_BYTES_MAX) or b"{}"
        finally:
            await answer.close()
        if self.has_begun:
            await self.fail(error)
            return
        self._answer = answer
        await self._start()
        await self._send({"type": "http.response.body", "body": error, "more_body": False})

    async def fail(self, error: bytes) -> None:
        """Ends a stream with an error."""
        said = self._stream.failed(error)
        await self._send({"type": "http.response.body", "body": said, "more_body": False})


class Guarded(Protocol):
    """Runs our own work in a thread, and returns None if it fails."""

    async def __call__(self, work: Callable[[], T], doing: str) -> T | None: ...


def ways_of(
    again: Callable[[bytes], Awaitable[Answer]],
    guarded: Guarded,
    answers: Callable[[list[ToolCall]], list[str]],
    keep: Callable[[Inside], object],
    finished: Callable[[], Awaitable[None]],
) -> Ways:
    """The functions for a call, whose failures the client does not notice."""
    return Ways(
        again=again,
        answers=lambda calls: guarded(partial(answers, calls), "answering inside"),
        keep=lambda inside: guarded(partial(keep, inside), "keeping what was said inside"),
        finished=finished,
    )
