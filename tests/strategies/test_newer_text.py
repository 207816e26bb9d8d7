"""A failed, empty or cut read never stands for the file, whatever its text says (C-16, C-18,
C-19)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.core.model import Body, Replace
from refold.strategies.dedup import dedup
from tests.strategies.talks import log_of
from tests.strategies.test_dedup import asks, brief_of, calls, edits_of, gives, mention, reads
from tests.strategies.test_dedup import replaced as replaced_in

CODE = "".join(f"def handler_{i}(request): return {i} + request.value\n" for i in range(60))
EDIT = {"file_path": "a.txt", "old_string": "return 7 + request.value", "new_string": "return 8"}

ERRORS = (
    "[Errno 2] No such file or directory: 'a.py'",
    "FileNotFoundError: [Errno 2] No such file or directory: 'a.py'",
    "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff",
    "The file a.py does not exist.",
    "File a.py not found",
    "Could not read file: timeout",
    "Request timed out",
    "Tool error: timeout",
    "Exception: boom",
    "",
    "null",
    "{}",
    '{"ok": false, "error": "EACCES"}',
    '{"isError": true}',
    "cat: a.py: No such file or directory",
    "bash: cat: command not found",
    "Datei nicht gefunden",
    "文件不存在",
    "<html><body><h1>502 Bad Gateway</h1></body></html>" * 30,
    "goroutine 1 [running]:\nmain.main()\n\t/app/main.go:12 +0x1d\n" * 40,
)


def shell_read(id: str, text: str) -> list[Body]:
    return [calls(id, "bash", command="cat a.txt"), gives(id, text)]


def edit(id: str = "e1") -> list[Body]:
    return [calls(id, "Edit", **EDIT), gives(id, "The file was updated.")]


@pytest.mark.parametrize("text", ERRORS)
def test_a_failed_read_in_any_words_leaves_the_file_on_the_page(text: str) -> None:
    """C-19."""
    assert not replaced_in([*reads("c1", text=CODE), *reads("c2", text=text)])
    assert not replaced_in([*reads("c1", text=CODE), *shell_read("c2", text)])
    assert not replaced_in([*reads("c1", text=CODE), *edit(), *reads("c2", text=text)])
    removed: list[Body] = [calls("r1", "bash", command="rm a.txt"), gives("r1", "")]
    assert not replaced_in([*reads("c1", text=CODE), *removed, *reads("c2", text=text)])
    part = {"start_line": 10, "end_line": 30}
    lines = "".join(CODE.splitlines(keepends=True)[9:30])
    assert not replaced_in([*reads("c1", text=lines, **part), *reads("c2", text=text)])


@given(text=st.text(max_size=1_500), changed=st.booleans())
@settings(deadline=None)
def test_no_text_at_all_that_is_not_of_the_file_stands_for_it(text: str, changed: bool) -> None:
    """C-19."""
    between = edit() if changed else []
    assert not replaced_in([*reads("c1", text=CODE), *between, *reads("c2", text=text)])


@given(st.data(), st.text(max_size=200))
@settings(deadline=None)
def test_a_cut_read_never_stands_for_the_file(data: st.DataObject, mark: str) -> None:
    """C-18: from its start, its end, or both, in whole lines or inside of one, with any mark."""
    flat = data.draw(st.booleans())
    text = CODE.replace("\n", " ") if flat else CODE
    first = data.draw(st.integers(0, len(text)))
    last = data.draw(st.integers(first + 1, len(text)))
    if not text[first:last].strip():
        return
    shown = text[:first] + mark + text[last:]
    if text in shown:
        return
    parts = [*reads("c1", text=text), *reads("c2", text=shown)]
    assert 3 not in replaced_in(parts), (first, last)


@given(st.integers(1, 50), st.integers(1, 9), st.text(max_size=80))
@settings(deadline=None)
def test_a_part_behind_the_end_of_a_cut_read_stays(first: int, count: int, mark: str) -> None:
    """C-18: what was read by lines stays if the text of the whole file does not show it."""
    lines = CODE.splitlines(keepends=True)
    part = "".join(lines[first : first + count])
    ranged = reads("c1", text=part, start_line=first + 1, end_line=first + count)
    cut = "".join(lines[:first]) + mark
    assert not replaced_in([*ranged, *reads("c2", text=cut)])
    if len(part) > 150:
        assert replaced_in([*ranged, *reads("c2", text=CODE)]) == {3}


def test_what_a_change_explains_is_the_latest_text() -> None:
    """C-18: after an edit, a removal of lines or a rewrite, the later text stands alone."""
    edited = CODE.replace(str(EDIT["old_string"]), str(EDIT["new_string"]))
    assert replaced_in([*reads("c1", text=CODE), *edit(), *reads("c2", text=edited)]) == {3}
    assert not replaced_in([*reads("c1", text=CODE), *edit(), *reads("c2", text=edited[:900])])

    sed: list[Body] = [calls("s1", "bash", command="sed -i 5,60d a.txt"), gives("s1", "")]
    short = "".join(CODE.splitlines(keepends=True)[:4])
    assert replaced_in([*reads("c1", text=CODE), *sed, *reads("c2", text=short)]) == {3}

    heredoc = "cat > a.txt <<'EOF'\nPORT = 8443\nEOF"
    small: list[Body] = [calls("s1", "bash", command=heredoc), gives("s1", "")]
    assert replaced_in([*reads("c1", text=CODE), *small, *reads("c2", text="PORT = 8443\n")]) == {3}


def test_another_version_of_the_whole_text_is_the_latest() -> None:
    """C-18: a file that something unseen wrote anew."""
    version = CODE.replace("handler", "on_event")
    assert replaced_in([*reads("c1", text=CODE), *reads("c2", text=version)]) == {3}
    assert replaced_in([*reads("c1", text=CODE), *reads("c2", text=CODE + "more = 1\n")]) == {3}


def test_line_numbers_do_not_hide_that_a_text_is_the_same() -> None:
    numbered = "".join(f"{n:6}→{line}\n" for n, line in enumerate(CODE.splitlines(), start=1))
    assert replaced_in([*reads("c1", text=numbered), *shell_read("c2", CODE)]) == {3}
    assert replaced_in([*shell_read("c1", CODE), *reads("c2", text=numbered)]) == {3}


@pytest.mark.parametrize("note", ["[47 more lines in file. Use offset=14]", "(lines 1-13 of 60)"])
def test_a_note_below_a_part_of_a_file_is_not_missed(note: str) -> None:
    part = "".join(CODE.splitlines(keepends=True)[:13]) + f"\n{note}"
    ranged = reads("c1", text=part, start_line=1, end_line=13)
    assert replaced_in([*ranged, *reads("c2", text=CODE)]) == {3}


def test_the_task_itself_is_never_edited() -> None:
    """C-16: a file that came with the first request stays in it."""
    log = log_of([asks("fix " + mention("a.txt", CODE)), *reads("c1", text=CODE), asks("last")])
    assert dedup(brief_of(log)) == []
    twice = [asks("see " + mention("a.txt", CODE)), *reads("c1", text=CODE)]
    assert set(edits_of(twice)) == {(2, 0)}
    assert all(isinstance(edit, Replace) for edit in dedup(brief_of(log_of([asks(), *twice]))))
