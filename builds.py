"""Which build `make run` starts, and how build/compiled is made: with the standard library alone, for the Makefile.

    python builds.py run --listen HOST:PORT --data DIRECTORY     # says which build it is, and becomes the daemon
    python builds.py compile                                     # makes build/compiled unless it is up to date

`run` takes build/compiled, or else a wheel in build/wheels, if it was made from these sources and for this Python.
Otherwise the daemon is interpreted. If there is a C compiler, build/compiled is then made in the background, for the
next start: nobody waits minutes for the first one. Not for sources that somebody is editing, which would be old before
their build was finished.

A build is made in a folder of its own and renamed when it is whole. A lock, which the kernel takes from whoever dies,
keeps two from being made at the same time.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent
SOURCES = ("setup.py", "pyproject.toml", "coordinatord", "protocol")
LIBRARY = f"coordinatord__mypyc{EXTENSION_SUFFIXES[0]}"
"""All modules as C. The suffix says for which Python, processor and system."""
IN_USE = ".in-use"
"""A file of a build that those who run from it have locked."""
STAMP = ".stamp"
"""As old as the build's sources: it is made before they are copied."""
LOG = "build/compile.log"
NO_THANKS = "COMPILED=0: interpreted"


def newer(root: Path, than: Path) -> Path | None:
    """A source that has changed since a file was made; the file itself if there is none."""
    try:
        made_ns = than.stat().st_mtime_ns
    except FileNotFoundError:
        return than
    return next((path for path in sources(root) if path.stat().st_mtime_ns > made_ns), None)


def sources(root: Path) -> Iterator[Path]:
    for name in SOURCES:
        path = root / name
        found = [path] if path.is_file() else path.rglob("*")
        yield from (each for each in found if each.is_file() and "__pycache__" not in each.parts)


def is_up_to_date(root: Path, build: Path) -> bool:
    return (build / LIBRARY).exists() and newer(root, build / STAMP) is None


@contextmanager
def locked(root: Path, what: str, *, wait: bool) -> Iterator[bool]:
    """Whether this process has the lock. It ends with the process, whatever that dies of; children do not get it."""
    (root / "build").mkdir(exist_ok=True)
    with (root / "build" / f"{what}.lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


@contextmanager
def new_folder(root: Path, name: str) -> Iterator[Path]:
    """A folder that becomes build/NAME if the block ends well. Under a lock: what killed ones left goes first."""
    for left in (root / "build").glob(f"{name}-*"):
        shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=root / "build"))
    made.chmod(0o755)
    try:
        (made / STAMP).touch()
        yield made
        place, old = root / "build" / name, made.with_name(f"{made.name}.old")
        if place.exists():
            place.rename(old)
        made.rename(place)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(made, ignore_errors=True)


# Wheels


def in_a_wheel(root: Path) -> dict[str, Path]:
    """What a wheel calls a source -> the source."""
    found = {}
    for path in sources(root):
        parts = path.relative_to(root).parts
        if parts[0] in ("coordinatord", "protocol"):
            parts = parts[1:] if parts[0] == "protocol" else parts
            parts = parts[3:] if parts[:3] == ("coordinatord", "pipeline", "registered") else parts
            found["/".join(parts)] = path
    return found


def fits(root: Path, wheel: Path) -> bool:
    """Whether a wheel is of these sources, byte for byte, and for this Python."""
    files = in_a_wheel(root)
    try:
        with zipfile.ZipFile(wheel) as archive:
            entries = {each.filename: each.CRC for each in archive.infolist() if not each.is_dir()}
    except (OSError, zipfile.BadZipFile):
        return False
    packed = {name: crc for name, crc in entries.items() if not name.endswith(".so") and ".dist-info/" not in name}
    if LIBRARY not in entries or {name for name in files if name.endswith(".py")} - packed.keys():
        return False
    return all(name in files and zlib.crc32(files[name].read_bytes()) == crc for name, crc in packed.items())


