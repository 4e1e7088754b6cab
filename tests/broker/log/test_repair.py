"""Damage is met, the command that the refusal names is carried out, and what lies before it is there again."""

from __future__ import annotations

import contextlib
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka import KafkaAdminClient

from coordinatord.broker.log import DataDirectory, LogConfig, LogDamaged, LogWriter
from coordinatord.broker.log.disk import OsDisk
from coordinatord.broker.log.journal import journal_names, read_journal
from coordinatord.broker.log.repair import RepairRefused, carry_out, lock, plan
from coordinatord.broker.log.scan import scan
from coordinatord.broker.log.simulated_disk import CrashKind, SimulatedDisk
from coordinatord.cli import cli
from kafka_wire.errors import DecodeError
from kafka_wire.records.batch import build_batch, iterate_batches
from kafka_wire.records.keys import encode_key, encode_value
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue
from tests.broker.log.world import PATH, HandLoop, HandWorker, World, contents
from tests.daemon import running
from tests.support.waiting import PATIENCE_S

TOPIC = "__consumer_offsets"
CRC_AT = 17
"""What comes before it in a batch, offsets above all, no CRC covers: so it is in Kafka's format."""


def read_all(disk: SimulatedDisk, config: LogConfig) -> tuple[World, list[tuple[int, bytes | None, bytes | None]]]:
    """A start that reads everything."""
    world = World(disk, config=config)
    try:
        return world, contents(world.log())
    except LogDamaged:
        world.data.close()
        raise


def repaired(disk: SimulatedDisk, damage: LogDamaged) -> list[str]:
    """What the command does."""
    held = lock(disk, damage.path)
    try:
        return carry_out(disk, plan(disk, damage.path, damage.position), 4096)
    finally:
        held.release()


@pytest.mark.parametrize("stop", ["clean", "kill", "power"])
def test_any_damage_can_be_given_up(stop: CrashKind | str) -> None:
    """A byte flips somewhere; repairs at the positions named end in a start with a prefix of what was written."""
    repairs = side_files = 0
    for seed in range(60):
        chance = random.Random(seed)
        disk = SimulatedDisk(seed)
        config = LogConfig(segment_bytes=chance.choice([300, 2_000]), index_interval_bytes=100)
        world = World(disk, config=config, journal_bytes=chance.choice([500, 1 << 20]))
        log = world.log()
        for number in range(chance.randint(5, 40)):
            records = [(b"%d" % number, b"v" * chance.randint(1, 60))] * 2
            world.writer.append(log, build_batch(records, number))
            if chance.random() < 0.4:
                world.settle()
        world.settle()
        written = contents(log)
        if stop == "clean":
            world.close()
        else:
            disk.crash("kill" if stop == "kill" else "power")
        segments = [name for name in disk.listdir(log.directory) if name.endswith(".log")]
        # A power failure may leave a partition without its first segment: the journal has it.
        content = disk.content(f"{log.directory}/{chance.choice(segments)}") if segments else bytearray()
        batches = []
        with contextlib.suppress(DecodeError):  # a power failure leaves zeros where the journal has the truth
            batches.extend(iterate_batches(bytes(content)))
        if batches:
            at, header = chance.choice(batches)
            content[at + chance.randrange(CRC_AT, header.size)] ^= 0x40
        for _attempt in range(4):
            try:
                again, found = read_all(disk, config)
                break
            except LogDamaged as damage:
                side_files += len(repaired(disk, damage))
                repairs += 1
        else:
            raise AssertionError(f"seed {seed}: repaired four times and still damaged")
        assert found == written[: len(found)], seed
        again.writer.append(again.log(), build_batch([(b"after", b"it")], 1))
        again.settle()
        assert contents(again.log())[-1][1:] == (b"after", b"it"), seed
        again.close()
    assert repairs > 20
    assert side_files > 20


def test_what_is_removed_is_kept_aside_byte_by_byte() -> None:
    disk = SimulatedDisk(1)
    config = LogConfig(segment_bytes=300)
    world = World(disk, config=config)
    log = world.log()
    for number in range(9):
        world.writer.append(log, build_batch([(b"%d" % number, b"v" * 50)], number))
    world.settle()
    world.close()
    names = [name for name in disk.listdir(log.directory) if name.endswith(".log")]
    before = {name: bytes(disk.content(f"{log.directory}/{name}")) for name in sorted(names)}
    assert len(before) == 5
    _first, second, *later = before
    witnessed: list[bytes | None] = []
    made = plan(disk, f"{log.directory}/{second}", 0, lambda key, _value: witnessed.append(key))
    assert (made.end_offset, [share.record_count for share in made.removed]) == (2, [2, 2, 2, 1])
    assert witnessed == [b"%d" % number for number in range(2, 9)]
    carry_out(disk, made, 4096)
    assert bytes(disk.content(f"{log.directory}/{second}.0.removed")) == before[second]
    assert [bytes(disk.content(f"{log.directory}/{name}.0.removed")) for name in later] == [
        before[name] for name in later
    ]
    again, found = read_all(disk, config)
    assert [key for _, key, _ in found] == [b"0", b"1"]
    assert again.log().end_offset == 2


