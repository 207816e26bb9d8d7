"""The rule for values after revealing names (`password = "…"`, `"api_key": "…"`, `DB_PASSWORD=…`,
`--token …`, `?access_token=…`), and the tests of a value: random, code, or placeholder.

A name alone proves nothing: code is full of `token = next(tokens)`. So the value must not be code,
a reference or a placeholder, and it must look random; less is required of literal values (quotes
after a password, an environment variable), more where code may follow. Neighbours: `find` applies
this rule, `rules` uses the tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from refold.patterns import regex

_WORDS = (
    "passw", "passphrase", "secret", "token", "credential", "authorization", "apikey", "api_key",
    "api-key", "accesskey", "access_key", "access-key", "privatekey", "private_key", "private-key",
    "accountkey", "account_key", "auth_key", "authkey", "signing_key", "encryption_key",
    "encryptionkey", "master_key", "pwd",
)  # fmt: skip
_PASSWORDS = ("passw", "passphrase", "pwd")
_TAIL = regex(
    # after the revealing word: the rest of the name, the tie between name and value, the value
    r"(?P<rest>[\w-]{0,40}+)(?P<tie>\\{0,3}[\"'`\]]{0,2}[ \t]{0,4}"
    r"(?::[ \t]?&?(?:'static )?(?:str|string)[ \t]?)?"
    r"(?:=>|:=|={1,3}|:)[ \t]{0,4}|(?<=[\w-])[ \t]{1,2}|['\"],[ \t]{0,2}(?=['\"]))"
    r"(?:[rbfu]{0,2}(?P<quote>\\{0,3}[\"'`])(?P<quoted>[^\"'`\s\\]{4,400}+)"
    r"(?P<closed>(?P=quote)|(?=[ \t]?…))|"
    r"(?P<bare>[A-Za-z0-9_+/=.~!@#$%^&*-]{6,400}+)(?![\w(\[{.]))",
    re.IGNORECASE,
)
_OTHER_REST = regex(
    # names that describe a secret: its type, location, size, age
    r"(?:s?[_-]?(?:types?|names?|count\w*|kinds?|class|izer\w*|ize\w*|fields?|ur[il]\w*|endpoint|"
    r"paths?|files?|dir|folder|expir\w*|ttl|len\w*|size|limit\w*|max\w*|min\w*|budget|used|usage|"
    r"total|regex|pattern|label|hint|placeholder|prompt|policy|ids?|hash\w*|digest|prefix|suffix|"
    r"format|version|arn|ref|header|cookie|selector|input|form|error|message|"
    r"msg|text|title|description|env\w*|var|manager|provider|service|store|strategy|index|idx|"
    r"pos\w*|start|end|line\w*|status|state|valid\w*|required|reset|source|model|cache\w*|per\w*|"
    r"rate|cost|at|by|for|from|in|is|of|to|out))$",
    re.IGNORECASE,
)
_UUID = regex(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
# A redaction note, and a key that is not a secret.
_NO_NAME = regex(r"(?i)(?:\[redacted [\w .]*+|public(?:key)?)\Z")
_LOGIN = regex(r"\blogin\s{1,4}\S{1,60}\s{1,4}\Z")  # of a netrc file
_SYMBOL = regex(r"[!@#$%^&*+=~?]")
_NEXT_FIELD = regex(r"&[\w.-]{1,40}=")
_REST_OF_PASSWORD = regex(r"(?i)^(?:or)?d")


def after_names(text: str, lowered: str) -> Iterator[FoundSecret]:
    """The secret values after revealing names."""
    done = 0
    names = [(at, word) for word in _WORDS for at in places(lowered, word)]
    for at, word in sorted(names):
        match = _TAIL.match(text, at + len(word)) if at >= done else None
        if match is None:
            continue
        start, end = match.span("quoted" if match["quoted"] else "bare")
        if not match["quoted"] and (field := _NEXT_FIELD.search(text, start, end)):
            end = field.start()  # in an address
        sure = _verdict(text, at, word, match, text[start:end])
        if sure is not None:
            done = end
            yield FoundSecret("secret", start, end, sure)
        elif match["bare"] and not is_code(text[start:end]):
            # If the value is not a secret, no part of it is: a run of names is searched once.
            done = max(done, end - 1)


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name is a secret, whatever its value."""
    lowered = name.lower()
    return any(word in lowered for word in (*_WORDS, "key", "auth"))


def _verdict(text: str, at: int, word: str, match: re.Match[str], value: str) -> bool | None:
    """Whether the value is a sure secret (True), a possible one (False), or harmless (None)."""
    if len(value) < 6 or value.isdigit() or is_code(value):
        return None
    if not _names_secret(text, at, word, match["rest"]) or not _is_tied(text, at, match["tie"]):
        return None
    # After an environment variable, `DB_PASSWORD=…`, comes a value, not code.
    is_environment = text[at : match.end("rest")].isupper() and match["tie"] == "="
    return _judged(value, word, bare=not match["quoted"], environment=is_environment)


def _names_secret(text: str, at: int, word: str, rest: str) -> bool:
    """Whether the name denotes a secret, and not a property of one."""
    if word == "passw":
        rest = _REST_OF_PASSWORD.sub("", rest)
    if _OTHER_REST.match(rest):
        return False
    return _NO_NAME.search(text, max(0, at - 40), at) is None


