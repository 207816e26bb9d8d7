"""Overflow errors: finds out whether a provider refused a request as too long, and the limit it
reported.

Providers have no common code for it, so the text decides: the message, the body, the nested
`error`, wherever an SDK keeps them. A status can only rule an overflow out (rate limits mention
tokens too), and so can an output limit that no shorter page would meet. No SDK is imported, and
only the error is examined. Neighbour: `compaction.recovery` acts on the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from refold.patterns import regex

TEXT_MAX = 20_000  # read of one string: an error may quote the whole request
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
    """A refusal for size. `limit` and `tokens` (of the input) are None if the provider does not
    report them; `tokens` may include the output if it reports only a total."""

    limit: int | None = None
    tokens: int | None = None
    text: str = ""


def overflow_of(error: Any) -> Overflow | None:
    """The overflow reported by an exception, a body or a string; None if it reports none."""
    try:
        texts = list(dict.fromkeys(_texts(error)))
    except Exception:  # noqa: BLE001 - an error may be a foreign object that cannot be read
        return None
    text = " \n".join(texts).replace('\\"', '"')
    # A request may be refused for its length, or because there were too many requests.
    if not _TOO_LONG.search(text) or _RATE.search(text):
        return None
    # A status may be in an attribute, in a body, or in the text.
    if {*_status_fields(error), *map(int, _STATUS.findall(text))} & VETOES:
        return None
    limit, output = _number(_LIMITS, text), _number(_OUTPUTS, text)
    if limit is not None and output is not None and output >= limit:
        # The caller asks for more output than the model can write: no shorter page would help.
        return None
    if limit is not None and limit < LIMIT_MIN:
        limit = None
    # A total is the best measure of the input, less the output: the parts may leave out tools.
    tokens = (_number(_TOTALS, text) or 0) - (output or 0)
    return Overflow(
        limit=limit,
        tokens=tokens if tokens > 0 else _number(_INPUTS, text),
        text=" ".join(next(filter(_TOO_LONG.search, texts), text).split())[:SHOWN_MAX],
    )


# --- the text of an error ---


def _texts(thing: Any, depth: int = 0) -> Iterator[str]:
    """Every string in an error, the error's own first."""
    if thing is None or depth > DEPTH_MAX:
        return
    if isinstance(thing, str):
        yield thing[:TEXT_MAX]
    elif isinstance(thing, bytes):
        yield thing[:TEXT_MAX].decode("utf-8", "replace")
    elif isinstance(thing, Mapping):
        for key, value in _without_headers(thing):
            if isinstance(value, int | float):  # a number means nothing without its name
                yield f"{key}: {value}"
            else:
                yield from _texts(value, depth + 1)
    elif isinstance(thing, list | tuple):
        for item in thing[:20]:
            yield from _texts(item, depth + 1)
    elif not isinstance(thing, bool | int | float):
        yield from _object_texts(thing, depth)


def _without_headers(body: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """The entries of a body, without headers, which mention rate limits."""
    for key, value in body.items():
        if "header" not in str(key).lower():
            yield key, value


def _object_texts(thing: Any, depth: int) -> Iterator[str]:
    """Every string in an object of an unknown class, such as an exception or a response."""
    if isinstance(thing, BaseException):
        yield str(thing)[:TEXT_MAX]
        yield type(thing).__name__
        yield from _texts(thing.args, depth + 1)
        yield from _texts(thing.__cause__, depth + 1)
    for name in WORDS:
        yield from _texts(_attribute(thing, name), depth + 1)
    code = _attribute(thing, "code")
    if isinstance(code, str):
        yield from _texts(code, depth + 1)


def _attribute(thing: Any, name: str) -> Any:
    """An attribute of a foreign object; None for a method."""
    try:
        value = getattr(thing, name, None)
    # A property of an SDK may raise anything, as the body of an unread stream does.
    except Exception:  # noqa: BLE001
        return None
    return None if callable(value) else value


# --- the status of an error ---


_STATUS = regex(
    r"""(?:\b(?:error )?(?:code|status|status_?code)"?\s{0,3}[:=]\s{0,3}"?|\berror |\bhttp |^)"""
    r"""([45]\d\d)\b""",
    re.I,
)


def _status_fields(thing: Any, depth: int = 0) -> Iterator[int]:
    if thing is None or depth > DEPTH_MAX or isinstance(thing, str | bytes | int | float):
        return
    if isinstance(thing, Mapping):
        fields = list(_without_headers(thing))
    else:
        fields = [(name, _attribute(thing, name)) for name in (*STATUSES, *NESTED)]
    for key, value in fields:
        if key in STATUSES and isinstance(value, int | str) and str(value).isdecimal():
            yield int(value)
        else:
            yield from _status_fields(value, depth + 1)


# --- phrases of the providers ---


_RATE = regex(
    r"tokens? per (?:min|day|hour|sec)|\bTP[MD]\b|rate.?limit|throttl|\bquota\b"
    r"|resource.?exhausted|too many requests|please wait",
    re.I,
)
_TOO_LONG = regex(
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


def _any_of(*patterns: str) -> list[re.Pattern[str]]:
    """The patterns, compiled, in the order of trial."""
    return [regex(pattern, re.I) for pattern in patterns]


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
    """The number in the first pattern that matches."""
    for pattern in patterns:
        match = pattern.search(text)
        if match:
            return int(re.sub(r"\D", "", match[1]))
    return None
