"""A slip in the URL of a synced store never makes it one without a key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.errors import Invalid
from refold.stores import open_store, synced_of
from refold.stores.encrypted import keys
from refold.stores.hybrid.address import address_of

FARS = [
    "files:/mnt/team",
    "files:/mnt/R&D/team",
    "sqlite:/mnt/team.db",
    "https://refold.example.com/acme",
    "postgresql://u@h/db",
    "postgresql://u@h/db?org=acme&sslmode=require",
]
SEPARATORS = st.sampled_from(["&", "?", "&&", "?&", "& ", "&amp;", ";", " ", "#", ",", "%26", "＆"])
NAMES = st.sampled_from(["key", "Key", "KEY", "kEy", "key ", "key\t"])
SPELT = ["keys", "keyfile", "key_file", "key-file", "kеy", "password", "sync-s", "Redact"]


def key_of(url: str) -> str | None:
    """The key that a URL names; None if it is refused."""
    try:
        return address_of(url).key
    except Invalid:
        return None


@given(st.sampled_from(FARS), SEPARATORS, NAMES, st.sampled_from(["=", " = ", "%3D", ""]))
def test_a_key_in_any_spelling_is_read_or_refused(
    far: str, separator: str, name: str, equals: str
) -> None:
    value = "/home/me/a.key" if equals else ""
    if equals or separator in ("&", "?", "&&", "?&", "& "):
        assert key_of(f"near.db?far={far}{separator}{name}{equals}{value}") != ""
    if equals:
        assert key_of(f"near.db{separator}{name}{equals}{value}?far={far}") != ""


@pytest.mark.parametrize("name", SPELT)
@pytest.mark.parametrize("far", [far for far in FARS if not far.startswith("postgres")])
@pytest.mark.parametrize("separator", ["&", "?"])
def test_an_option_that_is_none_is_refused(far: str, separator: str, name: str) -> None:
    for url in (f"near.db?far={far}{separator}{name}=x", f"near.db{separator}{name}=x?far={far}"):
        with pytest.raises(Invalid, match="is not an option"):
            address_of(url)


@pytest.mark.parametrize(
    "url",
    [
        "near.db?far=files:/mnt/x&key=a.key&key=b.key",
        "near.db?far=files:/mnt/x&key=a&b.key",
        "near.db?far=files:/mnt/x&key=a.key&plain=yes",
        "near.db?far=files:/mnt/x&plain=no",
        "near.db?far=files:/mnt/x?far=files:/mnt/y",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        address_of(url)


@pytest.mark.parametrize("far", FARS)
def test_what_is_no_option_is_a_part_of_its_store(far: str) -> None:
    for near in ("/data/R&D/near.db", "/data/key=1/near.db", "postgresql://h/db?sslkey=k"):
        found = address_of(f"{near}?far={far}&plain=yes")
        assert (found.near, found.far, found.is_plain) == (near, far, True)


# --- a key that was left out ---


def far_bytes(folder: Path) -> bytes:
    return b"".join(one.read_bytes() for one in folder.rglob("*") if one.is_file())


def say(url: str, id: str, text: str) -> None:
    with refold.open(id, store=url, model="gpt-4o") as context:
        context.append({"role": "user", "content": text})


@pytest.mark.parametrize("near", ["sqlite:{}/near.db", "files:{}/near"])
@pytest.mark.parametrize("far", ["team", "other"], ids=["the same far store", "another"])
@pytest.mark.parametrize("ids", [(), ("new",), ("talk", "fork", "new")], ids=str)
def test_a_store_that_was_synced_with_a_key_sends_nothing_without_one(
    near: str, far: str, ids: tuple[str, ...], tmp_path: Path
) -> None:
    keys.create(f"{tmp_path}/a.key", keys.random_key())
    plain = f"hybrid:{near.format(tmp_path)}?far=files:{tmp_path}/{far}"
    keyed = f"hybrid:{near.format(tmp_path)}?far=files:{tmp_path}/team&key={tmp_path}/a.key"
    say(keyed, "talk", "word of before")
    store = open_store(keyed)
    assert synced_of(store).sync().is_done
    store.fork("talk", 1, "fork")
    store.close()
    for id in ("talk", "fork", "new"):
        say(plain, id, f"word of {id}")
    store = open_store(plain)
    report = synced_of(store).sync(ids)
    store.put([b"word of an artifact"])
    said = report.reason + "".join(one.reason for one in report.synced)
    assert not report.is_done and "with a key before" in said and "&key=FILE" in said
    assert all(one.state == "blocked" for one in report.synced)
    assert synced_of(store).sync(takes_plain=True).is_refused
    store.close()
    assert b"word of" not in far_bytes(tmp_path / far)
    # Said on purpose, it is sent.
    store = open_store(f"{plain}&plain=yes")
    assert "&plain=yes" in store.url
    synced_of(store).sync()
    store.close()
    assert b"word of new" in far_bytes(tmp_path / far)


def test_a_key_file_that_is_missing_does_not_make_a_store_one_with_a_key(tmp_path: Path) -> None:
    plain = f"hybrid:sqlite:{tmp_path}/near.db?far=files:{tmp_path}/team"
    say(plain, "talk", "a word")
    store = open_store(f"{plain}&key={tmp_path}/none.key")
    assert not synced_of(store).sync().is_done
    store.close()
    store = open_store(plain)
    assert synced_of(store).sync().is_done
    store.close()
