"""`refold sync` and `refold erase` from the shell, with two folders as two devices."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import refold
from tests.edges.cli.rooms import run

pytestmark = pytest.mark.usefixtures("alone")


def say(store: str, text: str) -> None:
    with refold.open("talk", store=store, model="gpt-4o") as context:
        context.append({"role": "user", "content": text})


def test_two_devices_sync_by_a_folder(tmp_path: Path) -> None:
    one, two = (f"hybrid:sqlite:{tmp_path}/{name}.db?far=files:{tmp_path}/team" for name in "ab")
    say(one, "from here")
    status = json.loads(run("sync", "--status", "--store", one, "--json").output)
    assert status["conversations"][0]["pending"] == 2
    assert run("sync", "--store", one).exit_code == 0
    assert run("sync", "--store", two).exit_code == 0
    say(one, "more here")
    say(two, "more there")
    assert run("sync", "--store", two).exit_code == 0
    forked = run("sync", "--store", one)
    assert forked.exit_code == 0
    assert "grew on both sides" in forked.output
    assert run("sync", "--store", one).exit_code == 0


def test_a_store_without_a_far_one_names_the_way(tmp_path: Path) -> None:
    say(f"sqlite:{tmp_path}/a.db", "hello")
    refused = run("sync", "--store", f"sqlite:{tmp_path}/a.db")
    assert refused.exit_code == 2
    assert "--far" in refused.output
    far = f"files:{tmp_path}/team"
    assert run("sync", "--store", f"sqlite:{tmp_path}/a.db", "--far", far).exit_code == 0


def test_what_waits_or_is_blocked_is_in_the_exit_status(tmp_path: Path) -> None:
    store = f"hybrid:sqlite:{tmp_path}/a.db?far=http://127.0.0.1:9/acme"
    say(store, "hello")
    blocked = run("sync", "--store", store)
    assert blocked.exit_code == 4
    assert "refold login" in blocked.output
    assert "blocked  talk: 2 events to send" in blocked.output
    status = run("sync", "--status", "talk", "--store", store)
    assert status.exit_code == 0
    assert "blocked  talk: 2 events to send" in status.output
    there = f"hybrid:sqlite:{tmp_path}/a.db?far=files:{tmp_path}/team"
    assert run("sync", "nobody", "--store", there).exit_code == 4


def test_erasing_asks_first_and_says_what_went(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}/a.db"
    say(store, "the word is swordfish")
    assert run("erase", "talk", "2", "--store", store).exit_code != 0
    assert run("erase", "talk", "2", "--all", "--yes", "--store", store).exit_code == 2
    assert run("erase", "talk", "9", "--yes", "--store", store).exit_code == 3
    erased = run("erase", "talk", "2", "--yes", "--store", store)
    assert erased.exit_code == 0
    assert "1 event of talk is erased" in erased.output
    assert "swordfish" not in run("show", "talk", "--store", store).output


@pytest.mark.parametrize("kind", ["files:{}/team", "sqlite:{}/team.db"])
@pytest.mark.parametrize("other", [False, True], ids=["empty", "another store"])
def test_a_far_store_that_lost_everything_is_not_filled_again(
    tmp_path: Path, kind: str, other: bool
) -> None:
    mount, away = tmp_path / "mnt", tmp_path / "away"
    far = kind.format(mount)
    store = f"hybrid:sqlite:{tmp_path}/a.db?far={far}"
    mount.mkdir()
    say(store, "from here")
    assert run("sync", "--store", store).exit_code == 0
    mount.rename(away)
    mount.mkdir()
    if other:
        with refold.open("theirs", store=far, model="gpt-4o") as context:
            context.append({"role": "user", "content": "of another team"})
    before = sorted(mount.iterdir())
    for arguments in ((), ("talk",)):
        gone = run("sync", *arguments, "--store", store)
        assert gone.exit_code == 8
        assert "--new-far" in gone.output
    # What is new is not sent there either.
    with refold.open("fresh", store=store, model="gpt-4o") as context:
        context.append({"role": "user", "content": "hello"})
    assert run("sync", "fresh", "--store", store).exit_code == 8
    assert sorted(mount.iterdir()) == before
    if not other:
        mount.rmdir()
        away.rename(mount)
    said = run("sync", "--store", store, *(["--new-far"] if other else []))
    assert said.exit_code == 0
    assert run("sync", "--store", store).exit_code == 0


def test_the_last_shared_conversation_may_be_deleted_on_both_sides(tmp_path: Path) -> None:
    far = f"files:{tmp_path}/team"
    store = f"hybrid:sqlite:{tmp_path}/a.db?far={far}"
    say(store, "from here")
    assert run("sync", "--store", store).exit_code == 0
    assert run("delete", "talk", "--yes", "--store", store).exit_code == 0
    assert run("delete", "talk", "--yes", "--store", far).exit_code == 0
    with refold.open("fresh", store=store, model="gpt-4o") as context:
        context.append({"role": "user", "content": "hello"})
    assert run("sync", "--store", store).exit_code == 0


def test_status_of_named_conversations_syncs_nothing(tmp_path: Path) -> None:
    store = f"hybrid:sqlite:{tmp_path}/a.db?far=files:{tmp_path}/team"
    say(store, "hello")
    with refold.open("other", store=store, model="gpt-4o") as context:
        context.append({"role": "user", "content": "hello"})
    status = run("sync", "--status", "talk", "--store", store)
    assert status.exit_code == 0
    assert "talk: 2 events to send" in status.output
    assert "other" not in status.output
    assert not (tmp_path / "team").exists()
    assert run("sync", "--status", "nobody", "--store", store).exit_code == 3
    assert "status" in run("sync", "--status", "--help").output


def test_what_was_fetched_or_forked_is_not_to_be_sent(tmp_path: Path) -> None:
    one, two = (f"hybrid:sqlite:{tmp_path}/{name}.db?far=files:{tmp_path}/team" for name in "ab")
    say(one, "from here")
    assert run("sync", "--store", one).exit_code == 0
    say(two, "more there")

    def standing(store: str) -> dict[str, tuple[str, int]]:
        rows = json.loads(run("sync", "--status", "--store", store, "--json").output)
        return {
            row["conversation"]: (row["state"], row["pending"]) for row in rows["conversations"]
        }

    assert standing(two) == {"talk": ("pending", 1)}
    say(one, "more here")
    assert run("sync", "--store", one).exit_code == 0
    [forked] = json.loads(run("sync", "--store", two, "--json").output)["conversations"]
    assert standing(two) == {"talk": ("forked", 0), forked["fork"]: ("synced", 0)}
    assert run("sync", "--store", two).exit_code == 0
    assert standing(two) == {"talk": ("synced", 0), forked["fork"]: ("synced", 0)}
    assert forked["fork"] in run("sync", "--status", "talk", "--store", two).output


def test_erase_says_where_it_is_erased_and_where_not_yet(tmp_path: Path) -> None:
    one, two = (f"hybrid:sqlite:{tmp_path}/{n}/x.db?far=files:{tmp_path}/team" for n in "ab")
    say(one, "the word is swordfish")
    for store in (one, two):
        assert run("sync", "--store", store).exit_code == 0
    # A copied folder is another device, and confirms for itself.
    shutil.copytree(tmp_path / "b", tmp_path / "c")
    three = two.replace("/b/", "/c/")
    erased = run("erase", "talk", "2", "--yes", "--store", one).output
    assert "not yet   in files:" in erased
    assert "confirmed" not in erased
    assert run("sync", "--store", one).exit_code == 0
    assert "erased    in files:" in run("erase", "talk", "--store", one).output
    names = []
    for count, store in enumerate((two, three), 1):
        assert run("sync", "--store", store).exit_code == 0
        assert run("sync", "--store", one).exit_code == 0
        shown = run("erase", "talk", "--store", one).output
        assert shown.count("confirmed") == count
        device = json.loads(run("sync", "--status", "--store", store, "--json").output)["device"]
        assert f"confirmed {device}: 1 event" in shown
        assert device in run("sync", "--status", "--store", store).output
        names.append(device)
    assert len(set(names)) == 2
    # A folder that is renamed is the same one.
    (tmp_path / "c").rename(tmp_path / "d")
    four = two.replace("/b/", "/d/")
    assert names[1] in run("sync", "--status", "--store", four).output


# --- keys ---


def encrypted(tmp_path: Path, name: str) -> str:
    return f"hybrid:sqlite:{tmp_path}/{name}.db?far=files:{tmp_path}/team&key={tmp_path}/acme.key"


def team_bytes(tmp_path: Path) -> bytes:
    return b"".join(one.read_bytes() for one in (tmp_path / "team").rglob("*") if one.is_file())


def test_a_key_is_made_listed_and_used(tmp_path: Path) -> None:
    made = run("sync", "key", "new", f"{tmp_path}/acme.key")
    assert made.exit_code == 0 and "only you can read" in made.output
    status = ("sync", "--status", "--json", "--store", encrypted(tmp_path, "a"))
    [key] = json.loads(run(*status).output)["keys"]
    assert key in made.output
    secret = (tmp_path / "acme.key").read_text().rsplit(":", 1)[1].strip()
    assert secret not in made.output
    assert run("sync", "key", "new", f"{tmp_path}/acme.key").exit_code == 4
    one, two = encrypted(tmp_path, "a"), encrypted(tmp_path, "b")
    say(one, "a word that nobody may read")
    assert run("sync", "--store", one).exit_code == 0
    assert run("sync", "--store", two).exit_code == 0
    assert "a word that nobody may read" in run("show", "talk", "--store", two).output
    assert b"nobody may read" not in team_bytes(tmp_path)
    checked = run("sync", "--verify", "--store", two)
    assert checked.exit_code == 0 and "as it was written" in checked.output


def test_a_passphrase_gives_one_key_on_every_device(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("one.key", "two.key")]
    for file in files:
        given = ("--passphrase", "--name", "acme")
        made = run("sync", "key", "new", file, *given, input="four words in a row\n")
        assert made.exit_code == 0, made.output
        assert "four words" not in made.output
    assert Path(files[0]).read_bytes() == Path(files[1]).read_bytes()
    assert run("sync", "key", "new", f"{tmp_path}/x.key", "--name", "acme").exit_code == 2


def test_a_key_is_said_for_a_store_that_names_none(tmp_path: Path) -> None:
    run("sync", "key", "new", f"{tmp_path}/acme.key")
    store = f"hybrid:sqlite:{tmp_path}/a.db?far=files:{tmp_path}/team"
    say(store, "a word that nobody may read")
    key = ("--key", f"{tmp_path}/acme.key", "--store")
    assert run("sync", *key, store).exit_code == 0
    assert b"nobody may read" not in team_bytes(tmp_path)
    assert run("sync", "--verify", *key, store).exit_code == 0
    say(store, "password: hunter2-Tr0ub4dor&3 AKIAIOSFODNN7EXAMPLQ")
    held = run("sync", *key, f"{store}&redact=hold")
    assert held.exit_code == 4 and "held" in held.output
    alone = run("sync", *key, f"sqlite:{tmp_path}/a.db")
    assert alone.exit_code == 2 and "--far URL --key FILE" in alone.output


def test_what_is_said_of_a_key_is_what_to_do_next(tmp_path: Path) -> None:
    made = run("sync", "key", "new", f"{tmp_path}/a.key").output
    given = ("--passphrase", "--name", "acme")
    derived = run("sync", "key", "new", f"{tmp_path}/b.key", *given, input="four words in a row\n")
    assert "Copy the file" in made and "Copy the file" not in derived.output
    assert "same passphrase and name" in derived.output
    for told in (made, derived.output):
        assert "still sees the ids of conversations" in told

    def status(path: str) -> str:
        store = f"hybrid:sqlite:{tmp_path}/a.db?far=files:{tmp_path}/team&key={path}"
        return run("sync", "--status", "--store", store).output

    missing = status(f"{tmp_path}/none.key")
    assert missing.index("copy it from a device") < missing.index("sync key new")
    (tmp_path / "link.key").symlink_to(tmp_path / "a.key")
    for path in (str(tmp_path), "/dev/null", f"{tmp_path}/link.key"):
        assert "is not a key file" in status(path)


def test_what_lay_there_in_plain_text_is_encrypted_again(tmp_path: Path) -> None:
    plain = f"hybrid:sqlite:{tmp_path}/a.db?far=files:{tmp_path}/team"
    with refold.open("talk", store=plain, model="gpt-4o") as context:
        context.append({"role": "user", "content": "a word of before"})
        context.artifacts.put("an output of before\n" * 500, name="output")
    assert run("fork", "talk", "other", "--at", "1", "--store", plain).exit_code == 0
    assert run("sync", "--store", plain).exit_code == 0
    assert b"of before" in team_bytes(tmp_path)
    run("sync", "key", "new", f"{tmp_path}/acme.key")
    one = encrypted(tmp_path, "a")
    say(one, "a word of today")
    assert run("sync", "--store", one).exit_code == 0
    # A device that comes later does not take in what anybody could have written there.
    late = run("sync", "--store", encrypted(tmp_path, "b"))
    assert late.exit_code == 4 and "plain text" in late.output
    readable = run("sync", "--verify", "--store", one)
    assert readable.exit_code != 0 and "in plain text" in readable.output
    told = run("sync", "key", "apply", "--yes", "--store", one)
    assert told.exit_code == 0 and "in plain text" in told.output
    assert run("sync", "--verify", "--store", one).exit_code == 0
    for word in (b"of before", b"of today"):
        assert word not in team_bytes(tmp_path)
    assert run("sync", "--store", encrypted(tmp_path, "b")).exit_code == 0
    assert "a word of before" in run("show", "talk", "--store", encrypted(tmp_path, "b")).output
    listed = json.loads(run("list", "--store", encrypted(tmp_path, "b"), "--json").output)
    assert {one["parent"] for one in listed["conversations"]} == {"", "talk"}
    nothing = run("sync", "key", "apply", "--yes", "--store", one)
    assert "0 conversations encrypted again" in nothing.output


def test_a_newer_key_is_applied_to_all_that_lies_there(tmp_path: Path) -> None:
    run("sync", "key", "new", f"{tmp_path}/acme.key")
    one = encrypted(tmp_path, "a")
    say(one, "a word")
    assert run("sync", "--store", one).exit_code == 0
    rotated = run("sync", "key", "new", f"{tmp_path}/acme.key", "--rotate", "--json")
    [older] = json.loads(rotated.output)["older"]
    assert older.encode() in team_bytes(tmp_path)
    applied = run("sync", "key", "apply", "--yes", "--store", one)
    assert applied.exit_code == 0 and "by an older key" in applied.output
    assert older.encode() not in team_bytes(tmp_path)
    assert run("sync", "--store", encrypted(tmp_path, "b")).exit_code == 0


def test_a_far_log_that_was_changed_is_named_by_its_event(tmp_path: Path) -> None:
    run("sync", "key", "new", f"{tmp_path}/acme.key")
    one = encrypted(tmp_path, "a")
    say(one, "a word")
    assert run("sync", "--store", one).exit_code == 0
    run("sync", "key", "new", f"{tmp_path}/other.key")
    other = one.replace("acme.key", "other.key")
    wrong = run("sync", "--verify", "--store", other)
    assert wrong.exit_code != 0
    assert "does not have" in wrong.output and "other.key" in wrong.output
    assert "refold delete" not in wrong.output


def test_a_body_that_nobody_asked_to_erase_is_named(tmp_path: Path) -> None:
    run("sync", "key", "new", f"{tmp_path}/acme.key")
    one = encrypted(tmp_path, "a")
    say(one, "a word")
    say(one, "another")
    assert run("erase", "talk", "2", "--yes", "--store", one).exit_code == 0
    assert run("sync", "--store", one).exit_code == 0
    assert run("sync", "--verify", "--store", one).exit_code == 0
    there = refold.stores.open_store(f"files:{tmp_path}/team")
    there.erase("talk", 3)
    there.close()
    found = run("sync", "--verify", "--store", one)
    assert found.exit_code != 0 and "talk #3" in found.output
    assert "no device asked for its erasure" in found.output and "talk #2" not in found.output


def test_a_log_that_is_encrypted_is_not_opened_in_the_far_store_itself(tmp_path: Path) -> None:
    run("sync", "key", "new", f"{tmp_path}/acme.key")
    one = encrypted(tmp_path, "a")
    say(one, "a word")
    assert run("sync", "--store", one).exit_code == 0
    with pytest.raises(refold.Denied, match="is encrypted"):
        say(f"files:{tmp_path}/team", "in plain text on top of it")
    say_plain = f"files:{tmp_path}/team"
    with refold.open("plain", store=say_plain, model="gpt-4o") as context:
        context.append({"role": "user", "content": "of somebody without a key"})
        context.artifacts.put("an output\n" * 500, name="output")
    listed = run("list", "--store", say_plain)
    assert listed.exit_code == 0 and "[encrypted]" in listed.output
    assert run("artifact", "remove", "--keep-count", "0", "--store", say_plain).exit_code == 0
    assert run("delete", "plain", "--yes", "--store", say_plain).exit_code == 0
    assert run("sync", "--verify", "--store", one).exit_code == 0
    shown = run("show", "talk", "--store", f"files:{tmp_path}/team")
    assert shown.exit_code != 0 and "is encrypted" in shown.output


def test_what_could_not_be_fetched_is_in_the_status(tmp_path: Path) -> None:
    run("sync", "key", "new", f"{tmp_path}/acme.key")
    assert run("sync", "key", "new", f"{tmp_path}/other.key").exit_code == 0
    one = encrypted(tmp_path, "a")
    say(one, "a word")
    assert run("sync", "--store", one).exit_code == 0
    other = encrypted(tmp_path, "b").replace("acme.key", "other.key")
    assert run("sync", "--store", other).exit_code == 4
    for status in (
        run("sync", "--status", "--store", other),
        run("sync", "--status", "talk", "--store", other),
    ):
        assert "blocked  talk: " in status.output and "does not have" in status.output
    assert run("sync", "--status", "nobody", "--store", other).exit_code == 3


@pytest.mark.parametrize("is_keyed", [False, True], ids=["plain", "encrypted"])
def test_a_log_that_is_damaged_there_is_sent_again_as_it_is_said(
    is_keyed: bool, tmp_path: Path
) -> None:
    run("sync", "key", "new", f"{tmp_path}/acme.key")
    one = encrypted(tmp_path, "a")
    one = one if is_keyed else one.partition("&key")[0]
    say(one, "a word")
    with refold.open("other", store=one, model="gpt-4o") as context:
        context.append({"role": "user", "content": "hello"})
    assert run("sync", "--store", one).exit_code == 0
    log = tmp_path / "team" / "conversations" / "talk" / "messages.jsonl"
    changed = log.read_bytes().replace(b"a word", b"b word")
    log.write_bytes(changed.replace(b'"counter":"1.', b'"counter":"2.'))
    told = run("sync", "--verify", "--store", one)
    far = f"files:{tmp_path}/team"
    said = " ".join(told.output.split())
    assert told.exit_code == 5 and f"refold delete talk --store {far}, then refold sync" in said
    # A device that has it not is not told to delete it.
    late = run("sync", "--verify", "--store", one.replace("a.db", "b.db"))
    assert late.exit_code == 5 and "refold delete" not in late.output
    assert run("delete", "talk", "--yes", "--store", far).exit_code == 0
    assert run("sync", "--store", one).exit_code == 0
    whole = run("sync", "--verify", "--store", one)
    assert whole.exit_code == 0 and "delete" not in whole.output
    assert run("sync", "--store", one.replace("a.db", "b.db")).exit_code == 0


@pytest.mark.parametrize("is_keyed", [False, True], ids=["plain", "encrypted"])
@pytest.mark.parametrize("is_lost", [False, True], ids=["damaged", "lost"])
def test_an_artifact_that_is_not_whole_there_is_sent_again(
    is_keyed: bool, is_lost: bool, tmp_path: Path
) -> None:
    run("sync", "key", "new", f"{tmp_path}/acme.key")
    one = encrypted(tmp_path, "a")
    one = one if is_keyed else one.partition("&key")[0]
    with refold.open("talk", store=one, model="gpt-4o") as context:
        kept = context.artifacts.put("a line of output\n" * 1_000, name="out.txt")
    assert run("sync", "--store", one).exit_code == 0
    for file in (tmp_path / "team").rglob("art-*.bin"):
        if is_lost:
            file.unlink()
        else:
            file.chmod(0o600)
            file.write_bytes(b"something else")
    told = run("sync", "--verify", "--store", one)
    said = " ".join(told.output.split())
    assert told.exit_code == 5
    assert "1 artifact can be sent again from this device: refold sync --verify --repair" in said
    # A device that never had it can mend nothing, and says nothing of it.
    late = run("sync", "--verify", "--repair", "--store", one.replace("a.db", "b.db"))
    assert late.exit_code == 5 and "sent again" not in late.output
    mended = run("sync", "--verify", "--repair", "--store", one)
    assert mended.exit_code == 0, mended.output
    assert f"1 artifact sent again: {kept.id}" in mended.output
    assert run("sync", "--store", one.replace("a.db", "b.db")).exit_code == 0
    with refold.open("talk", store=one.replace("a.db", "b.db")) as context:
        assert context.unfold(kept.id).text == "a line of output\n" * 1_000


# --- devices ---


def test_an_erasure_names_the_devices_that_have_not_confirmed_it(tmp_path: Path) -> None:
    one, two = (f"hybrid:sqlite:{tmp_path}/{n}/r.db?far=files:{tmp_path}/team" for n in "ab")
    say(one, "a word")
    for url in (one, two, one):
        assert run("sync", "--store", url).exit_code == 0
    listed = json.loads(run("sync", "--devices", "--store", one, "--json").output)["devices"]
    [other] = [device["name"] for device in listed if not device["is_here"]]
    assert other in run("sync", "--devices", "--store", one).output
    erased = run("erase", "talk", "2", "--yes", "--store", one)
    assert (
        f"not yet   {other}" in erased.output
        and "neither does the one that erased it" in erased.output
    )
    assert run("sync", "--store", one).exit_code == 0
    found = json.loads(run("erase", "talk", "--store", one, "--json").output)
    assert [device["name"] for device in found["unconfirmed"]] == [other]
    for url in (two, one):
        assert run("sync", "--store", url).exit_code == 0
    confirmed = run("erase", "talk", "--store", one)
    assert f"confirmed {other}" in confirmed.output and "not yet" not in confirmed.output
    assert run("sync", "--forget-device", other, "--store", one).exit_code == 0
    assert other not in run("sync", "--devices", "--store", one).output
    assert run("sync", "--forget-device", other, "--store", one).exit_code == 3
