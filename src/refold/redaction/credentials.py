"""Credentials in an address (`https://name:password@host`), a command (`curl -u name:password`) or
a request (`Authorization: Bearer …`, `Cookie: session=…`).

Neighbours: `find` asks these rules, `judge` says whether a value can be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from refold.redaction.judge import is_code, is_placeholder, is_random, places
from refold.redaction.secret import Found

_ADDRESS = re.compile(
    r"://(?P<user>[^\s/:@\"'<>\\]{0,100}+):(?P<secret>[^\s/@\"'<>\\\[\]{}]{1,200}+)@"
)
# curl -u NAME:PASSWORD, but not docker run -u 1000:1000
_ACCOUNT = re.compile(
    r"-u(?:ser)?[ =][\"']?(?P<user>[^\s:\"'/$]{1,64}+):(?P<secret>(?!\d++\s)[^\s\"'/:]{4,200}+)"
)
_REQUEST = re.compile(r"(?:[ \t]{1,4}|%20)(?P<secret>[A-Za-z0-9._~+/-]{12,}+={0,2})")
_COOKIES = re.compile(
    r"2?[\"'`]{0,2}[ \t]{0,2}(?:[:=]|,[ \t]{0,2}(?=[\"']))[ \t]{0,4}[\"'`]?"
    r"(?P<pairs>[\w.$-]{1,80}+=[^\n\"'`]{1,8000}+)"
)
_COOKIE = re.compile(r"(?P<name>[\w.$-]{1,80}+)=(?P<secret>[^\s;,<>\\]{6,4096}+)")
_COOKIE_NAME = re.compile(r"(?i)sess|sid\b|auth|token|jwt|csrf|xsrf|login|remember|secret|passw")
COOKIE_CHARS_SURE = 16


def in_addresses(text: str, lowered: str) -> Iterator[Found]:
    """Passwords of addresses, and of accounts that `curl` is given."""
    if "://" in text:
        yield from _passwords(_ADDRESS, text)
    if "curl" in text:
        yield from _passwords(_ACCOUNT, text)


def _passwords(form: re.Pattern[str], text: str) -> Iterator[Found]:
    for match in form.finditer(text):
        user, secret = match["user"], match["secret"]
        if not is_code(secret):
            yield Found("password", *match.span("secret"), not _is_fixture(user, secret))


def _is_fixture(user: str, password: str) -> bool:
    """Whether a password is too short, or tells too much, to be a real one."""
    if len(password) < (8 if password.isalpha() else 4) or password == user:
        return True
    lowered = password.lower()
    return "secret" in lowered or "password" in lowered or is_placeholder(password)


def in_requests(text: str, lowered: str) -> Iterator[Found]:
    """Tokens after `bearer` and `basic`. Words such as `basic configuration` are not
    credentials."""
    for word in ("bearer", "basic"):
        for at in places(lowered, word):
            match = _REQUEST.match(text, at + len(word))
            if match and _is_token(match["secret"]):
                sure = not is_placeholder(match["secret"])
                yield Found("token", *match.span("secret"), sure)


def in_cookies(text: str, lowered: str) -> Iterator[Found]:
    """The values of cookies that a request carries or an answer sets."""
    for at in places(lowered, "cookie"):
        match = _COOKIES.match(text, at + len("cookie"))
        if match is None:
            continue
        for cookie in _COOKIE.finditer(text, *match.span("pairs")):
            if _is_cookie_secret(cookie["name"], cookie["secret"]):
                sure = not is_placeholder(cookie["secret"])
                yield Found("cookie", *cookie.span("secret"), sure)


def _is_cookie_secret(name: str, value: str) -> bool:
    """Whether the value of a cookie lets somebody in: it looks random, or its name says so."""
    if is_code(value):
        return False
    if is_random(value):
        return True
    has_digit = any(map(str.isdigit, value))
    is_long = len(value) >= COOKIE_CHARS_SURE
    return _COOKIE_NAME.search(name) is not None and (has_digit or is_long)


def _is_token(value: str) -> bool:
    """Whether what follows such a word is neither prose nor a variable."""
    if not is_random(value):
        return False
    return not is_code(value)
