"""Share groups (KIP-932): sixty share consumers of librdkafka, and one member that takes records as fast as it can."""

from __future__ import annotations

import time

from bench import groups
from bench.generator import Line, WrongAnswer
from bench.registry import KAFKA, Arena, Column, Sample, at_most, ours, row
from bench.rows.real import CONSUMERS, lived
from bench.servers import Server
from bench.share_clients import PER_SECOND
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.api.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ShareFetchRequest
from kafka_wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_wire.records.batch import build_batch
from kafka_wire.schema import ZERO_UUID

COLUMNS = [
    ours(
        label="coordinatord, flush=never", log_flush="never",
        group_coordinator_rebalance_protocols="classic,consumer,share",
    ),
    KAFKA,
]  # fmt: skip
"""Without kfake: a partition without records has null records in its responses, which the protocol forbids and
librdkafka refuses.
"""
COMPLETE = 0.9


@row(
    "share-60",
    f"{CONSUMERS} librdkafka share consumers, {PER_SECOND} records a second: CPU per record",
    "µs",
    columns=COLUMNS,
    targets=[at_most(1 / 3, of="kafka")],
    quick=False,
)
def share_60(arena: Arena, column: Column, seconds: float) -> Sample:
    word = lived(arena, column, "bench.share_clients", seconds)
    records, wall_s = word["records"], word["wall_s"]
    if records < COMPLETE * PER_SECOND * wall_s:
        raise WrongAnswer(f"{records} records read in {wall_s:.1f} s, {PER_SECOND} a second were written")
    return Sample(
        word["server_cpu_s"] / records * 1e6,
        per_s=records / wall_s,
        server_busy=word["server_cpu_s"] / wall_s,
        generator_busy=word["own_cpu_s"] / wall_s,
    )


TOPIC, GROUP, MEMBER = "share-hot", "share-hot", "share-hot-member"
RECORDS, BATCH, AT_ONCE = 1_000_000, 1_000, 500
GROUP_RESOURCE = 32
TRIES = 600


def prepared(server: Server) -> tuple[Line, bytes]:
    """A topic of a million records, and a member that has it; returns its connection and the topic's id."""
    line = server.line()
    made = line.ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)], 30_000), groups.CREATE_TOPICS_VERSION)
    groups.require(made.topics[0].error_code, "CreateTopics")
    earliest = [
        AlterConfigsResource(GROUP_RESOURCE, GROUP, [AlterableConfig("share.auto.offset.reset", 0, "earliest")])
    ]
    changed = line.ask(IncrementalAlterConfigsRequest(earliest), 1).responses[0]
    groups.require(changed.error_code, "IncrementalAlterConfigs")
    topic_id = line.ask(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), 12).topics[0].topic_id
    data = [TopicProduceData(TOPIC, ZERO_UUID, [PartitionProduceData(0, build_batch([(None, b"x")] * BATCH, 1))])]
    for _ in range(RECORDS // BATCH):
        (partition,) = line.ask(ProduceRequest(None, -1, 30_000, data), 9).responses[0].partition_responses
        groups.require(partition.error_code, "Produce")
    groups.wait_until_loaded([line], [GROUP])
    epoch, names = 0, [TOPIC]
    for _ in range(TRIES):
        response = line.ask(ShareGroupHeartbeatRequest(GROUP, MEMBER, epoch, None, names), 1)
        if not response.error_code:
            epoch, names = response.member_epoch, None
            if response.assignment is not None and response.assignment.topic_partitions:
                return line, topic_id
        time.sleep(0.1)
    raise WrongAnswer("the member has got no partition")


@row(
    "share-hot",
    "acquire and acknowledge a million records, 500 in a request: CPU per record",
    "µs",
    columns=COLUMNS,
    targets=[at_most(1 / 3, of="kafka")],
    rounds=3,
    quick=False,
)
def share_hot(arena: Arena, column: Column, seconds: float) -> Sample:
    """The acknowledgements of a fetch go with the next one. The first fetches begin the session and load the state."""
    with arena.fresh(column) as server:
        line, topic_id = prepared(server)
        epoch = acknowledged = empty = 0
        batches: list[AcknowledgementBatch] = []
        used_s = wall_s = 0.0
        while acknowledged < RECORDS:
            topics = [FetchTopic(topic_id, [FetchPartition(0, batches)])] if batches or not epoch else []
            response = line.ask(
                ShareFetchRequest(
                    GROUP, MEMBER, epoch, 500, 1, max_records=AT_ONCE, batch_size=AT_ONCE, share_acquire_mode=1,
                    topics=topics,
                ),
                2,
            )  # fmt: skip
            groups.require(response.error_code, "ShareFetch")
            if not epoch:
                server.settle()
                used_s, wall_s = server.cpu_s(), time.monotonic()
            epoch += 1
            acknowledged += sum(each.last_offset - each.first_offset + 1 for each in batches)
            partitions = [each for topic in response.responses for each in topic.partitions]
            for each in partitions:
                groups.require(each.error_code or each.acknowledge_error_code, "ShareFetch")
            ranges = [each for partition in partitions for each in partition.acquired_records]
            batches = [AcknowledgementBatch(each.first_offset, each.last_offset, [1]) for each in ranges]
            empty = 0 if batches else empty + 1
            if empty > TRIES:
                raise WrongAnswer(f"no records after {acknowledged}")
        used_s, wall_s = server.cpu_s() - used_s, time.monotonic() - wall_s
        line.close()
    return Sample(used_s / RECORDS * 1e6, per_s=RECORDS / wall_s, server_busy=used_s / wall_s)
