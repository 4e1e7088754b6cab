"""What foreign clients need to run: virtual environments, npm packages, jars and compiled programs.

Everything is installed once into the tests' cache outside of the repository (`~/.cache/coordinatord-tests`, or what
`COORDINATORD_TESTS_CACHE` names), under a lock, however many test processes ask. Each function gives what a command
line needs, or raises :class:`ToolMissing` with the reason.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.reference.broker import cache_directory, exclusive

PROGRAMS = Path(__file__).parent / "programs"
INSTALL_TIMEOUT_S = 600
# They live for seconds, several at a time on few cores: a small heap, one collector thread, one compiler.
JAVA_OPTIONS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
COMPLETE_MARK = "complete"
LIBRDKAFKA_DOES_WITHOUT = ("optimization", "ssl", "gssapi", "curl", "zstd", "lz4-ext", "syslog")


class ToolMissing(RuntimeError):
    """This machine lacks what a client needs; the text says what."""


def tool(name: str, debian_package: str) -> str:
    """The path of a program on PATH."""
    path = shutil.which(name)
    if path is None:
        raise ToolMissing(f"needs {name} (Debian: {debian_package})")
    return path


def run(command: Sequence[str | Path], cwd: Path | None = None, **environment: str) -> str:
    """Run an installer or a compiler to its end; its standard output, or ToolMissing with the end of what it said."""
    try:
        done = subprocess.run(
            list(map(str, command)),
            cwd=cwd,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolMissing(
            f"{command[0]} took longer than {INSTALL_TIMEOUT_S} s: {' '.join(map(str, command))}"
        ) from None
    if done.returncode != 0:
        raise ToolMissing(f"{' '.join(map(str, command))} failed:\n{(done.stdout + done.stderr)[-2_000:]}")
    return done.stdout


def installed(kind: str, content: object, install: Callable[[Path], None]) -> Path:
    """The directory that `install` filled for this `content` (whatever decides what is in it), now or earlier."""
    digest = hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()[:12]
    directory = cache_directory() / f"{kind}-{digest}"
    if not (directory / COMPLETE_MARK).exists():
        with exclusive(cache_directory() / f"{kind}-{digest}.lock"):
            if not (directory / COMPLETE_MARK).exists():
                shutil.rmtree(directory, ignore_errors=True)
                directory.mkdir(parents=True)
                install(directory)
                (directory / COMPLETE_MARK).touch()
    return directory


def python(*requirements: str) -> str:
    """An interpreter of a virtual environment with these packages: clients that exclude each other live apart.

    All checkouts share it: it is made by the interpreter that their own environments were made by.
    """
    interpreter = getattr(sys, "_base_executable", sys.executable)

    def install(directory: Path) -> None:
        run([interpreter, "-m", "venv", directory / "venv"])
        pip = [directory / "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, *requirements])

    name = re.split(r"[\[=<>]", requirements[0])[0]
    content = [sys.version_info[:3], interpreter, requirements]
    return str(installed(f"python-{name}", content, install) / "venv/bin/python")


def source(package: str, version: str) -> Path:
    """The unpacked source distribution of a package on PyPI."""

    def install(directory: Path) -> None:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        run([*pip, "--no-binary", ":all:", "--dest", directory, f"{package}=={version}"])
        (archive,) = directory.glob("*.tar.gz")
        shutil.unpack_archive(archive, directory, filter="data")

    (unpacked,) = (path for path in installed(f"source-{package}", [version], install).iterdir() if path.is_dir())
    return unpacked


def node(*packages: str) -> tuple[str, Path]:
    """Node, and a directory whose node_modules has these packages."""
    executable, npm = tool("node", "nodejs"), tool("npm", "npm")

    def install(directory: Path) -> None:
        (directory / "package.json").write_text('{"private": true}')
        run([npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *packages], cwd=directory)

    return executable, installed("node", packages, install)


def librdkafka_tests(version: str) -> Path:
    """The folder of librdkafka's own tests, compiled: its sources are part of this version of Confluent's npm package,
    whose own installer is not run.
    """
    npm, make, _ = tool("npm", "npm"), tool("make", "make"), tool("g++", "g++")
    package = f"@confluentinc/kafka-javascript@{version}"
    sources = Path("package/deps/librdkafka")

    def install(directory: Path) -> None:
        run([npm, "pack", "--silent", "--pack-destination", directory, package])
        (archive,) = directory.glob("*.tgz")
        shutil.unpack_archive(archive, directory, filter="data")
        archive.unlink()
        here = directory / sources
        run(["./configure", "--no-download", *(f"--disable-{each}" for each in LIBRDKAFKA_DOES_WITHOUT)], cwd=here)
        if "WITH_ZLIB 1" not in (here / "config.h").read_text():
            raise ToolMissing("needs zlib's headers (Debian: zlib1g-dev)")
        run([make, "-j2", "libs"], cwd=here)
        run([make, "-j2", "test-runner"], cwd=here / "tests")
        for objects in here.rglob("*.o"):
            objects.unlink()

    return installed("librdkafka", [package, LIBRDKAFKA_DOES_WITHOUT], install) / sources / "tests"


def go(program: str, sources: Path = PROGRAMS / "go") -> str:
    """The binary of a program of a folder whose go.mod and go.sum pin its modules."""
    compiler = tool("go", "golang-go")
    files = sorted(path for path in sources.rglob("*") if path.is_file())

    def install(directory: Path) -> None:
        # A Go that is too old says so instead of downloading a newer one.
        environment = {"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
        run([compiler, "build", "-o", directory / program, f"./{program}"], cwd=sources, **environment)

    return str(installed(f"go-{program}", [path.read_text() for path in files], install) / program)


def go_tests(sources: Path) -> str:
    """The compiled tests of a folder, whose go.mod and go.sum pin its modules."""
    compiler = tool("go", "golang-go")
    files = sorted(path for path in sources.rglob("*") if path.is_file())

    def install(directory: Path) -> None:
        environment = {"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
        run([compiler, "test", "-c", "-o", directory / "tests", "."], cwd=sources, **environment)

    return str(installed(f"go-{sources.name}-tests", [path.read_text() for path in files], install) / "tests")


# Spark's parent asks a mirror of Maven Central first, which not every network reaches: here its id is Central itself.
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>coordinatord.tests</groupId><artifactId>client</artifactId><version>1</version>
  <repositories>
    <repository><id>gcs-maven-central-mirror</id><url>https://repo.maven.apache.org/maven2</url></repository>
  </repositories>
  <dependencies>{dependencies}</dependencies>
</project>
"""


