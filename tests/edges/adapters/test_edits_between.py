"""Somebody edits the conversation of a framework while the model answers: what is sent next is taken
by a provider that binds thinking to what was read."""

from __future__ import annotations

from typing import Any

import pytest

import refold
from refold.edges.adapters.guest import Guest, same
from refold.stores import open_store
from tests.real.proxy.strict.server import Upstream
from tests.real.proxy.strict.settings import Settings
from tests.real.proxy.strict.talks import HEADERS, MODEL, call, posted, result, text, thought

Json = dict[str, Any]


class Host:
    """A framework with a list of its own; it may tell at once what was answered, or only repeat
    it."""

    def __init__(self, *, tells: bool) -> None:
        self.store, self.tells = open_store("memory:"), tells
        self.guest = Guest("anthropic", self.store, {"model": MODEL, "window": 12_000})
        self.upstream = Upstream(Settings())
        self.messages: list[Json] = [{"role": "user", "content": "Why does it fail?"}]

    def step(self, number: int, deed: str = "") -> None:
        self.upstream.script.add([thought(f"hm {number}"), text("So."), call(f"c{number}")])
        sent = self.guest.fold("s", self.messages, same, same)
        body = {"model": MODEL, "max_tokens": 1_000, "messages": sent.shown}
        status, answer = posted(self.upstream, "/v1/messages", body, HEADERS)
        assert status == 200, answer
        reply = {"role": "assistant", "content": answer["content"]}
        self.do(deed, sent.conversation)
        if self.tells:
            self.guest.take(sent, lambda: ([reply], answer["usage"]))
        output = f"{number}\n" + "line of the file\n" * 150
        self.messages += [reply, {"role": "user", "content": [result(f"c{number}", output)]}]

    def do(self, deed: str, conversation: str) -> None:
        with refold.open(conversation, store=self.store) as shell:
            said = [one.seq for one in shell.log.events() if one.kind == "message"]
            match deed:
                case "clear":
                    shell.clear()
                case "hide":
                    shell.hide(said[len(said) // 2])
                case "undo":
                    shell.undo()
                case "compact":
                    shell.compact()
                case "restore":
                    shell.restore(shell.view.head)


@pytest.mark.parametrize("tells", [True, False])
@pytest.mark.parametrize("deed", ["", "clear", "hide", "undo", "compact", "restore"])
def test_an_edit_while_the_model_answers_leaves_a_request_that_is_taken(deed: str, tells: bool):
    host = Host(tells=tells)
    for number in range(24):
        host.step(number, deed if number in (12, 16) else "")
    assert host.upstream.refusals == []
