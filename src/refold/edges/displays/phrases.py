"""The sentences about a conversation that programs and people know by heart, and the numbers in
them.

Numbers are cut, never rounded, short ones and percentages alike: 80 % is not shown before the
warning. Where a short one could puzzle, the exact one stands beside it. Neighbours: `log.notices`
has what is told, the status line and the chat show it.

A question that is answered by a word or its first letter, such as yes or no.

What is no answer is said, with what would be one, and asked again. No answer at all is no.
Neighbours: `edges.cli.screen` asks in a shell, `edges.chat` before a tool changes something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from refold.log.notices import Notice

THOUSAND, MILLION = 1_000, 1_000_000


def short_number(count: int) -> str:
    """`999`, `58K`, `2.0M`: cut, not rounded."""
    if count < THOUSAND:
        return str(count)
    if count < MILLION:
        return f"{count // THOUSAND}K"
    return f"{count // (MILLION // 10) / 10:.1f}M"


def short_and_exact(count: int, noun: str) -> str:
    """`640 tokens`, `11K tokens (11,605)`: whoever takes one size from another finds the exact
    number."""
    short = short_number(count)
    named = f"{short} {noun}" + ("" if count == 1 else "s")
    return named if short == str(count) else f"{named} ({count:,})"


def percent_of(part: int, whole: int) -> int:
    """The share in whole percent, cut; of nothing it is 0."""
    return 100 * part // whole if whole > 0 else 0


def tokens_of(used: int, window: int) -> str:
    """`45% (58K/128K tokens)`."""
    sizes = f"{short_number(used)}/{short_number(window)} tokens"
    return f"{percent_of(used, window)}% ({sizes})"


def status_line(product: str, version: str, model: str, used: int, window: int) -> str:
    """`mycode v0.2.0 | gpt-4o | Context: 45% (58K/128K tokens)`."""
    return f"{product} v{version} | {model} | Context: {tokens_of(used, window)}"


def header(active: int, total: int, percent: int | None = None) -> str:
    """`Context: 45/120 msgs (37%)`; empty while no message is on the page. The percentage is that
    of the messages unless another is given."""
    if active <= 0:
        return ""
    share = percent_of(active, total) if percent is None else percent
    return f"Context: {active}/{total} msgs ({share}%)"


def ago(age_ms: int) -> str:
    """`2 hours ago`, `just now`."""
    seconds = age_ms // THOUSAND
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            count = seconds // size
            return f"{count:,} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


# --- what is told while an agent works ---


def warning(used: int, window: int) -> str:
    """`Context usage at 80% (102K/128K tokens)`."""
    return f"Context usage at {tokens_of(used, window)}"


def advice(used: int, window: int, compact: str = "/compact") -> str:
    """`Context usage at 82% - Consider using /compact`."""
    return f"Context usage at {percent_of(used, window)}% - Consider using {compact}"


def compacting(percent: float, strategy: str) -> str:
    """`Auto-compacting (91% usage, strategy: prune)...`."""
    return f"Auto-compacting ({int(percent)}% usage, strategy: {strategy})..."


def compacted(strategy: str) -> str:
    """`Compaction complete (prune)`."""
    return f"Compaction complete ({strategy})"


def summarized(messages: int, saved: int) -> str:
    """`Summarized 45 messages, saved 52K tokens`."""
    noun = "message" if messages == 1 else "messages"
    return f"Summarized {messages:,} {noun}, saved {short_number(max(0, saved))} tokens"


def coherence(failed: str) -> str:
    """That a summary holds together is said only where every check passed; else which did not."""
    return f"Summary check failed: {failed}" if failed else "Conversation coherence preserved"


def told(notice: Notice) -> list[str]:
    """A notice in the words of a person; no line for what only programs want to know."""
    match notice.name:
        case "context-warning" | "context-critical":
            return [warning(notice.tokens, notice.max), "Consider using /compact"]
        case "auto-compacting":
            return [compacting(notice.percent, notice.strategy)]
        case "compaction-complete":
            return [compacted(notice.strategy), *_receipt(notice)]
        case "compaction-failed":
            return [_failure(notice)]
        case "compaction-skipped" | "budget-unreachable" | "overflow-recovered":
            return [notice.reason] if notice.reason else []
    return []


def _failure(notice: Notice) -> str:
    """What went wrong: the words of a writer, whose bill the notice has, or a strategy."""
    if notice.details:
        return coherence(notice.reason)
    return f"Compaction failed ({notice.strategy}): {notice.reason}"


def _receipt(notice: Notice) -> list[str]:
    """What a compaction did, where its receipt says."""
    if notice.receipt is None or not notice.receipt.batch:
        return []
    receipt = notice.receipt
    lines = [summarized(receipt.messages_hidden, receipt.saved_tokens)]
    asked, accepted = notice.details.get("asked", 0), notice.details.get("accepted", 0)
    if asked and asked == accepted:
        lines.append(coherence(""))
    return lines


ANSWERS_MAX = 3
YES_NO = ("yes", "no")


def chosen(ask: Callable[[str], str], question: str, words: Sequence[str] = YES_NO) -> str:
    """The word that was meant; `no` where nothing was, or nothing that could be understood."""
    shown = ", ".join(f"[{word[0]}]{word[1:]}" for word in words)
    letters = [word[0] for word in words]
    hint = ""
    for _ in range(ANSWERS_MAX):
        typed = ask(f"{hint}{question} {shown}:").strip().lower()
        for word in words:
            if typed in (word[0], word):
                return word
        if not typed:
            break
        hint = f"Please answer {', '.join(letters[:-1])} or {letters[-1]}. "
    return "no"
