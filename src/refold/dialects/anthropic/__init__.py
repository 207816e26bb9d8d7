"""Anthropic Messages: blocks in user and assistant messages, the system prompt and the tools beside
them.

Results come inside user messages; a message of nothing but results is a `tool` message for us.
Blocks that we do not know (server tools, compaction, whatever comes next) are carried untouched.
"""

from collections.abc import Mapping

from refold.dialects.anthropic.check import check
from refold.dialects.anthropic.parse import is_response, parse, reply, speaks
from refold.dialects.anthropic.render import NAME, render
from refold.dialects.anthropic.request import definitions, finished, request
from refold.dialects.protocol import answering_by_id as answering

__all__ = [
    "answering", "check", "definitions", "finished", "is_response", "name", "output_limit", "parse",
    "plain_text", "provider", "render", "reply", "request", "speaks",
]  # fmt: skip

name = NAME
provider = "anthropic"
# The call must say how long the answer may be.
output_limit = "max_tokens"
# An answer is a list of blocks: plain text of the assistant is unusual, and keeps a form.
plain_text: Mapping[str, str] = {"user": NAME, "system": NAME}
