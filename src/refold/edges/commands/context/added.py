"""What `context add`, `add-folder` and `add-search` share: a text is kept as an artifact, and a
message says so to the model. It asks for nothing: the latest request stays what it was.

The message shows a short text whole and the beginning of a long one, between marks that nothing
inside can close; the rest is reached by the artifact's handle. The way back is a restore to the
place before.
"""

from __future__ import annotations

from refold.core.model import ADDED, Artifact, ArtifactType, Message, Origin, Text
from refold.display import fenced, one_line
from refold.edges.commands.command import Result, Screen
from refold.edges.commands.session import Session
from refold.edges.commands.text import number, short_line

SHOWN_CHARS = 16_000
HEAD_LINES, HEAD_CHARS = 40, 4_000


class Added(Result, frozen=True, kw_only=True):
    """What was kept, and the message that shows it; `tokens` is what that costs on the page,
    `before` the place to go back to. `stopped` says why it is not everything."""

    conversation: str
    artifact: str
    name: str
    type: str
    lines: int
    size_bytes: int
    seq: int
    before: int
    tokens: int
    stopped: str = ""


def added(
    session: Session,
    content: str | bytes,
    *,
    name: str,
    type: ArtifactType,
    query: str = "",
    stopped: str = "",
) -> Added:
    """Keeps a content with the conversation, and shows it to the model."""
    with session.context(writes=True) as context:
        before = context.view.head
        origin = Origin(query=query)
        artifact = context.artifacts.put(content, name=name, type=type, origin=origin)
        text = _message(artifact, content if isinstance(content, str) else "", stopped)
        metadata = {ADDED: artifact.id}
        shown = Message(role="user", blocks=(Text(text),), metadata=metadata)
        events = context.append(shown)
        [message] = [event for event in events if event.kind == "message"]
    return Added(
        conversation=context.id,
        artifact=artifact.id,
        name=name,
        type=type,
        lines=artifact.lines,
        size_bytes=artifact.size_bytes,
        seq=message.seq,
        before=before,
        tokens=message.tokens,
        stopped=stopped,
    )


def _message(artifact: Artifact, text: str, stopped: str) -> str:
    """`[Added file src/a.py, 250 lines: artifact://art-…]` and the text, or how it begins."""
    kind = artifact.type.replace("_", " ")
    size = number(artifact.lines, "line") if text else number(artifact.size_bytes, "byte")
    head = f"[Added {kind} {one_line(artifact.name)}, {size}: artifact://{artifact.id}]"
    if stopped:
        head += f" ({stopped})"
    if not text:
        return head
    if len(text) > SHOWN_CHARS:
        text = "\n".join(text[:HEAD_CHARS].splitlines()[:HEAD_LINES])
        head += f" It begins as follows; artifact {artifact.id} has the rest."
    return f"{head}\n{fenced(text, 'added')}"


def show(done: Added, screen: Screen) -> None:
    size = number(done.lines, "line") if done.lines else number(done.size_bytes, "byte")
    name = short_line(done.name, 200)
    kept = f": {done.artifact}, {size}. Message #{done.seq}, {number(done.tokens, 'token')}."
    screen.line(("bold", f"Added {name}"), kept)
    if done.stopped:
        screen.line(("yellow", f"Not everything: {done.stopped}."))
    back = screen.call("restore", done.conversation, str(done.before))
    screen.line(("dim", f"Go back with: {back}"))
