"""Secrets are found in a text by rules, and taken out of what leaves the store.

Known shapes (`shapes`), private keys, passwords in addresses and credentials of a request are found
wherever they stand; a value behind a telling name (`password=`, `API_TOKEN:`) if it looks like a
value and not like code (`naming`). What may be a secret but is more likely a fixture or a picture
is found as not `sure`: it is taken out too, because that costs little, but `refold scan` does not
ring for it. What stood there is named, never shown. Redacting twice changes nothing. The log and
the page keep what they were given: the model has seen it already. `Config.redact` says for which
channels this is done, and whether e-mail addresses go too.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from refold.config import CHANNELS, EMAILS, Channel
from refold.redaction.shapes import EMAIL, RUN, SHAPES
from refold.redaction.values import is_code, is_placeholder, is_random, named, places

KEY_CHARS, HELD_CHARS, LINE_CHARS = 20_000, 64_000, 1_000_000
PASSES_MAX = 10
# How many different signs there are in a key at least; a block of dots or of one letter is a
# fixture
KEY_SIGNS = 16

Redact = Callable[[str], str]


class Found(NamedTuple):
    """A secret in a text, `text[start:end]`. Not `sure`: a fixture or encoded bytes look the
    same."""

    kind: str
    start: int
    end: int
    sure: bool = True


# --- channels ---


def is_redacted(redact: bool | tuple[str, ...], channel: Channel) -> bool:
    """Whether the setting `redact` covers a channel: all, none, or those it names."""
    assert channel in CHANNELS
    return redact if isinstance(redact, bool) else channel in redact


def redactor(redact: bool | tuple[str, ...], channel: Channel = "summaries") -> Redact:
    """The function to put texts of a channel through: `redacted`, or one that leaves them alone."""
    return partial(redacted, emails=takes_emails(redact)) if is_redacted(redact, channel) else str


def takes_emails(redact: bool | tuple[str, ...]) -> bool:
    """Whether the setting `redact` means e-mail addresses, too."""
    return not isinstance(redact, bool) and EMAILS in redact


# --- texts ---


def redacted(text: str, *, emails: bool = False, keep_lines: bool = False) -> str:
    """The text with every secret replaced by a note that says what stood there; e-mail addresses
    too if asked. With `keep_lines` it has as many lines as before: somebody may have noted their
    numbers."""
    for _ in range(PASSES_MAX):
        hits = found(text, emails=emails)
        if not hits:
            break
        # A secret that hung on to another shows only when that one is gone, so what is left is
        # searched again.
        text = _noted(text, hits, keep_lines)
    return text


def _noted(text: str, hits: list[Found], keep_lines: bool) -> str:
    parts, done = [], 0
    for one in hits:
        lines = "\n" * text.count("\n", one.start, one.end) if keep_lines else ""
        parts += [text[done : one.start], f"[redacted {one.kind}]", lines]
        done = one.end
    return "".join((*parts, text[done:]))


def found(text: str, *, emails: bool = False) -> list[Found]:
    """The secrets of a text, in order, none over another. Of rules that find the same, the first
    names it."""
    # One sign of Unicode becomes two in lower case, which would move all behind it.
    lowered = text.replace("İ", "i").lower()
    hits = [
        hit
        for rule in (*_RULES, _emails)
        if emails or rule is not _emails
        for hit in rule(text, lowered)
    ]
    # Sorting is stable: where two rules found the same place, that of the earlier rule comes first.
    hits.sort(key=attrgetter("start"))
    apart: list[Found] = []
    for hit in hits:
        if apart and hit.start < apart[-1].end:
            last = apart[-1]
            apart[-1] = Found(last.kind, last.start, max(last.end, hit.end), last.sure or hit.sure)
        else:
            apart.append(hit)
    return apart


def masked(secret: str) -> str:
    """What may be shown of a secret: enough to tell a long one from another, nothing of a
    password or a key block."""
    is_long = (
        len(secret) >= 24 and not any(sign.isspace() for sign in secret) and "-----" not in secret
    )
    return (
        f"{secret[:4]}…{secret[-2:]} ({len(secret):,} characters)"
        if is_long
        else f"… ({len(secret):,} characters)"
    )


# --- streams ---


def redacted_chunks(chunks: Iterable[bytes], *, emails: bool = False) -> Iterator[bytes]:
    """A stream of UTF-8 text without its secrets, such as an export for reading."""
    return (redacted(piece, emails=emails).encode() for piece in pieces(chunks))


def pieces(chunks: Iterable[bytes]) -> Iterator[str]:
    """A stream of UTF-8 text in pieces that can be searched one by one. What is held back is
    bounded; it is let go at the end of a line, and never inside a private key."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    waiting: list[str] = []
    size, enough = 0, HELD_CHARS
    for chunk in chunks:
        waiting.append(decoder.decode(chunk))
        size += len(waiting[-1])
        if size > enough:
            end = _let_go(held := "".join(waiting))
            if end:
                yield held[:end]
            waiting = [held[end:]]
            size = len(waiting[0])
            # Where nothing could be let go, the next try waits for as much again: many small chunks
            # cost no square.
            enough = size + HELD_CHARS
    yield "".join(waiting) + decoder.decode(b"", True)


def _let_go(text: str) -> int:
    """How much of a text can be searched without what comes behind it: 0 if there is no such
    place yet."""
    end = text.rfind("\n") + 1 or (len(text) if len(text) > LINE_CHARS else 0)
    opened = text.rfind("-----BEGIN", max(0, end - KEY_CHARS), end)
    return text.rfind("\n", 0, opened) + 1 if opened > text.rfind("-----END", 0, end) else end


