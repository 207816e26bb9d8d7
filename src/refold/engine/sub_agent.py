"""What one agent tells another when it hands work over: a summary and some artifacts, and nothing
else.

The other agent has a conversation of its own. It starts with one message that says where it comes
from, what was found out so far (the ledger, unless the caller gives words of its own) and which
artifacts it may unfold. No message of the first conversation is in it, and no secret, like in every
summary; artifacts and task are handed on as they are. What it remembers may lie in a memory of its
own, which its metadata name. Neighbours: `engine` (`Context.spawn`), `strategies.ledger` makes the
facts, `redaction` finds secrets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refold.artifacts.listing import is_in_log
from refold.checked import quoted
from refold.config import Config
from refold.core.model import Artifact, Message, Text, View
from refold.errors import Invalid, NotFound
from refold.ledger.facts import Cutter
from refold.ledger.ledger import facts_of, ledger_lines, merged
from refold.redaction import redactor

SUMMARY_CHARS = 12_000
MEMORY = "memory"  # in the metadata: the scope that the agent of a conversation remembers in


def handed_over(
    origin: str, view: View, config: Config, *, summary: str | None, artifacts: Sequence[Artifact]
) -> Message:
    """The message that opens the other conversation."""
    told = known(view, config) if summary is None else summary
    lines = [f"[handed over from the conversation {origin}, #1-{view.head}]", told.strip()]
    if artifacts:
        lines += ["", "Artifacts", *(_named(artifact) for artifact in artifacts)]
    text = redactor(config.redact, "summaries")("\n".join(lines).strip())
    return Message(role="user", blocks=(Text(text),), metadata={"handed_over": origin})


def known(view: View, config: Config) -> str:
    """What the page and the ledger know, by code."""
    cutter = Cutter(redactor(config.redact, "summaries"))
    new = facts_of(view.slots, config, view.facts, cutter)
    return "\n".join(ledger_lines(merged(view.facts, new), SUMMARY_CHARS))


def chosen(there: Sequence[Artifact], ids: Sequence[str]) -> list[Artifact]:
    """The artifacts of these ids, in the order asked for."""
    by_id = {artifact.id: artifact for artifact in there if not is_in_log(artifact)}
    for id in ids:
        if id not in by_id:
            raise NotFound(
                f"there is no artifact {id!r} to hand over",
                hint="context.artifacts.list() lists those there are",
            )
    return [by_id[id] for id in ids]


def _named(artifact: Artifact) -> str:
    return f"- artifact://{artifact.id} {artifact.name} ({artifact.lines:,} lines)"


def scope_checked(scope: str) -> str:
    """The scope of an agent; Invalid for that of others."""
    from refold.memory.journal import AGENT, scope_checked

    if not scope.startswith(AGENT):
        hint = "agent.NAME; without one, the agent remembers for the whole project"
        raise Invalid(f"memory: {quoted(scope)} is not the scope of an agent", hint=hint)
    return scope_checked(scope)


def memory_scope(metadata: Mapping[str, Any]) -> str:
    """The scope that a conversation remembers in: its agent's own, or the project's. Metadata may
    come from elsewhere, so what is not the scope of an agent is none."""
    try:
        return scope_checked(metadata[MEMORY])
    except (KeyError, AttributeError, TypeError, Invalid):
        return "project"
