"""refold: a context engine for LLM agents. The log only grows; the page is folded from it, and can
be folded again.

    import refold

    context = refold.open("fix-login", model="claude-sonnet-4-5", system=SYSTEM, tools=TOOLS)
    context.append({"role": "user", "content": "Fix the login test"})
    response = client.messages.create(max_tokens=4096, model="claude-sonnet-4-5", **context.request())
    context.record(response)

Public names are imported when they are first used, so that `import refold` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Context": "refold.engine.context",
    "Config": "refold.config",
    "open": "refold.engine.opening",
    "tool_calls": "refold.dialects",
    "open_store": "refold.stores",
    **dict.fromkeys(
        ("Artifact", "Event", "Message", "Origin", "Slot", "Span", "View"), "refold.core.model"
    ),
    **dict.fromkeys(("Plan", "Receipt"), "refold.core.plan"),
    "Stats": "refold.engine.stats",
    "Notice": "refold.log.notices",
    "Unfolded": "refold.log.unfold",
    **dict.fromkeys(
        (
            "RefoldError",
            "NotFound",
            "Conflict",
            "Invalid",
            "Corrupt",
            "OverBudget",
            "Denied",
            "Unavailable",
        ),
        "refold.errors",
    ),
}

_MODULES = ("aio",)

__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"refold.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'refold' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:
    from refold import aio as aio
    from refold.config import Config as Config
    from refold.core.model import Artifact as Artifact
    from refold.core.model import Event as Event
    from refold.core.model import Message as Message
    from refold.core.model import Origin as Origin
    from refold.core.model import Slot as Slot
    from refold.core.model import Span as Span
    from refold.core.model import View as View
    from refold.core.plan import Plan as Plan
    from refold.core.plan import Receipt as Receipt
    from refold.dialects import tool_calls as tool_calls
    from refold.engine.context import Context as Context
    from refold.engine.opening import open as open
    from refold.engine.stats import Stats as Stats
    from refold.errors import Conflict as Conflict
    from refold.errors import Corrupt as Corrupt
    from refold.errors import Denied as Denied
    from refold.errors import Invalid as Invalid
    from refold.errors import NotFound as NotFound
    from refold.errors import OverBudget as OverBudget
    from refold.errors import RefoldError as RefoldError
    from refold.errors import Unavailable as Unavailable
    from refold.log.notices import Notice as Notice
    from refold.log.unfold import Unfolded as Unfolded
    from refold.stores import open_store as open_store
