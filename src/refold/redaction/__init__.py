"""Secrets are found in a text by rules, and taken out of what leaves the store.

`find` asks the rules where the secrets of a text are: `shapes`, `private_keys`, `credentials`,
`values`. `redact` takes them out of a text, `streams` out of a stream. To teach a new kind of
secret that has a shape of its own, add a line to `shapes`. `known` finds the same values again.
"""

from refold.redaction.find import KnownSecrets, found
from refold.redaction.redact import (
    Redact,
    is_redacted,
    masked,
    pieces,
    redacted,
    redacted_chunks,
    redactor,
    takes_emails,
)
from refold.redaction.values import Found

__all__ = [
    "Found",
    "KnownSecrets",
    "Redact",
    "found",
    "is_redacted",
    "masked",
    "pieces",
    "redacted",
    "redacted_chunks",
    "redactor",
    "takes_emails",
]
