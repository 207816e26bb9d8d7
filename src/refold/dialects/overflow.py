"""Whether an error says that a request was too long for the model, and what it says about the real
limit.

Providers have no common code for it, so the words decide: of the message, the body, the nested
`error`, wherever an SDK keeps them. A status can only veto (rate limits also speak of tokens), and
so can an output limit that no shorter page would meet. No SDK is imported, and nothing but the
error is asked. Neighbour: `compaction.recovery` acts on what is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

TEXT_MAX = 20_000  # of one piece: an error may quote the whole request
SHOWN_MAX = 300
DEPTH_MAX = 5
LIMIT_MIN = 256  # no model's window is smaller, so a smaller number counts something else

STATUSES = ("status_code", "http_status", "status", "code", "HTTPStatusCode", "statusCode")
WORDS = (
    "message", "body", "error", "Error", "errors", "detail", "details", "type", "response", "text",
    "metadata",
)  # fmt: skip
NESTED = ("response", "body", "error", "__cause__")
VETOES = frozenset({401, 402, 403, 404, 408, 429})


class Overflow(Struct, frozen=True, kw_only=True):
    """A refusal for size. `limit` and `tokens` (of the input) are None where the provider does
    not say; `tokens` may include the output where only a total is given."""

    limit: int | None = None
    tokens: int | None = None
    text: str = ""


def overflow_of(error: Any) -> Overflow | None:
    """What an exception, a body or a text says about a context that was exceeded; None if that
    is not what it says."""
    try:
        pieces = list(dict.fromkeys(_pieces(error)))
    except Exception:  # noqa: BLE001 - an error may be anybody's object, and not tell what it is
        return None
    text = " \n".join(pieces).replace('\\"', '"')
    if not _is_overflow(text) or _statuses(error, text) & VETOES:
        return None
    limit, output = _number(_LIMITS, text), _number(_OUTPUTS, text)
    if limit is not None and output is not None and output >= limit:
        # The caller asks for more output than the model holds: no shorter page would help.
        return None
    if limit is not None and limit < LIMIT_MIN:
        limit = None
    return Overflow(limit=limit, tokens=_tokens(text, output), text=_shown(pieces, text))


def _shown(pieces: list[str], text: str) -> str:
    """What a person is shown of an error: the piece that says it, on one line."""
    telling = next(filter(_TOO_LONG.search, pieces), text)
    return " ".join(telling.split())[:SHOWN_MAX]


# --- the words of an error ---


def _pieces(thing: Any, depth: int = 0) -> Iterator[str]:
    """Everything that an error says, as texts, the error's own first."""
    if thing is None or depth > DEPTH_MAX:
        return
    if isinstance(thing, str):
        yield thing[:TEXT_MAX]
    elif isinstance(thing, bytes):
        yield thing[:TEXT_MAX].decode("utf-8", "replace")
    elif isinstance(thing, Mapping):
        yield from _body_pieces(thing, depth)
    elif isinstance(thing, list | tuple):
        for item in thing[:20]:
            yield from _pieces(item, depth + 1)
    elif not isinstance(thing, bool | int | float):
        yield from _object_pieces(thing, depth)


def _body_pieces(body: Mapping[Any, Any], depth: int) -> Iterator[str]:
    """What a body says; a number means nothing without its name."""
    for key, value in _without_headers(body):
        if isinstance(value, int | float):
            yield f"{key}: {value}"
        else:
            yield from _pieces(value, depth + 1)


