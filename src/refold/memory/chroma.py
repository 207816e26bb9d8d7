"""Vectors of memories in Chroma, a database for vectors (the package `chromadb`).

Chroma gets only ids and numbers: it embeds nothing, so it downloads nothing, and its telemetry is
off. It works in a folder of its own beside the store. Neighbour: `vector_stores` has the
protocol.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

NAME = "refold-memory"
BATCH = 1_000  # chroma refuses more than a few thousand at once
GROUP = "group"


class Chroma:
    """One collection, in a folder or in memory; satisfies `VectorStore`."""

    def __init__(self, folder: str) -> None:
        chromadb: Any = import_module("chromadb")
        settings = import_module("chromadb.config").Settings(anonymized_telemetry=False)
        self._client: Any = (
            chromadb.PersistentClient(path=folder, settings=settings)
            if folder
            else chromadb.EphemeralClient(settings=settings)
        )
        # In memory, all clients of a process share their collections, so the name must be unique.
        self._name = NAME if folder else f"{NAME}-{secrets.token_hex(8)}"
        self._collection = self._created_collection()

    def _created_collection(self) -> Any:
        return self._client.get_or_create_collection(
            self._name, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )

    def add(self, group: int, vectors: Mapping[str, Sequence[float]]) -> None:
        ids = list(vectors)
        for at in range(0, len(ids), BATCH):
            some = ids[at : at + BATCH]
            self._collection.upsert(
                ids=some,
                embeddings=[list(map(float, vectors[id])) for id in some],
                metadatas=[{GROUP: group}] * len(some),
            )

    def nearest(
        self, group: int, vector: Sequence[float], limit: int
    ) -> Iterable[tuple[str, float]]:
        if not self._collection.count():
            return []
        found = self._collection.query(
            query_embeddings=[list(map(float, vector))],
            n_results=limit,
            where={GROUP: group},
            include=["distances"],
        )
        return [(id, 1.0 - far) for id, far in zip(found["ids"][0], found["distances"][0])]

    def remove(self, group: int, ids: Sequence[str]) -> None:
        for at in range(0, len(ids), BATCH):
            self._collection.delete(ids=list(ids[at : at + BATCH]), where={GROUP: group})

    def clear(self) -> None:
        self._client.delete_collection(self._name)
        self._collection = self._created_collection()

    def close(self) -> None:
        self._client.close()
