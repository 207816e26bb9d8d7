"""What a caller may do before and after a compaction: add instructions for the writer, store
memories, or veto.

Hooks are called with no lock held, once per compaction that has something to do. One that raises is
reported by a notice and blocks nothing. Neighbours: `compactor` calls them, `notices` tells.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from refold.core.plan import Plan, Receipt


class Veto(Struct, frozen=True):
    """What a hook gives back if the compaction must not happen now."""

    reason: str = ""


Before = Callable[[Plan], "str | Veto | None"]
After = Callable[[Receipt], None]


class Said(Struct, frozen=True, kw_only=True):
    """What the hooks before a compaction said together."""

    instructions: str = ""
    veto: Veto | None = None
    failures: tuple[str, ...] = ()


class Hooks:
    """The hooks of one context, in the order in which they were given."""

    def __init__(self) -> None:
        self.befores: list[Before] = []
        self.afters: list[After] = []

    def before(self, plan: Plan) -> Said:
        """Asks every hook. A veto ends it."""
        extra: list[str] = []
        failures: list[str] = []
        for hook in list(self.befores):
            try:
                answer = hook(plan)
            except Exception as error:  # noqa: BLE001 - a hook is the caller's code and may raise anything
                failures.append(_failure(error))
                continue
            if isinstance(answer, Veto):
                return Said(veto=answer, failures=tuple(failures))
            if isinstance(answer, str) and answer.strip():
                extra.append(answer.strip())
        return Said(instructions="\n".join(extra), failures=tuple(failures))

    def after(self, receipt: Receipt) -> Sequence[str]:
        """Tells every hook; gives what went wrong in them."""
        failures: list[str] = []
        for hook in list(self.afters):
            try:
                hook(receipt)
            except Exception as error:  # noqa: BLE001 - a hook is the caller's code and may raise anything
                failures.append(_failure(error))
        return failures


def _failure(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class Flight:
    """At most one compaction at a time. Whoever comes second waits for the first, but not if it
    *is* the first: a hook that asks for a page must not wait for itself."""

    def __init__(self) -> None:
        self._lock, self._owner = threading.Lock(), 0

    @contextmanager
    def boarded(self, wait_s: float) -> Iterator[str]:
        """'first' if nobody was at it, 'second' after waiting for another, '' if it is still
        going on."""
        me = threading.get_ident()
        if self._owner == me:
            yield ""
            return
        free = self._lock.acquire(blocking=False)
        if not free and not self._lock.acquire(timeout=max(0.0, wait_s)):
            yield ""
            return
        self._owner = me
        try:
            yield "first" if free else "second"
        finally:
            self._owner = 0
            self._lock.release()
