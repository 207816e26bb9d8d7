"""Secrets are taken out of a text before a writer sees it, and out of what the writer gives back.

Known shapes (keys of providers, tokens, private keys, passwords in addresses) always go; a value behind a telling name
(`password=`, `API_TOKEN:`) goes if it looks like a value and not like code. What stood there is named, never shown.
Redacting twice changes nothing. Neighbour: `asking` calls this; the log itself keeps what it was given.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    # kind, shape; every repetition is bounded, so that no text can make the search slow
    (
        "private key",
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]{0,10000}?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"
        ),
    ),
    ("AWS key", re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b")),
    ("API key", re.compile(r"\bsk-(?:ant-|proj-|or-|svcacct-)?[A-Za-z0-9_-]{16,300}")),
    ("API key", re.compile(r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,200}")),
    ("API key", re.compile(r"\bAIza[A-Za-z0-9_-]{35}")),
    ("token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255})")),
    ("token", re.compile(r"\bglpat-[A-Za-z0-9_-]{16,64}")),
    ("token", re.compile(r"\b(?:xox[abeoprs]-[A-Za-z0-9-]{10,250}|npm_[A-Za-z0-9]{30,60}|hf_[A-Za-z0-9]{30,60})")),
    ("token", re.compile(r"\b(?:ya29\.[A-Za-z0-9_-]{20,400}|pypi-[A-Za-z0-9_-]{50,400}|dop_v1_[a-f0-9]{64})")),
    ("token", re.compile(r"\beyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,2000}")),
    ("webhook", re.compile(r"https://hooks\.slack\.com/services/[A-Za-z0-9/]{20,100}")),
)  # fmt: skip
_BEARER = re.compile(r"(?i)\b(bearer|basic)[ \t]{1,4}([A-Za-z0-9._~+/=-]{12,4000})")
_ADDRESS = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://[^\s/:@\"']{0,100}:)([^\s/@\"']{1,200})(@)")
_NAMED = re.compile(
    r"(?i)(?P<name>(?:passwo?r?d|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|"
    r"credential)[\w-]{0,20}[\"']?[ \t]{0,4}(?:=>|[:=])[ \t]{0,4})"
    r"(?:(?P<quote>[\"'])(?P<quoted>[^\"'\s]{4,400})(?P=quote)|(?P<bare>[A-Za-z0-9_+/=.~!@#$%^&*-]{6,400})(?![\w(\[.]))"
)
_REFERENCE = re.compile(
    r"(?i)^(?:\$|%|<|\{|\[redacted|process\.env|os\.environ|env\.|self\.|none|null|true|false|undefined)"
)


def redacted(text: str) -> str:
    """The text with every secret replaced by a note that says what stood there."""
    for kind, shape in _SHAPES:
        text = shape.sub(_note(kind), text)
    text = _BEARER.sub(_bearer, text)
    text = _ADDRESS.sub(lambda m: f"{m[1]}{_note('password')}{m[3]}" if not _is_reference(m[2]) else m[0], text)
    return _NAMED.sub(_named, text)


def redactor(on: bool) -> Callable[[str], str]:
    """The function to put texts through: `redacted`, or one that leaves them alone."""
    return redacted if on else str


def _note(kind: str) -> str:
    return f"[redacted {kind}]"


def _bearer(match: re.Match[str]) -> str:
    """Words such as `basic configuration` are not credentials: those have digits or mixed case in them."""
    return f"{match[1]} {_note('token')}" if _looks_random(match[2]) else match[0]


def _named(match: re.Match[str]) -> str:
    quoted, bare = match["quoted"], match["bare"]
    value = quoted or bare or ""
    if _is_reference(value) or (bare and not _looks_random(bare)):
        return match[0]
    note, quote = _note("secret"), match["quote"] or ""
    return f"{match['name']}{quote}{note}{quote}"


def _is_reference(value: str) -> bool:
    """Whether this names a secret instead of being one: a variable, a placeholder, what was redacted already."""
    return _REFERENCE.match(value) is not None


def _looks_random(value: str) -> bool:
    letters = any(sign.isalpha() for sign in value)
    odd = any(sign.isdigit() for sign in value) or (any(map(str.isupper, value)) and any(map(str.islower, value[1:])))
    return letters and odd