def _judged(value: str, word: str, *, bare: bool, environment: bool) -> bool | None:
    if is_random(value, strict=bare and not environment):
        return not is_placeholder(value) and not (word == "token" and _UUID.match(value))
    if is_placeholder(value) or not _is_mixed(value, bare):
        return None
    is_password = word in _PASSWORDS
    if environment or (is_password and not bare):
        return True
    is_possible = _is_likely(value, bare) or (is_password and len(value) >= 8)
    return False if is_possible else None


def _is_mixed(value: str, bare: bool) -> bool:
    """Whether a value has letters, and digits or, in quotes, symbols."""
    has_letter, has_digit = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    has_symbol = not bare and _SYMBOL.search(value) is not None
    return has_letter and (has_digit or has_symbol)


def _is_likely(value: str, bare: bool) -> bool:
    """Whether a value that does not look random may still be."""
    if len(value) < 12 or not value.isalnum():
        return False
    return not bare or inner_digits(value) >= 2


def _is_tied(text: str, at: int, tie: str) -> bool:
    """Whether the tie connects name and value: a blank does in `--db-password VALUE`, a comma in
    `define('DB_PASSWORD', 'VALUE')`."""
    if tie.isspace():
        start = max(text.rfind(char, max(0, at - 40), at) for char in " \t\n'\"")
        is_option = text.startswith("--", start + 1)
        return is_option or _LOGIN.search(text, max(0, at - 80), at) is not None
    return "," not in tie or "define(" in text[max(0, at - 40) : at]


# Maximum characters between two changes of kind (lower, upper, digit) in a random value: base64 has
# 1.7, code 5.
RANDOM_WORD, STRICT_WORD, LETTERS_WORD = 3.2, 2.5, 2.2

_CODE = regex(
    r"(?i)(?:[$%<{(\[&*]|process\.env|os\.environ|env[.(]|self\.|this\.|"
    r"(?:none|null|nil|true|false|undefined)\b|"
    r"secretref:|vault:|op://|arn:|ref\+|file:|https?://)|.*(?:\$\{|\{\{|%s|%\(|\}\}|\(\))"
)
_PATH = regex(r"[.~]{0,2}/[\w.-]")
_PLACEHOLDER = regex(
    r"(?i)example|placeholder|change.?me|redacted|not.?a.?real|foo.?bar|\.{3}|…|0123456789|"
    r"1234567|abcdefg|deadbeef|([x0*.#])\1{5}"
)
_PLACEHOLDER_WORDS = regex(
    # Too short to prove anything in a value that looks random: among a thousand random letters,
    # some spell "akey".
    r"(?i)your|dummy|x{4}|\*{3}|fake|sample|insert|replace|todo|lorem|<|>|[_-]here|"
    r"test.?(?:key|token|secret|passw)|(?:secret|token|passw\w*|key).?(?:value|test)|"
    r"^(?:secret|token|passw\w*|pass|key|test)\d{0,4}$|"
    r"(?:my|some|the|a|new|old|wrong|bad|invalid|valid|super|top|db|test|user|admin|client|app)"
    r"[_-]?(?:secret|passw|token|key|pw)"
)
_WORD = regex(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_DASH = regex(r"(?<=[A-Za-z0-9])[._-]+(?=[A-Za-z0-9])")
_INNER_DIGITS = regex(r"(?<=[A-Za-z])\d+(?=[A-Za-z])")


def is_random(value: str, *, strict: bool = False) -> bool:
    """Whether a value is more likely random than written: its characters change between kinds too
    often for words. `strict` is for positions where a name such as UserTokenV2 may occur."""
    words = _WORD.findall(value)
    size = sum(map(len, words))
    if size < 10 or len(set(value)) < 6:
        return False
    # A dash does not count: `your-key-goes-here-1` still consists of words.
    changes = len(words) - len(_DASH.findall(value))
    if not any(word.isdigit() for word in words):
        return not strict and size <= LETTERS_WORD * changes
    word_max = STRICT_WORD if strict and len(value) < 20 else RANDOM_WORD
    return size <= word_max * changes or inner_digits(value) >= (3 if strict else 2)


def inner_digits(value: str) -> int:
    """The number of digit runs with letters on both sides."""
    return len(_INNER_DIGITS.findall(value))


def is_code(value: str) -> bool:
    """Whether this refers to a secret instead of being one: a variable, an address, a path, a
    redaction note."""
    if _CODE.match(value):
        return True
    return _PATH.match(value) is not None and not is_random(value)


def is_placeholder(value: str) -> bool:
    """Whether this was written in place of a secret."""
    if _PLACEHOLDER.search(value):
        return True
    if len(value) >= 10 and len(set(value)) < 5:
        return True
    return _PLACEHOLDER_WORDS.search(value) is not None and not is_random(value)


def places(text: str, word: str) -> Iterator[int]:
    """The positions of a word in the text."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


class FoundSecret(NamedTuple):
    """A secret in the text, `text[start:end]`. Not `sure`: a fixture or encoded bytes look the
    same."""

    kind: str
    start: int
    end: int
    sure: bool = True
