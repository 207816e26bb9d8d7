"""Secrets leave a text; code that only speaks of secrets stays as it is."""

from __future__ import annotations

import base64
import hashlib
import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.config import CHANNELS, Channel, config_from
from refold.errors import Invalid
from refold.redaction import found, is_redacted, masked, redacted, redacted_chunks, redactor
from refold.redaction.shapes import SHAPES
from tests.redaction.secret_kinds import BASE64, PREFIXED, SURROUNDED, WORD, drawn

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
EXAMPLES = [(kind, "".join(parts)) for kind, examples in PREFIXED.items() for parts in examples]


# --- what is found ---


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "around", ["{}", "export KEY={} # x", '{{"key": "{}"}}', "see {}, then go on", "(`{}`)"]
)
def test_a_known_shape_goes_wherever_it_stands(secret, around):
    """Y-54"""
    shown = redacted(around.format(secret))
    assert secret not in shown
    assert "[redacted" in shown


AROUND = {
    "plain text": "we use {} for that, see below",
    "JSON": '{{"note": "first line\\n{}\\nlast line", "n": 1}}',
    "env file": "# for the tests\nVALUE={}\nNEXT=1\n",
    "URL": "https://api.test/v1/run?key={}&limit=10",
    "encoded URL": "https://api.test/v1/run?q=a%3D{}%26limit",
    "shell": "curl -s -H 'key: {}' https://api.test | jq .",
    "terminal": "\x1b[32m{}\x1b[0m done",
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(
    ("kind", "secret"), EXAMPLES, ids=[f"{kind}-{n}" for n, (kind, _) in enumerate(EXAMPLES)]
)
def test_every_kind_is_found_by_its_name_in_every_surrounding(kind, secret, around):
    """X-51: more than 80 kinds."""
    text = AROUND[around].format(secret)
    assert [(one.kind, one.sure) for one in found(text)] == [(kind, True)]
    assert redacted(text) == AROUND[around].format(f"[redacted {kind}]")


def test_every_shape_has_an_example():
    surrounded = {one.kind for text, _ in SURROUNDED.values() for one in found(text)}
    assert {one.kind for one in SHAPES} <= set(PREFIXED) | surrounded
    assert len(PREFIXED) >= 40


@pytest.mark.parametrize(("text", "secret"), SURROUNDED.values(), ids=SURROUNDED)
@pytest.mark.parametrize("around", ["{}", "before\n{}\nafter", "$ cat x\n  {}\n"])
def test_what_has_no_shape_is_found_by_what_stands_around_it(text, secret, around):
    """X-51: private keys, connection strings, values behind telling names."""
    whole = around.format(text)
    assert any(one.sure for one in found(whole))
    shown = redacted(whole)
    assert secret not in shown and redacted(shown) == shown
    assert shown.startswith(around.split("{}")[0]) and shown.endswith(around.split("{}")[1])


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
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKC\n-----END RSA PRIVATE KEY-----",
            "MIIEpAIBAAKC",
        ),
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


def test_chance_makes_no_fixture_of_a_secret():
    """X-51: among many secrets some spell a word such as "apw", and every OpenSSH key has a run
    of A."""
    tokens = [f"gh{'p'}_{drawn(str(n), WORD, 36)}" for n in range(3_000)]
    assert sum(not one.sure for one in found("\n".join(tokens))) <= 1
    keys = ["\n".join(drawn(f"{n}.{line}", BASE64, 70) for line in range(25)) for n in range(100)]
    first, last = ("-----" + edge + " OPENSSH PRIVATE " + "KEY-----" for edge in ("BEGIN", "END"))
    for key in keys:
        block = f"{first}\nb3BlbnNzaC1rZXktdjEAAAAA\n{key}\n{last}"
        assert found(block) == [("private key", 0, len(block), True)]


# --- what is left alone ---

CERTIFICATE = "\n".join(drawn(f"certificate{n}", BASE64, 64) for n in range(12))
HASHED = hashlib.sha512(b"package").digest()


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
        # code
        'if "-----BEGIN PRIVATE KEY-----" in text:\n    raise Invalid("a key stands in the file")\nreturn text',
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "const token = await getTokenFromRequest2(request, sessionKeyV2);",
        "token: UserTokenV2,\n  secret: this.config.clientSecret2,",
        'password_field = By.ID("input1")\npassword_hash_v2 = "pbkdf2:sha256"',
        'type="password" name="password" autocomplete="current-password"',
        "tokenizer = AutoTokenizer.from_pretrained('gpt2-medium-345m')",
        'secret_name: "prod-db-credentials-v2"\nsecretKeyRef:\n  name: app1',
        "postgres://{user}:{password}@{host}/{name}",
        "https://user:${PASSWORD}@host and https://$USER:$PASS@host",
        "curl -s https://x.test; docker run -u 1000:1000 image; ps -u root",
        ".sk-fading-circle .sk-circle-before { } .sk-estimator-doc-link-hover {}",
        "publicKeyToken=b77a5c561934e089",
        # hashes, identifiers, encoded bytes
        f"sha512-{base64.b64encode(HASHED).decode()}",
        f"package==1.0 --hash=sha256:{HASHED[:32].hex()}",
        f"commit {HASHED[:20].hex()}\nAuthor: Jo <jo@example.org>",
        f"id: {uuid.UUID(bytes=HASHED[:16])}, request_id={uuid.UUID(bytes=HASHED[16:32])}",
        f"url(data:image/png;base64,{base64.b64encode(random.Random(1).randbytes(3_000)).decode()})",
        f"-----BEGIN CERTIFICATE-----\n{CERTIFICATE}\n-----END CERTIFICATE-----",
        f"ssh-ed25519 {drawn('public', BASE64, 68)} jo@host",
    ],
)
def test_code_that_speaks_of_secrets_stays(text):
    """X-51: low false alarms on code."""
    assert redacted(text) == text


