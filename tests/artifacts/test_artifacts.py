"""Artifacts are named by id only, and kept as the text they are."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from refold.errors import Invalid, NotFound
from refold.stores import open_store
from tests.toolruns import long, opened, outputs_in, ran


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    store = open_store("memory:" if request.param == "memory" else f"sqlite:{tmp_path}/refold.db")
    yield store
    store.close()


def test_a_handle_of_another_conversation_is_not_found(store):
    """T-08: an output is named by id, and only where the log names it."""
    one, two = opened(store, "one"), opened(store, "two")
    id = ran(one, long("secret"))
    for context in (two,):
        with pytest.raises(NotFound, match="in this conversation"):
            context.unfold(id)
    for wrong in (
        "../../x",
        "/etc/passwd",
        "artifact://../../etc/passwd",
        "",
        "art",
        "#0x1",
        "file:///etc/passwd",
    ):
        with pytest.raises(Invalid, match="not a handle"):
            one.unfold(wrong)


def test_bytes_that_are_gone_without_a_cleanup_are_missing(tmp_path):
    store = open_store(f"sqlite:{tmp_path}/refold.db")
    context = opened(store)
    id = ran(context, long("output"))
    for file in os.listdir(tmp_path / "artifacts"):
        os.unlink(tmp_path / "artifacts" / file)
    with pytest.raises(NotFound) as missing:
        context.unfold(id)
    assert "cleaned up" not in str(missing.value)
    there = ran(context, long("output, again"))
    outputs = outputs_in(context)
    assert {one.artifact.id for one in outputs.select("output")} == {there}
    assert {one.artifact.id for one in outputs.select("bash")} == {id, there}
    assert [(one.handle, len(one.grepped.lines)) for one in outputs.grep("output")] == [
        (there, 1),
        (id, 0),
    ]
    with pytest.raises(NotFound):
        outputs.grep("output", id)


def test_a_hundred_outputs_at_once_are_all_kept(store):
    """T-23."""
    context = opened(store)
    outputs = [long(f"output {n}") for n in range(100)]
    function = {"name": "run", "arguments": "{}"}
    calls = [{"id": f"c{n}", "type": "function", "function": function} for n in range(100)]
    context.append({"role": "assistant", "content": None, "tool_calls": calls})
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda n: context.append_result(f"c{n}", outputs[n], name="run"), range(100)))
    kept = outputs_in(context).list()
    assert len({one.id for one in kept}) == len(kept) == 100
    assert {context.unfold(one.id).text for one in kept} == set(outputs)


def test_bytes_that_no_event_could_hold_are_kept_as_the_text_they_are(tmp_path):
    """T-04, T-21: 17 MB of UTF-8 as bytes or as plain data are shown by their lines, without
    being decoded whole."""
    store = open_store(f"sqlite:{tmp_path}/refold.db")
    context = opened(store)
    text = "é first line\n" + "a line with a 汉字 in it\n" * 700_000 + "the last line"
    written = json.dumps([text], ensure_ascii=False).encode()
    for output, content, mime in (
        (text.encode(), text.encode(), "application/octet-stream"),
        ([text], written, "application/json"),
    ):
        id = ran(context, output)
        [artifact] = [one.artifact for one in outputs_in(context).list() if one.id == id]
        assert artifact.mime == mime and artifact.size_bytes == len(content) > 16 * 1024 * 1024
        assert (
            artifact.size_chars == len(content.decode()) and context.unfold(id).content == content
        )
        shown = context.view.slots[-1].message.blocks[0].content[0].text
        assert "é first line" in shown and "the last line" in shown and len(shown) <= 2_000
    assert artifact.lines == 1
    binary = ran(context, b"\xff" * 17_000_000)
    assert [one.artifact.size_chars for one in outputs_in(context).list() if one.id == binary] == [
        0
    ]
