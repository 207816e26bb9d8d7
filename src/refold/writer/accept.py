"""What a writer gave back is held to rules before it may be on a page, and completed by code where
it is silent.

It must have ended of its own accord, say something besides reasoning, be clearly shorter than what
it replaces, and be neither a refusal, a tool call, nor a copy of what it was given: copies are
found by runs of words, however lines are broken. Files that were changed, open to-dos and the last
request are added if nothing names them. Neighbours: `asker`, `strategies.prose` (how it looks on
the page).

A part of the page as quoted data for a writer: plain text between marks that it cannot contain.

Tool calls and results become text, long ones lose their middle, media become placeholders, thinking
is left out, a call without a result gets one that says so. Secrets go before anything is cut, or
half of one could stay. An earlier summary is on the page like any message, so it is part of what is
quoted, the lines of a gist included. What code counts (which tool was used how often) goes in as
data as well. Neighbour: `asker` puts the question after it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from refold.core.call_arguments import arguments_text
from refold.core.laws import settled
from refold.core.model import Block, Fact, Media, Slot, Thinking, ToolCall, ToolResult
from refold.core.shortened import text_of
from refold.display import cut, one_line
from refold.ledger.ledger import tools_used
from refold.strategies.summarize import SHARE_MAX

__all__ = ["Rejected", "additions", "check", "words_of"]

RUN_WORDS = 8  # in the same order: fewer are alike by chance, or are a name, a path, a command
COPY_WORDS_MIN = 40  # one or two telling lines may be the whole of a short summary
# Of its words: more than this taken word for word is not a summary; what still holds may be said
# again.
COPY_SHARE = 0.8
LOOP_COUNT = 4  # times the same sentence, and more than half of all
LOOP_CHARS_MIN = 40  # shorter ones are alike by chance
REQUEST_SHOWN = 300
REFUSAL_CHARS = 400
FILES_NAMED, TODOS_NAMED = 50, 20
TODO_SHOWN = 120
CHANGED = ("created", "modified", "deleted")

_THOUGHT = re.compile(r"(?is)<(think|thinking|reasoning)>.*?(?:</\1>|\Z)")
_TOOL_CALL = re.compile(r"(?i)<(?:tool_call|function_calls?|invoke|tool_use)\b")
_REFUSAL = re.compile(
    r"(?i)^\W{0,3}(?:i['’]?m sorry|sorry|i cannot|i can['’]?t|i am unable|i['’]m unable|as an ai)\b"
)
# A path is one word; where words are not set apart by spaces (Chinese, Japanese), every character
# is one.
_CHARACTER = r"\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_CHARACTER}]|[^\W{_CHARACTER}](?:[^\s{_CHARACTER}]*[^\W{_CHARACTER}])?")
_END = re.compile(r"\n|(?<=[.!?;])\s")

Run = tuple[str, ...]


class Rejected(Exception):
    """The answer may not be on a page; the text says why."""


def words_of(text: str, finished: str, reasoning: str = "") -> str:
    """The words of an answer without its reasoning. Rejected if it was cut off or says nothing."""
    _check_end(finished)
    words = _THOUGHT.sub("", text).strip()
    if not words:
        has_thought = reasoning or text.strip()
        raise Rejected("the answer has reasoning only" if has_thought else "the answer is empty")
    if _TOOL_CALL.search(words):
        raise Rejected("the answer is a tool call")
    if len(words) < REFUSAL_CHARS and _REFUSAL.match(words):
        raise Rejected("the writer refused")
    return words


def _check_end(finished: str) -> None:
    if finished == "length":
        raise Rejected("the answer was cut off at the output limit")
    if finished != "stop":
        raise Rejected(f"the answer ended by {finished!r}")


def check(words: str, *, tokens: int, covered: int, sources: Sequence[str]) -> None:
    """Rejects what is too long for what it replaces, a copy of its sources, or the same over and
    over."""
    if tokens > SHARE_MAX * covered:
        too_long = f"{tokens:,} tokens are more than 70 % of the {covered:,} they would replace"
        raise Rejected(too_long)
    if _is_copy(_words(words), sources):
        raise Rejected("the answer repeats what it was given word for word")
    if _is_loop(words):
        raise Rejected("the answer repeats itself")


def _is_copy(own: Sequence[str], sources: Sequence[str]) -> bool:
    """Whether most of the words are taken from the sources, in runs."""
    copied = copied_words(own, sources)
    return copied >= COPY_WORDS_MIN and copied > COPY_SHARE * len(own)


def _is_loop(words: str) -> bool:
    """Whether more than half of the long sentences are the same one."""
    sentences = map(one_line, _END.split(words))
    long = [sentence for sentence in sentences if len(sentence) >= LOOP_CHARS_MIN]
    most = max(Counter(long).values(), default=0)
    return most >= LOOP_COUNT and most > len(long) / 2


def copied_words(own: Sequence[str], sources: Sequence[str]) -> int:
    """How many of these words are part of a run that the sources have as well."""
    # Only the answer's runs are held in memory; the sources, which may be large, pass by them once.
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
    """Every run of words, wherever lines are broken."""
    return zip(*(islice(words, at, None) for at in range(RUN_WORDS)), strict=False)


def additions(text: str, facts: Sequence[Fact]) -> list[str]:
    """Lines for what the whole text must name and does not: changed files, open to-dos, and the
    last request."""
    shown = one_line(text)
    lines = _listed("Files changed: ", _unnamed_files(text, facts), FILES_NAMED)
    lines += _listed("Open to-dos: ", _unnamed_todos(shown, facts), TODOS_NAMED, between="; ")
    last = _last_request(facts)
    if last[:60] not in shown:
        more = "…" if len(last) > REQUEST_SHOWN else ""
        lines.append(f"Last request in this part: {last[:REQUEST_SHOWN]}{more}")
    return lines


def _unnamed_files(text: str, facts: Sequence[Fact]) -> list[str]:
    """The files that were changed, with what happened to them."""
    files = [fact for fact in facts if fact.kind == "file" and fact.state in CHANGED]
    return [f"{fact.text} ({fact.state})" for fact in files if fact.text not in text]


def _unnamed_todos(shown: str, facts: Sequence[Fact]) -> list[str]:
    """The to-dos that are open, each on one line."""
    todos = [fact for fact in facts if fact.kind == "todo" and fact.state == "open"]
    lines = [one_line(fact.text)[:TODO_SHOWN] for fact in todos]
    return [line for line in lines if line not in shown]


def _last_request(facts: Sequence[Fact]) -> str:
    """The newest request, on one line; nothing if there is none."""
    requests = [fact for fact in facts if fact.kind == "request"]
    if not requests:
        return ""
    # Of two at one place, the one that was noted last.
    newest = max(reversed(requests), key=lambda fact: fact.seq)
    return one_line(newest.text)


def _listed(heading: str, items: Sequence[str], most: int, between: str = ", ") -> list[str]:
    """One line that names the items, and one that counts those that are too many."""
    if not items:
        return []
    lines = [heading + between.join(items[:most])]
    if len(items) > most:
        lines.append(f"({len(items) - most} more)")
    return lines


RESULT_CHARS_MAX = 2_000
TEXT_CHARS_MAX = 12_000
USE_CHARS = 120
TOOLS_SHOWN = 30

_DATA_URL = re.compile(r"data:[\w/+.-]{1,100};base64,[A-Za-z0-9+/=_-]{1,10000000}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{400,}={0,2}")

Redact = Callable[[str], str]


def quoted(slots: Sequence[Slot], redact: Redact) -> list[str]:
    """Each message as a text of its own, in lawful order, under its #seq."""
    ordered, _ = settled(slots, opens=False)
    names = _tool_names(ordered)
    texts = [_slot_text(slot, names, redact) for slot in ordered]
    uses = tool_uses(slots, redact)
    if uses:
        texts.append("\n".join(["Tools used, counted by code:", *uses]))
    return texts


