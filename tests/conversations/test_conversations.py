"""The public functions for whole conversations, each with a store and with a URL."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import refold.conversations
from refold import conversations
from refold.errors import Invalid, NotFound
from refold.stores import Store, open_store
from refold.stores.contract.kit import grown, titled
from refold.stores.in_memory import MemoryStore

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store on disk with three conversations, one of them a fork."""
    url = f"sqlite:{tmp_path / 'work.db'}"
    store = open_store(url)
    grown(store, "talk", 5)
    store.fork("talk", 3, "branch")
    grown(store, "other", 2)
    store.close()
    return url


def both(url: str) -> list[Store | str]:
    return [url, open_store(url)]


def test_list_gives_the_newest_first(url: str) -> None:
    for store in both(url):
        listed = conversations.list(store)
        assert sorted(about.id for about in listed) == ["branch", "other", "talk"]
        times = [about.updated_ms for about in listed]
        assert times == sorted(times, reverse=True)
    assert conversations.list(url, tag="nobody has it") == []


def test_an_empty_store_lists_nothing() -> None:
    assert refold.conversations.list("memory:") == []


def test_find_takes_an_id_or_a_position(url: str) -> None:
    for store in both(url):
        assert conversations.find(store, "talk").head == 5
        assert conversations.find(store, "@1") == conversations.list(store)[0]
        with pytest.raises(NotFound):
            conversations.find(store, "nobody")
        with pytest.raises(NotFound):
            conversations.find(store, "@4")
        with pytest.raises(Invalid):
            conversations.find(store, "@x")


def test_what_is_removed_is_named_by_its_whole_id_or_name(url: str) -> None:
    with refold.open("other", store=url) as context:
        context.update(names=("the other",))
    for store in both(url):
        assert conversations.find(store, "bra").id == "branch"
        for typed in ("@1", "@", "bra"):
            with pytest.raises(Invalid, match="is not a complete id"):
                conversations.delete(store, [typed])
            with pytest.raises(Invalid, match="is not a complete id"):
                conversations.erase(store, typed)
        with pytest.raises(NotFound):
            conversations.delete(store, ["nobody"])
    assert conversations.erase(url, "the other", [1]).conversation == "other"
    assert conversations.delete(url, ["the other", "branch"]).removed == ("other", "branch")


def test_copy_goes_from_url_to_store_and_tells_how_far_it_is(url: str) -> None:
    target = MemoryStore()
    heard: list[conversations.CopyProgress] = []
    done = conversations.copy(url, target, progress=heard.append)
    assert [(one.id, one.state) for one in done] == [
        ("talk", "copied"),
        ("branch", "copied"),
        ("other", "copied"),
    ]
    assert heard[-1].done == heard[-1].total
    assert [one.state for one in conversations.copy(url, target, ["other"])] == ["same"]


def test_what_is_exported_is_imported_again_from_a_path_or_bytes(url: str, tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    size = conversations.export(url, "talk", path)
    assert size == path.stat().st_size
    fresh = MemoryStore()
    assert conversations.import_(fresh, path).id == "talk"
    assert conversations.import_(fresh, path.read_bytes(), id="second").id == "second"
    assert fresh.read("talk") == fresh.read("second")
    assert conversations.export(url, "talk", tmp_path / "talk.txt", format="markdown")
    assert (tmp_path / "talk.txt").read_text().startswith("# ")


def test_verify_reports_on_one_or_all(url: str) -> None:
    for store in both(url):
        report = conversations.verify(store)
        assert (report.conversations, report.problems) == (3, ())
        assert conversations.verify(store, "other").events == 2


def test_scan_finds_a_secret_and_masks_it() -> None:
    store = MemoryStore()
    store.append("talk", [titled(None, TOKEN)], expect=0)
    report = conversations.scan(store, ["talk"])
    assert report.total == 1 and report.findings[0].seq == 1
    assert TOKEN not in report.findings[0].masked


def test_delete_removes_and_says_what_had_to_stay(url: str) -> None:
    done = conversations.delete(url, ["talk", "other"])
    assert done.removed == ("other",) and "talk" in done.left
    assert conversations.delete(url, ["talk", "branch"]).removed == ("branch", "talk")
    assert conversations.list(url) == []
    with pytest.raises(NotFound):
        conversations.delete(url, ["talk"])


def test_every_public_name_is_there_and_every_function_says_what_it_gives() -> None:
    assert dir(conversations) == sorted(conversations.__all__)
    for name in conversations.__all__:
        value = getattr(conversations, name)
        if inspect.isfunction(value):
            assert value.__doc__ and "return" in value.__annotations__
    with pytest.raises(AttributeError):
        _ = conversations.nothing


def test_no_module_of_the_room_hides_a_public_name() -> None:
    """An import of `refold.conversations.NAME` sets that name on the package."""
    room = Path(conversations.__file__).parent
    modules = {path.stem for path in room.glob("*.py")}
    assert not modules & set(conversations.__all__)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, refold.conversations; print('msgspec' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_paths_are_taken_wherever_a_place_is_asked_for(tmp_path: Path) -> None:
    database = tmp_path / "work.db"
    with refold.open("talk", store=database) as context:
        context.append({"role": "user", "content": "hello"})
        context.log.export(tmp_path / "one.json")
    refold.conversations.export(database, "talk", tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    other = tmp_path / "other.db"
    refold.conversations.import_(other, tmp_path / "one.json")
    assert refold.conversations.list(other)[0].chain == refold.conversations.list(database)[0].chain
    with refold.open("talk", store=other, read_only=True) as context:
        assert context.view.head == 1
    with pytest.raises(refold.Invalid):
        refold.open("talk", store=tmp_path / "folder")
