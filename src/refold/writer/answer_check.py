"""The rules for a writer's answer.

It must be complete, contain more than reasoning, and be clearly shorter than the messages it
replaces; it must not be a refusal, a tool call or a copy (detected by runs of words). Changed
files, open to-dos and the last request are added if the answer does not mention them. Neighbours:
`quoted_history` is what the writer reads, `asker` asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from refold.core.model import Fact
from refold.display import one_line
from refold.patterns import regex

RUN_WORDS = 8  # shorter runs match by chance, or are a name, a path or a command
COPY_WORDS_MIN = 40  # a short summary may consist of one or two salient lines
COPY_SHARE = 0.8  # of an answer's words; with more in copied runs it is a copy
LOOP_COUNT = 4  # repetitions of one sentence, if they are more than half of all sentences
LOOP_CHARS_MIN = 40  # shorter sentences match by chance
REQUEST_SHOWN = 300
REFUSAL_CHARS = 400
FILES_NAMED, TODOS_NAMED = 50, 20
TODO_SHOWN = 120
CHANGED = ("created", "modified", "deleted")

_THOUGHT = regex(r"(?is)<(think|thinking|reasoning)>.*?(?:</\1>|\Z)")
_TOOL_CALL = regex(r"(?i)<(?:tool_call|function_calls?|invoke|tool_use)\b")
_REFUSAL = regex(
    r"(?i)^\W{0,3}(?:i['’]?m sorry|sorry|i cannot|i can['’]?t|i am unable|i['’]m unable|as an ai)\b"
)
# A path is one word; in scripts without spaces (Chinese, Japanese), every character is one.
_CHARACTER = r"\u3040-\u30ff\u3400-\u9fff"
_WORD = regex(rf"[{_CHARACTER}]|[^\W{_CHARACTER}](?:[^\s{_CHARACTER}]*[^\W{_CHARACTER}])?")
_END = regex(r"\n|(?<=[.!?;])\s")

Run = tuple[str, ...]


class Rejected(Exception):
    """The answer is unacceptable; the message gives the reason."""


def words_of(text: str, finished: str, reasoning: str = "") -> str:
    """The text of an answer without reasoning. Raises Rejected if it is unusable."""
    if finished == "length":
        raise Rejected("the answer was cut off at the output limit")
    if finished != "stop":
        raise Rejected(f"the answer ended by {finished!r}")
    words = _THOUGHT.sub("", text).strip()
    if not words:
        has_thought = reasoning or text.strip()
        raise Rejected("the answer has reasoning only" if has_thought else "the answer is empty")
    if _TOOL_CALL.search(words):
        raise Rejected("the answer is a tool call")
    if len(words) < REFUSAL_CHARS and _REFUSAL.match(words):
        raise Rejected("the writer refused")
    return words


def check(words: str, *, tokens: int, covered: int, sources: Sequence[str]) -> None:
    """Raises Rejected for an answer that is too long for the messages it replaces, a copy of its
    sources, or mostly one sentence."""
    from refold.strategies.summarize import SHARE_MAX

    if tokens > SHARE_MAX * covered:
        too_long = f"{tokens:,} tokens are more than 70 % of the {covered:,} they would replace"
        raise Rejected(too_long)
    own = _words(words)
    copied = copied_words(own, sources)
    if copied >= COPY_WORDS_MIN and copied > COPY_SHARE * len(own):
        raise Rejected("the answer repeats its input word for word")
    sentences = map(one_line, _END.split(words))
    long = [sentence for sentence in sentences if len(sentence) >= LOOP_CHARS_MIN]
    most = max(Counter(long).values(), default=0)
    if most >= LOOP_COUNT and most > len(long) / 2:
        raise Rejected("the answer repeats itself")


def copied_words(own: Sequence[str], sources: Sequence[str]) -> int:
    """The number of these words in runs that also occur in the sources."""
    # The sources may be large, so only the answer's runs are kept in memory.
    given = _runs([word for source in sources for word in _words(source)])
    copied = set(_runs(own)).intersection(given)
    inside = until = 0
    for at, run in enumerate(_runs(own)):
        if run in copied:
            inside += at + RUN_WORDS - max(at, until)
            until = at + RUN_WORDS
    return inside


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _runs(words: Sequence[str]) -> Iterator[Run]:
    """Every run of `RUN_WORDS` words, across line breaks."""
    return zip(*(islice(words, at, None) for at in range(RUN_WORDS)), strict=False)


def additions(text: str, facts: Sequence[Fact]) -> list[str]:
    """Lines for required facts that the text does not mention: changed files, open to-dos and the
    last request."""
    shown = one_line(text)
    files = [fact for fact in facts if fact.kind == "file" and fact.state in CHANGED]
    changed = [f"{fact.text} ({fact.state})" for fact in files if fact.text not in text]
    lines = _listed("Files changed: ", changed, FILES_NAMED)
    todos = [fact for fact in facts if fact.kind == "todo" and fact.state == "open"]
    todo_lines = [one_line(fact.text)[:TODO_SHOWN] for fact in todos]
    missing = [line for line in todo_lines if line not in shown]
    lines += _listed("Open to-dos: ", missing, TODOS_NAMED, between="; ")
    requests = [fact for fact in facts if fact.kind == "request"]
    if requests:
        # Of two with the same seq, the later one.
        last = one_line(max(reversed(requests), key=lambda fact: fact.seq).text)
        if last[:60] not in shown:
            more = "…" if len(last) > REQUEST_SHOWN else ""
            lines.append(f"Last request in this part: {last[:REQUEST_SHOWN]}{more}")
    return lines


def _listed(heading: str, items: Sequence[str], most: int, between: str = ", ") -> list[str]:
    """A line that lists the items, and a line with the number of items left out."""
    if not items:
        return []
    lines = [heading + between.join(items[:most])]
    if len(items) > most:
        lines.append(f"({len(items) - most} more)")
    return lines
