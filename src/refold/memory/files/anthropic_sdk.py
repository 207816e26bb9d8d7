"""The memory tool as a class that the tool runner of the Anthropic SDK takes.

The SDK is imported on demand, so refold does not need it. Its base class would build a command from
unchecked input and dispatch it; here the input goes unchanged to `MemoryFiles`, which checks it. An
error becomes the SDK's `ToolError`, and so a result marked as an error. Neighbour: `files`.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any

from refold.errors import Unavailable

if TYPE_CHECKING:
    from refold.memory.files.files import MemoryFiles

COMMANDS = ("view", "create", "str_replace", "insert", "delete", "rename")


def sdk_tool(files: MemoryFiles, *, is_async: bool) -> Any:
    """An instance of the SDK's abstract memory tool, for its plain or its async client."""
    try:
        tools = import_module("anthropic.lib.tools")
    except ImportError as error:
        said = "the Anthropic SDK is not installed, or it has no memory tool"
        raise Unavailable(said, hint="pip install -U anthropic") from error

    def answered(given: Any) -> str:
        # The runner gives the input as it came, a caller perhaps a typed command of the SDK.
        answer = files.call(given.to_dict() if hasattr(given, "to_dict") else given)
        if answer.is_error:
            raise tools.ToolError(answer.text)
        return answer.text

    if is_async:
        return _made(tools.BetaAsyncAbstractMemoryTool, _awaited(answered))
    return _made(tools.BetaAbstractMemoryTool, lambda self, given: answered(given))


def _awaited(answered: Any) -> Any:
    async def call(self: Any, given: Any) -> Any:
        return await asyncio.to_thread(answered, given)

    return call


def _made(base: Any, call: Any) -> Any:
    """A tool of a class of the SDK, all of whose commands go the same way."""
    return type("MemoryTool", (base,), dict.fromkeys((*COMMANDS, "call"), call))()
