"""How the proxy folds: whether, into which window, and with which settings of a conversation.

A window that is smaller than the model's is a wish, not a limit: what is sent may fill it, and the
answer has room above it. Every call pays for its page, so the page of a short conversation stays
small, and grows with what was said. An agent that reads much at once would fill it every few calls,
and each compaction costs the front: the next one waits until the page is full, and goes further.
What a user says of any of this stands alone. Neighbours: `book` opens conversations with it, and
notes the limits for a shell beside it (`settings.noted`).

The provider's own compaction, asked for with the call that needs it: the client's key and
headers, its model, system prompt and tools, and its own messages up to the cut.

What is sent is what was sent before, so the provider knows it, and what it thought behind the cut
stays valid. The call is made from the thread that prepares the client's, over the proxy's own
connections; what fails is the compactor's to answer, which then folds here. Neighbours: `observer`
hands a call over, `app` sends, `compaction.native` asks and keeps what comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from refold import decoding
from refold.artifacts.intake import whole_tokens
from refold.compaction.native import NativeRequest
from refold.config import NUMBER_MAX
from refold.core.budget import RESERVE_MAX
from refold.core.model import NATIVE
from refold.dialects.native import native_wire
from refold.edges.proxy.body import LISTS, MARK, ParsedCall, Wire
from refold.edges.proxy.gate import Header, Target
from refold.edges.proxy.limits import Limits
from refold.errors import Unavailable
from refold.settings.sources import are_said, loaded
from refold.tokens.models import model_info

if TYPE_CHECKING:
    from refold.edges.proxy.book import OpenConversation
    from refold.edges.proxy.upstream import Upstream

WISH_FROM = 40_000  # tokens: in a smaller window, a gist needs all the room there is
WISHED: dict[str, Any] = {
    "reserve_tokens": 0,
    "target_ratio": 0.38,
    "compact_every": 28,
    "compact_share": 0.5,
}


class Folding(Struct, frozen=True, kw_only=True):
    """Whether requests are folded, by whom first, and into which window; None is the model's. With
    `tools`, conversations that begin now have ours."""

    folds: bool = False
    native: bool = False  # what is due is asked of the provider first
    tools: bool = False
    window: int | None = None
    config: dict[str, Any] = {}

    def settings(self, asked: ParsedCall, *, offloads: bool) -> dict[str, Any]:
        """What the proxy needs of the settings: the client has its own cache marks and roles, and
        nothing is put on its page that it did not say."""
        ladder = loaded(self.config)[0].ladder
        asks = {"ladder": tuple(dict.fromkeys((NATIVE, *ladder)))} if self.native else {}
        return {
            **(WISHED if self._is_wish(asked) else {}),
            **self.config,
            **asks,
            "dialect": asked.dialect,
            "cache": False,
            "memory_tokens": 0,
            "alternate_roles": False,
            "offload_tokens": self.large_tokens(asked) if offloads else NUMBER_MAX,
        }

    def _is_wish(self, asked: ParsedCall) -> bool:
        """Whether the model has room for an answer above the window, and the user says nothing of
        when a compaction comes and how far it goes."""
        window, info = self.window, model_info(asked.model or None)
        if window is None or not info.known or window < WISH_FROM:
            return False
        answer = min(info.output or RESERVE_MAX, RESERVE_MAX)
        return not are_said(*loaded(self.config)) and window + answer <= info.window

    def large_tokens(self, asked: ParsedCall) -> int:
        """The size from which a result is a stub at its first send: as the user says, else as in
        any message of a caller's own. An agent behind a base URL has no tool that gives back what
        is out of its sight: what is smaller leaves with a compaction, which quotes it."""
        said = loaded(self.config)[0].offload_tokens
        window = self.window or model_info(asked.model or None).window
        return whole_tokens(window) if said is None else said


ANSWER_BYTES_MAX = 32 * 1024 * 1024
_CODES = ("error_code", "code", "type")


class Sending(Struct, frozen=True):
    """A body that is to be sent in the place of a client's call: behind its path, and with these
    headers beside its own; it has so many seconds."""

    body: bytes
    path: str
    headers: dict[str, str]
    wait_s: float


# Sends one, and gives the status and the body of the answer. Raises what the connection raises.
Send = Callable[[Sending], tuple[int, bytes]]


class Asking:
    """Sends from a thread what is asked while a call is prepared; for as long, it may be."""

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
        """The status and the body of the answer, in the place of the call to this target."""
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
                return answer.status, await answer.peek(ANSWER_BYTES_MAX) or b""
            finally:
                await answer.close()


class Compaction:
    """Asks the provider of one conversation, by the call that is being prepared."""

    def __init__(self) -> None:
        self._held: OpenConversation | None = None
        self._asked: ParsedCall | None = None
        self._send: Send | None = None
        self.answers: list[dict[str, Any]] = []  # to the calls that were made for this one

    def begin(self, held: OpenConversation, asked: ParsedCall, send: Send | None) -> None:
        """From here on, what is asked is asked by this call."""
        self._held, self._asked, self._send = held, asked, send
        self.answers = []

    def end(self) -> None:
        """The call is prepared: nothing of it is kept."""
        self._held = self._asked = self._send = None
        self.answers = []

    def __call__(self, request: NativeRequest) -> Any:
        """What the provider answered. Unavailable if it refused."""
        held, asked, send = self._held, self._asked, self._send
        wire = native_wire(request.dialect)
        if held is None or asked is None or send is None or wire is None:
            raise Unavailable("no call is being prepared")
        key = LISTS[asked.dialect]
        fields = {name: raw for name, raw in asked.fields.items() if name != key}
        own = held.own_wires(asked, upto=request.span.last)
        said = request.call[key] if own is None else _marked(own, asked)
        whole: dict[str, Any] = {**fields, key: said}
        plain = {**whole, **_plain(fields, "tool_choice")}
        body = msgspec.json.encode(wire.body(plain))
        status, answer = send(Sending(body, wire.path, dict(wire.headers), request.wait_s))
        if status != 200:
            raise Unavailable(f"the provider answered {status}{_code(answer)}")
        self.answers.append(decoding.decode(answer, dict[str, Any]))
        return self.answers[-1]


def _plain(fields: dict[str, Raw], name: str) -> dict[str, Any]:
    return {name: msgspec.json.decode(fields[name])} if name in fields else {}


def _marked(wires: Sequence[Wire], asked: ParsedCall) -> list[Wire]:
    """The messages, the last with a cache mark if the client sets such marks in its list: what was
    sent before is found from there."""
    last = wires[-1]
    content = last.get("content")
    if not asked.marks or not isinstance(content, list) or not isinstance(content[-1], dict):
        return list(wires)
    block = {**content[-1], MARK: asked.marks[-1].says}
    return [*wires[:-1], {**last, "content": [*content[:-1], block]}]


def _code(answer: bytes) -> str:
    """What kind of error it is, without its words, which may repeat the request."""
    try:
        error = msgspec.json.decode(answer).get("error")
        said = {**error, **(error.get("details") or {})}
    except (msgspec.DecodeError, AttributeError, TypeError):
        return ""
    found = next((said[key] for key in _CODES if isinstance(said.get(key), str)), "")
    return f" ({found[:80]})" if found else ""


def with_headers(given: Sequence[Header], added: dict[str, str]) -> list[Header]:
    """The client's headers with these; a value that a list already has is not repeated."""
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
    """The headers that a list needs because it begins with what the provider wrote."""
    wire = native_wire(dialect)
    content = wires[0].get("content") if wires else None
    first = content[0] if isinstance(content, list) and content else None
    is_written = isinstance(first, dict) and first.get("type") == "compaction"
    return dict(wire.headers) if wire is not None and is_written else {}
