"""No error shows a secret, wherever it was given and wherever the text was cut."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.checked import quoted, shown
from refold.errors import RefoldError
from tests.redaction.secret_kinds import PREFIXED
from tests.test_checked import CALLS, CASES, called, registers, worked
from tests.test_errors import FAMILY

__all__ = ["registers"]  # a fixture
SECRETS = ["".join(parts) for examples in PREFIXED.values() for parts in examples]
TELLING_CHARS = 10  # of a secret; what all of a kind begin with is no secret


def told(text: str, secret: str) -> str:
    """A part of the secret that the text shows, if it shows one."""
    own = secret[TELLING_CHARS:]
    parts = (own[at : at + TELLING_CHARS] for at in range(len(own) - TELLING_CHARS + 1))
    return next((part for part in parts if part in text), "")


@given(
    secret=st.sampled_from(SECRETS),
    before=st.text("ab ,", max_size=90),
    after=st.text("ab ,", max_size=90),
    chars=st.integers(1, 300),
)
def test_a_quoted_value_shows_no_part_of_a_secret(secret, before, after, chars):
    value = f"{before} {secret} {after}"
    for one in (value, [value], {"key": value}, (value, 7), value.encode()):
        for text in (quoted(one, chars), shown(one)):
            assert not told(text, secret), text


@given(secret=st.sampled_from(SECRETS), family=st.sampled_from(FAMILY), is_hint=st.booleans())
def test_an_error_of_any_kind_shows_no_secret(secret, family, is_hint):
    texts = ("it is", f"give {secret}") if is_hint else (f"role {secret!r}", "give a role")
    error = family(texts[0], hint=texts[1])
    again = pickle.loads(pickle.dumps(error))
    for one in (error, again):
        assert not told(f"{one} {one!r} {one.args} {one.message} {one.hint}", secret)


@pytest.mark.parametrize("name, argument", CASES, ids=[f"{n}-{a}" for n, a in CASES])
def test_no_argument_shows_its_secret(name, argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    context = worked()
    for secret in SECRETS[:: len(SECRETS) // 3]:
        content = {"role": secret, "content": "x"}
        for value in (secret, [secret], {secret: 1}, {"type": secret}, content, secret.encode()):
            try:
                called(context, name, {**CALLS[name], argument: value})
            except RefoldError as error:
                assert not told(f"{error} {error!r}", secret), str(error)


SHAPES = [
    lambda secret: {"role": secret, "content": "x"},
    lambda secret: {"role": "user", "content": [{"type": secret}]},
    lambda secret: {"role": "user", "content": [{"type": "text", "text": {secret: 1}}]},
    lambda secret: {"role": "tool", "tool_call_id": secret, "content": "x"},
    lambda secret: {"role": "user", "content": {secret: object()}},
    lambda secret: {"role": "assistant", "tool_calls": [{"id": secret, "function": secret}]},
    lambda secret: {"role": "user", "parts": [{secret: secret}]},
    lambda secret: {secret: secret},
    lambda secret: [{"role": secret}],
]


@given(secret=st.sampled_from(SECRETS), shape=st.sampled_from(SHAPES))
def test_no_place_of_a_message_shows_its_secret(secret, shape):
    context = refold.open("work", store="memory:")
    for call in (context.append, context.record, context.count, refold.tool_calls):
        try:
            call(shape(secret))
        except RefoldError as error:
            assert not told(f"{error} {error!r}", secret), str(error)


def test_what_is_cut_is_cut_by_quoted():
    """A value that an error quotes is redacted before it is cut."""
    own = re.compile(r"![ras]:\.|cut\([^()]*\)!r|\[:[A-Z_\d]+\]!r")
    source = Path(refold.__file__).parent
    found = [
        f"{path.relative_to(source)}: {line.strip()}"
        for path in source.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if own.search(line)
    ]
    assert found == []
