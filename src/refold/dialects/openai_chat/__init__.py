"""OpenAI Chat Completions, and the many servers that speak it.

Results are messages of their own (`tool`), arguments are text, reasoning of compatible servers
stands beside the content. Calls may also come in the simple shape {id, name, arguments}; they go
out in the provider's own.
"""

from collections.abc import Mapping

from refold.dialects.openai_chat.check import check
from refold.dialects.openai_chat.parse import is_response, parse, reply, speaks
from refold.dialects.openai_chat.render import NAME, definitions, render, request
from refold.dialects.protocol import answering_by_id as answering
from refold.dialects.protocol import finished_as_it_is as finished

__all__ = [
    "answering", "check", "definitions", "finished", "is_response", "name", "output_limit", "parse",
    "plain_text", "provider", "render", "reply", "request", "speaks",
]  # fmt: skip

name = NAME
provider = "openai"
output_limit = ""
plain_text: Mapping[str, str] = {"user": NAME, "assistant": NAME, "system": NAME}
