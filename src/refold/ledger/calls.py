"""Tool calls with their results, in order, and the text of a result.

A result may also come as text in a message, with a header such as `[read_file for 'a'] Result:`.
The second half reads result texts: the outcome of the call, the payload without its envelope, signs
of incomplete output, line numbers, and file text between tags. Headers and tags are matched
literally; a tag that is not closed, or contains another one, is ignored. Only a few hundred
characters at both ends count for an outcome, so that a file's own text is not mistaken for one.
Neighbours: `actions` interprets the calls, `strategies.dedup` compares results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct

from refold.core.model import Message, Text, ToolCall, ToolResult
from refold.core.shortened import text_of
from refold.ledger.arguments import PATH_MAX, is_path

HEAD, TAIL = 400, 240  # characters of a result that are read for an outcome or an envelope
COUNT_LINES = 3  # at the end, where a test runner counts
NOTES_MAX = 40  # lines before or after the numbered ones
TAGS = ("final_file_content", "file_content")
TAGS_MAX = 10_000
HEADER_MAX = 5_000

_HEADER_END = "] Result:"


class Call(Struct):
    """A call, and its result, if there is one."""

    call: ToolCall
    seq: int
    block: int
    result: ToolResult | None = None
    result_seq: int = 0
    result_block: int = 0


class Header(NamedTuple):
    """`[tool for 'subject'] Result:` at the beginning of a text, and the position of its end."""

    tool: str
    subject: str
    end: int


class TextResult(Struct, frozen=True):
    """A result that came as text: its header, and the position of its content."""

    header: Header
    seq: int
    block: int
    content_block: int
    start: int
    output: str


def calls_in(messages: Iterable[tuple[int, Message]]) -> list[Call | TextResult]:
    """Calls with their results, and results that came as text, in order; each message comes with
    its seq."""
    calls: list[Call | TextResult] = []
    unanswered: dict[str, Call] = {}
    for seq, message in messages:
        for index, block in enumerate(message.blocks):
            if isinstance(block, ToolCall):
                unanswered[block.id] = call = Call(block, seq, index)
                calls.append(call)
            elif isinstance(block, ToolResult) and block.call in unanswered:
                call = unanswered.pop(block.call)
                call.result, call.result_seq, call.result_block = block, seq, index
            elif message.role in ("user", "tool") and isinstance(block, Text | ToolResult):
                text = text_of(block)
                if found := header(text):
                    at, start = index, content_start(text)
                    following = message.blocks[index + 1 : index + 2]
                    if not text[start:].strip() and following and isinstance(following[0], Text):
                        at, start, text = index + 1, 0, following[0].text
                    calls.append(TextResult(found, seq, index, at, start, text[start:]))
    return calls


def header(text: str) -> Header | None:
    """The header of a result that came as text, with quotes of either kind."""
    if not text.startswith("["):
        return None
    line = text[:HEADER_MAX].partition("\n")[0]
    tool, mark, rest = line[1:].partition(" for ")
    quote = rest[:1]
    subject, end, _ = rest[1:].partition(quote + _HEADER_END)
    if not tool or " " in tool or not mark or quote not in ("'", '"') or not end:
        return None
    return Header(tool, subject, 1 + len(tool) + len(mark) + 1 + len(subject) + len(end))


def content_start(text: str) -> int:
    """The start of a result's content: the line after its header."""
    end = found.end if (found := header(text)) else 0
    return end + 1 if found and text.startswith("\n", end) else end


# --- outcomes ---

_HEADLINE = re.compile(
    r"(?:process |command )?exit(?:ed)?(?: with)?[ _](?:code|status):? (-?\d{1,5})\.?$",
    re.IGNORECASE,
)
_LAST_LINE = re.compile(
    r"[\[<(]?[^\n]{0,60}?\bexit(?:ed)?(?: with)?[ _](?:code|status)[:=]? ?(-?\d{1,5})[.\])>]{0,3}$",
    re.IGNORECASE,
)
_TAGGED = re.compile(
    r"<(?:returncode|exit_code|exitcode)>\s{0,4}(-?\d{1,5})\s{0,4}</", re.IGNORECASE
)
_IN_JSON = re.compile(r'"(?:exit_code|exitCode|returncode)" ?: ?(-?\d{1,5})\b')
_COUNTED = re.compile(
    r"(?:^|[\s,;:=])[1-9]\d{0,6} (?:failed|failing|failures?)\b(?!:)", re.IGNORECASE
)
_FAILED_STARTS = (
    "<tool_use_error>", "<error>", "error:", "error ", "error\n", "failed to ", "failed:",
    "the tool execution failed", "traceback (most recent call last)", "file does not exist",
    "file not found", "no such file", "path does not exist", "string to replace not found",
    "could not find the exact", "could not find ", "no changes made", "invalid ",
    "permission denied", "the user doesn't want to proceed", "the user denied", "user rejected",
    "command aborted", "inputvalidationerror", "cannot ", "unable to ", "access denied",
    "[no result recorded]", "[erased]", "enoent", "your proposed edit has introduced",
    "no replacement was performed", "apply_patch verification failed", "patch failed", '{"error"',
    '{"message": "path does no', '{"success": false', '{"success":false', '{"status":"error"',
)  # fmt: skip


