"""Record tests/golden/share_state: what a share consumer of Apache Kafka 4.4 leaves in `__share_group_state`.

    python -m tests.reference.capture_share_state

needs Java 17 and Maven. Kafka's console share consumer accepts, releases and rejects records of a topic; kept are the
segment of the only partition of the topic, and what Kafka's share coordinator then says about each share partition.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coordinatord.testing.conform.raw_client import RawClient
from kafka_wire.api import read_share_group_state, read_share_group_state_summary
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.errors import ErrorCode
from tests.broker.topics.world import batch, produce
from tests.reference import broker as reference

GOLDEN = Path(__file__).parent.parent / "golden" / "share_state"
GROUP, TOPIC, PARTITIONS = "billing", "orders", 2
GROUP_RESOURCE, SET = 32, 0
UPDATES_PER_SNAPSHOT = 4
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": str(UPDATES_PER_SNAPSHOT),
}
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
RUNS: list[list[str]] = [
    ["--max-messages", "7"],
    ["--max-messages", "5", "--release"],
    ["--max-messages", "9", "--reject"],
    ["--max-messages", "11"],
]


async def prepare(port: int) -> bytes:
    """A topic with records, and a group that reads from its start. Returns the topic's id."""
    client = await RawClient.connect(reference.HOST, port)
    response = await client.ask(CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)]), 7)
    topic_id: bytes = response.topics[0].topic_id
    for partition in range(PARTITIONS):
        for at in range(0, 30, 3):
            values = [b"order-%d" % number for number in range(at, at + 3)]
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            while code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):  # just created
                produced = await client.ask(produce(TOPIC, batch(*values), partition=partition), 9)
                code = ErrorCode(produced.responses[0].partition_responses[0].error_code)
            assert code is ErrorCode.NONE
    configs = [AlterableConfig("share.auto.offset.reset", SET, "earliest")]
    await client.ask(IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, GROUP, configs)]), 1)
    return topic_id


async def states(port: int, topic_id: bytes) -> list[dict[str, Any]]:
    """What Kafka's share coordinator says about each share partition."""
    client = await RawClient.connect(reference.HOST, port)
    found = []
    for partition in range(PARTITIONS):
        asked = read_share_group_state_summary.ReadShareGroupStateSummaryRequest(
            GROUP,
            [
                read_share_group_state_summary.ReadStateSummaryData(
                    topic_id, [read_share_group_state_summary.PartitionData(partition, 0)]
                )
            ],
        )
        summary = (await client.ask(asked, 1)).results[0].partitions[0]
        read = read_share_group_state.ReadShareGroupStateRequest(
            GROUP,
            [
                read_share_group_state.ReadStateData(
                    topic_id, [read_share_group_state.PartitionData(partition, summary.leader_epoch)]
                )
            ],
        )
        state = (await client.ask(read, 0)).results[0].partitions[0]
        found.append({
            "partition": partition,
            "errors": [summary.error_code, state.error_code],
            "state_epoch": state.state_epoch,
            "leader_epoch": summary.leader_epoch,
            "start_offset": state.start_offset,
            "delivery_complete_count": summary.delivery_complete_count,
            "batches": [
                [each.first_offset, each.last_offset, each.delivery_state, each.delivery_count]
                for each in state.state_batches
            ],
        })  # fmt: skip
    return found


def consume(broker: reference.KafkaBroker) -> Iterator[str]:
    """Run the console share consumer, once for each way to acknowledge."""
    for arguments in RUNS:
        yield reference.run_java(
            broker.libs, CONSUMER, "--bootstrap-server", broker.bootstrap, "--topic", TOPIC, "--group", GROUP,
            "--timeout-ms", "60000", *arguments, timeout_s=120,
        )  # fmt: skip


def main() -> None:
    """Record the files."""
    libs = reference.kafka_libs(reference.KAFKA_VERSION)
    with tempfile.TemporaryDirectory() as directory:
        with reference.running_broker(libs, Path(directory), SETTINGS) as broker:
            topic_id = asyncio.run(prepare(broker.port))
            for output in consume(broker):
                print(output)
            found = asyncio.run(states(broker.port, topic_id))
            data_dir = broker.data_dir
        [segment] = sorted((data_dir / "__share_group_state-0").glob("*.log"))
        GOLDEN.mkdir(parents=True, exist_ok=True)
        (GOLDEN / segment.name).write_bytes(segment.read_bytes())
    story = {"kafka": reference.KAFKA_VERSION, "group": GROUP, "topic_id": topic_id.hex(), "states": found}
    (GOLDEN / "story.json").write_text(json.dumps(story, indent=1) + "\n")


if __name__ == "__main__":
    main()
