"""The branch of a Claude Code transcript: which of its lines the session consists of.

Lines form a tree by `parentUuid`; a rewound session has branches that were left. Parallel results
fork the tree as well: they, and the other blocks of a response that is on the branch, belong to it.
After a compact boundary the tree goes on by `logicalParentUuid`. Neighbours: `claude_code` reads
the lines.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from refold import decoding
from refold.edges.importers.lines import UNREADABLE, Lines

SPOKEN = ("user", "assistant")


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
    """What ties a line to others: the response that it is a block of, the calls that it makes, and
    those that it answers. All that is kept of a line, since there may be a million."""

    response: str
    calls: tuple[str, ...]
    answered: tuple[str, ...]


def _ids_of(head: _Head) -> _Ids:
    blocks = head.content if isinstance(head.content, list) else ()
    calls = tuple([block.id for block in blocks if block.id])
    answered = tuple([block.tool_use_id for block in blocks if block.tool_use_id])
    return _Ids(head.id, calls, answered)


class _Tree(NamedTuple):
    """The parent of each line, what ties messages to others, and the last message."""

    parents: dict[str, str | None]
    heads: dict[str, _Ids]
    leaf: str | None


def live_branch(lines: Lines) -> set[str]:
    """The uuids of the lines that the session consists of: the last message and all before it, and
    the rest of the responses and results that the tree tells apart from them."""
    return _branch_of(_tree(lines))


def left_branches(lines: Lines, most: int) -> list[tuple[str, set[str]]]:
    """The branches that were left, newest first, at most so many: the last message of each, and
    the uuids of its lines from the beginning on."""
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
    return _with_parallels(_back_from(tree.leaf, tree.parents), tree.heads)


def _tree(lines: Lines) -> _Tree:
    parents: dict[str, str | None] = {}
    heads: dict[str, _Ids] = {}
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
        if line.type in SPOKEN and line.message is not None:
            heads[line.uuid], leaf = _ids_of(line.message), line.uuid
    return _Tree(parents, heads, leaf)


def _back_from(leaf: str | None, parents: dict[str, str | None]) -> set[str]:
    live: set[str] = set()
    while leaf is not None and leaf not in live:
        live.add(leaf)
        leaf = parents.get(leaf)
    return live


def _with_parallels(live: set[str], heads: dict[str, _Ids]) -> set[str]:
    responses = {heads[uuid].response for uuid in live if uuid in heads} - {""}
    live |= {uuid for uuid, ids in heads.items() if ids.response in responses}
    calls = {call for uuid in live if uuid in heads for call in heads[uuid].calls}
    live |= {uuid for uuid, ids in heads.items() if not calls.isdisjoint(ids.answered)}
    return live
