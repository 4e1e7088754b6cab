"""The archive of Spark's Java classes: when it is read, when it is written, and when there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coordinatord.monitoring.pipeline.run.class_archive import KEPT, MAGIC, cache_directory, java_options

WRITE, READ = "-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="


@pytest.fixture
def java(tmp_path: Path) -> Path:
    java = tmp_path / "java"
    java.write_text("")
    return java


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "spark.jar").write_text("x")
    return jars


def path_in(options: str) -> Path:
    """The archive that is read or written."""
    (path,) = (word.partition("=")[2] for word in options.split() if word.startswith((WRITE, READ)))
    return Path(path)


def test_a_complete_archive_is_read_and_any_other_is_written_anew(tmp_path: Path, java: Path, jars: Path) -> None:
    cache = tmp_path / "new" / "cache"
    first = java_options(cache, java, jars)
    assert WRITE in first
    path = path_in(first)
    path.write_bytes(bytes(4096))  # as Java leaves it if it is killed: the head comes last
    assert java_options(cache, java, jars) == first
    path.write_bytes(MAGIC + bytes(4096))
    second = java_options(cache, java, jars)
    assert path_in(second) == path
    assert READ in second
    assert WRITE not in second


def test_other_jars_and_another_java_have_another_archive(tmp_path: Path, java: Path, jars: Path) -> None:
    found = {path_in(java_options(tmp_path, java, jars))}
    (jars / "more.jar").write_text("y")
    found.add(path_in(java_options(tmp_path, java, jars)))
    os.utime(java, (1, 1))
    found.add(path_in(java_options(tmp_path, java, jars)))
    assert len(found) == 3


def test_old_archives_make_room(tmp_path: Path, java: Path, jars: Path) -> None:
    old = [tmp_path / f"spark-{number}.jsa" for number in range(4)]
    for number, path in enumerate(old):
        path.write_bytes(MAGIC)
        os.utime(path, (number, number))
    java_options(tmp_path, java, jars)
    assert [path for path in old if path.exists()] == old[-(KEPT - 1) :]


def test_without_a_place_for_it_there_is_none(tmp_path: Path, java: Path, jars: Path) -> None:
    assert java_options(java / "cache", java, jars) == ""
    assert java_options(tmp_path / "with a blank", java, jars) == ""  # Spark splits the options at blanks
    assert java_options(tmp_path, java, tmp_path / "nothing") == ""
    assert java_options(tmp_path, tmp_path / "nothing", jars) == ""


def test_the_cache_is_the_users() -> None:
    assert cache_directory({"XDG_CACHE_HOME": "/there"}) == Path("/there/coordinatord")
    assert cache_directory({}) == Path.home() / ".cache" / "coordinatord"
