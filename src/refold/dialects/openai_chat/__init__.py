"""OpenAI Chat Completions, and the many servers that are compatible with it.

Results are separate `tool` messages, arguments are text, and compatible servers put reasoning next
to the content. Calls may also arrive in the simple shape {id, name, arguments}; they are sent in
the provider's own shape.
"""

from collections.abc import Mapping

from refold.dialects.openai_chat.check import check
from refold.dialects.openai_chat.parse import is_response, parse, recognizes, reply
from refold.dialects.openai_chat.render import NAME, arranged, definitions, render, request
from refold.dialects.protocol import answering_by_id as answering
from refold.dialects.protocol import finished_as_it_is as finished
from refold.dialects.protocol import keywords_last as with_keywords

__all__ = [
    "answering", "arranged", "check", "definitions", "finished", "is_response", "name",
    "output_limit", "parse", "plain_text", "provider", "recognizes", "render", "reply", "request",
    "with_keywords",
]  # fmt: skip

name = NAME
provider = "openai"
output_limit = ""
plain_text: Mapping[str, str] = {"user": NAME, "assistant": NAME, "system": NAME}
