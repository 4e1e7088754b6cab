"""Fill this directory with the wheels that the Dockerfile installs, for the Python and processor of the base image."""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
CLIENTS = ("kafka-python",)

# glibc versions that wheels are built against (PEP 600), newest first; Debian 12 has 2.36. The named ones are older
# spellings.
MANYLINUX = ("2_34", "2_28", "2_27", "2_26", "2_24", "2_17", "2014", "2_12", "2010", "2_5", "1")


def requirements(project: Path, *, exporter: bool = False) -> list[list[str]]:
    """What the Dockerfile installs, as arguments of pip: our dependencies and those of TLS and SASL, by their hashes;
    and what builds our own wheel, and the example clients'.
    """
    with (project / "pyproject.toml").open("rb") as file:
        table = tomllib.load(file)
    more = table["project"]["optional-dependencies"]["lag"] if exporter else []
    pinned = ["--require-hashes", "-r", str(project / "deploy" / "requirements.txt")]
    return [pinned, [*table["build-system"]["requires"], *CLIENTS, *more]]


def platforms(machine: str) -> list[str]:
    tags = [f"manylinux_{glibc}" if "_" in glibc else f"manylinux{glibc}" for glibc in MANYLINUX]
    return [f"{tag}_{machine}" for tag in (*tags, "linux")]


def command(what: list[str], destination: Path, python_version: str, machine: str) -> list[str]:
    """A pip command. Only wheels: what had to be compiled would be compiled for this machine, not for the image."""
    abi = "cp" + python_version.replace(".", "")
    return [
        *(sys.executable, "-m", "pip", "download", "--dest", str(destination), "--only-binary=:all:"),
        *("--python-version", python_version, "--implementation", "cp"),
        *(word for tag in (abi, "abi3", "none") for word in ("--abi", tag)),
        *(word for tag in platforms(machine) for word in ("--platform", tag)),
        *what,
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--python", default="3.14", metavar="X.Y", help="the base image's Python (default: %(default)s)"
    )
    parser.add_argument(
        "--machine", default=platform.machine(), help="its processor, as uname -m says (default: %(default)s)"
    )
    parser.add_argument("--dest", type=Path, default=HERE, help="where to put the wheels (default: this directory)")
    parser.add_argument("--exporter", action="store_true", help="also what its image needs: 300 MB")
    arguments = parser.parse_args()
    for what in requirements(PROJECT, exporter=arguments.exporter):
        status = subprocess.call(command(what, arguments.dest, arguments.python, arguments.machine))
        if status:
            return status
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