def unpacked(root: Path) -> Path | None:
    """build/unpacked, with the newest wheel of build/wheels that fits; None if none does."""
    place = root / "build" / "unpacked"
    if is_up_to_date(root, place):
        return place
    wheels = sorted((root / "build" / "wheels").glob("coordinatord-*.whl"), key=lambda each: each.stat().st_mtime)
    if not wheels:
        return None
    with locked(root, "unpacked", wait=True):
        for wheel in reversed(wheels):
            if is_up_to_date(root, place):
                return place
            with suppress(DoesNotLoad, OSError, zipfile.BadZipFile, zlib.error), new_folder(root, "unpacked") as made:
                if not fits(root, wheel):
                    raise DoesNotLoad
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(made)
                load = [sys.executable, "-c", "import coordinatord__mypyc"]
                if subprocess.run(load, cwd=made, stderr=subprocess.DEVNULL, check=False).returncode:
                    raise DoesNotLoad
    return place if is_up_to_date(root, place) else None


class DoesNotLoad(Exception):
    """A wheel is for other sources or another machine."""


# The compiler


def no_compiler() -> str | None:
    """Why nothing can be compiled here; None if it can be."""
    cc = [*os.environ.get("CC", "").split(), *(sysconfig.get_config_var("CC") or "").split(), "cc"][0]
    there = shutil.which(cc) is not None
    if sys.platform == "darwin" and there:  # the one without Xcode asks in a window whether to install it
        there = not subprocess.run(["xcode-select", "-p"], capture_output=True, check=False).returncode
    if not there:
        return f"there is no C compiler, {cc} (Debian: apt-get install gcc libc6-dev; or set CC)"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "there are no headers of Python (Debian: apt-get install python3-dev)"
    return None


def is_edited(root: Path) -> bool:
    """Whether git knows of changed sources. No repository, no changes."""
    if not (root / ".git").exists() or shutil.which("git") is None:
        return False
    ask = ["git", "--no-optional-locks", "status", "--porcelain", "--", *SOURCES]
    return bool(subprocess.run(ask, cwd=root, capture_output=True, check=False).stdout)


def compile_(root: Path, *, aside: bool) -> int:
    """Make build/compiled; `aside`: in the background, unless another does already. Returns the exit status."""
    if aside:
        step_aside()
    else:
        with locked(root, "compiled", wait=False) as mine:
            if not mine:
                print(f"another build is being made ({LOG}): waiting for it", flush=True)
    with locked(root, "compiled", wait=not aside) as mine:
        if not mine or is_up_to_date(root, root / "build" / "compiled"):
            return 0
        if why := no_compiler():
            print(f"Nothing can be compiled: {why}.")
            return 1
        print("compiling into build/compiled: some minutes", flush=True)
        failed = root / "build" / "compiled.failed"
        failed.unlink(missing_ok=True)
        began_ns = time.time_ns()
        with (root / LOG).open("wb") as log:
            try:
                with new_folder(root, "compiled") as made:
                    build(root, made, log.fileno())
            except (OSError, subprocess.CalledProcessError) as error:
                log.write(f"{error}\n".encode())
                log.flush()
                failed.touch()
                os.utime(failed, ns=(began_ns, began_ns))
                print("".join((root / LOG).read_text(errors="replace").splitlines(keepends=True)[-20:]))
                return 1
    return 0


