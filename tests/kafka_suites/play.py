"""Runs classes of Kafka's tests in JUnit's console launcher, one Java process for each, and reads the report."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

from tests.daemon import REPOSITORY
from tests.kafka_suites import jars

SIDES = ("kafka", "coordinatord")
CLASS_TIMEOUT_S = 3600
JVM = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
NO_DEADLINES = "junit.jupiter.execution.timeout.mode=disabled"
LAUNCHER = "org.junit.platform.console.ConsoleLauncher"
CONFIGURATION = (
    "junit.jupiter.extensions.autodetection.enabled=true",  # finds Kafka's extension for @ClusterTest
    "junit.jupiter.params.displayname.default={displayName}.{argumentsWithNames}",  # as in Kafka's build
)
LOG = "appender.0.type=Console\nappender.0.name=out\nrootLogger=error,out\n"
MESSAGE_CHARACTERS = 200
OUTPUT = "out.txt"


@dataclass(slots=True)
class Played:
    """The tests of one class on one side, by their names in JUnit's report; failed and aborted ones with a message."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    aborted: dict[str, str] = field(default_factory=dict)


def play(side: str, name: str, *, deadlines: bool = True) -> Played:
    """Run a class on Kafka or on coordinatord, without its deadlines if a busy machine could miss them.

    Raises RuntimeError if there is no report.
    """
    libs = jars.test_libs()
    class_path = [str(path) for path in sorted(libs.glob("*.jar"))]
    if side == "coordinatord":
        class_path.insert(0, str(jars.extension()))
    with tempfile.TemporaryDirectory(prefix="kafka-suites") as made:
        directory = Path(made)
        log = directory / "log4j2.properties"
        log.write_text(LOG)
        command = ["java", *JVM, f"-Dlog4j2.configurationFile={log}", f"-Djava.io.tmpdir={directory}"]
        command += [f"-Dsuites.python={sys.executable}", f"-Dsuites.repository={REPOSITORY}"]
        command += ["-cp", ":".join(class_path), LAUNCHER, "execute", "--disable-banner", "--details=none"]
        command += ["--include-tag=integration"]  # of @ClusterTest: the others need no broker
        configuration = CONFIGURATION if deadlines else (*CONFIGURATION, NO_DEADLINES)
        command += [word for line in configuration for word in ("--config", line)]
        _run([*command, f"--select-class={name}", f"--reports-dir={directory}"], directory)
        report = directory / "TEST-junit-jupiter.xml"
        if not report.exists():
            output = (directory / OUTPUT).read_text(errors="replace")
            raise RuntimeError(f"no report of {name} on {side}: {output[-2000:]}")
        return read_report(report.read_text())


def _run(command: list[str], directory: Path) -> None:
    """Run Java to its end, or end it when it takes too long; its shutdown hooks then end the daemons."""
    with (directory / OUTPUT).open("wb") as out:
        process = subprocess.Popen(
            command, cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(CLASS_TIMEOUT_S)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()


def read_report(text: str) -> Played:
    """Read JUnit's XML of one class."""
    played = Played()
    for case in ET.fromstring(text).iter("testcase"):
        name = case.attrib["name"]
        wrong = next((child for child in case if child.tag in ("failure", "error")), None)
        aborted = case.find("skipped")
        if wrong is not None:
            played.failed[name] = _message(wrong)
        elif aborted is not None:
            played.aborted[name] = _message(aborted)
        else:
            played.passed.append(name)
    return Played(sorted(played.passed), dict(sorted(played.failed.items())), dict(sorted(played.aborted.items())))


def _message(element: ET.Element) -> str:
    """The class of the exception and the first line of its message; of an aborted test only the line."""
    text = element.attrib.get("message") or element.text or ""
    first = text.strip().partition("\n")[0].removeprefix("org.opentest4j.TestAbortedException: ")
    kind = element.attrib.get("type", "").rpartition(".")[2]
    return f"{kind}: {first}"[:MESSAGE_CHARACTERS] if kind else first[:MESSAGE_CHARACTERS]
