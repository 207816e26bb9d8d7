"""How much the proxy takes in at once, and how long it waits. What is over a limit of looking is
passed on without being looked at; only what is over a limit of the machine is refused."""

from __future__ import annotations

from msgspec import Struct

from refold.core.codec import EVENT_BYTES_MAX


class Limits(Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds. A body over `body_bytes` is not looked at, nor any while
    `held_bytes` are; `preparing` calls may wait for the log at once, each for `prepare_s`, and for
    `native_s` more while a provider writes a compaction. For one call, the provider is asked
    `rounds` times more about our tools."""

    body_bytes: int = EVENT_BYTES_MAX
    held_bytes: int = 256 * 1024 * 1024
    calls_at_once: int = 512
    preparing: int = 128
    threads: int = 8
    rounds: int = 8
    prepare_s: float = 15.0
    native_s: float = 150.0
    body_s: float = 120.0
    connect_s: float = 15.0
    silence_s: float = 600.0
    conversations: int = 128
    seen_bytes: int = 256 * 1024 * 1024
