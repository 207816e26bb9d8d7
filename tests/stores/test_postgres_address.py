"""What a URL of PostgreSQL says, and that it never says a password again."""

from __future__ import annotations

import builtins
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.errors import Invalid
from refold.stores import open_store
from refold.stores.postgres.address import DEFAULT_ORG, SERVER_CONNECTIONS_MAX, parsed


def test_our_own_options_are_taken_out_and_the_rest_is_handed_on() -> None:
    found = parsed(
        "postgresql://ann@db1:1,db2:2/work?org=acme&sslmode=require&connections_max=9&wait_s=2.5"
    )
    assert (found.org, found.connections_max, found.wait_s) == ("acme", 9, 2.5)
    assert found.conninfo.startswith("postgresql://ann@db1:1,db2:2/work?")
    assert (
        "sslmode=require" in found.conninfo and "target_session_attrs=read-write" in found.conninfo
    )
    assert not {"org=", "connections_max=", "wait_s="} & {found.conninfo}
    assert "org" not in found.conninfo
    assert found.url == "postgresql://ann@db1:1,db2:2/work?sslmode=require&org=acme"


def test_every_wait_has_a_limit_unless_the_url_says_another() -> None:
    for name in ("connect_timeout", "tcp_user_timeout", "keepalives_count"):
        assert f"{name}=" in parsed("postgresql:///work").conninfo
    assert "connect_timeout=77" in parsed("postgresql:///work?connect_timeout=77").conninfo
    assert "target_session_attrs=any" in parsed("postgresql:///w?target_session_attrs=any").conninfo


def test_without_an_org_there_is_a_default_one() -> None:
    found = parsed("postgres://host/work")
    assert (found.org, found.url) == (DEFAULT_ORG, "postgres://host/work")


@given(org=st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True), first=st.booleans())
def test_an_address_of_another_org_is_that_of_its_url(org: str, first: bool) -> None:
    url = "postgresql://ann@db1:1,db2:2/work?sslmode=require&connections_max=9"
    other = parsed(f"{url}&org=acme" if first else url).of_org(org)
    assert other == parsed(f"{url}&org={org}")


@pytest.mark.parametrize(
    "query, processes, share",
    [
        ("", 1, 16),
        ("", 3, 5),
        ("", 64, 1),
        ("?connections_max=9", 2, 4),
        ("?connections_max=1", 8, 1),
    ],
)
def test_a_server_divides_its_connections_among_its_processes(
    query: str, processes: int, share: int
) -> None:
    found = parsed(f"postgresql:///work{query}", SERVER_CONNECTIONS_MAX).divided(processes)
    assert found.connections_max == share


SECRET = st.text("abcXYZ019-._~!$ @:/?#%é", min_size=4, max_size=12).map(
    lambda text: f"s3cr3t{text}"
)


@given(password=SECRET, way=st.sampled_from(["user", "option", "both"]))
def test_a_password_goes_to_the_server_and_nowhere_else(password: str, way: str) -> None:
    secret = quote(password, safe="")
    user = f"ann:{secret}" if way != "option" else "ann"
    option = f"?password={secret}&sslmode=prefer" if way != "user" else ""
    found = parsed(f"postgresql://{user}@host/work{option}")
    assert "s3cr3t" in found.conninfo
    assert "s3cr3t" not in found.url
    assert found.url.startswith("postgresql://ann@host/work")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:",
        "postgresql://",
        "postgresql://h/d?org=../x",
        "postgresql://h/d?org=",
        "postgresql://h/d?org=a%20b",
        "postgresql://h/d?connections_max=0",
        "postgresql://h/d?connections_max=many",
        "postgresql://h/d?wait_s=-1",
        "postgresql://h/d?wait_s=nan",
    ],
)
def test_what_cannot_be_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parsed(url)
    assert refusal.value.hint


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [
        name for name in sys.modules if name.startswith(("psycopg", "refold.stores.postgres."))
    ]:
        monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "psycopg":
            raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Invalid) as refusal:
        open_store("postgresql://host/work")
    assert "refold[postgres]" in refusal.value.hint
