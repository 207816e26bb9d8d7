"""Conversations that begin from another one: forks, and sub-agents that get a summary of it.

A fork shares the log up to a position. A sub-agent starts with one message, and sees no other: its
origin, what is known so far (the ledger, unless the caller passes a summary) and the artifacts that
it may unfold. Summaries are redacted; artifacts and task are passed on as they are. Its memories
may be kept in a scope of its own, named in the metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refold.artifacts.listing import is_in_log
from refold.checked import quoted
from refold.config import Config
from refold.conversations.listing import PART_OF
from refold.core.model import Message, Text, View
from refold.errors import Conflict, Invalid, NotFound
from refold.log.stored_logs import open_id_checked
from refold.log.undo import seq_of
from refold.redaction import redactor

if TYPE_CHECKING:
    from refold.engine.context import Context

SUMMARY_CHARS = 12_000
MEMORY = "memory"  # metadata key: the memory scope of a sub-agent's conversation


def fork(context: Context, id: str, at: int | str | None) -> Context:
    """A new conversation that shares the log up to `at`, by default the head."""
    log = context._open
    with log.reading() as state:
        log.write_pending()
        seq = log.state.head if at is None else seq_of(at)
        log.store.fork(context.id, seq, open_id_checked(id))
        log.log.keep_bookmark_of_fork(id, seq)
        twin = _opened_beside(context, id)
        names = () if state.meta.names else None  # a name belongs to one conversation
        twin.update(title=f"Fork of {state.meta.title or context.id}", names=names)
        twin._open.write_pending()
        return twin


def spawn(
    context: Context,
    id: str,
    task: str,
    *,
    summary: str | None,
    artifacts: Sequence[str],
    model: str | None,
    memory: str,
) -> Context:
    """A conversation for a sub-agent, in the same store."""
    metadata = {PART_OF: context.id}
    if memory:
        metadata[MEMORY] = _agent_scope(memory)
    log, config = context._open, context.config
    with log.reading() as state:
        stored = [one.artifact for one in context.artifacts.list()]
        by_id = {artifact.id: artifact for artifact in stored if not is_in_log(artifact)}
        for name in artifacts:
            if name not in by_id:
                hint = "context.artifacts.list() lists them"
                raise NotFound(f"there is no artifact {name!r} to hand over", hint=hint)
        shared = [by_id[name] for name in artifacts]
        view = state.view()
        text = known_facts(view, config) if summary is None else summary
        lines = [f"[handed over from the conversation {context.id}, #1-{view.head}]", text.strip()]
        if shared:
            lines += ["", "Artifacts"]
            lines += [f"- artifact://{a.id} {a.name} ({a.lines:,} lines)" for a in shared]
        handover = redactor(config.redact, "summaries")("\n".join(lines).strip())
        blocks, origin = (Text(handover),), {"handed_over": context.id}
        opening = Message(role="user", blocks=blocks, metadata=origin)
        child = _opened_beside(context, id, model=model or context._model.info.name)
        if head := child._open.state.head:
            hint = "choose another id"
            raise Conflict(f"the conversation {id!r} already exists", head=head, hint=hint)
        drafts = [*map(log.draft, shared), *context._intake.message(opening, "refold")]
        child._open.append(drafts)
    child.update(metadata=metadata)
    child.append({"role": "user", "content": task})
    return child


def _opened_beside(context: Context, id: str, model: str | None = None) -> Context:
    """Another conversation of the same store, with the same settings. The last one closes the
    store."""
    twin = type(context)(
        context._open.store,
        id,
        config=context.config,
        model=model,
        window=context._model.window_of(model),
        counter=context._open.counter,
        writer=context._writer,
        native=context._native,
        embedder=context._embedder,
    )
    twin._shared = context._shared.hold()
    return twin


def known_facts(view: View, config: Config) -> str:
    """The ledger of a page, with the facts that earlier summaries carried."""
    from refold.ledger.facts import Cutter
    from refold.ledger.ledger import facts_of, ledger_lines, merged

    cutter = Cutter(redactor(config.redact, "summaries"))
    new = facts_of(view.slots, config, view.facts, cutter)
    return "\n".join(ledger_lines(merged(view.facts, new), SUMMARY_CHARS))


def _agent_scope(scope: str) -> str:
    """The scope of an agent; Invalid for any other scope."""
    from refold.memory.journal import AGENT, scope_checked

    if not scope.startswith(AGENT):
        hint = "agent.NAME; without one, the agent remembers for the whole project"
        raise Invalid(f"memory: {quoted(scope)} is not the scope of an agent", hint=hint)
    return scope_checked(scope)


def memory_scope(metadata: Mapping[str, Any]) -> str:
    """The memory scope of a conversation: its agent's own, or the project's. Metadata may be
    foreign: anything but the scope of an agent is ignored."""
    try:
        return _agent_scope(metadata[MEMORY])
    except (KeyError, AttributeError, TypeError, Invalid):
        return "project"
