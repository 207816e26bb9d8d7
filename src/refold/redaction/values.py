"""Values behind telling names: `password = "…"`, `"api_key": "…"`, `DB_PASSWORD=…`, `--token …`,
`?access_token=…`.

A name alone proves nothing: code is full of `token = next(tokens)`. So the value is judged. It must
not be code, a reference or a placeholder, and it must look random; less is asked where values stand
as they are (quotes behind a password, a variable of the environment), more where code may stand.
Neighbour: `redaction`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_WORDS = (
    "passw", "passphrase", "secret", "token", "credential", "authorization", "apikey", "api_key", "api-key",
    "accesskey", "access_key", "access-key", "privatekey", "private_key", "private-key", "accountkey", "account_key",
    "auth_key", "authkey", "signing_key", "encryption_key", "encryptionkey", "master_key", "pwd",
)  # fmt: skip
_PASSWORDS = ("passw", "passphrase", "pwd")
_TAIL = re.compile(
    # from the telling word on: the rest of the name, what ties name and value, the value
    r"(?P<rest>[\w-]{0,40}+)(?P<tie>\\{0,3}[\"'`\]]{0,2}[ \t]{0,4}(?::[ \t]?&?(?:'static )?(?:str|string)[ \t]?)?"
    r"(?:=>|:=|={1,3}|:)[ \t]{0,4}|(?<=[\w-])[ \t]{1,2}|['\"],[ \t]{0,2}(?=['\"]))"
    r"(?:[rbfu]{0,2}(?P<quote>\\{0,3}[\"'`])(?P<quoted>[^\"'`\s\\]{4,400}+)(?P<closed>(?P=quote)|(?=[ \t]?…))|"
    r"(?P<bare>[A-Za-z0-9_+/=.~!@#$%^&*-]{6,400}+)(?![\w(\[{.]))",
    re.IGNORECASE,
)
_OTHER_REST = re.compile(
    # names that speak about a secret: its type, its place, its size, its age
    r"(?:s?[_-]?(?:types?|names?|count\w*|kinds?|class|izer\w*|ize\w*|fields?|ur[il]\w*|endpoint|paths?|files?|dir|folder|"
    r"expir\w*|ttl|len\w*|size|limit\w*|max\w*|min\w*|budget|used|usage|total|regex|pattern|label|hint|placeholder|prompt|"
    r"policy|ids?|hash\w*|digest|prefix|suffix|format|version|arn|ref|header|cookie|selector|input|form|error|message|"
    r"msg|text|title|description|env\w*|var|manager|provider|service|store|strategy|index|idx|pos\w*|start|end|line\w*|"
    r"status|state|valid\w*|required|reset|source|model|cache\w*|per\w*|rate|cost|at|by|for|from|in|is|of|to|out))$",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"(?i)(?:[$%<{(\[&*]|process\.env|os\.environ|env[.(]|self\.|this\.|(?:none|null|nil|true|false|undefined)\b|"
    r"secretref:|vault:|op://|arn:|ref\+|file:|https?://)|.*(?:\$\{|\{\{|%s|%\(|\}\}|\(\))"
)
_PATH = re.compile(r"[.~]{0,2}/[\w.-]")
_PLACEHOLDER = re.compile(
    r"(?i)example|placeholder|change.?me|redacted|not.?a.?real|foo.?bar|\.{3}|…|0123456789|1234567|abcdefg|deadbeef|"
    r"([x0*.#])\1{5}"
)
_PLACEHOLDER_WORDS = re.compile(
    # Too short to prove anything in a value that looks random: of a thousand letters by chance,
    # some spell "akey".
    r"(?i)your|dummy|x{4}|\*{3}|fake|sample|insert|replace|todo|lorem|<|>|[_-]here|test.?(?:key|token|secret|passw)|"
    r"(?:secret|token|passw\w*|key).?(?:value|test)|^(?:secret|token|passw\w*|pass|key|test)\d{0,4}$|"
    r"(?:my|some|the|a|new|old|wrong|bad|invalid|valid|super|top|db|test|user|admin|client|app)[_-]?"
    r"(?:secret|passw|token|key|pw)"
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_DASH = re.compile(r"(?<=[A-Za-z0-9])[._-]+(?=[A-Za-z0-9])")
_INNER_DIGITS = re.compile(r"(?<=[A-Za-z])\d+(?=[A-Za-z])")
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_NO_NAME = re.compile(
    r"(?i)(?:\[redacted [\w .]*+|public(?:key)?)\Z"
)  # a note of ours, a key that is no secret
_LOGIN = re.compile(r"\blogin\s{1,4}\S{1,60}\s{1,4}\Z")  # of a netrc file
_NEXT_FIELD = re.compile(r"&[\w.-]{1,40}=")
# Signs between two changes of kind (lower, upper, digit) that a random value has at most: base64
# has 1.7, code 5.
RANDOM_WORD, STRICT_WORD, LETTERS_WORD = 3.2, 2.5, 2.2


def named(text: str, lowered: str) -> Iterator[tuple[int, int, bool]]:
    """Values behind telling names: start, end, and whether it is surely a secret."""
    done = 0
    hits = [(at, word) for word in _WORDS for at in places(lowered, word)]
    for at, word in sorted(hits):
        if at < done or not (match := _TAIL.match(text, at + len(word))):
            continue
        start, end = match.span("quoted" if match["quoted"] else "bare")
        if match["bare"] and (field := _NEXT_FIELD.search(text, start, end)):
            end = field.start()
        verdict = _verdict(text, at, word, match, text[start:end])
        if verdict is not None:
            done = end
            yield start, end, verdict
        elif match["bare"]:
            # What looks like no secret as a whole does not in part: a run of names is looked at
            # once.
            done = max(done, end - 1) if not is_code(text[start:end]) else done


def is_secret_name(name: str) -> bool:
    """Whether a setting of this name holds a secret, whatever its value looks like."""
    lowered = name.lower()
    return any(word in lowered for word in (*_WORDS, "key", "auth"))


def places(text: str, word: str) -> Iterator[int]:
    """Where a word stands in a text."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


