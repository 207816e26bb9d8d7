"""The block `context_management` of the Magenta design, as it stands there, said in settings of
ours.

    {"context_management": {"strategy": "importance_based", "max_messages": 50, "summarize_threshold": 40}}

Its strategies become ladders that end in `hide`, so that a page always fits. It counts messages
where we count tokens: its limits become `messages_cap`, beside the window. What it says of semantic
memory (a model, a database, a threshold) is not ours to follow, and `unused` says so. Neighbour:
`settings` reads it wherever a setting may stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from refold.config import check_names
from refold.errors import Invalid

NAME = "context_management"
INSTEAD = "vectors are made by `embedder=`, kept beside the store and used by `search`"

_LADDERS: dict[str, tuple[str, ...]] = {
    "sliding_window": ("window", "hide"),
    "summarization": ("summarize", "gist", "hide"),
    "importance_based": ("importance", "gist", "hide"),
    "hierarchical": ("dedup", "gist", "hide"),
}


class SemanticMemory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = False
    embedding_model: str = ""
    vector_store: str = ""
    similarity_threshold: float = 0.7


class Block(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    strategy: str = "importance_based"
    max_messages: int = 50
    summarize_threshold: int = 40
    importance_threshold: float = 0.6
    checkpoint_interval_messages: int = 10
    semantic_memory: SemanticMemory = SemanticMemory()


def settings_of(given: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """The settings that the block means."""
    block = _checked(given, origin)
    by_summary = block.strategy in ("summarization", "hierarchical")
    return {
        "ladder": _LADDERS[block.strategy],
        "messages_cap": block.summarize_threshold if by_summary else block.max_messages,
        "checkpoint_every": block.checkpoint_interval_messages,
        "strategy": {
            # A window that slid with every message would break the prompt cache every time: it
            # slides in steps.
            "window": {"keep": block.summarize_threshold},
            "importance": {"threshold": block.importance_threshold},
        },
    }


def unused(given: Mapping[str, Any], origin: str) -> list[str]:
    """What the block asks for and we do otherwise, in words."""
    if not _checked(given, origin).semantic_memory.enabled:
        return []
    asked = {name: value for name, value in given["semantic_memory"].items() if name != "enabled"}
    return [
        f"{NAME}.semantic_memory.{name} = {value!r}: {INSTEAD}" for name, value in asked.items()
    ]


def _checked(given: Mapping[str, Any], origin: str) -> Block:
    check_names(given, f"{origin}: {NAME}", Block.__struct_fields__)
    if isinstance(memory := given.get("semantic_memory"), Mapping):
        check_names(memory, f"{origin}: {NAME}.semantic_memory", SemanticMemory.__struct_fields__)
    try:
        block = msgspec.convert(dict(given), Block)
    except msgspec.ValidationError as error:
        where = str(error).replace("$.", f"{NAME}.")
        raise Invalid(f"{origin}: {where}", hint="see the block in docs/start.md") from error
    return _bounded(block, origin)


def _bounded(block: Block, origin: str) -> Block:
    if block.strategy not in _LADDERS:
        hint = "one of " + ", ".join(_LADDERS)
        raise Invalid(f"{origin}: {NAME}.strategy {block.strategy!r} is not known", hint=hint)
    if min(block.max_messages, block.summarize_threshold, block.checkpoint_interval_messages) < 1:
        raise Invalid(f"{origin}: {NAME} counts messages from 1", hint="give positive numbers")
    if block.summarize_threshold > block.max_messages:
        limits = f"summarize_threshold {block.summarize_threshold} is above max_messages {block.max_messages}"
        raise Invalid(
            f"{origin}: {NAME}.{limits}", hint="a summary must come before the page is full"
        )
    for name, ratio in (
        ("importance_threshold", block.importance_threshold),
        ("semantic_memory.similarity_threshold", block.semantic_memory.similarity_threshold),
    ):
        if not 0 <= ratio <= 1:
            raise Invalid(
                f"{origin}: {NAME}.{name} is {ratio}", hint="a score lies between 0 and 1"
            )
    return block
