"""`refold ui`: the store in a browser, on this machine alone.

The server is `edges.ui`, imported when it runs. What it shows is read from a store that refuses
writes; an act is done once a person has seen its price and confirmed it.
"""

from __future__ import annotations

import webbrowser
from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Result, Screen, command
from refold.edges.commands.session import Session
from refold.settings.sources import default_store


class UiServed(Result, frozen=True, kw_only=True):
    url: str
    store: str

    def show(self, screen: Screen) -> None:
        screen.line(f"{self.url} shows {self.store}.")


@command(
    "ui",
    details="Without --port it takes a free one. Only this machine can reach it, and only the "
    "browser that opens the printed address, which works once. From another machine: "
    "ssh -L PORT:127.0.0.1:PORT HOST. docs/guides/ui.md says more.",
    on="either",
    reads=True,
)
def ui(
    session: Session,
    *,
    port: Annotated[int, Meta(description="The port to listen on.", ge=0, le=65_535)] = 0,
    no_open: Annotated[bool, Meta(description="Do not open a browser.")] = False,
    read_only: Annotated[bool, Meta(description="Offer nothing that changes anything.")] = False,
    check: Annotated[bool, Meta(description="Say whether it could start, and stop there.")] = False,
) -> UiServed:
    from refold.edges.server.connection import listen
    from refold.edges.ui.access import HOST, Access
    from refold.edges.ui.answers import Answers
    from refold.edges.ui.app import serve

    conversation = session.conversation if session.is_named else ""
    url = session.store_url or default_store()
    with listen(HOST, port) as listening:
        access = Access(listening.getsockname()[1])
        served = UiServed(url=f"http://{access.hosts[0]}/", store=url)
        if check:
            return served
        place = f"&s={conversation}" if conversation else ""

        def tell(address: str) -> None:
            if session.screen is not None:
                session.screen.note(f"{address}{place}")

        address = access.address()
        tell(address)
        if session.screen is not None:
            session.screen.note("Enter prints another address; stop with Ctrl-C")
        if not no_open:
            webbrowser.open(f"{address}{place}")
        serve(listening, Answers(url, read_only=read_only), access, tell)
    return served
