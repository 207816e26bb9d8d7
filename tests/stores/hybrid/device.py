"""A device as a process: it talks in one conversation and syncs, until it is killed. Every message
that was acknowledged is printed."""

from __future__ import annotations

import sys
import time

import refold
from refold.errors import RefoldError
from refold.stores import open_store, synced_of


def main(url: str, name: str, seconds: float) -> None:
    store = open_store(url)
    synced = synced_of(store)
    context = refold.open("talk", store=store, model="gpt-4o", window=10**6)
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        number += 1
        text = f"{name} {number}"
        context.append({"role": "user", "content": text})
        store.flush()
        print(text, flush=True)
        if number % 3 == 0:
            try:
                synced.sync()
            except RefoldError as error:
                print(f"! {error}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
