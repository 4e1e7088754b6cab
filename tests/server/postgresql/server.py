"""A PostgreSQL server of the tests' own: Debian's programs, an unprivileged user, a loopback port, a directory that is
removed afterwards.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.daemon import free_port
from tests.support.waiting import wait_until

ROLE = "coordinatord"
"""A role without any right but to log in; it owns the database."""

WAIT_S = 300.0


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`; None where there is no PostgreSQL."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    if found:
        return Path(found[-1]).parent
    path = shutil.which("initdb")
    return None if path is None else Path(path).parent


def missing() -> str:
    """Why there can be no server here; empty if there can be one."""
    if programs() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    try:
        import psycopg
    except ImportError:
        return "psycopg is not installed (make .venv/.postgresql)"
    return "" if psycopg.__version__ else "psycopg has no version"


class Server:
    """A server. `url(name)` is the address of a database."""

    def __init__(self, directory: Path, settings: Sequence[str] = (), primary: Server | None = None) -> None:
        """A new one, or a standby of a `primary` that runs."""
        bin_ = programs()
        assert bin_ is not None
        self._bin = bin_
        self.directory = directory
        self.port = free_port()
        self._user = "nobody" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        self._as_user = {"user": self._user, "group": pwd.getpwnam(self._user).pw_gid} if os.getuid() == 0 else {}
        if os.getuid() == 0:
            os.chown(directory, pwd.getpwnam(self._user).pw_uid, -1)
        self._settings = list(settings)
        self._process: subprocess.Popen[bytes] | None = None
        if primary is None:
            self._run("initdb", "-D", str(directory / "data"), "-U", "postgres", "-A", "trust", "--no-sync")
        else:
            self.follow(primary)

    def follow(self, primary: Server) -> None:
        """Become a copy of a primary that runs, in the place of what was here. To be started then, as its standby."""
        shutil.rmtree(self.directory / "data", ignore_errors=True)
        self._run(
            *("pg_basebackup", "-D", str(self.directory / "data"), "-h", "127.0.0.1", "-p", str(primary.port)),
            *("-U", "postgres", "-X", "stream", "-c", "fast", "-R", "--no-sync"),
        )

    def promote(self) -> None:
        """Make a primary of this standby; returns when it is one."""
        self._run("pg_ctl", "promote", "-D", str(self.directory / "data"), "-w", "-t", str(round(WAIT_S)))

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        settings = [f"port={self.port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", *self._settings]
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", str(self.directory / "data"), *(f"-c{each}" for each in settings)],
                stdout=log, stderr=log, cwd=self.directory, start_new_session=True, **self._as_user,  # type: ignore[call-overload]
            )  # fmt: skip
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            ready = subprocess.run(
                [self._bin / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
            )
            if ready.returncode == 0:
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.1)
        raise TimeoutError((self.directory / "log").read_text()[-2000:])

    def make_role(self) -> None:
        """Make the role without rights, once."""
        self.ask("postgres", f"CREATE ROLE {ROLE} LOGIN")

    def make_database(self, name: str) -> str:
        """Make a database for the role; returns its address."""
        self.ask("postgres", f"CREATE DATABASE {name} OWNER {ROLE}")
        return self.url(name)

    def url(self, name: str, user: str = ROLE) -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{name}"

    def ask(self, database: str, statement: str) -> list[tuple[object, ...]]:
        """Run a statement as the superuser; its rows."""
        import psycopg

        with psycopg.connect(self.url(database, "postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def signal(self, number: int) -> None:
        """Send all of the server's processes a signal (they are one session)."""
        assert self._process is not None
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """SIGKILL to all of its processes."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)  # so that it begins no other process meanwhile
        pids = self._pids()
        self.signal(signal.SIGKILL)
        self._process.wait(WAIT_S)
        # The next start refuses the shared memory of one that still ends.
        wait_until(lambda: not any(runs(pid) for pid in pids), f"{pids} to end", timeout_s=WAIT_S)
        with contextlib.suppress(FileNotFoundError):
            (self.directory / "data" / "postmaster.pid").unlink()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
            if self._process.poll() is None:
                self.kill()

    def _pids(self) -> list[int]:
        assert self._process is not None
        found = [self._process.pid]
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        with contextlib.suppress(OSError):
            found += [int(pid) for pid in children.read_text().split()]
        return found

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._bin / program, *arguments],
            check=True,
            capture_output=True,
            cwd=self.directory,
            **self._as_user,  # type: ignore[call-overload]
        )


def runs(pid: int) -> bool:
    """Whether a process has not ended; one that has, and that nobody waited for, does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@contextlib.contextmanager
def running(*settings: str) -> Iterator[Server]:
    """A started server with its role; stopped and removed at the end."""
    directory = Path(tempfile.mkdtemp(prefix="coordinatord-postgresql-"))
    server = Server(directory, settings)
    try:
        server.start()
        server.make_role()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)
