"""OpenAI Responses: a flat list of items, where an answer is several of them (reasoning, text,
calls).

The items of one response are one message for us, so that nothing comes between reasoning and what
follows it, and parallel calls stay together. Items may also come one by one, or as a whole list:
`{"input": […]}`. Items that we do not know are carried untouched.
"""

from collections.abc import Mapping

from refold.dialects.openai_responses.check import check as check
from refold.dialects.openai_responses.items import NAME as NAME
from refold.dialects.openai_responses.parse import is_response as is_response
from refold.dialects.openai_responses.parse import parse as parse
from refold.dialects.openai_responses.parse import reply as reply
from refold.dialects.openai_responses.parse import speaks as speaks
from refold.dialects.openai_responses.render import render as render
from refold.dialects.openai_responses.request import request as request
from refold.dialects.openai_responses.tools import definitions as definitions
from refold.dialects.protocol import answering_by_id as answering

__all__ = [
    "answering", "check", "definitions", "is_response", "name", "parse", "plain_text", "render", "reply", "request",
    "speaks",
]  # fmt: skip

name = NAME
plain_text: Mapping[str, str] = {"user": NAME, "assistant": NAME, "system": NAME}
