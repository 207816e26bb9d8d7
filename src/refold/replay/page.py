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

from refold.replay.run import AGENT, OURS, Kept, Outcome, Replayed
from refold.replay.words import measure_words, size_words

MARK = "<!doctype html>\n<!-- refold replay -->"
TEXT_BYTES_MIN, TEXT_BYTES_MAX = 200, 20_000
TEXTS_BYTES_MAX = 3_000_000
WIDE, HIGH = 1_000, 300
WINDOWS_DRAWN = 3  # what is more leaves the picture at its top: the rest could not be told apart
BESIDE_FIRST = (AGENT, "sliding window")  # what refold is compared with until one is chosen
Redact = Callable[[str], str]


def page_of(title: str, id: str, replayed: Replayed, kept: Kept, rows: Sequence[Sequence[str]],
            redact: Redact, counted: str = "") -> str:  # fmt: skip
    """The whole document. `rows` is the table, its heads first, `counted` how sizes are counted."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)};"
        " base-uri 'none'; form-action 'none'"
    )
    last = max(0, len(replayed.outcome(OURS).turns) - 1)
    heading = escape(redact(title))
    return f"""{MARK}
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{heading}: replay</title><style>{style}</style></head><body>
<h1>{heading}</h1><p>{escape(id)}: {size_words(replayed)}. {escape(counted)}</p>
{_chart(replayed)}
<div class="wide">{_table(rows)}</div><p>{escape(measure_words(replayed))}</p>
{_lists(replayed, redact)}
<div class="bar"><label for="turn" id="label" aria-live="polite">turn</label>
<input type="range" id="turn" min="0" max="{last}" value="{last}">
<label for="policy">beside</label><select id="policy">{_options(replayed)}</select></div>
<main class="sides" id="sides"></main>
<script type="application/json" id="told">{_json(replayed, kept, redact)}</script>
<script>{script}</script></body></html>
"""


def _options(replayed: Replayed) -> str:
    others = [one.policy for one in replayed.outcomes if one.policy != OURS]
    first = next((name for name in BESIDE_FIRST if name in others), "")
    return "".join(
        f"<option{' selected' if name == first else ''}>{escape(name)}</option>" for name in others
    )


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


def _chart(replayed: Replayed) -> str:
    """The curves, what they are, and how high they reach."""
    most = max([turn.tokens for one in replayed.outcomes for turn in one.turns] or [1])
    top = max(1, min(most, WINDOWS_DRAWN * replayed.window))
    turns = len(replayed.outcome(OURS).turns)
    name = f"Tokens of the prompt over {turns:,} turns, at most {most:,}"
    ours_last = sorted(replayed.outcomes, key=lambda one: one.policy == OURS)
    curves = "".join(_curve(one, top) for one in ours_last)
    return (
        f'<svg viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none" role="img"'
        f' aria-label="{name}">{_marks(replayed, top)}{curves}'
        f'<line class="now" id="now" x1="0" x2="0" y1="0" y2="{HIGH}"/></svg>'
        f'<div class="axis"><span>turn 1</span>'
        f"<span>height: {top:,} tokens{_cut(replayed, top)}</span>"
        f"<span>turn {turns:,}</span></div>"
        '<div class="legend"><span class="is-ours"><i></i>refold</span>'
        '<span class="is-chosen"><i></i><span id="chosen"></span></span>'
        '<span class="is-other"><i></i>others</span>'
        '<span class="is-cut"><i></i>a compaction of refold</span>'
        f'<span class="is-window"><i></i>the window, {replayed.window:,} tokens</span></div>'
    )


def _cut(replayed: Replayed, top: int) -> str:
    """Which curves leave the picture at its top, and how far they go."""
    most = {
        one.policy: max([turn.tokens for turn in one.turns] or [0]) for one in replayed.outcomes
    }
    cut = [f"{name} to {tokens:,}" for name, tokens in most.items() if tokens > top]
    return f"; higher go {escape(', '.join(cut))}" if cut else ""


def _marks(replayed: Replayed, top: int) -> str:
    """The window across, and each compaction of refold down."""
    last = max(1, len(replayed.outcome(OURS).turns) - 1)
    high = HIGH - HIGH * replayed.window / top
    places = [round(WIDE * (one.turn - 1) / last, 1) for one in replayed.receipts]
    return f'<line class="window" x1="0" x2="{WIDE}" y1="{high:.1f}" y2="{high:.1f}"/>' + "".join(
        f'<line class="cut" x1="{x}" x2="{x}" y1="0" y2="{HIGH}"/>' for x in places
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
        f"<li>{_turn(one.turn)} {escape(one.strategy)}, {one.tokens_before:,} to"
        f" {one.tokens_after:,} tokens</li>"
        for one in replayed.receipts
    )
    parts = []
    for outcome in replayed.outcomes:
        lost = "".join(
            f"<li>{_turn(one.turn)} {escape(redact(one.name))}"
            f"<pre>{escape(redact(one.line))}</pre></li>"
            for one in outcome.lost
        )
        if lost:
            parts.append(_behind(escape(outcome.policy), f"<ul>{lost}</ul>"))
    heading = "the names that each policy lost, and the line they stood on"
    shown = _behind("the receipts of refold", f"<ul>{receipts}</ul>")
    return shown + (_behind(heading, "".join(parts)) if parts else "")


def _behind(heading: str, content: str) -> str:
    return f"<details><summary>{heading}</summary>{content}</details>"


def _turn(turn: int) -> str:
    """A button that leads to a turn."""
    return f'<button data-turn="{turn - 1}">turn {turn:,}</button>'


def _json(replayed: Replayed, kept: Kept, redact: Redact) -> str:
    value: dict[str, Any] = {
        "ours": OURS,
        "turns": len(replayed.outcome(OURS).turns),
        "texts": _shown([redact(text) for text in kept.texts]),
        "log": kept.log,
        "seen": kept.seen,
        "pages": kept.pages,
        "sizes": {one.policy: [turn.tokens for turn in one.turns] for one in replayed.outcomes},
    }
    # No tag, no comment and no end of the script can begin in it.
    return msgspec.json.encode(value).decode().replace("<", "\\u003c").replace("&", "\\u0026")


def _shown(texts: list[str]) -> list[tuple[str, str, int]]:
    """The messages: who said it, as much of it as the page has room for, and how many characters
    more there are."""
    written = [len(msgspec.json.encode(text)) + 5 * (text.count("<") + text.count("&"))
               for text in texts]  # fmt: skip
    room = _room(written)
    shown = []
    for text, size in zip(texts, written):
        role, _, said = text.partition("\0")
        chars = max(1, len(text) * room // max(1, size)) if size > room else len(said)
        shown.append((role, said[:chars], max(0, len(said) - chars)))
    return shown


def _room(sizes: list[int]) -> int:
    """How long each may be, so that all together fit: short ones leave their room to the long."""
    left, count = TEXTS_BYTES_MAX, len(sizes)
    for size in sorted(sizes):
        share = left // count
        if size > share:
            return max(TEXT_BYTES_MIN, min(TEXT_BYTES_MAX, share))
        left, count = left - size, count - 1
    return TEXT_BYTES_MAX
