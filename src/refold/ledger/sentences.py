"""Sentences that bind: what was decided, and what must or must not be, found by markers and given
back verbatim.

Only what a user or the assistant says counts. Tool results are data, and so are the parts of a
user's message that the agent put there itself: file text, reminders, quoted lines, code. A user's
sentence needs less to count than the assistant's, which is full of "must" about nothing. Neighbour:
`ledger`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from refold.core.model import Message, Text
from refold.display import whole_words
from refold.ledger.embedded_files import header

SENTENCE_MIN, SENTENCE_MAX = 12, 300
TEXT_MAX = 40_000
SECTIONS_MAX = 200

# Sections that agents put into a user's message; their words are not the user's.
SECTIONS = (
    "system-reminder", "file_content", "final_file_content", "environment_details",
    "environment_context", "local-command-stdout", "local-command-stderr", "local-command-caveat",
    "command-name", "command-message", "command-args", "task-notification", "tool_result",
    "function_results", "output", "document", "folder_content", "url_content", "user_memory",
    "ide_opened_file", "ide_selection", "bash-stdout", "bash-stderr", "skills_instructions",
)  # fmt: skip
# How results begin where an agent hands them over as a user's message.
_DATA_STARTS = (
    "<returncode>", "<output>", "<tool_result", "<tool_response", "<function_results>",
    "<bash-stdout>", "Observation:", "OBSERVATION:", "EXECUTION RESULT of [",
    "[Request interrupted", "Caveat: The messages below were generated",
    "This session is being continued from a previous conversation",
    "Base directory for this skill:", "Full transcript available at:",
)  # fmt: skip

_NOT_MEANT = (
    "know|think|understand|see|care|mind|have|need|want|like|remember|believe|get|worry|seem"
)
_USER_RULE = re.compile(
    r"\bmust(?:n't| not)?\b|\bnever\b|\balways\b|\bmake sure\b|\bshould(?: not|n't)\b"
    r"|\bonly use\b|\bnot allowed\b|\bforbidden\b"
    r"|\bwithout (?:changing|breaking|using|touching)\b|\bport \d{2,5}\b"
    r"|\bkeep [^.]{1,60}? (?:unchanged|as is)\b"
    r"|(?:^|[,;:(–—-] ?|\b(?:please|and|but|also|so) )"
    rf"(?:do not|don['’]t) (?!(?:{_NOT_MEANT})\b)"
    r"|^\**(?:important|rule|note|constraint|requirement|warning|remember|caution)s?\b"
    r" ?\d{0,3}\**:",
    re.IGNORECASE,
)
_USER_DECISION = re.compile(
    r"\bdecided (?:to|on|against|that)\b|^decisions?\b:|\blet['’]?s (?:use|go with|keep|stick)\b"
    r"|\bwe(?:['’]ll| will) use\b|\b(?:i|we)(?:['’]d| would)? prefer\b|(?<![\w.])go with\b"
    r"|^use [^.]{1,60}? instead\b",
    re.IGNORECASE,
)
_ASSISTANT_RULE = re.compile(
    r"^(?:rule|constraint|requirement)s?\b ?\d{0,3}:"
    r"|^the user (?:wants|asked|said|requires|prefers|told|explicitly)\b",
    re.IGNORECASE,
)
_ASSISTANT_DECISION = re.compile(
    r"\bdecided (?:to|on|against)\b|^(?:design )?decisions?\b:|\bwe(?:['’]ll| will) use\b"
    r"|\bgoing with\b|\bopted (?:to|for)\b|\bsettled on\b|\b(?:i|we) chose\b"
    r"|\bi(?:['’]ll| will) (?:use|go with) [^.]{1,80}? (?:instead|because|rather)\b",
    re.IGNORECASE,
)
# Without one of these, no sentence can be marked: most need no further look.
_USER_HINTS: tuple[str, ...] = (
    "must", "never", "always", "make sure", "should not", "shouldn't", "only use", "not allowed",
    "forbidden", "without ", "port ", "keep ", "do not ", "don't ", "important", "rule", "note",
    "constraint", "requirement", "warning", "remember", "caution", "decided ", "decision",
    "lets ", "let's ", "ll use", "will use", "prefer", "go with", "instead",
)  # fmt: skip
_ASSISTANT_HINTS: tuple[str, ...] = (
    "decided", "decision", "ll use", "will use", "go with", "going with", "opted", "settled on",
    "chose", "the user ", "rule", "constraint", "requirement",
)  # fmt: skip
_END = re.compile(r"(?<=[.!?]) +(?=[A-Z\"'`(\[*])")
_NOT_PROSE = re.compile(r" {4}|\t|\s*[>|]")  # indented code, a quotation, a table
_LEAD = re.compile(r"\s{0,40}(?:[#•+*-]{1,6} +)?(?:\d{1,3}[.)] +)?(?:\[[ xX]\] +)?")


class Marked(NamedTuple):
    """A sentence as it was said, whole, and what it is by its first `SENTENCE_MAX` characters."""

    kind: Literal["constraint", "decision"]
    sentence: str


# --- what was said ---


def own_text(message: Message) -> str:
    """What the speaker of a message said: without results, and without the sections an agent put
    in."""
    said = map(without_sections, _texts_said(message))
    return "\n".join(text for text in said if text.strip())


def _texts_said(message: Message) -> list[str]:
    """The texts of a message that its speaker said."""
    if message.role == "user":
        return _texts_of_user(message)
    return [block.text for block in message.blocks if isinstance(block, Text)]


def _texts_of_user(message: Message) -> list[str]:
    """The texts of a user's message without results, which begin as results begin or follow the
    header of one."""
    texts: list[str] = []
    follows_header = False
    for block in message.blocks:
        if not isinstance(block, Text):
            follows_header = False
            continue
        found = header(block.text)
        if found is None and not follows_header and not _is_data(block.text):
            texts.append(block.text)
        follows_header = found is not None and not block.text[found.end :].strip()
    return texts


def _is_data(text: str) -> bool:
    return text.lstrip()[:80].startswith(_DATA_STARTS)


def without_sections(text: str) -> str:
    """A text without the sections that are not its speaker's own words; one that is not closed
    stays."""
    if "</" not in text:
        return text
    for name in SECTIONS:
        text = _without_section(text, name)
    return text


def _without_section(text: str, name: str) -> str:
    opening, closing = f"<{name}", f"</{name}>"
    parts: list[str] = []
    start = at = 0
    for _ in range(SECTIONS_MAX):
        at = text.find(opening, at)
        end = text.find(closing, at) if at >= 0 else -1
        if end < 0:
            break
        if text[at + len(opening)] in "> \n":
            parts.append(text[start:at])
            start = at = end + len(closing)
        else:
            at += 1
    return "".join([*parts, text[start:]])


# --- what binds ---


def marked(text: str, *, by_user: bool) -> list[Marked]:
    """The binding sentences of what somebody said, in order."""
    lowered = text[:TEXT_MAX].lower()
    hints = _USER_HINTS if by_user else _ASSISTANT_HINTS
    there = [hint for hint in hints if hint in lowered]
    # Beyond ASCII a pattern that ignores case finds more letters than the lower case has.
    if not there and (lowered.isascii() or not by_user):
        return []
    rule, decision = _USER_RULE, _USER_DECISION
    if not by_user:
        rule, decision = _ASSISTANT_RULE, _ASSISTANT_DECISION
    return list(dict.fromkeys(_matching(text, rule, decision, there)))


def _matching(
    text: str, rule: re.Pattern[str], decision: re.Pattern[str], hints: Sequence[str]
) -> Iterator[Marked]:
    for sentence in sentences(text):
        beginning = sentence[:SENTENCE_MAX]
        if beginning.endswith("?") or not _may_bind(beginning, hints):
            continue
        if rule.search(beginning):
            yield Marked("constraint", sentence)
        elif decision.search(beginning):
            yield Marked("decision", sentence)


def _may_bind(beginning: str, hints: Sequence[str]) -> bool:
    """Whether a sentence has one of the words without which no pattern finds anything in it."""
    lowered = beginning.lower()
    return not beginning.isascii() or any([hint in lowered for hint in hints])


def sentences(text: str) -> list[str]:
    """The sentences of a text; code and quoted lines have none."""
    out: list[str] = []
    is_code = False
    for line in whole_words(text, TEXT_MAX).split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
        elif not is_code and not _NOT_PROSE.match(line):
            out += _sentences_of_line(line)
    return out


def _sentences_of_line(line: str) -> list[str]:
    """The sentences after the marks of a list or a heading."""
    text = _LEAD.sub("", line, count=1).strip()
    return [part.strip() for part in _END.split(text) if len(part) >= SENTENCE_MIN]
