"""Data directories of other versions: refused in a sentence, or brought up step by step, whatever comes in between."""

from __future__ import annotations

import pytest

from coordinatord.broker.log import DataDirectory, DataDirectoryError
from coordinatord.broker.log.checkpoint import META_PROPERTIES, read_properties
from coordinatord.broker.log.disk import Disk, read_text, replace_text
from coordinatord.broker.log.simulated_disk import CrashKind, SimulatedCrash, SimulatedDisk
from coordinatord.broker.log.versions import Properties, brought_up
from tests.broker.log.world import PATH, World

FILE = f"{PATH}/{META_PROPERTIES}"


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("2", "has version 2, of a later coordinatord; this one reads version 1: start the later one"),
        ("0", "has version 0, which a Kafka broker before KRaft wrote; this program reads version 1"),
        ("one", "has version 'one', which is not a number"),
        ("-1", "has version '-1', which is not a number"),
        ("", "has version '', which is not a number"),
    ],
)
def test_other_versions_are_refused_and_left_as_they_are(version: str, message: str) -> None:
    disk = SimulatedDisk()
    World(disk).close()
    before = bytes(disk.content(FILE))
    disk.content(FILE)[:] = changed = before.replace(b"version=1", f"version={version}".encode())
    with pytest.raises(DataDirectoryError, match=f"^{FILE} {message}"):
        DataDirectory.open(PATH, disk=disk)
    assert bytes(disk.content(FILE)) == changed
    disk.content(FILE)[:] = before
    DataDirectory.open(PATH, disk=disk).close()  # the lock was given up


def first_step(disk: Disk, path: str, properties: Properties) -> Properties:
    """1 to 2: a file gets another name."""
    if not disk.exists(f"{path}/new"):
        disk.rename(f"{path}/old", f"{path}/new")
        disk.sync_dir(path)
    return properties


def second_step(disk: Disk, path: str, properties: Properties) -> Properties:
    """2 to 3: a file gets another content, the properties another entry."""
    assert properties["version"] == "2"
    replace_text(disk, f"{path}/new", "changed")
    return {**properties, "colour": "blue"}


def old_directory() -> SimulatedDisk:
    disk = SimulatedDisk(3)
    World(disk).close()
    replace_text(disk, f"{PATH}/old", "content")
    return disk


def bring_up(disk: SimulatedDisk) -> Properties:
    properties = read_properties(disk, FILE)
    assert properties is not None
    return brought_up(disk, PATH, properties, migrations={1: first_step, 2: second_step}, current=3)


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_an_older_one_is_brought_up_whatever_step_it_crashes_in(kind: CrashKind) -> None:
    steps = 0
    while True:
        disk = old_directory()
        disk.crash_after = disk.operations + steps
        try:
            properties = bring_up(disk)
        except SimulatedCrash:
            disk.crash(kind)
            disk.crash_after = None
            properties = bring_up(disk)
            steps += 1
        else:
            break
        finally:
            disk.crash_after = None
        assert (properties["version"], properties["colour"]) == ("3", "blue"), steps
        assert read_text(disk, f"{PATH}/new") == "changed", steps
        assert not disk.exists(f"{PATH}/old"), steps
        assert read_properties(disk, FILE) == properties, steps
    assert steps > 5


def test_a_step_that_is_missing_is_noticed_before_anything_is_done() -> None:
    disk = old_directory()
    properties = read_properties(disk, FILE)
    assert properties is not None
    with pytest.raises(DataDirectoryError, match="has version 1"):
        brought_up(disk, PATH, properties, migrations={1: first_step}, current=3)
    assert disk.exists(f"{PATH}/old")