# --- the rules ---

_GAP = r"(?:\s|\\[nrt]|[\"',>|+#*]){0,40}+"
_PRIVATE = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
    # headers, then lines of encoded bytes, which prose behind a mere mention of the first line is
    # not
    rf"(?:{_GAP}[A-Za-z-]{{3,20}}: [^\n\\]{{1,100}})*+"
    rf"(?P<body>(?:{_GAP}(?=[A-Za-z0-9+/][a-z]*+[A-Z0-9+/=])[A-Za-z0-9+/=]{{10,}}+)*+)"
    rf"(?P<end>(?:{_GAP}[A-Za-z0-9+/=]{{1,75}}+){{0,2}}{_GAP}-----END [A-Z0-9 ]{{0,30}}PRIVATE KEY(?: BLOCK)?-----)?"
)
_PUBLIC = re.compile(
    r"-----BEGIN (?![A-Z0-9 ]{0,30}PRIVATE)[A-Z0-9 ]{1,40}-----[A-Za-z0-9+/=\s]{0,20000}+-----END [A-Z0-9 ]{1,40}-----"
)
_KEY_LINE = re.compile(
    r"\n[ \t>|+-]{0,8}(?P<line>[A-Za-z0-9+/]{60,76}={0,2})(?=[ \t\r]{0,4}(?:\n|\Z))"
)
_KEY_STARTS = re.compile(
    r"MII[A-Za-z0-9+/]{1,3}IBA[AD]|MHcCAQEE|MC4CAQAwBQYDK2Vw|MIGHAgEAMBMG|b3BlbnNzaC1rZXktdjE"
)
_ADDRESS = re.compile(
    r"://(?P<user>[^\s/:@\"'<>\\]{0,100}+):(?P<secret>[^\s/@\"'<>\\\[\]{}]{1,200}+)@"
)
# curl -u NAME:PASSWORD, but not docker run -u 1000:1000
_ACCOUNT = re.compile(
    r"-u(?:ser)?[ =][\"']?(?P<user>[^\s:\"'/$]{1,64}+):(?P<secret>(?!\d++\s)[^\s\"'/:]{4,200}+)"
)
_REQUEST = re.compile(r"(?:[ \t]{1,4}|%20)(?P<secret>[A-Za-z0-9._~+/-]{12,}+={0,2})")


def _by_shape(text: str, lowered: str) -> Iterator[Found]:
    runs = "\n".join(RUN.findall(text))
    for kind, anchor, pattern in SHAPES:
        if anchor in runs:
            group = "secret" if "secret" in pattern.groupindex else 0
            for match in pattern.finditer(text):
                start, end = match.span(group)
                yield Found(
                    kind, start, end, not is_placeholder(text[start:end].removeprefix(anchor))
                )


def _private_keys(text: str, lowered: str) -> Iterator[Found]:
    at = text.find("-----BEGIN ")
    while at >= 0:
        match = _PRIVATE.match(text, at, at + KEY_CHARS)
        if match and match["body"]:
            yield Found("private key", at, match.end(), len(set(match["body"])) >= KEY_SIGNS)
        at = text.find("-----BEGIN ", match.end() if match else at + 1)


def _key_lines(text: str, lowered: str) -> Iterator[Found]:
    """Lines of encoded bytes: a gist may show one line of a key without the line that says what
    it is. They have letters of both cases and digits; a digest in hexadecimal has not, and a
    certificate says that it is public."""
    public = (
        [place for match in _PUBLIC.finditer(text) for place in match.span()]
        if "-----BEGIN " in text
        else []
    )
    for match in _KEY_LINE.finditer("\n" + text):
        start, end, line = match.start("line") - 1, match.end("line") - 1, match["line"]
        varied = all(any(map(kind, line)) for kind in (str.isupper, str.islower, str.isdigit))
        # An odd number of starts and ends before the line: it stands in a block that is public.
        if varied and bisect_right(public, start) % 2 == 0:
            is_key = _KEY_STARTS.match(line) is not None
            yield Found("private key" if is_key else "key material", start, end, is_key)


def _in_addresses(text: str, lowered: str) -> Iterator[Found]:
    for anchor, pattern in (("://", _ADDRESS), ("curl", _ACCOUNT)):
        for match in pattern.finditer(text) if anchor in text else ():
            if not is_code(match["secret"]):
                yield Found(
                    "password",
                    *match.span("secret"),
                    not _is_fixture(match["user"], match["secret"]),
                )


def _is_fixture(user: str, password: str) -> bool:
    is_short = len(password) < (8 if password.isalpha() else 4)
    is_telling = password == user or "secret" in password.lower() or "password" in password.lower()
    return is_short or is_telling or is_placeholder(password)


def _in_requests(text: str, lowered: str) -> Iterator[Found]:
    """Words such as `basic configuration` are not credentials."""
    for word in ("bearer", "basic"):
        for at in places(lowered, word):
            match = _REQUEST.match(text, at + len(word))
            if match and is_random(match["secret"]) and not is_code(match["secret"]):
                yield Found("token", *match.span("secret"), not is_placeholder(match["secret"]))


def _emails(text: str, lowered: str) -> Iterator[Found]:
    return (Found("e-mail", *match.span()) for match in EMAIL.finditer(text) if "@" in text)


def _behind_names(text: str, lowered: str) -> Iterator[Found]:
    return (Found("secret", start, end, sure) for start, end, sure in named(text, lowered))


_RULES: tuple[Callable[[str, str], Iterable[Found]], ...] = (
    _private_keys, _by_shape, _key_lines, _in_addresses, _in_requests, _behind_names,
)  # fmt: skip
