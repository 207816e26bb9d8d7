"""A gist as an edit: a heading, the ledger, and the kept lines as quotes of their messages.

There is one summary per run of messages; the largest has the ledger and the prose. Prices are
estimates, so the least needed lines are dropped if the texts come out too large. Neighbours:
`choice` chooses the lines, `gist` asks for the summaries.

Names of what could not be quoted: where a fold is tight, a list of bare names beside the lines.

A line tells a name and costs as much as six of them. Where only a small part of the text can stay,
most names that will be needed would be on no line at all; there, a part of the room is for a list
of the most needed ones, so that the agent at least knows what to look for. Neighbours: `gist` asks
for it, `names` has the need of names, `draft` shows the list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import Fact, GistNotes, Prose, Quote, Slot, Span, Summarize, View
from refold.core.shortened import summary_text
from refold.display import cut as shortened
from refold.display import one_line
from refold.strategies.brief import UNFOLD, Brief, unfolder
from refold.strategies.gist.choice import TAG_CHARS, Kept, KeptLines, by_message
from refold.strategies.gist.layout import Material
from refold.strategies.gist.names import Needs, Row, names_of
from refold.strategies.gist.passages import PIECE_CHARS, Passage, Pieces, cut, flat

TRIES = 4
FILES_NAMED = 5
REQUEST_CHARS = 100
SOURCE_CHARS = 40


class Draft(Struct, frozen=True, kw_only=True):
    """The summaries of one fold, one per run of messages; the largest has the ledger."""

    brief: Brief
    material: Material
    noted: Needs
    ledger: list[str]
    facts: tuple[Fact, ...]
    starved: bool
    prose: Prose | None = None

    def within(self, room: int, kept: Kept, per_char: float) -> list[Summarize]:
        """The summaries in at most `room` tokens; the least needed lines go if it is more."""
        edits = self.summaries(kept)
        for _ in range(TRIES):
            size = summary_tokens(self.brief, edits)
            if size <= room or not kept:
                break
            rate = max(per_char, size / sum(len(summary_text(edit)) for edit in edits))
            kept = without_last(kept, (size - room) / rate)
            edits = self.summaries(kept)
        return edits

    def with_names(self, edits: list[Summarize], room: int, per_char: float) -> list[Summarize]:
        """The summaries, the largest with a list of names that stand on no line of the page, in
        what they leave of the room."""
        left = room - summary_tokens(self.brief, edits)
        material = self.material
        others = [flat(slot.message) for slot in (*material.kept, *material.frozen)]
        page = "\n".join([*map(summary_text, edits), *others])
        names = further_names(material.needs, page, int(left / per_char))
        names = without_secrets(names, material.passages, self.brief.redact)
        first = material.largest[0].seq
        return [
            _listing(edit, names, material) if edit.span.first == first else edit for edit in edits
        ]

    def summaries(self, kept: Kept) -> list[Summarize]:
        """One summary per run."""
        lines = by_message(kept)
        runs, largest = self.material.runs, self.material.largest
        return [self._summary(run, lines, has_ledger=run is largest) for run in runs]

    def _summary(self, run: Sequence[Slot], lines: KeptLines, *, has_ledger: bool) -> Summarize:
        span = Span(run[0].seq, run[-1].last)
        passages = self.material.passages_of(run)
        facts = self.facts if has_ledger else ()
        heading = _heading(self.brief.view, span)
        return Summarize(
            batch=self.brief.batch,
            span=span,
            text="\n".join([heading, *self.ledger] if has_ledger else [heading]),
            prose=self.prose if has_ledger else None,
            quotes=tuple(self._quotes(passages, lines)),
            line=line_of(span, facts),
            facts=facts,
            gist=self._notes(passages, lines),
            reason="gist",
        )

    def _quotes(self, passages: Sequence[Passage], kept: KeptLines) -> Iterator[Quote]:
        """The kept lines of these messages."""
        for one in passages:
            if pieces := kept.get(one.seq):
                lines = [self._cut(one.lines[at], pieces[at]) for at in sorted(pieces)]
                source = shortened(one_line(self.brief.redact(one.source)), SOURCE_CHARS)
                yield Quote(seq=one.seq, role=one.role, lines=tuple(lines), source=source)

    def _cut(self, line: str, pieces: Pieces) -> str:
        """The kept parts of a line. Half a secret could not be told by its look, so secrets go
        before the line is cut."""
        return line if _is_whole(line, pieces) else cut(self.brief.redact(line), pieces)

    def _names_shown(self, passages: Sequence[Passage], kept: KeptLines) -> set[str]:
        """The names on what is kept of the lines."""
        names = set[str]()
        for one in passages:
            for at, pieces in kept.get(one.seq, {}).items():
                line = one.lines[at]
                is_whole = _is_whole(line, pieces)
                names.update(one.names[at] if is_whole else names_of(self._cut(line, pieces)))
        return names

    def _notes(self, passages: Sequence[Passage], lines: KeptLines) -> GistNotes:
        """What a later gist has to know of the names that this one keeps."""
        names = self.noted.noted(sorted(self._names_shown(passages, lines)))
        return GistNotes(now=self.noted.now, names=names, starved=self.starved)


def _listing(edit: Summarize, names: Sequence[str], material: Material) -> Summarize:
    """A summary with a list of names, and with what a later gist has to know of them."""
    if not names or edit.gist is None:
        return edit
    noted = material.needs_of(set(names)).noted(names)
    notes = replace(edit.gist, names={**edit.gist.names, **noted})
    return replace(edit, text=f"{edit.text}\n{names_line(names, material.passages)}", gist=notes)


def _is_whole(line: str, pieces: Pieces) -> bool:
    """Whether all of a line is kept."""
    return pieces[0][0] == 0 and pieces[0][1] >= len(line)


def _heading(view: View, span: Span) -> str:
    where = f"; {UNFOLD} {span} or any #number" if unfolder(view) else ""
    return f"[Earlier steps {span}, quoted by their own lines, not a new request{where}.]"


def line_of(span: Span, facts: Sequence[Fact]) -> str:
    """The shortest form of a span: what was asked last and what was changed."""
    told = "; ".join(filter(None, [_last_request(facts), _changed_files(facts)]))
    return f"{span}: {told or 'earlier steps'}"


def _changed_files(facts: Sequence[Fact]) -> str:
    """The first files that were changed; nothing if none was."""
    changed = [fact.text for fact in facts if fact.kind == "file" and fact.state != "read"]
    return f"changed {', '.join(changed[:FILES_NAMED])}" if changed else ""


def _last_request(facts: Sequence[Fact]) -> str:
    """How the newest request begins; nothing if there is none."""
    for fact in reversed(facts):
        if fact.kind == "request":
            return fact.text.split("\n", 1)[0][:REQUEST_CHARS]
    return ""


# --- sizes ---


def summary_tokens(brief: Brief, edits: Iterable[Summarize]) -> int:
    """What these summaries take on the page."""
    return sum(brief.text_tokens(summary_text(edit)) for edit in edits)


def chars_of(kept: Kept) -> int:
    """The characters that these lines take, with their tags."""
    messages = {seq for seq, _ in kept}
    breaks = sum(len(pieces) for pieces in kept.values())
    return TAG_CHARS * len(messages) + breaks + sum(map(_chars, kept.values()))


def _chars(pieces: Pieces) -> int:
    """How many characters the pieces of a line have."""
    return sum(end - start for start, end in pieces)


def without_last(kept: Kept, chars: float) -> Kept:
    """The choice without its last lines, which are the least needed, by at least this many
    characters. Of a long line only the end goes."""
    left = dict(kept)
    while left and chars > 0:
        place, pieces = left.popitem()
        size = _chars(pieces)
        if size - chars >= PIECE_CHARS:
            left[place] = _beginning(pieces, int(size - chars))
        chars -= size + 1
    return left


def _beginning(pieces: Pieces, size: int) -> Pieces:
    """The first of these pieces, in so many characters."""
    out: Pieces = []
    for start, end in pieces:
        end = min(end, start + size)
        if end > start:
            out.append((start, end))
        size -= end - start
    return out


# The part of the text below which names are listed; what the list may have of the room grows with
# what is missing to that, up to a limit.
TIGHT = 0.06
SHARE, SHARE_MOST = 0.6, 0.3
MARK = "Also named: "
_PLACE = re.compile(r"\.\w+[-:]\d+$")  # `a.py-12`, as searches write it
_SIDES = ("a/", "b/")  # of a diff


def list_share(room: float, text: float) -> float:
    """Which part of the room is for a list, where so much text is folded into it."""
    tightness = 1 - room / (TIGHT * max(1.0, text))
    return min(SHARE_MOST, max(0.0, SHARE * tightness))


def names_line(names: Sequence[str], passages: Iterable[Passage] = ()) -> str:
    """The list as the page shows it, paths that begin at the root with their slash."""
    paths = {name for name in names if "/" in name}
    rooted = set[str]()
    for one in passages:
        for line, held in zip(one.lines, one.names):
            rooted.update(name for name in paths.intersection(held) if _is_rooted(name, line))
    return MARK + ", ".join(f"/{name}" if name in rooted else name for name in names)


def _is_rooted(name: str, line: str) -> bool:
    """Whether a line has the path with a slash before it that does not belong to a longer one."""
    at = line.find(f"/{name}")
    return at == 0 or (at > 0 and not line[at - 1].isalnum() and line[at - 1] not in "._-/")


def further_names(needs: Needs, page: str, chars: int) -> list[str]:
    """The most needed names that a page does not have, in this many characters; none that another
    one contains."""
    odds = needs.odds(needs.rows)
    left = chars - len(MARK)
    found: dict[str, None] = {}
    for name in sorted(odds, key=odds.__getitem__, reverse=True):
        if name in page or not _is_worth_a_place(name, needs.rows) or _is_part(name, found):
            continue
        for shorter in [one for one in found if one in name]:
            del found[shorter]
            left += _price(shorter)
        left -= _price(name)
        if left < 0:
            break
        found[name] = None
    return list(found)


def _price(name: str) -> int:
    """What a name takes in the list: with a comma, a path with its slash."""
    return len(name) + (3 if "/" in name else 2)


def _is_part(name: str, found: Iterable[str]) -> bool:
    return any(name in longer for longer in found)


def _is_worth_a_place(name: str, rows: dict[str, Row]) -> bool:
    """Whether anybody came back to a name: what a single output had once is one of thousands. The
    number of a line and the side of a diff are no names of their own."""
    row = rows[name]
    is_used = bool(row.own or row.user)
    if name.isdigit() or row.held == 1:
        return is_used
    return not _PLACE.search(name) and not (name.startswith(_SIDES) and name[2:] in rows)


def without_secrets(
    names: Sequence[str], passages: Iterable[Passage], redact: Callable[[str], str]
) -> list[str]:
    """The names without those that a line gives away as a secret: a name alone does not show it."""
    wanted = set(names)
    secret: set[str] = set()
    for one in passages:
        lines = [line for line, held in zip(one.lines, one.names) if not wanted.isdisjoint(held)]
        text = "\n".join(lines)
        clean = redact(text)
        if clean != text:
            held = set().union(*one.names) & wanted
            secret.update(name for name in held if clean.count(name) < text.count(name))
    return [name for name in names if name not in secret]
