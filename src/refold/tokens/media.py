"""The tokens of an image, document, sound or video, by the rule of the model that reads it.

Media are not opened: an image's width and height are in its header, and for the rest only the size
in bytes is known. Providers count images by patches of a fixed edge (Claude, newer OpenAI models),
by tiles of a shrunken image (older OpenAI models, Gemini 1 and 2), or at one price (Gemini 3); an
unknown size is estimated high. The tables are keyed by the beginning of a model's name; the empty
name stands for the provider's newest models. For an unknown provider, an image is width × height /
750, at most 1,600 tokens; a document 2,000 tokens per page of 50 kB; sound 32 and video 300 tokens
per second at usual bit rates. Neighbour: `counter` adds them to the text.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from math import ceil, floor, sqrt
from typing import Any

from msgspec import Struct

from refold.core.model import Media

Size = tuple[int, int]
Formula = Callable[[Size | None, str], int]

IMAGE_TOKENS_MAX = 1_600
PIXELS_PER_TOKEN = 750
# Providers shrink an image to this edge before they count it.
EDGE_MAX = 1_568
# OpenAI's price of an image with detail "low", unless a model has its own.
LOW_TOKENS = 85
# Assumed size of an image behind a link.
SIZE_DEFAULT = (1024, 1024)


def area(size: Size | None, detail: str) -> int:
    """The rule for an unknown provider: Claude's older one, and OpenAI's low detail."""
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
    """One token per patch of 28 pixels, after shrinking to the longest edge; at most
    `tokens_max`."""

    def tokens(size: Size | None, detail: str) -> int:
        if size is None:
            return IMAGE_TOKENS_MAX
        width, height = _within(size, edge_max)
        return min(tokens_max, ceil(width / 28) * ceil(height / 28))

    return tokens


def _patches(factor: float, patches_max: int, high_max: int | None = None) -> Formula:
    """OpenAI's patches of 32 pixels, times the model's factor; the image is shrunk until they are
    few enough."""

    def tokens(size: Size | None, detail: str) -> int:
        if size is None:
            return max(IMAGE_TOKENS_MAX, tokens(SIZE_DEFAULT, detail))
        most = {"low": 256, "high": high_max or patches_max}.get(detail, patches_max)
        return ceil(_patches_of(size, most) * factor)

    return tokens


def _patches_of(size: Size, most: int) -> int:
    width, height = size[0] / 32, size[1] / 32
    patches = ceil(width) * ceil(height)
    if patches <= most:
        return patches
    shrink = sqrt(most / (width * height))
    width, height = width * shrink, height * shrink
    # One more step, so that a whole number of patches fits the nearer edge; a strip keeps its row.
    step = min(max(1, floor(width)) / width, max(1, floor(height)) / height)
    # Rounded first, because a whole product may come out slightly too large.
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
    """Gemini 1 and 2: 258 tokens for each crop of a larger image."""
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
    # The newest models showed no limit up to twelve megapixels; this one is far above.
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


PAGE_TOKENS, PAGE_BYTES, PAGES_MAX = 2_000, 50_000, 600
TEXT_BYTES_PER_TOKEN = 4
AUDIO_TOKENS, VIDEO_TOKENS = 32, 300
# Bytes per second: 128 kbit/s sound, 2 Mbit/s video, uncompressed sound of 16 kHz.
AUDIO_BYTES, VIDEO_BYTES, WAVE_BYTES = 16_000, 250_000, 32_000
# Assumed size behind a link or a provider's file id: four pages, one minute.
PAGES_DEFAULT, SECONDS_DEFAULT = 4, 60

# A JPEG may carry a thumbnail of up to 64 kB in front of its size.
HEAD_BYTES, HEAD_BYTES_JPEG = 48, 96 * 1024


class MediaRule(Struct, frozen=True, kw_only=True):
    """How a model counts an image (a formula), a page of a document, and a second of video."""

    image: Formula = area
    page: int = PAGE_TOKENS
    video: int = VIDEO_TOKENS


ANY = MediaRule()
_BY_PROVIDER = {
    "openai": OPENAI,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
}
# Gemini's pages and frames, by the same names as its images.
_GEMINI = {"gemini-1": (258, 295), "gemini-2": (258, 295), "": (560, 102)}


def rule_for(provider: str, model: str) -> MediaRule:
    """The rule of a model, by the longest listed beginning of its name. An unlisted name has the
    rule of the provider's newest models."""
    formulas = _BY_PROVIDER.get(provider)
    if formulas is None:
        return ANY
    image = formulas[_longest(formulas, model)]
    if provider != "gemini":
        return MediaRule(image=image)
    page, video = _GEMINI[_longest(_GEMINI, model)]
    return MediaRule(image=image, page=page, video=video)


