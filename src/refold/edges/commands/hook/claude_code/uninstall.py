"""`refold hook claude-code uninstall`: takes out what `install` wrote, and nothing else."""

from __future__ import annotations

from refold.edges.commands.command import Command, Screen
from refold.edges.commands.hook.claude_code import Changed, ScopeArguments, change
from refold.edges.commands.session import Session
from refold.edges.hooks.settings_file import without_hooks


def run(session: Session, arguments: ScopeArguments) -> Changed:
    return change(session, arguments, without_hooks)


def show(changed: Changed, screen: Screen) -> None:
    if changed.lines:
        screen.line(f"Claude Code no longer calls refold ({changed.file}).")
    else:
        screen.line(f"{changed.file} has no hooks of refold.")


COMMAND = Command(
    name="hook claude-code uninstall",
    details="What was kept stays in the store.",
    on="nothing",
    arguments=ScopeArguments,
    run=run,
    show=show,
)
