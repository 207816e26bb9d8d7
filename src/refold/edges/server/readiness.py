"""Whether the server can serve: its store is asked, and an answer that does not come soon is a no.

Whoever balances load asks often, and a store that is away may take long to say so: one question is
under way at a time, in one thread, and all who ask meanwhile wait for it, but not for long.
Neighbour: `app` answers with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from refold.errors import Unavailable

ANSWER_S = 2.0
AGAIN_S = 1.0


class Readiness:
    """Asks by `ask`, which raises if the store is away."""

    def __init__(self, ask: Callable[[], Awaitable[object]]) -> None:
        self._ask = ask
        self._asking: asyncio.Task[object] | None = None

    async def check(self) -> None:
        """Returns if the store answers; Unavailable if not, or not in time."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._asked())
            # Nobody may be left to hear how it ended.
            self._asking.add_done_callback(lambda task: task.cancelled() or task.exception())
        asking = self._asking
        await asyncio.wait([asking], timeout=ANSWER_S)
        if not asking.done():
            said = f"the store has not answered for {ANSWER_S:g} seconds"
            raise Unavailable(said, retry_after_s=AGAIN_S)
        asking.result()

    async def _asked(self) -> object:
        return await self._ask()

    async def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
