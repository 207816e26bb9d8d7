"""Binding sentences: decisions and rules, found by markers and quoted verbatim.

Only the words of a user or the assistant count. Tool results are data, and so are the parts of a
user's message that the agent added: file text, reminders, quoted lines, code. The markers for the
assistant are stricter than for a user, because it often writes "must" without binding anyone.
Neighbour: `ledger`.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from refold.core.model import Message, Text
from refold.display import whole_words
from refold.ledger.calls import header
from refold.patterns import regex

SENTENCE_MIN, SENTENCE_MAX = 12, 300
TEXT_MAX = 40_000
SECTIONS_MAX = 200
# Text that refold itself put between marks, such as a file that a user attached.
_FENCED = re.compile(r"<([a-z]+-[0-9a-f]{12})(?: [^\n]*)?>\n.*?\n</\1>", re.DOTALL)

# Sections that agents add to a user's message; their words are not the user's.
SECTIONS = (
    "system-reminder", "file_content", "final_file_content", "environment_details",
    "environment_context", "local-command-stdout", "local-command-stderr", "local-command-caveat",
    "command-name", "command-message", "command-args", "task-notification", "tool_result",
    "function_results", "output", "document", "folder_content", "url_content", "user_memory",
    "ide_opened_file", "ide_selection", "bash-stdout", "bash-stderr", "skills_instructions",
)  # fmt: skip
# The beginnings of results that an agent passes on as a user's message.
_DATA_STARTS = (
    "<returncode>", "<output>", "<tool_result", "<tool_response", "<function_results>",
    "<bash-stdout>", "Observation:", "OBSERVATION:", "EXECUTION RESULT of [",
    "[Request interrupted", "Caveat: The messages below were generated",
    "This session is being continued from a previous conversation",
    "Base directory for this skill:", "Full transcript available at:",
)  # fmt: skip

# The text of AGENTS.md, which Codex puts in a message of the user's.
_RULES = regex(
    r"\s*# AGENTS\.md instructions[^\n]*\n\s*<INSTRUCTIONS>.*?</INSTRUCTIONS>", re.DOTALL
)
# Element names with a hyphen or an underscore, which no HTML element has.
_OPENING = regex(r"\s*<([A-Za-z]+[-_][\w-]*)>")
_COMMAND = ("command-name", "command-args")
# Cline puts these around typed text.
_INPUT = regex(r"</?(?:user_input|task)(?:\s[^<>]{0,100})?>")

_NOT_MEANT = (
    "know|think|understand|see|care|mind|have|need|want|like|remember|believe|get|worry|seem"
)
_USER_RULE = regex(
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
_USER_DECISION = regex(
    r"\bdecided (?:to|on|against|that)\b|^decisions?\b:|\blet['’]?s (?:use|go with|keep|stick)\b"
    r"|\bwe(?:['’]ll| will) use\b|\b(?:i|we)(?:['’]d| would)? prefer\b|(?<![\w.])go with\b"
    r"|^use [^.]{1,60}? instead\b|\bfinal (?:answer|decision)\b|\bscratch that\b|\bfrom now on\b"
    r"|\bforget (?:about|it|that)\b|\bchanged my mind\b|\bno longer\b|\b(?:red|hard) line\b",
    re.IGNORECASE,
)
# A literal in quotes, of any script: a value that a user sets.
_LITERAL = regex(r"(?<![\w])[\"'`“‘«「『][^\s\"'`”’»」』][^\"'`”’»」』]{0,60}[\"'`”’»」』](?!\w)")
_ASSISTANT_RULE = regex(
    r"^(?:rule|constraint|requirement)s?\b ?\d{0,3}:"
    r"|^the user (?:wants|asked|said|requires|prefers|told|explicitly)\b",
    re.IGNORECASE,
)
_ASSISTANT_DECISION = regex(
    r"\bdecided (?:to|on|against)\b|^(?:design )?decisions?\b:|\bwe(?:['’]ll| will) use\b"
    r"|\bgoing with\b|\bopted (?:to|for)\b|\bsettled on\b|\b(?:i|we) chose\b"
    r"|\bi(?:['’]ll| will) (?:use|go with) [^.]{1,80}? (?:instead|because|rather)\b",
    re.IGNORECASE,
)
# An answer that agrees and adds no "but", and a sentence that names a cause; in four languages.
_AGREES = regex(
    r"\W*(?:yes|yep|right|correct|exactly|agreed|that['’]s (?:it|right|correct)|ja|genau|stimmt"
    r"|richtig|oui|exact\w*|c['’]est (?:ça|juste)|sí|correcto)\b"
    r"(?!.{0,80}\b(?:but|aber|mais|pero)\b)",
    re.IGNORECASE,
)
_CAUSE = regex(
    r"\b(?:because|due to|caused by|root cause|the (?:cause|reason|culprit) (?:is|was)|weil"
    r"|ursache|lieg(?:t|en) (?:an|daran)|parce que|la cause|à cause d|porque|la causa)\b",
    re.IGNORECASE,
)
# A sentence without any of these cannot match, so most need no further check.
_USER_HINTS: tuple[str, ...] = (
    "must", "never", "always", "make sure", "should not", "shouldn't", "only use", "not allowed",
    "forbidden", "without ", "port ", "keep ", "do not ", "don't ", "important", "rule", "note",
    "constraint", "requirement", "warning", "remember", "caution", "decided ", "decision",
    "lets ", "let's ", "ll use", "will use", "prefer", "go with", "instead", "final ",
    "scratch that", "from now on", "forget ", "my mind", "no longer", "red line", "hard line",
)  # fmt: skip
_ASSISTANT_HINTS: tuple[str, ...] = (
    "decided", "decision", "ll use", "will use", "go with", "going with", "opted", "settled on",
    "chose", "the user ", "rule", "constraint", "requirement",
)  # fmt: skip
_END = regex(r"(?<=[.!?]) +(?=[A-Z\"'`(\[*])")
_NOT_PROSE = regex(r" {4}|\t|\s*[>|]")  # indented code, a quotation, a table
_LEAD = regex(r"\s{0,40}(?:[#•+*-]{1,6} +)?(?:\d{1,3}[.)] +)?(?:\[[ xX]\] +)?")


class Marked(NamedTuple):
    """A verbatim sentence, and its kind by its first `SENTENCE_MAX` characters."""

    kind: Literal["constraint", "decision"]
    sentence: str


# --- a speaker's own words ---


def own_text(message: Message) -> str:
    """The words of a message's speaker: without results, and without sections that an agent
    added. In a user's message, results are recognized by their beginning, or follow a header."""
    texts: list[str] = []
    follows_header = False
    for block in message.blocks:
        if not isinstance(block, Text):
            follows_header = False
            continue
        found = header(block.text) if message.role == "user" else None
        is_data = block.text.lstrip()[:80].startswith(_DATA_STARTS) or follows_header
        if message.role != "user" or (found is None and not is_data):
            texts.append(without_sections(block.text))
        follows_header = found is not None and not block.text[found.end :].strip()
    return "\n".join(text for text in texts if text.strip())


