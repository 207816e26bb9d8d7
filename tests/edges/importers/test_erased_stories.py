"""Stories of Claude Code files, from seeds: an erased line never comes back, all others are in the
log, and importing an unchanged file again adds nothing. A file whose lines lost their ids is
refused. More of them in `make soak`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random, SystemRandom

import pytest

from refold.config import Config
from refold.conversations.eraser import erase
from refold.edges.importers.importer import import_file
from refold.engine.context import Context
from refold.errors import Conflict
from refold.stores import open_store
from tests.edges.importers.stories import KEEPING, LOSING, Edit, Story
from tests.edges.importers.test_importing import CLAUDE
from tests.edges.importers.transcripts import Line, write

STORIES, STORIES_IN_SOAK = 40, 3_000


def words_of(value: object) -> set[str]:
    return {*re.findall(r"word-\d+", str(value))}


class Told:
    """A story, and the log that follows it."""

    def __init__(self, seed: int, folder: Path, edits: list[Edit]) -> None:
        self.random, self.edits = Random(seed), edits
        self.story = Story(self.random)
        self.store, self.path = open_store("memory:"), folder / "a.jsonl"
        self.gone: set[str] = set()  # words
        self.uuids: set[str] = set()  # of erased lines

    def imported(self) -> tuple[int, int, int]:
        """Imports the file: how much is new, how much was taken back, and the head."""
        found = import_file(self.store, Config(), self.path).sessions
        back = self.gone & self.words()
        assert not back, f"{sorted(back)} came back"
        new, restored = (sum(one.new for one in found), sum(one.restored for one in found))
        return new, restored, self.store.conversation(CLAUDE).head

    def words(self) -> set[str]:
        """All that the logs say."""
        ids = [about.id for about in self.store.conversations()]
        return words_of([event.body for id in ids for event in self.store.read(id)])

    def check_file(self) -> None:
        said = self.words() | self.gone
        lacking = [line for line in self.story.lines if not words_of(line) <= said]
        lost = [line for line in lacking if not self.may_be_erased(line)]
        assert not lost, f"{json.dumps(lost)} is not in the log"

    def may_be_erased(self, line: Line) -> bool:
        return bool(line.get("changed")) or line.get("uuid") in self.uuids

    def erase_some(self) -> None:
        slots = Context(self.store, CLAUDE).view.slots
        for at in {self.random.randrange(len(slots)) for _ in range(self.random.randint(0, 2))}:
            words = words_of(slots[at].message)
            erase(self.store, CLAUDE, [slots[at].seq])
            # A line that somebody moved may stand in two messages of the page.
            words -= words_of([slot.message for slot in Context(self.store, CLAUDE).view.slots])
            # Lines that lost their ids before the erasure may be in notes.
            assert self.edits is not KEEPING or not words & self.words()
            self.gone |= words - self.words()
            for line in (*self.story.whole, *self.story.lines):
                if words & words_of(line):
                    self.uuids.add(line.get("uuid", ""))

    def check_settles(self) -> None:
        """An unchanged file adds nothing."""
        once, again = self.imported(), self.imported()
        assert once[:2] == (0, 0) and once == again


def tell(seed: int, folder: Path, edits: list[Edit]) -> None:
    told = Told(seed, folder, edits)
    for chapter in range(told.random.randint(2, 4)):
        for edit in told.random.choices(edits, k=told.random.randint(0, 3) if chapter else 0):
            edit(told.story)
        write(told.path, told.story.lines)
        try:
            told.imported()
        except Conflict:
            assert any("uuid" not in line for line in told.story.lines) and told.gone
            assert not told.gone & told.words()
            return
        told.check_file()
        told.check_settles()
        told.erase_some()
        told.check_settles()


every_kind = pytest.mark.parametrize("edits", [KEEPING, KEEPING + LOSING], ids=["keep", "lose"])


@every_kind
def test_whatever_becomes_of_its_lines_a_file_brings_nothing_back(
    edits: list[Edit], tmp_path: Path
) -> None:
    for seed in range(STORIES):
        tell(seed, tmp_path, edits)


@pytest.mark.soak
@every_kind
def test_thousands_of_files_bring_nothing_back(edits: list[Edit], tmp_path: Path) -> None:
    first = SystemRandom().randrange(10**9)
    for seed in range(first, first + STORIES_IN_SOAK):
        tell(seed, tmp_path, edits)
