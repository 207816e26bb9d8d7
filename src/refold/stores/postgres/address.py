"""The parts of a URL: the servers, the org, and the limits of one store.

    postgresql://ann@db1,db2/work?org=acme&connections_max=8&wait_s=60

refold's own options (`org`, `connections_max`, `wait_s`) are taken out; the rest is for libpq, with
defaults that bound every wait and find the writable server. A password never comes back out: `url`
is for people. Neighbours: `stores` passes the URL on, `connections` uses the address.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, unquote, urlencode

from msgspec import Struct
from msgspec.structs import replace

from refold.checked import quoted
from refold.core import ids
from refold.errors import Invalid

DEFAULT_ORG = "default"
CONNECTIONS_MAX, WAIT_S = 4, 30.0
SERVER_CONNECTIONS_MAX = 16  # for all orgs together, and all processes of a server
SERVER_WAIT_S = 5.0  # callers of a server retry automatically, or at another one
# Of libpq. The last four give up a server that vanished silently within a minute.
DEFAULTS = {
    "connect_timeout": "5",
    "target_session_attrs": "read-write",
    "application_name": "refold",
    "client_encoding": "UTF8",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key")
_HINT = "postgresql://USER@HOST/DATABASE?org=NAME"


class Address(Struct, frozen=True, kw_only=True):
    """The address of a store. `conninfo` is for libpq and may have a password; `url` is for
    people."""

    url: str
    conninfo: str
    org: str = DEFAULT_ORG
    connections_max: int = CONNECTIONS_MAX
    wait_s: float = WAIT_S

    def of_org(self, org: str) -> Address:
        """The same database, for another org."""
        base, _, query = self.url.partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True))
        options.pop("org", None)
        if org != DEFAULT_ORG:
            options["org"] = org
        url = _with_options(base, options)
        return replace(self, url=url, org=ids.conversation_checked(org))

    def divided(self, processes: int) -> Address:
        """The share of one process among several."""
        return replace(self, connections_max=max(1, self.connections_max // processes))


def parsed(url: str, connections_max: int = CONNECTIONS_MAX, wait_s: float = WAIT_S) -> Address:
    """The address in a URL, or Invalid; `connections_max` and `wait_s` are defaults."""
    base, _, query = url.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if base.partition("://")[2].strip("/") == "" and not options:
        raise Invalid(f"{_redacted_url(base, {})!r} names no database", hint=_HINT)
    org = ids.conversation_checked(options.pop("org", DEFAULT_ORG))
    most = _number(options, "connections_max", connections_max, 1, 1_000)
    wait_s = _number(options, "wait_s", wait_s, 0, 3_600)
    shown = options if org == DEFAULT_ORG else {**options, "org": org}
    return Address(
        url=_redacted_url(base, shown),
        conninfo=_with_options(base, {**DEFAULTS, **options}),
        org=org,
        connections_max=int(most),
        wait_s=wait_s,
    )


def _number(options: dict[str, str], name: str, default: float, least: float, most: float) -> float:
    text = options.pop(name, str(default))
    try:
        number = float(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise Invalid(f"{name}={quoted(text)} is not possible", hint=f"from {least} to {most:,}")
    return number


def _with_options(base: str, options: dict[str, str]) -> str:
    return f"{base}?{urlencode(options, quote_via=quote)}" if options else base


def _redacted_url(base: str, options: dict[str, str]) -> str:
    """The URL without secrets; a password can also be in PGPASSWORD or ~/.pgpass."""
    scheme, _, rest = base.partition("://")
    user, at, place = rest.rpartition("@")
    name = unquote(user.partition(":")[0])
    safe = {key: value for key, value in options.items() if key not in SECRETS}
    return _with_options(f"{scheme}://{quote(name)}{at}{place}", safe)
