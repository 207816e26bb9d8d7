"""What a caller gives an entry, checked before anything is written."""

from __future__ import annotations

from collections.abc import Sequence

from refold.checked import quoted
from refold.display import is_text
from refold.errors import Invalid

CONTENT_CHARS_MAX, TAG_CHARS_MAX, TAGS_MAX = 20_000, 100, 50


def content_checked(content: str) -> str:
    """The text of an entry, without space around it; Invalid if it is empty, too long, or cannot
    be written."""
    text = content.strip()
    if not text or len(text) > CONTENT_CHARS_MAX:
        said = f"the content has {len(text):,} characters"
        raise Invalid(said, hint=f"from 1 to {CONTENT_CHARS_MAX:,}; keep long texts as artifacts")
    if not is_text(text):
        raise Invalid("the content holds half a character", hint="give text that UTF-8 can hold")
    return text


def tags_checked(tags: Sequence[str]) -> tuple[str, ...]:
    """The tags, each once."""
    out = tuple(dict.fromkeys(tags))
    if len(out) > TAGS_MAX:
        raise Invalid(f"{len(out)} tags are too many", hint=f"at most {TAGS_MAX}")
    for tag in out:
        if not tag.strip() or len(tag) > TAG_CHARS_MAX or not is_text(tag):
            hint = f"a text of 1 to {TAG_CHARS_MAX} characters"
            raise Invalid(f"{quoted(tag)} is not a tag", hint=hint)
    return out


def source_checked(
    source: int | tuple[str, int] | None, conversation: str
) -> tuple[str, int] | None:
    """Where an entry was said: a seq alone is one of the conversation that the memory is of."""
    if source is None or isinstance(source, tuple):
        return source
    if not conversation:
        raise Invalid(
            f"source={source} names no conversation", hint="give a conversation and a seq"
        )
    return conversation, source
