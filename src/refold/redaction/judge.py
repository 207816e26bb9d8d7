"""What a value looks like: random, code, or a placeholder.

A secret is drawn at random; a name, an address or a path only says where one is, and a placeholder
where one would be. Neighbours: `values` and `credentials` judge what they find, `shapes` only
whether it is a placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Characters between two changes of kind (lower, upper, digit) that a random value has at most:
# base64 has 1.7, code 5.
RANDOM_WORD, STRICT_WORD, LETTERS_WORD = 3.2, 2.5, 2.2

_CODE = re.compile(
    r"(?i)(?:[$%<{(\[&*]|process\.env|os\.environ|env[.(]|self\.|this\.|"
    r"(?:none|null|nil|true|false|undefined)\b|"
    r"secretref:|vault:|op://|arn:|ref\+|file:|https?://)|.*(?:\$\{|\{\{|%s|%\(|\}\}|\(\))"
)
_PATH = re.compile(r"[.~]{0,2}/[\w.-]")
_PLACEHOLDER = re.compile(
    r"(?i)example|placeholder|change.?me|redacted|not.?a.?real|foo.?bar|\.{3}|…|0123456789|"
    r"1234567|abcdefg|deadbeef|([x0*.#])\1{5}"
)
_PLACEHOLDER_WORDS = re.compile(
    # Too short to prove anything in a value that looks random: of a thousand letters by chance,
    # some spell "akey".
    r"(?i)your|dummy|x{4}|\*{3}|fake|sample|insert|replace|todo|lorem|<|>|[_-]here|"
    r"test.?(?:key|token|secret|passw)|(?:secret|token|passw\w*|key).?(?:value|test)|"
    r"^(?:secret|token|passw\w*|pass|key|test)\d{0,4}$|"
    r"(?:my|some|the|a|new|old|wrong|bad|invalid|valid|super|top|db|test|user|admin|client|app)"
    r"[_-]?(?:secret|passw|token|key|pw)"
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_DASH = re.compile(r"(?<=[A-Za-z0-9])[._-]+(?=[A-Za-z0-9])")
_INNER_DIGITS = re.compile(r"(?<=[A-Za-z])\d+(?=[A-Za-z])")


def is_random(value: str, *, strict: bool = False) -> bool:
    """Whether a value is more likely drawn than written: its characters change between kinds too
    often for words. `strict` is for a place where a name may stand, such as UserTokenV2."""
    words = _WORD.findall(value)
    size = sum(map(len, words))
    if size < 10 or len(set(value)) < 6:
        return False
    # A dash changes nothing: `your-key-goes-here-1` is made of words all the same.
    changes = len(words) - len(_DASH.findall(value))
    if not any(word.isdigit() for word in words):
        return not strict and size <= LETTERS_WORD * changes
    word_max = STRICT_WORD if strict and len(value) < 20 else RANDOM_WORD
    return size <= word_max * changes or inner_digits(value) >= (3 if strict else 2)


def inner_digits(value: str) -> int:
    """How many numbers have letters on both sides."""
    return len(_INNER_DIGITS.findall(value))


def is_code(value: str) -> bool:
    """Whether this names a secret instead of being one: a variable, an address, a path, what was
    redacted already."""
    if _CODE.match(value):
        return True
    return _PATH.match(value) is not None and not is_random(value)


def is_placeholder(value: str) -> bool:
    """Whether somebody wrote this to show where a secret would be."""
    if _PLACEHOLDER.search(value):
        return True
    if len(value) >= 10 and len(set(value)) < 5:
        return True
    return _PLACEHOLDER_WORDS.search(value) is not None and not is_random(value)


def places(text: str, word: str) -> Iterator[int]:
    """Where a word begins in a text."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))
