"""What a compaction tells those who listen: that it begins, what failed, what it did.

Notices are queued while the lock of the log is held, and told once it is released. Neighbours:
`compactor` calls these, `log.notices` has the notices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold.compaction.planning import Job
from refold.core.plan import Plan, Receipt
from refold.log.notices import Notice
from refold.log.open_log import OpenLog
from refold.writer.asker import Outcome


def begun(log: OpenLog, job: Job, current: int) -> None:
    """An automatic compaction of a page of this size begins."""
    notice = Notice(
        name="auto-compacting",
        percent=job.budget.percent(current),
        tokens=current,
        max=job.budget.window,
        strategy="+".join(job.ladder),
    )
    log.notices.add(notice)


def rejections(
    log: OpenLog, outcomes: Sequence[Outcome], strategy: str, bill: dict[str, Any]
) -> None:
    """Why words of the writer were not taken."""
    told = (reason for outcome in outcomes for reason in (outcome.reason, outcome.unchecked))
    reasons = dict.fromkeys(filter(None, told))
    if reasons:
        reason = "; ".join(reasons)
        log.notices.add(
            Notice(name="compaction-failed", reason=reason, strategy=strategy, details=bill)
        )


def failed_steps(log: OpenLog, plan: Plan) -> None:
    """Which strategies failed, and why."""
    for step in plan.steps:
        if step.note:
            log.notices.add(
                Notice(name="compaction-failed", reason=step.note, strategy=step.strategy)
            )


def complete(log: OpenLog, receipt: Receipt, bill: dict[str, Any]) -> None:
    """What was done. From here on a page that gets full is worth a word again."""
    log.notices.rearm()
    notice = Notice(
        name="compaction-complete",
        reason=receipt.reason,
        receipt=receipt,
        strategy=receipt.strategy,
        before=receipt.tokens_before,
        after=receipt.tokens_after,
        details=bill,
    )
    log.notices.add(notice)
