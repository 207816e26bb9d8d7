"""What Anthropic's server sends for one text, as a stream."""

from __future__ import annotations

from tests.real.sdks.wire import server_sent
from tests.servers import Play


def streamed(text: str, model: str = "claude-sonnet-5-5") -> Play:
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    block = {"type": "text", "text": ""}
    events = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]
    return Play(server_sent(events, named=True), content_type="text/event-stream")
