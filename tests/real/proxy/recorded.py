"""Recorded sessions of real agents, as the lists that those agents sent: where they are, if they
are here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import refold
from refold.config import Config
from refold.edges.importers.importer import import_file

KINDS = {"anthropic": "claude-code", "openai_responses": "codex"}
ABSENT = "no recorded sessions here: REFOLD_BENCH_DATA names their folder"
Message = dict[str, Any]


def folder() -> Path | None:
    """The folder of the data: REFOLD_BENCH_DATA, or beside this repository; None if it has no
    raw sessions."""
    beside = Path(__file__).resolve().parents[4] / "shared" / "data"
    place = Path(os.environ.get("REFOLD_BENCH_DATA") or beside)
    return place if (place / "raw").is_dir() else None


def recorded(
    dialect: str, limit: int = 100, place: Path | None = None
) -> Iterator[tuple[str, list[Message]]]:
    """The name of each session, and its messages in the dialect."""
    place = place or folder()
    paths = sorted(place.glob(f"raw/{KINDS[dialect]}/*.gz")) if place else []
    for path in paths[:limit]:
        store = refold.open_store("memory:")
        import_file(store, Config(), path)
        for about in list(store.conversations()):
            with refold.open(about.id, store=store) as context:
                yield about.id, [one.message for one in context.page(dialect)]
        store.close()
