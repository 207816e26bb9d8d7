"""The block `context_management` of the Magenta design, as it stands there, in our own settings.

    {"context_management": {"strategy": "importance_based", "max_messages": 50}}

Its strategies become ladders that end in `hide`, so that a page always fits. It counts messages
where we count tokens: its limits become `messages_cap`, beside the window, and do nothing while the
window is nearly empty. Where its semantic memory is on, what compactions take off the page is
remembered. Vectors are made on this machine, also for the names of models that are servers: no
block of settings sends texts anywhere. Its vector store is used as named. Its threshold is that of
one family of embedders, so the usual one means what the embedder needs; `unused` says what is done
otherwise. Neighbour: `sources` reads it wherever a setting may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from refold import decoding
from refold.checked import quoted
from refold.config import check_names
from refold.errors import Invalid, install_hint

NAME = "context_management"
SERVERS = "text-embedding-"  # how the names of models begin that only a server has
# Models by their usual names, without case, and what makes vectors here.
_EMBEDDERS = {
    "": "",
    "all-minilm-l6-v2": "semantic-large",
    "all-minilm": "semantic-large",
    "wordllama": "semantic",
    "semantic": "semantic",
    "semantic-large": "semantic-large",
    "none": "off",
    "off": "off",
}
_OWN_INDEX = ("", "sqlite", "local", "memory", "in_memory", "in-memory", "refold")
_VECTOR_STORES = {**dict.fromkeys(_OWN_INDEX, ""), "chroma": "chroma", "chromadb": "chroma"}
USUAL_THRESHOLD = 0.7
MADE_HERE = "vectors are made on this machine; for that server, give refold.open an `embedder=`"
BY_EMBEDDER = "it fits one family of embedders: the least is what the embedder in use needs"

NEARLY_EMPTY = 0.02  # of the window: below it there is nothing to gain

_LADDERS: dict[str, tuple[str, ...]] = {
    "sliding_window": ("window", "hide"),
    "summarization": ("summarize", "gist", "hide"),
    "importance_based": ("importance", "gist", "hide"),
    "hierarchical": ("dedup", "hierarchical", "hide"),
}


class SemanticMemory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool = False
    embedding_model: str = ""
    vector_store: str = ""
    similarity_threshold: float = USUAL_THRESHOLD


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
        **_memory_settings(block.semantic_memory, origin),
        "strategy": {
            # A window that slid with every message would break the prompt cache every time: it
            # slides in steps.
            "window": {"keep": block.summarize_threshold},
            "importance": {"threshold": block.importance_threshold},
        },
    }


def _memory_settings(block: SemanticMemory, origin: str) -> dict[str, Any]:
    """The settings of a memory that is on."""
    if not block.enabled:
        return {}
    usual = block.similarity_threshold == USUAL_THRESHOLD
    store = block.vector_store
    return {
        "memory_extract": "keep",
        "memory_embedder": _embedder(block.embedding_model, origin),
        "memory_vectors": _VECTOR_STORES.get(store.lower(), store),
        "memory_threshold": None if usual else block.similarity_threshold,
    }


def _embedder(name: str, origin: str) -> str:
    """What makes vectors here for a model of that name."""
    plain = name.lower().removeprefix("sentence-transformers/")
    if name.startswith("bert:"):
        return name
    if plain.startswith(SERVERS):
        return ""
    if plain in _EMBEDDERS:
        return _EMBEDDERS[plain]
    hint = (
        "known: text-embedding-*, all-MiniLM-L6-v2 (the extra semantic-large), "
        "wordllama (the extra semantic), bert:FOLDER, none; any other is a function "
        f"for `embedder=`; {install_hint('semantic')}"
    )
    place = f"{origin}: {NAME}.semantic_memory.embedding_model"
    raise Invalid(f"{place} {quoted(name)} is not known", hint=hint)


def unused(given: Mapping[str, Any], origin: str) -> list[str]:
    """What the block asks for and we do otherwise, in words."""
    block = _checked(given, origin).semantic_memory
    if not block.enabled:
        return []
    place = f"{NAME}.semantic_memory"
    told = []
    if block.embedding_model.lower().startswith(SERVERS):
        told.append(f"{place}.embedding_model = {block.embedding_model!r}: {MADE_HERE}")
    if block.similarity_threshold == USUAL_THRESHOLD:
        told.append(f"{place}.similarity_threshold = {USUAL_THRESHOLD}: {BY_EMBEDDER}")
    return told


def _checked(given: Mapping[str, Any], origin: str) -> MagentaBlock:
    _check_block_names(given, origin)
    try:
        block = decoding.convert(dict(given), MagentaBlock)
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
