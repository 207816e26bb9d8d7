"""Pictures and documents as tools give them, made here byte by byte."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from typing import Any

PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"


def png(width: int = 3, height: int = 2, padding: int = 0) -> bytes:
    """A black PNG; `padding` makes it larger without changing what is seen."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" * (height * (3 * width + 1)))
    text = chunk(b"tEXt", b"Comment\0" + b"x" * padding) if padding else b""
    parts = (chunk(b"IHDR", header), text, chunk(b"IDAT", rows), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def gif(width: int = 3, height: int = 2) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def jpeg(width: int = 3, height: int = 2) -> bytes:
    frame = struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\1\x11\0"
    return b"\xff\xd8\xff\xc0" + frame + b"\xff\xd9"


def base64(content: bytes) -> str:
    return b64encode(content).decode()


def data_url(content: bytes, mime: str = "image/png") -> str:
    return f"data:{mime};base64,{base64(content)}"


def anthropic(content: bytes, mime: str = "image/png", kind: str = "image") -> dict[str, Any]:
    source = {"type": "base64", "media_type": mime, "data": base64(content)}
    return {"type": kind, "source": source}


def parts(content: bytes) -> dict[str, list[dict[str, Any]]]:
    """A text and a PNG as the parts of each provider, and of MCP servers."""
    inline = {"mimeType": "image/png", "data": base64(content)}
    text = {"type": "text", "text": "The page:"}
    return {
        "anthropic": [text, anthropic(content)],
        "chat": [text, {"type": "image_url", "image_url": {"url": data_url(content)}}],
        "responses": [
            {"type": "input_text", "text": "The page:"},
            {"type": "input_image", "image_url": data_url(content), "detail": "auto"},
        ],
        "gemini": [{"text": "The page:"}, {"inlineData": inline}],
        "mcp": [text, {"type": "image", **inline}],
        "mcp resource": [text, {"type": "resource", "resource": {
            "uri": "file:///a.png", "mimeType": "image/png", "blob": base64(content)}}],
    }  # fmt: skip
