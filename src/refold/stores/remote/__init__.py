"""A team's server as a store: every operation is a call of its HTTP routes."""

from refold.stores.remote.client import place_checked, token_checked
from refold.stores.remote.store import RemoteStore

__all__ = ["RemoteStore", "place_checked", "token_checked"]
