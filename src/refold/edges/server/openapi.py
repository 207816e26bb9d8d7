"""The OpenAPI document, made from the table of routes: it cannot say anything else than they do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from refold import __version__
from refold.edges.server.route import Route

_VARIABLE = re.compile(r"{(\w+)}")
REFERENCES = "#/components/schemas/{name}"
PATTERNS = {
    "org": "^[a-z0-9][a-z0-9-]{0,38}$",
    "id": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
    "digest": "^[0-9a-f]{64}$",
    "entry": "^[A-Za-z0-9-]{1,64}$",
}
ERRORS = {
    "400": "What was sent is not as it should be.",
    "401": "There is no token, or none that is valid.",
    "403": "The token does not allow this.",
    "404": "There is no such thing in this organization.",
    "405": "The path is not for this method.",
    "409": "The log has grown since it was read.",
    "413": "Too large.",
    "429": "Too many calls; Retry-After says when to come back.",
    "503": "Not now; Retry-After says when to come back.",
}
OPEN_ERRORS = ("400", "403", "405", "429", "503")


class Failure(Struct, frozen=True, kw_only=True):
    """How every refusal looks; a conflict says where the log stands."""

    error: str
    message: str
    hint: str = ""
    head: int | UnsetType = UNSET


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The document for these routes."""
    types = _types(routes)
    schemas, components = msgspec.json.schema_components(types, ref_template=REFERENCES)
    named = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, named)
    return {
        "openapi": "3.1.0",
        "info": {"title": "refold team server", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _types(routes: Sequence[Route]) -> list[type[Struct]]:
    found: list[Any] = [Failure]
    for route in routes:
        found += [route.body, route.gives]
    return list(dict.fromkeys(one for one in found if isinstance(one, type)))


def _operation(route: Route, named: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "responses": {**_answer(route, named), **_failures(route, named)},
        "x-level": route.level,
    }
    if route.level != "open":
        operation["security"] = [{"token": []}]
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(route.body, named)}
    return operation


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": PATTERNS[name]},
        }
        for name in _VARIABLE.findall(route.path)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    schema = msgspec.json.schema(route.query)
    described = schema["$defs"][route.query.__name__]
    required = described.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _plain(about)}
        for name, about in described["properties"].items()
    ]


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """A query has no null: an argument that may be left out is left out."""
    options = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    plain = options[0] if len(options) == 1 else schema
    return {key: value for key, value in plain.items() if key != "default" or value is not None}


def _answer(route: Route, named: dict[Any, Any]) -> dict[str, Any]:
    """What a call that is served is told, by its status."""
    if route.gives is None:
        return {"204": {"description": "Done."}}
    content = _content(route.gives, named)
    if route.tells:
        content = {**content, "text/event-stream": {"schema": {"type": "string"}}}
    return {str(route.status): {"description": route.summary, "content": content}}


def _content(kind: object, named: dict[Any, Any]) -> dict[str, Any]:
    match kind:
        case "lines":
            return {"application/x-ndjson": {"schema": {"type": "string"}}}
        case "bytes":
            return {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        case "text":
            return {"text/plain": {"schema": {"type": "string"}}}
        case "object":
            return {"application/json": {"schema": {"type": "object"}}}
        case _:
            return {"application/json": {"schema": named[kind]}}


def _failures(route: Route, named: dict[Any, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": named[Failure]}}
    codes = ERRORS if route.level != "open" else OPEN_ERRORS
    return {code: {"description": ERRORS[code], "content": content} for code in codes}
