"""What a user hears who has no Java, an old one, or a broken one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coordinatord.monitoring.pipeline.source.java import java_problem


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ('openjdk version "17.0.15" 2025-04-15', None),
        ('openjdk version "25" 2025-09-16', None),
        ('java version "1.8.0_412"', "is Java 8: install it"),
        ('openjdk version "11.0.2"', "Spark needs Java 17 or newer, and .* is Java 11"),
        ("Error: could not find libjava.so", "does not run: Error: could not find libjava.so"),
    ],
)
def test_versions(says: str, sentence: str | None, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    for environment in ({"JAVA_HOME": str(tmp_path)}, {"PATH": str(java.parent)}):
        problem = java_problem(environment)
        if sentence is None:
            assert problem is None
        else:
            assert problem is not None
            assert re.search(sentence, problem)


def test_none_at_all(tmp_path: Path) -> None:
    assert "there is none: install it" in (java_problem({"PATH": str(tmp_path)}) or "")
    assert f"JAVA_HOME is {tmp_path}, and there is no Java in it" in (java_problem({"JAVA_HOME": str(tmp_path)}) or "")
