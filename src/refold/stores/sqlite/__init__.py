"""Logs in one SQLite file, artifacts as plain files beside it.

`store` is the store, `database_file` the database file, `log` its rows, `wal` its write-ahead log,
`damage` its repair.
"""

from refold.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
