"""Anthropic Messages: blocks in user and assistant messages; system prompt and tools are separate.

Results arrive inside user messages; a message that has only results becomes a `tool` message.
Unknown blocks (server tools, compaction, future types) are carried unchanged.
"""

from collections.abc import Mapping

from refold.dialects.anthropic.check import check
from refold.dialects.anthropic.parse import is_response, parse, recognizes, reply
from refold.dialects.anthropic.render import NAME, render
from refold.dialects.anthropic.request import arranged, definitions, finished, request
from refold.dialects.protocol import answering_by_id as answering
from refold.dialects.protocol import keywords_last as with_keywords

__all__ = [
    "answering", "arranged", "check", "definitions", "finished", "is_response", "name",
    "output_limit", "parse", "plain_text", "provider", "recognizes", "render", "reply", "request",
    "with_keywords",
]  # fmt: skip

name = NAME
provider = "anthropic"
# The provider requires a limit for the length of the answer.
output_limit = "max_tokens"
# An answer is usually a list of blocks, so the assistant's plain text needs a form.
plain_text: Mapping[str, str] = {"user": NAME, "system": NAME}
