"""The commands of the proxy: serving it, and what it saved. What `proxy` and `run` both take is
here."""

from __future__ import annotations

from msgspec import Meta

FOLD = Meta(description="Fold what is sent, and not only say what that would save.")
TOOLS = Meta(
    description="Give the model refold's own tools, and answer them inside; with this it folds."
)
NATIVE = Meta(
    description="With --fold: let the provider write compactions, where it offers that; else fold."
)
WINDOW = Meta(description="The window to fold into, in tokens; the model's unless given.", ge=1_000)
