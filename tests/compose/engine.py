"""A container engine for the tests: the one that runs here, or one started by hand and ended again.

Where none answers, CI (as root) installs Debian's packages and starts ``dockerd`` itself, with a data root, an exec
root and a socket of its own, in network, mount and process namespaces of its own: bridges, iptables rules, mounts and
processes of the containers exist there alone and vanish with the daemon, however it ends, and no published port can
collide with one of this machine. Nothing reaches out of that network either, which is why images are built from a
wheelhouse (`images.py`).

Every call is bounded in time. Commands go through the clients that people use: ``docker`` and ``docker-compose``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PACKAGES = {
    "dockerd": "docker.io",
    "docker-compose": "docker-compose",
    "debootstrap": "debootstrap",
    "iptables": "iptables",
}
NEEDS = "a container engine with docker-compose"

INSTALL_TIMEOUT_S = 300
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60
COMMAND_TIMEOUT_S = 90
# A package manager that another process runs at the same time holds its lock for a while.
APT = ("apt-get", "-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=2", "-qq", "-y")
OUTPUT_SHOWN = 4000  # characters of a failed command's output in its error


class EngineUnavailable(RuntimeError):
    """No container engine runs here and none may be, or could be, started."""


class CommandFailed(RuntimeError):
    """A command ended with another exit code than 0 or took too long; its output is in the message."""


def run(
    command: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stderr: bool = False,
) -> str:
    """What a command printed on its standard output (and, if asked for, on its standard error)."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if stderr else subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=None if env is None else {**os.environ, **env},
            cwd=cwd,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        output = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
        raise CommandFailed(f"{' '.join(command)}: not done after {timeout_s} s\n{output[-OUTPUT_SHOWN:]}") from late
    if done.returncode != 0:
        output = f"{done.stdout}{done.stderr or ''}"[-OUTPUT_SHOWN:]
        raise CommandFailed(f"{' '.join(command)}: exit code {done.returncode}\n{output}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Engine:
    """How to talk to a running engine."""

    socket: str | None  # None: where the clients look by themselves
    compose_command: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)

    def docker(self, *arguments: str, timeout_s: float = COMMAND_TIMEOUT_S, stderr: bool = False) -> str:
        return run(["docker", *arguments], timeout_s=timeout_s, env=self.env, stderr=stderr)

    def compose(
        self,
        *arguments: str,
        timeout_s: float = COMMAND_TIMEOUT_S,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        return run([*self.compose_command, *arguments], timeout_s=timeout_s, env={**self.env, **(env or {})}, cwd=cwd)


def _answers(env: Mapping[str, str]) -> bool:
    try:
        # The server's version: `docker info` has exit code 0 in some clients although no engine answers.
        return bool(run(["docker", "version", "--format", "{{.Server.Version}}"], timeout_s=10, env=env).strip())
    except (CommandFailed, FileNotFoundError):
        return False


def _compose_command() -> tuple[str, ...] | None:
    for command in (("docker", "compose"), ("docker-compose",)):
        with contextlib.suppress(CommandFailed, FileNotFoundError):
            run([*command, "version"], timeout_s=20)
            return command
    return None


def _engine_at(socket: str | None) -> Engine:
    compose_command = _compose_command()
    if compose_command is None:
        raise EngineUnavailable("neither `docker compose` nor `docker-compose` is there")
    env = {"DOCKER_HOST": socket} if socket else {}
    # Debian's engine has no buildx; what the classic builder takes, BuildKit takes as well.
    env |= {"DOCKER_BUILDKIT": "0", "COMPOSE_DOCKER_CLI_BUILD": "0"} if socket else {}
    return Engine(socket, compose_command, env)


@contextlib.contextmanager
def running_engine() -> Iterator[Engine]:
    """An engine that answers. Raises EngineUnavailable."""
    if _answers({}):
        yield _engine_at(None)
        return
    if os.environ.get("CI") != "true":
        raise EngineUnavailable("no engine answers, and only CI starts one itself (CI=true)")
    if os.geteuid() != 0:
        raise EngineUnavailable("no engine answers, and only root can install and start one")
    _install()
    if _answers({}):  # where an init system runs, the package has started its service
        yield _engine_at(None)
        return
    # Not below pytest's temporary directory: a unix socket's path has at most 107 characters.
    home = Path(tempfile.mkdtemp(prefix="coordinatord-engine-"))
    try:
        with _dockerd(home) as socket:
            engine = _engine_at(socket)
            try:
                yield engine
            finally:
                _remove_containers(engine)
    finally:
        shutil.rmtree(home, ignore_errors=True)
        _remove_control_groups(home.name)


def _install() -> None:
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise EngineUnavailable(f"{', '.join(missing)} missing, and no apt-get to install them")
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        run([*APT, "update"], timeout_s=INSTALL_TIMEOUT_S, env=env, stderr=True)
        run([*APT, "install", "--no-install-recommends", *missing], timeout_s=INSTALL_TIMEOUT_S, env=env, stderr=True)
    except CommandFailed as failed:
        raise EngineUnavailable(str(failed)) from failed


@contextlib.contextmanager
def _dockerd(home: Path) -> Iterator[str]:
    """Run dockerd below `home`, in its own network namespace; yields the address of its socket."""
    (home / "daemon.json").write_text("{}")  # not this machine's /etc/docker/daemon.json
    socket = f"unix://{home}/docker.sock"
    daemon = [
        *("dockerd", "--config-file", str(home / "daemon.json"), "--host", socket, "--pidfile", str(home / "pid")),
        *("--data-root", str(home / "data"), "--exec-root", str(home / "exec")),
        # Control groups under a name by which they can be removed.
        *("--cgroup-parent", f"/{home.name}", "--exec-opt", "native.cgroupdriver=cgroupfs"),
    ]
    namespaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--"]
    command = [*namespaces, "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *daemon]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _answers({"DOCKER_HOST": socket}):
            if process.poll() is not None or time.monotonic() > deadline:
                raise EngineUnavailable(f"dockerd did not start:\n{(home / 'log').read_text()[-OUTPUT_SHOWN:]}")
            time.sleep(0.2)
        yield socket
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop dockerd, the first process of its namespace; whatever it leaves behind there, the kernel ends with it."""
    # `unshare --fork` waits for it and does not pass signals on.
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGTERM)
        process.wait(STOP_TIMEOUT_S)
    if process.poll() is None:
        process.kill()  # takes the child with it (--kill-child)
        process.wait(STOP_TIMEOUT_S)


def _remove_control_groups(name: str) -> None:
    """They outlive what was in them. Version 2 has one tree, version 1 one for each controller."""
    for tree in (*Path("/sys/fs/cgroup").glob(name), *Path("/sys/fs/cgroup").glob(f"*/{name}")):
        for directory in (*sorted((each for each in tree.rglob("*") if each.is_dir()), reverse=True), tree):
            with contextlib.suppress(OSError):
                directory.rmdir()


def _remove_containers(engine: Engine) -> None:
    with contextlib.suppress(CommandFailed):
        containers = engine.docker("ps", "--all", "--quiet").split()
        if containers:
            engine.docker("rm", "--force", "--volumes", *containers, timeout_s=STOP_TIMEOUT_S)
