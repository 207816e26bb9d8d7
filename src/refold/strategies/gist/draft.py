"""The text of a gist: a heading, the ledger, and the kept lines, each group under its tag line.

There is one summary per run of messages; the largest has the ledger and the prose. Prices are
estimates, so the least needed lines go again if the texts came out too large. Neighbours: `choice`
chooses the lines, `gist` asks for the summaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from refold.core.model import Fact, Slot, Span, Summarize
from refold.core.notes import GIST, NAMES, NOW, STARVED
from refold.strategies.brief import Brief, text_tokens, tokens_of
from refold.strategies.gist.choice import TAG_CHARS, Kept
from refold.strategies.gist.lines import Passage, Pieces, cut
from refold.strategies.gist.material import Material
from refold.strategies.gist.names import Needs
from refold.strategies.tags import tag_line

TRIES = 4
FILES_NAMED = 5
REQUEST_CHARS = 100

KeptLines = Mapping[int, Mapping[int, Pieces]]  # by seq, by number of the line in its message


class Draft(Struct, frozen=True, kw_only=True):
    """The summaries of one fold, one per run of messages; the largest has the ledger."""

    brief: Brief
    material: Material
    noted: Needs
    ledger: list[str]
    facts: tuple[Fact, ...]
    starved: bool
    prose: str = ""

    def within(self, room: int, kept: Kept, per_char: float) -> list[Summarize]:
        """The summaries in at most `room` tokens; the least needed lines go if it is more."""
        edits = self.summaries(kept)
        for _ in range(TRIES):
            excess = sum(text_tokens(self.brief.count, edit.text) for edit in edits) - room
            if excess <= 0 or not kept:
                break
            kept = without_last(kept, excess / per_char)
            edits = self.summaries(kept)
        return edits

    def summaries(self, kept: Kept) -> list[Summarize]:
        """One summary per run."""
        lines: dict[int, dict[int, Pieces]] = {}
        for (seq, at), pieces in kept.items():
            lines.setdefault(seq, {})[at] = pieces
        runs = self.material.runs
        largest = max(runs, key=tokens_of)
        return [self._summary(run, lines, has_ledger=run is largest) for run in runs]

    def _summary(self, run: Sequence[Slot], lines: KeptLines, *, has_ledger: bool) -> Summarize:
        span = Span(run[0].seq, run[-1].last)
        passages = self.material.passages_of(run)
        facts = self.facts if has_ledger else ()
        front = self._front(_heading(span)) if has_ledger else [_heading(span)]
        return Summarize(
            batch=self.brief.batch,
            span=span,
            text="\n".join([*front, *_quoted(passages, lines)]),
            line=one_line(span, facts),
            facts=facts,
            notes=self._notes(passages, lines),
            reason="gist",
        )

    def _front(self, heading: str) -> list[str]:
        """What stands before the kept lines of the largest run."""
        front = [heading, *self.ledger]
        return [self.prose, *front] if self.prose else front

    def _notes(self, passages: Sequence[Passage], lines: KeptLines) -> dict[str, Any]:
        """What a later gist has to know of the names that this one keeps."""
        names: set[str] = set()
        for one in passages:
            for at in lines.get(one.seq, ()):
                names.update(one.names[at])
        notes: dict[str, Any] = {
            GIST: 1,
            NOW: self.noted.now,
            NAMES: self.noted.noted(sorted(names)),
        }
        if self.starved:
            notes[STARVED] = True
        return notes


def _heading(span: Span) -> str:
    return (
        f"[Earlier steps {span}, quoted by their own lines, not a new request; "
        f"unfold {span} or any #number.]"
    )


def _quoted(passages: Sequence[Passage], kept: KeptLines) -> list[str]:
    """The kept lines of these messages, each message under its tag line."""
    out: list[str] = []
    for one in passages:
        lines = kept.get(one.seq)
        if lines:
            out.append(tag_line(one.seq, one.role))
            out += [cut(one.lines[at], pieces) for at, pieces in sorted(lines.items())]
    return out


def one_line(span: Span, facts: Sequence[Fact]) -> str:
    """The shortest form of a span: what was asked last and what was changed."""
    requests = [fact.text for fact in facts if fact.kind == "request"]
    changed = [fact.text for fact in facts if fact.kind == "file" and fact.state != "read"]
    parts: list[str] = []
    if requests:
        parts.append(requests[-1].split("\n", 1)[0][:REQUEST_CHARS])
    if changed:
        parts.append(f"changed {', '.join(changed[:FILES_NAMED])}")
    told = "; ".join(part for part in parts if part)
    return f"{span}: {told or 'earlier steps'}"


# --- sizes ---


def chars_of(kept: Kept) -> int:
    """The characters that these lines take, with their tags."""
    messages = {seq for seq, _ in kept}
    chars = TAG_CHARS * len(messages)
    for pieces in kept.values():
        chars += sum(end - start + 1 for start, end in pieces)
    return chars


def without_last(kept: Kept, chars: float) -> Kept:
    """The choice without its last lines, which are the least needed, by at least this many
    characters."""
    left = dict(kept)
    while left and chars > 0:
        _, pieces = left.popitem()
        chars -= sum(end - start for start, end in pieces) + 1
    return left
