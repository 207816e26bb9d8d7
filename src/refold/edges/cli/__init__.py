"""The shell: `refold` and its commands. `app` runs them and catches errors, `options` makes
options of what a command takes, `screen` is the one place that prints. The commands themselves are
values of `edges.commands`.

`refold --version` is answered here, before anything is imported: tools ask for it on every start.
"""

import sys


def main() -> None:
    """The entry point of `refold`."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from refold import __version__

        print(f"refold {__version__}")
        return
    from refold.edges.cli.app import commands

    commands.main(sys.argv[1:])
