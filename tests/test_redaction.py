"""Secrets leave a text; code that only speaks of secrets stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.redaction import redacted, redacted_chunks, redactor

AWS = "AKIA" + "IOSFODNN7EXAMPLE"
SECRETS = [
    AWS,
    "sk-ant-" + "api03-abcdefghijklmnop",
    "sk-proj-" + "Abcdefghijklmnop1234",
    "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "xoxb-" + "123456789012-abcdefghijkl",
    "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N",
]
KEY_LINE = "MIIEpAIBAAKCAQEA7bq98a1xZk0Tn5Yw2uE4r6T8y0U1i3O5p7A9s1D3f5G7h9J1"


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("around", ["{}", "export KEY={} # x", '{{"key": "{}"}}', "see {}, then go on", "(`{}`)"])
def test_a_known_shape_goes_wherever_it_stands(secret, around):
    """Y-54"""
    shown = redacted(around.format(secret))
    assert secret not in shown
    assert "[redacted" in shown


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abc123DEF456ghi789", "abc123DEF456ghi789"),
        ("curl -H 'authorization: basic dXNlcjpwYXNzd29yZA=='", "dXNlcjpwYXNzd29yZA=="),
        ("postgresql://app:s3cr3t-pw@db.internal/app", "s3cr3t-pw"),
        ('password = "hunter2hunter2"', "hunter2hunter2"),
        ("DB_PASSWORD=correct7horse", "correct7horse"),
        ('{"client_secret": "q9w8e7r6t5y4"}', "q9w8e7r6t5y4"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKC\n-----END RSA PRIVATE KEY-----", "MIIEpAIBAAKC"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKC (cut here)", "MIIEpAIBAAKC"),
        # as a gist may show them: a line of a key by itself, a value without its end
        (f"#12 tool\n{KEY_LINE}\n#13 user\ngo on", KEY_LINE[:20]),
        (f"  {KEY_LINE}\r\n", KEY_LINE[:20]),
        ('API_TOKEN="q9w8e7r6t5y4 … and more', "q9w8e7r6t5y4"),
    ],
)
def test_a_value_behind_a_telling_name_goes(text, secret):
    """Y-54"""
    assert secret not in redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "token = get_token()",
        "password: str",
        "def login(user, password): return check(password)",
        "max_tokens=4096",
        "api_key = os.environ['KEY']",
        "secret: ${{ secrets.DEPLOY }}",
        "the tokens: 12345 were counted",
        "basic configuration of the bearer channel",
        "https://example.com:8080/path",
        "see src/auth/token.py:41",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "a_quite_long_name_of_a_function_that_nobody_would_ever_call_in_practice",
        'token_kind = "operator …',
    ],
)
def test_code_that_speaks_of_secrets_stays(text):
    assert redacted(text) == text


@given(st.text())
def test_redacting_twice_changes_nothing(text):
    once = redacted(text)
    assert redacted(once) == once


@given(st.sampled_from(SECRETS), st.text(max_size=30), st.text(max_size=30))
def test_redacting_a_secret_among_anything_is_stable(secret, before, after):
    once = redacted(f"{before} {secret} {after}")
    assert secret not in once
    assert redacted(once) == once


@pytest.mark.parametrize("text", ["a" * 100_000, "password" * 10_000, "eyJ" * 30_000, "://:" * 20_000, "sk-" * 30_000])
def test_long_repeating_text_is_searched_to_its_end(text):
    redacted(text)


@pytest.mark.parametrize("size", [1, 7, 1_000, 100_000])
def test_a_stream_is_redacted_like_its_text_wherever_it_is_cut(size):
    """X-51: the same words as in one piece, also where a key or a sign lies across two chunks."""
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINE * 20}\n-----END RSA PRIVATE KEY-----\n"
    text = "".join(f"line {n}: née {SECRETS[n % len(SECRETS)]}\n{key if n % 50 == 0 else ''}" for n in range(1_500))
    data = text.encode()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert b"".join(redacted_chunks(chunks)).decode() == redacted(text)


def test_a_stream_without_an_end_of_line_is_not_held_for_ever():
    seen = redacted_chunks(b"x" * 50_000 for _ in range(100))
    assert len(next(iter(seen))) < 2_000_000


def test_redaction_can_be_switched_off():
    assert redactor(False)(AWS) == AWS
    assert AWS not in redactor(True)(AWS)
