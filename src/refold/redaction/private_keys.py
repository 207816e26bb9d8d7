"""Private keys in a text: whole blocks, and single lines of encoded bytes.

A public key or a certificate says what it is, and is left alone. Neighbours: `find` asks these
rules, `shapes` knows keys that are one word.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from refold.redaction.secret import Found

KEY_CHARS = 20_000
# How many different characters a key has at least; a block of dots or of one letter is a fixture.
KEY_VARIETY = 16

_BEGIN = "-----BEGIN "
_GAP = r"(?:\s|\\[nrt]|[\"',>|+#*]){0,40}+"
_PRIVATE = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
    # Headers, each up to the end of its line or, where all is on one line, one word; then lines of
    # encoded bytes, which prose after a mere mention of the first line is not.
    rf"(?:{_GAP}[A-Za-z-]{{3,20}}: (?:[^\n\\]{{1,100}}+(?=[\n\\])|[^\s\\]{{1,100}}+))*+"
    rf"(?P<body>(?:{_GAP}(?=[A-Za-z0-9+/][a-z]*+[A-Z0-9+/=])[A-Za-z0-9+/=]{{10,}}+)*+)"
    rf"(?P<end>(?:{_GAP}[A-Za-z0-9+/=]{{1,75}}+){{0,2}}"
    rf"{_GAP}-----END [A-Z0-9 ]{{0,30}}PRIVATE KEY(?: BLOCK)?-----)?"
)
_PUBLIC = re.compile(
    r"-----BEGIN (?![A-Z0-9 ]{0,30}PRIVATE)[A-Z0-9 ]{1,40}-----[A-Za-z0-9+/=\s]{0,20000}+"
    r"-----END [A-Z0-9 ]{1,40}-----"
)
_KEY_LINE = re.compile(
    r"\n[ \t>|+-]{0,8}(?P<line>[A-Za-z0-9+/]{60,76}={0,2})(?=[ \t\r]{0,4}(?:\n|\Z))"
)
_KEY_STARTS = re.compile(
    r"MII[A-Za-z0-9+/]{1,3}IBA[AD]|MHcCAQEE|MC4CAQAwBQYDK2Vw|MIGHAgEAMBMG|b3BlbnNzaC1rZXktdjE"
)


def key_blocks(text: str, lowered: str) -> Iterator[Found]:
    """Blocks from `BEGIN … PRIVATE KEY` on, also where the end is missing."""
    at = text.find(_BEGIN)
    while at >= 0:
        match = _PRIVATE.match(text, at, at + KEY_CHARS)
        if match and match["body"]:
            is_varied = len(set(match["body"])) >= KEY_VARIETY
            yield Found("private key", at, match.end(), is_varied)
        at = text.find(_BEGIN, match.end() if match else at + 1)


def key_lines(text: str, lowered: str) -> Iterator[Found]:
    """Lines of encoded bytes: a gist may show one line of a key without the line that says what
    it is."""
    public = _public_places(text)
    for match in _KEY_LINE.finditer("\n" + text):
        # The newline that was put before the text moves everything by one.
        start, end = match.start("line") - 1, match.end("line") - 1
        # An odd number of starts and ends before the line: it is in a block that is public.
        if _is_mixed(match["line"]) and bisect_right(public, start) % 2 == 0:
            is_key = _KEY_STARTS.match(match["line"]) is not None
            yield Found("private key" if is_key else "key material", start, end, is_key)


def _public_places(text: str) -> list[int]:
    """Where public blocks start and end, in turn."""
    if _BEGIN not in text:
        return []
    return [place for match in _PUBLIC.finditer(text) for place in match.span()]


def _is_mixed(line: str) -> bool:
    """Whether it has letters of both cases and digits; a digest in hexadecimal has not."""
    kinds = (str.isupper, str.islower, str.isdigit)
    return all(any(map(is_kind, line)) for is_kind in kinds)
