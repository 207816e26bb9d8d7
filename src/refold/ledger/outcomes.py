"""How a tool call ended, read from its result: the exit status where it is stated, or the signs of
a failure.

Only the first and last few hundred characters are looked at, so that a file's own text is not taken
for an outcome. Neighbours: `results` has the text of a result, `actions` asks for both.
"""

from __future__ import annotations

import re

HEAD, TAIL = 400, 240
COUNT_LINES = 3  # at the end, where a test runner counts

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
    match = (
        _TAGGED.match(text.lstrip()[:60])
        or _stated(_HEADLINE, text[:HEAD].split("\n")[:6])
        or _in_json(text)
        or _stated(_LAST_LINE, text[-TAIL:].rstrip().split("\n")[-4:])
    )
    return int(match[1]) if match else None


def _in_json(text: str) -> re.Match[str] | None:
    if not text.startswith("{"):
        return None
    return _IN_JSON.search(text[:HEAD]) or _IN_JSON.search(text[-TAIL:])


def _stated(form: re.Pattern[str], lines: list[str]) -> re.Match[str] | None:
    """The last of these lines that has the form."""
    for line in reversed(lines):
        match = form.match(line.strip())
        if match:
            return match
    return None


def failed(text: str) -> bool:
    """Whether a result begins as failures begin."""
    start = text[:HEAD].lstrip(" \n\r\t[").lower()
    return start.startswith(_FAILED_STARTS)


def tests_failed(text: str) -> bool:
    """Whether a test runner's own count, in the last lines, names failures. A pipe hides the
    exit status, not that."""
    lines = text[-TAIL:].rstrip().split("\n")
    return any(_COUNTED.search(line) for line in lines[-COUNT_LINES:])
