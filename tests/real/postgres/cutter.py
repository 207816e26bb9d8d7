"""A wire that cannot be trusted: what is sent to one port goes to one of several others, late, cut
off in the middle, or not at all.

Each connection draws its fate when it is made: so many bytes in all, and then it is closed or
reset; a pause before each piece. `heal` lets everything through from then on, `cut` ends every
connection at once. It runs in a thread, on loopback, and ends with `stop`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import Coroutine, Sequence
from typing import Any

PIECE_BYTES = 4_096
PAUSE_S_MAX = 0.1
FATES = ("whole", "whole", "slow", "closed", "reset")
WHOLE_BYTES, FATAL_BYTES = 1 << 60, 40_000
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: the rest is dropped, the other side is told so


class Cutter:
    """Listens on `port`."""

    def __init__(self, targets: Sequence[int], seed: int) -> None:
        self._targets, self._chance = targets, random.Random(seed)
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_healed = False
        self.connections = self.faults = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._done(asyncio.start_server(self._carry, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def _done(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def heal(self) -> None:
        self._is_healed = True
        self.cut()

    def cut(self) -> None:
        """Resets every connection that there is."""
        self._done(self._cut())

    async def _cut(self) -> None:
        for writer in [*self._writers]:
            _reset(writer)

    def stop(self) -> None:
        self._done(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        await self._cut()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        fate = "whole" if self._is_healed else self._chance.choice(FATES)
        self.faults += fate != "whole"
        try:
            port = self._chance.choice(self._targets)
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            _reset(writer)
            return
        ends = {writer, back}
        self._writers |= ends
        wire = _Wire(fate, self._chance)
        try:
            await asyncio.wait(
                [
                    asyncio.create_task(wire.carry(reader, back)),
                    asyncio.create_task(wire.carry(there, writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            self._writers -= ends
            for one in ends:
                _reset(one) if fate == "reset" else one.close()


class _Wire:
    """Both directions of one connection, and what is left of its life in bytes."""

    def __init__(self, fate: str, chance: random.Random) -> None:
        self._chance, self._is_slow = chance, fate == "slow"
        is_fatal = fate in ("closed", "reset")
        self._left = chance.randrange(FATAL_BYTES) if is_fatal else WHOLE_BYTES

    async def carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while self._left > 0 and (piece := await source.read(PIECE_BYTES)):
                if self._is_slow:
                    await asyncio.sleep(self._chance.uniform(0, PAUSE_S_MAX))
                target.write(piece[: self._left])
                self._left -= len(piece)
                await target.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    plain = writer.get_extra_info("socket")
    if plain is not None:
        with contextlib.suppress(OSError):
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
