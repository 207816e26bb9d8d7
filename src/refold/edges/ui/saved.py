"""One conversation as one file: the web view with its answers inside.

The file is the same page and the same modules, which ask the file instead of a server. It loads
nothing, only its own style and script may run, and it can change nothing. Secrets are masked as in
every export, and long texts are cut so that all fit; each says how much of it was left out.
Neighbours: `conversation` has the answers, `replay.page` the document, `static/server.js` reads
them.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import asdict

from refold.core.active_events import CONTROLS
from refold.core.codec import decode
from refold.core.model import Erase, Event, Hide, Pin, Replace, Span, Summarize
from refold.edges.displays.browser import MARK
from refold.edges.ui.conversation import Conversation
from refold.edges.ui.readable import TEXT_CHARS
from refold.log.message_history import history_of
from refold.replay.page import asset, document, room

SHORTENED_MAX = 500
_IMPORT = re.compile(r'^import (\{[^}]+\}) from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) )", re.MULTILINE)
_NAMES = re.compile(r"^export (?:(?:async )?(?:function|class) (\w+)|const (.+);$)", re.MULTILINE)


def saved_page(opened: Conversation) -> str:
    """The document."""
    columns = {**opened.columns(), "acts": False}
    inside = gzip.compress(msgspec.json.encode(_answers(opened, columns)), mtime=0)
    body = (
        f'<script type="text/plain" id="inside">{base64.b64encode(inside).decode()}</script>\n'
        "<noscript>This page needs JavaScript.</noscript>"
    )
    style = asset(__package__, "static/style.css")
    return document(MARK, f"{columns['title']}: refold", body, style=style, script=_script())


def _answers(opened: Conversation, columns: dict[str, Any]) -> dict[str, Any]:
    """Every answer that the screens of this conversation ask for, by the path after its id."""
    log = list(opened.context.log.events())
    said = [event for event in log if event.kind == "message"]
    most = room([len(event.body) for event in said]) if said else TEXT_CHARS
    on_page = {slot.seq for slot in opened.context.view.slots if not slot.standin}
    shortened: dict[int, list[tuple[int, Any]]] = {}
    changes = [one for one in opened.context.log.states().changes if one.state == "shortened"]
    for one in changes[-SHORTENED_MAX:]:
        shortened.setdefault(one.seq, []).append((one.at, opened.shown(one.seq, one.at)))
    return {
        "id": opened.id,
        "": columns,
        "window": opened.window(),
        "ledger": opened.ledger(),
        "lines": [opened.line(event) for event in said],
        "traces": list(_traces(log)),
        "shortened": shortened,
        **{f"standin/{edit}": opened.standin(edit) for edit, *_ in columns["standins"]},
        **{
            f"message/{event.seq}": {
                **opened.as_it_came(event, most=most),
                "hidden": event.seq not in on_page,
            }
            for event in said
        },
    }


def _traces(log: list[Event]) -> Iterator[dict[str, Any]]:
    """The edits, pins and erasures of a log, each with the run of messages that it touches."""
    controls = [event for event in log if event.kind in CONTROLS and decode(event) is not None]
    for event, trace in zip(controls, history_of(controls), strict=True):
        match body := decode(event):
            case Hide() | Summarize():
                span = body.span
            case Replace() | Pin() | Erase():
                span = Span(body.seq, body.seq)
            case _:
                continue
        yield {**asdict(trace), "first": span.first, "last": span.last}


def _script() -> str:
    """The modules of the page as one script: each is a function that returns what it exports."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        source = asset(__package__, f"static/{name}.js")
        for _, other in _IMPORT.findall(source):
            if other not in done:
                add(other)
        names = [one for pair in _NAMES.findall(source) for one in _names_in(*pair)]
        source = _EXPORT.sub("", _IMPORT.sub(r"const \1 = $\2;", source))
        inner = f"{source}return {{ {', '.join(names)} }};"
        done[name] = f"const ${name} = await (async () => {{\n{inner}\n}})();\n"

    add("app")
    return f'(async () => {{\n"use strict";\n{"".join(done.values())}}})();'


def _names_in(name: str, constants: str) -> list[str]:
    return [name] if name else re.findall(r"(\w+) = ", constants)
