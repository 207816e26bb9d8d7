"""Failures: an error is identified by the failed attempt, and described by the most informative
line of its output.

It stays open until the same attempt is repeated; then it is resolved, or stays open with new text.
Neighbours: `actions` has the attempts, `calls` their outcomes, `ledger` all facts.
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.core.model import ErrorState, Fact
from refold.display import one_line, whole_words, without_colors
from refold.ledger.actions import Action
from refold.ledger.calls import payload, tests_failed
from refold.ledger.facts import ON_FILES, UNCLEANED, Cutter, of_kind

LABEL_MAX = 120
LINE_MAX = 300
OUTPUT_READ = 200_000
END_READ = 6_000  # characters at each end that are searched for the most informative line
SECRET_CHARS = 10_000  # also read next to each end, so that a secret cut there is recognized
FOLDER_READ = 300  # characters at the start that are searched for `cd folder &&`
FILTER_MAX = 20  # characters of a filter such as ` | tail -20`
ARROW = " → "  # between the attempt and its failure

_SIGNS = (
    "error", "fail", "exception", "panic", "fatal", "not found", "no such", "denied", "cannot",
    "undefined",
)  # fmt: skip
_UNINFORMATIVE = (
    "exit code", "<returncode>", "traceback", "raise ", 'file "', "====", "----", "____",
    "</output",
)  # fmt: skip
_REFUSED = ("the user doesn't want to", "the user denied", "user rejected", "[no result recorded]")


def error_facts(
    actions: Sequence[Action], known: Sequence[Fact], cutter: Cutter = UNCLEANED
) -> list[Fact]:
    """The failures of these actions, and the new states of known errors."""
    errors = of_kind(known, "error")
    open_errors = {fact.text.partition(ARROW)[0]: fact for fact in errors if fact.state == "open"}
    facts: dict[str, Fact] = {}
    for action in actions:
        label, succeeded = _label(action, cutter), went_well(action)
        if not label or succeeded is None:
            continue
        old = open_errors.pop(label, None)
        if old is not None:
            # The error keeps the seq of the failure; the successful run is recorded as a command.
            facts[old.text] = _error(old.text, "resolved", old.seq)
        line = "" if succeeded else telling_line(action.output, cutter)
        if line:
            error = _error(f"{label}{ARROW}{line}", "open", action.seq)
            open_errors[label] = facts[error.text] = error
    return list(facts.values())


def _error(text: str, state: ErrorState, seq: int) -> Fact:
    return Fact(kind="error", text=text, seq=seq, state=state)


def went_well(action: Action) -> bool | None:
    """Whether an attempt succeeded. A test run without an exit status is judged by the number of
    failures that it printed."""
    if action.kind != "run" or action.exit is not None or not action.ok:
        return action.ok
    return not tests_failed(action.output)


def _label(action: Action, cutter: Cutter) -> str:
    """The text that is the same for repeated attempts: a command without a leading `cd` and a
    trailing filter, or an operation and its file."""
    if action.kind == "run" and action.command:
        command = action.command.strip()
        if command.startswith("cd ") and " && " in command[:FOLDER_READ]:
            command = command.partition(" && ")[2]
        for name in (" | head", " | tail"):
            at = command.rfind(name)
            if at > 0 and len(command) - at < FILTER_MAX:
                command = command[:at]
        return cutter.middle(one_line(command.removesuffix(" 2>&1").strip()), LABEL_MAX)
    if action.path and action.kind in ON_FILES and not action.command:
        kind = "modify" if action.kind == "create" else action.kind
        return f"{kind} {action.path}"
    return ""


def telling_line(output: str, cutter: Cutter = UNCLEANED) -> str:
    """The most informative line of failed output: the last named exception, else the first line
    that mentions a failure, else the first line."""
    if output[:80].lower().startswith(_REFUSED):
        return ""
    lines = _lines_at_ends(output, cutter)
    for line in reversed(lines):
        name = line[:80].partition(":")[0]
        is_exception = name.endswith(("Error", "Exception")) and " " not in name
        if is_exception and line.startswith(": ", len(name)):
            return line[:LINE_MAX]
    for line in lines:
        lowered = line[:LINE_MAX].lower()
        if any(sign in lowered for sign in _SIGNS):
            return line[:LINE_MAX]
    return lines[0][:LINE_MAX] if lines else ""


def _lines_at_ends(output: str, cutter: Cutter) -> list[str]:
    """The informative lines at the beginning and the end of an output. Secrets are removed before
    the text is split, because one line may have only part of a secret."""
    text = without_colors(payload(whole_words(output, OUTPUT_READ)))
    if len(text) <= 2 * END_READ:
        ends = cutter.redact(text)
    else:
        size = END_READ + SECRET_CHARS
        start = cutter.redact(whole_words(text, size))
        end = cutter.redact(text[-size:].partition("\n")[2] or text[-size:])
        ends = f"{start[:END_READ]}\n{end[-END_READ:]}"
    lines = [line.strip() for line in ends.split("\n")]
    return [line for line in lines if line and not line.lower().startswith(_UNINFORMATIVE)]
