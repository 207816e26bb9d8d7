"""Thinking that this server signed, and when it may come back (T1 to T5).

Each block is sealed with the model and account it was made for, a digest of its own text, a chained
digest of everything said before it without thinking, and the block of thinking before it. So a
changed block, a changed front, and a block left out or moved between others are told apart. Blocks
of another model or account are dropped, never refused. Neighbour: `anthropic_compaction` lets the
chain go on behind a summary of this server's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.real.proxy.strict.anthropic_shape import (
    THINKING,
    blocks_of,
    family_of,
    ids_in,
    preserves_thinking,
)
from tests.real.proxy.strict.seals import seal, unseal
from tests.real.proxy.strict.wire import Json, Refusal, digest, objects, unmarked

BETA = "thinking-binding-controls-2026-08-01"


@dataclass(frozen=True)
class Front:
    """What stands before the next block: a digest without thinking, the last thinking (empty if
    there is none), and the last role."""

    said: str
    thought: str = ""
    role: str = ""

    def then(self, role: str, block: Json) -> Front:
        return replace(self, said=digest(self.said, role, unmarked(block)), role=role)


@dataclass
class Judged:
    """The messages the model reads, what was dropped from them, and the front of its answer."""

    front: Front
    messages: list[Json] = field(default_factory=list)
    dropped: list[Json] = field(default_factory=list)


@dataclass(frozen=True)
class Reader:
    """Who reads the thinking: a model, for an account, and what a changed front leads to."""

    model: str
    account: str
    drops: bool = False
    enforces: bool = True


def base_of(request: Json) -> str:
    """A digest of the system prompt and the tools that are not deferred."""
    system = request.get("system") or []
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    tools = [tool for tool in objects(request.get("tools")) if not tool.get("defer_loading")]
    return digest(unmarked(system), unmarked(tools))


def judge(request: Json, reader: Reader, front: Front, messages: list[Json]) -> Judged:
    """Reads messages from a front on. Refusal for thinking that must not come back."""
    if not preserves_thinking(reader.model):
        check_open_loop(request, messages)
    judged = Judged(front)
    offset = len(request["messages"]) - len(messages)
    for index, message in enumerate(messages, start=offset):
        kept = []
        # What a message sets for the turns behind it is said as well.
        if sets := {key: one for key, one in message.items() if key not in ("role", "content")}:
            judged.front = judged.front.then(message["role"], sets)
        for position, block in enumerate(blocks_of(message)):
            place = f"messages.{index}.content.{position}"
            if block.get("type") not in THINKING:
                judged.front = judged.front.then(message["role"], block)
                kept.append(block)
                continue
            note = _note_in(place, block)
            reason = _unreadable(note, reader)
            if reason is None and _is_parted(note, judged.front, reader):
                if not reader.drops:
                    raise Refusal(_bound(place))
                reason = "prefix_binding_mismatch"
            if reason is None:
                judged.front = replace(judged.front, thought=note["id"])
                kept.append(block)
            else:
                judged.dropped.append({"type": "thinking_dropped", "path": place, "reason": reason})
        judged.messages.append({**message, "content": kept})
    return judged


def _note_in(place: str, block: Json) -> Json:
    """T1: what this server sealed in a block. Refusal if it was changed, or made by others."""
    kind = block["type"]
    note = unseal(block.get("signature") if kind == "thinking" else block.get("data"))
    is_whole = note is not None and note.get("id") == _id_of(block, note.get("nonce"))
    if note is None or note.get("kind") != kind or not is_whole:
        raise Refusal(f"{place}: Invalid `signature` in `{kind}` block")
    return note


def _id_of(block: Json, nonce: object) -> str:
    return digest(block["type"], block.get("thinking", ""), nonce)


def _unreadable(note: Json, reader: Reader) -> str | None:
    """T3: why this reader may not read a block; None if it may."""
    if note["account"] != reader.account:
        return "organization_binding_mismatch"
    if note["family"] != family_of(reader.model):
        return "model_binding_mismatch"
    return None


def _is_parted(note: Json, front: Front, reader: Reader) -> bool:
    """T2 and T4: whether what stands before a block is not what stood there, or a block of
    thinking between others is not there. The oldest ones may be left out."""
    if not preserves_thinking(reader.model) or not (reader.enforces or reader.drops):
        return False
    is_out_of_order = bool(front.thought) and note["after"] != front.thought
    return note["front"] != front.said or is_out_of_order


def _bound(place: str) -> str:
    return (
        f"{place}: Invalid `signature` in `thinking` block. The block is bound to a different "
        "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` "
        'to "drop_block".'
    )


def check_open_loop(request: Json, messages: list[Json]) -> None:
    """T5: with manual thinking, every answer of the open tool loop begins with thinking. The user's
    turn joins consecutive messages, so words after results do not close the loop."""
    if (request.get("thinking") or {}).get("type", "disabled") == "disabled":
        return
    is_results = False  # whether the user's turn after a message has results
    for index in range(len(messages) - 1, -1, -1):
        message, before = messages[index], messages[max(index - 1, 0)]
        if message["role"] == "user":
            is_results = is_results or bool(ids_in(message, "tool_result", "tool_use_id"))
            if before["role"] != "user" and not is_results:
                return
        else:
            is_results = False
        if not ids_in(message, "tool_use", "id"):
            continue
        kind = blocks_of(message)[0]["type"]
        if kind not in THINKING:
            raise Refusal(
                f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
                f"found `{kind}`. When `thinking` is enabled, a final `assistant` message must "
                "start with a thinking block."
            )


def signed(content: list[Json], reader: Reader, front: Front) -> list[Json]:
    """An answer as it is sent: its thinking sealed under the front it was made at."""
    made = []
    for position, block in enumerate(content):
        if block["type"] in THINKING:
            block, front = _sealed(block, reader, front, position)
        else:
            front = front.then("assistant", block)
        made.append(block)
    return made


def _sealed(block: Json, reader: Reader, front: Front, position: int) -> tuple[Json, Front]:
    nonce = digest(front.said, front.thought, position)
    id = _id_of(block, nonce)
    note = {"kind": block["type"], "id": id, "nonce": nonce, "front": front.said}
    note |= {"after": front.thought, "account": reader.account, "family": family_of(reader.model)}
    field_name = "signature" if block["type"] == "thinking" else "data"
    return {**block, field_name: seal(note)}, replace(front, thought=id)
