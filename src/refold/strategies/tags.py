"""The tag line of a gist: `#41 agent`, above the lines that were kept of that message; and handles
like `#3-9` in text that is read again.

Anything else on a page that looks like a tag line is put in parentheses, or the next gist would
take it for one. Neighbours: `gist` writes tag lines, `gist.passages` reads them, `prose` and
`compaction.prose` tell them from other text.
"""

from __future__ import annotations

import re

from refold.core.model import Span

TAG_LINE = re.compile(r"^#(\d+) (user|agent|tool|system)$", re.MULTILINE)


def tag_line(seq: int, role: str) -> str:
    """The line above the kept lines of a message."""
    speaker = "agent" if role == "assistant" else role
    return f"#{seq} {speaker}"


def role_of(speaker: str) -> str:
    """The role of a message by the speaker that its tag line names."""
    return "assistant" if speaker == "agent" else speaker


def untagged(text: str) -> str:
    """The text with everything that looks like a tag line in parentheses."""
    return TAG_LINE.sub(r"(\g<0>)", text)


def span_of(first: str, last: str) -> Span:
    """The span that a handle like `#3-9` names; without a last one it is a single seq."""
    return Span(int(first), int(last or first))