def _without_headers(body: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """The entries of a body. Headers are left out: they name rate limits."""
    for key, value in body.items():
        if "header" not in str(key).lower():
            yield key, value


def _object_pieces(thing: Any, depth: int) -> Iterator[str]:
    """What an object of an unknown class says: an exception, a response."""
    if isinstance(thing, BaseException):
        yield str(thing)[:TEXT_MAX]
        yield type(thing).__name__
        yield from _pieces(thing.args, depth + 1)
        yield from _pieces(thing.__cause__, depth + 1)
    for name in WORDS:
        yield from _pieces(_attribute(thing, name), depth + 1)
    code = _attribute(thing, "code")
    if isinstance(code, str):
        yield from _pieces(code, depth + 1)


def _attribute(thing: Any, name: str) -> Any:
    """An attribute, but not a method, of somebody else's object."""
    try:
        value = getattr(thing, name, None)
    # A property of an SDK may raise anything, as the body of a stream not yet read does.
    except Exception:  # noqa: BLE001
        return None
    return None if callable(value) else value


# --- its status ---


_STATUS = re.compile(
    r"""(?:\b(?:error )?(?:code|status|status_?code)"?\s{0,3}[:=]\s{0,3}"?|\berror |\bhttp |^)"""
    r"""([45]\d\d)\b""",
    re.I,
)


def _statuses(error: Any, text: str) -> set[int]:
    """Every HTTP status that the error carries, in an attribute, a body, or as JSON in its text."""
    said = map(int, _STATUS.findall(text))
    return {*_status_fields(error), *said}


def _status_fields(thing: Any, depth: int = 0) -> Iterator[int]:
    if thing is None or depth > DEPTH_MAX or isinstance(thing, str | bytes | int | float):
        return
    for key, value in _fields_of(thing):
        if key in STATUSES and isinstance(value, int | str) and str(value).isdecimal():
            yield int(value)
        else:
            yield from _status_fields(value, depth + 1)


def _fields_of(thing: Any) -> Iterator[tuple[Any, Any]]:
    """The fields of a body or an object that may hold a status."""
    if isinstance(thing, Mapping):
        yield from _without_headers(thing)
        return
    for name in (*STATUSES, *NESTED):
        yield name, _attribute(thing, name)


# --- what the words mean ---


_RATE = re.compile(
    r"tokens? per (?:min|day|hour|sec)|\bTP[MD]\b|rate.?limit|throttl|\bquota\b"
    r"|resource.?exhausted|too many requests|please wait",
    re.I,
)
_TOO_LONG = re.compile(
    r"context[_ ]?(?:length|window)[_ ]?exceeded|exceed_context_size|context_too_long"
    r"|context_?overflow|maximum context length|maximum prompt length"
    r"|longer than the (?:maximum )?(?:model|context) length"
    r"|prompt is too long|prompt too long|input is too long|too many (?:input )?tokens"
    r"|exceed(?:s|ed|ing)? (?:(?:the|this|your|its|model'?s?|available|maximum|max) ){0,4}"
    r"context (?:window|size|length|limit)|context (?:window|length) exceeds"
    r"|(?:prompt|input) tokens? (?:count )?.{0,40}?exceeds? (?:the |a )?"
    r"(?:maximum|limit|configured)"
    r"|token count is [\d,]{1,12} but (?:the )?model only supports"
    r"|exceeded model token limit|greater than the context length|when context the overflows"
    r"|reduce the length of (?:the |your )?(?:messages|prompt|input)"
    r"|inputs\W{0,3}tokens \+|inputs\W{0,3}must have less than [\d,]{1,12} tokens"
    r"|range of input length should be|request_too_large|exceed max message tokens"
    r"|tokens in prompt too large",
    re.I,
)


def _is_overflow(text: str) -> bool:
    """Whether the words say that a request was too long, and not that there were too many."""
    return _TOO_LONG.search(text) is not None and _RATE.search(text) is None


def _any_of(*patterns: str) -> list[re.Pattern[str]]:
    """The patterns, compiled, in the order in which they are tried."""
    return [re.compile(pattern, re.I) for pattern in patterns]


_N = r"(\d[\d,_]{0,14})"
_LIMITS = _any_of(
    rf"maximum context length\W{{1,3}}(?:(?:is|of)\W{{1,3}})?(?:only )?{_N}",
    rf"{_N} maximum context length",
    rf"> {_N} maximum",
    rf"context limit: [\d,]{{1,12}} \+ [\d,]{{1,12}} > {_N}",
    rf"tokens allowed\W{{1,3}}(?:of )?{_N}",
    rf"maximum prompt length is {_N}",
    rf"limit (?:is|of) {_N}",
    rf"token limit: ?{_N}",
    rf"max(?:imum)? input tokens: ?{_N}",
    rf"(?:model|context) length (?:is|of) (?:only )?{_N}",
    rf"context size \({_N}",
    rf"\bn_ctx\W{{1,4}}{_N}",
    rf"must be <= {_N}",
    rf"must have less than {_N} tokens",
    rf"range of input length should be \[\d+, ?{_N}",
    rf"cannot exceed {_N}",
    rf"only supports up to {_N}",
    rf"too large: [\d,]{{1,12}}, maximum {_N}",
    rf"context window of {_N}",
)
_TOTALS = _any_of(rf"requested:? (?:about |up to )?{_N}")
_OUTPUTS = _any_of(
    rf"{_N} (?:tokens )?(?:in|for|of) (?:the |your )?(?:completion|output)",
    rf"context limit: [\d,]{{1,12}} \+ {_N} >",
    rf"max_(?:completion_)?tokens\W{{1,3}}is too large: {_N}",
    rf"{_N} \W?max_new_tokens",
)
_INPUTS = _any_of(
    rf"resulted in {_N}",
    rf"prompt is too long: {_N}",
    rf"context limit: {_N} \+",
    rf"request has {_N} input tokens",
    rf"request input token count: ?{_N}",
    rf"(?:input|prompt) token count\W{{1,3}}(?:(?:is|of)\W)?{_N}",
    rf"(?:request|prompt) contains (?:at least )?{_N}",
    rf"current length is {_N}",
    rf"\bn_prompt_tokens\W{{1,4}}{_N}",
    rf"(?:request|prompt) \((?:length )?{_N}",
    rf"given: {_N}",
    rf"keep the first {_N} tokens",
    rf"tokens in prompt too large: {_N}",
    rf"{_N} in (?:the |your )?(?:messages|prompt)",
)


def _number(patterns: list[re.Pattern[str]], text: str) -> int | None:
    """The number of the first pattern that is found."""
    for pattern in patterns:
        found = pattern.search(text)
        if found:
            return int(re.sub(r"\D", "", found[1]))
    return None


def _tokens(text: str, output: int | None) -> int | None:
    """The size of the input. A total says it best, less the output: the parts may leave out what
    tools take."""
    total = _number(_TOTALS, text) or 0
    tokens = total - (output or 0)
    return tokens if tokens > 0 else _number(_INPUTS, text)