@pytest.mark.parametrize("is_flushed", [True, False], ids=["in the segment", "in the journal alone"])
def test_side_files_of_a_journal_keep_what_no_segment_has(is_flushed: bool) -> None:
    disk = SimulatedDisk(1)
    world = World(disk)
    log, other = world.log(), world.log("other")
    batches = [build_batch([(b"%d" % number, b"v" * 50)], number) for number in range(3)]
    sizes = [len(batch) for batch in batches]
    for batch in batches:
        world.writer.append(log, batch)
        world.writer.append(other, build_batch([(b"k", b"v")], 1))
        world.settle()
    disk.crash("kill")
    segment = log.segments[0].log_path
    last = bytes(disk.content(segment)[sizes[0] + sizes[1] :])
    if not is_flushed:
        disk.content(segment)[sizes[0] + sizes[1] :] = b""
    [journal] = journal_names(disk.listdir(PATH))
    assert len(list(read_journal(disk, f"{PATH}/{journal}"))) == 6
    side_files = carry_out(disk, plan(disk, segment, sizes[0]), 4096)
    # The segment's own bytes are in one file, each entry of the journal beyond its end in another.
    expected = [f"{segment}.{sizes[0]}.removed"]
    if not is_flushed:
        expected.append(f"{segment}.{sizes[0] + sizes[1]}.journal.removed")
        assert bytes(disk.content(expected[1])) == last
    assert side_files == expected
    assert sorted(name for name in disk.listdir(log.directory) if name.endswith(".removed")) == [
        path.rpartition("/")[2] for path in expected
    ]
    left = [(entry.name, entry.position) for entry in read_journal(disk, f"{PATH}/{journal}")]
    assert [each for each in left if each[0] == log.name] == [(log.name, 0)]
    assert len(left) == 4


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A directory as a daemon leaves it: 30 groups with an offset each in one partition, one to a batch."""
    path = tmp_path / "data"
    data = DataDirectory.open(str(path))
    data.create(TOPIC, [0], b"offsets-topic-id", LogConfig(cleanup_policy="compact"))
    writer = LogWriter(data, HandLoop(), print, worker=HandWorker())
    [log] = data.logs.values()
    for number in range(30):
        key = encode_key(OffsetCommitKey(f"group-{number:02}", "orders", 0))
        writer.append(log, build_batch([(key, encode_value(OffsetCommitValue(number, 0, "", 1)))], 1))
    writer.close()
    data.close()
    return path


def flip(data_dir: Path, group: str) -> Path:
    """Damage one group's record."""
    [segment] = (data_dir / f"{TOPIC}-0").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[content.index(group.encode())] ^= 0x20
    segment.write_bytes(content)
    return segment


def test_the_refusal_names_the_command_that_helps(data_dir: Path, tmp_path: Path) -> None:
    segment = flip(data_dir, "group-20")
    size = segment.stat().st_size
    refused = subprocess.run(
        [sys.executable, "-m", "coordinatord", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(data_dir)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    told = refused.stdout + refused.stderr
    assert f"{segment} is damaged at byte " in told
    assert "Traceback" not in told
    commands = re.findall(r"`coordinatord (log repair --from-position \d+ [^`]*)`", told)
    assert len(set(commands)) == 1
    words = shlex.split(commands[0])

    asked = CliRunner().invoke(cli, words)
    assert asked.exit_code == 1
    assert asked.output.splitlines()[-1] == "Nothing was changed. Add --yes to repair without asking."
    assert segment.stat().st_size == size

    done = CliRunner().invoke(cli, [*words, "--yes"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == f"kept: {segment.stat().st_size} bytes of {TOPIC}-0, up to offset 19"
    assert f"of {segment.name}, 9 records can be read: offsets 21 to 29" in lines[2]
    others = ", ".join(f"group-{number}" for number in range(21, 30))
    assert lines[4] == f"  groups that fall back to an earlier state: {others}"
    assert lines[-1] == f"{TOPIC}-0 ends at offset 20 now."
    [aside] = segment.parent.glob("*.removed")
    assert aside.stat().st_size == size - segment.stat().st_size

    with running(tmp_path) as daemon:
        admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
        listed = {each["group_id"] for each in admin.list_groups()}
        admin.close()
    assert listed == {f"group-{number:02}" for number in range(20)}


def test_a_daemon_that_runs_is_not_repaired(data_dir: Path) -> None:
    segment = flip(data_dir, "group-05")
    held = OsDisk().lock(str(data_dir / ".lock"), "1")
    try:
        result = CliRunner().invoke(cli, ["log", "repair", "--yes", "--from-position", "0", str(segment)])
    finally:
        held.release()
    assert result.exit_code == 1
    assert result.output == f"coordinatord: data directory {data_dir} is in use: stop the daemon first\n"


def test_files_of_others_in_the_partition_stay(data_dir: Path) -> None:
    """What is called something like a segment or a snapshot, too."""
    segment = flip(data_dir, "group-20")
    others = [segment.parent / name for name in ("5.log", "99.snapshot", "notes.txt", "7.index")]
    for path in others:
        path.write_bytes(b"mine")
    with pytest.raises(LogDamaged) as damage:
        read_whole(segment)
    words = ["log", "repair", "--yes", "--from-position", str(damage.value.position), str(segment)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert [path.read_bytes() for path in others] == [b"mine"] * 4


def read_whole(segment: Path) -> None:
    """Read every batch."""
    file = OsDisk().open(str(segment))
    try:
        for _batch in scan(file, str(segment), 0, file.size()):
            pass
    finally:
        file.close()


@pytest.mark.parametrize(
    ("name", "position", "message"),
    [
        ("00000000000000000000.log", 1, "is not sound up to byte 1: the last batch is cut short"),
        ("00000000000000000000.log", 1 << 40, "there is no position 1099511627776"),
        ("leader-epoch-checkpoint", 0, "is no segment: their names are 20 digits and .log"),
    ],
)
def test_positions_that_cannot_be(data_dir: Path, name: str, position: int, message: str) -> None:
    with pytest.raises(RepairRefused, match=message):
        plan(OsDisk(), str(data_dir / f"{TOPIC}-0" / name), position)


def test_a_file_of_no_data_directory(tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    segment.touch()
    with pytest.raises(RepairRefused, match=r"is not in a data directory: .* has no meta\.properties"):
        lock(OsDisk(), str(segment))
