"""OpenAI Responses: a flat list of items; an answer has several (reasoning, text, calls).

The items of one response become one message, so nothing comes between reasoning and its answer, and
parallel calls stay together. Items may also arrive one by one, or as a list: `{"input": […]}`.
Unknown items are carried unchanged.
"""

from collections.abc import Mapping

from refold.dialects.openai_responses.check import check
from refold.dialects.openai_responses.items import NAME
from refold.dialects.openai_responses.parse import is_response, parse, recognizes, reply
from refold.dialects.openai_responses.render import render
from refold.dialects.openai_responses.request import arranged, definitions, request
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
