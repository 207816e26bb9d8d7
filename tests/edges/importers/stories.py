"""Claude Code files that somebody, or an accident, did something to: stories from a seed.

Every block has words of its own, so that a word says from which line it came. Edits keep the ids
and times of lines (`KEEPING`), or lose words, ids or times (`LOSING`). Neighbours: `transcripts` has
the shapes of lines, `test_erased_stories` tells what must hold.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from random import Random

from tests.edges.importers.transcripts import Line, block, call, result, text, user

BEGAN_MS = 1_780_000_000_000
MINUTE_MS = 60_000


class Story:
    """A session's file. `whole` is what was ever written to it, `lines` is what it has now."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0
        self.step_ms = random.choice([MINUTE_MS, 1, 0])
        self.sizes = random.choice([(1,), (1, 2)])
        self.whole = [self._timed(user("u0", None, self.words()))]
        self.lines = list(self.whole)
        for _ in range(random.randint(2, 5)):
            grow(self)

    def number(self) -> int:
        self.count += 1
        return self.count

    def words(self) -> str:
        return " ".join([f"word-{self.number()}"] * self.random.choice(self.sizes))

    def _timed(self, line: Line) -> Line:
        return {**line, "timestamp": BEGAN_MS + self.number() * self.step_ms}

    def add(self, line: Line) -> Line:
        """The program writes a line at the end of its file."""
        line = self._timed(line)
        self.whole.append(line)
        self.lines.append(line)
        return line

    def place(self) -> int:
        return self.random.randrange(len(self.lines))

    def parent(self) -> str | None:
        uuids = [line["uuid"] for line in self.lines if "uuid" in line]
        return uuids[-1] if uuids else None


# --- what the program writes ---


def said(story: Story) -> Line:
    """A block of a response."""
    kind = story.random.choice(["text", "text", "call", "thinking"])
    if kind == "text":
        return text(story.words())
    if kind == "thinking":
        return {"type": "thinking", "thinking": story.words(), "signature": "s"}
    made = call(f"t{story.number()}")
    made["input"]["command"] = story.words()
    return made


def respond(story: Story, response: str) -> None:
    """Lines of one response, with the results of its calls in between, or after them."""
    random, waiting = story.random, list[str]()
    for _ in range(random.randint(1, 4)):
        blocks = [said(story) for _ in range(random.choice([1, 1, 1, 2]))]
        line = block(f"a{story.number()}", str(story.parent()), response, blocks[0])
        line["message"]["content"] = blocks
        story.add(line)
        waiting += [one["id"] for one in blocks if one["type"] == "tool_use"]
        while waiting and random.random() < 0.5:
            answer(story, waiting.pop(0))
    while waiting and random.random() < 0.9:
        answer(story, waiting.pop(0))


def answer(story: Story, id: str) -> None:
    story.add(user(f"r{story.number()}", story.parent(), result(id, story.words())))


def grow(story: Story) -> None:
    if story.random.random() < 0.5:
        story.add(user(f"u{story.number()}", story.parent(), story.words()))
    respond(story, f"msg_{story.number()}")


def go_on(story: Story) -> None:
    """The last response has more lines."""
    responses = [one["message"].get("id") for one in story.lines if one["type"] == "assistant"]
    respond(story, responses[-1] if responses and responses[-1] else f"msg_{story.number()}")


def rewind(story: Story) -> None:
    line = story.lines[story.place()]
    story.add(user(f"u{story.number()}", line.get("uuid"), story.words()))
    if story.random.random() < 0.5:
        respond(story, f"msg_{story.number()}")


def branch_back(story: Story) -> None:
    """A branch that was left goes on."""
    line = story.random.choice(story.whole)
    story.add(user(f"u{story.number()}", line.get("uuid"), story.words()))


# --- what happens to a file ---


def mend(story: Story) -> None:
    story.lines = list(story.whole)


def delete(story: Story) -> None:
    if len(story.lines) > 1:
        del story.lines[story.place()]


def gap(story: Story) -> None:
    first = story.place()
    story.lines = story.lines[:first] + story.lines[first + story.random.randint(1, 4) :]
    if not story.lines:
        mend(story)


def cut(story: Story) -> None:
    del story.lines[story.place() + 1 :]


def repeat(story: Story) -> None:
    story.lines.insert(story.place(), story.lines[story.place()])


def move(story: Story) -> None:
    line = story.lines.pop(story.place())
    story.lines.insert(story.random.randint(0, len(story.lines)), line)


# --- what takes ids, times and order with it ---


def changed(story: Story) -> Line:
    """A copy of a line, in its place, that may be changed; once, so that something is left."""
    at = story.place()
    line = deepcopy(story.lines[at])
    if not line.get("changed"):
        line["changed"] = True
        story.lines[at] = line
    return line


def rewrite(story: Story) -> None:
    """Other words under the same uuid."""
    line = changed(story)
    if isinstance(line["message"]["content"], str):
        line["message"]["content"] = story.words()


def lose_uuid(story: Story) -> None:
    changed(story).pop("uuid", None)


def lose_response(story: Story) -> None:
    changed(story)["message"].pop("id", None)


def lose_time(story: Story) -> None:
    changed(story).pop("timestamp", None)


Edit = Callable[[Story], None]
KEEPING: list[Edit] = [
    grow, go_on, rewind, branch_back, mend, delete, delete, gap, cut, repeat, repeat, move,
]  # fmt: skip
LOSING: list[Edit] = [rewrite, lose_uuid, lose_response, lose_time]
