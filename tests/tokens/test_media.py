"""Images, documents and sounds, counted from their first bytes."""

from __future__ import annotations

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.model import Media
from refold.tokens.counter import framing_for
from refold.tokens.media import IMAGE_TOKENS_MAX, image_size, media_tokens
from refold.tokens.models import model_info


def png(width: int, height: int) -> bytes:
    return (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I4sII", 13, b"IHDR", width, height)
        + b"\x08\x06"
        + bytes(40)
    )


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
    [
        png(800, 600),
        gif(800, 600),
        jpeg(800, 600),
        jpeg(800, 600, before=60_000),
        WEBP_LOSSY,
        WEBP_LOSSLESS,
        WEBP_EXTENDED,
    ],
    ids=[
        "png",
        "gif",
        "jpeg",
        "jpeg-with-thumbnail",
        "webp-lossy",
        "webp-lossless",
        "webp-extended",
    ],
)
def test_an_image_says_its_size_in_its_first_bytes(raw: bytes) -> None:
    """Y-02: every image format that providers take."""
    assert image_size(base64.b64encode(raw).decode()) == (800, 600)
    assert media_tokens(image(raw)) == 640


@pytest.mark.parametrize(
    "data",
    [
        "",
        "!!!!",
        "AAAA",
        "é" * 64,
        base64.b64encode(png(0, 5)).decode(),
        base64.b64encode(b"\xff\xd8\xff").decode(),
        base64.b64encode(b"\xff\xd8" + b"\xff\xe0\x00\x00" * 9).decode(),
        "iVBORw0KGgo",
    ],
)
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
        (
            Media("image", url="data:image/gif;base64," + base64.b64encode(gif(75, 100)).decode()),
            10,
        ),
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
    st.binary(max_size=80),
    st.sampled_from([b"", b"\xff\xd8", b"RIFF0000WEBPVP8X", b"\x89PNG\r\n\x1a\n", b"GIF89a"]),
)
def test_no_bytes_break_the_count(raw: bytes, head: bytes) -> None:
    """Y-02: headers come from strangers."""
    assert 0 < media_tokens(image(head + raw)) <= IMAGE_TOKENS_MAX


SIZES = {
    "small": (512, 512), "square": (1024, 1024), "wide": (1920, 1080), "large": (3840, 2160), "photo": (4032, 3024),
    "tall": (1800, 2400), "strip": (8000, 20),
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "detail", "tokens"),
    [
        # OpenAI's patches: the limits of each detail, and the example of its guide (1,452 patches).
        (
            "gpt-6-astra",
            "",
            {"small": 308, "square": 1229, "wide": 2448, "large": 9792, "photo": 14364},
        ),
        ("gpt-6-astra", "high", {"small": 308, "large": 2931, "photo": 2942}),
        ("gpt-5.5", "auto", {"wide": 2448, "photo": 11868}),
        ("gpt-4.1-mini", "", {"small": 415, "tall": 2353, "strip": 405}),
        ("gpt-5-nano", "low", {"small": 630}),
        # OpenAI's tiles.
        ("gpt-4o", "", {"small": 255, "square": 765, "wide": 1105, "strip": 765}),
        ("gpt-4o", "low", {"photo": 85}),
        ("gpt-4-turbo", "high", {"square": 765}),
        ("gpt-4o-mini", "", {"square": 25501}),
        ("gpt-5", "", {"square": 630}),
        ("o1", "", {"square": 675}),
        # Claude: patches of 28 pixels, more of them in newer models.
        ("claude-haiku-4-5", "", {"small": 361, "square": 1369, "photo": 1568}),
        ("claude-opus-4-7", "", {"square": 1369, "photo": 4784}),
        ("claude-sonnet-5-5", "", {"wide": 2691, "large": 2952, "photo": 3888}),
        # Gemini: crops, then one price for each resolution.
        ("gemini-2.5-pro", "", {"small": 1032, "photo": 258 * 24}),
        ("gemini-3-pro", "", {"small": 1120, "photo": 1120}),
        ("gemini-3-pro", "media_resolution_low", {"photo": 280}),
        ("acme-1", "", {"square": 1399, "photo": 1600}),
    ],
)
def test_an_image_costs_what_its_model_takes(
    model: str, detail: str, tokens: dict[str, int]
) -> None:
    """Y-02: the model's formula. OpenAI's, Claude's and Gemini's figures are published or
    measured ones."""
    formula = framing_for(model_info(model)).media.image
    assert {name: formula(SIZES[name], detail) for name in tokens} == tokens


@pytest.mark.parametrize(
    "model", ["gpt-4o", "gpt-4o-mini", "gpt-6-astra", "claude-opus-5", "gemini-2.5-pro", "acme-1"]
)
@given(
    size=st.tuples(st.integers(1, 60_000), st.integers(1, 60_000)),
    detail=st.sampled_from(["", "low", "high", "x"]),
)
def test_every_size_has_a_price(model: str, size: tuple[int, int], detail: str) -> None:
    """Y-02: never nothing, never an error, and an image of unknown size is not cheap."""
    formula = framing_for(model_info(model)).media.image
    assert formula(size, detail) > 0
    assert formula(None, "") >= 1_000


def test_documents_and_videos_of_gemini_have_their_own_price() -> None:
    """Y-02: 258 tokens a page and about 300 a second, then 560 and about 100."""
    page, video = (
        Media("document", "application/pdf", "A" * 60_000),
        Media("video", "video/mp4", "A" * 10_000_000),
    )
    for model, tokens in (
        ("gemini-2.5-pro", (258, 8850)),
        ("gemini-3-pro", (560, 3060)),
        ("gpt-4o", (2000, 9000)),
    ):
        rule = framing_for(model_info(model)).media
        assert (media_tokens(page, rule), media_tokens(video, rule)) == tokens
