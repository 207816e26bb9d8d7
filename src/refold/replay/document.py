"""One HTML document that loads nothing and obeys nothing that it shows.

The content security policy names the one style, and the one script where there is one, by their
digests. Content goes into text, or into JSON in which no tag can begin; long texts are cut so that
all together fit. Neighbours: `page` shows a replay, `edges.displays.browser` one conversation;
`document.css` is the look of both.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

import msgspec

from refold.checked import quoted
from refold.errors import Conflict
from refold.system.disk import os_failure

DOCTYPE = "<!doctype html>\n"
TEXT_BYTES_MIN, TEXT_BYTES_MAX = 200, 20_000
TEXTS_BYTES_MAX = 3_000_000
FILE_MODE = 0o600


def document(mark: str, title: str, body: str, *, style: str, script: str = "") -> str:
    """The whole document; `body` is HTML, in which all content is escaped already. What comes
    after the mark differs from page to page, the mark says of which kind it is."""
    source = f" script-src {_source(script)};" if script else ""
    policy = (
        f"default-src 'none'; style-src {_source(style)};{source}"
        " base-uri 'none'; form-action 'none'"
    )
    end = f"<script>{script}</script>" if script else ""
    return f"""{DOCTYPE}{mark}
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(title)}</title><style>{style}</style></head><body>
{body}{end}</body></html>
"""


def asset(package: str, name: str) -> str:
    """A style or a script that is part of refold."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def _source(content: str) -> str:
    """How a content security policy names this very text."""
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def json_text(value: object) -> str:
    """JSON for the inside of a script: no tag, no comment and no end of it can begin there."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c").replace("&", "\\u0026")


def legend(drawn: str, names: Mapping[str, str]) -> str:
    """What the lines of a picture are, by their class; a line that is not in it is not named."""
    return "".join(
        f'<span class="is-{kind}"><i></i>{name}</span>'
        for kind, name in names.items()
        if f'class="{kind}"' in drawn
    )


def behind(heading: str, content: str) -> str:
    """HTML that a click shows."""
    return f"<details><summary>{heading}</summary>{content}</details>"


def room(sizes: Sequence[int]) -> int:
    """How many bytes each text may have, so that all together fit: short ones leave their room to
    the long."""
    left, count = TEXTS_BYTES_MAX, len(sizes)
    for size in sorted(sizes):
        share = left // count
        if size > share:
            return max(TEXT_BYTES_MIN, min(TEXT_BYTES_MAX, share))
        left, count = left - size, count - 1
    return TEXT_BYTES_MAX


def write(path: Path, page: str, mark: str) -> None:
    """Writes a page, for its owner alone. Only a page of the same kind is replaced."""
    begin = (DOCTYPE + mark).encode()
    try:
        if path.exists() and not _begins_with(path, begin):
            reason = f"{quoted(str(path))} exists already, and refold did not write it"
            raise Conflict(reason, hint="choose another name")
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
        with open(opened, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        raise os_failure(error, f"cannot write {quoted(str(path))}") from error


def _begins_with(path: Path, mark: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(mark)) == mark
