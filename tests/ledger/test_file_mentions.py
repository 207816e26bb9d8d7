"""File text inside other text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.ledger.arguments import is_path
from refold.ledger.calls import TAGS, excerpts, header


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


@given(
    path=st.text(alphabet="ab/._-", min_size=1, max_size=20).filter(is_path),
    body=st.text(alphabet="xy\n '\"", max_size=30),
    quote=st.sampled_from("'\""),
    tag=st.sampled_from(TAGS),
)
def test_a_path_stands_in_quotes_of_either_kind(path: str, body: str, quote: str, tag: str) -> None:
    text = f"see <{tag} path={quote}{path}{quote}>{body}</{tag}> there"
    assert [(e.path, text[e.start : e.end]) for e in excerpts(text)] == [(path, body)]


def test_a_path_without_quotes_or_with_two_kinds_is_no_tag() -> None:
    assert excerpts("<file_content path=a.py>x</file_content>") == []
    assert excerpts("<file_content path='a.py\">x</file_content>") == []


@given(st.sampled_from("'\""), st.text(alphabet="a'\"[] .for", max_size=12), st.text(max_size=9))
def test_headers_with_quotes_in_the_path_are_read(quote: str, path: str, rest: str) -> None:
    """C-11: in quotes of either kind."""
    start = f"[read_file for {quote}{path}{quote}] Result:"
    found = header(start + rest)
    assert found == ("read_file", path, len(start))


@pytest.mark.parametrize(
    "text",
    ["[not a header]", "[ for 'a'] Result:", "[read_file for a] Result:", "[read_file for 'a\"] Result:",
     "[two words for 'a'] Result:", "read_file for 'a'] Result:", "[read_file for 'a']", "[x for "],
)  # fmt: skip
def test_what_is_no_header_is_none(text: str) -> None:
    assert header(text) is None


@given(st.text(alphabet='<>/file_contap="x\n', max_size=200))
def test_excerpts_never_overlap(text: str) -> None:
    end = 0
    for excerpt in excerpts(text):
        assert end <= excerpt.start <= excerpt.end
        end = excerpt.end
