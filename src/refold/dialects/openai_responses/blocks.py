"""OpenAI Responses, the way in: items and parts as blocks.

What is not known is carried as it is. Neighbours: `parse` puts the blocks of an answer together,
`items` knows which items call and which answer.
"""

from __future__ import annotations

from typing import Any

from refold.core.model import Media, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.dialects.form import content_blocks
from refold.dialects.openai_responses.items import CALLS, OPEN_CALLS, answer_of, call_of, kind_of
from refold.dialects.outside import refused, text_in
from refold.dialects.wire import at, is_text_part, media_of_url, objects_in

_Part = Text | Media | Opaque


def read_part(part: Any, role: str = "user") -> _Part:
    """A part of a message or an output."""
    if is_text_part(part):
        # Everybody else's text: what only has another name here goes out under ours.
        part["type"] = "output_text" if role == "assistant" else "input_text"
    match part:
        case {"type": "input_text" | "output_text", "text": str(text)}:
            return Text(text)
        case {"type": "refusal", "refusal": str(text)}:
            return Text(text)
        case {"type": "input_image", "image_url": str(url)}:
            return media_of_url("image", url, detail=text_in(part, "detail"))
        case {"type": "input_image", "file_id": str(file)}:
            return Media("image", file=file, detail=text_in(part, "detail"))
        case {"type": "input_file", "file_data": str(url)} if url.startswith("data:"):
            return media_of_url("document", url, name=text_in(part, "filename"))
        case {"type": "input_file", "file_url": str(url)}:
            return Media("document", url=url, name=text_in(part, "filename"))
        case {"type": "input_file", "file_id": str(file)}:
            return Media("document", file=file, name=text_in(part, "filename"))
        case {"type": str()}:
            return Opaque(raw=part)
        case _:
            accepted = "an object with a type, such as input_text or input_image,"
            raise refused("a part of the content", part, accepted)


def read_reasoning(item: dict[str, Any]) -> Thinking | Opaque:
    """What the model thought, with its seal; its id stands for it where there is no seal."""
    parts = objects_in(item.get("summary") or item.get("content"))
    text = "\n\n".join(text_in(part, "text") for part in parts)
    thinking = Thinking(text, text_in(item, "id"), text_in(item, "encrypted_content"))
    return Opaque(raw=item) if thinking == Thinking() else thinking


def read_call(item: dict[str, Any]) -> ToolCall:
    """A call that the caller answers."""
    kind = kind_of(item)
    usual_name, key = CALLS.get(kind, (kind.removesuffix("_call"), ""))
    name = usual_name or text_in(item, "name")
    arguments = item.get(key, {})
    is_known = isinstance(arguments, str | dict)
    if kind in OPEN_CALLS and not (name and is_known):
        raise refused("a tool call", item, f"an item with a name and {key}")
    return ToolCall(call_of(item), name, arguments if is_known else {})


def read_result(item: dict[str, Any]) -> ToolResult:
    """What answers a call."""
    content = _output_content(item)
    failed = item.get("status") == "failed"
    return ToolResult(answer_of(item), content, is_error=failed, name=text_in(item, "name"))


def _output_content(item: dict[str, Any]) -> tuple[_Part, ...]:
    """The content of an output; Invalid if a call of its kind takes no such output."""
    output = item.get("output")
    is_open = kind_of(item).removesuffix("_output") in OPEN_CALLS
    if is_open and not isinstance(output, str | list):
        raise refused(f"the output of call {answer_of(item)}", output, "text or a list of parts")
    content = content_blocks(output, read_part if is_open else _chunk)
    return (_screenshot(output),) if content is None else content


def _chunk(chunk: Any) -> Text | Opaque:
    """What a shell gave: as text if it came on one channel, else in its own shape."""
    match chunk:
        case {"stdout": str(text), "stderr": ""} | {"stdout": "", "stderr": str(text)}:
            return Text(text)
        case {"stdout": str(output), "stderr": str(errors)}:
            return Opaque(raw=chunk, text=f"{output}\n{errors}")
        case _:
            return Opaque(raw=chunk)


def _screenshot(output: Any) -> Media | Opaque:
    """An output that is one object: an image, or what we do not know."""
    url = at(output, ("image_url",))
    return media_of_url("image", url) if isinstance(url, str) and url else Opaque(raw=output)


def read_opaque(item: dict[str, Any]) -> Opaque:
    """An item that is carried as it is. Pixels are not words: they must not be counted as such."""
    if kind_of(item) == "image_generation_call":
        return Opaque(raw=item, text=f"[image: {text_in(item, 'revised_prompt') or 'generated'}]")
    return Opaque(raw=item)
