"""What is kept of contents: their type, their file, and the value that comes back."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import date

import pytest

import refold
from refold import dialects
from refold.errors import Invalid
from refold.stores import open_store
from tests.toolruns import long, opened, outputs_in, ran
from tests.turns import call


@pytest.fixture
def store(tmp_path):
    held = open_store(f"sqlite:{tmp_path}/refold.db")
    yield held
    held.close()


def file_of(store, artifact) -> str:
    return os.path.basename(store.location(artifact.digest))


def test_an_artifact_knows_its_sizes_and_its_digest(store):
    """M-03."""
    content = "\u00e9\n"
    artifact = opened(store).artifacts.put(content, name="e.txt", type="file")
    assert (artifact.size_bytes, artifact.size_chars, artifact.lines) == (3, 2, 1)
    assert artifact.digest == hashlib.sha256(content.encode()).hexdigest()
    assert artifact.type == "file"


@pytest.mark.parametrize(
    ("letter", "count"),
    [("x", 1_000_000), *((letter, 50_000) for letter in ("é", "日", "😀", "\n", "x😀é"))],
)
def test_huge_arguments_are_known_by_their_beginning_and_a_hash(store, letter, count):
    """T-06."""
    context = opened(store)
    value = {"path": "a.py", "text": letter * count}
    arguments = [json.dumps({**value, "z": end}, ensure_ascii=False) for end in "ab"]
    for text in arguments:
        ran(context, long(text[-9:]), tool="write_file", arguments=text)
    first, second = (found.artifact.origin for found in context.artifacts.list())
    assert 0 < len(first.arguments.encode()) <= 512
    assert first.arguments == second.arguments
    assert len(first.arguments_hash) == 12 and first.arguments_hash != second.arguments_hash


@pytest.mark.parametrize("wrong", [{"type": "bogus"}, {"name": 5}, {"mime": 5}])
def test_what_can_be_no_artifact_is_refused_before_its_bytes_are_kept(store, tmp_path, wrong):
    """M-03: the error names the types there are, and no file is left behind."""
    context = opened(store)
    with pytest.raises(Invalid) as refused:
        context.artifacts.put("x", **{"name": "n", **wrong})
    [argument] = wrong
    assert str(refused.value).startswith(f"{argument} is ")
    if argument == "type":
        named = "'file' or 'search_result' or 'command_output' or 'custom'"
        assert named in str(refused.value.hint)
    context.close()
    with pytest.raises(Invalid, match="closed"):
        context.artifacts.put("x", name="n")
    assert not (tmp_path / "artifacts").exists() or not os.listdir(tmp_path / "artifacts")


@pytest.mark.parametrize(
    ("content", "name", "mime", "suffix"),
    [
        ({"a": [1]}, "anything", "application/json", ".json"),
        (None, "nothing", "application/json", ".json"),
        ('{"a": 1}', "data.json", "application/json", ".json"),
        (b'{"a": 2}', "DATA.JSON", "application/json", ".json"),
        (b"\x00\xff", "b.bin", "application/octet-stream", ".bin"),
        (b"\x00\xff", "b", "application/octet-stream", ".bin"),
        (b"\x00\xff\x01", "notes.txt", "application/octet-stream", ".bin"),
        (b"\x00\xff\x02", "no.json", "application/octet-stream", ".bin"),
        (b"\x89PNG\xff", "a.png", "image/png", ".png"),
        ("print()", "main.py", "text/x-python", ".py"),
        ("# a", "README.md", "text/markdown", ".md"),
        ("let a", "a.ts", "text/plain", ".txt"),
        ("a picture, I swear", "a.png", "text/plain", ".txt"),
        ("text", "b.bin", "text/plain", ".txt"),
        ("é", "no ending", "text/plain", ".txt"),
        ("", "empty", "text/plain", ".txt"),
        ("y", "../../x.py/..", "text/plain", ".txt"),
    ],
)
def test_the_file_of_a_content_follows_what_it_is(store, content, name, mime, suffix):
    """M-05: by the bytes first, then by the ending of the name."""
    context = opened(store)
    artifact = context.artifacts.put(content, name=name)
    assert (artifact.mime, file_of(store, artifact)) == (mime, artifact.id + suffix)
    if isinstance(content, str | bytes):
        assert context.unfold(artifact.id).content == (
            content.encode() if isinstance(content, str) else content
        )
    else:
        assert outputs_in(context).value(artifact.id) == content


def test_a_type_that_is_given_wins(store):
    """M-05."""
    context = opened(store)
    for content, mime, suffix in (
        ("a,b", "text/csv", ".csv"),
        (b"text", "application/octet-stream", ".bin"),
        ("{}", "text/plain", ".txt"),
        (b"\xff", "image/webp", ".bin"),
    ):
        artifact = context.artifacts.put(content, name="x.json", mime=mime)
        assert (artifact.mime, file_of(store, artifact)) == (mime, artifact.id + suffix)


def answered(context, output, **given) -> str:
    """The handle of the message that answers a new call with this output."""
    id = f"c{context.view.head}"
    function = {"name": "read", "arguments": '{"path": "data.json"}'}
    calls = [{"id": id, "type": "function", "function": function}]
    context.append({"role": "assistant", "content": None, "tool_calls": calls})
    return f"#{context.append_result(id, output, **given)[-1].seq}"


ALIKE = [
    None,
    "",
    "null",
    [1, 2],
    "[1,2]",
    {"a": {1}},
    '{"a":{"$set":[1]}}',
    5,
    "5",
    date(2026, 11, 16),
    b"\x00\xff",
    "é",
]


@pytest.mark.parametrize("offload_tokens", [0, 8_000])
def test_values_that_look_alike_come_back_as_what_they_were(store, offload_tokens):
    """T-04: kept as an artifact or on the page, data is told from the text that is written the
    same."""
    context = opened(store, config=refold.Config(offload_tokens=offload_tokens))
    handles = [answered(context, value) for value in ALIKE]
    for outputs in (outputs_in(context), outputs_in(opened(store))):
        back = [outputs.value(handle) for handle in handles]
        assert [*map(type, back)] == [*map(type, ALIKE)] and back == ALIKE


def test_the_artifact_of_data_is_json_and_that_of_a_text_that_looks_like_it_is_not(store):
    """T-04, M-05: whatever the call's arguments end in."""
    context = opened(store)
    rows = [{"n": n} for n in range(200)]
    answered(context, rows)
    answered(context, long("{}"))
    answered(context, b"\xff" * 500)
    data, text, binary = [one.artifact for one in context.artifacts.list()]
    assert data.name == text.name == "read: data.json"
    assert [file_of(store, one).partition(".")[2] for one in (data, text, binary)] == [
        "json",
        "txt",
        "bin",
    ]
    values = [outputs_in(context).value(one.id) for one in (data, text, binary)]
    assert values == [rows, long("{}"), b"\xff" * 500]