@pytest.mark.parametrize(
    "text",
    [
        AWS,
        "OPENAI_API_KEY=sk-" + "x" * 32,
        "export ANTHROPIC_API_KEY=sk-ant-" + "your-key-goes-here-1",
        "ghp_" + "x" * 36,
        "token: ghp_" + "1234567890abcdefghijklmnopqrstuvwxyz",
        "postgres://user:password@localhost/app",
        "postgres://postgres:postgres@localhost/app",
        "-----BEGIN PRIVATE KEY-----\nXXXXXXXXXXXXXXXXXXXX\n-----END PRIVATE KEY-----",
        "https://user:pass@example.com",
        'password = "changeme123"',
        "API_KEY=<your key>, SECRET=********, TOKEN=...",
        f"{CERTIFICATE[:64]}\n{CERTIFICATE[65:129]}",
    ],
)
def test_fixtures_ring_no_bell(text):
    """X-51: whether they are taken out or not, a scan does not report them."""
    assert not any(one.sure for one in found(text))


# --- promises ---


@given(st.text())
def test_redacting_twice_changes_nothing(text):
    once = redacted(text)
    assert redacted(once) == once


@given(st.sampled_from(SECRETS), st.text(max_size=30), st.text(max_size=30))
def test_redacting_a_secret_among_anything_is_stable(secret, before, after):
    once = redacted(f"{before} {secret} {after}")
    assert secret not in once
    assert redacted(once) == once


PARTS = [secret for _, secret in EXAMPLES[::3]] + [text for text, _ in SURROUNDED.values()]
GLUE = [
    " ",
    "\n",
    '"',
    "'",
    "=",
    ":",
    "token=",
    'password: "',
    "@",
    "://a:",
    "\\n",
    "…",
    "[",
    "]",
    "-",
    ".",
    "a1",
    "İ",
]


@given(st.lists(st.sampled_from(PARTS + GLUE * 4), max_size=8).map("".join))
def test_redacting_twice_changes_nothing_however_secrets_are_glued_together(text):
    once = redacted(text)
    assert redacted(once) == once


@given(st.lists(st.sampled_from(PARTS + GLUE * 4), max_size=8).map("".join))
def test_findings_are_in_order_and_apart(text):
    ends = [place for one in found(text) for place in (one.start, one.end)]
    assert ends == sorted(ends) and all(one.start < one.end <= len(text) for one in found(text))


HOSTILE = [
    "a", "password", "eyJ", "eyJ-", "eyJaaaaaaaa.", "://:", "://a:b", "sk-", "sk-ant-", "\\nsk-", "0msk-", "[0msk-",
    "%41sk-", "token=", "token='", "token: ", "token token ", "--token ", "-----BEGIN ", "A: b\n", "SG.a", "dapi", "_",
    "-----BEGIN RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nabc: d\n", "-----BEGIN CERTIFICATE-----\n", "/",
    "bearer ", "bearer aaaaaaaaaaaaaaa", "Q~", ":AA", "-us1", ".atlasv1.", "0", "curl -u a:", "-u a", "SK", " ", "x.",
    "login a password ", "password&a=", "\n" + "a" * 60, "MTk4NjIyNDgzNDcxOTI1MjQ4.", "define('token', '", "v1.0-", "İ",
    "passw0rd:=", 'secret\\\\\\"', f"-----BEGIN A-----\n-----END A-----\n{KEY_LINE}\n",
]  # fmt: skip