def _longest(names: dict[str, Any], model: str) -> str:
    return max((name for name in names if model.startswith(name)), key=len)


def media_tokens(media: Media, rule: MediaRule = ANY) -> int:
    """The tokens of one image, document, sound or video."""
    match media.media:
        case "image":
            return rule.image(image_size(_inline(media)), media.detail)
        case "audio":
            bytes_per_second = WAVE_BYTES if "wav" in media.mime else AUDIO_BYTES
            return _timed_tokens(media, AUDIO_TOKENS, bytes_per_second)
        case "video":
            return _timed_tokens(media, rule.video, VIDEO_BYTES)
        case _:
            size_bytes = _size_bytes(media)
            if size_bytes is None:
                return PAGES_DEFAULT * rule.page
            if media.mime.startswith("text/") or media.mime.endswith(("json", "xml")):
                return ceil(size_bytes / TEXT_BYTES_PER_TOKEN)
            pages = max(1, ceil(size_bytes / PAGE_BYTES))
            return min(PAGES_MAX, pages) * rule.page


def _timed_tokens(media: Media, per_second: int, bytes_per_second: int) -> int:
    size_bytes = _size_bytes(media)
    seconds = SECONDS_DEFAULT if size_bytes is None else size_bytes / bytes_per_second
    return max(per_second, ceil(seconds * per_second))


def _inline(media: Media) -> str:
    """The base64 text sent with the message, if any, possibly in a `data:` link."""
    if media.data or not media.url.startswith("data:"):
        return media.data
    return media.url.partition(",")[2]


def _size_bytes(media: Media) -> int | None:
    inline = _inline(media)
    return len(inline) * 3 // 4 if inline else None


# --- the size of an image ---


def image_size(data: str) -> tuple[int, int] | None:
    """Width and height of a base64 PNG, GIF, WebP or JPEG, from its first bytes; None if
    unknown."""
    head = _head(data, HEAD_BYTES)
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        size = _big(head, 16, 4), _big(head, 20, 4)
    elif head.startswith((b"GIF87a", b"GIF89a")):
        size = _little(head, 6, 2), _little(head, 8, 2)
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        size = _webp_size(head)
    elif head.startswith(b"\xff\xd8"):
        size = _jpeg_size(_head(data, HEAD_BYTES_JPEG))
    else:
        return None
    return size if min(size) > 0 else None


def _head(data: str, size_bytes: int) -> bytes:
    """The first bytes of a base64 text; empty if it is not base64. Sizes are multiples of 3, so
    that no group is split."""
    try:
        return binascii.a2b_base64(data[: size_bytes * 4 // 3])
    except ValueError:
        return b""


def _webp_size(head: bytes) -> tuple[int, int]:
    match head[12:16]:
        case b"VP8X":
            return _little(head, 24, 3) + 1, _little(head, 27, 3) + 1
        case b"VP8L":
            bits = _little(head, 21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case _:
            return _little(head, 26, 2) & 0x3FFF, _little(head, 28, 2) & 0x3FFF


def _jpeg_size(head: bytes) -> tuple[int, int]:
    """The size in the first start-of-frame segment."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return _big(head, at + 7, 2), _big(head, at + 5, 2)
        at += 1 if marker == 0xFF else 2 + _big(head, at + 2, 2)
    return 0, 0


def _big(head: bytes, at: int, size: int) -> int:
    return int.from_bytes(head[at : at + size], "big")


def _little(head: bytes, at: int, size: int) -> int:
    return int.from_bytes(head[at : at + size], "little")
