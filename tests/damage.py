"""Conversations whose logs are damaged in one place, in stores that keep files."""

from __future__ import annotations

import os

import apsw

from refold.stores.sqlite.log import SEQ_BITS


def spoil(url: str, id: str, seq: int = 2) -> None:
    """Makes one event unreadable, and takes the bookmark away, which would do without it."""
    kind, _, place = url.partition(":")
    if kind == "files":
        _spoil_line(os.path.join(place, "conversations", id), seq)
        return
    connection = apsw.Connection(place)
    [(number,)] = connection.execute(
        "SELECT number FROM conversations WHERE id = ?", (id,)
    ).fetchall()
    connection.execute(
        "UPDATE events SET body = x'00' WHERE place = ?", ((number << SEQ_BITS) + seq,)
    )
    connection.execute("DELETE FROM bookmarks WHERE number = ?", (number,))
    connection.close()


def _spoil_line(folder: str, seq: int) -> None:
    with open(os.path.join(folder, "messages.jsonl"), "r+b") as file:
        lines = file.read().split(b"\n")
        lines[seq - 1] = b"#" * len(lines[seq - 1])
        file.seek(0)
        file.write(b"\n".join(lines))
    for name in os.listdir(folder):
        if name.startswith("bookmark"):
            os.unlink(os.path.join(folder, name))
