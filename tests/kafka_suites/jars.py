"""Kafka's jars of tests from Maven Central, and the classes of `java/`, both in the tests' cache."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.reference.broker import (
    COMPLETE_MARK,
    DOWNLOAD_TIMEOUT_S,
    NEEDS,
    ReferenceUnavailable,
    cache_directory,
    exclusive,
)

KAFKA_VERSION = "4.3.1"
JUNIT_VERSION = "1.13.1"  # the one that kafka-test-common-runtime depends on
MOCKITO_VERSION = "5.14.2"
HAMCREST_VERSION = "3.0"
SOURCES = Path(__file__).parent / "java"
COMPILE_TIMEOUT_S = 300

KAFKA_JARS = (
    "kafka-clients-integration-tests:test",
    "kafka_2.13:test",
    "kafka_2.13",
    "kafka-tools:test",
    "kafka-tools",
    "kafka-clients:test",
    "kafka-server-common:test",
    "kafka-metadata:test",
    "kafka-streams",  # which GroupsCommandTest names, too
    "kafka-streams:test",
    "kafka-streams-integration-tests:test",
    "kafka-test-common-runtime",
)


def _dependency(group: str, name: str, version: str) -> str:
    artifact, _, classifier = name.partition(":")
    kind = f"<classifier>{classifier}</classifier>" if classifier else ""
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{kind}</dependency>"
    )


POM = "\n".join(
    [
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>',
        "<groupId>coordinatord.tests</groupId><artifactId>kafka-suites</artifactId><version>1</version><dependencies>",
        *[_dependency("org.apache.kafka", name, KAFKA_VERSION) for name in KAFKA_JARS],
        _dependency("org.junit.platform", "junit-platform-console", JUNIT_VERSION),
        _dependency("org.mockito", "mockito-core", MOCKITO_VERSION),
        _dependency("org.hamcrest", "hamcrest", HAMCREST_VERSION),
        "</dependencies></project>\n",
    ]
)


def test_libs() -> Path:
    """The directory with Kafka's jars of tests and what they need, downloaded at the first call. Checkouts that need
    other jars have directories of their own. Raises ReferenceUnavailable.
    """
    home = cache_directory() / f"kafka-suites-{KAFKA_VERSION}"
    libs = home / f"libs-{hashlib.sha256(POM.encode()).hexdigest()[:16]}"
    mark = libs / COMPLETE_MARK
    with exclusive(home / "lock"):
        if mark.exists() and mark.read_text() == POM:
            return libs
        maven = shutil.which("mvn")
        if maven is None:
            raise ReferenceUnavailable(f"needs {NEEDS}: no mvn on PATH and no jars in {libs}")
        pom = home / "pom.xml"
        pom.write_text(POM)
        shutil.rmtree(libs, ignore_errors=True)
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={libs}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise ReferenceUnavailable(f"needs {NEEDS}: mvn failed: {(done.stdout + done.stderr)[-2000:]}")
        mark.write_text(POM)
    return libs


def extension() -> Path:
    """The directory with the compiled classes of `java/`."""
    libs = test_libs()
    files = sorted(path for path in SOURCES.rglob("*") if path.is_file())
    sources = [path for path in files if path.suffix == ".java"]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    home = cache_directory() / f"kafka-suites-{KAFKA_VERSION}"
    classes = home / f"classes-{digest}"
    with exclusive(home / "lock"):
        if not classes.exists():
            being_made = home / f"making-{digest}"
            shutil.rmtree(being_made, ignore_errors=True)
            command = ["javac", "-nowarn", "-proc:none", "-cp", f"{libs}/*", "-d", str(being_made), *map(str, sources)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
            assert done.returncode == 0, done.stderr[-4000:]
            shutil.copytree(SOURCES, being_made, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.java"))
            being_made.rename(classes)
    return classes
