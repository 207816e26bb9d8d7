"""The shell: `refold` and its commands. `app` runs them and catches errors, `options` turns the
arguments of a command into options, `screen` is the one place that prints. The commands themselves
are in `edges.commands`.

`refold --version`, the plain form of `refold statusline` and the events of hooks are answered here,
before anything is imported, because tools call them often.
"""

import gc
import os
import sys

from refold.system import own_python


def main() -> None:
    """The entry point of `refold`."""
    own_python.leave_project()
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
        from refold.edges.commands.completion import shell_lines

        print(*shell_lines(sys.argv[1:]), sep="\n")
        return
    # What is imported lives as long as the process: looking for garbage in it, while it is loaded
    # and once more at the end, took a sixth of the time of a short command.
    gc.disable()
    from refold.edges.cli.app import commands

    gc.enable()
    gc.freeze()
    try:
        commands.main(sys.argv[1:])
    finally:
        gc.freeze()
