"""What git leaves out is left out: the patterns are compared with git itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold.edges.workspace import is_ignored, patterns_of, walk

FILES = (
    "a.py", "b.log", "keep.log", "doc/frotz/x.txt", "build/out.bin", "src/build/gen.c", "src/a.py", "src/deep/er/b.log",
    "#odd", "!bang", "sp ace", "[x]", "src/abc", "src/abd", "foo/bar/baz", "x/foo/bar",
)  # fmt: skip
LISTS = [
    "*.log\n!keep.log\n",
    "build/\n",
    "/build\n",
    "doc/frotz\n",
    "**/foo\n",
    "foo/**\n",
    "a/**/b\nsrc/**/b.log\n",
    "src/ab[cd]\n",
    "src/ab[!c]\n",
    "\\#odd\n\\!bang\n# comment\n\n   \n",
    "*\n!src\n!src/a.py\n",
    "sp\\ ace\n",
    "src/*\n!src/build/\n",
    "?.py\n",
    "*/\n",
    "foo/*\n",
    "\\[x\\]\n",
    "deep\r\n",
]
pieces = st.sampled_from(
    ["*", "**", "/", "?", "a", "b", "src", "build", "foo", "bar", ".log", ".py", "!", "[ab]", "[!a]", "x", "deep", "er"]
)  # fmt: skip
lines = st.lists(pieces, min_size=1, max_size=5).map("".join)


def tree(top: Path) -> None:
    for name in FILES:
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def ours(top: Path) -> set[str]:
    return {one.path for one in walk(str(top), depth_max=9) if not one.is_folder}


def of_git(top: Path) -> set[str]:
    listed = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=top,
        capture_output=True,
        check=True,
        timeout=30,
    )  # fmt: skip
    return {name for name in listed.stdout.decode().split("\0") if name}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q"], cwd=top, check=True, timeout=30)
    tree(top)
    return top


@pytest.mark.parametrize("text", LISTS)
def test_what_git_leaves_out_is_left_out(repository: Path, text: str) -> None:
    (repository / ".gitignore").write_bytes(text.encode())
    assert ours(repository) == of_git(repository)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts=st.tuples(st.lists(lines, max_size=4), st.lists(lines, max_size=2)))
def test_generated_patterns_mean_what_git_means(
    repository: Path, texts: tuple[list[str], list[str]]
) -> None:
    top, below = texts
    (repository / ".gitignore").write_text("\n".join(top) + "\n")
    (repository / "src" / ".gitignore").write_text("\n".join(below) + "\n")
    try:
        listed = of_git(repository)
        assert ours(repository) == listed
        inside = {name.removeprefix("src/") for name in listed if name.startswith("src/")}
        # A folder that is asked for by its name is looked into, also if git leaves it out.
        assert ours(repository / "src") >= inside
        if "src/.gitignore" in listed:
            assert ours(repository / "src") == inside
    finally:
        (repository / "src" / ".gitignore").unlink()


def test_a_pattern_of_others_cannot_hang_us() -> None:
    patterns = patterns_of("*a*a*a*a*a*a*a*a*b\n" + "**/" * 30 + "x\n")
    assert not is_ignored("/".join(["a" * 250] * 30), patterns, is_folder=False)


def test_a_walk_stops_at_its_depth_and_follows_no_link(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "passwd").symlink_to("/etc/passwd")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    found = list(walk(str(tmp_path), depth_max=2))
    assert all(one.depth <= 2 for one in found)
    assert {one.path for one in found if one.is_deeper} == {
        "doc/frotz",
        "foo/bar",
        "src/build",
        "src/deep",
        "x/foo",
    }
    assert not {"loop", "passwd", ".git/config"} & {one.path for one in found}
