"""Gemini contents: parts in `user` and `model` contents, the system instruction and the tools in a
config beside them.

Either spelling comes in (REST's `functionCall`, the SDK's `function_call` and its objects) and goes
back as it came. `request` gives the keyword arguments of `client.models.generate_content`: plain
dicts with base64 text, so that `{"contents": …, **config}` is the body for REST as well. A thought
signature stays in the form of its part: it comes back with the very call or text it stood on,
whatever was shortened. What has no parts is read by the default dialect.
"""

from collections.abc import Mapping

from refold.dialects import DEFAULT
from refold.dialects.gemini.check import check
from refold.dialects.gemini.parse import is_response, parse, reply, speaks
from refold.dialects.gemini.render import NAME, answering, render
from refold.dialects.gemini.request import definitions, request
from refold.dialects.protocol import finished_as_it_is as finished

__all__ = [
    "answering", "check", "definitions", "finished", "is_response", "name", "output_limit", "parse",
    "plain_text", "provider", "render", "reply", "request", "speaks",
]  # fmt: skip

name = NAME
provider = "google"
output_limit = ""
plain_text: Mapping[str, str] = {"user": DEFAULT, "assistant": DEFAULT, "system": DEFAULT}
