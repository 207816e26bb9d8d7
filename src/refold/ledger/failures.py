"""What failed: an error is known by what was tried, and described by the line of the result that
says most.

It is open until the same is tried again; then it is resolved, or open with its new words.
Neighbours: `actions` (what was tried), `outcomes` (how it ended), `ledger` (all facts).
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.core.model import ErrorState, Fact
from refold.display import one_line, whole_words, without_colors
from refold.ledger.actions import Action, tests_failed
from refold.ledger.calls import payload
from refold.ledger.facts import ON_FILES, UNCLEANED, Cutter, of_kind

LABEL_MAX = 120
LINE_MAX = 300
OUTPUT_READ = 200_000
END_READ = 6_000  # characters at each end in which the telling line is looked for
SECRET_CHARS = 10_000  # read beyond an end, so that a secret that is cut there is known
FOLDER_READ = 300  # characters in which `cd folder &&` is looked for
FILTER_MAX = 20  # characters of a filter such as ` | tail -20`
ARROW = " → "  # between what was tried and how it failed

_SIGNS = (
    "error", "fail", "exception", "panic", "fatal", "not found", "no such", "denied", "cannot",
    "undefined",
)  # fmt: skip
_UNTELLING = (
    "exit code", "<returncode>", "traceback", "raise ", 'file "', "====", "----", "____",
    "</output",
)  # fmt: skip
_REFUSED = ("the user doesn't want to", "the user denied", "user rejected", "[no result recorded]")


def error_facts(
    actions: Sequence[Action], known: Sequence[Fact], cutter: Cutter = UNCLEANED
) -> list[Fact]:
    """The failures of these actions, and what became of those that are known."""
    errors = of_kind(known, "error")
    open_errors = {_label_of(fact): fact for fact in errors if fact.state == "open"}
    out: dict[str, Fact] = {}
    for action in actions:
        label, well = _label(action, cutter), went_well(action)
        if not label or well is None:
            continue
        old = open_errors.pop(label, None)
        if old is not None:
            # It stays where it failed; the run that passed is among the commands.
            out[old.text] = _error(old.text, "resolved", old.seq)
        failure = None if well else _failure(action, label, cutter)
        if failure is not None:
            open_errors[label] = out[failure.text] = failure
    return list(out.values())


def _failure(action: Action, label: str, cutter: Cutter) -> Fact | None:
    """An action that failed as an open error; none if its result tells nothing."""
    line = telling_line(action.output, cutter)
    return _error(f"{label}{ARROW}{line}", "open", action.seq) if line else None


def _error(text: str, state: ErrorState, seq: int) -> Fact:
    return Fact(kind="error", text=text, seq=seq, state=state)


def went_well(action: Action) -> bool | None:
    """Whether what was tried came out as wished: a test run without an exit status is judged by
    its own count."""
    if action.kind != "run" or action.exit is not None or not action.ok:
        return action.ok
    return not tests_failed(action.output)


# --- what was tried ---


def _label_of(error: Fact) -> str:
    return error.text.partition(ARROW)[0]


def _label(action: Action, cutter: Cutter) -> str:
    """What was tried, in the words by which a later try is known again."""
    if action.kind == "run" and action.command:
        return cutter.middle(one_line(_bare_command(action.command)), LABEL_MAX)
    if action.path and action.kind in ON_FILES and not action.command:
        kind = "modify" if action.kind == "create" else action.kind
        return f"{kind} {action.path}"
    return ""


def _bare_command(command: str) -> str:
    """A command without the folder before it and the filter after it: what is run, not how much
    of it is shown."""
    text = _without_folder(command.strip())
    for name in (" | head", " | tail"):
        text = _without_filter(text, name)
    return text.removesuffix(" 2>&1").strip()


def _without_folder(command: str) -> str:
    """A command without `cd folder &&` before it."""
    if command.startswith("cd ") and " && " in command[:FOLDER_READ]:
        return command.partition(" && ")[2]
    return command


def _without_filter(command: str, name: str) -> str:
    at = command.rfind(name)
    if at <= 0 or len(command) - at >= FILTER_MAX:
        return command
    return command[:at]


# --- what the result says ---


def telling_line(output: str, cutter: Cutter = UNCLEANED) -> str:
    """The line of a failed result that says most: a named exception, else the first with a sign
    of failure in it."""
    if output[:80].lower().startswith(_REFUSED):
        return ""
    lines = _lines_at_ends(output, cutter)
    for line in reversed(lines):
        if _names_exception(line):
            return line[:LINE_MAX]
    for line in lines:
        lowered = line[:LINE_MAX].lower()
        if any(sign in lowered for sign in _SIGNS):
            return line[:LINE_MAX]
    return lines[0][:LINE_MAX] if lines else ""


def _lines_at_ends(output: str, cutter: Cutter) -> list[str]:
    """The lines at the beginning and the end of an output that can tell something."""
    text = without_colors(payload(whole_words(output, OUTPUT_READ)))
    lines = [line.strip() for line in _ends(text, cutter).split("\n")]
    return [line for line in lines if line and not line.lower().startswith(_UNTELLING)]


def _ends(text: str, cutter: Cutter) -> str:
    """The beginning and the end of a text, without secrets: a line alone may be half of one."""
    if len(text) <= 2 * END_READ:
        return cutter.redact(text)
    size = END_READ + SECRET_CHARS
    start = cutter.redact(whole_words(text, size))
    end = cutter.redact(text[-size:].partition("\n")[2] or text[-size:])
    return f"{start[:END_READ]}\n{end[-END_READ:]}"


def _names_exception(line: str) -> bool:
    name = line[:80].partition(":")[0]
    is_name = name.endswith(("Error", "Exception")) and " " not in name
    return is_name and line.startswith(": ", len(name))
