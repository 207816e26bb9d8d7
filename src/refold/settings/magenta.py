"""The block `context_management` of the Magenta design, translated to our own settings.

    {"context_management": {"strategy": "importance_based", "max_messages": 50}}

Its strategies become ladders that end in `hide`, so that a page always fits. Its message limits
become `messages_cap`, in addition to the window. With its semantic memory on, facts in hidden
messages are remembered. Vectors are computed on this machine, even if the model's name belongs to a
server: no block of settings sends text anywhere. Its default threshold suits only one family of
embedders, so it means the embedder's own threshold. `unused` reports differences. Neighbour:
`sources` reads the block.
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
SERVERS = "text-embedding-"  # prefix of the names of models that only a server has
# Embedders by the usual names of their models, in lower case.
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
MADE_HERE = "vectors are made on this machine; for that server, pass an `embedder=` to refold.open"
BY_EMBEDDER = "it fits one family of embedders; the threshold of the embedder in use applies"

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
    """The block as settings."""
    block = _checked(given, origin)
    by_summary = block.strategy in ("summarization", "hierarchical")
    return {
        "ladder": _LADDERS[block.strategy],
        "messages_cap": block.summarize_threshold if by_summary else block.max_messages,
        "checkpoint_every": block.checkpoint_interval_messages,
        **_memory_settings(block.semantic_memory, origin),
        "strategy": {
            # Slides in steps: a window that slid with every message would always break the prompt
            # cache.
            "window": {"keep": block.summarize_threshold},
            "importance": {"threshold": block.importance_threshold},
        },
    }


def _memory_settings(block: SemanticMemory, origin: str) -> dict[str, Any]:
    """The memory settings of a block with its memory on."""
    if not block.enabled:
        return {}
    is_default = block.similarity_threshold == USUAL_THRESHOLD
    store = block.vector_store
    return {
        "memory_extract": "keep",
        "memory_embedder": _embedder(block.embedding_model, origin),
        "memory_vectors": _VECTOR_STORES.get(store.lower(), store),
        "memory_threshold": None if is_default else block.similarity_threshold,
    }


def _embedder(name: str, origin: str) -> str:
    """The local embedder for a model of that name."""
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
    """A line for every value of the block that refold handles differently."""
    block = _checked(given, origin).semantic_memory
    if not block.enabled:
        return []
    path = f"{NAME}.semantic_memory"
    lines = []
    if block.embedding_model.lower().startswith(SERVERS):
        lines.append(f"{path}.embedding_model = {block.embedding_model!r}: {MADE_HERE}")
    if block.similarity_threshold == USUAL_THRESHOLD:
        lines.append(f"{path}.similarity_threshold = {USUAL_THRESHOLD}: {BY_EMBEDDER}")
    return lines


def _checked(given: Mapping[str, Any], origin: str) -> MagentaBlock:
    path = f"{origin}: {NAME}"
    check_names(given, path, MagentaBlock.__struct_fields__)
    memory = given.get("semantic_memory")
    if isinstance(memory, Mapping):
        check_names(memory, f"{path}.semantic_memory", SemanticMemory.__struct_fields__)
    try:
        block = decoding.convert(dict(given), MagentaBlock)
        msgspec.json.encode(block)  # every value, including those of disabled settings
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        is_text = isinstance(error, msgspec.ValidationError)
        where = str(error).replace("$.", f"{NAME}.") if is_text else decoding.NOT_TEXT
        raise Invalid(f"{origin}: {where}", hint="see the block in docs/start.md") from error
    if block.strategy not in _LADDERS:
        hint = "one of " + ", ".join(_LADDERS)
        raise Invalid(f"{path}.strategy {block.strategy!r} is not known", hint=hint)
    threshold, most = block.summarize_threshold, block.max_messages
    if min(most, threshold, block.checkpoint_interval_messages) < 1:
        raise Invalid(f"{path} counts messages from 1", hint="use positive numbers")
    if threshold > most:
        limits = f"summarize_threshold {threshold} is above max_messages {most}"
        raise Invalid(f"{path}.{limits}", hint="a summary must come before the page is full")
    for name, score in (
        ("importance_threshold", block.importance_threshold),
        ("semantic_memory.similarity_threshold", block.semantic_memory.similarity_threshold),
    ):
        if not 0 <= score <= 1:
            raise Invalid(f"{path}.{name} is {score}", hint="a score lies between 0 and 1")
    return block
