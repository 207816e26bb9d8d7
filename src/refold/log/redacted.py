"""What is sealed into a log that a team shares, without its secrets.

A store may ask for this (`redact=append` in the URL of a synced store): what is sealed is what
travels, because the chain covers the body. `draft_redacted` is the law: whatever an event says, of
whatever kind, goes through it on its way into the log. What something is found again by (a key, the
id of a call) cannot be changed: one that holds a secret is refused. A thought whose words changed
loses its signature, which would no longer be true. Redacting twice changes nothing, so a history
that comes back is known again. Neighbours: `redaction` finds secrets, `log` seals, and
`artifacts.offload` keeps contents; `stores.hybrid.hold` keeps near what was sealed otherwise.
"""

from __future__ import annotations

from typing import Any

import msgspec

from refold import decoding
from refold.core import codec
from refold.core.model import Message, Meta
from refold.errors import Invalid
from refold.log.draft import Draft
from refold.redaction import redacted
from refold.redaction.redact import KEY_CHARS, PlainRedactor, decoded, has_sure

Plain = dict[str, Any]
VALUES = PlainRedactor(redacted)
# What names or sorts something, by kind of event: it stays as it is.
NAMES = {
    "message": ("key", "role", "dialect"),
    "note": ("key",),
    "memory": ("entry", "seal", "state", "trust"),
    "artifact": ("id", "digest", "type"),
    "edit": ("batch", "type", "purpose"),
    "revert": ("batch",),
    "usage": ("response", "model"),
    "erase": ("role", "calls", "results"),
}
BLOCK_NAMES = ("type", "id", "call", "artifact")
BYTES = ("data", "signature")


def draft_redacted(draft: Draft) -> Draft:
    """The draft without its secrets; itself if it has none. Invalid if a name holds one."""
    kind = codec.kind_of(draft.body)
    plain = msgspec.json.decode(draft.encoded)
    clean, by = body_redacted(kind, plain), redacted(draft.by)
    if (clean, by) == (plain, draft.by):
        return draft
    body = codec.body_of(kind, msgspec.json.encode(clean))
    return Draft(body=body, by=by, tokens=draft.tokens, counter=draft.counter, at_ms=draft.at_ms)


def message_redacted(message: Message) -> Message:
    """The message without its secrets; itself if it has none."""
    plain = msgspec.to_builtins(message)
    clean = body_redacted("message", plain)
    return message if clean == plain else decoding.convert(clean, Message)


def meta_redacted(meta: Meta) -> Meta:
    """What is said of a conversation without its secrets, before it is compared with the log."""
    return decoding.convert(body_redacted("meta", msgspec.to_builtins(meta)), Meta)


def value_redacted(value: Any) -> Any:
    """Plain data with every secret in it replaced by a note; anything else as it is."""
    return VALUES.value(value)


def bytes_redacted(data: bytes) -> bytes:
    """Bytes without secrets where they are text; others as they are."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    clean = redacted(text)
    return data if clean == text else clean.encode()


def name_checked(name: str) -> str:
    """The name by which something is found again. Invalid if it holds a secret."""
    if len(name) >= KEY_CHARS and has_sure(name):
        said = "a name, a key or an id holds what looks like a secret"
        raise Invalid(said, hint="names are kept as they are: give another, or sync without redact")
    return name


# --- bodies ---


def body_redacted(kind: str, plain: Plain) -> Plain:
    """A body as plain JSON without its secrets; an equal one if it has none."""
    clean = _but_for(NAMES.get(kind, ()), plain)
    if kind == "message" and "blocks" in plain:
        clean["blocks"] = _blocks(plain["blocks"])
    return clean


def _blocks(blocks: list[Plain]) -> list[Plain]:
    return [_block(block) for block in blocks]


def _block(block: Plain) -> Plain:
    clean = _but_for((*BLOCK_NAMES, *BYTES), block)
    if block["type"] == "tool_result" and "content" in block:
        clean["content"] = _blocks(block["content"])
    changed = clean != block
    for name in BYTES:
        if name in clean:
            clean[name] = "" if changed and name == "signature" else _bytes(clean[name])
    return clean


def _bytes(text: str) -> str:
    """Bytes in base64, or a signature: what they say where they are text, and what is surely a
    secret."""
    if decoded(text) is not None:
        return VALUES.encoded(text)
    return redacted(text) if has_sure(text) else text


def _but_for(names: tuple[str, ...], plain: Plain) -> Plain:
    """An object without secrets, but for these fields, which stay."""
    kept = {name: plain[name] for name in names if name in plain}
    for name, value in kept.items():
        if name not in BYTES:
            for one in value if isinstance(value, list | tuple) else (value,):
                name_checked(one)
    rest = {name: value for name, value in plain.items() if name not in kept}
    return {**kept, **VALUES.value(rest)}
