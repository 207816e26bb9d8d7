"""What a dialect is: one provider's wire format, `parse` in, `render` out.

A message keeps its dialect, and its `form` where the dialect's usual form would not give the
original back exactly; so an unedited message renders to the same provider as it came. Across
providers `render` says what it lost. Neighbours: `wire` has what the dialects share, `core.laws`
puts the slots in lawful order before they come here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from refold.core.model import Message, Usage

# Finds the newest message that calls tools.
FindCalls = Callable[[], Message | None]


class Reply(Struct, frozen=True, kw_only=True):
    """A provider's response, taken apart: the answer as a message, and what it was billed
    (without `upto`). `results` are those that came inside the calls they answer."""

    message: Message
    usage: Usage | None
    finished: str = ""
    is_stream: bool = False
    results: tuple[Message, ...] = ()


MARKS_MAX = 4  # what a provider takes in one request
Marker = Literal["refold", "caller", "none"]


class CacheMarks(Struct, frozen=True, kw_only=True):
    """Whose cache marks a request carries, how many at most, and how long refold's live: as the
    caller's do, unless it is said."""

    by: Marker = "refold"
    most: int = MARKS_MAX
    ttl: str = ""


REFOLDS = CacheMarks()


class Dialect(Protocol):
    """`provider` is whose format it is: a call carries a model's name only where they agree.
    `output_limit` is the argument of the call by which the provider must be told how long the
    answer may be; empty if it need not be."""

    name: str
    provider: str
    output_limit: str
    # By role, the dialect that keeps a plain text as it came, without a form: this one, unless its
    # own messages never look like that.
    plain_text: Mapping[str, str]

    def speaks(self, message: Mapping[str, Any]) -> bool:
        """Whether the message has a shape that only this dialect has (tool blocks, images,
        reasoning …)."""
        ...

    def parse(self, message: Mapping[str, Any]) -> list[Message]:
        """A wire message as messages. Invalid, with the offending value, if it has no form here."""
        ...

    def is_response(self, response: Mapping[str, Any]) -> bool:
        """Whether this is a response object (as a plain dict) of this provider."""
        ...

    def reply(self, response: Mapping[str, Any]) -> Reply:
        """A response object (as a plain dict) taken apart."""
        ...

    def answering(self, message: Message, find_calls: FindCalls) -> Message:
        """The message with its results under the ids of the calls they answer."""
        ...

    def render(self, messages: Sequence[Message], lost: list[str]) -> list[dict[str, Any]]:
        """Lawful messages in this wire format. What cannot be said in it is described in `lost`."""
        ...

    def definitions(self, tools: list[Any] | None, lost: list[str]) -> list[dict[str, Any]]:
        """Tools of any shape as this provider takes them. What it cannot take is described in
        `lost`."""
        ...

    def request(
        self,
        messages: list[dict[str, Any]],
        *,
        system: Any,
        tools: list[Any] | None,
        marks: Sequence[int],
        lost: list[str],
        caching: CacheMarks = REFOLDS,
    ) -> dict[str, Any]:
        """The keyword arguments of the provider's call. `marks` are indices of messages that end
        a stable prefix; marked on copies, the messages given are never changed."""
        ...

    def finished(self, request: dict[str, Any], *, output_max: int | None = None) -> dict[str, Any]:
        """The whole call, the caller's own keywords in it, as the provider takes it: a keyword may
        ask something of the messages, or of the limit of the answer, which may be raised to
        `output_max` unless that is None. The messages given are never changed."""
        ...

    def check(self, request: Mapping[str, Any]) -> list[str]:
        """What the provider would refuse in this request, by its own rules; written apart from
        the laws."""
        ...


def answering_by_id(message: Message, find_calls: FindCalls) -> Message:
    """`answering` for providers whose results always name the call they answer: the message as
    it is."""
    return message


def finished_as_it_is(request: dict[str, Any], *, output_max: int | None = None) -> dict[str, Any]:
    """`finished` for providers where no keyword asks anything of the rest."""
    return request
