"""What a program makes known to refold by name, for as long as it runs: its own strategies, tools,
kinds of outputs, counters and models.

    refold.register.strategy("mine", mine)
    refold.register.models({"my-model": {"window": 64_000}})

Registering a name again replaces what it stood for. Neighbours: each function hands over to the
room that keeps the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refold.artifacts import stub as tools
from refold.artifacts.kinds import registry as kinds
from refold.artifacts.kinds.registry import LinesFit, TellingLines
from refold.artifacts.stub import Describer, Summarizer
from refold.checked import checked
from refold.memory import external_vectors as vector_stores
from refold.memory.external_vectors import OpenVectorStore
from refold.strategies import registry
from refold.strategies.brief import Strategy
from refold.tokens import counter as choice
from refold.tokens import models as model_table
from refold.tokens.counter import Count

__all__ = ["counter", "kind", "models", "strategy", "tool", "vector_store"]


@checked
def strategy(name: str, function: Strategy, *, settings: registry.Settings | None = None) -> None:
    """Makes a strategy usable by name. `settings` are those it takes, with their types
    (`{"tokens_max": int}`): any other is refused then. Without them it takes anything."""
    registry.register(name, function, settings=settings)


@checked
def tool(
    name: str, *, describe: Describer | None = None, summarize: Summarizer | None = None
) -> None:
    """Says how the artifacts of a tool are named and summed up in their stubs; `*` stands for
    every tool that has nothing of its own. Both are called while a result is appended, so they
    should be quick."""
    tools.register(name, describe=describe, summarize=summarize)


@checked
def kind(name: str, *, fits: LinesFit, telling: TellingLines) -> None:
    """Makes a kind of output known, which is asked before all others: `fits` is given the lines of
    a text and says whether it is of the kind, `telling` gives the places of the lines that the stub
    should show, counted from 0, best first. Both are called while a result is appended."""
    kinds.register(name, fits, telling)


@checked
def counter(model: str, function: Count) -> None:
    """Counts the tokens of conversations with this model, or one whose name begins with it, by
    the function."""
    choice.register_counter(model, function)


@checked
def vector_store(name: str, opener: OpenVectorStore) -> None:
    """Makes a vector store for memories usable by name (`memory_vectors`). `opener` is given a
    folder, or an empty text for memory, and gives a `refold.types.VectorStore`."""
    vector_stores.register(name, opener)


@checked
def models(rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Adds rows in the form of `models.json` to the model table, or replaces its own."""
    model_table.register_models(rows)