def jars(*artifacts: str) -> Path:
    """A directory with these artifacts ("group:artifact:version") and all they depend on, from Maven Central."""
    maven = tool("mvn", "maven")

    def dependency(artifact: str) -> str:
        group, name, version = artifact.split(":")
        identity = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        return f"<dependency>{identity}</dependency>"

    def install(directory: Path) -> None:
        (directory / "pom.xml").write_text(POM.format(dependencies="".join(map(dependency, artifacts))))
        command = [maven, "-q", "-B", "-U", "-f", directory / "pom.xml", "dependency:copy-dependencies"]
        run([*command, f"-DoutputDirectory={directory / 'libs'}", "-DincludeScope=runtime"])

    name = artifacts[0].split(":")[1]
    return installed(f"jars-{name}", artifacts, install) / "libs"


def java(main_class: str, libs: Path, folder: Path = PROGRAMS / "java") -> list[str]:
    """The command that runs a program of a folder, compiled against these jars."""
    executable, javac = tool("java", "openjdk-17-jre-headless"), tool("javac", "openjdk-17-jdk-headless")
    sources = sorted(folder.glob("*.java"))

    def install(directory: Path) -> None:
        run([javac, "-nowarn", "-proc:none", "-cp", f"{libs}/*", "-d", directory, *sources])

    content = [str(libs), [source.read_text() for source in sources]]
    classes = installed("classes", content, install)
    return [executable, *JAVA_OPTIONS, "-cp", f"{classes}:{libs}/*", main_class]
