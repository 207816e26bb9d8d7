"""What a caller may do before a compaction: add instructions for the writer, store memories, or
veto.

Hooks are called with no lock held, once per compaction that has something to do. One that raises is
reported by a notice and blocks nothing. What happens after a compaction is told by the notice
`compaction-complete`, which carries the receipt. Neighbours: `compactor` calls them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from msgspec import Struct

from refold.core.plan import Plan
from refold.display import failure


class Veto(Struct, frozen=True):
    """What a hook gives back if the compaction must not happen now."""

    reason: str = ""


Hook = Callable[[Plan], "str | Veto | None"]


class HookAnswers(Struct, frozen=True, kw_only=True):
    """What all hooks answered together."""

    instructions: str = ""
    veto: Veto | None = None
    failures: tuple[str, ...] = ()


def ask_hooks(hooks: list[Hook], plan: Plan) -> HookAnswers:
    """Asks every hook, in the order in which they were added. A veto ends it."""
    extra: list[str] = []
    failures: list[str] = []
    for hook in list(hooks):
        try:
            answer = hook(plan)
        except Exception as error:  # noqa: BLE001 - a hook is the caller's code
            failures.append(failure(error))
            continue
        if isinstance(answer, Veto):
            veto = answer if isinstance(answer.reason, str) else Veto()
            return HookAnswers(veto=veto, failures=tuple(failures))
        if isinstance(answer, str):
            extra.append(answer.encode("utf-8", "replace").decode().strip())
        elif answer is not None:
            failures.append(f"it gave {type(answer).__name__}, not text or a Veto")
    instructions = "\n".join(text for text in extra if text)
    return HookAnswers(instructions=instructions, failures=tuple(failures))


Claim = Literal["first", "after another", "busy"]


class SingleRun:
    """At most one compaction at a time. Whoever comes second waits for the first, unless it *is*
    the first: a hook that asks for a page must not wait for itself."""

    def __init__(self) -> None:
        self._lock, self._owner = threading.Lock(), 0

    @contextmanager
    def claim(self, wait_s: float) -> Iterator[Claim]:
        """`first` if nobody was at it, `after another` after waiting for one, `busy` if one is
        still going on."""
        me = threading.get_ident()
        if self._owner == me:
            yield "busy"
            return
        free = self._lock.acquire(blocking=False)
        if not free and not self._lock.acquire(timeout=max(0.0, wait_s)):
            yield "busy"
            return
        self._owner = me
        try:
            yield "first" if free else "after another"
        finally:
            self._owner = 0
            self._lock.release()
