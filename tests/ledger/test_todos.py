"""To-dos on a page: the newest list says what is open."""

from __future__ import annotations

import json

from tests.turns import opened_in_characters, talk


def test_a_finished_to_do_is_not_shown_as_open_by_an_older_line():
    """Y-51: the lines of an earlier list are told without their states; the ledger has the
    newest."""
    context = opened_in_characters(window=200_000)
    context.append({"role": "user", "content": "go"})

    def listed(n: int, state: str) -> None:
        todos = [{"content": "Ship the beta_build of src/app.py", "status": state, "id": "1"}]
        function = {"name": "TodoWrite", "arguments": json.dumps({"todos": todos})}
        call = {"id": f"t{n}", "type": "function", "function": function}
        context.append({"role": "assistant", "content": None, "tool_calls": [call]})
        context.append_result(f"t{n}", "ok")

    listed(1, "in_progress")
    talk(context, 10)
    listed(2, "completed")
    talk(context, 20)
    context.compact(target=4_000)
    page = str(context.request("openai_chat"))
    assert "beta_build" in page and "in_progress" not in page
