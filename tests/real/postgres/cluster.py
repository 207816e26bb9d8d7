"""A PostgreSQL of our own: made in a temporary folder, on loopback, ended with the test.

The binaries are looked for on the PATH and in /usr/lib/postgresql; `apt.txt` has the packages.
PostgreSQL refuses to run as root, so root starts it as the user `postgres`, or `nobody`. Stores open
it as `refold`, an ordinary role: what row-level security keeps from them, it keeps from users.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

START_S = 120
ADMIN = "postgres"
# Small, but durable.
SETTINGS = {
    "listen_addresses": "'127.0.0.1'",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "max_wal_senders": "5",
    "wal_level": "replica",
    "hot_standby": "on",
    "wal_keep_size": "64MB",
    "restart_after_crash": "on",
    "autovacuum_naptime": "60s",
    "log_min_messages": "log",
}


def binary(name: str) -> str:
    """The path of a program of PostgreSQL or pgbouncer."""
    beside = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)
    found = [*beside, shutil.which(name), f"/usr/sbin/{name}", f"/usr/local/sbin/{name}"]
    for path in found:
        if path and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(f"{name}: install the packages of tests/real/postgres/apt.txt")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def other_user() -> pwd.struct_passwd | None:
    """Whom to be instead of root; None if we are not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise LookupError("PostgreSQL does not run as root, and there is no user postgres or nobody")


def call(*command: str) -> None:
    """Runs a program as whoever PostgreSQL runs as."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        cwd="/",
        **as_other(),
    )
    assert done.returncode == 0, done.stdout.decode(errors="replace")


def as_other() -> dict[str, int | list[int]]:
    user = other_user()
    if user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@contextlib.contextmanager
def own_folder() -> Iterator[Path]:
    """A folder that belongs to whoever PostgreSQL runs as; short, for the name of a socket."""
    folder = Path(tempfile.mkdtemp(prefix="refold-pg-", dir="/tmp"))
    user = other_user()
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Server:
    """One server, started and stopped. `url` opens its database `work` as the user `refold`."""

    def __init__(self, data: Path, port: int) -> None:
        self.data, self.port = data, port
        self.process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://refold@127.0.0.1:{port}/work"
        self.admin_url = f"postgresql://{ADMIN}@127.0.0.1:{port}/work"

    @classmethod
    def made(
        cls, folder: Path, name: str = "primary", settings: dict[str, str] | None = None
    ) -> Server:
        """A new cluster, running, with the database `work`."""
        server = cls(folder / name, free_port())
        call(
            binary("initdb"), "-D", str(server.data), "-U", ADMIN, "-A", "trust", "-E", "UTF8",
            "--locale=C", "--no-sync",
        )  # fmt: skip
        server.configure({**SETTINGS, **(settings or {})})
        server.start()
        server.psql("CREATE ROLE refold LOGIN CREATEDB", database="postgres")
        server.new_database("work")
        return server

    def new_database(self, name: str, options: str = "") -> None:
        """A database of the role `refold`."""
        self.psql(f"CREATE DATABASE {name} OWNER refold {options}", database="postgres")

    def copied(self, folder: Path, name: str) -> Server:
        """A standby of this server, made by a base backup; not started yet."""
        standby = Server(folder / name, free_port())
        source = f"host=127.0.0.1 port={self.port} user={ADMIN} application_name={name}"
        call(
            binary("pg_basebackup"), "-D", str(standby.data), "-R", "-X", "stream",
            "--checkpoint=fast", "--no-sync", "-d", source,
        )  # fmt: skip
        return standby

    def configure(self, settings: dict[str, str]) -> None:
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        with open(self.data / "postgresql.conf", "a", encoding="utf-8") as file:
            file.write(lines)

    def start(self) -> None:
        command = [
            binary("postgres"), "-D", str(self.data), "-p", str(self.port), "-k", str(self.data),
        ]  # fmt: skip
        with open(self.data / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd="/",
                start_new_session=True,
                **as_other(),
            )
        self.wait_until("SELECT 1")

    def wait_until(self, query: str, expected: str = "1", wait_s: float = START_S) -> None:
        """Returns when the query answers so."""
        deadline = time.monotonic() + wait_s
        while self.answer(query, "postgres") != expected:
            assert time.monotonic() < deadline, (
                f"{query}: not {expected} in {wait_s} s\n{self.log()}"
            )
            time.sleep(0.05)

    def answer(self, query: str, database: str = "work") -> str:
        done = subprocess.run(
            self._psql(query, database), capture_output=True, text=True, timeout=START_S
        )
        return done.stdout.strip()

    def psql(self, query: str, database: str = "work") -> str:
        done = subprocess.run(
            self._psql(query, database), capture_output=True, text=True, timeout=START_S
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def _psql(self, query: str, database: str) -> Sequence[str]:
        place = ["-h", "127.0.0.1", "-p", str(self.port), "-U", ADMIN, "-d", database]
        return [binary("psql"), "-XqAtw", *place, "-c", query]

    def log(self) -> str:
        return (self.data / "server.log").read_text(errors="replace")[-3_000:]

    def stop(self) -> None:
        """A clean stop, which ends every connection."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(START_S)
            self.process = None

    def kill(self) -> None:
        """kill -9 of the server and of all its processes, as if the machine were gone."""
        if self.process is not None:
            # Backends have sessions of their own: they are the children of the server, which makes
            # no more of them once it stands still.
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGSTOP)
            for pid in (*self.children(), self.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait(START_S)
            self.process = None

    def children(self) -> list[int]:
        assert self.process is not None
        parent = str(self.process.pid)
        found = []
        for status in glob.glob("/proc/[0-9]*/stat"):
            with contextlib.suppress(OSError):
                text = Path(status).read_text()
                if text.rpartition(")")[2].split()[1] == parent:
                    found.append(int(text.split()[0]))
        return found

    def backends(self) -> list[int]:
        """The processes that serve clients in the database `work`."""
        query = "SELECT pid FROM pg_stat_activity WHERE datname = 'work' AND usename = 'refold' AND pid <> pg_backend_pid()"
        return [int(pid) for pid in self.answer(query).split()]

    def promote(self) -> None:
        call(binary("pg_ctl"), "promote", "-D", str(self.data), "-w", "-t", str(START_S))


@contextlib.contextmanager
def running(settings: dict[str, str] | None = None) -> Iterator[Server]:
    """A server of its own, killed at the end."""
    with own_folder() as folder:
        server = Server.made(folder, settings=settings)
        try:
            yield server
        finally:
            server.kill()


class Bouncer:
    """pgbouncer in transaction mode, in front of a server."""

    def __init__(self, folder: Path, server: Server, pool: int = 4, database: str = "work") -> None:
        self.port = free_port()
        self.url = f"postgresql://refold@127.0.0.1:{self.port}/{database}"
        ini = folder / f"pgbouncer-{self.port}.ini"
        ini.write_text(
            f"[databases]\n{database} = host=127.0.0.1 port={server.port} user=refold\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nauth_type = any\n"
            f"pool_mode = transaction\ndefault_pool_size = {pool}\nmax_client_conn = 200\n"
            "unix_socket_dir =\nserver_reset_query_always = 0\nserver_login_retry = 1\n"
        )
        os.chmod(ini, 0o644)
        os.chmod(folder, 0o755)
        self.process = subprocess.Popen(
            [binary("pgbouncer"), "-q", str(ini)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            **as_other(),
        )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            assert self.process.poll() is None, "pgbouncer ended"
            assert time.monotonic() < deadline, "pgbouncer does not answer"
            time.sleep(0.05)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(START_S)
