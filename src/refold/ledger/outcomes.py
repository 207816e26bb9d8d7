"""How a tool call ended, read from its result: the exit status where it is stated, or the signs of
a failure.

Only the first and last few hundred characters are looked at, so that a file's own text is not taken
for an outcome. Also here: the `payload` of a result (its text without the envelope some agents put
around it), whether it was cut, and which lines of a file it shows where they are numbered.
"""

from __future__ import annotations

import re

HEAD, TAIL = 400, 240
COUNT_LINES = 3  # at the end, where a test runner counts
NOTES_MAX = 40  # lines that may stand before or behind the numbered ones

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
    "<tool_use_error>", "<error>", "error:", "error ", "error\n", "failed to ", "failed:", "the tool execution failed",
    "traceback (most recent call last)", "file does not exist", "file not found", "no such file", "path does not exist",
    "string to replace not found", "could not find the exact", "could not find ", "no changes made", "invalid ",
    "permission denied", "the user doesn't want to proceed", "the user denied", "user rejected", "command aborted",
    "inputvalidationerror", "cannot ", "unable to ", "access denied", "[no result recorded]", "[erased]", "enoent",
    "your proposed edit has introduced", "no replacement was performed", "apply_patch verification failed",
    "patch failed",
)  # fmt: skip
_FAILED_JSON = (
    '{"error"',
    '{"message": "path does no',
    '{"success": false',
    '{"success":false',
    '{"status":"error"',
)
_CUT = (
    "output of your last command was too long", "tokens truncated", "chars truncated", "characters truncated",
    "lines truncated", "[truncated", "(truncated", "<truncated", "...truncated", "… truncated", "output truncated",
    "response clipped", "characters elided", "lines omitted", "content truncated", "file is truncated",
    "has been truncated", "elided_chars", "was truncated",
)  # fmt: skip
_CUT_HINTS = ("runcat", "too long", "clipped", "elided", "omitted")
_NUMBERED = re.compile(r"\s{0,12}(\d{1,7})(?:→|\t|: |:(?!\d)|\. |\.$| ?\|)")


def exit_status(text: str) -> int | None:
    """The exit status that a result states in a line of its own near its beginning or its end."""
    match = _TAGGED.match(text.lstrip()[:60]) or _stated(_HEADLINE, text[:HEAD].split("\n")[:6])
    if match is None and text.startswith("{"):
        match = _IN_JSON.search(text[:HEAD]) or _IN_JSON.search(text[-TAIL:])
    match = match or _stated(_LAST_LINE, text[-TAIL:].rstrip().split("\n")[-4:])
    return int(match.group(1)) if match else None


def _stated(form: re.Pattern[str], lines: list[str]) -> re.Match[str] | None:
    return next((match for line in reversed(lines) if (match := form.match(line.strip()))), None)


def failed(text: str) -> bool:
    """Whether a result begins as failures begin."""
    start = text[:HEAD].lstrip(" \n\r\t[").lower()
    return start.startswith(_FAILED_STARTS) or start.startswith(_FAILED_JSON)


def tests_failed(text: str) -> bool:
    """Whether a test runner's own count, in the last lines, names failures. A pipe hides the
    exit status, not that."""
    return any(_COUNTED.search(line) for line in text[-TAIL:].rstrip().split("\n")[-COUNT_LINES:])


def payload(text: str) -> str:
    """The output itself: without `Key: value` lines up to `Output:`, or the tags around it."""
    for opening, closing in (
        ("Output:\n", ""),
        ("<output>\n", "</output>"),
        ("<output>", "</output>"),
    ):
        at = text.find(opening, 0, HEAD)
        if at < 0 or (at and text[at - 1] != "\n" and opening[0] != "<"):
            continue
        end = text.rfind(closing) if closing else -1
        return text[at + len(opening) : end if end > at else len(text)]
    return text


def is_cut(text: str) -> bool:
    """Whether the agent shortened the result before it came here."""
    if not any(sign in text for sign in _CUT_HINTS):
        return False
    lowered = text.lower()
    return any(sign in lowered for sign in _CUT)


def shown_lines(text: str) -> tuple[int, int] | None:
    """The first and last line number of a numbered text; None if it is not numbered."""
    first = _number(text, 0)
    if first is None:
        return None
    end = len(text)
    for _ in range(NOTES_MAX):
        start = text.rfind("\n", 0, end) + 1
        last = _number(text, start)
        if last is not None and last >= first:
            lines = text.count("\n")
            return (first, last) if lines - NOTES_MAX <= last - first <= lines else None
        if start == 0:
            return None
        end = start - 1
    return None


def _number(text: str, at: int) -> int | None:
    match = _NUMBERED.match(text, at)
    return int(match.group(1)) if match else None
