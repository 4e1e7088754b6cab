"""The log from a broker: raw batches by Fetch, so that the result is as complete as from a segment.

kafka-python makes the connections, with its SASL and TLS settings. Its consumer cannot be used: it hides control
records and the producer of a batch. So Fetch requests are sent through its connections, and the records go to the same
decoder as a segment's bytes. Isolation is read_uncommitted: offsets committed in a transaction appear as soon
as they are in the log, and markers record its outcome.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinatord.monitoring.offsets_log.decode.chunk import decode
from coordinatord.monitoring.offsets_log.decode.projection import Wanted
from coordinatord.monitoring.offsets_log.source.options import Options
from coordinatord.monitoring.offsets_log.source.ranges import KindBatch
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.offsets_log.source.tail import DataLoss, Position
from coordinatord.monitoring.offsets_log.source.unreadable_partitions import MOVED, no_leader, not_allowed
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import iterate_batches

if TYPE_CHECKING:  # a log in a directory needs no client library
    from coordinatord.monitoring.offsets_log.source.cluster import Cluster

FETCH_BYTES = 4 << 20
FETCH_WAIT_MS = 500
#: Seconds between two attempts if a partition has no leader, or the broker does not respond.
AGAIN_S = 0.2
#: Fetch with topic names; later versions require ids.
FETCH_VERSION = 12
#: Estimated bytes per record, for a range's size before it is read.
BYTES_PER_RECORD = 100
#: Largest number of times that a read continues to the current end, if the cleaner works all the time.
READS_ON = 5


@dataclass(frozen=True, slots=True)
class BrokerRange:
    """Offsets of one partition to fetch. With `reads_on`, the read continues after `next_offset` as long as later
    records may be the only ones of a key: the earlier record of the key is gone if the log was cleaned before it was
    fetched.
    """

    options: Options
    partition: int
    first_offset: int
    next_offset: int
    reads_on: bool = False

    @property
    def bytes(self) -> int:
        return (self.next_offset - self.first_offset) * BYTES_PER_RECORD


def connected(options: Options) -> Cluster:
    """Return the cluster, for a `with` block."""
    from coordinatord.monitoring.offsets_log.source.cluster import Cluster

    assert options.bootstrap is not None
    return Cluster(options.bootstrap, options.broker, options.patience_s, options.topic)


class BrokerTail:
    """The topic's partitions as they grow; the counterpart of `tail.FileTail` for directories. `absent` are the
    partitions that had no leader at the last read, or none that responds: `ends` and `begins` omit them.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.absent: frozenset[str] = frozenset()
        self._bounds: dict[str, tuple[int, int]] = {}

    def ends(self) -> Position:
        """Return the present end of each partition: its high watermark."""
        self._look()
        return {name: end for name, (_, end) in self._bounds.items()}

    def begins(self) -> Position:
        """Return the first offset of each partition, at the last read."""
        if not self._bounds:
            self._look()
        return {name: begin for name, (begin, _) in self._bounds.items()}

    def _look(self) -> None:
        options, topic = self.options, self.options.topic
        with connected(options) as cluster:
            numbers = cluster.log_partitions()
            if not numbers:
                raise SourceError(f"{options.bootstrap} has no topic {topic}: no group has committed there yet")
            chosen = [n for n in numbers if options.partitions is None or n in options.partitions]
            found = cluster.log_bounds(chosen)
        self.absent = frozenset(f"{topic}-{n}" for n in chosen if n not in found)
        if self.absent and not found:
            raise SourceError(no_leader(sorted(self.absent)))
        self._bounds = {f"{topic}-{n}": found[n] for n in sorted(found)}

    def limited(self, start: Position, ends: Position, max_bytes: int | None, max_records: int | None) -> Position:
        """Return the end of a micro-batch of at most `max_records` offsets, shared fairly among partitions; at least
        one offset, or a query would stall.
        """
        assert max_bytes is None
        assert max_records is not None
        behind = sorted(
            (name for name in ends if ends[name] > start.get(name, 0)), key=lambda n: ends[n] - start.get(n, 0)
        )
        reached = {name: start.get(name, 0) for name in ends}
        for number, name in enumerate(behind):
            step = min(ends[name] - reached[name], max(max_records // (len(behind) - number), int(max_records > 0)))
            reached[name] += step
            max_records -= step
        return reached

    def plan(self, start: Position, end: Position) -> list[BrokerRange]:
        step = max(1, self.options.split_bytes // BYTES_PER_RECORD)
        found = []
        for name, stop in end.items():
            partition = int(name.rpartition("-")[2])
            for first in range(start.get(name, 0), stop, step):
                found.append(BrokerRange(self.options, partition, first, min(first + step, stop)))
        return found


def read_fetched(part: BrokerRange, wanted: Wanted) -> Iterator[KindBatch]:
    """Return the record batches of a range."""
    with connected(part.options) as cluster:
        cluster.refresh()  # so that it has the leader
        yield from _fetched(cluster, part, wanted)
        for _ in range(READS_ON if part.reads_on else 0):
            _, end = cluster.log_bounds([part.partition]).get(part.partition, (0, 0))
            if end <= part.next_offset:
                return
            part = replace(part, first_offset=part.next_offset, next_offset=end)
            # A removed record has its successor in this range, unless that was removed as well: that would leave a gap.
            if (yield from _fetched(cluster, part, wanted)):
                return


def _fetched(cluster: Cluster, part: BrokerRange, wanted: Wanted) -> Generator[KindBatch, None, bool]:
    """Return the record batches of a range; the generator's return value is true if none of its offsets was missing."""
    options = part.options
    wanted = replace(
        wanted, log_partition=part.partition, first_offset=part.first_offset, next_offset=part.next_offset,
        source=options.bootstrap,
    )  # fmt: skip
    offset, is_whole = part.first_offset, True
    while offset < part.next_offset:
        data, log_start = fetch(cluster, options, part.partition, offset)
        if data is None:  # records before log_start were deleted
            if options.fail_on_data_loss and part.first_offset:
                raise DataLoss(
                    f"{options.topic}-{part.partition} begins at offset {log_start} now, and {offset} was next: go "
                    "on with the option failOnDataLoss=false"
                )
            offset, is_whole = log_start, False
            continue
        after = offset
        for _, header in iterate_batches(data, partial=True):
            is_whole &= header.base_offset <= after and header.record_count == header.next_offset - header.base_offset
            after = max(after, header.next_offset)
        if after == offset:
            raise DataLoss(f"{options.topic}-{part.partition} ends at offset {offset}, {part.next_offset} was expected")
        at, buffer = 0, np.frombuffer(bytearray(data), np.uint8)
        while at < len(buffer):
            decoded = decode(buffer, at, len(buffer), 0, wanted)
            for kind, batches in decoded.tables.items():
                for batch in batches:
                    yield kind, batch
            if decoded.at == at:  # the response contains only the beginning of a batch
                break
            at = decoded.at
        offset = after
    return is_whole


def fetch(cluster: Cluster, options: Options, partition: int, offset: int) -> tuple[bytes | None, int]:
    """Return (batches from `offset` on, the log's start offset); None for the batches if the log starts after
    `offset`. `cluster` has requested the topic's partitions before.
    """
    from kafka.errors import KafkaError

    topic = options.topic
    deadline = time.monotonic() + options.patience_s
    why = "it has no leader"
    while time.monotonic() < deadline:
        leader = cluster.leader(topic, partition)
        try:
            if leader != -1:
                answer = cluster.connections.ask(_request(topic, partition, offset), leader)
                (found,) = answer.responses[0].partitions
                if found.error_code == ErrorCode.NONE:
                    return bytes(found.records or b""), 0
                if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    log_start, _ = cluster.bounds([(topic, partition)]).get((topic, partition), (0, 0))
                    if log_start > offset:
                        return None, log_start
                    raise DataLoss(
                        f"{topic}-{partition} ends before offset {offset}, which was to be read: the log was cut"
                    )
                if found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    raise SourceError(not_allowed(options.bootstrap or "", options.broker, topic))
                if found.error_code not in MOVED:
                    raise SourceError(f"{topic}-{partition} cannot be read: {ErrorCode(found.error_code).name}")
                why = ErrorCode(found.error_code).name
        except KafkaError as error:
            if cluster.connections.is_lasting(error):
                raise  # reported by `connected`
            why = cluster.connections.tell(error)
        _look_again(cluster, topic)
    raise SourceError(
        f"{topic}-{partition} could not be read from {options.bootstrap} for {options.patience_s} s (patienceSeconds): "
        f"{why}"
    )


def _look_again(cluster: Cluster, topic: str) -> None:
    """Request the topic's leaders, after a pause for the broker."""
    time.sleep(AGAIN_S)
    with suppress(SourceError):  # the next attempt reports the error
        cluster.partitions(topic)


def _request(topic: str, partition: int, offset: int) -> Any:
    from kafka.protocol.consumer import FetchRequest

    wanted = FetchRequest.FetchTopic.FetchPartition(
        partition=partition, current_leader_epoch=-1, fetch_offset=offset, last_fetched_epoch=-1,
        log_start_offset=-1, partition_max_bytes=FETCH_BYTES,
    )  # fmt: skip
    return FetchRequest(
        max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, isolation_level=0, session_id=0,
        session_epoch=-1, topics=[FetchRequest.FetchTopic(topic=topic, partitions=[wanted])],
        forgotten_topics_data=[], rack_id="", min_version=4, max_version=FETCH_VERSION,
    )  # fmt: skip
