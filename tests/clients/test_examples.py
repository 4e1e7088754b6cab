"""docs/examples: tests in Python, Java (JUnit 5) and Go that control a coordinatord over HTTP. Each starts its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.families import toolchains
from tests.clients.families.toolchains import ToolMissing

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
CLIENT = "org.apache.kafka:kafka-clients:4.4.0"
JUNIT = ("org.junit.jupiter:junit-jupiter:5.11.3", "org.junit.platform:junit-platform-console:1.11.3")
TESTS = 3
TIMEOUT_S = 300


def python() -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / "python")]


def java() -> list[str]:
    libs = toolchains.jars(CLIENT, *JUNIT)
    *command, _main = toolchains.java("", libs, EXAMPLES / "java")
    classes = command[command.index("-cp") + 1].partition(":")[0]
    launcher = ["org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=summary"]
    return [*command, *launcher, f"--scan-classpath={classes}", "--fail-if-no-tests"]


def go() -> list[str]:
    return [toolchains.go_tests(EXAMPLES / "go"), "-test.v"]


LANGUAGES = {
    "python": (python, rf"^{TESTS} passed"),
    "java": (java, rf"\[ +{TESTS + 1} tests successful +\]"),
    "go": (go, r"^PASS$"),
}


@pytest.mark.clients
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_examples_of(language: str) -> None:
    command, passed = LANGUAGES[language]
    try:
        made = command()
    except ToolMissing as missing:
        if os.environ.get("CI") == "true" and language != "go":  # a Go that is new enough is no Debian package
            raise
        pytest.skip(str(missing))
    environment = {**os.environ, "COORDINATORD": str(Path(sys.executable).with_name("coordinatord"))}
    done = subprocess.run(made, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert re.search(passed, done.stdout, re.M), done.stdout


def test_each_language_has_the_same_tests() -> None:
    """`a commit is tried again`, `an expelled member comes back`, `offsets expire`."""
    found = {
        "python": re.findall(r"^def test_(\w+)", (EXAMPLES / "python/test_control.py").read_text(), re.M),
        "java": re.findall(r"@Test\s+void (\w+)", (EXAMPLES / "java/BillingTest.java").read_text()),
        "go": re.findall(r"^func Test(\w+)\(t ", (EXAMPLES / "go/control_test.go").read_text(), re.M),
    }
    names = {language: [each.replace("_", "").lower() for each in tests] for language, tests in found.items()}
    assert names["python"] == names["java"] == names["go"]
    assert len(names["python"]) == TESTS