@pytest.mark.parametrize("part", HOSTILE)
def test_long_repeating_text_is_searched_to_its_end(part):
    """X-51: a rule that takes the square of the length would not come to the end of this in any
    patience."""
    text = part * (500_000 // len(part))
    once = redacted(text)
    assert len(once) <= len(text) + 32 * (len(text) // 6)


# --- streams ---


@pytest.mark.parametrize("size", [1, 7, 1_000, 100_000])
def test_a_stream_is_redacted_like_its_text_wherever_it_is_cut(size):
    """X-51: the same words as in one piece, also where a key or a sign lies across two chunks."""
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINE * 20}\n-----END RSA PRIVATE KEY-----\n"
    text = "".join(
        f"line {n}: née {SECRETS[n % len(SECRETS)]}\n{key if n % 50 == 0 else ''}"
        for n in range(1_500)
    )
    data = text.encode()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert b"".join(redacted_chunks(chunks)).decode() == redacted(text)


def test_a_stream_without_an_end_of_line_is_not_held_for_ever():
    seen = redacted_chunks(b"x" * 50_000 for _ in range(100))
    assert len(next(iter(seen))) < 2_000_000


# --- channels ---


def test_redaction_can_be_switched_off():
    assert redactor(False)(AWS) == AWS
    assert AWS not in redactor(True)(AWS)


@pytest.mark.parametrize("channel", CHANNELS)
def test_every_channel_can_be_switched_by_itself(channel: Channel):
    """X-51: off and on per channel."""
    only = config_from({"redact": [channel]}).redact
    assert [is_redacted(only, other) for other in CHANNELS] == [
        other == channel for other in CHANNELS
    ]
    assert is_redacted(True, channel) and not is_redacted(False, channel)
    assert AWS not in redactor(only, channel)(AWS)
    assert redactor(config_from({"redact": []}).redact, channel)(AWS) == AWS


@pytest.mark.parametrize("value", [["summarise"], "summaries", 1, {"logs": True}])
def test_a_channel_that_there_is_not_is_refused(value):
    with pytest.raises(Invalid, match="redact"):
        config_from({"redact": value})


def test_the_setting_is_a_list_in_a_file_and_in_the_environment(tmp_path):
    from refold.settings.sources import loaded

    (tmp_path / "refold.toml").write_text('redact = ["summaries", "exports"]\n')
    assert loaded(folder=tmp_path, environ={})[0].redact == ("summaries", "exports")
    assert loaded(folder=tmp_path, environ={"REFOLD_REDACT": '["logs"]'})[0].redact == ("logs",)
    assert loaded(folder=tmp_path, environ={"REFOLD_REDACT": "false"})[0].redact is False


def test_an_engine_whose_summaries_are_not_a_named_channel_leaves_them_alone():
    context = refold.open("a", store="memory:", config={"redact": ["exports"]})
    assert context._compactor._redact(AWS) == AWS
    assert AWS not in refold.open(
        "b", store="memory:", config={"redact": ["summaries"]}
    )._compactor._redact(AWS)


# --- exports ---


def secretive(store: refold.stores.protocol.Store) -> list[str]:
    """A conversation with secrets in its title, texts, arguments and an artifact; gives the
    secrets."""
    secrets = ["".join(parts[0]) for parts in list(PREFIXED.values())[:8]]
    with refold.open("talk", store=store, config={"offload_tokens": 200}) as context:
        context.update(title=f"Rotate {secrets[0]}")
        context.append({"role": "user", "content": f"the key is {secrets[1]}"})
        call = {
            "type": "tool_use",
            "id": "t1",
            "name": "run",
            "input": {"api_key": secrets[2], "deep": [secrets[3]]},
        }
        context.append({"role": "assistant", "content": [call]})
        context.append_result("t1", f"{secrets[4]}\n" + "a line of output\n" * 20_000 + secrets[5])
        context.artifacts.put(f"x\n{secrets[6]}\n".encode() + b"\xff\xfe", name=f"{secrets[7]}.bin")
    return secrets


def test_an_export_for_reading_holds_no_secret_unless_it_is_asked_for(tmp_path):
    """X-51: exports."""
    from refold.conversations.exporter import chunks_of, export_file
    from refold.stores.memory import MemoryStore

    store = MemoryStore()
    secrets = secretive(store)
    shown = b"".join(chunks_of(store, "talk", "markdown")).decode()
    assert [secret for secret in secrets if secret in shown] == []
    assert "the key is [redacted " in shown and shown.count("a line of output\n") >= 20_000
    export_file(store, "talk", str(tmp_path / "a.md"))
    assert (tmp_path / "a.md").read_text() == shown
    export_file(store, "talk", str(tmp_path / "b.md"), secrets=True)
    # What is not text is not shown in any export for reading.
    whole = (tmp_path / "b.md").read_text().replace("\\", "")
    assert [secret for secret in secrets if secret not in whole] == [secrets[6]]


def test_an_export_to_be_imported_again_is_whole_with_its_secrets(tmp_path):
    """X-51: a backup that lacks something is none."""
    from refold.conversations.exporter import chunks_of
    from refold.conversations.importer import import_document
    from refold.stores.memory import MemoryStore

    store, fresh = MemoryStore(), MemoryStore()
    secretive(store)
    document = b"".join(chunks_of(store, "talk", "json"))
    assert document == b"".join(chunks_of(store, "talk", "json", secrets=True))
    import_document(fresh, document)
    assert fresh.read("talk") == store.read("talk")


# --- masks ---


@pytest.mark.parametrize(("kind", "secret"), EXAMPLES)
def test_a_mask_gives_away_six_signs_at_most(kind, secret):
    shown = masked(secret)
    assert secret not in shown and f"({len(secret):,} characters)" in shown
    assert len(shown.split(" ")[0]) <= 7


def test_a_mask_of_a_password_or_a_key_gives_away_nothing():
    assert masked("hunter2hunter2") == "… (14 characters)"
    assert masked(SURROUNDED["RSA key"][0]).startswith("… (")
    assert masked(drawn("short", WORD, 20)) == "… (20 characters)"
