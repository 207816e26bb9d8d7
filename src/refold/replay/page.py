"""The results of a replay: one HTML page, a drawing for a terminal, and the sentences that explain
the figures.

The page has the curves, a slider through the turns, and two pages side by side. It loads nothing,
and nothing that it shows can run: its content security policy lists the one style and the one
script by their digests, content goes into text nodes or into JSON in which no tag can begin,
invisible characters are escaped as on a terminal, and long messages are cut so that all fit. In the
drawing, columns are runs of turns; refold's page is solid, everything is dotted, and a mark is a
compaction. Neighbours: `run` has the figures and pages, `edges.commands.replay` prints the lines,
`edges.displays.browser` uses the same document.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from refold.checked import quoted
from refold.conversations.exporter import write_file
from refold.display import number, visible
from refold.errors import Conflict
from refold.replay.needs import RECENT
from refold.replay.run import AGENT, ALL, OURS, Kept, Outcome, Replayed, Turn
from refold.system.disk import is_regular, os_failure

MARK = "<!-- refold replay -->"
WIDE, HIGH = 1_000, 300
# Higher curves leave the picture at its top, or lower ones would all look the same.
WINDOWS_DRAWN = 3
BESIDE_FIRST = (AGENT, "sliding window")  # compared with refold until one is chosen
Redact = Callable[[str], str]


def page_of(title: str, id: str, replayed: Replayed, kept: Kept, rows: Sequence[Sequence[str]],
            redact: Redact, counted: str = "") -> str:  # fmt: skip
    """The whole document. `rows` is the table, with its headings first; `counted` explains how
    sizes are counted."""
    last = max(0, len(replayed.outcome(OURS).turns) - 1)
    heading = redact(title)
    body = f"""<h1>{safe(heading)}</h1>\
