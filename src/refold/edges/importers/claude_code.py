"""Claude Code's transcripts: `~/.claude/projects/PROJECT/SESSION.jsonl`, and `agent-ID.jsonl` of
its sub-agents.

One response is written as one line per block, with the results of its tools in between: the blocks
of a response become one message, results follow it, its usage counts once. Lines form a tree by
`parentUuid`: the branch that the last line stands on is the session, and parallel results, which
fork the tree, belong to it. Side chains are sessions of their own. The summary that follows a
compact boundary stands for what came before. Neighbours: `entry`, `lines`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from refold.core.model import Usage
from refold.dialects.usage import read_usage
from refold.edges.importers.entry import About, Entry, Noted, Said, Summed, Unread, Where
from refold.edges.importers.lines import UNREADABLE, Lines, digest, happened, told
from refold.errors import Invalid

SYNTHETIC = "<synthetic>"  # the model of a line that no model wrote, such as an error
_TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
_SPOKEN = ("user", "assistant")


def is_mine(lines: list[dict[str, Any]]) -> bool:
    """Whether these are the first lines of such a transcript."""
    tree = any("parentUuid" in line and "sessionId" in line for line in lines)
    return tree or any("leafUuid" in line and line.get("type") == "summary" for line in lines)


def session_of(lines: Lines) -> str:
    """The id of the session in the file."""
    for _, line, _ in lines.objects():
        session = line.get("sessionId")
        if isinstance(session, str) and session:
            return session
    return lines.path.name.split(".")[0]


def entries(lines: Lines) -> Iterator[Entry]:
    """The session and its side chains, in the order of the file."""
    live = live_branch(lines)
    answers: dict[str, _Answer] = {}
    chains: dict[str, str] = {}
    for number, line, raw in lines.objects():
        session = _chain_of(line, chains)
        where = Where(line=number, session=session, at_ms=happened(line.get("timestamp")))
        key = str(line.get("uuid") or f"{number}:{digest(raw)}")
        if not _is_spoken(line):
            yield from told(_beside(line, key, where), where)
            continue
        if not session and key not in live:
            yield Noted(kind="left-branch", data=line, key=f"left:{key}", **where)
            continue
        answer = answers.setdefault(session, _Answer())
        if line["type"] == "assistant":
            yield from told(answer.take(line, key, where), where)
        else:
            yield from told(answer.ask(line, key, where), where)
    for answer in answers.values():
        yield from answer.end()


def _is_spoken(line: dict[str, Any]) -> bool:
    message = line.get("message")
    if line.get("type") not in _SPOKEN or not isinstance(message, dict):
        return False
    return message.get("model") != SYNTHETIC


def _beside(line: dict[str, Any], key: str, where: Where) -> Iterator[Entry]:
    """A line that is no message."""
    kind = line.get("type")
    title = line.get(_TITLES.get(str(kind), ""))
    if isinstance(title, str) and title.strip():
        yield About(title=title.strip()[:200], **where)
    if not isinstance(kind, str):
        yield Unread(reason="a line without a type", **where)
    yield Noted(kind=str(kind or "line"), data=line, key=key, **where)


def _chain_of(line: dict[str, Any], chains: dict[str, str]) -> str:
    """The name of the side chain that a line belongs to; empty for the session itself."""
    if not line.get("isSidechain"):
        return ""
    agent = line.get("agentId")
    uuid, parent = str(line.get("uuid") or ""), str(line.get("parentUuid") or "")
    chain = f"agent-{agent}" if agent else chains.get(parent) or f"agent-{uuid[:8]}"
    chains[uuid] = chain
    return chain


class _Answer:
    """The response that is being read: its blocks so far, and the results that came meanwhile."""

    def __init__(self) -> None:
        self.id, self.key, self.model = "", "", ""
        self.blocks: list[Any] = []
        self.first = Where()
        self.usage: Usage | None = None
        self.results: list[Said] = []

    def take(self, line: dict[str, Any], key: str, where: Where) -> Iterator[Entry]:
        message = line["message"]
        response = str(message.get("id") or key)
        if response != self.id:
            yield from self.end()
            self.id, self.key, self.first = response, key, where
            model = message.get("model")
            if isinstance(model, str) and model != self.model:
                self.model = model
                yield About(model=model, **where)
        content = message.get("content")
        self.blocks += content if isinstance(content, list) else [{"type": "text", "text": content}]
        if isinstance(message.get("usage"), dict):
            try:
                self.usage = msgspec.structs.replace(
                    read_usage(message["usage"], "anthropic"), response=response
                )
            except Invalid as error:
                yield Unread(reason=error.message, **where)

    def ask(self, line: dict[str, Any], key: str, where: Where) -> Iterator[Entry]:
        content = line["message"].get("content")
        message = {"role": "user", "content": content}
        said = Said(message=message, key=key, **where)
        if line.get("isCompactSummary"):
            yield from self.end()
            yield Summed(text=_text_of(content), key=key, **where)
        elif self.blocks and _results_of(content):
            self.results.append(said)
        else:
            yield from self.end()
            yield said

    def end(self) -> Iterator[Entry]:
        """The whole response, then the results that came while it was written."""
        if self.blocks:
            # A response that goes on after it was imported is another one then.
            key = f"{self.key}#{len(self.blocks)}"
            message = {"role": "assistant", "content": self.blocks}
            yield Said(message=message, key=key, usage=self.usage, **self.first)
        yield from self.results
        self.id, self.blocks, self.usage, self.results = "", [], None, []


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def _results_of(content: Any) -> list[str]:
    """The calls that a message answers."""
    parts = content if isinstance(content, list) else []
    return [
        str(part.get("tool_use_id"))
        for part in parts
        if isinstance(part, dict) and part.get("type") == "tool_result"
    ]


# --- the branch ---


class _Block(Struct):
    type: str = ""
    id: str = ""
    tool_use_id: str = ""


class _Head(Struct):
    id: str = ""
    content: str | list[_Block] = ""


class _Line(Struct, rename={"parent": "parentUuid", "logical": "logicalParentUuid"}):
    type: str = ""
    uuid: str | None = None
    parent: str | None = None
    logical: str | None = None
    isSidechain: bool = False
    message: _Head | None = None


_decode = msgspec.json.Decoder(_Line).decode


def live_branch(lines: Lines) -> set[str]:
    """The uuids of the lines that the session consists of: the last message and all before it, and
    the rest of the responses and results that the tree tells apart from them."""
    parents: dict[str, str | None] = {}
    heads: dict[str, _Head] = {}
    leaf = before = None
    for _, raw in lines:
        try:
            line = _decode(raw)
        except UNREADABLE:
            continue  # told when the line itself is read
        if line.uuid is None or line.isSidechain or line.uuid in parents:
            continue
        parent = line.parent or line.logical
        # A parent that is in another file: the session goes on here.
        parents[line.uuid] = parent if parent is None or parent in parents else before
        before = line.uuid
        if line.type in _SPOKEN and line.message is not None:
            heads[line.uuid], leaf = line.message, line.uuid
    return _with_parallels(_back_from(leaf, parents), heads)


def _back_from(leaf: str | None, parents: dict[str, str | None]) -> set[str]:
    live: set[str] = set()
    while leaf is not None and leaf not in live:
        live.add(leaf)
        leaf = parents.get(leaf)
    return live


def _with_parallels(live: set[str], heads: dict[str, _Head]) -> set[str]:
    responses = {heads[uuid].id for uuid in live if uuid in heads} - {""}
    live |= {uuid for uuid, head in heads.items() if head.id in responses}
    blocks = {uuid: head.content for uuid, head in heads.items() if isinstance(head.content, list)}
    calls = {block.id for uuid in live for block in blocks.get(uuid, ()) if block.id}
    answering = (
        uuid
        for uuid, content in blocks.items()
        if any(block.tool_use_id in calls for block in content)
    )
    return live | set(answering)
