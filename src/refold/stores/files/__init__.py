"""Logs as a readable tree of plain files.

`store` is the store, `tree` its names and locks, `conversation_folder` one conversation, `log` its
lines.
"""

from refold.stores.files.store import FilesStore

__all__ = ["FilesStore"]
