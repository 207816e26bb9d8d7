"""What an image, document or sound costs, from what its first bytes say.

Nothing is opened: an image's width and height stand in its header, and of all else only the size is known. Each rule
is the providers' own or errs upwards: an image is width × height / 750, at most 1,600 tokens; a document 2,000 tokens
per page of 50 kB; sound 32 and video 300 tokens per second at usual bit rates. Neighbour: `counter`.
"""

from __future__ import annotations

import binascii
from math import ceil

from refold.core.model import Media

IMAGE_TOKENS_MAX = 1_600
IMAGE_PIXELS_PER_TOKEN = 750
# Providers shrink an image to this edge before they count it.
IMAGE_EDGE_MAX = 1_568
# OpenAI's fixed price of an image sent with detail "low".
IMAGE_LOW_TOKENS = 85

PAGE_TOKENS, PAGE_BYTES, PAGES_MAX = 2_000, 50_000, 600
TEXT_BYTES_PER_TOKEN = 4
# Tokens per second, bytes per second: 128 kbit/s sound, 2 Mbit/s video, uncompressed sound of 16 kHz.
AUDIO, VIDEO, WAVE = (32, 16_000), (300, 250_000), (32, 32_000)
# What is assumed where only a link or a provider's file id is known: four pages, one minute.
PAGES_DEFAULT, SECONDS_DEFAULT = 4, 60

# A JPEG may carry a thumbnail of up to 64 kB in front of its size.
HEAD_BYTES, HEAD_BYTES_JPEG = 48, 96 * 1024


def media_tokens(media: Media) -> int:
    """The tokens of one image, document, sound or video."""
    match media.media:
        case "image":
            return _image_tokens(media)
        case "audio":
            return _timed_tokens(media, WAVE if "wav" in media.mime else AUDIO)
        case "video":
            return _timed_tokens(media, VIDEO)
        case _:
            return _document_tokens(media)


def _image_tokens(media: Media) -> int:
    if media.detail == "low":
        return IMAGE_LOW_TOKENS
    size = image_size(_inline(media))
    if size is None:
        return IMAGE_TOKENS_MAX
    shrink = min(1.0, IMAGE_EDGE_MAX / max(size))
    pixels = size[0] * shrink * size[1] * shrink
    return max(1, min(IMAGE_TOKENS_MAX, ceil(pixels / IMAGE_PIXELS_PER_TOKEN)))


def _timed_tokens(media: Media, rate: tuple[int, int]) -> int:
    per_second, bytes_per_second = rate
    size_bytes = _size_bytes(media)
    seconds = SECONDS_DEFAULT if size_bytes is None else size_bytes / bytes_per_second
    return max(per_second, ceil(seconds * per_second))


def _document_tokens(media: Media) -> int:
    size_bytes = _size_bytes(media)
    if size_bytes is None:
        return PAGES_DEFAULT * PAGE_TOKENS
    if media.mime.startswith("text/") or media.mime.endswith(("json", "xml")):
        return ceil(size_bytes / TEXT_BYTES_PER_TOKEN)
    return min(PAGES_MAX, max(1, ceil(size_bytes / PAGE_BYTES))) * PAGE_TOKENS


def _inline(media: Media) -> str:
    """The base64 text that travels with the message, if any; a `data:` link carries it too."""
    if media.data or not media.url.startswith("data:"):
        return media.data
    return media.url.partition(",")[2]


def _size_bytes(media: Media) -> int | None:
    inline = _inline(media)
    return len(inline) * 3 // 4 if inline else None


# --- the size of an image ------------------------------------------------------------------------------------------


def image_size(data: str) -> tuple[int, int] | None:
    """Width and height of a base64 PNG, GIF, WebP or JPEG, from its first bytes; None where they do not say."""
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
    """The first bytes behind base64, or none where it is no base64. Sizes are multiples of 3: no group is split."""
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
    """Walks the segments to the first start of frame, which holds the size."""
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
