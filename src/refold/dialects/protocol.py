"""The protocol of a dialect: one provider's wire format, `parse` in, `render` out.

A message keeps its dialect, and its `form` if the dialect's usual rendering would differ from the
original; so an unedited message goes back to its provider unchanged. Across providers, `render`
reports losses. Neighbours: `wire` has the rules that dialects share, `core.laws` puts slots in
lawful order before rendering.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from refold.core.model import Message, Usage

# Finds the newest message that calls tools.
FindCalls = Callable[[], Message | None]


class Reply(Struct, frozen=True, kw_only=True):
    """A parsed response: the answer as a message, and its usage (without `upto`). `results` are
    those that arrived inside the calls they answer."""

    message: Message
    usage: Usage | None
    finished: str = ""
    is_stream: bool = False
    results: tuple[Message, ...] = ()


MARKS_MAX = 4  # accepted by a provider in one request
Marker = Literal["refold", "caller", "none"]


class CacheMarks(Struct, frozen=True, kw_only=True):
    """Whose cache marks a request carries, how many at most, and the lifetime of refold's own; an
    empty `ttl` means the lifetime of the caller's marks."""

    by: Marker = "refold"
    most: int = MARKS_MAX
    ttl: str = ""


REFOLDS = CacheMarks()


class Arranged(Struct, frozen=True):
    """A page as its provider accepts it. `places` has, for each rendered message, the index of the
    message that it became or joined; None if it is left out. Messages without a source were
    inserted after the one before them."""

    messages: list[dict[str, Any]]
    places: Sequence[int | None]


# Tokens that an answer needs besides thinking, unless the caller asked for fewer.
ANSWER_MIN = 1_024

GO_ON = "(go on)"  # inserted as a user's words where a provider requires that the user speaks last


class Dialect(Protocol):
    """`provider` owns the format: a call names a model only if both have the same provider.
    `output_limit` is the call's mandatory argument for the length of the answer; empty if the
    provider requires none."""

    name: str
    provider: str
    output_limit: str
    # By role, the dialect that stores plain text without a form: this one, unless its own messages
    # never have that shape.
    plain_text: Mapping[str, str]

    def recognizes(self, message: Mapping[str, Any]) -> bool:
        """Whether the message has a shape unique to this dialect (tool blocks, images, reasoning
        …)."""
        ...

    def parse(self, message: Mapping[str, Any]) -> list[Message]:
        """A wire message as messages. Invalid, with the offending value, if it cannot be read."""
        ...

    def is_response(self, response: Mapping[str, Any]) -> bool:
        """Whether this is a response object (as a plain dict) of this provider."""
        ...

    def reply(self, response: Mapping[str, Any]) -> Reply:
        """The reply in a response object (as a plain dict)."""
        ...

    def answering(self, message: Message, find_calls: FindCalls) -> Message:
        """The message with its results under the ids of the calls they answer."""
        ...

    def render(self, messages: Sequence[Message], lost: list[str]) -> list[dict[str, Any]]:
        """Lawful messages in this wire format. Content that it cannot express is added to
        `lost`."""
        ...

    def arranged(self, messages: list[dict[str, Any]], lost: list[str]) -> Arranged:
        """The rendered page under the rules that apply to a page as a whole: distinct ids,
        counterparts together, who may speak last. Leading system messages stay. Changes only
        copies; adds omissions to `lost`."""
        ...

    def definitions(self, tools: list[Any] | None, lost: list[str]) -> list[dict[str, Any]]:
        """Tools of any shape as this provider accepts them. Unacceptable ones are added to
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
        """The keyword arguments of the provider's call, with the messages `arranged`. `marks` are
        indices of messages that end a stable prefix; marks are set on copies of the messages."""
        ...

    def with_keywords(self, request: dict[str, Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The request with the caller's own keywords, which come last. Invalid if both set what
        cannot be replaced."""
        ...

    def finished(self, request: dict[str, Any], *, output_max: int | None = None) -> dict[str, Any]:
        """The complete call, with the caller's own keywords, as the provider accepts it: a keyword
        may constrain the messages, or the limit of the answer, which may be raised to `output_max`
        unless that is None. The messages themselves are never changed."""
        ...

    def check(self, request: Mapping[str, Any]) -> list[str]:
        """Faults for which the provider would refuse this request, by rules independent of the
        laws."""
        ...


def answering_by_id(message: Message, find_calls: FindCalls) -> Message:
    """`answering` for providers whose results always name their call: the message unchanged."""
    return message


def keywords_last(request: dict[str, Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """`with_keywords` for providers where every keyword is one value."""
    return {**request, **keywords}


def finished_as_it_is(request: dict[str, Any], *, output_max: int | None = None) -> dict[str, Any]:
    """`finished` for providers where no keyword constrains the rest of the call."""
    return request
