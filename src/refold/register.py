"""Registration of a program's own strategies, tools, kinds of outputs, counters, vector stores and
models, by name, for this process.

    refold.register.strategy("mine", mine)
    refold.register.models({"my-model": {"window": 64_000}})

A second registration of a name replaces the first. Neighbours: each function calls the room that
keeps the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refold.artifacts import stub as tools
from refold.artifacts.kinds import registry as kinds
from refold.artifacts.kinds.registry import LinesFit, TellingLines
from refold.artifacts.stub import Describer, Summarizer
from refold.checked import checked
from refold.memory import vector_stores as vector_stores
from refold.memory.vector_stores import OpenVectorStore
from refold.strategies import registry
from refold.strategies.brief import Strategy
from refold.tokens import counter as choice
from refold.tokens import models as model_table
from refold.tokens.counter import Count

__all__ = ["counter", "kind", "models", "strategy", "tool", "vector_store"]


@checked
def strategy(name: str, function: Strategy, *, settings: registry.Settings | None = None) -> None:
    """Registers a strategy. `settings` are the types of its settings (`{"tokens_max": int}`); other
    names are refused then. Without them, it accepts any."""
    registry.register(name, function, settings=settings)


@checked
def tool(
    name: str, *, describe: Describer | None = None, summarize: Summarizer | None = None
) -> None:
    """Registers the name and summary of a tool's artifacts in their stubs; `*` is for all other
    tools. Both functions are called while a result is appended, so they should be quick."""
    tools.register(name, describe=describe, summarize=summarize)


@checked
def kind(name: str, *, fits: LinesFit, telling: TellingLines) -> None:
    """Registers a kind of output, which is tried before all others: `fits` takes the lines of some
    text and returns whether it is of this kind, `telling` returns the indexes of the lines for the
    stub, best first. Both are called while a result is appended."""
    kinds.register(name, fits, telling)


@checked
def counter(model: str, function: Count) -> None:
    """Registers a counter for a model, and for models whose name begins with this one."""
    choice.register_counter(model, function)


@checked
def vector_store(name: str, opener: OpenVectorStore) -> None:
    """Registers a vector store for memories (`memory_vectors`). `opener` takes a folder, or an
    empty string for a store in memory, and returns a `refold.types.VectorStore`."""
    vector_stores.register(name, opener)


@checked
def models(rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds rows in the form of `models.json` to the model table, or replaces rows."""
    model_table.register_models(rows)
