"""`coordinatord import` of directories that somebody has made to do harm: a sentence, and nothing is left behind."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coordinatord.broker.log import DataDirectory, checkpoint, leader_epoch_cache
from coordinatord.broker.log.errors import LogDamaged
from kafka_wire.records.cluster_metadata import PartitionRecord, ProducerIdsRecord, TopicRecord
from kafka_wire.records.crc import crc32c
from tests.server.exchange.world import FIRST_SEGMENT, ORDERS, batch, cluster_records, kafka, partition, run

OTHER = b"other".ljust(16, b".")
LARGEST = (1 << 63) - 1

Change = Callable[[Path], Any]


def refused(tmp_path: Path, broker: Path) -> str:
    """What import says of a directory that it refuses, after seeing that nothing is left behind."""
    before = sorted(tmp_path.iterdir())
    code, _, said = run("import", broker, "--data-dir", tmp_path / "ours")
    assert code == 1, said
    assert said.startswith("coordinatord: ")
    assert said.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before
    return said


def topic(name: str, *partitions: int, topic_id: bytes = OTHER, **more: int) -> list[Any]:
    """Metadata records of one more topic."""
    found: list[Any] = [(TopicRecord(name, topic_id), 0)]
    for index in partitions:
        found.append((PartitionRecord(index, topic_id, [3], [3], **more), 0))
    return found


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (topic("x"), "topic x has no partition"),
        (topic("x", -5), "or one with a negative number"),
        (topic("../../etc", 0), "'../../etc' contains one or more characters other than ASCII alphanumerics"),
        (topic("..", 0), "'..' is not allowed"),
        (topic("a\x1b[2J\n", 0), "'a\\x1b[2J\\n' contains"),
        (topic("orders", 0), "there are two topics orders"),
        (topic("x", LARGEST >> 32), "2147483648 partitions of the cluster are not in"),
        (
            [(PartitionRecord(0, ORDERS, [3], [3], leader_epoch=(1 << 31) - 1), 0)],
            "the last leader epoch that there is",
        ),
        ([(ProducerIdsRecord(3, 1, LARGEST), 0)], "a producer id of 9223372036854775806"),
    ],
)
def test_metadata_that_no_controller_writes_are_refused(tmp_path: Path, records: list[Any], said: str) -> None:
    assert said in refused(tmp_path, kafka(tmp_path / "kafka", records=[*cluster_records(), *records]))


def crafted(**fields: int) -> bytes:
    """A batch with these fields of its header, and the right CRC."""
    made = batch(["x"])
    places = {"base_offset": (0, ">q"), "length": (8, ">i"), "last_offset_delta": (23, ">i"), "producer_id": (43, ">q")}
    for name, value in fields.items():
        at, form = places[name]
        struct.pack_into(form, made, at, value)
    struct.pack_into(">I", made, 17, crc32c(bytes(made[21:])))
    return bytes(made)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        (FIRST_SEGMENT, crafted(length=(1 << 31) - 1), "cut short"),
        (FIRST_SEGMENT, crafted(length=-1), "cannot be -1 bytes long"),
        (FIRST_SEGMENT, crafted(last_offset_delta=-1), "offsets 0 to -1"),
        (FIRST_SEGMENT, crafted(base_offset=-5), "offsets -5 to -5"),
        (FIRST_SEGMENT, crafted(base_offset=LARGEST), "offsets 9223372036854775807 to 9223372036854775807"),
        (FIRST_SEGMENT, crafted(base_offset=1 << 40), "offset 1099511627776 does not belong to this segment"),
        (FIRST_SEGMENT, crafted(producer_id=LARGEST), "a producer id of 9223372036854775807"),
        (f"{2:020d}.log", bytes(batch(["x"])), "offsets 0 to 0 where 4 was next"),
        (f"{100:020d}.log", bytes(batch(["x"], 4)), "offsets 4 to 4 where 100 was next"),
    ],
)
def test_segments_that_no_broker_writes_are_refused(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    broker = kafka(tmp_path / "kafka")
    (broker / "orders-0" / name).write_bytes(data)
    assert said in refused(tmp_path, broker)


def test_a_file_whose_number_is_no_offset_is_no_segment(tmp_path: Path) -> None:
    broker = kafka(tmp_path / "kafka")
    (broker / "orders-0" / f"{'9' * 20}.log").write_bytes(bytes(batch(["x"])))
    assert run("import", broker, "--data-dir", tmp_path / "ours")[0] == 0
    data = DataDirectory.open(str(tmp_path / "ours"))
    log = data.get("orders", 0)
    assert log is not None
    assert log.end_offset == 4
    data.close()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (f"orders-0/{leader_epoch_cache.FILE}", f"0\n1\n{1 << 31} 0\n", "out of range"),
        (f"orders-0/{leader_epoch_cache.FILE}", f"0\n1\n0 {1 << 63}\n", "out of range"),
        (f"orders-0/{leader_epoch_cache.FILE}", "0\n1\n-1 -1\n", "out of range"),
        (f"orders-0/{leader_epoch_cache.FILE}", f"0\n1\n{(1 << 31) - 1} 0\n", "the last leader epoch that there is"),
        (checkpoint.RECOVERY_POINT, f"0\n1\norders 0 {1 << 63}\n", "9223372036854775808 is no offset"),
        (checkpoint.LOG_START, "0\n1\norders 0 -7\n", "-7 is no offset"),
        (checkpoint.CLEANER, f"0\n1\norders 0 {'9' * 5000}\n", "not an offset checkpoint"),
        (f"__cluster_metadata-0/{9:020d}-{1:010d}.checkpoint", "", "the snapshot does not end with its last record"),
    ],
)
def test_small_files_with_absurd_numbers_are_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    broker = kafka(tmp_path / "kafka")
    (broker / name).write_text(text)
    reason = refused(tmp_path, broker)
    assert said in reason
    assert "ours.importing" not in reason  # which is gone by then


READ = (
    "meta.properties",
    checkpoint.RECOVERY_POINT,
    checkpoint.LOG_START,
    f"orders-0/{FIRST_SEGMENT}",
    f"orders-0/{leader_epoch_cache.FILE}",
    f"orders-0/{checkpoint.PARTITION_METADATA}",
    f"orders-0/{0:020d}.index",
    f"orders-0/{4:020d}.snapshot",
    f"__cluster_metadata-0/{FIRST_SEGMENT}",
)


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize(
    "put",
    [
        os.mkfifo,
        Path.mkdir,
        lambda path: os.symlink("/dev/zero", path),
    ],
    ids=["pipe", "directory", "device"],
)
def test_what_is_no_regular_file_is_neither_read_nor_waited_for(tmp_path: Path, name: str, put: Change) -> None:
    broker = kafka(tmp_path / "kafka")
    (broker / name).unlink(missing_ok=True)
    put(broker / name)
    assert f"{broker / name}" in (reason := refused(tmp_path, broker))
    assert "not a regular file" in reason


@pytest.mark.parametrize("name", [FIRST_SEGMENT, leader_epoch_cache.FILE, f"{4:020d}.snapshot"])
@pytest.mark.parametrize("clean", [True, False])
def test_no_link_leads_to_another_file_of_this_machine(tmp_path: Path, name: str, clean: bool) -> None:
    """The end of a log that was not closed need not be batches: all of a file could be taken for such an end."""
    broker = kafka(tmp_path / "kafka", clean=clean)
    (tmp_path / "secret").write_text("0\n1\n0 0\n")
    (broker / "orders-0" / name).unlink(missing_ok=True)
    (broker / "orders-0" / name).symlink_to(tmp_path / "secret")
    assert f"{broker / 'orders-0' / name} is not a regular file" in refused(tmp_path, broker)


def test_without_metadata_huge_numbers_and_shared_ids_are_refused(tmp_path: Path) -> None:
    broker = kafka(tmp_path / "kafka")
    shutil.rmtree(broker / "__cluster_metadata-0")
    made = partition(broker, f"x-{(1 << 31) - 1}", OTHER)
    assert "2147483647 partitions of the cluster are not in" in refused(tmp_path, broker)
    shutil.rmtree(made)
    partition(broker, "x-0", ORDERS)
    assert "the topics orders and x have the same topic id" in refused(tmp_path, broker)


def test_a_lock_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    broker = kafka(tmp_path / "kafka")
    os.mkfifo(broker / checkpoint.LOCK)
    assert run("import", broker, "--data-dir", tmp_path / "ours")[0] == 0


@pytest.mark.parametrize("base_offset", [1 << 40, LARGEST])
@pytest.mark.parametrize("clean", [True, False])
def test_a_start_refuses_offsets_that_no_index_can_have(tmp_path: Path, base_offset: int, clean: bool) -> None:
    """In a directory of ours, too, whether it was closed or not."""
    assert run("import", kafka(tmp_path / "kafka", clean=clean), "--data-dir", tmp_path / "ours")[0] == 0
    segment = tmp_path / "ours" / "orders-0" / FIRST_SEGMENT
    segment.write_bytes(crafted(base_offset=base_offset))
    (tmp_path / "ours" / checkpoint.RECOVERY_POINT).write_text("0\n1\norders 0 4\n")
    with pytest.raises(LogDamaged):
        DataDirectory.open(str(tmp_path / "ours")).close()