<p>{safe(id)}: {size_words(replayed)}. {safe(counted)}</p>
{_chart(replayed)}
<div class="wide">{_table(rows)}</div><p>{safe(measure_words(replayed))}
{safe(faults_words(replayed.outcomes))}</p>
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
        f"<option{' selected' if name == first else ''}>{safe(name)}</option>" for name in others
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{safe(cell)}</th>" for cell in rows[0])
    body = "".join(
        f"<tr{' class=ours' if row[0] == OURS else ''}>"
        + "".join(f"<td>{safe(cell)}</td>" for cell in row)
        + "</tr>"
        for row in rows[1:]
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _chart(replayed: Replayed) -> str:
    """The curves, their legend, and their heights."""
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
    """The curves that leave the picture at its top, and how high they go."""
    most = {
        one.policy: max([turn.tokens for turn in one.turns] or [0]) for one in replayed.outcomes
    }
    cut = [f"{name} to {tokens:,}" for name, tokens in most.items() if tokens > top]
    return f"; higher go {safe(', '.join(cut))}" if cut else ""


def _marks(replayed: Replayed, top: int) -> str:
    """The window as a horizontal line, if the curves come near it, and each compaction of refold as
    a vertical one."""
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
    name = safe(outcome.policy)
    return f'<polyline class="{kind}" data-policy="{name}" points="{points}"/>'


def _lists(replayed: Replayed, redact: Redact) -> str:
    """The receipts, and the names that each policy lost."""
    receipts = "".join(
        f"<li>{_turn(one.turn)} {safe(one.strategy)}, {one.tokens_before:,} to"
        f" {one.tokens_after:,} tokens</li>"
        for one in replayed.receipts
    )
    parts = []
    for outcome in replayed.outcomes:
        lost = "".join(
            f"<li>{_turn(one.turn)} {safe(redact(one.name))}"
            f"<pre>{safe(redact(one.line))}</pre></li>"
            for one in outcome.lost
        )
        if lost:
            parts.append(behind(safe(outcome.policy), f"<ul>{lost}</ul>"))
    heading = "the names that each policy lost, and the line they stood on"
    shown = behind("the receipts of refold", f"<ul>{receipts}</ul>")
    return shown + (behind(heading, "".join(parts)) if parts else "")


def _turn(turn: int) -> str:
    """A button that goes to a turn."""
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
    """The messages: the role, as much of the text as there is room for, and the number of
    characters left out."""
    parts = [text.partition("\0") for text in texts]
    saids = [(visible(role), visible(said)) for role, _, said in parts]
    written = [len(msgspec.json.encode(said)) + 5 * (said.count("<") + said.count("&"))
               for _, said in saids]  # fmt: skip
    most = room(written)
    shown = []
    for (role, said), size in zip(saids, written):
        chars = max(1, len(said) * most // max(1, size)) if size > most else len(said)
        shown.append((role, said[:chars], max(0, len(said) - chars)))
    return shown


HEIGHT, WIDTH = 10, 72
UTF8, ASCII = ("█", "·", "▲", "│", "└", "─"), ("#", ".", "^", "|", "+", "-")


def plot(replayed: Replayed, *, width: int = WIDTH, is_utf8: bool = True) -> list[str]:
    """The lines of the drawing; none without turns."""
    ours, whole = replayed.outcome(OURS).turns, replayed.outcome(ALL).turns
    if not ours:
        return []
    solid, dotted, mark, side, corner, floor = UTF8 if is_utf8 else ASCII
    columns = min(width, len(ours))
    pages, all_pages = _columns(ours, columns), _columns(whole, columns)
    top = max(*pages, *all_pages, 1)
    lines = []
    for row in range(HEIGHT, 0, -1):
        level = top * (row - 0.5) / HEIGHT
        drawn = [
            solid if page >= level else dotted if everything >= level else " "
            for page, everything in zip(pages, all_pages)
        ]
        label = f"{top * row // HEIGHT:,}" if row in (HEIGHT, HEIGHT // 2) else ""
        lines.append(f"{label:>9} {side}{''.join(drawn)}".rstrip())
    lines.append(f"{'0':>9} {corner}{floor * columns}")
    compacted = {
        (one.turn - 1) * columns // len(ours) for one in replayed.receipts if one.turn <= len(ours)
    }
    marks = "".join(mark if at in compacted else " " for at in range(columns))
    return [*lines, f"{'':>9}  {marks}".rstrip()] if compacted else lines


def _columns(turns: Sequence[Turn], columns: int) -> list[int]:
    """The largest prompt in each run of turns."""
    largest = [0] * columns
    for at, turn in enumerate(turns):
        column = at * columns // len(turns)
        largest[column] = max(largest[column], turn.tokens)
    return largest


def size_words(replayed: Replayed) -> str:
    """The size of the session, and the share of the window that refold uses."""
    messages = number(replayed.messages, "message")
    said = f"{messages}, {replayed.tokens:,} tokens, window {replayed.window:,}"
    return f"{said}; {cap_words(replayed)}" if replayed.cap < replayed.window else said


def cap_words(replayed: Replayed) -> str:
    """How refold uses a window larger than its own cap."""
    return f"refold compacts at {replayed.cap:,} at the latest (tokens_cap)"


def counted_words(
    replayed: Replayed, messages: int, tokens: int, *, taken_back: int = 0, off_page: int = 0
) -> str:
    """The messages played, and why their size differs from the page, whose `messages` and `tokens`
    are in the list."""
    parts = [*_left_words(taken_back, off_page)]
    everything = "Everything else ever said" if taken_back else "Everything ever said"
    how = "except thinking and images, at four characters a token for every policy."
    if replayed.calls:
        how = (
            f"in the provider's tokens: the usage of {number(replayed.calls, 'call')} is recorded,"
            " with the agent's system prompt and tools in it."
        )
    parts.append(f"{everything} counts here, {how}")
    parts.append(f"The list counts the page as it is now, for its model: {tokens:,}.")
    if messages + off_page != replayed.messages:
        log = f"{'Without those, the' if taken_back else 'The'} log has"
        parts.append(
            f"{log} {number(messages + off_page, 'message')}: here a system prompt counts as one, "
            "consecutive messages of an assistant count as one, and results count with their calls."
        )
    return " ".join(parts)


def _left_words(taken_back: int, off_page: int) -> Iterator[str]:
    """The messages played although they are off the page, and those not played."""
    if off_page:
        those = f"the {number(off_page, 'message')} that {_are(off_page)} off the page since"
        yield f"The session is played as it was before you went back, with {those}."
    if taken_back:
        were = "was" if taken_back == 1 else "were"
        those = f"{number(taken_back, 'message')} {were} taken back before the session went on"
        yield f"{those}, and {_are(taken_back)} not played."


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def measure_words(replayed: Replayed) -> str:
    """The meaning of `names kept`, or why it is missing."""
    needed = max((one.needed for one in replayed.outcomes), default=0)
    if needed:
        return names_words(f"{needed:,}")
    if replayed.tokens <= replayed.window:
        none = "the session was never larger than the window"
    else:
        none = (
            f"after the window was full, no turn used a name from more than {RECENT} messages ago"
        )
    return f"{names_words('some')} Here there are none (-): {none}."


def names_words(how_many: str) -> str:
    """The meaning of `names kept`, for a number of names."""
    return (
        f"Names kept: a turn uses names (paths, identifiers, numbers), and {how_many} of them were"
        f" last seen more than {RECENT} messages ago. The share is how many of those still had a"
        " line in the prompt that says something about them."
    )


def faults_words(outcomes: Iterable[Outcome]) -> str:
    """The policies without counted faults, and why."""
    free = dict.fromkeys(f'"{one.policy}"' for one in outcomes if one.faulty is None)
    return f"Faults are not counted (-) for {' and '.join(free)}: no window limits these prompts."


DOCTYPE = "<!doctype html>\n"
TEXT_BYTES_MIN, TEXT_BYTES_MAX = 200, 20_000
TEXTS_BYTES_MAX = 3_000_000


def document(mark: str, title: str, body: str, *, style: str, script: str = "") -> str:
    """The whole document; `body` is HTML, in which all content is escaped already. The mark
    identifies the kind of page; everything after it differs from page to page."""
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
<title>{safe(title)}</title><style>{style}</style></head><body>
{body}{end}</body></html>
"""


def safe(text: str) -> str:
    """A text as HTML: every character is visible, and none is a tag."""
    return escape(visible(text))


def asset(package: str, name: str) -> str:
    """A style or script of refold."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def _source(content: str) -> str:
    """The name of exactly this content in a content security policy."""
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def json_text(value: object) -> str:
    """JSON for the inside of a script: no tag, comment or end of it can begin there."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c").replace("&", "\\u0026")


def legend(drawn: str, names: Mapping[str, str]) -> str:
    """The names of the lines in a picture, by class, without those that are missing."""
    return "".join(
        f'<span class="is-{kind}"><i></i>{name}</span>'
        for kind, name in names.items()
        if f'class="{kind}"' in drawn
    )


def behind(heading: str, content: str) -> str:
    """HTML that unfolds on a click."""
    return f"<details><summary>{heading}</summary>{content}</details>"


def room(sizes: Sequence[int]) -> int:
    """The number of bytes for each message, so that all fit: short ones leave their room to long
    ones."""
    left, count = TEXTS_BYTES_MAX, len(sizes)
    for size in sorted(sizes):
        share = left // count
        if size > share:
            return max(TEXT_BYTES_MIN, min(TEXT_BYTES_MAX, share))
        left, count = left - size, count - 1
    return TEXT_BYTES_MAX


def write(path: Path, page: str, mark: str) -> None:
    """Writes a page, readable by its owner alone. Only a page of the same kind is replaced."""
    begin = (DOCTYPE + mark).encode()
    try:
        # A link counts as a file, wherever it leads.
        if os.path.lexists(path) and not (is_regular(str(path)) and _begins_with(path, begin)):
            reason = f"{quoted(str(path))} already exists, and refold did not write it"
            raise Conflict(reason, hint="choose another name")
    except OSError as error:
        raise os_failure(error, f"cannot read {quoted(str(path))}") from error
    write_file(str(path), [page.encode()])


def _begins_with(path: Path, mark: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(mark)) == mark
