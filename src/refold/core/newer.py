"""What a newer version wrote and this one does not know: kinds of edits and of blocks.

It is carried in the log as it came and folded as nothing; the rest of a message is still shown.
Unknown fields need nothing: decoding passes over them. Neighbour: `codec` asks where a body does
not decode, and names unknown kinds of events itself.
"""

from __future__ import annotations

from typing import Any, get_args

from refold.core.model import Block, Edit

_EDITS = {edit.__struct_config__.tag for edit in get_args(Edit)}
_BLOCKS = {block.__struct_config__.tag for block in get_args(Block)}


def known_part(kind: str, plain: Any) -> Any:
    """The part of a body that this version knows; None if that is nothing."""
    match kind, plain:
        case "edit", {"type": str(tag)} if tag not in _EDITS:
            return None
        case "message", {"blocks": list(blocks)}:
            return {**plain, "blocks": [_known_block(one) for one in blocks if not _tag(one)]}
        case _:
            return plain


def _known_block(block: Any) -> Any:
    match block:
        case {"content": list(parts)}:
            return {**block, "content": [part for part in parts if not _tag(part)]}
        case _:
            return block


def unknown_in(kind: str, plain: Any) -> list[str]:
    """The kinds of edits or blocks in a body that this version does not know."""
    match kind, plain:
        case "edit", {"type": str(tag)} if tag not in _EDITS:
            return [f"edit {tag}"]
        case "message", {"blocks": list(blocks)}:
            contents = [block.get("content") for block in blocks if isinstance(block, dict)]
            parts = [part for content in contents if isinstance(content, list) for part in content]
            return [f"block {tag}" for one in [*blocks, *parts] if (tag := _tag(one))]
        case _:
            return []


def _tag(block: Any) -> str:
    """The kind of a block, if it is none of ours."""
    match block:
        case {"type": str(tag)} if tag not in _BLOCKS:
            return tag
        case _:
            return ""
