"""Secrets are taken out of a text before a writer sees it, and out of what the writer gives back.

Known shapes (keys of providers, tokens, private keys, passwords in addresses) always go; a value behind a telling name
(`password=`, `API_TOKEN:`) goes if it looks like a value and not like code. A gist may show one line of a key without
the line that says what it is, or a value without its end: those go too. What stood there is named, never shown.
Redacting twice changes nothing. Neighbour: `asking` calls this; the log and the page keep what they were given, because
the page goes to the model that has seen it already.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator

KEY_CHARS, HELD_CHARS, LINE_CHARS = 10_000, 64_000, 1_000_000

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
    r"(?:(?P<quote>[\"'])(?P<quoted>[^\"'\s]{4,400})(?P=quote)|[\"'](?P<cut>[^\"'\s…]{4,400})(?=[ \t]?…)|"
    r"(?P<bare>[A-Za-z0-9_+/=.~!@#$%^&*-]{6,400})(?![\w(\[.]))"
)
_KEY_LINE = re.compile(r"(?m)^([ \t>|+-]{0,8})([A-Za-z0-9+/]{60,76}={0,2})(?=[ \t\r]{0,4}$)")
_REFERENCE = re.compile(
    r"(?i)^(?:\$|%|<|\{|\[redacted|process\.env|os\.environ|env\.|self\.|none|null|true|false|undefined)"
)


def redacted(text: str) -> str:
    """The text with every secret replaced by a note that says what stood there."""
    for kind, shape in _SHAPES:
        text = shape.sub(_note(kind), text)
    text = _KEY_LINE.sub(_key_line, text)
    text = _BEARER.sub(_bearer, text)
    text = _ADDRESS.sub(lambda m: f"{m[1]}{_note('password')}{m[3]}" if not _is_reference(m[2]) else m[0], text)
    return _NAMED.sub(_named, text)


def redactor(on: bool) -> Callable[[str], str]:
    """The function to put texts through: `redacted`, or one that leaves them alone."""
    return redacted if on else str


def redacted_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """A stream of UTF-8 text without its secrets, such as an export for reading. What is held back is bounded; it is
    let go at the end of a line, and never inside a private key."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    held = ""
    for chunk in chunks:
        held += decoder.decode(chunk)
        if len(held) > HELD_CHARS and (end := _let_go(held)):
            yield redacted(held[:end]).encode()
            held = held[end:]
    yield redacted(held + decoder.decode(b"", True)).encode()


def _let_go(text: str) -> int:
    """How much of a text can be redacted without what comes behind it: 0 if there is no such place yet."""
    end = text.rfind("\n") + 1 or (len(text) if len(text) > LINE_CHARS else 0)
    opened = text.rfind("-----BEGIN", max(0, end - KEY_CHARS), end)
    return text.rfind("\n", 0, opened) + 1 if opened > text.rfind("-----END", 0, end) else end


def _note(kind: str) -> str:
    return f"[redacted {kind}]"


def _bearer(match: re.Match[str]) -> str:
    """Words such as `basic configuration` are not credentials: those have digits or mixed case in them."""
    return f"{match[1]} {_note('token')}" if _looks_random(match[2]) else match[0]


def _key_line(match: re.Match[str]) -> str:
    """A line of encoded bytes has letters of both cases and digits; a digest in hexadecimal has not."""
    varied = all(any(map(kind, match[2])) for kind in (str.isupper, str.islower, str.isdigit))
    return f"{match[1]}{_note('key material')}" if varied else match[0]


def _named(match: re.Match[str]) -> str:
    bare = match["bare"] or match["cut"]
    value = match["quoted"] or bare or ""
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