def _verdict(text: str, at: int, word: str, match: re.Match[str], value: str) -> bool | None:
    """Whether the value is surely a secret (True), may be one (False), or is none (None)."""
    rest = match["rest"]
    if word == "passw":
        rest = re.sub(r"(?i)^(?:or)?d", "", rest)
    if len(value) < 6 or _OTHER_REST.match(rest) or is_code(value) or value.isdigit():
        return None
    if _NO_NAME.search(text, max(0, at - 40), at) or not _is_tied(text, at, match["tie"]):
        return None
    return _judged(
        value, word, bare=not match["quoted"], environment=_is_environment(text, at, match)
    )


def _judged(value: str, word: str, *, bare: bool, environment: bool) -> bool | None:
    if is_random(value, strict=bare and not environment):
        return not is_placeholder(value) and not (_UUID.match(value) and word == "token")
    if is_placeholder(value):
        return None
    has_letter, has_digit = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    if not has_letter or not (has_digit or (not bare and _is_symbolic(value))):
        return None
    is_password = word in _PASSWORDS
    if environment or (is_password and not bare):
        return True
    is_likely = (
        len(value) >= 12
        and value.isalnum()
        and (not bare or len(_INNER_DIGITS.findall(value)) >= 2)
    )
    return False if is_likely or (is_password and len(value) >= 8) else None


def _is_tied(text: str, at: int, tie: str) -> bool:
    """Whether what lies between name and value makes it the name's: a blank does in
    `--db-password VALUE`, a comma in `define('DB_PASSWORD', 'VALUE')`."""
    if tie.isspace():
        if _LOGIN.search(text, max(0, at - 80), at):
            return True
        start = max(text.rfind(sign, max(0, at - 40), at) for sign in " \t\n'\"")
        return text.startswith("--", start + 1)
    return "," not in tie or "define(" in text[max(0, at - 40) : at]


def _is_environment(text: str, at: int, match: re.Match[str]) -> bool:
    """Whether this is a variable of the environment, `DB_PASSWORD=…`: what follows is a value,
    not code."""
    name = text[at : match.end("rest")]
    return name.isupper() and match["tie"] == "="


def _is_symbolic(value: str) -> bool:
    return any(sign in "!@#$%^&*+=~?" for sign in value)


# --- values ---


def is_random(value: str, *, strict: bool = False) -> bool:
    """Whether a value is more likely drawn than written: its signs change between kinds too
    often for words. `strict` is for a place where a name may stand, such as UserTokenV2."""
    words = _WORD.findall(value)
    signs = sum(map(len, words))
    if signs < 10 or len(set(value)) < 6:
        return False
    # A dash changes nothing: `your-key-goes-here-1` is made of words all the same.
    changes = len(words) - len(_DASH.findall(value))
    if not any(word.isdigit() for word in words):
        return not strict and signs <= LETTERS_WORD * changes
    most = STRICT_WORD if strict and len(value) < 20 else RANDOM_WORD
    return signs <= most * changes or len(_INNER_DIGITS.findall(value)) >= (3 if strict else 2)


def is_code(value: str) -> bool:
    """Whether this names a secret instead of being one: a variable, an address, a path, what was
    redacted already."""
    return _CODE.match(value) is not None or (
        _PATH.match(value) is not None and not is_random(value)
    )


def is_placeholder(value: str) -> bool:
    """Whether somebody wrote this to show where a secret would stand."""
    if _PLACEHOLDER.search(value) or (len(value) >= 10 and len(set(value)) < 5):
        return True
    return _PLACEHOLDER_WORDS.search(value) is not None and not is_random(value)
