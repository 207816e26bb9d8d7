"""A session opens its store when it is needed, and knows which conversation is meant."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import refold
from refold.edges.commands import COMMANDS, load
from refold.edges.commands.command import builtins_of
from refold.edges.commands.session import Session
from refold.errors import OUTCOMES, Invalid, NotFound
from tests.edges.cli.rooms import run
from tests.edges.commands.test_commands import EXAMPLES

pytestmark = pytest.mark.usefixtures("alone")


def test_a_store_is_opened_when_it_is_first_used_and_only_once(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real = refold.open_store
    monkeypatch.setattr(
        "refold.stores.open_store", lambda url, **_: opened.append(url) or real(url)
    )  # type: ignore[func-returns-value]
    with Session(store_url=url) as session:
        assert opened == []
        assert session.store is session.store
    assert opened == [url]


def test_without_a_store_it_is_that_of_this_project(url: str) -> None:
    with Session(conversation="@1") as session:
        assert session.store.url == url and session.conversation == "fix-login"


def test_reading_writes_nothing(url: str, tmp_path: Path) -> None:
    with refold.open("fix-login", store=url) as context:
        context.append({"role": "user", "content": "more"})
    before = (tmp_path / ".refold" / "refold.db").read_bytes()
    with Session(conversation="fix-login") as session, session.context() as context:
        assert context.view.slots
    assert (tmp_path / ".refold" / "refold.db").read_bytes() == before


def test_a_conversation_must_exist(url: str) -> None:
    with Session(conversation="nobody") as session, pytest.raises(NotFound), session.context():
        raise AssertionError("it was created")


def test_where_nobody_watches_there_is_no_progress_and_nobody_to_ask() -> None:
    session = Session()
    with session.progress("working") as show:
        assert show is None
    session.confirm("Really?", yes=True)
    with pytest.raises(Invalid, match="cannot be brought back"):
        session.confirm("Really?", yes=False)


CREATING = (
    "import",
    "memory add",
    "chat",
    "doctor",
    "statusline",
    "mcp",
    "sync",
    "sync key apply",
    "proxy",
    "run",
    "install",
)
READING = [name for name in COMMANDS if load(name).on != "nothing" and name not in CREATING]


@pytest.mark.parametrize("url", ["sqlite:none.db", "files:none"])
@pytest.mark.parametrize("name", READING)
def test_a_named_store_that_is_not_there_is_not_found_by_any_reading_command(
    name: str, url: str, alone: None, tmp_path: Path
) -> None:
    command = load(name)
    arguments = msgspec.convert(EXAMPLES[name], command.arguments)
    session = Session(store_url=url, conversation="x")
    with session, pytest.raises(NotFound, match=r"there is no store .*none"):
        builtins_of(command.run(session, arguments))
    assert list(tmp_path.iterdir()) == []


def test_a_conversation_that_is_not_there_is_named_with_the_store(url: str) -> None:
    missing = run("show", "a2")
    assert missing.exit_code == OUTCOMES["not-found"][1]
    assert "'a2'" in missing.stderr and url in missing.stderr


def test_the_store_of_a_new_project_may_be_still_to_come(alone: None) -> None:
    assert run("list").exit_code == 0
    assert run("list", "--store", "sqlite:none.db").exit_code == OUTCOMES["not-found"][1]
