"""From which size on a result is a stub at its first send."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edges.proxy.kit import Provider, Running, call, loop, result, with_proxy
from tests.edges.proxy.test_folding import raw_messages


def sent_with_a_result(text: str) -> bytes:
    """What goes upstream for a list that ends in this result."""

    async def work(running: Running) -> None:
        messages = loop(1)
        await running.messages(messages)
        await running.messages([*messages, call(7, path="a.log"), result(7, text)])

    provider = Provider()
    with_proxy(work, folds=True, window=60_000, provider=provider)
    return raw_messages(provider.bodies[-1])


def large_text(lines: int) -> str:
    return "".join(f"line {number} of a long output\n" for number in range(lines))


def test_a_result_that_leaves_room_on_the_page_is_sent_whole() -> None:
    text = large_text(1_500)
    assert b"art-" not in (sent := sent_with_a_result(text))
    assert len(sent) > len(text)


@pytest.mark.parametrize("name", ["refold.toml", "REFOLD_OFFLOAD_TOKENS"])
def test_what_the_user_calls_large_is_large_here(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if name.endswith(".toml"):
        (tmp_path / name).write_text("offload_tokens = 2000\n", encoding="utf-8")
    else:
        monkeypatch.setenv(name, "2000")
    assert b"art-" in sent_with_a_result(large_text(1_500))


def test_a_result_that_leaves_none_is_a_stub_at_once() -> None:
    assert b"art-" in (sent := sent_with_a_result(large_text(12_000)))
    assert len(sent) < 30_000
