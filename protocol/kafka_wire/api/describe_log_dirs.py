"""DescribeLogDirs: a broker's log directories and the size of each partition's log.

v2 flexible · v3 top-level error · v4 the size of the volume (KIP-827) · v5 cordoned directories (KIP-1066)
"""

from __future__ import annotations

from kafka_wire.schema import array, boolean, int16, int32, int64, message, string


@message()
class DescribableLogDirTopic:
    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+")


@message(versions="1-5", flexible="2+", api_key=35)
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, "0+", nullable="0+")


@message()
class DescribeLogDirsPartition:
    partition_index: int = int32("0+")
    partition_size: int = int64("0+")
    offset_lag: int = int64("0+")
    is_future_key: bool = boolean("0+")


@message()
class DescribeLogDirsTopic:
    name: str = string("0+")
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition, "0+")


@message()
class DescribeLogDirsResult:
    error_code: int = int16("0+")
    log_dir: str = string("0+")
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic, "0+")
    total_bytes: int = int64("4+", default=-1)
    usable_bytes: int = int64("4+", default=-1)
    is_cordoned: bool = boolean("5+")


@message(versions="1-5", flexible="2+", api_key=35)
class DescribeLogDirsResponse:
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("3+")
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult, "0+")
