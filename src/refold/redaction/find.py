"""Where the secrets of a text are: one rule after the other is asked.

A known shape (`shapes`), a private key (`private_keys`), credentials in an address or a request
(`credentials`), a value after a telling name (`values`). Each is asked about the text and about
what the text says without its escapes (`plain_view`). What may be a secret but is more likely a
fixture or a picture is found as not `sure`: it is taken out as well, because that costs little, but
`refold scan` does not warn of it. Neighbour: `redact` takes out what is found here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter

from refold.redaction.credentials import in_addresses, in_cookies, in_requests
from refold.redaction.plain_view import PlainView, plain_views
from refold.redaction.private_keys import key_blocks, key_lines
from refold.redaction.secret import Found
from refold.redaction.shapes import by_shape, emails_in
from refold.redaction.values import after_names

# Each is given the text and the same in lower case. Of rules that find the same, the first names
# it.
RULES: tuple[Callable[[str, str], Iterable[Found]], ...] = (
    key_blocks,
    by_shape,
    key_lines,
    in_addresses,
    in_requests,
    in_cookies,
    after_names,
)


def found(text: str, *, emails: bool = False) -> list[Found]:
    """The secrets of a text, in order, none over another; with `emails` also e-mail
    addresses."""
    hits = _hits(text, emails)
    views = plain_views(text)
    if views:
        hits += (_placed(hit, views) for hit in _hits(views[-1].text, emails))
    # Sorting is stable: where two rules found the same place, that of the earlier rule comes first.
    hits.sort(key=attrgetter("start"))
    return _joined(hits)


def _hits(text: str, emails: bool) -> list[Found]:
    """What the rules find in a text as it stands."""
    # One character of Unicode becomes two in lower case, which would move all after it.
    lowered = text.replace("İ", "i").lower()
    hits = [hit for rule in RULES for hit in rule(text, lowered)]
    if emails:
        hits += emails_in(text)
    return hits


def _placed(hit: Found, views: list[PlainView]) -> Found:
    """What was found in the last view, at its place in the text that it was made of."""
    for view in reversed(views):
        hit = view.source(hit)
    return hit


def _joined(hits: list[Found]) -> list[Found]:
    """The hits, in order, with those that overlap made one."""
    out: list[Found] = []
    for hit in hits:
        if out and hit.start < out[-1].end:
            kind, start, end, sure = out[-1]
            out[-1] = Found(kind, start, max(end, hit.end), sure or hit.sure)
        else:
            out.append(hit)
    return out
