"""The images under test: a base image from a registry or from Debian packages, a wheelhouse, a build context.

A registry that answers gives the base image that the Dockerfile names. Otherwise ``debootstrap`` and ``docker import``
make one of Debian 12 with Python 3.11, which is kept as a tarball in the tests' cache. Our images are then built as a
user behind a proxy builds them: `deploy/wheelhouse/fill.py` fetches the wheels that fit the base image's Python, and
the Dockerfile installs from them without any network.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.compose.engine import CommandFailed, Engine, EngineUnavailable, run
from tests.reference.broker import cache_directory, exclusive

PROJECT = Path(__file__).resolve().parents[2]
DEBIAN = "bookworm"
BASE_PACKAGES = "python3,python3-venv,ca-certificates"
# Not in the tarball: what a container does not need. Half a minute of unpacking and 60 MB of image less.
LEFT_OUT = (
    "dev/*",
    "var/cache/apt/*",
    "var/lib/apt/lists/*",
    "usr/share/doc/*",
    "usr/share/locale/*",
    "usr/share/man/*",
)
OWN_BASE_IMAGE = f"coordinatord-tests/{DEBIAN}-python"

NEEDED = (
    *("Dockerfile", ".dockerignore", "pyproject.toml", "setup.py", "README.md", "LICENSE"),
    *("protocol", "coordinatord", "deploy"),
)
"""What the Dockerfile and the compose file need, at the top of the project."""

PULL_TIMEOUT_S = 90
DEBOOTSTRAP_TIMEOUT_S = 300
IMPORT_TIMEOUT_S = 180
WHEELHOUSE_TIMEOUT_S = 400
BUILD_TIMEOUT_S = 600


def base_image(engine: Engine) -> str:
    """The name of an image with Python, in the engine. Raises EngineUnavailable."""
    wanted = re.search(r"^ARG BASE_IMAGE=(\S+)$", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    assert wanted is not None, "the Dockerfile names no base image"
    # An engine that we started has no way out of its network namespace: nothing to pull from.
    if engine.socket is None:
        try:
            engine.docker("pull", "--quiet", wanted[1], timeout_s=PULL_TIMEOUT_S)
        except CommandFailed as refused:
            if os.geteuid() != 0 or shutil.which("debootstrap") is None:
                raise EngineUnavailable(
                    f"no registry to pull from, and no root or no debootstrap: {refused}"
                ) from refused
        else:
            return wanted[1]
    with base_tarball().open("rb") as tarball:
        subprocess.run(
            ["docker", "import", "-", OWN_BASE_IMAGE],
            stdin=tarball,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **engine.env},
            timeout=IMPORT_TIMEOUT_S,
            check=True,
        )
    return OWN_BASE_IMAGE


def base_tarball() -> Path:
    """A root file system with Python, made at the first call and cached."""
    cached = cache_directory() / f"base-{DEBIAN}.tar"
    with exclusive(cached.with_suffix(".lock")):
        if not cached.exists():
            with tempfile.TemporaryDirectory(prefix="coordinatord-base-") as scratch:
                root = Path(scratch) / "root"
                command = ["debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", DEBIAN, str(root)]
                try:
                    run(command, timeout_s=DEBOOTSTRAP_TIMEOUT_S, stderr=True)
                except CommandFailed as failed:
                    raise EngineUnavailable(f"no base image: {failed}") from failed
                part = cached.with_suffix(".part")
                excluded = [f"--exclude=./{pattern}" for pattern in LEFT_OUT]
                pack = ["tar", "--create", "--file", str(part), "--directory", str(root), *excluded, "."]
                run(pack, timeout_s=IMPORT_TIMEOUT_S)
                part.rename(cached)
    return cached


def build_context(engine: Engine, base: str, directory: Path) -> Path:
    """A copy of the project's own files with a filled wheelhouse: the work tree is left as it is."""
    context = directory / "context"
    for relative in _project_files():
        target = context / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / relative, target)
    about = "import platform, sys; print('%d.%d' % sys.version_info[:2], platform.machine())"
    version, machine = engine.docker("run", "--rm", "--network=none", base, "python3", "-c", about).split()
    fill = [sys.executable, "deploy/wheelhouse/fill.py", "--python", version, "--machine", machine]
    run(fill, timeout_s=WHEELHOUSE_TIMEOUT_S, cwd=context, stderr=True)
    return context


def _project_files() -> Iterable[Path]:
    """What the Dockerfile and the compose file need, from a checkout or an unpacked archive."""
    for top in NEEDED:
        path = PROJECT / top
        for file in [path] if path.is_file() else path.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".whl":
                yield file.relative_to(PROJECT)


def image_size_mb(engine: Engine, image: str) -> float:
    return int(engine.docker("image", "inspect", "--format", "{{.Size}}", image)) / 1e6
