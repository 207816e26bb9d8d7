"""How the proxy folds: whether, into which window, and with which settings of a conversation.

A window that is smaller than the model's is a wish, not a limit: what is sent may fill it, and the
answer has room above it. Every call pays for its page, so the page of a short conversation stays
small, and grows with what was said. An agent that reads much at once would fill it every few calls,
and each compaction costs the front: the next one waits until the page is full, and goes further.
What a user says of any of this stands alone. Neighbours: `book` opens conversations with it, and
notes the limits for a shell beside it (`settings.noted`).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from refold.artifacts.intake import whole_tokens
from refold.config import NUMBER_MAX
from refold.core.budget import RESERVE_MAX
from refold.core.model import NATIVE
from refold.edges.proxy.body import Asked
from refold.settings.noted import are_said
from refold.settings.sources import loaded
from refold.tokens.models import model_info

WISH_FROM = 40_000  # tokens: in a smaller window, a gist needs all the room there is
WISHED: dict[str, Any] = {
    "reserve_tokens": 0,
    "target_ratio": 0.38,
    "compact_every": 28,
    "compact_share": 0.5,
}


class Folding(Struct, frozen=True, kw_only=True):
    """Whether requests are folded, by whom first, and into which window; None is the model's. With
    `tools`, conversations that begin now have ours."""

    folds: bool = False
    native: bool = False  # what is due is asked of the provider first
    tools: bool = False
    window: int | None = None
    config: dict[str, Any] = {}

    def settings(self, asked: Asked, *, offloads: bool) -> dict[str, Any]:
        """What the proxy needs of the settings: the client has its own cache marks and roles, and
        nothing is put on its page that it did not say."""
        ladder = loaded(self.config)[0].ladder
        asks = {"ladder": tuple(dict.fromkeys((NATIVE, *ladder)))} if self.native else {}
        return {
            **(WISHED if self._is_wish(asked) else {}),
            **self.config,
            **asks,
            "dialect": asked.dialect,
            "cache": False,
            "memory_tokens": 0,
            "alternate_roles": False,
            "offload_tokens": self.large_tokens(asked) if offloads else NUMBER_MAX,
        }

    def _is_wish(self, asked: Asked) -> bool:
        """Whether the model has room for an answer above the window, and the user says nothing of
        when a compaction comes and how far it goes."""
        window, info = self.window, model_info(asked.model or None)
        if window is None or not info.known or window < WISH_FROM:
            return False
        answer = min(info.output or RESERVE_MAX, RESERVE_MAX)
        return not are_said(*loaded(self.config)) and window + answer <= info.window

    def large_tokens(self, asked: Asked) -> int:
        """The size from which a result is a stub at its first send: as the user says, else as in
        any message of a caller's own. An agent behind a base URL has no tool that gives back what
        is out of its sight: what is smaller leaves with a compaction, which quotes it."""
        said = loaded(self.config)[0].offload_tokens
        window = self.window or model_info(asked.model or None).window
        return whole_tokens(window) if said is None else said
