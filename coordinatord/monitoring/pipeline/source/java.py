"""Checks for a Java that Spark can run on: the one part of the pipeline that pip cannot install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping

LEAST_VERSION = 17
REMEDY = "install it (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME"


def java_path(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of the program that Spark starts; None if there is no Java."""
    home = environment.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java", path=environment.get("PATH"))


def java_problem(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the problem of the installed Java, in one sentence; None if Spark will run."""
    home, java = environment.get("JAVA_HOME"), java_path(environment)
    if java is None:
        return f"Spark needs Java {LEAST_VERSION} or newer, and there is none: {REMEDY}"
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return f"JAVA_HOME is {home}, and there is no Java in it: {REMEDY}"
    found = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr)
    if found is None:
        return f"{java} does not run: {(done.stderr.strip() or 'no answer').splitlines()[0]}"
    version = int(found[2]) if found[1] == "1" and found[2] else int(found[1])  # Java 8 reports 1.8
    if version < LEAST_VERSION:
        return f"Spark needs Java {LEAST_VERSION} or newer, and {java} is Java {version}: {REMEDY}"
    return None
