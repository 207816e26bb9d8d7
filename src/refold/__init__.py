"""refold: a context engine for LLM agents. The log only grows; the page is folded from it, and can
be folded again.

    import refold

    context = refold.open("fix-login", model="claude-sonnet-5-5", system=SYSTEM, tools=TOOLS)
    context.append({"role": "user", "content": "Fix the login test"})
    response = client.messages.create(**context.request())
    context.record(response)

This module has the main calls. `refold.types` has the types of arguments and results,
`refold.register` registers your own parts by name, `refold.conversations` works on whole stored
conversations, `refold.memory` has what outlives them, `refold.aio` is for async programs and
`refold.testing` for tests. Public names are imported when they are first used, so that
`import refold` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refold import aio as aio
    from refold import conversations as conversations
    from refold import memory as memory
    from refold import register as register
    from refold import testing as testing
    from refold import types as types
    from refold.artifacts.artifacts import Artifacts as Artifacts
    from refold.artifacts.cleanup import Cleanup as Cleanup
    from refold.config import Config as Config
    from refold.core.budget import Budget as Budget
    from refold.core.model import Artifact as Artifact
    from refold.core.model import Event as Event
    from refold.core.model import Message as Message
    from refold.core.model import Origin as Origin
    from refold.core.model import Usage as Usage
    from refold.core.model import View as View
    from refold.core.plan import Plan as Plan
    from refold.core.plan import Receipt as Receipt
    from refold.dialects import tool_calls as tool_calls
    from refold.dialects.page import Rendered as Rendered
    from refold.edges.endpoints.writer import endpoint as endpoint
    from refold.engine.context import Context as Context
    from refold.engine.file_versions import FileVersions as FileVersions
    from refold.engine.log_reader import LogReader as LogReader
    from refold.engine.opening import open as open
    from refold.engine.stats import Stats as Stats
    from refold.engine.stats import count_messages as count_messages
    from refold.engine.toolbox import Toolbox as Toolbox
    from refold.errors import Conflict as Conflict
    from refold.errors import Corrupt as Corrupt
    from refold.errors import Denied as Denied
    from refold.errors import Invalid as Invalid
    from refold.errors import NotFound as NotFound
    from refold.errors import OverBudget as OverBudget
    from refold.errors import RefoldError as RefoldError
    from refold.errors import Unavailable as Unavailable
    from refold.log.notices import Notice as Notice
    from refold.memory.entry import MemoryEntry as MemoryEntry
    from refold.memory.semantic import SemanticMemory as SemanticMemory
    from refold.memory.semantic import open_memory as open_memory
    from refold.search.snippets import Hit as Hit
    from refold.stores import open_store as open_store
    from refold.tokens.models import Model as Model
    from refold.tokens.models import model_info as model_info

__version__ = "0.1.0"

_MODULES = ("aio", "conversations", "memory", "register", "testing", "types")
# Public names, by the module that defines them.
_DEFINED_IN = {
    "artifacts.artifacts": "Artifacts",
    "artifacts.cleanup": "Cleanup",
    "config": "Config",
    "core.budget": "Budget",
    "core.model": "Artifact Event Message Origin Usage View",
    "core.plan": "Plan Receipt",
    "dialects": "tool_calls",
    "dialects.page": "Rendered",
    "edges.endpoints.writer": "endpoint",
    "engine.context": "Context",
    "engine.file_versions": "FileVersions",
    "engine.log_reader": "LogReader",
    "engine.opening": "open",
    "engine.stats": "Stats count_messages",
    "engine.toolbox": "Toolbox",
    "errors": "Conflict Corrupt Denied Invalid NotFound OverBudget RefoldError Unavailable",
    "log.notices": "Notice",
    "memory.entry": "MemoryEntry",
    "memory.semantic": "SemanticMemory open_memory",
    "search.snippets": "Hit",
    "stores": "open_store",
    "tokens.models": "Model model_info",
}
_HOMES = {
    name: f"refold.{module}" for module, names in _DEFINED_IN.items() for name in names.split()
}

__all__ = ["__version__", *_MODULES, *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"refold.{name}")
    if name not in _HOMES:
        is_type = name[:1].isupper() and name in import_module("refold.types").__all__
        where = f"; it is refold.types.{name}" if is_type else ""
        raise AttributeError(f"module 'refold' has no attribute {name!r}{where}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
