"""File text inside other text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from refold.ledger.file_mentions import excerpts, header


def test_tags_that_are_open_or_nested_take_nothing_along() -> None:
    """C-23."""
    complete = '<file_content path="b">y</file_content>'
    assert [e.path for e in excerpts(f'<file_content path="a">x {complete} z')] == ["b"]
    assert excerpts(f'<file_content path="a">x {complete} z</file_content>') == []
    assert [
        e.path for e in excerpts(complete + '<final_file_content path="c">z</final_file_content>')
    ] == ["b", "c"]
    assert excerpts('</file_content><file_content path="a">x') == []
    assert excerpts('<file_content path="a\nb">x</file_content>') == []


def test_headers_with_quotes_in_the_path_are_read() -> None:
    found = header("[read_file for 'it's.txt'] Result:")
    assert found is not None and found.subject == "it's.txt"
    assert header("[not a header]") is None


@given(st.text(alphabet='<>/file_contap="x\n', max_size=200))
def test_excerpts_never_overlap(text: str) -> None:
    end = 0
    for excerpt in excerpts(text):
        assert end <= excerpt.start <= excerpt.end
        end = excerpt.end
