"""The fixtures of the command line, for the tests of the commands."""

from tests.edges.cli.conftest import alone, url

__all__ = ["alone", "url"]