def build(root: Path, made: Path, log: int) -> None:
    """A copy of the sources with the C modules beside them."""

    def run(*command: str) -> None:
        subprocess.run(
            [sys.executable, *command],
            cwd=made,
            env={**os.environ, "COORDINATORD_COMPILE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=True,
        )

    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    for name in (*SOURCES, "README.md"):
        if (root / name).is_dir():
            shutil.copytree(root / name, made / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(root / name, made)
    # Without network if all is there. A mypyc that is there may be of another version, and without setuptools.
    needed = project["optional-dependencies"]["compile"]
    run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needed)
    run("setup.py", "-q", "build_ext", "--inplace")
    run("-m", "compileall", "-q", "coordinatord", "protocol")  # or the first start would
    if not (made / LIBRARY).exists():
        raise FileNotFoundError(f"setup.py has not made {LIBRARY}")


def step_aside() -> None:
    """Away from whoever has started this, and below everything else, for the processor and, on Linux, when memory runs
    out. In a session of its own: Ctrl-C is for the daemon, which need not wait for what is no child of its.
    """
    if os.fork():
        os._exit(0)
    os.setsid()
    os.nice(19)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def compile_aside(root: Path) -> None:
    """What is renamed at the end is whole or not there."""
    subprocess.run(
        [sys.executable, __file__, "--root", str(root), "compile", "--aside"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )


# make run


@dataclass(frozen=True, slots=True)
class Choice:
    """What to start, and the line that says so."""

    folder: Path | None
    """With the modules as C; None: interpreted."""
    says: str
    compiles: bool = False
    """Whether to make build/compiled in the background."""


def choose(root: Path, compiled: str, why_not: Callable[[], str | None] = no_compiler) -> Choice:
    """`compiled`: what the user says, 0, 1, or nothing."""
    place = root / "build" / "compiled"
    if compiled == "0":
        return Choice(None, "interpreted (COMPILED=0)")
    if is_up_to_date(root, place):
        return Choice(place, f"the compiled build ({NO_THANKS})")
    if compiled == "1":
        sys.exit("build/compiled is not of these sources and this Python: rm -r build/compiled, then make compiled")
    if found := unpacked(root):
        return Choice(found, f"the compiled build, of a wheel in build/wheels ({NO_THANKS})")
    if why := why_not():
        return Choice(None, f"interpreted: for the compiled build {why}")
    with locked(root, "compiled", wait=False) as mine:
        if not mine:
            return Choice(None, f"interpreted: the compiled build is being made, for a later start (log: {LOG})")
    if is_in_use(place):
        return Choice(None, "interpreted: a daemon still runs an older compiled build; make compiled replaces it")
    if newer(root, root / "build" / "compiled.failed") is None:
        return Choice(None, f"interpreted: the compiled build failed (log: {LOG}); make compiled tries again")
    if is_edited(root):
        return Choice(None, "interpreted: sources have been edited; make compiled, some minutes, compiles them")
    if os.environ.get("CI") == "true":
        return Choice(None, "interpreted, as CI=true; make compiled, some minutes, compiles")
    return Choice(
        None, f"interpreted; compiling in the background for the next start (log: {LOG}; COMPILED=0: never)", True
    )


def is_in_use(build: Path) -> bool:
    """Whether a daemon that was started from this build is running: it imports modules when it needs them."""
    try:
        with (build / IN_USE).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def use(build: Path) -> None:
    """Say that this process, whatever it becomes, runs from this build: until it ends."""
    with suppress(OSError):
        file = os.open(build / IN_USE, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.set_inheritable(file, True)


def run(root: Path, compiled: str, listen: str, data: str) -> NoReturn:
    data = str(Path(data).expanduser().absolute())
    try:
        choice = choose(root, compiled)
        if choice.compiles:
            compile_aside(root)
    except OSError as error:
        choice = Choice(None, f"interpreted: {error}")
    print(choice.says, flush=True)
    if folder := choice.folder:
        use(folder)
        wire = folder / "protocol" if (folder / "protocol").exists() else folder
        os.environ["PYTHONPATH"] = str(wire)
        os.chdir(folder)
    command = ["-m", "coordinatord", "serve", "--listen", listen, "--data-dir", data]
    os.execv(sys.executable, [sys.executable, *command])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout (default: this file's)")
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--compiled", default="", choices=["", "0", "1"])
    running.add_argument("--listen", required=True)
    running.add_argument("--data", required=True)
    compiling = commands.add_parser("compile")
    compiling.add_argument("--aside", action="store_true", help="in the background")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    if arguments.command == "run":
        run(root, arguments.compiled, arguments.listen, arguments.data)
    try:
        return compile_(root, aside=arguments.aside)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
