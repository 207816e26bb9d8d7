"""A pytest plugin that hides what only POSIX has, as on Windows: `-p tests.system.without_posix`.

Hidden before anything of refold is imported; `msvcrt` is a stand-in that locks by `flock`. What
pytest and the standard library took before stays theirs. A real Windows was not tried.
"""

from __future__ import annotations

import asyncio
import fcntl
import multiprocessing
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import types

MODULES = ("fcntl", "pwd", "grp", "resource", "termios", "tty", "pty")
SIGNALS = ("SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2")
NAMES = (
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "ST_RDONLY"),
    *("fchmod", "fdatasync", "fork", "geteuid", "getegid", "getpgrp", "killpg"),
    *("register_at_fork", "statvfs", "tcgetpgrp"),
)
# Imported above, so that the standard library has what it needs.
TAKEN = (asyncio, multiprocessing, ssl, subprocess, tempfile)
_flock, _exclusive, _free = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_UN


def _locking(fd: int, mode: int, _: int) -> None:
    _flock(fd, _exclusive if mode else _free)


def hide() -> None:
    assert not any(name.startswith("refold.") for name in sys.modules), "refold came first"
    sys.modules.update(dict.fromkeys(MODULES))
    stand_in = types.ModuleType("msvcrt")
    stand_in.__dict__.update(locking=_locking, LK_NBLCK=1, LK_UNLCK=0)
    sys.modules["msvcrt"] = stand_in
    for name in NAMES:
        delattr(os, name)
    for name in SIGNALS:
        delattr(signal, name)


hide()
