"""What a model found worth saying: at each real compaction in a session, the agent's own model wrote
a summary. Which of its sentences does a page of the same size still tell?

A sentence counts if it has a source in what was replaced: up to three neighbouring lines that hold
most of its words, weighed by their rarity. It is told if a passage of the page holds at least 0.8 of
the weight that its best source holds. Lines are broken at 300 characters, so that nobody gains by
joining them. A statement belongs to who said its source: the user, the agent in prose, or a tool.

    python -m bench statements [--data FOLDER] [--step N] [--from N]
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from math import log
from pathlib import Path
from typing import NamedTuple

from bench.agents import WAYS, Case, Shrink, cases_of
from bench.sessions import Message, argument_text, tokens_of
from bench.tables import Table

GOALS = {"all": 0.65, "agent": 0.65, "user": 0.85}
WIDTH, SOURCE_SHARE, TOLD_SHARE = 3, 0.6, 0.8
SENTENCE_WORDS, STATEMENTS_MIN, WORDS_KNOWN_MIN = 6, 5, 4
LINE_CHARS, LINE_CHARS_READ, ARGUMENT_LINES = 300, 6_000, 400
COMMON_LINES, NEAR = 3_000, 25  # a word in more lines finds no passage; passages looked at

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+(?:\.\d+)?")
_PART = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}|\d+")
_LEAD = re.compile(r"^[\s\-*#>\d.)]+")
_STOP = frozenset(
    _WORD.findall(
        "a about above after again against all also am an and any are as at be because been before "
        "being below between both but by can could did do does doing done down during each few file "
        "files first for from further had has have having he her here hers him his how i if in into is "
        "it its itself just let like line lines made make may me might more most must my need no nor "
        "not now of off on once only or other our out over own per put s same see she should so some "
        "still such t than that the their them then there these they this those through to too under "
        "until up us use used using user very was we were what when where which while who will with "
        "would you your"
    )
)


class Statement(NamedTuple):
    """The words of a sentence, the share of their weight in its best source, and who said it."""

    words: set[str]
    share: float
    speaker: str


class Passages:
    """Neighbouring lines of messages, looked up by their words."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self.lines = [(speaker, words_of(line)) for speaker, line in lines_of(messages)]
        self.places: dict[str, list[int]] = defaultdict(list)
        for at, (_, words) in enumerate(self.lines):
            for word in words:
                self.places[word].append(at)

    def weights(self) -> dict[str, float]:
        count = max(1, len(self.lines))
        return {word: log(1 + count / len(at)) for word, at in self.places.items()}

    def best(self, words: set[str], weights: dict[str, float]) -> tuple[float, str]:
        """The share of the weight of these words in the best passage, and who said it."""
        known = {word: weights[word] for word in words if word in weights}
        total = sum(known.values())
        if len(known) < WORDS_KNOWN_MIN or total == 0:
            return 0.0, ""
        near: Counter[int] = Counter()
        for word, weight in known.items():
            places = self.places.get(word, ())
            for at in places if len(places) <= COMMON_LINES else ():
                near[at] += weight
        best, speaker = 0.0, ""
        for at, _ in near.most_common(NEAR):
            for first in range(max(0, at - WIDTH + 1), at + 1):
                held: set[str] = set()
                for said_by, found in self.lines[first : first + WIDTH]:
                    if not said_by:
                        break
                    held |= found
                share = sum(weight for word, weight in known.items() if word in held) / total
                if share > best:
                    best, speaker = share, self.lines[at][0]
        return best, speaker


def words_of(text: str) -> set[str]:
    """The weighty words of a text and of its identifiers, in lower case and the singular."""
    pieces = [part for word in _WORD.findall(text) for part in (word, *_PART.findall(word))]
    lowered = {piece.lower() for piece in pieces if len(piece) > 1} - _STOP
    return {word[:-1] if len(word) > 4 and word.endswith("s") else word for word in lowered}


def lines_of(messages: Iterable[Message]) -> Iterator[tuple[str, str]]:
    """Who said it, and the line; arguments of calls count as a tool's. An empty line ends each
    message."""
    for message in messages:
        speaker = {"user": "user", "tool": "tool"}.get(message["role"], "agent")
        for line in (message.get("content") or "").splitlines():
            yield from ((speaker, piece) for piece in pieces_of(line))
        for call in message.get("tool_calls") or ():
            made = call.get("function") or call
            arguments = argument_text(made.get("arguments")).splitlines()
            for line in arguments[:ARGUMENT_LINES]:
                yield from (("tool", piece) for piece in pieces_of(line))
        yield "", ""


def pieces_of(line: str) -> Iterator[str]:
    """A line in pieces of at most 300 characters, broken at blanks."""
    line = line[:LINE_CHARS_READ]
    while len(line) > LINE_CHARS:
        blank = line.rfind(" ", 0, LINE_CHARS)
        end = blank if blank > LINE_CHARS // 2 else LINE_CHARS
        yield line[:end]
        line = line[end:]
    if line.strip():
        yield line


def statements_of(case: Case) -> tuple[list[Statement], dict[str, float]]:
    """The sentences of a summary that have a source, and the weights of words."""
    source = Passages(one for one in case.replaced if one["role"] != "system")
    weights = source.weights()
    found: list[Statement] = []
    for line in (case.summary.get("content") or "").splitlines():
        for sentence in re.split(r"(?<=[.!?;:])\s+", _LEAD.sub("", line)):
            words = words_of(sentence)
            if len(words) >= SENTENCE_WORDS:
                share, speaker = source.best(words, weights)
                if share >= SOURCE_SHARE and speaker:
                    found.append(Statement(words, share, speaker))
    return found, weights


def prose(messages: list[Message], budget: int) -> list[Message]:
    """The words of users and agents, newest first, without any tool output."""
    kept: list[Message] = []
    for message in reversed(messages):
        if message["role"] in ("user", "assistant") and message.get("content"):
            spoken = {**message, "tool_calls": None}
            budget -= tokens_of(spoken)
            if budget < 0:
                break
            kept.insert(0, spoken)
    return kept


SHRINKS: dict[str, Shrink] = {"prose, newest first": prose, **WAYS}


def run(paths: list[Path], shrinks: dict[str, Shrink] = SHRINKS) -> list[Table]:
    told: dict[tuple[str, str], list[bool]] = defaultdict(list)
    cases = 0
    for case in (case for path in paths for case in cases_of(path)):
        wanted, weights = statements_of(case)
        if len(wanted) < STATEMENTS_MIN:
            continue
        cases += 1
        for name, shrink in shrinks.items():
            page = shrink(case.replaced, tokens_of(case.summary))
            passages = Passages(one for one in page if one["role"] != "system")
            for words, share, speaker in wanted:
                is_told = passages.best(words, weights)[0] >= TOLD_SHARE * share
                told[name, speaker].append(is_told)
                told[name, "all"].append(is_told)
    speakers = ("all", "agent", "user", "tool")
    table = Table("Statements of the agents' own summaries, equal tokens", ["page", *speakers])
    for name in shrinks:
        hits = [told[name, speaker] for speaker in speakers]
        table.add(name, *(sum(one) / max(1, len(one)) for one in hits))
    counts = ", ".join(f"{len(told['refold', who]):,} {who}" for who in speakers)
    table.note(f"{cases} compactions; statements: {counts}.")
    goals = ", ".join(f"{goal:.2f} {who}" for who, goal in GOALS.items())
    table.note(f"Goals for refold: {goals}.")
    return [table]
