"""What a member knows of its partitions, and what it has measured."""

from __future__ import annotations

import pytest

from coordinatord.testing.member.events import Commit, Received, Seek
from coordinatord.testing.member.metrics import Sensor
from kafka_wire.api.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import build_batch
from tests.testing.member.lab import Lab

T0, T1 = ("t", 0), ("t", 1)


def reading(committed: int = 10, **settings: object) -> Lab:
    """Within a poll that has just fetched for the first time."""
    lab = Lab(**settings).completing()  # type: ignore[arg-type]
    lab.sync(T0, T1)
    lab.committed_offsets(committed)
    return lab


def fetched(lab: Lab, records: int, high_watermark: int, *, error: int = 0, throttled_ms: int = 0) -> None:
    """Partition 0's response."""
    send = lab.take(FetchRequest)
    data = PartitionData(0, error, high_watermark)
    first = next(each.fetch_offset for each in send.request.topics[0].partitions if each.partition == 0)
    data.records = bytes(build_batch([(None, b"v")] * records, 0, first)) if records else None
    topics = [FetchableTopicResponse("t", partitions=[data])]
    lab.tell(Received(send, FetchResponse(throttled_ms, responses=topics)))


def test_the_lag_is_what_lies_between_position_and_high_watermark() -> None:
    lab = reading(max_poll_records=2)
    assert lab.member.partition_lag(T0) is None, "before the first fetch"
    fetched(lab, 3, 20)
    assert lab.member.partitions[T0].high_watermark == 20
    assert lab.member.partition_lag(T0) == 8
    assert lab.member.partition_lag(T1) is None
    lab.poll()
    assert lab.member.partition_lag(T0) == 7
    lab.tell(Seek(T0, 0))
    assert lab.member.partition_lag(T0) == 20
    lab.tell(Seek(T0, "latest"))
    assert lab.member.partition_lag(T0) is None, "without a position"


def test_a_response_without_records_moves_the_high_watermark_and_an_error_does_not() -> None:
    lab = reading()
    fetched(lab, 0, 15)
    assert lab.member.partition_lag(T0) == 5
    fetched(lab, 0, -1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert lab.member.partition_lag(T0) == 5


def test_the_lag_of_what_is_not_owned_is_refused() -> None:
    with pytest.raises(ValueError, match="u-3 is not assigned to this consumer"):
        reading().member.partition_lag(("u", 3))


def test_committed_offsets_are_those_read_and_those_written() -> None:
    lab = reading()
    assert lab.member.partitions[T0].committed == 10
    lab.end_poll()
    lab.tell(Commit({T0: 12}))
    assert lab.member.partitions[T0].committed == 10, "until the response"
    lab.commit()
    assert lab.member.partitions[T0].committed == 12
    lab.tell(Commit({T0: 13}))
    lab.commit(ErrorCode.OFFSET_METADATA_TOO_LARGE)
    assert lab.member.partitions[T0].committed == 12
    lab.tell(Commit({T0: 14, ("gone", 0): 1}, timeout_ms=1_000))
    lab.commit()
    assert lab.member.partitions[T0].committed == 14


def test_nothing_committed_is_unknown() -> None:
    assert reading(-1).member.partitions[T0].committed is None


def test_latencies_are_measured_from_request_to_response() -> None:
    lab = Lab().preparing()
    metrics = lab.member.metrics
    lab.now_ms += 30
    lab.poll(10**6)
    lab.now_ms += 40
    lab.join()
    assert (metrics.join_latency.count, metrics.join_latency.last) == (1, 70)
    lab.sync(T0, T1)
    lab.committed_offsets(10)
    lab.now_ms += 25
    fetched(lab, 1, 11, throttled_ms=7)
    assert (metrics.fetch_latency.count, metrics.fetch_latency.total, metrics.fetch_latency.max) == (1, 25, 25)
    assert (metrics.fetch_throttle_time.count, metrics.fetch_throttle_time.last) == (1, 7)
    assert (metrics.records_lag.count, metrics.records_lag.last) == (1, 0)


def test_heartbeats_are_measured_whatever_their_answer() -> None:
    lab = Lab().stable()
    for error, late_ms in (
        (ErrorCode.NONE, 5),
        (ErrorCode.REBALANCE_IN_PROGRESS, 15),
    ):  # the second is due 5 ms earlier
        lab.advance(3_000)
        lab.now_ms += late_ms
        lab.heartbeat(error)
    heartbeats = lab.member.metrics.heartbeat_latency
    assert (heartbeats.count, heartbeats.last, heartbeats.max, heartbeats.average) == (2, 20, 20, 12.5)


def test_a_join_that_fails_is_not_measured() -> None:
    lab = Lab().preparing()
    lab.poll(10**6)
    lab.join(ErrorCode.MEMBER_ID_REQUIRED, member_id="given")
    assert lab.member.metrics.join_latency.count == 0


def test_a_sensor_before_its_first_value() -> None:
    assert (Sensor().last, Sensor().max, Sensor().average) == (None, None, None)


def test_a_late_poll_is_answered_with_its_remedy_in_the_log_and_in_the_reason() -> None:
    lab = Lab(max_poll_interval_ms=10_000, max_poll_records=77).stable()
    lab.advance(10_000)
    [warning] = lab.result.warnings
    assert warning.startswith(
        "consumer poll timeout has expired. This means the time between subsequent calls to poll()"
    )
    assert "increasing max.poll.interval.ms" in warning
    assert "max.poll.records (77)" in warning
