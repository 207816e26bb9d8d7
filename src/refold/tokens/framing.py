"""What a provider adds around the texts of a request: delimiters, tool prompts, and its way of
counting media.

Figures are the providers' own where they publish them: OpenAI's are those of its cookbook, which
the API's reported usage confirms to the token; Anthropic states the prompt that it adds for tools.
What nobody publishes is left to calibration. Neighbours: `counter` adds them up, `media` has the
rules for images, `schemas` the text of tools.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from refold.tokens.media import ANY, MediaRule, rule_for
from refold.tokens.models import Model

MESSAGE_TOKENS = 4


class Framing(Struct, frozen=True, kw_only=True):
    """Tokens beside the text: per message, per tool call, per result, and once for having tools.
    `declared`: tools are read as TypeScript, not as JSON."""

    message: int = MESSAGE_TOKENS
    call: int = 0
    result: int = 0
    tools: int = 0
    declared: bool = False
    media: MediaRule = ANY


PLAIN = Framing()
_PROVIDERS = {
    # A call and its result cost 25 tokens where their texts and messages have 19.
    "openai": Framing(call=3, result=3, declared=True),
    "anthropic": Framing(tools=346),
    "gemini": Framing(message=1),
}
FRAMINGS = (PLAIN, *_PROVIDERS.values())


@lru_cache(maxsize=256)
def framing_for(model: Model) -> Framing:
    """The framing of a model's provider, with that model's way of counting media."""
    return replace(
        _PROVIDERS.get(model.provider, PLAIN), media=rule_for(model.provider, model.name)
    )
