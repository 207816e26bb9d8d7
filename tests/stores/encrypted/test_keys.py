"""A key file is private, is never lost by a write, and is never repeated in an error."""

from __future__ import annotations

import base64
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.errors import Conflict, Corrupt, Denied, Invalid, RefoldError
from refold.stores import open_store, synced_of
from refold.stores.contract.kit import grown
from refold.stores.encrypted import keys
from refold.stores.hybrid.address import address_of


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "keys" / "acme.key")


def test_a_new_file_has_one_key_and_is_for_its_owner_alone(file: str) -> None:
    mask = os.umask(0)
    try:
        made = keys.create(file, keys.random_key())
    finally:
        os.umask(mask)
    assert os.stat(file).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(file)).st_mode & 0o777 == 0o700
    assert keys.read(file) == made
    assert repr(made.newest.secret) not in repr(made)


def test_a_file_is_never_written_over(file: str) -> None:
    made = keys.create(file, keys.random_key())
    with pytest.raises(Conflict, match="already"):
        keys.create(file, keys.random_key())
    assert keys.read(file) == made


def test_a_newer_key_encrypts_and_the_older_stay_readable(file: str) -> None:
    first, second = keys.random_key(), keys.random_key()
    keys.create(file, first)
    assert keys.rotate(file, second).keys == (second, first)
    assert keys.read(file).newest == second
    with pytest.raises(Conflict, match="already"):
        keys.rotate(file, first)
    assert os.listdir(os.path.dirname(file)) == ["acme.key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_can_read_is_refused(file: str, mode: int) -> None:
    keys.create(file, keys.random_key())
    os.chmod(file, mode)
    with pytest.raises(Denied, match="others can read"):
        keys.read(file)


def test_a_file_that_is_not_there_says_how_to_make_one(file: str) -> None:
    with pytest.raises(Denied, match="no key file") as caught:
        keys.read(file)
    assert "sync key new" in (caught.value.hint or "")


@settings(max_examples=200)
@given(
    st.one_of(
        st.text(min_size=1),
        st.binary(max_size=64).map(lambda b: keys.MARK + base64.b64encode(b).decode()),
    )
)
def test_a_line_that_is_no_key_is_named_by_its_place_and_not_repeated(
    tmp_path_factory, line: str
) -> None:
    file = tmp_path_factory.mktemp("keys") / "a.key"
    file.write_text(line, encoding="utf-8", errors="replace")
    file.chmod(0o600)
    try:
        found = keys.read(str(file))
    except RefoldError as error:
        assert isinstance(error, Corrupt) and str(file) in error.message
        assert len(line) < 40 or line not in str(error)
    else:
        assert all(len(key.secret) == keys.KEY_BYTES for key in found.keys)


def test_one_passphrase_and_name_give_one_key() -> None:
    one = keys.key_of("correct horse battery staple", "acme")
    assert one == keys.key_of("correct horse battery staple", "acme")
    assert one != keys.key_of("correct horse battery staple", "other")
    for passphrase, name in (("too short", "acme"), ("correct horse battery staple", "")):
        with pytest.raises(Invalid):
            keys.key_of(passphrase, name)


@settings(max_examples=3, deadline=None)
@given(st.text(st.sampled_from("äéñçộå가ß字"), min_size=16, max_size=20))
def test_one_passphrase_gives_one_key_however_a_keyboard_writes_its_letters(text: str) -> None:
    apart, name = unicodedata.normalize("NFD", text), unicodedata.normalize("NFD", text[:3])
    assert keys.key_of(text, text[:3]) == keys.key_of(apart, name)


# --- in the URL of a store ---


def test_a_url_names_the_file_of_a_key(tmp_path: Path) -> None:
    found = address_of(f"near.db?far=files:/mnt/x&key={tmp_path}/a.key&sync_s=5")
    assert (found.key, found.sync_s) == (f"{tmp_path}/a.key", 5.0)
    assert address_of("near.db?far=files:/mnt/x&key=~/a.key").key == os.path.expanduser("~/a.key")
    with pytest.raises(Invalid, match="key="):
        address_of("near.db?far=files:/mnt/x&key=")


def test_a_store_without_its_key_works_near_and_says_what_is_missing(tmp_path: Path) -> None:
    url = f"hybrid:sqlite:{tmp_path}/near.db?far=files:{tmp_path}/far&key={tmp_path}/a.key"
    store = open_store(url)
    grown(store, "c", 2)
    report = synced_of(store).sync()
    assert not report.is_done and "no key file" in report.reason
    assert not (tmp_path / "far").exists()
    keys.create(f"{tmp_path}/a.key", keys.random_key())
    store.close()
    again = open_store(store.url)  # the URL says all of it
    assert synced_of(again).sync().is_done
    assert b"refold.encrypted" in b"".join(
        path.read_bytes() for path in (tmp_path / "far").rglob("*") if path.is_file()
    )
    again.close()
