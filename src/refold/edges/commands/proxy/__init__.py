"""The commands of the proxy: serving it, and what it saved. What `proxy` and `run` both take is
here."""

from __future__ import annotations

from msgspec import Meta

FOLD = Meta(description="Fold what is sent, instead of only saying what that would save.")
TOOLS = Meta(
    description="Give the model refold's own tools, answered inside the proxy; implies --fold."
)
NATIVE = Meta(
    description="With --fold: let the provider write compactions, if it offers that; else fold."
)
WINDOW = Meta(description="The window to fold into, in tokens; by default the model's.", ge=1_000)
