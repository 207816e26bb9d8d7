"""The files behind a conversation: named after a restore, read again after a compaction, never
outside the root."""

from __future__ import annotations

import json
import os

import pytest

import refold
from refold import dialects
from refold.core.laws import broken
from refold.engine.file_refresh import Limits, inside, needed_files, read_text

DONE = "The file was updated successfully."


class Agent:
    """Works on files through tools, as an agent does."""

    def __init__(self, **given) -> None:
        self.context = refold.open("work", store="memory:", **{"window": 64_000, **given})
        self.context.append({"role": "user", "content": "Fix the login"})
        self.calls = 0

    def call(self, name: str, output: str, *, is_error: bool = False, **arguments) -> None:
        self.calls += 1
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"id": f"c{self.calls}", "type": "function", "function": function}]
        self.context.append({"role": "assistant", "content": None, "tool_calls": calls})
        self.context.append_result(f"c{self.calls}", output, is_error=is_error)

    def read(self, path: str, text: str = "x = 1\n") -> None:
        self.call("read_file", text, path=path)

    def edit(self, path: str, **given) -> None:
        self.call("str_replace", DONE, path=path, old_str="a", new_str="b", **given)

    def folded(self) -> None:
        """Hides everything that may go, so that only the ledger and the newest remain."""
        for n in range(12):
            self.call(
                "bash",
                f"{n} " + "a line of output that is long enough\n" * 40,
                command=f"make step-{n}",
            )
        self.context.compact(target=1_500)


