"""One page that shows a replay: the curves, a slider through the turns, the pages side by side.

Self-contained: nothing is loaded from anywhere, and the content security policy names the one style
and the one script by their digests, so that nothing that a session says could run. Content goes
into the page as JSON in which no tag can begin, and from there into text nodes only. Neighbours:
`run` keeps the pages, `page.css` and `page.js` are what is written in.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from refold.replay.run import OURS, Kept, Outcome, Replayed

MARK = "<!doctype html>\n<!-- refold replay -->"
TEXT_CHARS_MAX = 4_000
TEXTS_CHARS_MAX = 3_000_000
WIDE, HIGH = 1_000, 300
MEASURE = (
    "Names kept: a turn uses names (paths, identifiers, numbers), and some of them were last seen"
    " more than ten messages ago. The share is how many of those still had a line in the prompt"
    " that says something about them."
)

Redact = Callable[[str], str]


def page_of(title: str, replayed: Replayed, kept: Kept, rows: Sequence[Sequence[str]],
            redact: Redact) -> str:  # fmt: skip
    """The whole document. `rows` is the table, its heads first."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)};"
        " base-uri 'none'; form-action 'none'"
    )
    others = [one.policy for one in replayed.outcomes if one.policy != OURS]
    options = "".join(f"<option>{escape(name)}</option>" for name in others)
    last = max(0, len(replayed.outcome(OURS).turns) - 1)
    size = f"{replayed.messages:,} messages, {replayed.tokens:,} tokens, window {replayed.window:,}"
    return f"""{MARK}
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(title)}: replay</title><style>{style}</style></head><body>
<h1>{escape(title)}</h1><p>{size}</p>
{_curves(replayed)}
<div class="wide">{_table(rows)}</div><p>{escape(MEASURE)}</p>
{_lists(replayed, redact)}
<div class="bar"><label for="turn" id="label">turn</label>
<input type="range" id="turn" min="0" max="{last}" value="{last}">
<label for="policy">beside</label><select id="policy">{options}</select></div>
<main class="sides" id="sides" aria-live="polite"></main>
<script type="application/json" id="told">{_json(replayed, kept, redact)}</script>
<script>{script}</script></body></html>
"""


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _source(content: str) -> str:
    """How a content security policy names this very text."""
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = "".join(
        f"<tr{' class=ours' if row[0] == OURS else ''}>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in row)
        + "</tr>"
        for row in rows[1:]
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _curves(replayed: Replayed) -> str:
    top = max([turn.tokens for one in replayed.outcomes for turn in one.turns] or [1])
    curves = "".join(_curve(one, top) for one in replayed.outcomes)
    last = max(1, len(replayed.outcome(OURS).turns) - 1)
    cuts = "".join(
        f'<line class="cut" x1="{x}" x2="{x}" y1="0" y2="{HIGH}"/>'
        for one in replayed.receipts
        for x in [round(WIDE * (one.turn - 1) / last, 1)]
    )
    name = f"Tokens of the prompt over the turns, at most {top:,}"
    return (
        f'<svg viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none" role="img"'
        f' aria-label="{name}">{cuts}{curves}'
        f'<line class="now" id="now" x1="0" x2="0" y1="0" y2="{HIGH}"/></svg>'
        f"<p>{name}. refold is the strong line; a dotted line is one of its compactions.</p>"
    )


def _curve(outcome: Outcome, top: int) -> str:
    last = max(1, len(outcome.turns) - 1)
    points = " ".join(
        f"{WIDE * at / last:.1f},{HIGH - HIGH * turn.tokens / max(1, top):.1f}"
        for at, turn in enumerate(outcome.turns)
    )
    kind = "curve ours" if outcome.policy == OURS else "curve"
    name = escape(outcome.policy, quote=True)
    return f'<polyline class="{kind}" data-policy="{name}" points="{points}"/>'


def _lists(replayed: Replayed, redact: Redact) -> str:
    """The receipts, and what each policy lost."""
    receipts = "".join(
        f"<li>turn {one.turn}: {escape(one.strategy)}, {one.tokens_before:,} to"
        f" {one.tokens_after:,} tokens</li>"
        for one in replayed.receipts
    )
    parts = [f"<details><summary>receipts of refold</summary><ul>{receipts}</ul></details>"]
    for outcome in replayed.outcomes:
        lost = "".join(
            f"<li>turn {one.turn}: {escape(redact(one.name))}"
            f"<pre>{escape(redact(one.line))}</pre></li>"
            for one in outcome.lost
        )
        if lost:
            head = f"what {escape(outcome.policy)} lost"
            parts.append(f"<details><summary>{head}</summary><ul>{lost}</ul></details>")
    return "".join(parts)


def _json(replayed: Replayed, kept: Kept, redact: Redact) -> str:
    texts = [_shown(text, kept, redact) for text in kept.texts]
    value: dict[str, Any] = {
        "ours": OURS,
        "turns": len(replayed.outcome(OURS).turns),
        "texts": texts,
        "log": kept.log,
        "seen": kept.seen,
        "pages": kept.pages,
        "sizes": {one.policy: [turn.tokens for turn in one.turns] for one in replayed.outcomes},
    }
    # No tag, no comment and no end of the script can begin in it.
    return msgspec.json.encode(value).decode().replace("<", "\\u003c").replace("&", "\\u0026")


def _shown(text: str, kept: Kept, redact: Redact) -> tuple[str, str, int]:
    """A message: who said it, as much of it as the page has room for, how many characters more."""
    role, _, said = text.partition("\0")
    room = max(200, min(TEXT_CHARS_MAX, TEXTS_CHARS_MAX // max(1, len(kept.texts))))
    return role, redact(said)[:room], max(0, len(said) - room)
