"""One page that shows a replay: the curves, a slider through the turns, the pages side by side.

Self-contained, and deaf to what a session says: see `document`. Content goes into the page as JSON,
and from there into text nodes only. Neighbours: `run` keeps the pages, `page.css` and `page.js` are
what is written in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import msgspec

from refold.replay.document import asset, behind, document, json_text, legend, room
from refold.replay.run import AGENT, OURS, Kept, Outcome, Replayed
from refold.replay.words import faults_words, measure_words, size_words

MARK = "<!-- refold replay -->"
WIDE, HIGH = 1_000, 300
WINDOWS_DRAWN = 3  # what is more leaves the picture at its top: the rest could not be told apart
BESIDE_FIRST = (AGENT, "sliding window")  # what refold is compared with until one is chosen
Redact = Callable[[str], str]


def page_of(title: str, id: str, replayed: Replayed, kept: Kept, rows: Sequence[Sequence[str]],
            redact: Redact, counted: str = "") -> str:  # fmt: skip
    """The whole document. `rows` is the table, its heads first, `counted` how sizes are counted."""
    last = max(0, len(replayed.outcome(OURS).turns) - 1)
    heading = redact(title)
    body = f"""<h1>{escape(heading)}</h1>\
<p>{escape(id)}: {size_words(replayed)}. {escape(counted)}</p>
{_chart(replayed)}
<div class="wide">{_table(rows)}</div><p>{escape(measure_words(replayed))}
{escape(faults_words(replayed.outcomes))}</p>
{_lists(replayed, redact)}
<div class="bar"><label for="turn" id="label" aria-live="polite">turn</label>
<input type="range" id="turn" min="0" max="{last}" value="{last}">
<label for="policy">beside</label><select id="policy">{_options(replayed)}</select></div>
<main class="sides" id="sides"></main>
<script type="application/json" id="told">{_json(replayed, kept, redact)}</script>
"""
    style = asset(__package__, "document.css") + asset(__package__, "page.css")
    script = asset(__package__, "page.js")
    return document(MARK, f"{heading}: replay", body, style=style, script=script)


def _options(replayed: Replayed) -> str:
    others = [one.policy for one in replayed.outcomes if one.policy != OURS]
    first = next((name for name in BESIDE_FIRST if name in others), "")
    return "".join(
        f"<option{' selected' if name == first else ''}>{escape(name)}</option>" for name in others
    )


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
    marks = _marks(replayed, top)
    names = {
        "cut": "a compaction of refold",
        "window": f"the window, {replayed.window:,} tokens",
    }
    return (
        f'<svg viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none" role="img"'
        f' aria-label="{name}">{marks}{curves}'
        f'<line class="now" id="now" x1="0" x2="0" y1="0" y2="{HIGH}"/></svg>'
        f'<div class="axis"><span>turn 1</span>'
        f"<span>height: {top:,} tokens{_cut(replayed, top)}</span>"
        f"<span>turn {turns:,}</span></div>"
        '<div class="legend"><span class="is-ours"><i></i>refold</span>'
        '<span class="is-chosen"><i></i><span id="chosen"></span></span>'
        '<span class="is-other"><i></i>others</span>'
        f"{legend(marks, names)}</div>"
    )


def _cut(replayed: Replayed, top: int) -> str:
    """Which curves leave the picture at its top, and how far they go."""
    most = {
        one.policy: max([turn.tokens for turn in one.turns] or [0]) for one in replayed.outcomes
    }
    cut = [f"{name} to {tokens:,}" for name, tokens in most.items() if tokens > top]
    return f"; higher go {escape(', '.join(cut))}" if cut else ""


def _marks(replayed: Replayed, top: int) -> str:
    """The window across, if the curves come near it, and each compaction of refold down."""
    last = max(1, len(replayed.outcome(OURS).turns) - 1)
    high = HIGH - HIGH * replayed.window / top
    window = f'<line class="window" x1="0" x2="{WIDE}" y1="{high:.1f}" y2="{high:.1f}"/>'
    places = [round(WIDE * (one.turn - 1) / last, 1) for one in replayed.receipts]
    return (window if replayed.window <= top else "") + "".join(
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
            parts.append(behind(escape(outcome.policy), f"<ul>{lost}</ul>"))
    heading = "the names that each policy lost, and the line they stood on"
    shown = behind("the receipts of refold", f"<ul>{receipts}</ul>")
    return shown + (behind(heading, "".join(parts)) if parts else "")


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
    return json_text(value)


def _shown(texts: list[str]) -> list[tuple[str, str, int]]:
    """The messages: who said it, as much of it as the page has room for, and how many characters
    more there are."""
    written = [len(msgspec.json.encode(text)) + 5 * (text.count("<") + text.count("&"))
               for text in texts]  # fmt: skip
    most = room(written)
    shown = []
    for text, size in zip(texts, written):
        role, _, said = text.partition("\0")
        chars = max(1, len(text) * most // max(1, size)) if size > most else len(said)
        shown.append((role, said[:chars], max(0, len(said) - chars)))
    return shown
