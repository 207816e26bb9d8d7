"""The command line: `refold` and its commands. `app` has the table of commands and the one place
that catches errors, `screen` the one place that prints; every other file is a few commands around
one idea.

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
