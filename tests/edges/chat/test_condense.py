"""`/condense`: the model writes a summary, the person accepts it or answers it."""

from __future__ import annotations

from pathlib import Path

import pytest

from refold.edges.chat.loop import Chat
from refold.edges.chat.scripted import Scripted
from refold.edges.chat.slash import QUESTION, REQUEST, ROUNDS_MAX, obey
from refold.edges.commands.compact import FEEDBACK_TEXT
from refold.errors import Unavailable
from refold.log.handles import body_text
from tests.edges.chat.rooms import GivenLines, Replies, chat_in, said, seen, words


def talked(folder: Path, *replies: object, answers: tuple[str, ...] = (), can_ask: bool = True):
    """A chat of four turns, and the model that answers what comes next."""
    lines = GivenLines(answers=answers, can_ask=can_ask)
    model = Replies(*[said(f"answer {n}") for n in range(4)], *replies)
    chat = chat_in(folder, model, lines)
    for n in range(4):
        chat.answer(f"question {n} " + "and more words " * 20)
    return chat, model, lines


def page(chat: Chat) -> list[str]:
    return [body_text(slot.message) for slot in chat.context.view.slots]


def test_an_accepted_summary_leaves_the_first_pair_and_itself(tmp_path: Path) -> None:
    """C-53"""
    chat, _, lines = talked(tmp_path, said("login"), answers=("yes",))
    before = page(chat)
    assert obey(chat, "/condense")
    after = page(chat)
    assert after[:2] == before[:2] and after[-2:] == [REQUEST, "login"]
    assert len(after) == 5 and "hidden" in after[2]
    assert lines.asked == [QUESTION] and "/undo" in seen(chat)
    assert seen(chat).count("Compacted") == 1
    obey(chat, "/undo")
    assert page(chat) == [*before, REQUEST, "login"]


def test_what_is_said_about_a_summary_goes_to_the_model_and_nothing_leaves(tmp_path: Path) -> None:
    """C-53"""
    wrong = "The port is 8443, NOT 80."
    chat, model, _ = talked(tmp_path, said("port-80"), said("port-8443"), answers=(wrong, "n"))
    before = page(chat)
    assert obey(chat, "/condense")
    told = FEEDBACK_TEXT + wrong
    assert page(chat) == [*before, REQUEST, "port-80", told, "port-8443"]
    assert model.requests[-1]["messages"][-1]["content"] == told
    assert "Nothing left the page." in seen(chat) and not chat.context.log.batches()


def test_a_wish_is_part_of_the_request_and_then_an_answer_to_it(tmp_path: Path) -> None:
    chat, _, _ = talked(tmp_path, said("one"), said("two"), can_ask=False)
    obey(chat, "/condense keep the ports")
    assert page(chat)[-2] == f"{REQUEST}\n\nAbove all: keep the ports"
    assert "Accept it with: /condense --accept" in seen(chat)
    assert "Or say what is wrong: /condense FEEDBACK" in seen(chat)
    obey(chat, "/condense and the names")
    assert page(chat)[-2:] == [FEEDBACK_TEXT + "and the names", "two"]
    assert not chat.context.log.batches()
    obey(chat, "/condense --accept")
    assert page(chat)[-1] == "two" and len(page(chat)) == 5


def test_without_a_summary_nothing_is_accepted(tmp_path: Path) -> None:
    """C-53: the newest message is the user's."""
    chat, _, _ = talked(tmp_path)
    chat.context.append({"role": "user", "content": "and now?"})
    before = page(chat)
    obey(chat, "/condense --accept")
    assert page(chat) == before and "no summary to accept" in words(chat)


@pytest.mark.parametrize("command", ["/undo", "/help", "/condense --accept", "/"])
def test_a_command_is_no_answer_about_a_summary(tmp_path: Path, command: str) -> None:
    chat, model, lines = talked(tmp_path, said("all"), answers=(command, command, "yes"))
    obey(chat, "/condense")
    assert lines.asked == [QUESTION] * 3 and len(chat.context.log.batches()) == 1
    assert command not in str(model.requests[-1]["messages"])


def test_what_made_room_for_the_request_is_told_with_its_way_back(tmp_path: Path) -> None:
    lines = GivenLines(answers=("no",))
    chat = chat_in(tmp_path, Scripted(0), lines, window=50_000)
    for n in range(12):
        chat.answer(f"count to {n} " + "and more words " * 60)
    before = page(chat)
    chat.resize(chat.context.stats().current + 200)
    assert not chat.context.log.batches()
    obey(chat, "/condense")
    [made] = chat.context.log.batches()
    assert "Nothing left the page." not in words(chat)
    assert f"back with: /undo {made.id}" in words(chat)
    assert "earlier message" not in page(chat)[-1]
    chat.resize(50_000)
    obey(chat, f"/undo {made.id}")
    assert page(chat)[: len(before)] == before


@pytest.mark.parametrize("answer", ["y", "Y", " YES ", "yes"])
def test_yes_in_any_form_accepts(tmp_path: Path, answer: str) -> None:
    chat, _, _ = talked(tmp_path, said("all"), answers=(answer.strip(),))
    obey(chat, "/condense")
    assert len(chat.context.log.batches()) == 1


@pytest.mark.parametrize("answer", ["", "n", "No"])
def test_no_and_no_answer_leave_everything(tmp_path: Path, answer: str) -> None:
    chat, _, lines = talked(tmp_path, said("all"), answers=(answer,))
    obey(chat, "/condense")
    assert not chat.context.log.batches() and len(page(chat)) == 10 and len(lines.asked) == 1


def test_a_model_that_fails_is_not_asked_about(tmp_path: Path) -> None:
    gone = Unavailable("the server is away", hint="try again")
    for can_ask in (True, False):
        chat, _, lines = talked(tmp_path, [gone], answers=("yes",), can_ask=can_ask)
        obey(chat, "/condense")
        assert "the server is away" in words(chat) and not lines.asked
        assert not chat.context.log.batches() and chat.failure == "unavailable"


def test_the_rounds_are_bounded(tmp_path: Path) -> None:
    again = [said("again") for _ in range(ROUNDS_MAX)]
    chat, _, lines = talked(tmp_path, *again, answers=("not yet",) * ROUNDS_MAX)
    obey(chat, "/condense")
    assert len(lines.asked) == ROUNDS_MAX and not chat.context.log.batches()


def test_an_empty_conversation_has_nothing_to_condense(tmp_path: Path) -> None:
    chat = chat_in(tmp_path, Replies())
    obey(chat, "/condense")
    assert "nothing to condense yet; ask something first" in words(chat)


def test_the_scripted_agent_writes_what_was_asked_for(tmp_path: Path) -> None:
    chat = chat_in(tmp_path, Scripted(0), GivenLines(answers=["shorter", "yes"]))
    for n in (3, 4, 5):
        chat.answer(f"count to {n}")
    obey(chat, "/condense")
    assert page(chat)[-1] == "So far you asked for: count to 3; count to 4; count to 5."
    assert len(page(chat)) == 5
