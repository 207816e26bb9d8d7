"""Finding one's way in the tree of a `files:` store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from refold.core import codec, ids
from refold.core.model import Artifact, Event
from refold.stores.contract.kit import sealed
from refold.stores.files import FilesStore


def log_of(root: Path, id: str = "log") -> Path:
    return root / "conversations" / id / "messages.jsonl"


def metadata_of(root: Path, id: str = "log") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "conversations" / id / "metadata.json").read_bytes())
    return found


def tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def artifact_event(
    store: FilesStore, content: bytes, before: Event | None = None, name: str = "out.txt"
) -> Event:
    digest = store.put([content], suffix=".txt")
    body = Artifact(
        id=ids.artifact_id(digest), digest=digest, type="file", name=name, size_bytes=len(content)
    )
    return sealed(before, [codec.encode(body)], kind="artifact")[0]
