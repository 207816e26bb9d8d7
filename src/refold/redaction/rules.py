"""Rules for secrets with a shape of their own, one line per kind; for credentials in an address
(`https://name:password@host`), a command (`curl -u name:password`) or a request (`Authorization:
Bearer …`, `Cookie: session=…`); and for private keys, as blocks or single lines.

Most shapes begin with a prefix that their issuer chose for this purpose. A pattern starts only at
the start of a word, and its lookup is bounded, so that no text can make the search slow; it is
tried only if its `anchor` is in the text. To add a kind, add a line and an example in
`tests/redaction/secret_kinds.py`. Public keys and certificates are left alone. Neighbours: `find`
applies these rules, `values` has the rule for values after revealing names.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from refold.patterns import regex
from refold.redaction.values import FoundSecret, is_code, is_placeholder, is_random, places

_STARTS = (
    r"(?<![A-Za-z0-9]{p})", r"(?<=\\[nrtbf]{p})", r"(?<=%[0-9A-Fa-f][0-9A-Fa-f]{p})",
    r"(?<=\[\dm{p})", r"(?<=[\[;]\d\dm{p})", r"(?<=;\dm{p})",
)  # fmt: skip
_END = r"(?![A-Za-z0-9])"
WORD, HEX, URLSAFE = "[A-Za-z0-9]", "[a-f0-9]", "[A-Za-z0-9_-]"
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

# These also end ordinary names: `cache-key-` and a hash, `dump_sk-2026-11-17`.
_BEFORE_HASH, _BEFORE_WORDS = "key-", "sk-"
KEY_CHARS_MAX = 200  # longer values are encoded bytes

# Every secret of a known shape lies in such a run, and little other text does, so anchors are
# searched only in these.
RUN = regex(r"[A-Za-z0-9_+/=.~$:?&%@-]{20,}+")


class Shape(NamedTuple):
    """A kind of secret: text that every such secret contains (`anchor`), and the pattern. The group
    `secret`, if the pattern has one, is the part that must not be shown."""

    kind: str
    anchor: str
    pattern: re.Pattern[str]

    def found_in(self, text: str) -> Iterator[FoundSecret]:
        """The secrets of this kind."""
        group = "secret" if "secret" in self.pattern.groupindex else 0
        for match in self.pattern.finditer(text):
            value = match[group].removeprefix(self.anchor)
            sure = not is_placeholder(value) and not self._ends_name(text, match.start(), value)
            yield FoundSecret(self.kind, *match.span(group), sure)

    def _ends_name(self, text: str, start: int, value: str) -> bool:
        """Whether the prefix may be the end of a name, followed by something harmless."""
        if self.anchor not in (_BEFORE_HASH, _BEFORE_WORDS):
            return False
        if start == 0 or text[start - 1] not in "-_":
            return False
        is_key = len(value) <= KEY_CHARS_MAX and is_random(value)
        return self.anchor == _BEFORE_HASH or not is_key


def shape(kind: str, prefix: str, body: str) -> Shape:
    """A secret that begins with `prefix`. It may follow anything outside a word, and the escapes of
    JSON, addresses and terminals, which end in a letter."""
    literal = re.escape(prefix)
    # The prefix comes first in the pattern, and its context is checked afterwards, so that the
    # search can jump to the prefix.
    return Shape(kind, prefix, regex(f"{literal}{_starting(literal)}{body}{_END}"))


def inner(kind: str, anchor: str, pattern: str) -> Shape:
    """A secret with an `anchor` somewhere inside."""
    return Shape(kind, anchor, regex(f"{_starting('')}{pattern}{_END}"))


def whole(kind: str, anchor: str, *patterns: str) -> Shape:
    """A secret with its own pattern, in parts, around an `anchor`."""
    return Shape(kind, anchor, regex("".join(patterns)))


def _starting(literal: str) -> str:
    starts = [start.replace("{p}", literal) for start in _STARTS]
    return f"(?:{'|'.join(starts)})"


def _several(kind: str, prefixes: str, body: str) -> list[Shape]:
    return [shape(kind, prefix, body) for prefix in prefixes.split()]


SHAPES: tuple[Shape, ...] = (
    # clouds
    *_several("AWS key", "AKIA ASIA ABIA ACCA", "[A-Z0-9]{16}"),
    shape("Google API key", "AIza", f"{URLSAFE}{{35}}"),
    shape("Google OAuth secret", "GOCSPX-", f"{URLSAFE}{{20,}}+"),
    shape("Google OAuth token", "ya29.", f"{URLSAFE}{{20,}}+"),
    shape("Google refresh token", "1//0", f"{URLSAFE}{{40,}}+"),
    inner("Azure client secret", "Q~", r"[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}"),
    whole("Azure storage key", "AccountKey=", r"AccountKey=(?P<secret>[A-Za-z0-9+/]{40,}+={0,2})"),
    whole("Azure shared key", "SharedAccessKey=",
          r"SharedAccessKey=(?P<secret>[A-Za-z0-9+/]{40,}+={0,2})"),
    whole("Azure signature", "sig=", r"(?<=[?&])sig=(?P<secret>[A-Za-z0-9%+/=_-]{32,}+)"),
    shape("Alibaba key", "LTAI", f"{WORD}{{16,}}+"),
    *_several("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", f"{HEX}{{64}}"),
    shape("Heroku key", "HRKU-", f"{URLSAFE}{{30,}}+"),
    shape("Cloudflare key", "v1.0-", f"{HEX}{{24}}-{HEX}{{100,}}+"),
    *_several("Fly token", "fm1r_ fm2_ fo1_", r"[A-Za-z0-9+/=_-]{40,}+"),
    *_several("Netlify token", "nfp_ nfc_", f"{WORD}{{36,}}+"),
    *_several("Vercel token", "vcp_ vci_ vck_ vca_ vcr_", f"{WORD}{{40,}}+"),
    shape("Tailscale key", "tskey-", f"{URLSAFE}{{20,}}+"),
    # models
    shape("Anthropic key", "sk-ant-", f"{URLSAFE}{{16,}}+"),
    *_several("OpenAI key", "sk-proj- sk-svcacct- sk-admin-", f"{URLSAFE}{{16,}}+"),
    shape("OpenRouter key", "sk-or-", f"{URLSAFE}{{16,}}+"),
    shape("API key", "sk-", r"(?=[A-Za-z_-]{0,200}+\d)[A-Za-z0-9_-]{16,}+"),
    shape("Groq key", "gsk_", f"{WORD}{{40,}}+"),
    shape("xAI key", "xai-", f"{WORD}{{40,}}+"),
    shape("Perplexity key", "pplx-", f"{WORD}{{40,}}+"),
    shape("Replicate token", "r8_", f"{WORD}{{36,}}+"),
    *_several("Hugging Face token", "hf_ api_org_", f"{WORD}{{30,}}+"),
    shape("Together key", "tgp_v1_", f"{URLSAFE}{{36,}}+"),
    *_several("LangSmith key", "lsv2_pt_ lsv2_sk_", f"{HEX}{{32}}_{HEX}{{10}}"),
    shape("Pinecone key", "pcsk_", f"{URLSAFE}{{40,}}+"),
    shape("Tavily key", "tvly-", f"{URLSAFE}{{20,}}+"),
    shape("E2B key", "e2b_", f"{HEX}{{40}}"),
    shape("Firecrawl key", "fc-", f"{HEX}{{32}}"),
    # code
    *_several("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", f"{WORD}{{20,}}+"),
    shape("GitHub token", "github_pat_", r"[A-Za-z0-9_]{20,}+"),
    *_several(
        "GitLab token",
        "glpat- gldt- glrt- glcbt- glptt- glsoat- glimt- glagent- glft- glffct- GR1348941",
        r"[A-Za-z0-9_.-]{16,}+",
    ),
    shape("Atlassian token", "ATATT3", r"[A-Za-z0-9_=-]{60,}+"),
    shape("Bitbucket token", "ATBB", r"[A-Za-z0-9]{28,}+"),
    shape("Bitbucket token", "ATCTT3", r"[A-Za-z0-9_=-]{60,}+"),
    shape("npm token", "npm_", f"{WORD}{{30,}}+"),
    shape("PyPI token", "pypi-", f"{URLSAFE}{{50,}}+"),
    shape("RubyGems key", "rubygems_", f"{HEX}{{48}}"),
    shape("crates.io token", "cio", f"{WORD}{{32}}"),
    *_several("Docker token", "dckr_pat_ dckr_oat_", f"{URLSAFE}{{24,}}+"),
    shape("NuGet key", "oy2", r"[a-z0-9]{43}"),
    *_several("Sonar token", "sqp_ squ_ sqa_", f"{HEX}{{40}}"),
    shape("JFrog key", "AKCp", f"{WORD}{{60,}}+"),
    shape("CircleCI token", "CCIPAT_", f"{URLSAFE}{{40,}}+"),
    *_several("Buildkite token", "bkua_ bkpt_", f"{WORD}{{36,}}+"),
    *_several("Sentry token", "sntrys_ sntryu_", r"[A-Za-z0-9_+/=]{40,}+"),
    # talk and mail
    *_several("Slack token", "xoxa- xoxb- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs-",
              r"[A-Za-z0-9.-]{16,}+"),
    shape("Slack token", "xapp-", r"\d-[A-Z0-9]{8,}+-\d{8,}+-[a-z0-9]{30,}+"),
    whole("Slack webhook", "hooks.slack",
          r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/",
          r"(?P<secret>[A-Za-z0-9_/-]{8,}+)"),
    whole("Discord webhook", "/api/webhooks/",
          r"/api/webhooks/\d{17,20}/(?P<secret>[A-Za-z0-9_-]{60,}+)"),
    whole("Discord token", ".",  # the part before the first dot is the public id
          r"\.[A-Za-z0-9_-]{6}\.(?:(?<=[MNO][A-Za-z0-9_-]{23}\.[A-Za-z0-9_-]{6}\.)",
          r"|(?<=[MNO][A-Za-z0-9_-]{25}\.[A-Za-z0-9_-]{6}\.))",
          r"[A-Za-z0-9_-]{27,38}+(?![A-Za-z0-9_.-])"),
    whole("Teams webhook", ".webhook.office.com/",
          r"\.webhook\.office\.com/webhookb2/(?P<secret>[A-Za-z0-9@/-]{40,}+)"),
    inner("Telegram token", ":AA", rf"\d{{8,10}}:AA{URLSAFE}{{33}}"),
    shape("SendGrid key", "SG.", r"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,}+"),
    shape("Mailgun key", "key-", f"{HEX}{{32}}"),
    inner("Mailchimp key", "-us", rf"{HEX}{{32}}-us\d{{1,2}}"),
    shape("Brevo key", "xkeysib-", f"{HEX}{{64}}-{WORD}{{16}}"),
    shape("Resend key", "re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}+"),
    shape("Twilio key", "SK", f"{HEX}{{32}}"),
    # money and shops
    *_several("Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_", r"[A-Za-z0-9+/=]{16,}+"),
    *_several("Square token", "sq0atp- sq0csp-", f"{URLSAFE}{{20,}}+"),
    *_several("Shopify token", "shpat_ shpss_ shpca_ shppa_", r"[a-fA-F0-9]{32}"),
    *_several("Plaid token", "access-sandbox- access-development- access-production-", UUID),
    whole("PayPal token", "access_token$",
          r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}"),
    # services
    *_several("PlanetScale key", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[A-Za-z0-9_.=-]{32,}+"),
    *_several("Supabase key", "sbp_ sb_secret_", r"[A-Za-z0-9_-]{30,}+"),
    shape("Neon key", "napi_", f"{WORD}{{40,}}+"),
    shape("Databricks token", "dapi", rf"{HEX}{{32}}(?:-\d)?"),
    *_several("Linear key", "lin_api_ lin_oauth_", f"{WORD}{{32,}}+"),
    *_several("Notion token", "ntn_ secret_", r"[A-Za-z0-9]{43,50}"),
    *_several("Figma token", "figd_ figo_ figor_", f"{URLSAFE}{{36,}}+"),
    shape("Airtable token", "pat", rf"{WORD}{{14}}\.{HEX}{{64}}"),
    shape("Postman key", "PMAK-", rf"{HEX}{{24}}-{HEX}{{34}}"),
    shape("Grafana token", "glsa_", rf"{WORD}{{32}}_[A-Fa-f0-9]{{8}}"),
    shape("Grafana token", "glc_", r"[A-Za-z0-9+/=]{32,}+"),
    *_several("New Relic key", "NRAK- NRJS- NRII- NRIQ-", r"[A-Za-z0-9_-]{19,}+"),
    shape("Dynatrace token", "dt0c01.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    *_several("Doppler token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
              r"[A-Za-z0-9._-]{40,}+"),
    *_several("Vault token", "hvs. hvb. hvr.", f"{URLSAFE}{{20,}}+"),
    inner("Terraform token", ".atlasv1.", rf"{WORD}{{14}}\.atlasv1\.[A-Za-z0-9_=-]{{60,70}}"),
    shape("Pulumi token", "pul-", f"{HEX}{{40}}"),
    shape("age key", "AGE-SECRET-KEY-1", "[A-Z0-9]{50,}+"),
    shape("1Password token", "ops_eyJ", r"[A-Za-z0-9+/=_-]{100,}+"),
    shape("LaunchDarkly key", "sdk-", UUID),
    shape("Contentful token", "CFPAT-", f"{URLSAFE}{{40,}}+"),
    shape("Mapbox token", "sk.eyJ", r"[A-Za-z0-9_-]{20,}+\.[A-Za-z0-9_-]{20,}+"),
    shape("Facebook token", "EAA", r"(?<![+/,]EAA)[A-Za-z0-9]{80,}+"),  # not inside encoded bytes
    shape("X bearer token", "AAAAAAAAAAAAAAAAAAAAA",
          r"(?=[A-Za-z0-9%]{60})(?:[A-Za-z0-9]|%2[BF]|%3D)++"),
    shape("Adafruit key", "aio_", r"[A-Za-z0-9]{28}"),
    shape("Prefect key", "pnu_", r"[A-Za-z0-9]{36}"),
    *_several("Shippo token", "shippo_live_ shippo_test_", f"{HEX}{{40}}"),
    *_several("EasyPost key", "EZAK EZTK", f"{WORD}{{54}}"),
    shape("JSON web token", "eyJ",
          # The first part ends where another may begin: every character is looked at once.
          r"(?:(?![_-]eyJ)[A-Za-z0-9_-]){8,}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+"),
)  # fmt: skip

# Not a secret, but private: removed only if the setting says so. `git@host:` is an address of code,
# and `name@2x.png` a file.
EMAIL = regex(
    r"(?<![A-Za-z0-9._%+/-])(?!git@)[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}+@"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,8}"
    r"(?!(?:png|jpe?g|gif|svg|webp)\b)[A-Za-z]{2,24}\b"
)


def any_of(words: Iterable[str]) -> str:
    """A pattern for any of these words, as a tree of letters: far faster than an alternation of
    many words, most of which do not occur."""
    rests: dict[str, list[str]] = {}
    for word in words:
        if not word:
            return ""  # a shorter word is enough
        rests.setdefault(word[0], []).append(word[1:])
    return f"(?:{'|'.join(re.escape(char) + any_of(rest) for char, rest in rests.items())})"


# An anchor of one character is in most runs.
_OFTEN = tuple(shape for shape in SHAPES if len(shape.anchor) == 1)


@cache
def _anchors() -> re.Pattern[str]:
    return regex(any_of(shape.anchor for shape in SHAPES if len(shape.anchor) > 1))


def by_shape(text: str, lowered: str) -> Iterator[FoundSecret]:
    """The secrets of known shapes."""
    runs = "\n".join(RUN.findall(text))
    if not runs:  # most short text
        return
    for shape in SHAPES if _anchors().search(runs) else _OFTEN:
        if shape.anchor in runs:
            yield from shape.found_in(text)


def emails_in(text: str) -> list[FoundSecret]:
    """The e-mail addresses in the text."""
    if "@" not in text:
        return []
    return [FoundSecret("e-mail", *match.span()) for match in EMAIL.finditer(text)]


# A path that was made plain has one slash: `https:/user:password@host`.
_ADDRESS = regex(
    r":/{1,8}(?P<user>[^\s/:@\"'<>\\]{0,100}+):(?P<secret>[^\s/@\"'<>\\\[\]{}]{1,200}+)@"
)
# curl -u NAME:PASSWORD, but not docker run -u 1000:1000
_ACCOUNT = regex(
    r"-u(?:ser)?[ =][\"']?(?P<user>[^\s:\"'/$]{1,64}+):(?P<secret>(?!\d++\s)[^\s\"'/:]{4,200}+)"
)
_REQUEST = regex(r"(?:[ \t]{1,4}|%20)(?P<secret>[A-Za-z0-9._~+/-]{12,}+={0,2})")
_COOKIES = regex(
    r"2?[\"'`]{0,2}[ \t]{0,2}(?:[:=]|,[ \t]{0,2}(?=[\"']))[ \t]{0,4}[\"'`]?"
    r"(?P<pairs>[\w.$-]{1,80}+=[^\n\"'`]{1,8000}+)"
)
_COOKIE = regex(r"(?P<name>[\w.$-]{1,80}+)=(?P<secret>[^\s;,<>\\]{6,4096}+)")
_COOKIE_NAME = regex(r"(?i)sess|sid\b|auth|token|jwt|csrf|xsrf|login|remember|secret|passw")
COOKIE_CHARS_SURE = 16


def in_addresses(text: str, lowered: str) -> Iterator[FoundSecret]:
    """Passwords in addresses, and in accounts for `curl`."""
    forms = [_ADDRESS] if ":/" in text and "@" in text else []
    if "curl" in text:
        forms.append(_ACCOUNT)
    for form in forms:
        for match in form.finditer(text):
            user, secret = match["user"], match["secret"]
            if not is_code(secret):
                yield FoundSecret("password", *match.span("secret"), not _is_fixture(user, secret))


def _is_fixture(user: str, password: str) -> bool:
    """Whether a password is too short, or too obvious, to be a real one."""
    if len(password) < (8 if password.isalpha() else 4) or password == user:
        return True
    lowered = password.lower()
    return "secret" in lowered or "password" in lowered or is_placeholder(password)


def in_requests(text: str, lowered: str) -> Iterator[FoundSecret]:
    """Tokens after `bearer` and `basic`. Words such as `basic configuration` are not
    credentials."""
    for word in ("bearer", "basic"):
        for at in places(lowered, word):
            match = _REQUEST.match(text, at + len(word))
            # Neither prose nor a variable.
            if match and is_random(match["secret"]) and not is_code(match["secret"]):
                sure = not is_placeholder(match["secret"])
                yield FoundSecret("token", *match.span("secret"), sure)


def in_cookies(text: str, lowered: str) -> Iterator[FoundSecret]:
    """The values of cookies in a request or a response."""
    for at in places(lowered, "cookie"):
        match = _COOKIES.match(text, at + len("cookie"))
        if match is None:
            continue
        for cookie in _COOKIE.finditer(text, *match.span("pairs")):
            if _is_cookie_secret(cookie["name"], cookie["secret"]):
                sure = not is_placeholder(cookie["secret"])
                yield FoundSecret("cookie", *cookie.span("secret"), sure)


def _is_cookie_secret(name: str, value: str) -> bool:
    """Whether the value of a cookie grants access: it looks random, or its name says so."""
    if is_code(value):
        return False
    if is_random(value):
        return True
    has_digit = any(map(str.isdigit, value))
    is_long = len(value) >= COOKIE_CHARS_SURE
    return _COOKIE_NAME.search(name) is not None and (has_digit or is_long)


PRIVATE_KEY_CHARS = 20_000
# Minimum number of different characters in a key; a block of dots or of one letter is a fixture.
KEY_VARIETY = 16

_BEGIN = "-----BEGIN "
_GAP = r"(?:\s|\\[nrt]|[\"',>|+#*]){0,40}+"
_PRIVATE = regex(
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
    # Headers, each up to the end of its line or, if everything is on one line, one word; then lines
    # of encoded bytes, unlike prose after a mere mention of the first line.
    rf"(?:{_GAP}[A-Za-z-]{{3,20}}: (?:[^\n\\]{{1,100}}+(?=[\n\\])|[^\s\\]{{1,100}}+))*+"
    rf"(?P<body>(?:{_GAP}(?=[A-Za-z0-9+/][a-z]*+[A-Z0-9+/=])[A-Za-z0-9+/=]{{10,}}+)*+)"
    rf"(?P<end>(?:{_GAP}[A-Za-z0-9+/=]{{1,75}}+){{0,2}}"
    rf"{_GAP}-----END [A-Z0-9 ]{{0,30}}PRIVATE KEY(?: BLOCK)?-----)?"
)
_PUBLIC = regex(
    r"-----BEGIN (?![A-Z0-9 ]{0,30}PRIVATE)[A-Z0-9 ]{1,40}-----[A-Za-z0-9+/=\s]{0,20000}+"
    r"-----END [A-Z0-9 ]{1,40}-----"
)
_KEY_LINE = regex(r"\n[ \t>|+-]{0,8}(?P<line>[A-Za-z0-9+/]{60,76}={0,2})(?=[ \t\r]{0,4}(?:\n|\Z))")
_KEY_STARTS = regex(
    r"MII[A-Za-z0-9+/]{1,3}IBA[AD]|MHcCAQEE|MC4CAQAwBQYDK2Vw|MIGHAgEAMBMG|b3BlbnNzaC1rZXktdjE"
)


def key_blocks(text: str, lowered: str) -> Iterator[FoundSecret]:
    """Blocks that begin with `BEGIN … PRIVATE KEY`, even without an end."""
    at = text.find(_BEGIN)
    while at >= 0:
        match = _PRIVATE.match(text, at, at + PRIVATE_KEY_CHARS)
        if match and match["body"]:
            is_varied = len(set(match["body"])) >= KEY_VARIETY
            yield FoundSecret("private key", at, match.end(), is_varied)
        at = text.find(_BEGIN, match.end() if match else at + 1)


def key_lines(text: str, lowered: str) -> Iterator[FoundSecret]:
    """Lines of encoded bytes: a gist may show one line of a key without its heading."""
    # Starts and ends of public blocks, in turn.
    blocks = _PUBLIC.finditer(text) if _BEGIN in text else ()
    public = [position for match in blocks for position in match.span()]
    kinds = (str.isupper, str.islower, str.isdigit)
    for match in _KEY_LINE.finditer("\n" + text):
        # The newline before the text shifts everything by one.
        line, start, end = match["line"], match.start("line") - 1, match.end("line") - 1
        # A key has letters of both cases and digits; a hexadecimal digest does not.
        if not all(any(map(is_kind, line)) for is_kind in kinds):
            continue
        # An odd number of starts and ends before the line: it is in a public block.
        if bisect_right(public, start) % 2 == 0:
            is_key = _KEY_STARTS.match(line) is not None
            yield FoundSecret("private key" if is_key else "key material", start, end, is_key)