def without_sections(text: str) -> str:
    """The text without the sections that are not its speaker's own words; an unclosed section
    stays."""
    if "</" not in text:
        return text
    if rules := _RULES.match(text):
        text = text[rules.end() :]
    for name in SECTIONS:
        text = _without_section(text, name)
    return _FENCED.sub("", text)


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


def without_insertions(text: str) -> str:
    """The words that a person typed, with the name of a command, without the elements that a
    program put before them; empty if there are none."""
    command: dict[str, str] = {}
    text = _INPUT.sub("", text)
    at = 0
    while (found := _RULES.match(text, at) or _OPENING.match(text, at)) is not None:
        at = found.end()
        if found.lastindex:
            end = text.find(f"</{found[1]}>", at)
            if end < 0:
                at = found.start()
                break
            command[found[1]] = text[at:end].strip()
            at = end + len(f"</{found[1]}>")
    called = [command[name] for name in _COMMAND if command.get(name)]
    return " ".join([*called, text[at:].strip()]).strip()


# --- binding sentences ---


def marked(text: str, *, by_user: bool) -> list[Marked]:
    """The binding sentences of a speaker, in order."""
    lowered = text[:TEXT_MAX].lower()
    hints = _USER_HINTS if by_user else _ASSISTANT_HINTS
    hints = tuple(hint for hint in hints if hint in lowered)
    # Outside ASCII, a pattern that ignores case matches more letters than `lower` maps.
    if not hints and (lowered.isascii() or not by_user):
        return []
    rule, decision = _USER_RULE, _USER_DECISION
    if not by_user:
        rule, decision = _ASSISTANT_RULE, _ASSISTANT_DECISION
    binding: dict[Marked, None] = {}
    for sentence in sentences(text):
        beginning = sentence[:SENTENCE_MAX]
        lowered = beginning.lower()
        may_bind = not beginning.isascii() or any([hint in lowered for hint in hints])
        if beginning.endswith("?") or not may_bind:
            continue
        if rule.search(beginning):
            binding[Marked("constraint", sentence)] = None
        elif decision.search(beginning):
            binding[Marked("decision", sentence)] = None
    return list(binding)


def confirmed(text: str, answer: str) -> list[str]:
    """The findings of an agent, sentences that name a cause, that a user's answer agrees with."""
    found = sentences(text) if _AGREES.match(answer) else []
    return [one for one in found if _CAUSE.search(one) and not one.endswith("?")]


def binds(sentence: str) -> bool:
    """Whether a user's sentence is a rule or a decision, or sets a literal value."""
    if _LITERAL.search(sentence):
        return True
    beginning = sentence[:SENTENCE_MAX]
    return bool(_USER_RULE.search(beginning) or _USER_DECISION.search(beginning))


def sentences(text: str) -> list[str]:
    """The sentences of the text, without code, quoted lines, and the marks of lists and
    headings."""
    found: list[str] = []
    is_code = False
    for line in whole_words(text, TEXT_MAX).split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
        elif not is_code and not _NOT_PROSE.match(line):
            prose = _LEAD.sub("", line, count=1).strip()
            found += [part.strip() for part in _END.split(prose) if len(part) >= SENTENCE_MIN]
    return found
