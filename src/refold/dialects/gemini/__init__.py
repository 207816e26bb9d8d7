"""Gemini contents: parts in `user` and `model` contents; system instruction and tools in a config.

Both spellings are accepted (REST's `functionCall`, the SDK's `function_call` and its objects) and
sent back unchanged. `request` gives the keyword arguments of `client.models.generate_content`:
plain dicts with base64 text, so `{"contents": …, **config}` is also the body for REST. A thought
signature stays in the form of its part and returns with the same call or text, even if others are
shortened. Messages without parts are read by the default dialect.
"""

from collections.abc import Mapping

from refold.dialects import DEFAULT
from refold.dialects.gemini.check import check
from refold.dialects.gemini.parse import is_response, parse, recognizes, reply
from refold.dialects.gemini.render import NAME, answering, render
from refold.dialects.gemini.request import (
    arranged,
    definitions,
    finished,
    request,
    with_keywords,
)

__all__ = [
    "answering", "arranged", "check", "definitions", "finished", "is_response", "name",
    "output_limit", "parse", "plain_text", "provider", "recognizes", "render", "reply", "request",
    "with_keywords",
]  # fmt: skip

name = NAME
provider = "google"
output_limit = ""
plain_text: Mapping[str, str] = {"user": DEFAULT, "assistant": DEFAULT, "system": DEFAULT}
