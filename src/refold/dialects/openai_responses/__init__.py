"""OpenAI Responses: a flat list of items, where an answer is several of them (reasoning, text,
calls).

The items of one response are one message for us, so that nothing comes between reasoning and what
follows it, and parallel calls stay together. Items may also come one by one, or as a whole list:
`{"input": […]}`. Items that we do not know are carried untouched. Neighbours:
`openai_responses_items` knows the items, `openai_responses_render` is the way out,
`openai_responses_request` makes the call, `openai_responses_check` is the provider's own view of
it.
"""

from refold.dialects.openai_responses.check import check as check
from refold.dialects.openai_responses.items import NAME as name
from refold.dialects.openai_responses.parse import is_response as is_response
from refold.dialects.openai_responses.parse import parse as parse
from refold.dialects.openai_responses.parse import reply as reply
from refold.dialects.openai_responses.parse import speaks as speaks
from refold.dialects.openai_responses.render import render as render
from refold.dialects.openai_responses.request import request as request

__all__ = ["check", "is_response", "name", "parse", "render", "reply", "request", "speaks"]
