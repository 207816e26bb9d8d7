"""Secrets: found in text by rules, and removed from text that leaves the store.

`find` applies the rules in `rules` and `values`, and finds known secrets again; `redact` removes
secrets from text, JSON and streams. To add a kind of secret, add a line to `rules.SHAPES`.
"""

from refold.redaction.find import KnownSecrets, secrets_in
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
from refold.redaction.values import FoundSecret

__all__ = [
    "FoundSecret",
    "KnownSecrets",
    "Redact",
    "is_redacted",
    "masked",
    "pieces",
    "redacted",
    "redacted_chunks",
    "redactor",
    "secrets_in",
    "takes_emails",
]
