"""What a program says of its own tools' outputs, and who hears that one was kept."""

from __future__ import annotations

import pytest

from refold.artifacts import stub as describing
from refold.artifacts.stub import register
from refold.artifacts.tool_output import read
from refold.core.model import ToolCall
from refold.log.notices import Notice
from refold.stores import open_store
from tests.toolruns import long, opened, ran

ARGUMENTS = '{"path":"/src/index.ts","deep":{"n":1}}'


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch):
    monkeypatch.setattr(describing, "_registered", {})


@pytest.fixture
def store():
    return open_store("memory:")


def failing(*given):
    raise TimeoutError("no answer")


WRONG = [failing, lambda *given: 5, lambda *given: b"bytes"]


def intake_heard(store):
    """An intake after one call, and the notices of its log."""
    context = opened(store)
    function = {"name": "read", "arguments": ARGUMENTS}
    calls = [{"id": "c", "type": "function", "function": function}]
    context.append({"role": "assistant", "content": None, "tool_calls": calls})
    heard = []
    context.on("*", heard.append)
    return context._intake, context._open.notices.tell, heard


def result(intake, content):
    return intake.result("c", read(content), is_error=False, name="", task="", query="", key="")


def stub_of(context) -> str:
    return context.view.slots[-1].message.blocks[0].content[0].text


@pytest.mark.parametrize(
    ("tool", "arguments", "description"),
    [
        ("readFile", {"path": "/src/index.ts"}, "readFile: /src/index.ts"),
        ("searchCode", {"limit": 10, "query": "t"}, "searchCode with 2 argument(s)"),
        ("listFiles", {}, "listFiles"),
        ("run", {"command": "x" * 51}, "run: " + "x" * 50 + "..."),
    ],
)
def test_a_call_is_described_by_its_first_text(tool, arguments, description):
    """T-09."""
    assert describing.call_description(tool, arguments, failing) == description


def test_a_tool_is_described_as_its_program_says(store):
    """T-09: per tool; any other tool is described as usual."""
    register("read", describe=lambda arguments: f"reads\n {arguments['path']}")
    context = opened(store)
    ran(context, long("a"), tool="read", arguments=ARGUMENTS)
    ran(context, long("b"), tool="write", arguments=ARGUMENTS)
    ran(context, long("c"), tool="read", arguments="{}")
    names = ["reads /src/index.ts", "write: /src/index.ts", "read"]
    assert (
        [one.artifact.name for one in context.artifacts.list()]
        == [one.artifact.origin.description for one in context.artifacts.list()]
        == names
    )
    register("*", describe=lambda arguments: "é\ud800" + "x" * 500)
    ran(context, long("d"), tool="write", arguments=ARGUMENTS)
    last = context.artifacts.list()[-1].artifact.name
    assert last.startswith("é?xx") and len(last) == describing.DESCRIPTION_CHARS_MAX


def test_a_stub_shows_what_a_summarizer_says(store):
    """M-60: the handle, the size and a summary, in 300 characters; it is given the whole text
    and its origin."""
    text = "\n".join(f"line {n}" for n in range(5_000))
    given = []

    def summarize(text, origin):
        given.append((text, origin.tool, origin.task))
        return "auth logic\n"

    register("read", summarize=summarize)
    context = opened(store)
    id = ran(context, text, tool="read", task="login")
    assert given == [(text, "read", "login")] and context.unfold(id).text == text
    shown = stub_of(context)
    assert (
        f"artifact://{id}" in shown and "5,000 lines" in shown and shown.endswith("]\nauth logic")
    )
    assert len(shown) <= 300
    ran(context, b"\xff" * 5_000, tool="read")
    assert len(given) == 1
    register("read", summarize=lambda text, origin: "word " * 10_000)
    ran(context, long("x"), tool="read")
    assert len(stub_of(context)) <= 2_000


@pytest.mark.parametrize("wrong", WRONG)
def test_what_fails_is_told_and_the_usual_is_said(store, wrong):
    """T-09, M-60: the result is appended all the same."""
    intake, tell, heard = intake_heard(store)
    [artifact, message] = result(intake, long("x"))
    register("read", describe=wrong, summarize=wrong)
    assert [draft.body for draft in result(intake, long("x"))] == [artifact.body, message.body]
    tell()
    reasons = [notice.reason for notice in heard if notice.name == "hook-failed"]
    assert [reason.split(":")[0] for reason in reasons] == ["describe read", "summarize read"]
    register("read", describe=lambda arguments: "", summarize=lambda text, origin: None)
    del heard[:]
    assert [draft.body for draft in result(intake, long("x"))] == [artifact.body, message.body]
    tell()
    assert [notice.name for notice in heard] == ["artifact-kept"]


def test_a_describer_cannot_change_a_call(store):
    def greedy(arguments):
        arguments["deep"].clear()
        return "read"

    register("read", describe=greedy)
    call = ToolCall("c", "read", {"deep": {"n": 1}})
    assert describing.call_description(
        call.name, call.arguments, failing
    ) == "read" and call.arguments == {"deep": {"n": 1}}


def test_an_output_that_is_kept_is_told(store):
    """T-24: its handle, its bytes and its tool; a small one is not."""
    intake, tell, heard = intake_heard(store)
    text = long("é")
    [artifact, _] = result(intake, text)
    result(intake, "small")
    details = {"handle": artifact.body.id, "bytes": len(text.encode()), "tool": "read"}
    tell()
    assert heard == [Notice(name="artifact-kept", details=details)]


def test_listeners_hear_what_is_kept_and_what_failed(store):
    """T-24, M-60: and one that raises does not break the append."""
    context = opened(store)
    heard = []
    context.on("*", heard.append)
    context.on("artifact-kept", failing)
    register("read", summarize=failing)
    id = ran(context, long("x"), tool="read")
    kept = {"handle": id, "bytes": len(long("x").encode()), "tool": "read"}
    assert [(one.name, one.details) for one in heard[:2]] == [
        ("hook-failed", {}),
        ("artifact-kept", kept),
    ]
    assert (
        heard[0].reason == "summarize read: TimeoutError: no answer"
        and heard[2].name == "listener-failed"
    )
