"""Secrets: found in a text by rules, and removed from texts that leave the store.

`find` applies the rules in `rules` and `values`, and finds known secrets again; `redact` removes
secrets from texts, JSON and streams. To add a kind of secret, add a line to `rules.SHAPES`.
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
