"""Text without its secrets: each is replaced by a note that says what stood there.

What stood there is named, never shown. Redacting twice changes nothing. The log and the page keep
what they were given: the model has seen it already. `Config.redact` says for which channels this is
done, and whether e-mail addresses go as well. Neighbours: `find` finds the secrets, `streams` does
this piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from refold.config import CHANNELS, EMAILS, Channel
from refold.redaction.find import found
from refold.redaction.secret import Found

PASSES_MAX = 10
SHOWN_CHARS_MIN = 24  # of a secret of which some characters may be shown

Redact = Callable[[str], str]


# --- channels ---


def is_redacted(redact: bool | tuple[str, ...], channel: Channel) -> bool:
    """Whether the setting `redact` covers a channel: all, none, or those it names."""
    assert channel in CHANNELS
    return redact if isinstance(redact, bool) else channel in redact


def redactor(redact: bool | tuple[str, ...], channel: Channel = "summaries") -> Redact:
    """The function to put texts of a channel through: `redacted`, or one that leaves them alone."""
    return partial(redacted, emails=takes_emails(redact)) if is_redacted(redact, channel) else str


def takes_emails(redact: bool | tuple[str, ...]) -> bool:
    """Whether the setting `redact` includes e-mail addresses."""
    return not isinstance(redact, bool) and EMAILS in redact


# --- texts ---


def redacted(text: str, *, emails: bool = False, keep_lines: bool = False) -> str:
    """The text with every secret, and with `emails` every e-mail address, replaced by a note that
    says what stood there. With `keep_lines` it has as many lines as before: somebody may have
    noted their numbers."""
    for _ in range(PASSES_MAX):
        secrets = found(text, emails=emails)
        if not secrets:
            break
        # A secret next to another shows only when that one is gone, so what is left is searched
        # again.
        text = _with_notes(text, secrets, keep_lines)
    return text


def _with_notes(text: str, secrets: list[Found], keep_lines: bool) -> str:
    parts: list[str] = []
    done = 0
    for kind, start, end, _ in secrets:
        parts += [text[done:start], f"[redacted {kind}]"]
        if keep_lines:
            parts.append("\n" * text.count("\n", start, end))
        done = end
    parts.append(text[done:])
    return "".join(parts)


def masked(secret: str) -> str:
    """What may be shown of a secret: enough to tell a long one from another, nothing of a
    password or a key block."""
    size = f"({len(secret):,} characters)"
    is_block = "-----" in secret or any(char.isspace() for char in secret)
    if len(secret) < SHOWN_CHARS_MIN or is_block:
        return f"… {size}"
    return f"{secret[:4]}…{secret[-2:]} {size}"
