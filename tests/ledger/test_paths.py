"""When two spellings name one file."""

from __future__ import annotations

import pytest

from refold.ledger.arguments import normal


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("./src/a.py", "src/a.py", True),
        ("a//b", "a/b", True),
        ("x/../a", "a", True),
        ("A.py", "a.py", False),
        ("src\\a.py", "src/a.py", True),
        ("C:\\x\\a", "C:/x/a", True),
        ("/a/b/../c", "/a/c", True),
        ("..\\src\\.env", "../src/.env", True),
        ("C:\\x/1\\2", "C:/x/1/2", True),
        ("\\\\host\\a", "//host/a", True),
        ("a\\1b.txt", "a/1b.txt", False),
        ("my\\ file.txt", "my/ file.txt", False),
        ("a/b\\c", "a/b/c", False),
        ("pages\\[id\\].tsx", "pages/[id/].tsx", False),
        ("a\\$x", "a/$x", False),
        ("a\\", "a/", False),
        ("../a", "a", False),
        ("a", "/a", False),
        ("file:///a/b", "/a/b", True),
        ("a$&b.txt", "a$&b.txt", True),
    ],
)
def test_one_file_has_one_form(one: str, other: str, same: bool) -> None:
    """C-17, C-22."""
    assert (normal(one) == normal(other)) is same


def test_a_folder_with_a_drive_makes_every_backslash_a_slash() -> None:
    """C-17: the configuration shows that it is a Windows one."""
    assert normal("logs\\2024.txt") == "logs\\2024.txt"
    assert (
        normal("logs\\2024.txt", "C:\\work")
        == normal("C:\\work\\logs/2024.txt", "C:\\work")
        == "logs/2024.txt"
    )
    assert normal("c:\\Work\\a.py", "C:\\work") == "c:/Work/a.py"
    assert normal("c:\\Work\\a.py", "C:\\work", ignore_case=True) == "a.py"
    assert (
        normal("/WORK", "/work", ignore_case=True) == "."
        and normal("/works", "/work", ignore_case=True) == "/works"
    )
