"""What `doctor` finds out about the models in use: whether their providers have ended them, or
will soon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date

from refold.conversations.listing import meta_of, newest
from refold.edges.commands.checks import Finding
from refold.errors import RefoldError
from refold.settings.writer import writer_loaded
from refold.stores.protocol import Store
from refold.tokens.models import model_info, retirement

CONVERSATIONS_MAX = 100
ADVICE = "choose another model for the conversation, or for the writer"


def model_findings(store: Store, today: date) -> Iterator[Finding]:
    """Every model of the newest conversations, and of the writer, that retires."""
    for name in sorted(_models_in_use(store)):
        model = model_info(name)
        if state := retirement(model, today):
            verb = "retired on" if state == "retired" else "retires on"
            yield Finding(name=name, value=f"{verb} {model.retires}; {ADVICE}")


def _models_in_use(store: Store) -> set[str]:
    names = {meta_of(store, about).model or "" for about in newest(store)[:CONVERSATIONS_MAX]}
    with suppress(RefoldError):
        # A writer that is not allowed or not valid is told about elsewhere.
        names.add(writer_loaded().model)
    return names - {""}
