"""OpenAI Chat Completions, and the many servers that speak it.

Results are messages of their own (`tool`), arguments are text, reasoning of compatible servers
stands beside the content. Calls may also come in the simple shape {id, name, arguments}, and go
back in it. Neighbours: `openai_chat_render` is the way out, `openai_chat_check` the provider's own
view of a request, `form` keeps what is unusual, `tools` translates tool definitions.
"""

from refold.dialects.openai_chat.check import check as check
from refold.dialects.openai_chat.parse import is_response as is_response
from refold.dialects.openai_chat.parse import parse as parse
from refold.dialects.openai_chat.parse import reply as reply
from refold.dialects.openai_chat.parse import speaks as speaks
from refold.dialects.openai_chat.render import NAME as name
from refold.dialects.openai_chat.render import render as render
from refold.dialects.openai_chat.request import request as request

__all__ = ["check", "is_response", "name", "parse", "render", "reply", "request", "speaks"]