def _tool_names(slots: Iterable[Slot]) -> dict[str, str]:
    """The names of the tools that were called, by the id of the call."""
    blocks = [block for slot in slots for block in slot.message.blocks]
    return {block.id: block.name for block in blocks if isinstance(block, ToolCall)}


def tool_uses(slots: Sequence[Slot], redact: Redact) -> list[str]:
    """A line per tool: how often it was called, and its notable uses."""
    lines: list[str] = []
    for name, used in islice(tools_used(slots).items(), TOOLS_SHOWN):
        uses = "; ".join(use_lines(used.notable, redact))
        lines.append(f"- {name} ×{used.count}" + (f": {uses}" if uses else ""))
    return lines


def use_lines(uses: Sequence[str], redact: Redact) -> list[str]:
    """Uses of a tool, each as one short line, none twice."""
    lines = [one_line(without_base64(redact(use))) for use in uses]
    return list(dict.fromkeys(cut(line, USE_CHARS) for line in lines))


def shortened(text: str, size: int) -> str:
    """A text that is too long without its middle."""
    if len(text) <= size:
        return text
    note = f"\n… [{len(text) - size:,}+ characters left out] …\n"
    room = max(2, size - len(note))
    end = room // 2
    return text[: room - end] + note + text[len(text) - end :]


def without_base64(text: str) -> str:
    """The text with encoded bytes replaced by a placeholder: they tell a writer nothing and cost
    much."""
    text = _DATA_URL.sub("[encoded data left out]", text)
    return _BASE64.sub(_placeholder, text)


def _placeholder(match: re.Match[str]) -> str:
    run = match[0]
    is_encoded = all(any(map(test, run)) for test in (str.isdigit, str.isupper, str.islower))
    return f"[{len(run):,} characters of encoded data left out]" if is_encoded else run


def _label(slot: Slot) -> str:
    if slot.standin:
        return f"{slot.seq} earlier summary of {slot.span}"
    return f"{slot.seq} {slot.message.role}"


def _slot_text(slot: Slot, names: dict[str, str], redact: Redact) -> str:
    blocks = [block for block in slot.message.blocks if not isinstance(block, Thinking)]
    texts = filter(None, (_block_text(block, names, redact) for block in blocks))
    shown = "\n".join(texts) or "[nothing that can be shown as text]"
    return f"#{_label(slot)}:\n{shown}"


def _block_text(block: Block, names: dict[str, str], redact: Redact) -> str:
    match block:
        case ToolCall():
            arguments = _clean_text(arguments_text(block), RESULT_CHARS_MAX, redact)
            return f"[tool call {block.name}]\n{arguments}"
        case ToolResult():
            name = block.name or names.get(block.call, "") or "a tool"
            return _result_text(block, name, redact)
        case Media():
            return _media_text(block)
        case _:
            return _clean_text(text_of(block), TEXT_CHARS_MAX, redact)


def _result_text(block: ToolResult, name: str, redact: Redact) -> str:
    """A result under the name of its tool, with a placeholder for each of its media."""
    state = " (error)" if block.is_error else ""
    text = _clean_text(text_of(block), RESULT_CHARS_MAX, redact)
    media = "".join(_media_text(part) for part in block.content if isinstance(part, Media))
    return f"[result of {name}{state}]\n{text}{media}"


def _clean_text(text: str, size: int, redact: Redact) -> str:
    return shortened(without_base64(redact(text)), size)


def _media_text(block: Media) -> str:
    about = " ".join(filter(None, (block.media, block.mime, block.name)))
    return f"[{about}: not shown]"
