"""`docs/guides/claude-code.md`, pasted line by line into a shell after a session."""

from __future__ import annotations

import shlex

from refold.edges.hooks import follower, state
from refold.edges.hooks import state as settings_file
from tests.edges.cli.rooms import run
from tests.edges.hooks.inputs import SESSION, Transcript, bash, lines
from tests.test_docs import ROOT, blocks


def test_every_command_of_the_guide_works(project):
    from refold.edges.hooks.events import shortened

    pasted = [
        line
        for block in blocks(ROOT / "docs" / "guides" / "claude-code.md", "bash")
        for line in block.splitlines()
    ]
    assert len(pasted) == 7
    install, *looks, uninstall = (shlex.split(line)[1:] for line in pasted)
    assert run(*install, "--yes").exit_code == 0
    stub = shortened(bash(lines(2_000), project), SESSION, 16_000)["stdout"]
    transcript = Transcript(project)
    transcript.say("user", "Why does the login test fail?")
    transcript.call("toolu_1", "pytest -q", stub)
    follower.main([SESSION, str(transcript.path), ""])
    for look in looks:
        done = run(*look)
        assert done.exit_code == 0 and done.stdout, (look, done.stderr)
    assert state.conversation_of(SESSION) in run("list").stdout
    assert run(*uninstall, "--yes").exit_code == 0
    assert not settings_file.place_of("local").exists(), "we made it, and nothing else is in it"
