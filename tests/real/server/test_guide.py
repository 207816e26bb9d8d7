"""What the guide of the team server shows first works when it is pasted."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.real.server.process import free_port

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "team-server.md"


def test_the_first_block_of_the_guide_works_when_pasted(tmp_path):
    block = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[0]
    port = str(free_port())
    script = "\n".join(line for line in block.splitlines() if not line.startswith("pip "))
    script = script.replace("8741", port).replace("serve --log", f"serve --port {port} --log")
    programs = tmp_path / "bin"
    programs.mkdir()
    refold = programs / "refold"
    refold.write_text(f"#!{sys.executable}\nfrom refold.edges.cli import main\nmain()\n")
    refold.chmod(0o755)
    (programs / "python3").symlink_to(sys.executable)
    environment = {
        "HOME": str(tmp_path),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    bash = shutil.which("bash") or "sh"
    with open(tmp_path / "shown", "wb") as shown:
        process = subprocess.Popen(
            [bash, "-e", "-c", script], cwd=tmp_path, env=environment,
            stdout=shown, stderr=shown, start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(60)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    text = (tmp_path / "shown").read_text()
    assert status == 0, text
    assert (
        "Logged in" in text and "first" in text and "get-" in text
    ) or "Nothing was read" in text
