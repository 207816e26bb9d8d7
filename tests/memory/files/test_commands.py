"""The six commands and their words, which are the vendor's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.errors import Invalid
from refold.memory.files.commands import Document, MemoryPath, document, inserted, replaced, size
from tests.memory.files.kit import call, contents, opened, refused, said, tree

NOTES = "/memories/notes.md"
HEAD = "Here're the files and directories up to 2 levels deep in {}, excluding hidden items and node_modules:"


# --- view ---


def test_a_directory_is_listed_two_levels_deep_sorted_with_sizes(tmp_path):
    """Y-64."""
    files = opened(tmp_path)
    for path, content in [
        ("/memories/b.md", "x" * 1536),
        ("/memories/a/one.md", "12345678901234"),
        ("/memories/a/deep/two.md", "y" * 4096),
        ("/memories/.hidden/x.md", "h"),
        ("/memories/node_modules/x.md", "n"),
    ]:
        said(files, "create", path, file_text=content)
    (tree(tmp_path) / "link").symlink_to("/etc")
    (tree(tmp_path) / "new\nline").write_text("a name that no path can have")
    assert said(files, "view", "/memories").split("\n") == [
        HEAD.format("/memories"),
        "5.5K\t/memories",
        "4K\t/memories/a/",
        "4K\t/memories/a/deep/",
        "14B\t/memories/a/one.md",
        "1.5K\t/memories/b.md",
    ]
    assert said(files, "view", "/memories/a/").split("\n") == [
        HEAD.format("/memories/a"),
        "4K\t/memories/a",
        "4K\t/memories/a/deep/",
        "4K\t/memories/a/deep/two.md",
        "14B\t/memories/a/one.md",
    ]


def test_an_empty_root_is_listed_and_nothing_is_made_for_it(tmp_path):
    """Y-64."""
    assert (
        said(opened(tmp_path), "view", "/memories") == f"{HEAD.format('/memories')}\n0B\t/memories"
    )
    assert list(tmp_path.iterdir()) == []


def test_sizes_are_said_in_few_characters():
    pairs = [(0, "0B"), (14, "14B"), (1023, "1023B"), (1024, "1K"), (1536, "1.5K"), (1 << 20, "1M")]
    assert [size(number) for number, _ in pairs] == [text for _, text in pairs]


def test_a_file_is_shown_with_line_numbers_whole_or_in_part(tmp_path):
    """Y-65."""
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="one\ntwo\nthree\n")
    head = f"Here's the content of {NOTES} with line numbers:"
    assert said(files, "view", NOTES) == f"{head}\n     1\tone\n     2\ttwo\n     3\tthree"
    for span in ([2, 3], [2, -1], [2, 9]):
        assert said(files, "view", NOTES, view_range=span) == f"{head}\n     2\ttwo\n     3\tthree"
    for span in ([0, 1], [3, 2], [9, 9], [-1, 2], [2, -2], [2, 0], [4, -1]):
        text = refused(files, "view", NOTES, view_range=span)
        assert str(span) in text and "[1, 3]" in text


def test_a_view_of_what_is_not_there_an_empty_file_and_a_range_of_a_directory(tmp_path):
    files = opened(tmp_path)
    missing = "/memories/nope.md"
    text = f"The path {missing} does not exist. Please provide a valid path."
    assert refused(files, "view", missing) == text
    said(files, "create", "/memories/empty.md", file_text="")
    assert "empty" in said(files, "view", "/memories/empty.md")
    assert "not allowed" in refused(files, "view", "/memories", view_range=[1, 2])


def test_bytes_that_are_no_text_are_said_and_a_file_is_no_directory(tmp_path):
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="x")
    (tree(tmp_path) / "raw.bin").write_bytes(b"\xff\xfe\x00")
    assert "not text" in refused(files, "view", "/memories/raw.bin")
    assert "is not a directory" in refused(files, "view", f"{NOTES}/x")
    assert "is not a directory" in refused(files, "create", f"{NOTES}/x", file_text="")
    said(files, "delete", "/memories/raw.bin")
    assert files.undo().path == "/memories/raw.bin"
    assert (tree(tmp_path) / "raw.bin").read_bytes() == b"\xff\xfe\x00"


# --- create ---


def test_creating_makes_parents_and_never_overwrites(tmp_path):
    """Y-66."""
    files = opened(tmp_path)
    path = "/memories/a/b/c.md"
    assert said(files, "create", path, file_text="1") == f"File created successfully at: {path}"
    assert refused(files, "create", path, file_text="2") == f"Error: File {path} already exists"
    assert refused(files, "create", "/memories/a", file_text="2").endswith(
        "/memories/a already exists"
    )
    assert refused(files, "create", "/memories", file_text="2").endswith("/memories already exists")
    assert contents(tree(tmp_path)) == {"a/b/c.md": "1"}


# --- str_replace ---


def test_replacing_needs_exactly_one_place_and_takes_text_literally(tmp_path):
    """Y-67."""
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="a a\nport 5432\n")
    assert refused(files, "str_replace", NOTES, old_str="a", new_str="b") == (
        "No replacement was performed. Multiple occurrences of old_str `a` in lines: 1, 1. "
        "Please ensure it is unique"
    )
    assert refused(files, "str_replace", NOTES, old_str="zzz", new_str="b") == (
        f"No replacement was performed, old_str `zzz` did not appear verbatim in {NOTES}."
    )
    assert "empty" in refused(files, "str_replace", NOTES, old_str="", new_str="b")
    assert "new_str" in refused(files, "str_replace", NOTES, old_str="a a")
    assert "same" in said(files, "str_replace", NOTES, old_str="a a", new_str="a a")
    assert len(files.history()) == 1
    text = said(files, "str_replace", NOTES, old_str="5432", new_str=r"$& $1 \1 \g<0>")
    assert text == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\ta a\n     2\tport $& $1 \\1 \\g<0>"
    )
    assert contents(tree(tmp_path)) == {"notes.md": "a a\nport $& $1 \\1 \\g<0>\n"}
    said(files, "str_replace", NOTES, old_str="a a\n", new_str="")
    assert contents(tree(tmp_path)) == {"notes.md": "port $& $1 \\1 \\g<0>\n"}


def test_a_snippet_has_two_lines_before_and_after(tmp_path):
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="".join(f"{n}\n" for n in range(1, 10)))
    text = said(files, "str_replace", NOTES, old_str="5", new_str="five\nfive and a half")
    assert [row.split("\t")[0].strip() for row in text.split("\n")[1:]] == list("345678")


def test_places_that_overlap_are_several(tmp_path):
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="aaa")
    assert "lines: 1, 1" in refused(files, "str_replace", NOTES, old_str="aa", new_str="b")


@given(
    st.text("ab\n", max_size=12),
    st.text("ab\n", min_size=1, max_size=3),
    st.text("ab$\\1&", max_size=4),
)
def test_a_replacement_changes_one_place_and_nothing_else(before, old, new):
    places = [n for n in range(len(before)) if before.startswith(old, n)]
    try:
        after, _ = replaced(Document(before), old, new, MemoryPath(("x",)))
    except Invalid:
        assert len(places) != 1
        return
    [place] = places
    assert after.text == before[:place] + new + before[place + len(old) :]


# --- insert ---


def test_inserting_goes_after_a_line_that_exists(tmp_path):
    """Y-68."""
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="a\nb\n")
    text = said(files, "insert", NOTES, insert_line=1, insert_text="x\n")
    assert text == f"The file {NOTES} has been edited."
    assert contents(tree(tmp_path)) == {"notes.md": "a\nx\nb\n"}
    said(files, "insert", NOTES, insert_line=3, insert_text="end")
    said(files, "insert", NOTES, insert_line=0, insert_text="top")
    assert contents(tree(tmp_path)) == {"notes.md": "top\na\nx\nb\nend\n"}
    for number in (-1, 6, 999, 10**40):
        text = refused(files, "insert", NOTES, insert_line=number, insert_text="x")
        assert text.startswith(f"Error: Invalid `insert_line` parameter: {str(number)[:29]}")
        assert text.endswith("It should be within the range of lines of the file: [0, 5]")
    assert refused(files, "insert", "/memories/no", insert_line=0, insert_text="") == (
        "Error: The path /memories/no does not exist"
    )
    assert "not a file" in refused(files, "insert", "/memories", insert_line=0, insert_text="")


@given(st.lists(st.text("ab", max_size=3), max_size=6), st.booleans(), st.data())
def test_an_insertion_keeps_every_line(lines, is_ended, data):
    text = "\n".join(lines) + ("\n" if is_ended and lines else "")
    count = len(text.split("\n")) - (text == "" or text.endswith("\n"))
    place = data.draw(st.integers(0, count))
    after = inserted(Document(text), place, "new\n").text.split("\n")
    assert after.pop() == "" and after.pop(place) == "new"
    assert after == text.split("\n")[:count]


# --- delete ---


def test_deleting_takes_a_file_or_a_folder_and_never_the_root(tmp_path):
    """Y-69."""
    files = opened(tmp_path)
    for name in ("a/x.md", "a/b/y.md", "z.md"):
        said(files, "create", f"/memories/{name}", file_text=name)
    assert refused(files, "delete", "/memories") == "Cannot delete the /memories directory itself"
    assert refused(files, "delete", "/memories/") == "Cannot delete the /memories directory itself"
    refused(files, "delete", "/memories/.")
    assert len(contents(tree(tmp_path))) == 3
    assert said(files, "delete", "/memories/z.md") == "Successfully deleted /memories/z.md"
    assert (
        refused(files, "delete", "/memories/z.md")
        == "Error: The path /memories/z.md does not exist"
    )
    assert said(files, "delete", "/memories/a/") == "Successfully deleted /memories/a"
    assert contents(tree(tmp_path)) == {} and not (tree(tmp_path) / "a").exists()


# --- rename ---


def test_renaming_never_overwrites_and_stays_inside(tmp_path):
    """Y-70."""
    files = opened(tmp_path)
    said(files, "create", "/memories/a/x.md", file_text="x")
    said(files, "create", "/memories/y.md", file_text="y")

    def rename(how, old, new):
        return how(files, "rename", old_path=old, new_path=new)

    assert rename(refused, "/memories/y.md", "/memories/a/x.md") == (
        "Error: The destination /memories/a/x.md already exists"
    )
    assert (
        rename(refused, "/memories/no", "/memories/n")
        == "Error: The path /memories/no does not exist"
    )
    assert "into itself" in rename(refused, "/memories/a", "/memories/a/b")
    for old, new in [
        ("/memories", "/memories/b"),
        ("/memories/a", "/memories"),
        ("/memories/a", "/memories/a"),
    ]:
        rename(refused, old, new)
    for new in ("/outside/x", "/memories/../x", "/memoriesfoo/x", "x"):
        rename(refused, "/memories/y.md", new)
    assert contents(tree(tmp_path)) == {"a/x.md": "x", "y.md": "y"}
    assert rename(said, "/memories/a", "/memories/new/deep/b") == (
        "Successfully renamed /memories/a to /memories/new/deep/b"
    )
    assert contents(tree(tmp_path)) == {"new/deep/b/x.md": "x", "y.md": "y"}


# --- arguments ---

FIELDS = {
    "view": {"path": NOTES},
    "create": {"path": NOTES, "file_text": "x"},
    "str_replace": {"path": NOTES, "old_str": "a", "new_str": "b"},
    "insert": {"path": NOTES, "insert_line": 0, "insert_text": "x"},
    "delete": {"path": NOTES},
    "rename": {"old_path": NOTES, "new_path": "/memories/b"},
}
MISSING = [(command, field) for command, fields in FIELDS.items() for field in fields]


@pytest.mark.parametrize(("command", "field"), MISSING)
@pytest.mark.parametrize("wrong", ["missing", None, 1.5, True, [], {}, b"x"], ids=str)
def test_a_field_that_is_missing_or_of_a_wrong_type_is_named(tmp_path, command, field, wrong):
    """Y-71."""
    arguments = {"command": command, **FIELDS[command], field: wrong}
    if wrong == "missing":
        del arguments[field]
    answer = opened(tmp_path).call(arguments)
    assert answer.is_error and field in answer.text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        None, 7, "", "x", "[]", "{", [], {}, {"command": "move"}, {"command": 3}, {"command": None},
        {"command": "view", "path": "/memories", "base_path": "/"},
        {"command": "view", "path": "/memories", "view_range": [1]},
        {"command": "view", "path": "/memories", "view_range": [1.0, 2.0]},
        {"command": "view", "path": "/memories", "view_range": "1-2"},
        {1: 2}, object(), b"{}", "\ud800", "[" * 100_000,
    ],
    ids=lambda one: f"{one!r:.20}",
)  # fmt: skip
def test_a_bad_call_is_answered_and_not_raised(tmp_path, arguments):
    """Y-71."""
    answer = opened(tmp_path).call(arguments)
    assert answer.is_error and answer.text.startswith("Error: ")
    assert len(answer.text) < 1_000


def test_arguments_may_come_as_json_and_null_is_not_given(tmp_path):
    files = opened(tmp_path)
    answer = files.call(
        '{"command": "view", "path": "/memories", "view_range": null, "old_str": null}'
    )
    assert not answer.is_error
    assert answer.tool_result("t1") == {
        "type": "tool_result", "tool_use_id": "t1", "content": answer.text,
    }  # fmt: skip
    assert files.call("{}").tool_result("t1")["is_error"] is True


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.just("/memories/a"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
NAMES = st.sampled_from(
    sorted({name for fields in FIELDS.values() for name in fields} | {"view_range"})
)


@settings(max_examples=300, deadline=None)
@given(command=st.sampled_from([*FIELDS, "x"]), fields=st.dictionaries(NAMES, VALUES, max_size=5))
def test_any_arguments_are_answered(tmp_path_factory, command, fields):
    """Y-71."""
    files = opened(tmp_path_factory.mktemp("any"), read_only=True)
    answer = files.call({"command": command, **fields})
    assert isinstance(answer.text, str) and answer.text
    assert "the tool failed" not in answer.text


# --- line endings ---


def test_a_file_keeps_its_line_endings(tmp_path):
    """Y-72."""
    files = opened(tmp_path)
    said(files, "create", NOTES, file_text="one\r\ntwo\r\n")
    assert said(files, "view", NOTES).endswith("     1\tone\n     2\ttwo")
    said(files, "insert", NOTES, insert_line=1, insert_text="x\ny\n")
    said(files, "str_replace", NOTES, old_str="y\ntwo", new_str="z\n2")
    assert (tree(tmp_path) / "notes.md").read_bytes() == b"one\r\nx\r\nz\r\n2\r\n"
    said(files, "create", "/memories/mixed.md", file_text="a\r\nb\nc")
    said(files, "insert", "/memories/mixed.md", insert_line=3, insert_text="d")
    assert (tree(tmp_path) / "mixed.md").read_bytes() == b"a\r\nb\nc\nd\n"


@given(st.text("a\r\n", max_size=12))
def test_a_document_has_the_bytes_it_was_read_from(text):
    assert document(text.encode(), MemoryPath()).data == text.encode()


def test_text_that_cannot_be_written_is_refused(tmp_path):
    files = opened(tmp_path)
    assert "surrogate" in refused(files, "create", NOTES, file_text="\ud800")
    answer = call(files, "str_replace", NOTES, old_str="\ud800", new_str="")
    assert answer.is_error and answer.text.encode()
