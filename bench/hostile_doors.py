"""The doors of refold, each with a right call that a hostile value is put into: one place of the
call is replaced, in its arguments or deep in a message. Neighbours: `hostile_values` has the values.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import refold
from bench.hostile_values import mutated
from refold.settings.sources import loaded

Door = Callable[[refold.Context, Path, Any, random.Random], object]

USAGE = {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35}
CALL = {"id": "t9", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
IMAGE = {"type": "base64", "media_type": "image/png", "data": "aGk="}
MESSAGES: dict[str, list[dict[str, Any]]] = {
    "openai_chat": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "name": "ann"},
        {"role": "assistant", "content": "ok", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "t1", "content": "done"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y"}}]},
    ],
    "anthropic": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "user", "content": [{"type": "image", "source": IMAGE}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": "s"}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t9", "name": "bash", "input": {"a": 1}}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "x"}],
                }
            ],
        },
    ],
    "openai_responses": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "t9", "name": "bash", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t1", "output": "done"},
        {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "a"}]},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "bash", "args": {"a": 1}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "bash", "response": {"output": "x"}}}],
        },
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]},
    ],
}
RESPONSES: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "id": "c1",
        "object": "chat.completion",
        "model": "gpt-4o",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "ok", "tool_calls": [CALL]},
            }
        ],
        "usage": USAGE,
    },
    "anthropic": {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 30, "output_tokens": 5, "cache_read_input_tokens": 1},
    },
    "openai_responses": {
        "id": "r1",
        "object": "response",
        "model": "gpt-4o",
        "status": "completed",
        "output": [
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "ok"}],
            }
        ],
        "usage": {"input_tokens": 30, "output_tokens": 5, "total_tokens": 35},
    },
    "gemini": {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}
        ],
        "usageMetadata": {"promptTokenCount": 30, "candidatesTokenCount": 5},
    },
}
CHUNKS: list[dict[str, Any]] = [
    {
        "id": "c1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "o"}}],
    },
    {
        "id": "c1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"content": "k"}, "finish_reason": "stop"}],
    },
]
TOOLS = [{"name": "bash", "description": "runs", "input_schema": {"type": "object"}}]
SETTINGS: dict[str, Any] = {
    "warn_ratio": 0.8,
    "ladder": ["gist", "hide"],
    "strategy": {"hide": {"preset": "half"}},
    "tool_kinds": {"save": "modify:path"},
    "redact": ["logs"],
    "dialect": "gemini",
    "keep_recent": 10,
    "exclude_tools": ["memory"],
    "durability": "turn",
    "writer_wait_s": 1.0,
}
# By method: a right call of it.
METHODS: dict[str, dict[str, Any]] = {
    "append_result": {
        "call": "t1",
        "output": {"a": [1]},
        "is_error": False,
        "name": "bash",
        "task": "t",
        "query": "q",
        "on_error": "raise",
    },
    "update": {
        "model": "gpt-4o",
        "window": 24_000,
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": TOOLS,
        "title": "t",
        "tags": ["a"],
        "metadata": {"a": {"b": 1}},
    },
    "request": {"dialect": "anthropic"},
    "plan": {"target": 100, "task": "t", "preset": "half"},
    "compact": {"target": 100, "task": "t", "instructions": ""},
    "checkpoint": {"name": "here"},
    "restore": {"to": "#2", "dry_run": False},
    "clear": {"checkpoint": "before"},
    "pin": {"seq": 1, "on": False},
    "unfold": {"handle": "#1", "level": "full", "lines": (1, 2)},
    "search": {
        "query": "go",
        "limit": 5,
        "everywhere": True,
        "role": "user",
        "tool": "bash",
        "kind": "message",
        "since": 1,
        "until": 2,
        "newest": False,
    },
    "fork": {"id": "twin", "at": 1},
    "spawn": {"id": "child", "task": "t", "summary": "s", "artifacts": [], "model": "gpt-4o"},
    "files.refresh": {"root": "/nonexistent", "files_max": 2, "chars_max": 100},
    "recover": {"error": {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}},
    "count": {"message": MESSAGES["gemini"][0]},
    "on": {"name": "*", "listener": print},
    "log.events": {"after": 0, "limit": 5},
    "log.points": {"every": 2, "keep": 3, "hours": 1.0},
    "log.diff": {"first": 1, "last": "#2"},
    "log.why": {"seq": 1},
    "artifacts.put": {"content": {"a": 1}, "name": "x.txt", "type": "custom", "mime": "text/plain"},
    "artifacts.list": {"task": "t", "query": "q", "tool": "bash"},
    "artifacts.select": {"query": "x", "limit": 3, "score_min": 0.1, "tokens_max": 100},
    "artifacts.value": {"handle": "#3"},
    "artifacts.lines": {"handle": "#1", "first": 1, "last": 2, "chars_max": 100},
    "artifacts.grep": {
        "pattern": "x",
        "handle": "#1",
        "regex": True,
        "ignore_case": False,
        "limit": 5,
        "wait_s": 1.0,
    },
    "artifacts.clean": {"older_than_s": 1.0, "keep_bytes": 1, "keep_count": 1, "dry_run": True},
    "artifacts.remove": {"handle": "art-aaaaaaaaaaaa"},
    "toolbox.tools": {"dialect": "gemini"},
    "toolbox.call": {"name": "refold_search", "arguments": {"query": "go", "limit": 3}},
}


def _method(name: str) -> Door:
    def door(context: refold.Context, _: Path, value: Any, chance: random.Random) -> object:
        found: Any = context
        for part in name.split("."):
            found = getattr(found, part)
        given = METHODS[name]
        argument = chance.choice(list(given))
        return found(**{**given, argument: mutated(given[argument], chance, value)})

    return door


def _append(dialect: str) -> Door:
    def door(context: refold.Context, _: Path, value: Any, chance: random.Random) -> object:
        return context.append(mutated(chance.choice(MESSAGES[dialect]), chance, value))

    return door


def _record(dialect: str) -> Door:
    def door(context: refold.Context, _: Path, value: Any, chance: random.Random) -> object:
        response = mutated(RESPONSES[dialect], chance, value)
        refold.tool_calls(response)
        return context.record(response)

    return door


def _stream(context: refold.Context, _: Path, value: Any, chance: random.Random) -> object:
    return list(context.stream(mutated(CHUNKS, chance, value)))


def _settings(_: refold.Context, __: Path, value: Any, chance: random.Random) -> object:
    return refold.open("other", store="memory:", config=mutated(SETTINGS, chance, value))


def _config(_: refold.Context, __: Path, value: Any, chance: random.Random) -> object:
    name = chance.choice(list(SETTINGS))
    given = {**SETTINGS, name: mutated(SETTINGS[name], chance, value)}
    return refold.open("other", store="memory:", config=refold.Config(**given))


def _config_file(_: refold.Context, folder: Path, value: Any, chance: random.Random) -> object:
    text = value if isinstance(value, str) else repr(chance.random())
    name = chance.choice(list(SETTINGS))
    body = chance.choice([text, f"{name} = {text}", f'{name} = """{text}"""', f"[{text}]\na = 1"])
    (folder / "refold.toml").write_bytes(body.encode("utf-8", "surrogatepass"))
    return loaded(folder=folder)


def _environment(_: refold.Context, folder: Path, value: Any, chance: random.Random) -> object:
    text = str.__str__(value) if isinstance(value, str) else "[1"
    return loaded(folder=folder, environ={f"REFOLD_{chance.choice(list(SETTINGS)).upper()}": text})


def _opening(_: refold.Context, __: Path, value: Any, chance: random.Random) -> object:
    given = {"store": "memory:", "model": "m", "window": 9_000, "system": "s", "tools": TOOLS}
    given |= {"config": None, "counter": None, "writer": None, "embedder": None}
    argument = chance.choice(list(given))
    return refold.open("other", **{**given, argument: value})


def _id(context: refold.Context, folder: Path, value: Any, chance: random.Random) -> object:
    store = chance.choice([context._open.store, f"files:{folder}/f", f"sqlite:{folder}/s.db"])
    with refold.open(value, store=store) as other:
        other.append({"role": "user", "content": "go"})
        return other.request()


def _url(_: refold.Context, folder: Path, value: Any, chance: random.Random) -> object:
    scheme = chance.choice(["", "files:", "sqlite:", "memory:"])
    url = scheme + f"{folder}/" * (scheme != "") + value if isinstance(value, str) else value
    store = refold.open_store(url)
    try:
        return refold.conversations.list(store)
    finally:
        store.close()


def _export(context: refold.Context, folder: Path, value: Any, chance: random.Random) -> object:
    ending = chance.choice(["", ".json", ".md"])
    path = f"{folder}/{value.replace('/', '_')}{ending}" if isinstance(value, str) else value
    name = chance.choice(["work", value])
    return refold.conversations.export(context._open.store, name, path)


def _import(context: refold.Context, folder: Path, value: Any, chance: random.Random) -> object:
    path = folder / "whole.json"
    refold.conversations.export(context._open.store, "work", path, force=True)
    document = bytearray(path.read_bytes())
    match chance.randrange(4):
        case 0:
            document[chance.randrange(len(document))] ^= 1 << chance.randrange(8)
        case 1:
            del document[chance.randrange(len(document)) :]
        case 2 if isinstance(value, str):
            at = chance.randrange(len(document))
            document[at:at] = value.encode("utf-8", "surrogatepass")
        case _:
            return refold.conversations.import_("memory:", value, id=chance.choice([None, value]))
    return refold.conversations.import_("memory:", bytes(document))


def _stored(context: refold.Context, folder: Path, value: Any, chance: random.Random) -> object:
    calls = refold.conversations
    store = context._open.store
    return chance.choice(
        [
            lambda: calls.list(value),
            lambda: calls.list(store, tag=value),
            lambda: calls.find(store, value),
            lambda: calls.copy(store, "memory:", value),
            lambda: calls.copy(value, store),
            lambda: calls.verify(store, value),
            lambda: calls.repair(store, value),
            lambda: calls.scan(store, value),
            lambda: calls.delete(store, [value]),
            lambda: calls.delete(store, value),
        ]
    )()


def _known(_: refold.Context, __: Path, value: Any, chance: random.Random) -> object:
    """What is made known by name, or asked for by it. Nothing hostile stays known."""
    row = mutated({"mine-9": {"window": 9_000, "prices": {"input": 1, "output": 2}}}, chance, value)
    return chance.choice(
        [
            lambda: refold.register.strategy("mine-9", value),
            lambda: refold.register.strategy("mine-9", lambda _: [], settings=value),
            lambda: refold.register.tool("mine-9", describe=value),
            lambda: refold.register.counter("mine-9", value),
            lambda: refold.register.models(row) if row else None,
            lambda: refold.model_info(value),
            lambda: refold.endpoint(value, "m"),
            lambda: refold.endpoint("http://127.0.0.1:9", value, window=value),
            lambda: refold.tool_calls(value),
        ]
    )()


def _undo(context: refold.Context, _: Path, value: Any, chance: random.Random) -> object:
    """Going back after something hostile was tried."""
    try:
        context.append(mutated(MESSAGES["openai_chat"][0], chance, value))
        context.compact("hide", target=10)
        context.restore(value)
    except refold.RefoldError:
        pass
    return [context.undo(), context.undo(), context.redo()]


DOORS: dict[str, Door] = {
    **{f"append {name}": _append(name) for name in MESSAGES},
    **{f"record {name}": _record(name) for name in RESPONSES},
    "stream": _stream,
    **{name: _method(name) for name in METHODS},
    "undo": _undo,
    "open": _opening,
    "id": _id,
    "store URL": _url,
    "settings": _settings,
    "config": _config,
    "config file": _config_file,
    "environment": _environment,
    "export": _export,
    "import": _import,
    "conversations": _stored,
    "register": _known,
}
# A page that cannot fit is the right answer to a window or a system prompt of that size.
RESIZING = ("update",)
