"""The memory tool as a class for the tool runner of the Anthropic SDK.

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
        problem = "the Anthropic SDK is not installed, or it has no memory tool"
        raise Unavailable(problem, hint="pip install -U anthropic") from error

    def call(self: Any, given: Any) -> str:
        # The runner passes raw input; a caller may pass a typed command of the SDK.
        answer = files.call(given.to_dict() if hasattr(given, "to_dict") else given)
        if answer.is_error:
            raise tools.ToolError(answer.text)
        return answer.text

    async def call_async(self: Any, given: Any) -> str:
        return await asyncio.to_thread(call, self, given)

    base = tools.BetaAsyncAbstractMemoryTool if is_async else tools.BetaAbstractMemoryTool
    # All commands share one method, which dispatches on the input.
    methods = dict.fromkeys((*COMMANDS, "call"), call_async if is_async else call)
    return type("MemoryTool", (base,), methods)()
