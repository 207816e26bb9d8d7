"""How the proxy folds: into which window, with which settings (`compaction.limits`), and with the
provider's own compaction first if asked to.

The provider's compaction is requested with the call that needs it: its key and headers, model,
system prompt and tools, and messages up to the cut, all sent before, so that later thinking stays
valid. If it fails, the compactor folds here. Neighbours: `conversation_registry` opens
conversations, `observer` hands calls over, `app` sends, `compaction.native` asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from refold import decoding
from refold.artifacts.intake import whole_tokens
from refold.compaction.limits import wished
from refold.compaction.native import NativeRequest
from refold.config import NUMBER_MAX
from refold.core.codec import EVENT_BYTES_MAX
from refold.core.model import NATIVE, Message
from refold.dialects.native import native_wire
from refold.edges.local_access import Header
from refold.edges.proxy.body import LISTS, MARK, ParsedCall, Wire
from refold.edges.proxy.upstream import Limits, Target
from refold.errors import Unavailable
from refold.settings.sources import loaded
from refold.tokens.models import model_info

if TYPE_CHECKING:
    from refold.edges.proxy.conversation_registry import OpenConversation
    from refold.edges.proxy.upstream import Upstream


class Folding(Struct, frozen=True, kw_only=True):
    """Whether requests are folded, by whom first, and into which window (None: the model's). With
    `tools`, new conversations have our tools; with an `opening`, they show it after their first
    words; where some tools are known to be `called`, they leave the others to the provider's tool
    search."""

    folds: bool = False
    native: bool = False  # the provider is asked for compactions first
    tools: bool = False
    opening: Message | None = None
    called: frozenset[str] = frozenset()
    window: int | None = None
    config: dict[str, Any] = {}

    def settings(self, parsed: ParsedCall, *, offloads: bool) -> dict[str, Any]:
        """The settings of a conversation behind the proxy: the client has its own cache marks and
        roles, and its page shows nothing that it did not send."""
        ladder = loaded(self.config)[0].ladder
        asks = {"ladder": tuple(dict.fromkeys((NATIVE, *ladder)))} if self.native else {}
        return {
            **wished(self.window, parsed.model, self.config),
            **self.config,
            **asks,
            "dialect": parsed.dialect,
            "cache": False,
            "memory_tokens": 0,
            "alternate_roles": False,
            "offload_tokens": self.large_tokens(parsed) if offloads else NUMBER_MAX,
        }

    def large_tokens(self, parsed: ParsedCall) -> int:
        """The size from which a result is a stub at its first send: the user's setting, or the one
        for a caller's own messages. An agent behind a base URL has no tool to unfold it; smaller
        results leave with a compaction, which quotes them."""
        said = loaded(self.config)[0].offload_tokens
        window = self.window or model_info(parsed.model or None).window
        return whole_tokens(window) if said is None else said


ANSWER_BYTES_MAX = EVENT_BYTES_MAX
_CODES = ("error_code", "code", "type")


class Sending(Struct, frozen=True):
    """A body to send instead of a client's call: after its path, with these headers in addition to
    its own, within a time."""

    body: bytes
    path: str
    headers: dict[str, str]
    wait_s: float


# Sends one, and returns the status and body of the answer. Raises the connection's errors.
Send = Callable[[Sending], tuple[int, bytes]]


class Asking:
    """Sends requests from a thread while a call is prepared, within a time."""

    def __init__(
        self,
        upstream: Upstream,
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        deadline: asyncio.Timeout,
    ) -> None:
        self._upstream, self._limits, self._loop = upstream, limits, loop
        self._deadline = deadline

    def send(
        self, target: Target, query: bytes, headers: list[Header], sending: Sending
    ) -> tuple[int, bytes]:
        """The status and body of the answer, for the target of the call."""
        wait_s = min(sending.wait_s, self._limits.native_s)
        target = msgspec.structs.replace(target, path=target.path + sending.path.encode())
        sent = with_headers(headers, sending.headers)
        answered = self._answered(target, query, sent, sending.body, wait_s)
        return asyncio.run_coroutine_threadsafe(answered, self._loop).result(wait_s + 1.0)

    async def _answered(
        self, target: Target, query: bytes, headers: list[Header], body: bytes, wait_s: float
    ) -> tuple[int, bytes]:
        if not self._deadline.expired():
            self._deadline.reschedule(self._loop.time() + wait_s + self._limits.prepare_s)
        async with asyncio.timeout(wait_s):
            answer = await self._upstream.send("POST", target, query, headers, body)
            try:
                return answer.status, await answer.peek(ANSWER_BYTES_MAX, wait_s) or b""
            finally:
                await answer.close()


class Compaction:
    """Asks the provider of one conversation, with the call being prepared."""

    def __init__(self) -> None:
        self._held: OpenConversation | None = None
        self._asked: ParsedCall | None = None
        self._send: Send | None = None
        self.answers: list[dict[str, Any]] = []  # to requests made with this call

    def begin(self, held: OpenConversation, parsed: ParsedCall, send: Send | None) -> None:
        """Uses this call for requests from now on."""
        self._held, self._asked, self._send = held, parsed, send
        self.answers = []

    def end(self) -> None:
        """Forgets the call."""
        self._held = self._asked = self._send = None
        self.answers = []

    def __call__(self, request: NativeRequest) -> Any:
        """The provider's answer. Unavailable if it refused."""
        held, parsed, send = self._held, self._asked, self._send
        wire = native_wire(request.dialect)
        if held is None or parsed is None or send is None or wire is None:
            raise Unavailable("no call is being prepared")
        key = LISTS[parsed.dialect]
        fields = {name: raw for name, raw in parsed.fields.items() if name != key}
        own = held.own_wires(parsed, upto=request.span.last)
        said = request.call[key] if own is None else _marked(own, parsed)
        whole: dict[str, Any] = {**fields, key: said}
        plain = {**whole, **_plain(fields, "tool_choice")}
        body = msgspec.json.encode(wire.body(plain))
        status, answer = send(Sending(body, wire.path, dict(wire.headers), request.wait_s))
        if status != 200:
            raise Unavailable(f"the provider answered {status}{_code(answer)}")
        try:
            said = decoding.foreign_value(answer)
        except msgspec.DecodeError as error:
            raise Unavailable("the provider's answer is not JSON") from error
        if not isinstance(said, dict):
            raise Unavailable("the provider's answer is not an object")
        self.answers.append(said)
        return said


def _plain(fields: dict[str, Raw], name: str) -> dict[str, Any]:
    return {name: msgspec.json.decode(fields[name])} if name in fields else {}


def _marked(wires: Sequence[Wire], parsed: ParsedCall) -> list[Wire]:
    """The messages, with a cache mark on the last one if the client sets marks in its list, so that
    the provider finds them in its cache."""
    last = wires[-1]
    content = last.get("content")
    if not parsed.marks or not isinstance(content, list) or not isinstance(content[-1], dict):
        return list(wires)
    block = {**content[-1], MARK: parsed.marks[-1].says}
    return [*wires[:-1], {**last, "content": [*content[:-1], block]}]


def _code(answer: bytes) -> str:
    """The kind of an error, without its text, which may repeat the request."""
    try:
        error = decoding.foreign_value(answer).get("error")
        said = {**error, **(error.get("details") or {})}
    except (msgspec.DecodeError, AttributeError, TypeError):
        return ""
    found = next((said[key] for key in _CODES if isinstance(said.get(key), str)), "")
    return f" ({found[:80]})" if found else ""


def with_headers(given: Sequence[Header], added: dict[str, str]) -> list[Header]:
    """The client's headers with these; a value that a list header already has is not repeated."""
    made = list(given)
    for name, value in added.items():
        key, text = name.encode(), value.encode()
        before = [one for one in made if one[0] == key]
        known = [part.strip() for _, said in before for part in said.split(b",")]
        if text not in known:
            said = b",".join([*(one[1] for one in before), text])
            made = [*(one for one in made if one[0] != key), (key, said)]
    return made


def headers_for(dialect: str, wires: Sequence[Wire]) -> dict[str, str]:
    """The headers for a list that begins with the provider's own compaction."""
    wire = native_wire(dialect)
    content = wires[0].get("content") if wires else None
    first = content[0] if isinstance(content, list) and content else None
    is_written = isinstance(first, dict) and first.get("type") == "compaction"
    return dict(wire.headers) if wire is not None and is_written else {}
