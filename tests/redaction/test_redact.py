"""Text without its secrets, by channels, and masks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.config import CHANNELS, Channel, config_from
from refold.errors import Invalid
from refold.redaction import is_redacted, masked, redacted, redactor
from tests.redaction.secret_kinds import AWS, EXAMPLES, PREFIXED, SURROUNDED, WORD, drawn


@given(st.text())
def test_redacting_twice_changes_nothing(text):
    once = redacted(text)
    assert redacted(once) == once


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
    from refold.settings.permissions import allow
    from refold.settings.sources import loaded, weakened_settings

    (tmp_path / "refold.toml").write_text('redact = ["summaries", "exports"]\n')
    allow(weakened_settings(tmp_path), {"XDG_DATA_HOME": str(tmp_path)})
    environ = {"XDG_DATA_HOME": str(tmp_path)}
    assert loaded(folder=tmp_path, environ=environ)[0].redact == ("summaries", "exports")
    assert loaded(folder=tmp_path, environ={"REFOLD_REDACT": '["logs"]'})[0].redact == ("logs",)
    assert loaded(folder=tmp_path, environ={"REFOLD_REDACT": "false"})[0].redact is False


def test_an_engine_whose_summaries_are_not_a_named_channel_leaves_them_alone():
    context = refold.open("a", store="memory:", config={"redact": ["exports"]})
    assert context._compactor._redact(AWS) == AWS
    assert AWS not in refold.open(
        "b", store="memory:", config={"redact": ["summaries"]}
    )._compactor._redact(AWS)


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
    from refold.stores.in_memory import MemoryStore

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
    from refold.stores.in_memory import MemoryStore

    store, fresh = MemoryStore(), MemoryStore()
    secretive(store)
    document = b"".join(chunks_of(store, "talk", "json"))
    assert document == b"".join(chunks_of(store, "talk", "json", secrets=True))
    import_document(fresh, document)
    assert fresh.read("talk") == store.read("talk")


@pytest.mark.parametrize(("kind", "secret"), EXAMPLES)
def test_a_mask_gives_away_six_signs_at_most(kind, secret):
    shown = masked(secret)
    assert secret not in shown and f"({len(secret):,} characters)" in shown
    assert len(shown.split(" ")[0]) <= 7


def test_a_mask_of_a_password_or_a_key_gives_away_nothing():
    assert masked("hunter2hunter2") == "… (14 characters)"
    assert masked(SURROUNDED["RSA key"][0]).startswith("… (")
    assert masked(drawn("short", WORD, 20)) == "… (20 characters)"
