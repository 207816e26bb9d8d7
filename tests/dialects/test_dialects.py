"""A plain text is nobody's in particular: it is parsed without asking any dialect, and parsed as
the preferred dialect would."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from refold import dialects
from refold.dialects import DIALECTS, dialect, parse

ROLES = ("user", "assistant", "system")
TEXTS = ("hi", "", " ", "\n", "über\ud800", '{"$": 1}', "x" * 5_000)
# What is kept of a plain text, by the preferred dialect, where it is not `[preferred, None]`.
FORM = [1, {"role": "assistant", "content": {"$": [0, {"$": "text"}]}}]
KEPT = {
    ("anthropic", "assistant"): ["anthropic", FORM],
    **{("gemini", role): ["openai_chat", None] for role in ROLES},
}


@pytest.mark.parametrize("preferred", DIALECTS)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("text", TEXTS)
def test_a_plain_text_is_parsed_as_the_preferred_dialect_would(
    preferred: str, role: str, text: str
) -> None:
    message = {"role": role, "content": text}
    [made] = parse(message, preferred)
    [own] = dialect(preferred).parse(message)
    assert msgspec.to_builtins(made) == msgspec.to_builtins(own)
    assert [made.dialect, made.form] == KEPT.get((preferred, role), [preferred, None])
    assert (made.role, made.metadata) == (role, {})
    assert message == {"role": role, "content": text}


@pytest.mark.parametrize("role", ROLES)
def test_no_dialect_claims_a_plain_text(role: str) -> None:
    message = {"role": role, "content": "hi"}
    for name in DIALECTS:
        assert not dialect(name).recognizes(message)
        assert not dialect(name).is_response(message)


def test_no_dialect_is_asked_about_a_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(message: Any) -> bool:
        raise AssertionError

    for name in DIALECTS:
        monkeypatch.setattr(dialect(name), "recognizes", ask)
    for preferred in DIALECTS:
        assert parse({"role": "user", "content": "hi"}, preferred)
    with pytest.raises(AssertionError):
        parse({"content": "hi", "role": "user"}, "anthropic")


@pytest.mark.parametrize("preferred", DIALECTS)
@pytest.mark.parametrize(
    "message",
    [
        {"content": "hi", "role": "user"},
        {"role": "user", "content": "hi", "name": "ann"},
        {"role": "user", "content": "hi", "metadata": {"a": 1}},
        {"role": "developer", "content": "hi"},
    ],
)
def test_anything_more_than_a_plain_text_is_kept(preferred: str, message: dict[str, Any]) -> None:
    [made] = parse(message, preferred)
    owner = dialects.dialect_of(message, preferred) or preferred
    assert made == dialect(owner).parse(message)[0]
    rendered = dialect(made.dialect).render([made], [])
    sent = message if owner != "anthropic" else {"role": message["role"], "content": "hi"}
    assert made.metadata or rendered == [sent]  # Anthropic has no names of speakers


@pytest.mark.parametrize("role", [["user"], {}, 3, None])
def test_a_role_that_is_not_text_is_refused(role: Any) -> None:
    for preferred in DIALECTS:
        with pytest.raises(dialects.Invalid):
            parse({"role": role, "content": "hi"}, preferred)
    if role:
        with pytest.raises(dialects.Invalid, match="is not a role"):
            parse({"role": role, "parts": [{"text": "hi"}]}, "gemini")
