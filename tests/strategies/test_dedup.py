"""Text on the page twice is shown once (C-10 to C-27, C-90)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import refold
from refold.config import Config
from refold.core.budget import budget_for
from refold.core.model import (
    Body,
    Event,
    Hide,
    Media,
    Message,
    Pin,
    Replace,
    Slot,
    Span,
    Summarize,
    Text,
    ToolCall,
    ToolResult,
    View,
)
from refold.core.shortened import text_of
from refold.strategies.brief import Brief
from refold.strategies.dedup import NOTICE_MAX, NOTICE_START, dedup
from refold.strategies.ladder import climb
from refold.strategies.registry import rungs
from tests.strategies.talks import count, log_of, state_of

LONG = "".join(f"line {n} of the file\n" for n in range(1, 60))


def brief_of(
    log: Sequence[Event],
    *,
    target: int = 0,
    config: Config | None = None,
    view: View | None = None,
    **settings: Any,
) -> Brief:
    config = config or Config()
    return Brief(
        view=view or state_of(log).view(),
        budget=budget_for(config, window=100_000, output=None),
        config=config,
        count=count,
        target=target,
        enough=target,
        full=100_000,
        batch="b-test",
        originals=lambda span: [],
        settings=settings,
    )


def asks(text: str = "go on") -> Message:
    return Message(role="user", blocks=(Text(text),))


def calls(id: str, name: str, **arguments: Any) -> Message:
    return Message(role="assistant", blocks=(ToolCall(id, name, arguments),))


def gives(id: str, text: str, *, error: bool = False, artifact: str = "") -> Message:
    return Message(
        role="tool", blocks=(ToolResult(id, (Text(text),), is_error=error, artifact=artifact),)
    )


def reads(
    id: str, path: str = "a.txt", text: str = LONG, *, error: bool = False, **arguments: Any
) -> list[Body]:
    return [calls(id, "read_file", path=path, **arguments), gives(id, text, error=error)]


def mention(path: str, text: str = LONG) -> str:
    return f'<file_content path="{path}">\n{text}</file_content>'


def edits_of(
    parts: Sequence[Body], config: Config | None = None, **options: Any
) -> dict[tuple[int, int], str]:
    """What dedup does to a conversation that starts with a request and ends with another."""
    log = log_of([asks(), *parts, asks("the last request")])
    found = dedup(brief_of(log, config=config, **options))
    return {(edit.seq, edit.block): edit.text for edit in found if isinstance(edit, Replace)}


def replaced(parts: Sequence[Body], config: Config | None = None, **options: Any) -> set[int]:
    return {seq for seq, _ in edits_of(parts, config, **options)}


def test_all_but_the_last_occurrence_become_a_notice_whatever_their_source() -> None:
    """C-10, C-12: write (2), replace (4), mention (6): 2 and 4 change, the text around the tags
    stays."""
    final = f'The file was saved.\n<final_file_content path="a.txt">\n{LONG}</final_file_content>\nGo on.'
    write = Message(role="user", blocks=(Text("[write_to_file for 'a.txt'] Result:\n" + final),))
    edit = Message(role="user", blocks=(Text("[replace_in_file for 'a.txt'] Result:\n" + final),))
    found = edits_of([write, edit, asks("see 'a.txt'\n" + mention("a.txt"))])
    assert set(found) == {(2, 0), (3, 0)}
    for text in found.values():
        head, _, rest = text.partition('<final_file_content path="a.txt">')
        body, _, tail = rest.partition("</final_file_content>")
        assert head.endswith("The file was saved.\n") and tail == "\nGo on."
        assert body.startswith(NOTICE_START) and "#4" in body and "line 1" not in text


def test_a_rejected_edit_has_no_text_and_is_no_occurrence() -> None:
    """C-12."""
    rejected = Message(
        role="user", blocks=(Text("[write_to_file for 'a.txt'] Result:\nThe user denied this."),)
    )
    assert not replaced([*reads("c1"), rejected])


def test_read_headers_are_kept_in_both_forms() -> None:
    """C-11."""
    old = Message(role="user", blocks=(Text("[read_file for 'a.txt'] Result:"), Text(LONG)))
    new = Message(role="user", blocks=(Text("[read_file for 'a.txt'] Result:\n" + LONG),))
    found = edits_of([old, new, *reads("c1")])
    assert set(found) == {(2, 1), (3, 0)}
    assert found[2, 1].startswith(NOTICE_START)
    assert found[3, 0].startswith("[read_file for 'a.txt'] Result:\n" + NOTICE_START)


def test_each_mention_in_a_block_is_replaced_on_its_own() -> None:
    """C-13, C-24: the second run adds b and leaves a as it is."""
    both = asks(f"look at {mention('a.txt')} and {mention('b.txt', LONG.upper())} please")
    log = log_of([asks(), both, *reads("c1"), asks("last")])
    first = climb(state_of(log), brief_of(log), rungs(["dedup"]))
    text = text_of(first.state.slots[1].message.blocks[0])
    assert (
        text.startswith("look at <file_content")
        and text.endswith(" please")
        and LONG.upper() in text
    )
    assert "line 1 of" not in text
    log = log_of([asks(), both, *reads("c1"), *reads("c2", "b.txt"), asks("last")])
    second = climb(state_of(log), brief_of(log), rungs(["dedup"]))
    text = text_of(second.state.slots[1].message.blocks[0])
    assert "line 1 of" not in text and "LINE 1 OF" not in text and text.count(NOTICE_START) == 2


def test_a_mention_inside_a_tool_result_counts() -> None:
    """C-14: mention in a result (3), write (5), replace (7): 3 and 5 change."""
    final = f'<final_file_content path="a.txt">{LONG}</final_file_content>'
    parts = [
        calls("c1", "ask_followup_question", question="?"),
        gives("c1", "<answer>" + mention("a.txt") + "</answer>"),
        calls("c2", "write_to_file", path="a.txt"),
        gives("c2", "saved " + final),
        calls("c3", "replace_in_file", path="a.txt"),
        gives("c3", "saved " + final),
    ]
    found = edits_of(parts)
    assert set(found) == {(3, 0), (5, 0)}
    assert found[5, 0].startswith('saved <final_file_content path="a.txt">[')


def test_file_identity_comes_from_the_call_of_any_agent() -> None:
    """C-14: native reads, shell reads and mentions of one file are one sequence."""
    parts: list[Body] = [
        *reads("c1", "./a.txt"),
        calls("c2", "Bash", command="cat a.txt"),
        gives("c2", LONG),
        calls("c3", "shell", command=["bash", "-lc", "cat x/../a.txt"]),
        gives("c3", "Exit code: 0\nOutput:\n" + LONG),
        asks(mention("a.txt")),
    ]
    assert replaced(parts) == {3, 5, 7}


def test_different_files_change_nothing() -> None:
    """C-15, C-17."""
    assert not replaced([*reads("c1", "a.txt", LONG + "1"), *reads("c2", "A.txt", LONG + "2")])
    assert not replaced(reads("c1"))


def test_paths_are_compared_in_one_form() -> None:
    """C-17."""
    assert replaced([*reads("c1", "./src/a.py", "x" * 500), *reads("c2", "src/a.py")]) == {3}
    config = Config(strategy={"actions": {"cwd": "/w"}})
    assert replaced([*reads("c1", "/w/a.py", "x" * 500), *reads("c2", "a.py")], config) == {3}


def test_case_counts_unless_the_configuration_says_otherwise() -> None:
    """C-17: also between a read and a mention; the notice has the spelling that came first."""
    parts = [asks(mention("Src/A.txt", "x" * 500)), *reads("c1", "src/a.txt")]
    assert not edits_of(parts)
    config = Config(strategy={"actions": {"ignore_case": True}})
    assert "the latest text of src/a.txt came at" in edits_of(parts, config)[2, 0]


WHOLE: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("earlier", "later", "gone"),
    [
        (WHOLE, {"start_line": 1, "end_line": 10}, False),
        ({"start_line": 1, "end_line": 10}, WHOLE, True),
        ({"start_line": 1, "end_line": 100}, {"start_line": 50, "end_line": 150}, False),
        ({"start_line": 20, "end_line": 30}, {"start_line": 10, "end_line": 40}, True),
        ({"start_line": 20, "end_line": 30}, {"start_line": 20}, True),
        ({"start_line": 20}, {"start_line": 20, "end_line": 30}, False),
        ({"tail": 5}, WHOLE, True),
        ({"tail": 5}, {"tail": 9}, True),
        ({"tail": 5}, {"start_line": 1, "end_line": 9}, False),
        ({"start_line": 3, "end_line": 4}, {"tail": 50}, False),
        (WHOLE, WHOLE, True),
    ],
)
def test_a_later_read_replaces_only_what_it_covers(
    earlier: dict[str, Any], later: dict[str, Any], gone: bool
) -> None:
    """C-18."""
    parts = [*reads("c1", text="x" * 999, **earlier), *reads("c2", text="y" * 999, **later)]
    assert replaced(parts) == ({3} if gone else set())


@pytest.mark.parametrize(
    "page", [{"page": 2}, {"chunk": "3"}, {"line_ranges": ["1-9"]}, {"lines": "somewhere"}]
)
def test_a_read_with_an_unknown_choice_of_lines_is_no_occurrence(page: dict[str, Any]) -> None:
    """C-18: what cannot be understood could be a part of the file."""
    assert not replaced([*reads("c1", text="x" * 999), *reads("c2", text="y" * 999, **page)])
    assert not replaced(
        [*reads("c1", text="x" * 999, **page), *reads("c2", text="y" * 999, **page)]
    )
    assert replaced(
        [*reads("c1", text="x" * 999, **page), *reads("c2", text="x" * 999, **page)]
    ) == {3}


def test_numbered_lines_tell_what_a_read_really_shows() -> None:
    """C-18: a read of a whole file that stopped at line 2,000 does not stand for what comes
    behind."""
    shown = "\n".join(f"{n:6}→{'x' * 5}" for n in range(1, 2_001))
    behind = "\n".join(f"{n:6}→{'y' * 40}" for n in range(2_500, 2_520))
    parts = [*reads("c1", text=behind, offset=2_500, limit=20), *reads("c2", text=shown)]
    assert not replaced(parts)
    short = [*reads("c1", text=behind, offset=2_500, limit=20), *reads("c2", text=shown[:900])]
    assert not replaced(short), "a file does not lose its lines by itself"


def test_a_shortened_result_stands_for_nothing_but_its_equal() -> None:
    cut = LONG + "[truncated 500 lines]"
    assert not replaced([*reads("c1"), *reads("c2", text=cut)])
    assert replaced([*reads("c1", text=cut), *reads("c2")]) == {3}
    assert replaced([*reads("c1", text=cut), *reads("c2", text=cut)]) == {3}


def test_a_failed_read_is_no_occurrence() -> None:
    """C-19."""
    assert not replaced([*reads("c1"), *reads("c2", text="y" * 900, error=True)])
    assert not replaced([*reads("c1"), *reads("c2", text="Error: no such file" + " " * 900)])
    shell = [
        calls("c2", "bash", command="cat a.txt"),
        gives("c2", "<returncode>1</returncode>\n" + "y" * 900),
    ]
    assert not replaced([*reads("c1"), *shell])


def test_an_edit_without_the_text_replaces_nothing() -> None:
    """C-20; and after it, the same line numbers are not the same lines."""
    patch = [calls("c2", "Edit", file_path="a.txt"), gives("c2", "The file was updated.")]
    assert not replaced([*reads("c1"), *patch])
    part: dict[str, Any] = {"start_line": 1, "end_line": 10}
    first, second = reads("c1", text="x" * 999, **part), reads("c3", text="y" * 999, **part)
    assert replaced([*first, *second]) == {3}
    assert not replaced([*first, *patch, *second])
    assert replaced([*first, *patch, *reads("c3", text="y" * 999)]) == {3}


def test_a_call_that_writes_the_whole_text_stands_for_earlier_reads() -> None:
    write = [
        calls("c2", "Write", file_path="a.txt", content="new text"),
        gives("c2", "File written."),
    ]
    found = edits_of([*reads("c1"), *write])
    assert set(found) == {(3, 0)} and "#4" in found[3, 0]
    failing = [
        calls("c2", "Write", file_path="a.txt", content="new"),
        gives("c2", "no", error=True),
    ]
    assert not replaced([*reads("c1"), *failing])


def test_the_same_file_twice_in_one_message() -> None:
    """C-21."""
    twice = asks(mention("a.txt") + " and again " + mention("a.txt"))
    found = edits_of([twice, *reads("c1")])
    assert found[2, 0].count(NOTICE_START) == 2
    assert edits_of([twice])[2, 0].count(NOTICE_START) == 1


def test_signs_are_taken_literally() -> None:
    """C-22."""
    for path in ("a$&b\\1.txt", "a\\1b.txt", "a(.*)[x.txt", "a'b.txt"):
        text = LONG + "\\g<0> $1"
        found = edits_of([asks(mention(path, text)), *reads("c1", path, text)])
        assert found[2, 0].startswith(f'<file_content path="{path}">[')
        assert f"the latest text of {path} came at" in found[2, 0]


def test_unclosed_tags_are_left_alone() -> None:
    """C-23."""
    text = f'<file_content path="a.txt">{LONG} ' + mention("b.txt")
    found = edits_of([asks(text), *reads("c1", "a.txt"), *reads("c2", "b.txt", LONG.upper())])
    assert found[2, 0].startswith(f'<file_content path="a.txt">{LONG} <file_content path="b.txt">[')


def test_the_notice_is_short_and_says_what_happened() -> None:
    """C-25, C-27."""
    path = "very/" * 400 + "long.py"
    notice = edits_of([*reads("c1", path), *reads("c2", path)])[3, 0]
    assert len(notice) <= NOTICE_MAX
    assert (
        "removed" in notice and "latest" in notice and "#5" in notice and "authoritative" in notice
    )
    assert not replaced([*reads("c1", text="ten chars!"), *reads("c2", text="ten chars!")])


@pytest.mark.parametrize("tool", ["read_file", "bash"])
def test_a_notice_stays_true_when_the_later_copy_leaves_the_page(tool: str) -> None:
    """It says where the text came, and that is where it can be unfolded."""
    context = refold.open("work", store="memory:", window=64_000)
    context.append(asks())
    for id in ("c1", "c2"):
        context.append(calls(id, tool, path="a.txt"))
        context.append(gives(id, LONG * 20))
    context.compact("dedup", target=0)
    later = context.view.slots[-1].seq
    context.append(Message(role="assistant", blocks=(Text("done"),)))
    context.append(asks("and now"))
    context.hide(later - 1, later)
    [notice] = [text for text in map(_text, context.view.slots) if NOTICE_START in text]
    assert f" came {'in full ' if tool == 'bash' else ''}at #{later}" in notice
    assert context.unfold(f"#{later}").text == LONG * 20


def _text(slot: Slot) -> str:
    return "\n".join(map(text_of, slot.message.blocks))


def test_equal_large_results_of_any_tool_are_shown_once() -> None:
    """C-26."""
    output = "ok 1 - works\n" * 400
    parts = [
        calls("c1", "Bash", command="npm test"),
        gives("c1", output),
        calls("c2", "Bash", command="npm test"),
        gives("c2", output),
        calls("c3", "Bash", command="npm test"),
        gives("c3", output + "!"),
    ]
    found = edits_of(parts)
    assert set(found) == {(3, 0)} and "#5" in found[3, 0] and len(found[3, 0]) <= NOTICE_MAX
    assert not edits_of(parts, same_chars=10_000)


def test_what_is_protected_or_excluded_stays() -> None:
    log = log_of([asks(), *reads("c1"), *reads("c2"), Pin(seq=3), asks("last")])
    assert dedup(brief_of(log)) == []
    assert not replaced([*reads("c1"), *reads("c2")], Config(exclude_tools=("read_file",)))
    log = log_of([asks(), *reads("c1"), asks(mention("a.txt") + mention("a.txt"))])
    assert [edit.seq for edit in dedup(brief_of(log)) if isinstance(edit, Replace)] == [3]


def test_only_what_is_still_visible_stands_for_the_earlier() -> None:
    read = [*reads("c1"), *reads("c2", text=LONG + "later")]
    for edit in (
        Replace(batch="b", seq=5, block=0, text="[gone]"),
        Replace(batch="b", seq=5, block=0, keep=(Span(1, 2),)),
        Hide(batch="b", span=Span(4, 5), notice="[hidden]"),
        Summarize(batch="b", span=Span(4, 5), text=mention("a.txt")),
    ):
        assert dedup(brief_of(log_of([asks(), *read, edit, asks("last")]))) == []
    stub = [
        *reads("c1"),
        calls("c2", "read_file", path="a.txt"),
        gives("c2", "stub " * 200, artifact="art-1"),
    ]
    assert not replaced(stub)


def test_media_and_binary_results_are_left_alone() -> None:
    picture = Message(
        role="tool", blocks=(ToolResult("c1", (Text(LONG), Media(media="image", data="eA=="))),)
    )
    assert not replaced([calls("c1", "read_file", path="a.txt"), picture, *reads("c2")])


def test_file_text_in_command_output_is_not_taken_for_a_mention() -> None:
    """A test file that holds the tags as its own text must not be changed inside."""
    shown = [
        calls("c1", "Bash", command="make && cat t.py"),
        gives("c1", "x = '" + mention("a.txt") + "'"),
    ]
    assert not replaced([*shown, *reads("c2")])


def test_a_second_run_changes_nothing_and_the_input_stays_as_it_was() -> None:
    """C-24: also after a further read, older notices are not touched."""
    parts = [asks(), *reads("c1"), asks(mention("a.txt")), *reads("c2"), asks("last")]
    log = log_of(parts)
    state = state_of(log)
    before = state.view()
    after = climb(state, brief_of(log), rungs(["dedup"]))
    assert state.view() == before and [
        p.edit.seq for p in after.proposals if isinstance(p.edit, Replace)
    ] == [3, 4]
    assert dedup(brief_of(log, view=after.state.view())) == []
