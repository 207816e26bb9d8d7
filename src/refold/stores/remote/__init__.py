"""A team's server as a store: every operation is a call of its HTTP routes."""

from refold.stores.remote.store import RemoteStore

__all__ = ["RemoteStore"]
