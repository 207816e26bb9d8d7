"""Images, documents and sounds, counted from their first bytes."""

from __future__ import annotations

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.model import Media
from refold.tokens.media import IMAGE_TOKENS_MAX, image_size, media_tokens


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x06" + bytes(40)


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(40)


def jpeg(width: int, height: int, *, before: int = 0) -> bytes:
    thumbnail = b"\xff\xe1" + struct.pack(">H", before + 2) + bytes(before)
    frame = b"\xff\xc0" + struct.pack(">HBHH", 17, 8, height, width) + bytes(20)
    return b"\xff\xd8" + thumbnail + b"\xff" + frame


def webp(kind: bytes, size: bytes) -> bytes:
    return b"RIFF" + bytes(4) + b"WEBP" + kind + bytes(4) + size + bytes(40)


WEBP_LOSSY = webp(b"VP8 ", bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", 800, 600))
WEBP_LOSSLESS = webp(b"VP8L", b"\x2f" + struct.pack("<I", 799 | 599 << 14))
WEBP_EXTENDED = webp(b"VP8X", bytes(4) + (799).to_bytes(3, "little") + (599).to_bytes(3, "little"))


def image(raw: bytes, **fields: str) -> Media:
    return Media("image", "image/png", base64.b64encode(raw).decode(), **fields)


@pytest.mark.parametrize(
    "raw",
    [png(800, 600), gif(800, 600), jpeg(800, 600), jpeg(800, 600, before=60_000), WEBP_LOSSY, WEBP_LOSSLESS,
     WEBP_EXTENDED],
    ids=["png", "gif", "jpeg", "jpeg-with-thumbnail", "webp-lossy", "webp-lossless", "webp-extended"],
)  # fmt: skip
def test_an_image_says_its_size_in_its_first_bytes(raw: bytes) -> None:
    """Y-02: every image format that providers take."""
    assert image_size(base64.b64encode(raw).decode()) == (800, 600)
    assert media_tokens(image(raw)) == 640


@pytest.mark.parametrize(
    "data",
    ["", "!!!!", "AAAA", "é" * 64, base64.b64encode(png(0, 5)).decode(), base64.b64encode(b"\xff\xd8\xff").decode(),
     base64.b64encode(b"\xff\xd8" + b"\xff\xe0\x00\x00" * 9).decode(), "iVBORw0KGgo"],
)  # fmt: skip
def test_an_image_that_does_not_say_its_size_costs_the_most(data: str) -> None:
    """Y-02: 1,600 where nothing is known."""
    assert image_size(data) is None
    assert media_tokens(Media("image", data=data)) == IMAGE_TOKENS_MAX == 1600


@pytest.mark.parametrize(
    ("media", "tokens"),
    [
        (image(png(1, 1)), 1),
        (image(png(200, 200)), 54),
        (image(png(1092, 1092)), 1590),
        (image(png(4000, 4000)), 1600),
        # Shrunk to an edge of 1,568 it is a narrow strip.
        (image(png(15_680, 750)), 157),
        (image(png(4000, 4000), detail="low"), 85),
        (Media("image", url="https://example.org/a.png"), 1600),
        (Media("image", url="data:image/gif;base64," + base64.b64encode(gif(75, 100)).decode()), 10),
        (Media("document", "application/pdf", file="file_1"), 8000),
        (Media("document", "application/pdf", "A" * 400_000), 12_000),
        (Media("document", "application/pdf", "A" * 80_000_000), 1_200_000),
        (Media("document", "text/plain", "A" * 1600), 300),
        (Media("audio", "audio/mpeg", "A" * 1_280_000), 1920),
        (Media("audio", "audio/wav", "A" * 1_280_000), 960),
        (Media("audio", file="file_2"), 1920),
        (Media("video", "video/mp4", "A" * 10_000_000), 9000),
        (Media("hologram", "model/x", "A" * 40), 2000),
    ],
)
def test_media_count_by_pixels_pages_and_seconds(media: Media, tokens: int) -> None:
    """Y-02: the formula where there is one, a sane guess where there is none."""
    assert media_tokens(media) == tokens


@given(
    st.binary(max_size=80), st.sampled_from([b"", b"\xff\xd8", b"RIFF0000WEBPVP8X", b"\x89PNG\r\n\x1a\n", b"GIF89a"])
)
def test_no_bytes_break_the_count(raw: bytes, head: bytes) -> None:
    """Y-02: headers come from strangers."""
    assert 0 < media_tokens(image(head + raw)) <= IMAGE_TOKENS_MAX
