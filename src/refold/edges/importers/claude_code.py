"""Claude Code's transcripts: `~/.claude/projects/FOLDER/SESSION.jsonl`.

A response has one line per block; its usage counts once. Lines form a tree by `parentUuid`, after a
compact boundary by `logicalParentUuid`: the branch of the last line is the session, together with
parallel results, which fork the tree, and the other blocks of its responses. Side chains are
separate sessions. The summary after a compact boundary replaces everything before it. Neighbours:
`entry`, `lines`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from refold import decoding
from refold.conversations.listing import FOLDER
from refold.core.model import Usage
from refold.dialects.usage import read_usage
from refold.edges.importers.entry import (
    LEFT_BRANCH,
    Branch,
    Entry,
    MessageEntry,
    NoteEntry,
    SessionFacts,
    SummaryEntry,
    UnreadLine,
    Where,
)
from refold.edges.importers.lines import UNREADABLE, Lines, Reader, digest, guarded, time_ms
from refold.errors import Invalid
from refold.tokens.models import most

LEFT = "left"  # in the conversation id of an abandoned branch
SYNTHETIC = "<synthetic>"  # the model of lines written by the program itself, such as errors
_TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}


def is_mine(lines: list[dict[str, Any]]) -> bool:
    """Whether these are the first lines of a transcript."""
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
    return _walk(lines, live_branch(lines))


def branches(lines: Lines, most: int) -> Iterator[Branch]:
    """The abandoned branches, newest first, each with all messages since the start."""
    for leaf, uuids in left_branches(lines, most):
        yield Branch(f"{LEFT}-{leaf[:8]}", partial(_branch_entries, lines, uuids))


def _branch_entries(lines: Lines, branch: set[str]) -> Iterator[Entry]:
    for entry in _walk(lines, branch):
        if not entry.session and isinstance(entry, MessageEntry | SummaryEntry | SessionFacts):
            yield entry


def _walk(lines: Lines, live: set[str]) -> Iterator[Entry]:
    answers: dict[str, _Response] = {}
    chains: dict[str, str] = {}
    located: set[str] = set()  # sessions whose folder is known
    for number, line, raw in lines.objects():
        session = _chain_of(line, chains)
        where = Where(line=number, session=session, at_ms=time_ms(line.get("timestamp")))
        if session not in located and isinstance(line.get(FOLDER), str):
            located.add(session)
            yield SessionFacts(metadata={FOLDER: line[FOLDER]}, **where)
        uuid = str(line.get("uuid") or "")
        key = uuid or f"{number}:{digest(raw)}"
        if not _is_message(line):
            yield from guarded(_beside(line, key, (uuid,), where), where)
            continue
        answer = answers.setdefault(session, _Response())
        if key in answer.read:
            continue  # a duplicate in the file
        answer.read.add(key)
        if not session and key not in live:
            names = {"key": f"left:{key}", "message": str(line["message"].get("id") or key)}
            yield NoteEntry(kind=LEFT_BRANCH, data=line, ids=(uuid,), **names, **where)
            continue
        read = answer.add_block if line["type"] == "assistant" else answer.add_user_line
        yield from guarded(read(line, uuid, key, where), where)
    for answer in answers.values():
        yield from answer.end()


def _is_message(line: dict[str, Any]) -> bool:
    message = line.get("message")
    if line.get("type") not in MESSAGE_TYPES or not isinstance(message, dict):
        return False
    return message.get("model") != SYNTHETIC


def _beside(line: dict[str, Any], key: str, ids: tuple[str, ...], where: Where) -> Iterator[Entry]:
    """The entries of a line that is not a message."""
    kind = line.get("type")
    title = line.get(_TITLES.get(str(kind), ""))
    if isinstance(title, str) and title.strip():
        yield SessionFacts(title=title.strip()[:200], **where)
    if not isinstance(kind, str):
        yield UnreadLine(reason="a line without a type", **where)
    yield NoteEntry(kind=str(kind or "line"), data=line, key=key, ids=ids, **where)


def _chain_of(line: dict[str, Any], chains: dict[str, str]) -> str:
    """The name of the side chain of a line; empty for the session itself."""
    if not line.get("isSidechain"):
        return ""
    agent = line.get("agentId")
    uuid, parent = str(line.get("uuid") or ""), str(line.get("parentUuid") or "")
    chain = f"agent-{agent}" if agent else chains.get(parent) or f"agent-{uuid[:8]}"
    chains[uuid] = chain
    return chain


class _Response:
    """The current response: its blocks so far, and the results received meanwhile."""

    def __init__(self) -> None:
        self.id, self.key, self.model = "", "", ""
        self.blocks: list[Any] = []
        self.ids: list[str] = []  # of their lines
        self.first = Where()
        self.usage: Usage | None = None
        self.billed: Any = None  # the usage of the previous line
        self.results: list[MessageEntry] = []
        self.read: set[str] = set()  # the keys of all lines so far

    def add_block(self, line: dict[str, Any], id: str, key: str, where: Where) -> Iterator[Entry]:
        message = line["message"]
        response = str(message.get("id") or key)
        if response != self.id:
            yield from self.end()
            self.id, self.key, self.first = response, key, where
            model = message.get("model")
            if isinstance(model, str) and model != self.model:
                self.model = model
                yield SessionFacts(model=model, **where)
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        self.blocks += blocks
        self.ids += [id] * len(blocks)
        billed = message.get("usage")
        if isinstance(billed, dict) and billed != self.billed:  # most lines repeat it
            try:
                usage = replace(read_usage(billed, "anthropic"), response=response)
                self.usage = most(self.usage, usage) if self.usage else usage
                self.billed = billed
            except Invalid as error:
                yield UnreadLine(reason=error.message, **where)

    def add_user_line(
        self, line: dict[str, Any], id: str, key: str, where: Where
    ) -> Iterator[Entry]:
        content = line["message"].get("content")
        message = {"role": "user", "content": content}
        entry = MessageEntry(message=message, key=key, ids=(id,), **where)
        if line.get("isCompactSummary"):
            yield from self.end()
            yield SummaryEntry(text=_text_of(content), key=key, ids=(id,), **where)
        elif self.blocks and _has_result(content):
            self.results.append(entry)
        else:
            yield from self.end()
            yield entry

    def end(self) -> Iterator[Entry]:
        """Yields the complete response, then the results received meanwhile."""
        if self.blocks:
            yield MessageEntry(
                message={"role": "assistant", "content": self.blocks},
                key=self.key,
                parts=len(self.blocks),
                ids=tuple(self.ids),
                usage=self.usage,
                **self.first,
            )
        yield from self.results
        self.id, self.blocks, self.ids, self.results = "", [], [], []
        self.usage = self.billed = None


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def _has_result(content: Any) -> bool:
    parts = content if isinstance(content, list) else []
    return any(isinstance(part, dict) and part.get("type") == "tool_result" for part in parts)


MESSAGE_TYPES = ("user", "assistant")


class _Block(Struct):
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


_decode = decoding.decoder(_Line).decode


class _Ids(NamedTuple):
    """The ids that connect a line with others: of its response, of its calls, and of the calls it
    answers. The rest of the line is dropped, since there may be a million."""

    response: str
    calls: tuple[str, ...]
    answered: tuple[str, ...]


def _ids_of(head: _Head) -> _Ids:
    blocks = head.content if isinstance(head.content, list) else ()
    calls = tuple([block.id for block in blocks if block.id])
    answered = tuple([block.tool_use_id for block in blocks if block.tool_use_id])
    return _Ids(head.id, calls, answered)


class _Tree(NamedTuple):
    """The parent of each line, the ids of each message, and the uuid of the last message."""

    parents: dict[str, str | None]
    heads: dict[str, _Ids]
    leaf: str | None


def live_branch(lines: Lines) -> set[str]:
    """The uuids of the session's lines: the last message and its ancestors, with parallel blocks
    and results."""
    return _branch_of(_tree(lines))


def left_branches(lines: Lines, most: int) -> list[tuple[str, set[str]]]:
    """The abandoned branches, newest first, at most `most`: the last message of each, and the uuids
    of its lines from the start of the session."""
    tree = _tree(lines)
    known = _branch_of(tree)
    found: list[tuple[str, set[str]]] = []
    for uuid in reversed(tree.heads):
        if len(found) == most:
            break
        if uuid not in known:
            branch = _branch_of(tree._replace(leaf=uuid))
            found.append((uuid, branch))
            known |= branch
    return found


def _branch_of(tree: _Tree) -> set[str]:
    """The last message and its ancestors, with parallel blocks and results."""
    branch: set[str] = set()
    leaf, heads = tree.leaf, tree.heads
    while leaf is not None and leaf not in branch:
        branch.add(leaf)
        leaf = tree.parents.get(leaf)
    responses = {heads[uuid].response for uuid in branch if uuid in heads} - {""}
    branch |= {uuid for uuid, ids in heads.items() if ids.response in responses}
    calls = {call for uuid in branch if uuid in heads for call in heads[uuid].calls}
    return branch | {uuid for uuid, ids in heads.items() if not calls.isdisjoint(ids.answered)}


def _tree(lines: Lines) -> _Tree:
    parents: dict[str, str | None] = {}
    heads: dict[str, _Ids] = {}
    leaf = before = None
    for _, raw in lines:
        try:
            line = _decode(raw)
        except UNREADABLE:
            continue  # reported when the line itself is read
        if line.uuid is None or line.isSidechain or line.uuid in parents:
            continue
        parent = line.parent or line.logical
        # The parent is in another file: the session continues here.
        parents[line.uuid] = parent if parent is None or parent in parents else before
        before = line.uuid
        if line.type in MESSAGE_TYPES and line.message is not None:
            heads[line.uuid], leaf = _ids_of(line.message), line.uuid
    return _Tree(parents, heads, leaf)


READER = Reader(
    is_lines=is_mine, entries=entries, session_of=session_of, branches=branches, has_line_ids=True
)