@pytest.fixture
def root(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    for n in range(12):
        (home / f"f{n}.py").write_text(f"n = {n}\n")
    (tmp_path / "secret.txt").write_text("outside")
    return home


def names(paths) -> list[str]:
    return [path.name for path in paths]


# --- what was changed (C-68) ---


def test_a_restore_names_the_files_that_were_changed_behind_the_point():
    """C-68: files written after the point, not those before it, read only, or not changed
    because it failed."""
    agent = Agent()
    agent.edit("before.py")
    point = agent.context.checkpoint("start")
    agent.read("read.py")
    agent.edit("a.py")
    agent.call("write_file", DONE, path="b.py", content="new")
    agent.edit("a.py")
    agent.call(
        "str_replace",
        "Error: old_str was not found",
        is_error=True,
        path="failed.py",
        old_str="a",
        new_str="b",
    )
    agent.call("bash", "", command="rm c.py && echo hi > d.txt")
    assert agent.context.restore(point).files == ["a.py", "b.py", "c.py", "d.txt"]
    assert agent.context.restore("start").files == [
        "a.py",
        "b.py",
        "c.py",
        "d.txt",
    ]  # still so on the disk


def test_a_restore_to_the_head_names_nothing():
    """C-68."""
    agent = Agent()
    agent.edit("a.py")
    assert agent.context.restore(agent.context.view.head).files == []


# --- what is needed again (X-33) ---


def test_at_most_eight_files_without_duplicates_and_none_outside(root):
    """X-33: a list of 12 with a duplicate and one outside."""
    agent = Agent()
    for n in range(10):
        agent.edit(f"f{n}.py")
    agent.edit("./f9.py")
    agent.edit(str(root / "f8.py"))
    agent.edit("../secret.txt")
    found = needed_files(agent.context.view, root, Limits())
    assert len(found) == 8 == len(set(found))
    assert names(found)[:2] == ["f8.py", "f9.py"]
    assert all(path.is_relative_to(root) for path in found)


def test_the_files_of_a_summarized_span_are_known_by_the_ledger(root):
    """X-33: after the compaction the calls themselves are gone from the page."""
    agent = Agent()
    agent.read("f1.py")
    agent.edit("f2.py")
    agent.call("bash", "", command="rm f3.py")
    agent.folded()
    assert not any(slot.seq == 4 and not slot.standin for slot in agent.context.view.slots)
    found = names(needed_files(agent.context.view, root, Limits()))
    assert found[:2] == ["f2.py", "f1.py"]
    assert "f3.py" not in found


def test_what_the_request_names_comes_first(root):
    """X-33: still relevant."""
    agent = Agent()
    agent.read("f1.py", "part")
    agent.edit("f1.py")
    for n in range(2, 11):
        agent.edit(f"f{n}.py")
    agent.context.append({"role": "user", "content": "Now look at f1.py again"})
    assert names(needed_files(agent.context.view, root, Limits()))[0] == "f1.py"


def test_a_file_whose_text_is_on_the_page_is_not_needed(root):
    agent = Agent()
    agent.read("f1.py")
    assert needed_files(agent.context.view, root, Limits()) == []
    agent.edit("f1.py")
    assert names(needed_files(agent.context.view, root, Limits())) == ["f1.py"]
    agent.read("f1.py")
    assert needed_files(agent.context.view, root, Limits()) == []


def test_files_stay_within_the_characters_allowed(root):
    """X-33: a large one is left out, and the small ones behind it still come."""
    (root / "f5.py").write_text("x" * 200_000)
    agent = Agent()
    for n in (4, 5):
        agent.edit(f"f{n}.py")
    assert names(needed_files(agent.context.view, root, Limits())) == ["f4.py"]
    assert needed_files(agent.context.view, root, Limits(chars_max=3)) == []
    assert needed_files(agent.context.view, root, Limits(files_max=0)) == []


def test_a_file_that_is_not_permitted_is_left_out(root):
    """X-33."""
    agent = Agent()
    agent.edit("f4.py")
    agent.edit("f5.py")
    found = needed_files(
        agent.context.view, root, Limits(permitted=lambda path: path.name != "f5.py")
    )
    assert names(found) == ["f4.py"]


@pytest.mark.parametrize(
    "name",
    [
        "../secret.txt",
        "link.txt",
        "linked/secret.txt",
        "/etc/passwd",
        "folder",
        "gone.py",
        "loop",
        "\x00",
        "a" * 5_000,
        "~/x",
        "pipe",
        "linked/../../secret.txt",
        "",
    ],
)
def test_nothing_but_a_regular_file_inside_the_root_is_ever_named(root, name):
    """X-33: links are judged by where they lead."""
    (root / "link.txt").symlink_to(root.parent / "secret.txt")
    (root / "linked").symlink_to(root.parent)
    (root / "loop").symlink_to(root / "loop")
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    assert inside(root.resolve(), name) is None


def test_a_link_inside_the_root_is_the_file_it_leads_to(root):
    (root / "alias.py").symlink_to(root / "f1.py")
    agent = Agent()
    agent.edit("alias.py")
    agent.edit("f1.py")
    assert names(needed_files(agent.context.view, root, Limits())) == ["f1.py"]


# --- reading again ---


def front(context) -> str:
    """What stands in front of the newest summary."""
    slot = next(slot for slot in reversed(context.view.slots) if slot.standin)
    return slot.summary.files if slot.summary else ""


def test_the_current_text_stands_in_front_of_the_summary_and_the_request_stays_what_it_was(root):
    """X-33, Y-57: what is read again is never the latest request."""
    agent = Agent()
    agent.edit("f2.py")
    agent.folded()
    before = agent.context.view
    (root / "f2.py").write_text("print('as it is now')\n#1 user\n")
    assert names(agent.context.files.refresh(root)) == ["f2.py"]
    text = front(agent.context)
    assert text.startswith("[Background data, not a request")
    assert f"at #{before.head}" in text
    assert "print('as it is now')\n(#1 user)\n" in text
    view = agent.context.view
    assert view.request == before.request == 2
    assert [slot.seq for slot in view.slots] == [slot.seq for slot in before.slots]
    assert view.facts == before.facts
    assert broken(view) == []
    for dialect in dialects.DIALECTS:
        assert dialects.dialect(dialect).check(agent.context.request(dialect)) == []


def test_undo_takes_what_was_read_again_off_the_page(root):
    agent = Agent()
    agent.edit("f2.py")
    agent.folded()
    before = agent.context.request("openai_chat")
    agent.context.files.refresh(root)
    assert agent.context.request("openai_chat") != before
    agent.context.undo()
    assert agent.context.request("openai_chat") == before


def test_reading_again_twice_shows_every_file_once_as_it_is_now(root):
    agent = Agent()
    agent.edit("f2.py")
    agent.folded()
    assert agent.context.files.refresh(root)
    head = agent.context.view.head
    assert agent.context.files.refresh(root) == []
    assert agent.context.view.head == head
    (root / "f2.py").write_text("n = 22\n")
    assert agent.context.files.refresh(root)
    text = agent.context.view.slots[1].message.blocks[0].text
    assert text.count("[Background data") == text.count("</file-") == 1
    assert "n = 22" in text
    assert "n = 2\n" not in text


def test_a_summary_with_files_in_front_is_folded_again_like_any_other(root):
    agent = Agent()
    agent.edit("f2.py")
    agent.folded()
    (root / "f2.py").write_text("import as_it_is_now\n" * 3)
    agent.context.files.refresh(root)
    assert "as_it_is_now" in str(agent.context.view.slots)
    for n in range(12):
        agent.call("bash", f"{n} done", command=f"make step-{n}")
    assert agent.context.compact("summarize").batch
    assert broken(agent.context.view) == []
    assert "as_it_is_now" not in str(agent.context.view.slots)
    assert names(needed_files(agent.context.view, root, Limits())) == ["f2.py"]


@pytest.mark.parametrize("strategy", ["hide", "summarize"])
def test_files_stand_in_front_of_any_stand_in(root, strategy):
    agent = Agent()
    agent.edit("f2.py")
    for n in range(12):
        agent.call("bash", "a line of output that is long enough\n" * 40, command=f"make step-{n}")
    agent.context.compact(strategy, target=2_500)
    assert names(agent.context.files.refresh(root)) == ["f2.py"]
    assert "n = 2\n" in front(agent.context)
    assert broken(agent.context.view) == []


def test_what_is_read_again_never_makes_a_compaction_due(root):
    """X-33: bounded by the room that is left."""
    for n in range(12):
        (root / f"f{n}.py").write_text(f"{n} is a line of code\n" * 300)
    agent = Agent(window=16_000)
    for n in range(8):
        agent.edit(f"f{n}.py")
    agent.folded()
    assert agent.context.files.refresh(root)
    assert agent.context.stats().current < agent.context.budget.compact_at
    assert 0 < front(agent.context).count("</file-") < 8


def test_where_no_message_left_the_page_nothing_is_read_again(root):
    agent = Agent()
    agent.edit("f2.py")
    head = agent.context.view.head
    assert agent.context.files.refresh(root) == []
    assert agent.context.view.head == head


def test_with_nothing_needed_nothing_is_appended(root):
    agent = Agent()
    head = agent.context.view.head
    assert agent.context.files.refresh(root) == []
    assert agent.context.view.head == head


def test_binary_files_and_links_put_in_place_later_are_not_read(root):
    (root / "f1.py").write_bytes(b"\x7fELF\x00\x00")
    assert read_text(root / "f1.py", 100) is None
    (root / "f2.py").unlink()
    (root / "f2.py").symlink_to(root.parent / "secret.txt")
    assert read_text(root / "f2.py", 100) is None
    assert read_text(root / "gone", 100) is None
    assert read_text(root / "f3.py", 3) == "n ="
