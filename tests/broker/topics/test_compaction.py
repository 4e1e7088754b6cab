"""Transactions in a compacted partition, as a consumer of committed records sees them: before, during and after."""

from __future__ import annotations

import pytest

from coordinatord.base.config import Settings
from coordinatord.broker.log.simulated_disk import SimulatedDisk
from coordinatord.broker.topics.configs import Configs
from coordinatord.broker.topics.partition import Partition
from kafka_wire.records.batch import (
    TRANSACTIONAL,
    BatchBuilder,
    KeyValue,
    build_control_batch,
    iterate_batches,
    read_header,
)
from kafka_wire.records.control import ControlType
from kafka_wire.records.key_values import key_values
from tests.broker.log.world import World

NOW = 1_000_000
OWN = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "10"}
CONFIGS = Configs(Settings(), OWN)


class Compacted:
    """One partition under a world of its own."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.world = World(disk, config=CONFIGS.log_config)
        self.partition = Partition(b"e" * 16, self.world.log(), CONFIGS, disk, 0, is_here=True)
        self.sequences: dict[int, int] = {}

    def write(self, producer: int, *records: KeyValue) -> None:
        builder = BatchBuilder()
        builder.extend(records, self.world.now_ms)
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + len(records)
        self._append(
            builder.finish(attributes=TRANSACTIONAL, producer_id=producer, producer_epoch=0, base_sequence=sequence)
        )

    def end(self, producer: int, kind: ControlType) -> None:
        batch = build_control_batch(kind, producer, 0, 0, self.world.now_ms)
        header = read_header(batch)
        offset, _epoch = self.world.writer.append(self.partition.log, batch)
        self.partition.marked(header, offset, aborted=kind is ControlType.ABORT, coordinator_epoch=0)
        self.world.settle()

    def _append(self, batch: bytearray) -> None:
        header = read_header(batch)
        offset, _epoch = self.world.writer.append(self.partition.log, batch)
        self.partition.appended(header, offset)
        self.world.settle()

    def clean(self, wait_ms: int = 0) -> None:
        self.world.now_ms += wait_ms
        self.world.writer.roll(self.partition.log)
        self.world.settle()
        assert self.world.clean()

    def committed(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """What a consumer makes of one answer (KafkaConsumer's CompletedFetch): a producer that the list of aborted
        transactions names is left out from there on, until a marker says that it has ended.
        """
        log = self.partition.log
        end = self.partition.last_stable_offset
        aborted = sorted(self.partition.aborted_transactions(0, end), key=lambda each: each.first_offset)
        out: set[int] = set()
        seen = []
        offset = 0
        while offset < end:
            data = log.read(offset, 1 << 20)
            for at, header in iterate_batches(data):
                while aborted and aborted[0].first_offset <= header.last_offset:
                    out.add(aborted.pop(0).producer_id)
                entries = key_values(data, at, header)
                if header.is_control:
                    out.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in out):
                    seen += [(number, key, value) for number, _time, key, value in entries]
                offset = header.next_offset
        return seen


def aborted_then_committed(compacted: Compacted) -> None:
    compacted.write(5, (b"a", b"aborted"), (b"b", b"aborted"))
    compacted.end(5, ControlType.ABORT)
    compacted.write(6, (b"x", b"1"))
    compacted.end(6, ControlType.COMMIT)
    compacted.write(5, (b"a", b"committed"))
    compacted.end(5, ControlType.COMMIT)
    compacted.write(5, (b"c", b"aborted"))
    compacted.end(5, ControlType.ABORT)


WANTED = [(3, b"x", b"1"), (5, b"a", b"committed")]


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_consumer_is_never_told_of_an_aborted_transaction_without_its_marker(saved: bool, restarts: bool) -> None:
    """It would take for aborted what that producer has committed later."""
    compacted = Compacted(SimulatedDisk())
    aborted_then_committed(compacted)
    assert compacted.committed() == WANTED
    if saved:
        compacted.partition._since_snapshot = 1
        compacted.partition.write_snapshot()
    compacted.write(7, (b"y", b"1"))
    compacted.end(7, ControlType.COMMIT)
    for number in range(5):
        compacted.clean(wait_ms=8)
        assert [entry for entry in compacted.committed() if entry[1] in (b"a", b"b", b"c", b"x")] == WANTED
        if restarts:
            compacted.world.close()
            sequences = compacted.sequences
            compacted = Compacted(compacted.world.disk)
            compacted.sequences = sequences
            compacted.world.now_ms = NOW + 100 * number
            assert [entry for entry in compacted.committed() if entry[1] in (b"a", b"b", b"c", b"x")] == WANTED
        compacted.write(7, (b"y", b"%d" % number))
        compacted.end(7, ControlType.COMMIT)
    # The markers of what was aborted are gone, and the producers are known all the same.
    markers = [header for header in compacted.partition.log.batches(0) if header.is_control and header.record_count]
    assert 2 not in [header.base_offset for header in markers]
    producer = compacted.partition.producers.get(5)
    assert producer is not None
    assert producer.last_sequence == 3
    assert compacted.partition.last_stable_offset == compacted.partition.log.high_watermark


def test_an_open_transaction_of_a_partition_that_nobody_has_loaded() -> None:
    """The cleaner reads the log's headers by itself; it asks nobody for the last stable offset."""
    compacted = Compacted(SimulatedDisk())
    compacted.write(5, (b"a", b"1"))
    compacted.end(5, ControlType.COMMIT)
    compacted.world.writer.roll(compacted.partition.log)
    compacted.write(5, (b"a", b"open"))
    compacted.world.writer.roll(compacted.partition.log)
    compacted.write(6, (b"a", b"2"))
    compacted.end(6, ControlType.COMMIT)
    compacted.world.writer.roll(compacted.partition.log)
    compacted.world.settle()
    compacted.world.close()
    again = Compacted(compacted.world.disk)
    assert again.partition.first_unstable_offset == again.partition.log.end_offset  # nobody knows
    again.world.clean()
    assert [header.base_offset for header in again.partition.log.batches(0)] == [0, 1, 2, 3, 4]
    assert again.committed() == [(0, b"a", b"1")]
    assert again.partition.first_unstable_offset == 2
