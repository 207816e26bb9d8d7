"""The shell: `refold` and its commands. `app` runs them and catches errors, `options` makes
options of what a command takes, `screen` is the one place that prints. The commands themselves are
values of `edges.commands`.

`refold --version`, the plain form of `refold statusline` and the events of hooks are answered here,
before anything is imported: tools ask for them all the time.
"""

import os
import sys


def main() -> None:
    """The entry point of `refold`."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from refold import __version__

        print(f"refold {__version__}")
        return
    if sys.argv[1:2] == ["statusline"]:
        from refold.edges import statusline

        if statusline.main(sys.argv[2:]):
            return
    if sys.argv[1:4] == ["hook", "claude-code", "event"]:
        from refold.edges import hooks

        hooks.main(sys.argv[4:])
        return
    if "REFOLD_COMPLETE" in os.environ:
        from refold.edges.cli.completing import answer

        print(*answer(sys.argv[1:]), sep="\n")
        return
    from refold.edges.cli.app import commands

    commands.main(sys.argv[1:])
