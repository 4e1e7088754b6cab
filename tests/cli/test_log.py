"""`coordinatord log`: what an operator sees of segments, sound and damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from coordinatord.cli import cli

KAFKAS = Path(__file__).parents[1] / "golden" / "offsets_log"


def run(*arguments: object) -> tuple[int, list[str]]:
    result = CliRunner().invoke(cli, ["log", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output.splitlines()


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition of __consumer_offsets that Kafka wrote."""
    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    (segment,) = KAFKAS.glob("**/*.log")
    shutil.copy(segment, directory / "00000000000000000000.log")
    return directory


def test_dump_decodes_what_kafka_wrote(partition: Path) -> None:
    code, lines = run("dump", partition)
    assert code == 0
    assert any("OffsetCommitKey(group=" in line and "OffsetCommitValue(offset=" in line for line in lines)
    assert any("GroupMetadataKey(group=" in line for line in lines)
    assert any(line.endswith("tombstone") for line in lines)
    assert lines[-1].endswith("all sound")


def test_dump_of_batches_only_and_raw(partition: Path) -> None:
    _, batches = run("dump", "--no-records", partition)
    assert all(line.startswith(("  batch at", str(partition))) for line in batches[:-1])
    _, raw = run("dump", "--raw", partition)
    assert not any("OffsetCommitKey" in line for line in raw)
    assert any(line.lstrip().split(" ")[2] == "key" for line in raw if line.startswith("    "))


def test_verify_reads_everything_and_names_what_is_damaged(partition: Path) -> None:
    code, lines = run("verify", partition.parent)
    segment = partition / "00000000000000000000.log"
    size = segment.stat().st_size
    assert (code, lines) == (0, [f"1 segments, {size} bytes, 0 damaged"])
    data = bytearray(segment.read_bytes())
    data[size // 2] ^= 0xFF
    segment.write_bytes(data)
    code, lines = run("verify", partition.parent)
    assert code == 1
    assert lines[0].startswith(f"{segment} is damaged at byte ")
    assert lines[1] == f"1 segments, {size} bytes, 1 damaged"
    assert run("dump", partition)[0] == 1


def test_a_path_that_is_not_there_is_told_in_a_sentence(tmp_path: Path) -> None:
    code, lines = run("dump", tmp_path / "none")
    assert code == 2
    assert "does not exist" in lines[-1]


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_where_there_is_nothing_to_look_at_is_not_called_sound(tmp_path: Path, command: str) -> None:
    code, lines = run(command, tmp_path)
    assert code == 1
    assert lines[-1].startswith(f"coordinatord: {tmp_path} has no segments: name a ")


def test_verify_takes_a_partition_or_a_segment_too(partition: Path) -> None:
    segment = partition / "00000000000000000000.log"
    for path in (partition, segment):
        assert run("verify", path) == (0, [f"1 segments, {segment.stat().st_size} bytes, 0 damaged"])
    other = partition / "partition.metadata"
    other.write_text("version: 0")
    code, lines = run("verify", other)
    assert (code, lines[-1].startswith(f"coordinatord: {other} has no segments")) == (1, True)


def test_what_the_system_refuses_is_told_in_a_sentence(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_more: object) -> object:
        raise PermissionError(13, "Permission denied", "SEGMENT")

    monkeypatch.setattr("coordinatord.cli.log.describe", refuse)
    for command in ("dump", "verify"):
        code, lines = run(command, partition)
        assert (code, lines) == (1, ["coordinatord: SEGMENT: Permission denied"])