def exit_status(text: str) -> int | None:
    """The exit status that a result states in a line of its own near its beginning or its end."""
    in_json = None
    if text.startswith("{"):
        in_json = _IN_JSON.search(text[:HEAD]) or _IN_JSON.search(text[-TAIL:])
    match = (
        _TAGGED.match(text.lstrip()[:60])
        or _last_match(_HEADLINE, text[:HEAD].split("\n")[:6])
        or in_json
        or _last_match(_LAST_LINE, text[-TAIL:].rstrip().split("\n")[-4:])
    )
    return int(match[1]) if match else None


def _last_match(form: re.Pattern[str], lines: list[str]) -> re.Match[str] | None:
    """The match in the last of these lines that has the form."""
    matches = (form.match(line.strip()) for line in reversed(lines))
    return next(filter(None, matches), None)


def failed(text: str) -> bool:
    """Whether a result begins like a failure."""
    start = text[:HEAD].lstrip(" \n\r\t[").lower()
    return start.startswith(_FAILED_STARTS)


def tests_failed(text: str) -> bool:
    """Whether a test runner's own count, in the last lines, has failures: a pipe hides the exit
    status, but not the count."""
    lines = text[-TAIL:].rstrip().split("\n")
    return any(_COUNTED.search(line) for line in lines[-COUNT_LINES:])


# --- content ---

_ENVELOPES = (("Output:\n", ""), ("<output>\n", "</output>"), ("<output>", "</output>"))
_CUT = (
    "output of your last command was too long", "tokens truncated", "chars truncated",
    "characters truncated", "lines truncated", "[truncated", "(truncated", "<truncated",
    "...truncated", "… truncated", "output truncated", "response clipped", "characters elided",
    "lines omitted", "content truncated", "file is truncated", "has been truncated",
    "elided_chars", "was truncated",
)  # fmt: skip
_CUT_HINTS = ("runcat", "too long", "clipped", "elided", "omitted")
_NUMBERED = re.compile(r"\s{0,12}(\d{1,7})(?:→|\t|: |:(?!\d)|\. |\.$| ?\|)")


def payload(text: str) -> str:
    """The output itself, without `Key: value` lines up to `Output:` or the tags around it."""
    for opening, closing in _ENVELOPES:
        at = text.find(opening, 0, HEAD)
        # A tag may be anywhere, `Output:` only at the start of a line.
        if at == 0 or (at > 0 and (text[at - 1] == "\n" or opening.startswith("<"))):
            end = text.rfind(closing) if closing else -1
            return text[at + len(opening) : end if end > at else len(text)]
    return text


def is_cut(text: str) -> bool:
    """Whether the agent shortened the result before it was appended."""
    if not any(hint in text for hint in _CUT_HINTS):
        return False
    lowered = text.lower()
    return any(sign in lowered for sign in _CUT)


def shown_lines(text: str) -> tuple[int, int] | None:
    """The first and last line number of numbered text; None if it is not numbered."""
    match = _NUMBERED.match(text)
    if match is None:
        return None
    first, end, lines = int(match[1]), len(text), text.count("\n")
    for _ in range(NOTES_MAX):  # notes may follow the last numbered line
        start = text.rfind("\n", 0, end) + 1
        match = _NUMBERED.match(text, start)
        if match and int(match[1]) >= first:
            last = int(match[1])
            return (first, last) if lines - NOTES_MAX <= last - first <= lines else None
        if start == 0:
            break
        end = start - 1
    return None


# --- file text between tags ---


class Excerpt(NamedTuple):
    """The text of one file between its tags: characters `start` to `end` (exclusive) of the
    block's text."""

    path: str
    start: int
    end: int


def excerpts(text: str) -> list[Excerpt]:
    """The text of every file between tags, in order. Nested tags are skipped: it is unclear which
    of them is the file."""
    if "file_content path=" not in text:
        return []
    tagged = [excerpt for tag in TAGS for excerpt in _tagged(text, tag)]
    apart: list[Excerpt] = []
    reach, is_nested = -1, False
    for excerpt in sorted(tagged, key=attrgetter("start")):
        if excerpt.start < reach:
            is_nested = True
        elif is_nested:
            apart.pop()
            is_nested = False
        if not is_nested:
            apart.append(excerpt)
        reach = max(reach, excerpt.end)
    return apart[:-1] if is_nested else apart


def _tagged(text: str, tag: str) -> list[Excerpt]:
    """The pairs of tags of one name, paired like brackets; an unclosed tag pairs with nothing."""
    unclosed: list[tuple[str, int]] = []
    pairs: list[Excerpt] = []
    opening, closing = f"<{tag} path=", f"</{tag}>"
    at, close = text.find(opening), text.find(closing)
    for _ in range(TAGS_MAX):
        if close < 0:
            break
        if 0 <= at < close:
            path, start = _opening_tag(text, at + len(opening))
            if start:
                unclosed.append((path, start))
            at = text.find(opening, at + len(opening))
        else:
            if unclosed:
                path, start = unclosed.pop()
                pairs.append(Excerpt(path, start, close))
            close = text.find(closing, close + len(closing))
    return pairs


def _opening_tag(text: str, at: int) -> tuple[str, int]:
    """The path of an opening tag, in quotes of either kind, and the start of its content; 0 if
    this is not a tag."""
    quote = text[at : at + 1]
    if quote not in ("'", '"'):
        return "", 0
    path, mark, _ = text[at + 1 : at + PATH_MAX + 3].partition(f"{quote}>")
    if not mark or not is_path(path):
        return "", 0
    return path, at + 1 + len(path) + len(mark)
