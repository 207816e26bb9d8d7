"""An answer on its way to the client: every chunk as it comes.

Where the page is ours, the end waits until the log knows that it was answered: a proxy that is
killed right after an answer would else not know under which front that was thought. A client reads
a stream as it comes and needs the rest of any other body at once, so what waits is the end of a
stream, or the last chunk. It waits for a moment, never for good. Neighbours: `app` sends, `usage`
reads along.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from refold.edges.proxy.own_answer import Send
from refold.edges.proxy.upstream import Answer, end_to_end
from refold.edges.proxy.usage import UsageReader

END_WAIT_S = 2.0

Finish = Callable[[], asyncio.Task[None] | None]


async def finished(finish: Finish) -> None:
    """Waits for what is to be in the log before the client has the end of an answer."""
    finishing = finish()
    if finishing is not None:
        await asyncio.wait([finishing], timeout=END_WAIT_S)


async def relay(
    response: Answer, reader: UsageReader | None, send: Send, finish: Finish | None = None
) -> None:
    """Sends an answer chunk by chunk, with a copy for whoever reads its usage; its end waits until
    it is finished, if that is asked."""
    headers = [(name.lower(), value) for name, value in end_to_end(response.headers.raw)]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    is_stream = "text/event-stream" in response.headers.get("content-type", "")
    last = b""
    async for chunk in response.chunks():
        if reader is not None:
            reader.feed(chunk)
        if finish is not None and not is_stream:
            last, chunk = chunk, last
        if chunk:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    if finish is not None:
        await finished(finish)
    await send({"type": "http.response.body", "body": last, "more_body": False})
