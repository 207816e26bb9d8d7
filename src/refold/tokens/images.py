"""The providers' formulas for images: from width, height and the asked-for detail to tokens.

Three ideas cover them all: patches of a fixed edge (Claude, newer OpenAI models), tiles of a
shrunken image (older OpenAI models, Gemini 1 and 2), one price whatever the size (Gemini 3). Where
the size is not known the answer errs upwards. The tables are by the beginning of the model's name;
the empty name is what the provider's newest models do. Neighbour: `media` finds the size and the
rule.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor, sqrt

Size = tuple[int, int]
Formula = Callable[[Size | None, str], int]

IMAGE_TOKENS_MAX = 1_600
PIXELS_PER_TOKEN = 750
# Providers shrink an image to this edge before they count it.
EDGE_MAX = 1_568
# OpenAI's price of an image sent with detail "low", where a model has no other.
LOW_TOKENS = 85
# What is taken for the size of an image of which only a link is known.
SIZE_DEFAULT = (1024, 1024)


def area(size: Size | None, detail: str) -> int:
    """Where the provider is not known: Claude's older rule, and OpenAI's low detail."""
    if detail == "low":
        return LOW_TOKENS
    if size is None:
        return IMAGE_TOKENS_MAX
    width, height = _within(size, EDGE_MAX)
    return max(1, min(IMAGE_TOKENS_MAX, ceil(width * height / PIXELS_PER_TOKEN)))


def _within(size: Size, edge_max: float) -> tuple[float, float]:
    shrink = min(1.0, edge_max / max(size))
    return size[0] * shrink, size[1] * shrink


def _claude(edge_max: int, tokens_max: int) -> Formula:
    """A token for every patch of 28 pixels, after the image was shrunk to the longest edge and
    the most tokens."""

    def tokens(size: Size | None, detail: str) -> int:
        if size is None:
            return IMAGE_TOKENS_MAX
        width, height = _within(size, edge_max)
        return min(tokens_max, ceil(width / 28) * ceil(height / 28))

    return tokens


def _patches(factor: float, patches_max: int, high_max: int | None = None) -> Formula:
    """OpenAI's patches of 32 pixels, times what the model counts for each; the image is shrunk
    until they are few enough."""

    def tokens(size: Size | None, detail: str) -> int:
        if size is None:
            return max(IMAGE_TOKENS_MAX, tokens(SIZE_DEFAULT, detail))
        most = {"low": 256, "high": high_max or patches_max}.get(detail, patches_max)
        return ceil(_patches_of(size, most) * factor)

    return tokens


def _patches_of(size: Size, most: int) -> int:
    width, height = size[0] / 32, size[1] / 32
    whole = ceil(width) * ceil(height)
    if whole <= most:
        return whole
    shrink = sqrt(most / (width * height))
    width, height = width * shrink, height * shrink
    # One more step, so that a whole number of patches fits the nearer edge; a strip keeps its one
    # row.
    step = min(max(1, floor(width)) / width, max(1, floor(height)) / height)
    # Rounded first, because a product that is a whole number may come out slightly above it.
    return min(most, ceil(round(width * step, 6)) * ceil(round(height * step, 6)))


def _tiles(base: int, each: int) -> Formula:
    """OpenAI's tiles of 512 pixels, after shrinking to 2,048 and the short edge to 768."""

    def tokens(size: Size | None, detail: str) -> int:
        if detail == "low":
            return base
        if size is None:
            return max(IMAGE_TOKENS_MAX, tokens(SIZE_DEFAULT, detail))
        width, height = _within(size, 2_048)
        shrink = min(1.0, 768 / min(width, height))
        return base + each * ceil(width * shrink / 512) * ceil(height * shrink / 512)

    return tokens


def _crops(size: Size | None, detail: str) -> int:
    """Gemini 1 and 2: 258 tokens, times the crops that a larger image is cut into."""
    width, height = size or SIZE_DEFAULT
    if max(width, height) <= 384:
        return 258
    unit = min(768, max(256, floor(min(width, height) / 1.5)))
    return 258 * ceil(width / unit) * ceil(height / unit)


def _resolution(size: Size | None, detail: str) -> int:
    """Gemini 3: a price for each media resolution, whatever the size."""
    resolution = detail.removeprefix("media_resolution_")
    return {"low": 280, "medium": 560, "ultra_high": 2_240}.get(resolution, 1_120)


_CLAUDE = _claude(EDGE_MAX, 1_568)
ANTHROPIC: dict[str, Formula] = {
    "": _claude(2_000, 4_784),
    **dict.fromkeys(
        ("claude-2", "claude-3", "claude-opus-4", "claude-sonnet-4", "claude-haiku-4"), _CLAUDE
    ),
    **dict.fromkeys(("claude-opus-4-7", "claude-opus-4-8"), _claude(2_576, 4_784)),
}
OPENAI: dict[str, Formula] = {
    # Of the newest models no limit was seen up to twelve megapixels; this one is far above.
    "": _patches(1.2, 1 << 16, high_max=2_500),
    "gpt-4": _tiles(85, 170),
    "gpt-4o-mini": _tiles(2_833, 5_667),
    "gpt-4.1-mini": _patches(1.62, 1_536),
    "gpt-4.1-nano": _patches(2.46, 1_536),
    "gpt-5": _tiles(70, 140),
    **dict.fromkeys(("gpt-5-mini", "gpt-5.4-mini"), _patches(1.62, 1_536)),
    **dict.fromkeys(("gpt-5-nano", "gpt-5.4-nano"), _patches(2.46, 1_536)),
    **dict.fromkeys(("gpt-5.2", "gpt-5.3"), _patches(1.2, 1_536)),
    **dict.fromkeys(("gpt-5.4", "gpt-5.5", "gpt-5.6"), _patches(1.2, 10_000, high_max=2_500)),
    **dict.fromkeys(("o1", "o3"), _tiles(75, 150)),
    "o4-mini": _patches(1.72, 1_536),
}
GEMINI: dict[str, Formula] = {"": _resolution, "gemini-1": _crops, "gemini-2": _crops}
