"""A route is a value: the permission it needs, its input, and its function.

`run` is a plain function and may block: it runs in a worker thread. It gets a `Call` and returns a
value (sent as JSON), or `Lines`, `Chunks` or `Plain`. A module registers its functions with
`@ROUTES.add(...)`. Permission is checked on the matched route, never on the text of a URL.
Neighbours: `app` calls routes, `route_table` has the complete table and describes it, `access` has
levels and tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta, Struct

from refold import decoding
from refold.edges.server.access import Level, Orgs, Token
from refold.errors import Invalid
from refold.stores.protocol import Store

VALUES_MAX = 50_000
# Texts of these types are checked again where they are used; here they describe what is refused.
Id = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
MemoryScope = Annotated[str, Meta(pattern=r"^(project|agent\.[A-Za-z0-9._-]{1,50})$")]
Method = Literal["GET", "POST", "PUT", "DELETE", "HEAD"]
S = TypeVar("S", bound=Struct)
Run = TypeVar("Run", bound="Callable[[Call], object]")


class Call(Struct, frozen=True, kw_only=True):
    """One call of a route: its path variables, query, body, and token."""

    orgs: Orgs
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes | Iterator[bytes] = b""
    token: Token | None = None

    @property
    def store(self) -> Store:
        """The store of the organization in the path."""
        return self.orgs.store(self.path["org"])

    @property
    def id(self) -> str:
        """The conversation in the path."""
        return self.path["id"]

    def parsed_query(self, type: type[S]) -> S:
        """The query as a value; Invalid with the name of the wrong parameter."""
        return parsed_query(self.query, type)

    def with_body(self, body: bytes | Iterator[bytes]) -> Call:
        return msgspec.structs.replace(self, body=body)

    def parsed_body(self, type: type[S]) -> S:
        """The body as a value."""
        assert isinstance(self.body, bytes)
        try:
            found = decoding.decode(self.body or b"{}", type)
        except (msgspec.DecodeError, RecursionError) as error:
            hint = f"send an object with {_fields(type)}"
            raise Invalid(f"invalid body: {error}", hint=hint) from error
        _check_values(found)
        return found

    @property
    def chunks(self) -> Iterator[bytes]:
        """The body of a route that streams it."""
        return iter([self.body] if isinstance(self.body, bytes) else self.body)


def _check_values(body: Struct) -> None:
    """Raises Invalid for more values than any message has: work on them holds up other calls."""
    count, left = 0, list[Any]([msgspec.structs.asdict(body)])
    while left:
        container = left.pop()
        count += len(container)
        if count > VALUES_MAX:
            raise Invalid(f"a body with more than {VALUES_MAX:,} values", hint="send them as text")
        values = container.values() if isinstance(container, dict) else container
        left += [value for value in values if isinstance(value, dict | list)]


def parsed_query(query: Mapping[str, str], type: type[S]) -> S:
    """A query as a value; Invalid with the name of the wrong parameter."""
    try:
        found = decoding.convert(dict(query), type, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"invalid query: {error}") from error
    for name in query:
        if getattr(found, name) is None:
            raise Invalid(f"invalid query: {name} cannot be null", hint="leave it out")
    return found


class Lines(Struct, frozen=True):
    """An answer in JSON lines."""

    lines: bytes


class Chunks(Struct, frozen=True):
    """A streamed answer."""

    chunks: Iterator[bytes]
    mime: str = "application/octet-stream"


class Plain(Struct, frozen=True):
    """An answer of text or bytes."""

    content: bytes
    mime: str = "text/plain; charset=utf-8"
    status: int = 200


class NoQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No parameters."""


def _fields(type: type[Struct]) -> str:
    """The fields of a body as text: `id`, and optionally `title`, `tags`."""
    fields = msgspec.structs.fields(type)
    required = [f"`{field.encode_name}`" for field in fields if field.required]
    optional = [f"`{field.encode_name}`" for field in fields if not field.required]
    options = f"optionally {', '.join(optional)}" if optional else ""
    return ", and ".join(filter(None, (", ".join(required), options)))


class Route(Struct, frozen=True, kw_only=True):
    """One route. `path` has its variables in braces; `query`, `body` and `gives` are the types of
    input and answer. `streams`: the body is streamed to the function. `has_events`: it also answers
    with server-sent events, if the client accepts these. `waits` is false for an answer from
    memory, without a thread. `is_limited` is false for those that watch the server, which get an
    answer however much else comes from their address. `audit` is the kind of its entry in the audit
    log."""

    method: Method
    path: str
    summary: str
    level: Level
    run: Callable[[Call], object]
    query: type[Struct] = NoQuery
    body: type[Struct] | Literal["lines", "bytes"] | None = None
    gives: object = None
    status: int = 200
    streams: bool = False
    has_events: bool = False
    waits: bool = True
    is_limited: bool = True
    audit: Literal["", "read", "erase", "admin"] = ""

    @property
    def name(self) -> str:
        """The name of the route in the OpenAPI document and in the logs."""
        words = self.path.partition("/context/")[2] or self.path
        return "-".join([self.method.lower(), *re.findall(r"\w+", words)])


class Routes(list[Route]):
    """A table of routes."""

    def add(self, method: Method, path: str, level: Level, **options: Any) -> Callable[[Run], Run]:
        """Adds the decorated function as a route, with its docstring as the summary."""

        def register(run: Run) -> Run:
            summary = run.__doc__ or ""
            self.append(
                Route(method=method, path=path, level=level, run=run, summary=summary, **options)
            )
            return run

        return register


def query_of(raw: bytes) -> dict[str, Any]:
    """The query string as strings. Raises Invalid if a name occurs twice, which is ambiguous."""
    try:
        text = raw.decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(raw), errors="strict")
    except ValueError as error:
        raise Invalid(f"unreadable query: {error}") from error
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise Invalid("a parameter occurs twice in the query", hint="pass each parameter once")
    return dict(pairs)
