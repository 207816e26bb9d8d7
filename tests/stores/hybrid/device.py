"""A device as a process: it talks in two conversations, one of all devices and one of its own, and
syncs, until it is killed. Every message that was acknowledged is printed.

`python -m tests.stores.hybrid.device URL NAME SECONDS`: a name is `device.life`.
"""

from __future__ import annotations

import sys
import time

import refold
from refold.errors import RefoldError
from refold.stores import open_store, synced_of

PAUSE_S = 0.01  # a model would take longer
LARGE = "a line of an output that is too large for a page\n" * 40


def main(url: str, name: str, seconds: float) -> None:
    store = open_store(url)
    synced = synced_of(store)
    assert synced is not None
    own = f"own-{name.partition('.')[0]}"
    opened = {
        id: refold.open(id, store=store, model="gpt-4o", window=10**6) for id in ("talk", own)
    }
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        time.sleep(PAUSE_S)
        number += 1
        text = f"{name} {number}"
        context = opened[own if number % 4 == 0 else "talk"]
        context.append({"role": "user", "content": text})
        print(text, flush=True)
        if number % 7 == 0:
            context.artifacts.put(f"{text}\n{LARGE}", name=text)
        if number % 5 == 0:
            context.note("progress-note", {"at": text})
        if number % 8 == 0:
            try:
                synced.sync()
            except RefoldError as error:
                print(f"! {error}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
