"""`refold hook claude-code uninstall`: takes out what `install` wrote, and nothing else."""

from __future__ import annotations

from refold.edges.commands.command import Command, Screen
from refold.edges.commands.hook.claude_code import Changed, ScopeArguments, change
from refold.edges.commands.session import Session
from refold.edges.hooks import settings_file


def run(session: Session, arguments: ScopeArguments) -> Changed:
    path = settings_file.place_of(arguments.scope)
    settings, before = settings_file.read(path)
    after = settings_file.without_hooks(settings)
    return change(session, path, before, after, yes=arguments.yes)


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
