"""What no model is shown and no tool writes to: the store in use, and what refold keeps for this
user (their own store, their logins, what they allowed, their memories).

Neighbours: `stores.own_paths` knows the files of a store; `refold context add`, its siblings and
the tools of a chat ask here.
"""

from __future__ import annotations

import os
from collections.abc import Container

from refold.checked import quoted
from refold.errors import Denied, RefoldError
from refold.settings.trust import data_folder
from refold.stores import own_paths
from refold.stores.protocol import Store


def guarded(store: Store) -> Container[str]:
    """The paths that belong to a store, or to refold itself."""
    try:
        return own_paths(store, also=[str(data_folder(os.environ) / "refold")])
    except RefoldError:
        return own_paths(store)  # nobody knows a home, so nothing is kept there


def refuse_guarded(path: str, guards: Container[str]) -> None:
    """Denied for a path that is guarded."""
    if path in guards:
        hint = "what a conversation holds is shown by refold show and refold export"
        raise Denied(f"{quoted(path)} belongs to the store", hint=hint)
