"""The block `context_management` of the Magenta design, as it stands there, in our own settings.

    {"context_management": {"strategy": "importance_based", "max_messages": 50}}

Its strategies become ladders that end in `hide`, so that a page always fits. It counts messages
where we count tokens: its limits become `messages_cap`, beside the window, and do nothing while the
window is nearly empty. What it says about
semantic memory (a model, a database, a threshold) is not followed, and `unused` says so. Neighbour:
`sources` reads it wherever a setting may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from refold.config import check_names
from refold.errors import Invalid

NAME = "context_management"
INSTEAD = "vectors are made by `embedder=`, kept beside the store and used by `search`"

NEARLY_EMPTY = 0.02  # of the window: below it there is nothing to gain

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


class MagentaBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
        "crowd_ratio": NEARLY_EMPTY,
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
    place = f"{NAME}.semantic_memory"
    asked = given["semantic_memory"].items()
    return [f"{place}.{name} = {value!r}: {INSTEAD}" for name, value in asked if name != "enabled"]


def _checked(given: Mapping[str, Any], origin: str) -> MagentaBlock:
    _check_block_names(given, origin)
    try:
        block = msgspec.convert(dict(given), MagentaBlock)
    except msgspec.ValidationError as error:
        where = str(error).replace("$.", f"{NAME}.")
        raise Invalid(f"{origin}: {where}", hint="see the block in docs/start.md") from error
    _check_strategy(block, origin)
    _check_counts(block, origin)
    _check_score("importance_threshold", block.importance_threshold, origin)
    similarity = block.semantic_memory.similarity_threshold
    _check_score("semantic_memory.similarity_threshold", similarity, origin)
    return block


def _check_block_names(given: Mapping[str, Any], origin: str) -> None:
    """Refuses a name that the block does not have, also in its inner table."""
    place = f"{origin}: {NAME}"
    check_names(given, place, MagentaBlock.__struct_fields__)
    memory = given.get("semantic_memory")
    if isinstance(memory, Mapping):
        check_names(memory, f"{place}.semantic_memory", SemanticMemory.__struct_fields__)


def _check_strategy(block: MagentaBlock, origin: str) -> None:
    if block.strategy not in _LADDERS:
        hint = "one of " + ", ".join(_LADDERS)
        raise Invalid(f"{origin}: {NAME}.strategy {block.strategy!r} is not known", hint=hint)


def _check_counts(block: MagentaBlock, origin: str) -> None:
    threshold, most = block.summarize_threshold, block.max_messages
    if min(most, threshold, block.checkpoint_interval_messages) < 1:
        raise Invalid(f"{origin}: {NAME} counts messages from 1", hint="give positive numbers")
    if threshold > most:
        limits = f"summarize_threshold {threshold} is above max_messages {most}"
        hint = "a summary must come before the page is full"
        raise Invalid(f"{origin}: {NAME}.{limits}", hint=hint)


def _check_score(name: str, score: float, origin: str) -> None:
    if not 0 <= score <= 1:
        wrong = f"{origin}: {NAME}.{name} is {score}"
        raise Invalid(wrong, hint="a score lies between 0 and 1")
