"""Anthropic Messages: blocks in user and assistant messages, the system prompt and the tools beside
them.

Results come inside user messages; a message of nothing but results is a `tool` message for us.
Blocks that we do not know (server tools, compaction, whatever comes next) are carried untouched.
Neighbours: `anthropic_render` is the way out, `anthropic_check` the provider's own view of a
request, `form` keeps what is unusual, `tools` translates tool definitions.
"""

from refold.dialects.anthropic.check import check as check
from refold.dialects.anthropic.parse import is_response as is_response
from refold.dialects.anthropic.parse import parse as parse
from refold.dialects.anthropic.parse import reply as reply
from refold.dialects.anthropic.parse import speaks as speaks
from refold.dialects.anthropic.render import NAME as name
from refold.dialects.anthropic.render import render as render
from refold.dialects.anthropic.request import request as request

__all__ = ["check", "is_response", "name", "parse", "render", "reply", "request", "speaks"]