def test_what_says_that_a_result_is_data_is_not_sent(store):
    """T-04: the page of data is that of its text."""
    one, two = opened(store, "one"), opened(store, "two")
    for context, output in ((one, [1, 2]), (two, "[1,2]")):
        call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        context.append({"role": "user", "content": "go"})
        context.append({"role": "assistant", "content": None, "tool_calls": [call]})
        context.append_result("c", output)
    for dialect in ("openai_chat", "openai_responses", "anthropic", "gemini"):
        assert one.request(dialect) == two.request(dialect)


def test_a_handle_that_is_no_result_has_no_value(store):
    context = opened(store)
    context.append({"role": "user", "content": "hello"})
    answered(context, "a")
    for handle in ("#2", "#2-3"):
        with pytest.raises(Invalid, match="not the result of one tool"):
            outputs_in(context).value(handle)


@pytest.mark.parametrize("dialect", [None, *dialects.DIALECTS])
@pytest.mark.parametrize("is_pending", [True, False])
def test_a_stub_names_the_call_and_only_a_tool_that_the_model_has(dialect, is_pending):
    """T-21: the handle is there anyway."""
    context = refold.open("work", store="memory:", window=32_000)
    context.append({"role": "user", "content": "go"})
    context.append(call(1, "run", '{"command": "pytest -v"}'))
    mine = [{"name": "run", "description": "Run.", "input_schema": {"type": "object"}}]
    context.update(tools=[*mine, *(context.toolbox.tools(dialect) if dialect else [])])
    if not is_pending:
        context.request("anthropic")
    context.append_result("c1", "a line\n" * 20_000)
    stub = context.view.slots[2].message.blocks[0].content[0].text
    [stored] = context.artifacts.list()
    head = stub.split("\n")[0]
    assert head.startswith("[Large output of run: pytest -v: 20,000 lines, 140,000 bytes")
    assert f"artifact://{stored.id}" in head
    assert ("refold_unfold" in head) == (dialect is not None)
    assert head.count("unfold") == head.count("refold_unfold")


@pytest.mark.parametrize("near", ["sqlite:{}/near.db", "files:{}/near"])
@pytest.mark.parametrize("is_synced", [True, False])
def test_a_log_that_is_synced_names_no_path_of_this_device(tmp_path, near, is_synced):
    url = near.format(tmp_path)
    held = open_store(f"hybrid:{url}?far=files:{tmp_path}/team" if is_synced else url)
    context = opened(held)
    ran(context, long("x"), tool="run", arguments="{}")
    context.close()
    bodies = b"".join(event.body for event in held.read(context.id))
    assert b"kept whole as artifact://" in bodies
    assert (str(tmp_path).encode() in bodies) != is_synced
    held.close()
