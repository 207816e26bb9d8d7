"""To-dos from every kind of list."""

from __future__ import annotations

import json

from refold.core.model import Message
from refold.ledger.ledger import merged
from tests.ledger.messages import does, learnt, says, states, user
from tests.turns import opened_in_characters, talk


def todo_write(*items: tuple[str, str]) -> list[Message]:
    return does("TodoWrite", todos=[{"content": text, "status": status} for text, status in items])


def test_todos_come_from_every_kind_of_list() -> None:
    facts = learnt(
        *todo_write(
            ("write it", "in_progress"), ("plan it", "completed"), ("skip it", "cancelled")
        ),
        *does("update_plan", plan=[{"step": "ship it", "status": "pending"}]),
        *does("update_todo_list", todos="- [x] from text\n- [ ] still there"),
        user("My list:\n- [ ] mine\n* [x] mine too\n1. [ ] third"),
    )
    assert states(facts, "todo") == {
        "plan it": "done",
        "skip it": "cancelled",
        "write it": "cancelled",
        "ship it": "cancelled",
        "from text": "done",
        "still there": "open",
        "mine": "open",
        "mine too": "done",
        "third": "open",
    }


def test_a_finished_todo_never_returns_as_open_but_by_its_own_tool() -> None:
    known = learnt(*todo_write(("ship it", "completed")))
    again = learnt(says("Remaining:\n- [ ] ship it"), user("- [ ] ship it"), known=known, first=10)
    assert not states(again, "todo")
    reopened = learnt(*todo_write(("ship it", "pending")), known=known, first=20)
    assert states(merged(known, reopened), "todo") == {"ship it": "open"}
    closed = learnt(says("- [x] ship it"), known=reopened, first=30)
    assert states(closed, "todo") == {"ship it": "done"}


def test_numbered_tasks_are_followed_over_spans() -> None:
    made = learnt(
        *does(
            "TaskCreate", "Task #3 created successfully: Fix it", subject="Fix it", description="d"
        )
    )
    assert states(made, "todo") == {"[3] Fix it": "open"}
    done = learnt(
        *does("TaskUpdate", "Updated task #3", taskId="3", status="completed"), known=made, first=10
    )
    assert states(merged(made, done), "todo") == {"[3] Fix it": "done"}


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
