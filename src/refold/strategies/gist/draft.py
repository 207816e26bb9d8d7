"""A gist as an edit: a heading, the ledger, and the kept lines as quotes of their messages.

There is one summary per run of messages; the largest has the ledger and the prose. Prices are
estimates, so the least needed lines are dropped if the summaries come out too large. A line costs
as much as six names; in a tight fold most needed names would be on no line, so part of the room is
for a list of bare names, which the agent can search for. Neighbours: `choice` chooses the lines,
`names` has the need of names, `gist` asks for the summaries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from refold.core.model import Fact, GistNotes, Prose, Quote, Slot, Span, Summarize
from refold.core.shortened import summary_text
from refold.display import cut as shortened
from refold.display import one_line
from refold.strategies.brief import UNFOLD, Brief, unfolder
from refold.strategies.gist.choice import TAG_CHARS, Kept, KeptLines, by_message
from refold.strategies.gist.layout import Material
from refold.strategies.gist.names import Needs, Row, names_of
from refold.strategies.gist.passages import PIECE_CHARS, Passage, Pieces, cut, flat
from refold.strategies.protected_messages import standin_max

TRIES = 4
FILES_NAMED = 5
REQUEST_CHARS = 100
SOURCE_CHARS = 40
# Below this share of the text, names are listed; the list's share of the room grows with the
# distance from it, up to a limit.
TIGHT = 0.06
SHARE, SHARE_MOST = 0.6, 0.3
# The share of the room for prose alone. It grows as less than this share of the text can stay: the
# fewer lines there are, the more it matters that some of them say why.
PROSE_TIGHT, PROSE_LEAST, PROSE_MOST = 0.1, 0.08, 0.7
MARK = "Also named: "
_LOCATION = re.compile(r"\.\w+[-:]\d+$")  # `a.py-12`, as in search output
_SIDES = ("a/", "b/")  # of a diff


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
        """The summaries in at most `room` tokens; the least needed lines go if necessary."""
        for run in self.material.runs:
            kept = self._fitting(run, kept, per_char)
        edits = self.summaries(kept)
        for _ in range(TRIES):
            size = summary_tokens(self.brief, edits)
            if size <= room or not kept:
                break
            rate = max(per_char, size / sum(len(summary_text(edit)) for edit in edits))
            kept = without_last(kept, (size - room) / rate)
            edits = self.summaries(kept)
        return edits

    def _fitting(self, run: Sequence[Slot], kept: Kept, per_char: float) -> Kept:
        """The lines without as many of this run's as its summary is too large to stand for it."""
        most = standin_max(run)
        seqs = {passage.seq for passage in self.material.passages_of(run)}
        own = {line: pieces for line, pieces in kept.items() if line[0] in seqs}
        if chars_of(own) * per_char <= most / 2:  # far from it, as almost always
            return kept
        for _ in range(TRIES):
            edit = self._summary(run, by_message(own), has_ledger=run is self.material.largest)
            excess = summary_tokens(self.brief, [edit]) - most
            if excess <= 0 or not own:
                break
            own = without_last(own, excess / per_char)
        return {
            line: own.get(line, pieces)
            for line, pieces in kept.items()
            if line[0] not in seqs or line in own
        }

    def with_names(self, edits: list[Summarize], room: int, per_char: float) -> list[Summarize]:
        """The summaries, the largest with a list of names that are on no line of the page, in the
        room that is left."""
        left = room - summary_tokens(self.brief, edits)
        material = self.material
        others = [flat(slot.message) for slot in (*material.kept, *material.frozen)]
        page = "\n".join([*map(summary_text, edits), *others])
        names = further_names(material.needs, page, int(left / per_char))
        names = without_secrets(names, material.passages, self.brief.redact)
        for _ in range(TRIES):
            listed = self._with_list(edits, names)
            excess = summary_tokens(self.brief, listed) - room
            if excess <= 0 or not names:
                return listed
            # Numbers and ids have more tokens per character than words.
            names = names[: len(names) * max(0, left - excess) // max(1, left)]
            left -= excess
        return edits

    def _with_list(self, edits: list[Summarize], names: Sequence[str]) -> list[Summarize]:
        """The summaries, the largest with a list of these names."""
        material = self.material
        first = material.largest[0].seq
        listed: list[Summarize] = []
        for edit in edits:
            if names and edit.gist and edit.span.first == first:
                noted = material.needs_of(set(names)).noted(names)
                notes = replace(edit.gist, names={**edit.gist.names, **noted})
                text = f"{edit.text}\n{names_line(names, material.passages)}"
                edit = replace(edit, text=text, gist=notes)
            listed.append(edit)
        return listed

    def summaries(self, kept: Kept) -> list[Summarize]:
        """One summary per run."""
        lines = by_message(kept)
        runs, largest = self.material.runs, self.material.largest
        return [self._summary(run, lines, has_ledger=run is largest) for run in runs]

    def _summary(self, run: Sequence[Slot], lines: KeptLines, *, has_ledger: bool) -> Summarize:
        span = Span(run[0].seq, run[-1].last)
        facts = self.facts if has_ledger else ()
        where = f"; {UNFOLD} {span} or any #number" if unfolder(self.brief.view) else ""
        heading = f"[Earlier steps {span}, quoted by their own lines, not a new request{where}.]"
        quotes: list[Quote] = []
        names = set[str]()
        for passage in self.material.passages_of(run):
            kept = lines.get(passage.seq, {})
            texts: list[str] = []
            for at, pieces in sorted(kept.items()):
                line = passage.lines[at]
                if pieces[0][0] == 0 and pieces[0][1] >= len(line):
                    names.update(passage.names[at])
                else:
                    # Half a secret is not recognizable, so secrets are removed before the line is
                    # cut.
                    line = cut(self.brief.redact(line), pieces)
                    names.update(names_of(line))
                texts.append(line)
            if texts:
                source = shortened(one_line(self.brief.redact(passage.source)), SOURCE_CHARS)
                quote = Quote(seq=passage.seq, role=passage.role, lines=tuple(texts), source=source)
                quotes.append(quote)
        notes = self.noted.noted(sorted(names))
        return Summarize(
            batch=self.brief.batch,
            span=span,
            text="\n".join([heading, *self.ledger] if has_ledger else [heading]),
            prose=self.prose if has_ledger else None,
            quotes=tuple(quotes),
            line=line_of(span, facts, self._first_words(quotes)),
            facts=facts,
            gist=GistNotes(now=self.noted.now, names=notes, starved=self.starved),
            reason="gist",
        )

    def _first_words(self, quotes: Sequence[Quote]) -> str:
        """The start of the first quoted line of an agent or a user, else of any line."""
        spoken = sorted(quotes, key=lambda quote: quote.role == "tool")
        return self.brief.redact(one_line(spoken[0].lines[0]))[:REQUEST_CHARS] if spoken else ""


def line_of(span: Span, facts: Sequence[Fact], said: str = "") -> str:
    """The shortest form of a span: the last request and the changed files, or what was `said`."""
    requests = [fact.text.split("\n", 1)[0] for fact in facts if fact.kind == "request"]
    changed = [fact.text for fact in facts if fact.kind == "file" and fact.state != "read"]
    request = requests[-1][:REQUEST_CHARS] if requests else ""
    files = f"changed {', '.join(changed[:FILES_NAMED])}" if changed else ""
    return f"{span}: {'; '.join(filter(None, [request, files])) or said or 'earlier steps'}"


# --- sizes ---


def summary_tokens(brief: Brief, edits: Iterable[Summarize]) -> int:
    """The size of these summaries on the page."""
    return sum(brief.text_tokens(summary_text(edit)) for edit in edits)


def chars_of(kept: Kept) -> int:
    """The characters of these lines, with their tags."""
    messages = {seq for seq, _ in kept}
    breaks = sum(len(pieces) for pieces in kept.values())
    return TAG_CHARS * len(messages) + breaks + sum(map(_chars, kept.values()))


def _chars(pieces: Pieces) -> int:
    """The characters of the pieces of a line."""
    return sum(end - start for start, end in pieces)


def without_last(kept: Kept, chars: float) -> Kept:
    """The choice, shortened by at least this many characters: the last lines, which are the least
    needed, are dropped. A long line only loses its end."""
    left = dict(kept)
    while left and chars > 0:
        line, pieces = left.popitem()
        size = _chars(pieces)
        room = int(size - chars)
        if size - chars >= PIECE_CHARS:
            shorter: Pieces = []
            for start, end in pieces:
                end = min(end, start + room)
                if end > start:
                    shorter.append((start, end))
                room -= end - start
            left[line] = shorter
        chars -= size + 1
    return left


def list_share(room: float, text: float) -> float:
    """The share of the room for a list of names, given the size of the folded text."""
    tightness = 1 - room / (TIGHT * max(1.0, text))
    return min(SHARE_MOST, max(0.0, SHARE * tightness))


def prose_share(room: float, text: float) -> float:
    """The share of the room for prose alone, given the size of the folded text."""
    tightness = 1 - room / (PROSE_TIGHT * max(1.0, text))
    return min(PROSE_MOST, max(PROSE_LEAST, tightness))


def names_line(names: Sequence[str], passages: Iterable[Passage] = ()) -> str:
    """The list as the page shows it, absolute paths with their leading slash."""
    paths = {name for name in names if "/" in name}
    rooted = set[str]()
    for passage in passages:
        for line, line_names in zip(passage.lines, passage.names):
            rooted.update(name for name in paths.intersection(line_names) if _is_rooted(name, line))
    return MARK + ", ".join(f"/{name}" if name in rooted else name for name in names)


def _is_rooted(name: str, line: str) -> bool:
    """Whether a line has the path with a leading slash, not as the end of a longer path."""
    at = line.find(f"/{name}")
    return at == 0 or (at > 0 and not line[at - 1].isalnum() and line[at - 1] not in "._-/")


def further_names(needs: Needs, page: str, chars: int) -> list[str]:
    """The most needed names that are not on the page, in this many characters, without those that
    another one contains."""
    odds = needs.odds(needs.rows)
    left = chars - len(MARK)
    chosen: dict[str, None] = {}
    for name in sorted(odds, key=odds.__getitem__, reverse=True):
        if name in page or not _is_worth_listing(name, needs.rows):
            continue
        if any(name in longer for longer in chosen):
            continue
        for shorter in [other for other in chosen if other in name]:
            del chosen[shorter]
            left += _price(shorter)
        left -= _price(name)
        if left < 0:
            break
        chosen[name] = None
    return list(chosen)


def _price(name: str) -> int:
    """The characters of a name in the list: with a comma, a path with its slash."""
    return len(name) + (3 if "/" in name else 2)


def _is_worth_listing(name: str, rows: dict[str, Row]) -> bool:
    """Whether a name was used again: a single output may have thousands. Line numbers and the sides
    of a diff do not count as names."""
    row = rows[name]
    is_used = bool(row.own or row.user)
    if name.isdigit() or row.held == 1:
        return is_used
    return not _LOCATION.search(name) and not (name.startswith(_SIDES) and name[2:] in rows)


def without_secrets(
    names: Sequence[str], passages: Iterable[Passage], redact: Callable[[str], str]
) -> list[str]:
    """The names without secrets, which can be recognized only on a complete line."""
    wanted = set(names)
    secret: set[str] = set()
    for passage in passages:
        lines = [
            line
            for line, line_names in zip(passage.lines, passage.names)
            if not wanted.isdisjoint(line_names)
        ]
        text = "\n".join(lines)
        clean = redact(text)
        if clean != text:
            suspects = set().union(*passage.names) & wanted
            secret.update(name for name in suspects if clean.count(name) < text.count(name))
    return [name for name in names if name not in secret]
