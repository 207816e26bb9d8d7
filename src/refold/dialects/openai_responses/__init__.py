"""OpenAI Responses: a flat list of items, where an answer is several of them (reasoning, text,
calls).

The items of one response are one message for us, so that nothing comes between reasoning and what
follows it, and parallel calls stay together. Items may also come one by one, or as a whole list:
`{"input": […]}`. Items that we do not know are carried untouched.
"""

from collections.abc import Mapping

from refold.dialects.openai_responses.check import check
from refold.dialects.openai_responses.items import NAME
from refold.dialects.openai_responses.parse import is_response, parse, reply, speaks
from refold.dialects.openai_responses.render import render
from refold.dialects.openai_responses.request import definitions, request
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
