"""A log that takes secrets out holds none, whatever says them: every field of every kind of event,
and every call by which text enters, on both sides of a sync."""

from __future__ import annotations

import base64
import dataclasses
from collections import Counter, namedtuple
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

import refold
from refold.core import codec
from refold.core.model import Artifact, Body, Message, Note, Text, Thinking, ToolCall, ToolResult
from refold.errors import Invalid, RefoldError
from refold.log.draft import Draft
from refold.log.log import Log
from refold.log.notes import body_redacted, draft_redacted
from refold.stores import open_store, synced_of
from refold.stores.hybrid import full_sync

KEY = "AKIA" + "Q7RZ4M2KX9WLT5VB"
LINE = f"aws_access_key_id = {KEY}"
SECRETS = (KEY, LINE)


# --- a value of any type, with a secret in one place ---


def plain(type: Any) -> Any:
    """A value of a type that says nothing."""
    match type:
        case inspect.StructType(cls=cls):
            if cls is Artifact:
                return {"id": "art-000000000000", "digest": "0" * 64}
            fields = {one.encode_name: plain(one.type) for one in type.fields if one.required}
            return _tagged(type, fields)
        case inspect.LiteralType():
            return type.values[0]
        case inspect.UnionType():
            return plain(type.types[0])
        case inspect.TupleType():
            return [plain(one) for one in type.item_types]
        case inspect.StrType() | inspect.BytesType():
            return ""
        case inspect.IntType() | inspect.FloatType():
            return 1
        case inspect.BoolType():
            return False
        case inspect.DictType():
            return {}
        case inspect.ListType() | inspect.VarTupleType():
            return []
        case _:
            return None


def planted(type: Any, secret: str) -> Iterator[Any]:
    """Values of a type, each with the secret in another place."""
    match type:
        case inspect.StructType():
            for field in type.fields:
                for value in planted(field.type, secret):
                    yield {**plain(type), field.encode_name: value}
        case inspect.UnionType():
            for one in type.types:
                yield from planted(one, secret)
        case inspect.TupleType():
            for place, one in enumerate(type.item_types):
                for value in planted(one, secret):
                    yield [*map(plain, type.item_types[:place]), value,
                           *map(plain, type.item_types[place + 1 :])]  # fmt: skip
        case inspect.ListType() | inspect.VarTupleType():
            for value in planted(type.item_type, secret):
                yield [value]
        case inspect.DictType():
            yield {secret: plain(type.value_type)}
            for value in planted(type.value_type, secret):
                yield {"name": value}
        case inspect.StrType():
            yield secret
        case inspect.BytesType():
            yield base64.b64encode(secret.encode()).decode()
        case inspect.AnyType():
            yield from (secret, [secret], {"key": secret}, {secret: 1}, {"data": {"id": secret}})
        case _:
            return


def _tagged(type: inspect.StructType, fields: dict[str, Any]) -> dict[str, Any]:
    return fields if type.tag_field is None else {type.tag_field: type.tag, **fields}


def bodies() -> Iterator[Body]:
    """Every kind of body with a secret in every field that can hold one."""
    for type in Body.__args__:
        for secret in SECRETS:
            for value in planted(inspect.type_info(type), secret):
                yield msgspec.convert(value, type)


# --- both sides ---


def url(root: Path) -> str:
    return f"hybrid:files:{root}/near?far=files:{root}/far&redact=append"


def holds(root: Path) -> list[str]:
    """The files that hold the secret, as it is or encoded."""
    wanted = [KEY.encode(), *(base64.b64encode(one.encode()) for one in SECRETS)]
    files = [path for path in root.rglob("*") if path.is_file()]
    return [str(path) for path in files if any(one in path.read_bytes() for one in wanted)]


def synced(root: Path) -> None:
    store = open_store(url(root))
    report = synced_of(store).sync()
    assert report.is_done, report
    store.close()


