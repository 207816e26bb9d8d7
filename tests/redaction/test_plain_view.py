"""Secrets behind escapes: JSON in JSON, colours of a terminal, characters that nobody sees."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.redaction import redacted, secrets_in
from refold.redaction.find import plain_views
from tests.redaction.secret_kinds import EXAMPLES, SURROUNDED

Wrap = Callable[[str], str]
CASES = [(kind, secret, secret) for kind, secret in EXAMPLES]
CASES += [(kind, text, part) for kind, (text, part) in SURROUNDED.items()]
LEVELS = 5


def as_log_line(text: str) -> str:
    return json.dumps({"level": "info", "msg": text})


def with_escaped_slashes(text: str) -> str:
    return json.dumps(text).replace("/", "\\/")


def as_arguments(text: str) -> str:
    return json.dumps([{"function": {"arguments": json.dumps({"content": text})}}])


def inner_text(wrapped: str) -> str:
    """The innermost text of JSON in JSON, whatever the form."""
    while True:
        try:
            value = json.loads(wrapped)
        except ValueError:
            return wrapped
        while isinstance(value, (dict, list)):
            value = list(value.values())[-1] if isinstance(value, dict) else value[-1]
        if not isinstance(value, str):
            return wrapped
        wrapped = value


@pytest.mark.parametrize("wrap", [json.dumps, as_log_line, with_escaped_slashes, as_arguments])
@pytest.mark.parametrize(("kind", "text", "part"), CASES)
def test_a_secret_is_found_on_every_level_of_escapes(kind, text, part, wrap: Wrap):
    """X-51, and a private key in a file in a tool call."""
    wrapped, escaped = text, part
    for level in range(LEVELS):
        shown = redacted(wrapped)
        assert escaped not in shown, level
        assert part not in inner_text(shown), level
        # What was JSON is JSON afterwards: a note never ends in the middle of an escape.
        assert level == 0 or json.loads(shown)
        wrapped, escaped = wrap(wrapped), json.dumps(escaped)[1:-1]


@pytest.mark.parametrize(("kind", "text", "part"), CASES)
def test_a_secret_of_which_every_character_is_escaped_is_found(kind, text, part):
    escaped = "".join(f"\\u{ord(char):04x}" for char in text)
    again = json.dumps(f'"{escaped}"')
    assert part not in json.loads(f'"{redacted(escaped)}"')
    assert part not in inner_text(redacted(again))


SPLITS = ["\x1b[0m", "\x1b[1;31m", "\\u001b[31m", "\\x1b[0m", "\\033[1m", "\u200b", "\u200d",
          "\u2060", "\ufeff", "\u00ad", "\\u200b", "\\\\u00ad"]  # fmt: skip


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(("kind", "secret"), EXAMPLES)
def test_a_token_that_is_split_by_what_nobody_sees_is_found(kind, secret, split):
    middle = len(secret) // 2
    first, second = secret[:middle], secret[middle:]
    shown = redacted(f"the key is {first}{split}{second}, keep it")
    assert second not in shown and first[-8:] not in shown
    assert shown.endswith(", keep it")


@given(st.text(alphabet='ab\\nu0"/\n\x1b[m1\u200bé'), st.integers(1, 3))
def test_a_place_in_a_view_is_mapped_to_what_stands_there(text, level):
    for _ in range(level):
        text = json.dumps(text, ensure_ascii=False)
    source = text
    for view in plain_views(text):
        for start, char in enumerate(view.text):
            one = view.source(found_at(start))
            if one.end - one.start == 1 and char not in "\n\0\t\r ":
                assert source[one.start : one.end] == char
            assert 0 <= one.start <= one.end <= len(source)
        source = view.text


def found_at(start: int):
    from refold.redaction import FoundSecret as Found

    return Found("one", start, start + 1)


@given(st.text(alphabet="\\nrtu0041bBfx1b[m;\"'/ -=\n\u200b\x1bABEGIN"))
def test_redacting_escapes_twice_changes_nothing(text):
    once = redacted(text)
    assert redacted(once) == once


def test_a_note_about_a_secret_keeps_everything_around_it():
    text = as_log_line(as_log_line(f"before {EXAMPLES[0][1]} after"))
    assert inner_text(redacted(text)) == "before [redacted AWS key] after"


def test_nothing_is_looked_at_twice_where_there_is_no_escape():
    assert plain_views("plain words\n" * 100) == []
    assert plain_views("çà et là, naïve\n" * 100) == []
    [view] = plain_views('one line\nand \\"two\\"\nthree')
    assert view.text.startswith('and "two"\n') and "three" not in view.text


@pytest.mark.parametrize(
    "piece",
    ["\\", "\\n", "\x1b[", "\u200b", "\\u005c", "\\\\\\u005cn", "-----BEGIN PRIVATE KEY-----\\\\n",
     "\n\\", '\\"token\\": \\"', "\x1b[" + "0;" * 30],
)  # fmt: skip
def test_no_escapes_make_the_search_slow(piece):
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        start = time.process_time()
        secrets_in(text)
        return time.process_time() - start

    assert seconds(200_000) < 2.0
