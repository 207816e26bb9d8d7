"""The commands of syncing, and what they share: which two stores are meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Meta

from refold.errors import Invalid
from refold.stores import synced_of
from refold.stores.protocol import SyncedStore

if TYPE_CHECKING:
    from refold.edges.commands.session import Session

FAR = Meta(description="The far store, if the store's URL names none.")
KEY = Meta(
    description="The key file, if the store's URL names none.",
    extra={"metavar": "FILE"},
)


def synced_store(session: Session, far: str | None, key: str | None = None) -> SyncedStore:
    """The store asked for, as one that is synced: with the far store that it names, or with this
    one, or by this key. What becomes of secrets stays as it says."""
    target = session.target
    named = synced_of(target)
    if far is not None or (key is not None and named is not None):
        near = getattr(target, "near", target)
        url = f"hybrid:{near.url}?far={far or (named.far_url if named else '')}"
        url += f"&redact={named.redact}" if named and named.redact else ""
        url += f"&key={key}" if key is not None else ""
        target = session.open_store(url, creates=True)
    elif key is not None:
        hint = f"name both: refold sync --far URL --key FILE, or hybrid:{target.url}?far=URL&key="
        raise Invalid("--key is for a far store, and none is named", hint=hint)
    store = synced_of(target)
    if store is None:
        hint = f"refold sync --far URL, or name a store that has one: hybrid:{target.url}?far=URL"
        raise Invalid(f"{target.url} is not synced with another store", hint=hint)
    return store