def test_no_field_of_any_event_brings_a_secret_to_either_side(tmp_path: Path) -> None:
    store = open_store(url(tmp_path))
    log = Log(store, "c")
    log.append([Draft(body=Message(role="user", blocks=(Text("hello"),)), by="user")])
    written: Counter[str] = Counter()
    for body in bodies():
        try:
            log.append([Draft(body=body, by="user")])
        except RefoldError:
            continue  # a name that holds a secret, or an edit of nothing: not written
        written[codec.kind_of(body)] += 1
    log.append([Draft(body=Note(kind="n"), by=LINE)])
    store.close()
    synced(tmp_path)
    assert holds(tmp_path) == []
    # Refusing everything would be no redaction.
    for kind in ("message", "note", "memory", "artifact", "meta", "checkpoint"):
        assert written[kind] >= 2, written


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["key", "id", "data", "type", "signature", "call", "password", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


def with_secret(value: Any, place: int, secret: str) -> Any:
    """The value with the secret beside one of its parts."""
    match value:
        case list() if value:
            at = place % len(value)
            return [*value[:at], with_secret(value[at], place // 2, secret), *value[at + 1 :]]
        case dict() if value:
            name = sorted(value)[place % len(value)]
            return {**value, name: with_secret(value[name], place // 2, secret)}
        case _:
            return secret


@given(value=JSON, place=st.integers(0, 99), secret=st.sampled_from(SECRETS))
@settings(max_examples=200, deadline=None)
def test_free_data_holds_no_secret_at_any_depth(value: Any, place: int, secret: str) -> None:
    data = with_secret(value, place, secret)
    call = ToolCall(id="t", name="run", arguments=data if isinstance(data, dict) else {"x": data})
    for body in (
        Note(kind="n", data=data),
        Message(role="user", metadata={"m": data}, form=data),
        Message(role="assistant", blocks=(call,)),
    ):
        clean = draft_redacted(Draft(body=body, by="user"))
        assert KEY.encode() not in clean.encoded
        # Whatever is sealed this way may be sent, and a second time changes nothing.
        assert not [
            text for text in full_sync._strings(msgspec.json.decode(clean.encoded)) if KEY in text
        ]
        assert draft_redacted(clean) is clean


def test_names_that_hold_a_secret_are_refused_with_nothing_written(tmp_path: Path) -> None:
    with refold.open("c", store=url(tmp_path), model="gpt-4o") as context:
        with pytest.raises(Invalid, match="secret") as refusal:
            context.append({"role": "user", "content": "hi"}, key=KEY)
        assert KEY not in f"{refusal.value} {refusal.value.hint}"
        context.append({"role": "user", "content": "hi"})
        with pytest.raises(Invalid, match="secret"):
            context.fork(KEY)
    with (
        refold.open(KEY, store=url(tmp_path), model="gpt-4o") as context,
        pytest.raises(Invalid, match="secret"),
    ):
        context.append({"role": "user", "content": "hi"})
    assert holds(tmp_path) == []


def test_a_thought_that_changed_loses_its_signature_and_no_other() -> None:
    blocks = (Thinking(text=LINE, signature="c2ln"), Thinking(text="so", signature="c2ln"))
    clean = draft_redacted(Draft(body=Message(role="assistant", blocks=blocks), by="model")).body
    assert isinstance(clean, Message)
    assert [one.signature for one in clean.blocks if isinstance(one, Thinking)] == ["", "c2ln"]


def test_what_holds_no_secret_is_left_as_it_is() -> None:
    result = ToolResult(call="toolu_01AbCdEf", content=(Text("fine"),), artifact="art-0123456789ab")
    body = Message(role="tool", blocks=(result,), key="message-1", metadata={"id": "x"})
    draft = Draft(body=body, by="tool:cat")
    assert draft_redacted(draft) is draft
    plain_body = msgspec.json.decode(draft.encoded)
    assert body_redacted("message", plain_body) == plain_body


# --- every call by which text enters ---


@dataclasses.dataclass
class Answer:
    text: str


Pair = namedtuple("Pair", ["name", "text"])
CALL = {"id": "t1", "type": "function", "function": {"name": "cat", "arguments": "{}"}}
LARGE = "line of output\n" * 4_000


def result_of(value: Any) -> Callable[[refold.Context], object]:
    def act(context: refold.Context) -> None:
        context.append({"role": "assistant", "content": None, "tool_calls": [CALL]})
        context.append_result("t1", value, task=LINE, query=LINE)

    return act


def compacted(context: refold.Context) -> None:
    for number in range(30):
        context.append({"role": "user", "content": f"{number} {LINE} " + "words " * 40})
        context.append({"role": "assistant", "content": f"{LINE} done {number}"})
    context.compact(target=500)


def adopted(context: refold.Context) -> None:
    events = [context.append({"role": "user", "content": f"words {n}"})[0] for n in range(4)]
    context.compact(
        span=(events[0].seq, events[1].seq), summary=f"they said {LINE}", author="elsewhere"
    )


WAYS: dict[str, Callable[[refold.Context], object]] = {
    "title": lambda context: context.update(title=LINE),
    "tags": lambda context: context.update(tags=[LINE]),
    "names": lambda context: context.update(names=[LINE]),
    "metadata": lambda context: context.update(metadata={"key": KEY}),
    "system": lambda context: context.update(system=LINE),
    "tools": lambda context: context.update(
        tools=[{"type": "function", "function": {"name": "cat", "description": LINE}}]
    ),
    "note": lambda context: context.note("progress", {"data": [LINE]}),
    "note by": lambda context: context.note("progress", by=LINE),
    "checkpoint": lambda context: context.checkpoint(LINE),
    "artifact text": lambda context: context.artifacts.put(LINE, name=LINE),
    "artifact bytes": lambda context: context.artifacts.put(LINE.encode(), name="x"),
    "artifact data": lambda context: context.artifacts.put({"key": KEY}, name="x"),
    "result": result_of(LINE),
    "large result": result_of(f"{LINE}\n{LARGE}{LINE}"),
    "data": result_of({"key": KEY, "rows": [LINE]}),
    "large data": result_of({"rows": [LARGE, LINE]}),
    "object": result_of(Answer(LINE)),
    "large object": result_of([Answer(LINE), Answer(LARGE)]),
    "pair": result_of(Pair("x", LINE)),
    "set": result_of({LINE}),
    "bytes": result_of(LINE.encode()),
    "large bytes": result_of(f"{LINE}\n{LARGE}".encode()),
    "error": result_of(ValueError(LINE)),
    "memory": lambda context: context.memory.store(f"The key is {LINE}"),
    "compaction": compacted,
    "adopted": adopted,
}


@pytest.mark.parametrize("way", WAYS)
def test_no_call_brings_a_secret_to_either_side(way: str, tmp_path: Path) -> None:
    with refold.open("c", store=url(tmp_path), model="gpt-4o", window=8_000) as context:
        context.append({"role": "user", "content": "hello"})
        WAYS[way](context)
        context.request()
    synced(tmp_path)
    assert holds(tmp_path) == []


def test_a_prompt_that_is_given_again_is_written_once(tmp_path: Path) -> None:
    heads = []
    for _ in range(3):
        with refold.open("c", store=url(tmp_path), model="gpt-4o", system=LINE) as context:
            context.append({"role": "user", "content": "hello"})
            heads.append(context.view.head)
    assert [after - before for before, after in pairwise(heads)] == [1, 1]


def test_a_file_with_a_secret_is_not_kept_rather_than_put_back_changed(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / ".env").write_text(LINE)
    (root / "plain").write_text("no secret")
    with refold.open("c", store=url(tmp_path), model="gpt-4o") as context:
        context.append({"role": "user", "content": "hello"})
        context.files.keep("plain", root=root)
        with pytest.raises(RefoldError, match="secret"):
            context.files.keep(".env", root=root)
    (root / ".env").unlink()
    synced(tmp_path)
    assert holds(tmp_path) == []


def test_what_was_sealed_before_is_held_and_not_sent(tmp_path: Path) -> None:
    with refold.open("c", store=f"files:{tmp_path}/near", model="gpt-4o") as context:
        context.note("old", {"data": LINE})
        context.append({"role": "user", "content": "hello"})
    store = open_store(url(tmp_path))
    [held] = synced_of(store).sync().synced
    store.close()
    assert held.state == "held"
    assert holds(tmp_path / "far") == []
