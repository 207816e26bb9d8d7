"""What the guide of the team server shows works when it is pasted: on one machine, on PostgreSQL, and
behind pgbouncer."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.real.postgres.cluster import ADMIN, Bouncer, Server, binary, running
from tests.real.server.process import free_port

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "team-server.md"
BLOCKS = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
ON_SQLITE, _, MAKE_DATABASE, ON_POSTGRES, BEHIND_POOLER = BLOCKS
USE_IT = """
until refold login http://127.0.0.1:PORT/acme < ann.token; do sleep 0.2; done
export REFOLD_STORE=http://127.0.0.1:PORT/acme
refold import talk.jsonl
refold list
"""


def environment_of(folder: Path) -> dict[str, str]:
    """A home of its own, and the program `refold` on the path."""
    programs = folder / "bin"
    programs.mkdir()
    refold = programs / "refold"
    # As pip writes it: workers read this file again, under another name.
    guarded = "if __name__ == '__main__':\n    main()\n"
    refold.write_text(f"#!{sys.executable}\nfrom refold.edges.cli import main\n{guarded}")
    refold.chmod(0o755)
    (programs / "python3").symlink_to(sys.executable)
    return {
        "HOME": str(folder),
        "PATH": f"{programs}:{Path(binary('createuser')).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }


def pasted(script: str, folder: Path, environment: dict[str, str]) -> str:
    """What a shell shows that runs the lines one after the other, and ends at the first that
    fails. Nothing it started is left."""
    lines = "\n".join(line for line in script.splitlines() if not line.startswith("pip "))
    with open(folder / "shown", "wb") as shown:
        process = subprocess.Popen(
            [shutil.which("bash") or "sh", "-e", "-c", lines], cwd=folder, env=environment,
            stdout=shown, stderr=shown, start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(300)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    text = (folder / "shown").read_text()
    assert status == 0, text
    return text


def test_the_first_block_of_the_guide_works_when_pasted(tmp_path):
    port = str(free_port())
    script = ON_SQLITE.replace("8741", port).replace("serve --log", f"serve --port {port} --log")
    text = pasted(script, tmp_path, environment_of(tmp_path))
    # What was read a moment ago is in the audit log a second later.
    assert "Logged in" in text and "first" in text and re.search(r"ann +create", text)
    assert (tmp_path / "ann.token").stat().st_mode & 0o077 == 0


def fresh(server: Server) -> dict[str, str]:
    """A server as an administrator has it: nobody made anything of ours. Gives how to reach it."""
    server.psql("DROP DATABASE work", "postgres")
    server.psql("DROP ROLE refold", "postgres")
    return {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": ADMIN}


def test_the_blocks_about_postgresql_work_when_pasted(tmp_path):
    (tmp_path / "talk.jsonl").write_text('{"role": "user", "content": "Hello, team"}\n')
    with running({"fsync": "off"}) as server:
        environment = environment_of(tmp_path)
        pasted(MAKE_DATABASE, tmp_path, {**environment, **fresh(server)})
        port = str(free_port())
        # Tests stay on this machine: the names of others, and the address for all, are replaced.
        script = ON_POSTGRES.replace("db.example.com", f"127.0.0.1:{server.port}")
        script = script.replace("--host 0.0.0.0", f"--host 127.0.0.1 --port {port}")
        assert "example.com/" not in script and "0.0.0.0" not in script
        text = pasted(script + USE_IT.replace("PORT", port), tmp_path, environment)
        assert "Logged in" in text and "talk" in text
        bouncer = Bouncer(server.data.parent, server, database="refold")
        try:
            script = BEHIND_POOLER.replace("db.example.com", f"127.0.0.1:{server.port}")
            script = script.replace("pgbouncer.example.com:6432", f"127.0.0.1:{bouncer.port}")
            assert "example.com" not in script
            assert "can be served" in pasted(script, tmp_path, environment)
        finally:
            bouncer.stop()
