"""A summary that this server writes and signs (X1 to X3).

The block carries the front of the messages it stands for. Where the kept messages go on directly
behind it, with another role, under the same system prompt and tools, the chain goes on as if the
originals were there, so that their thinking stays valid (X2); in any other case the chain begins
with the block, and what was thought before it does not fit any more.
"""

from __future__ import annotations

from tests.real.proxy.strict.anthropic_shape import blocks_of, ids_in, preserves_thinking
from tests.real.proxy.strict.anthropic_thinking import Front, Reader, base_of
from tests.real.proxy.strict.seals import seal, unseal
from tests.real.proxy.strict.wire import Json, Refusal, digest, need, objects

BETA = "compact-2026-09-04"
_EXCLUDED = ("context_management", "stop_sequences", "output_config", "output_format")


def check_blocks(request: Json, betas: str) -> None:
    """X1: at most one block with content, the first of the conversation, as it was returned, in a
    request that names the beta."""
    found = [
        (index, position, block)
        for index, message in enumerate(request["messages"])
        for position, block in enumerate(blocks_of(message))
        if block.get("type") == "compaction" and block.get("content") is not None
    ]
    if not found:
        return
    if len(found) > 1:
        raise _refused("ambiguous", "block_", "more than one `compaction` block with content")
    index, position, block = found[0]
    is_first = (index, position) == (0, 0) and request["messages"][0]["role"] != "system"
    if not is_first:
        raise _refused("misplaced", "block_", "the `compaction` block is not the first block")
    _check_seal(block)
    need(BETA in betas, f"compaction: requires the `{BETA}` value in `anthropic-beta`")
    edits = objects((request.get("context_management") or {}).get("edits"))
    has_edit = any(str(edit.get("type")).startswith("compact_") for edit in edits)
    need(not has_edit, "context_management: a compaction edit cannot follow a `compaction` block")


def _check_seal(block: Json) -> None:
    note = unseal(block.get("signature"))
    if note is None or note.get("kind") != "compaction":
        raise _refused("signature_invalid", "", "the signature does not verify")
    if note["content"] != digest(block["content"]):
        raise _refused("content_mismatch", "", "the content is not what was signed")
    if note["tool_changes"] != digest(block.get("tool_changes")):
        raise _refused("tool_changes_mismatch", "", "the tool changes are not what was returned")


def _refused(code: str, part: str, message: str) -> Refusal:
    return Refusal(f"messages: {message}", code=f"compaction_{part}{code}")


def check_wish(request: Json) -> None:
    """X3: what a request for a summary must not hold."""
    for key in _EXCLUDED:
        need(request.get(key) is None, f"{key}: cannot be combined with `compaction`")
    choice = (request.get("tool_choice") or {}).get("type", "auto")
    need(choice in ("auto", "none"), "tool_choice: cannot be forced in a compaction request")
    if not any(message["role"] in ("user", "assistant") for message in request["messages"]):
        raise _refused("nothing_to_summarize", "", "nothing to summarize")
    if ids_in(request["messages"][-1], "tool_use", "id"):
        raise _refused("incomplete_turn", "", "the last turn is not finished")


def compacted(text: str, reader: Reader, request: Json, front: Front) -> Json:
    """The block that stands for everything before this front."""
    note = {"kind": "compaction", "content": digest(text), "tool_changes": digest([])}
    note |= {"front": front.said, "thought": front.thought, "role": front.role}
    note |= {"base": base_of(request), "keeps": preserves_thinking(reader.model)}
    return {"type": "compaction", "content": text, "signature": seal(note), "tool_changes": []}


def begin(request: Json) -> tuple[Front, list[Json]]:
    """The front at which the messages begin, and the messages behind it."""
    base = base_of(request)
    messages: list[Json] = request["messages"]
    first = blocks_of(messages[0])[0]
    if first.get("type") != "compaction" or first.get("content") is None:
        return Front(base), messages
    note = unseal(first["signature"]) or {}
    rest = blocks_of(messages[0])[1:]
    kept = [{**messages[0], "content": rest}, *messages[1:]] if rest else messages[1:]
    if note["keeps"] and note["base"] == base and kept and _follows(kept[0], note["role"]):
        return Front(note["front"], note["thought"], note["role"]), kept
    return Front(base).then("assistant", first), kept


def _follows(message: Json, role: str) -> bool:
    return message["role"] not in (role, "system")
