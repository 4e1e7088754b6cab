"""The state of share partitions from `__share_group_state`: Kafka's segment, others, and Kafka's formatter."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.analysis.share_state import ARCHIVED, AVAILABLE, Batch, ShareState
from coordinatord.monitoring.offsets_log.source.options import Options, read_options
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.offsets_log.source.share_state_topic import (
    SHARE_STATE_TOPIC,
    SharePartition,
    share_states,
    state_records,
)
from kafka_wire.records.batch import build_batch
from kafka_wire.records.share_state import (
    SNAPSHOT_TYPE,
    UPDATE_TYPE,
    ShareSnapshotValue,
    ShareStateKey,
    ShareUpdateValue,
    StateBatch,
    encode_key,
    encode_value,
)
from tests.monitoring.pipeline.directories import write_segment
from tests.support.waiting import wait_until

GOLDEN = Path(__file__).parents[3] / "golden" / "share_state"
TOPIC_ID = b"t" * 16


def options(*paths: Path, **more: str) -> Options:
    return read_options({"paths": json.dumps([str(each) for each in paths]), **more})


def golden(directory: Path) -> Path:
    """A broker's log directory with the segment that Kafka wrote."""
    shutil.copytree(GOLDEN, directory / f"{SHARE_STATE_TOPIC}-0", ignore=shutil.ignore_patterns("*.json"))
    return directory


def snapshot(group: str, partition: int, *batches: StateBatch, start: int = 0) -> tuple[bytes, bytes]:
    value = ShareSnapshotValue(0, 1, 2, start, -1, 5, 5, list(batches))
    return encode_key(ShareStateKey(SNAPSHOT_TYPE, group, TOPIC_ID, partition)), encode_value(value)


def test_the_states_are_those_of_kafka(tmp_path: Path) -> None:
    story: dict[str, Any] = json.loads((GOLDEN / "story.json").read_text())
    topic_id = bytes.fromhex(story["topic_id"])
    assert share_states(options(golden(tmp_path))) == {
        SharePartition(story["group"], topic_id, told["partition"]): ShareState(
            told["state_epoch"],
            told["leader_epoch"],
            told["start_offset"],
            told["delivery_complete_count"],
            tuple(Batch(*each) for each in told["batches"]),
        )
        for told in story["states"]
    }


def test_groups_partitions_and_tombstones(tmp_path: Path) -> None:
    """Share partitions of one group are in several partitions of the topic: the option for those of the offsets log
    does not apply.
    """
    update = ShareUpdateValue(0, 3, 4, 1, [StateBatch(4, 4, ARCHIVED, 5)])
    write_segment(
        tmp_path / f"{SHARE_STATE_TOPIC}-0",
        0,
        [
            build_batch(
                [
                    snapshot("sharers", 0, StateBatch(0, 9, AVAILABLE, 1)),
                    snapshot("gone", 0),
                    (encode_key(ShareStateKey(UPDATE_TYPE, "sharers", TOPIC_ID, 0)), encode_value(update)),
                    (encode_key(ShareStateKey(SNAPSHOT_TYPE, "gone", TOPIC_ID, 0)), None),
                    (b"\0\7later", b"a type of later releases"),
                ],
                5,
            )
        ],
    )
    write_segment(
        tmp_path / f"{SHARE_STATE_TOPIC}-3",
        0,
        [build_batch([snapshot("sharers", 1, start=7), snapshot("other", 0)], 5)],
    )
    assert share_states(options(tmp_path, groups="sharers,gone", partitions="1")) == {
        SharePartition("sharers", TOPIC_ID, 0): ShareState(
            1, 3, 4, 1, (Batch(4, 4, ARCHIVED, 5), Batch(5, 9, AVAILABLE, 1))
        ),
        SharePartition("sharers", TOPIC_ID, 1): ShareState(1, 2, 7, -1, ()),
    }


def test_a_directory_without_the_topic_has_no_states(tmp_path: Path) -> None:
    write_segment(tmp_path / "__consumer_offsets-0", 0, [])
    assert share_states(options(tmp_path)) == {}


def test_a_damaged_record_is_one_sentence(tmp_path: Path) -> None:
    key, value = snapshot("sharers", 0)
    write_segment(tmp_path / f"{SHARE_STATE_TOPIC}-2", 0, [build_batch([(key, value), (key, value[:-3])], 5)])
    with pytest.raises(SourceError, match=rf"^offset 1 of {SHARE_STATE_TOPIC}-2 cannot be decoded: "):
        share_states(options(tmp_path))


def pairs() -> list[tuple[bytes, bytes | None]]:
    """Kafka's own records, and three hundred others: snapshots, updates and tombstones."""
    from tests.coordination.share.coordinator.test_golden import golden as kafkas

    chance, found = random.Random(5), list[tuple[bytes, bytes | None]](kafkas())
    for _ in range(300):
        batches = [
            StateBatch(
                chance.randrange(1 << 40), chance.randrange(1 << 40), chance.choice((0, 2, 4)), chance.randrange(9)
            )
            for _ in range(chance.randrange(5))
        ]
        epoch, start, done = chance.randrange(-1, 9), chance.randrange(-1, 1 << 40), chance.randrange(-1, 9)
        kind = chance.choice((SNAPSHOT_TYPE, UPDATE_TYPE))
        value: ShareSnapshotValue | ShareUpdateValue = ShareUpdateValue(7, epoch, start, done, batches)
        if kind == SNAPSHOT_TYPE:
            value = ShareSnapshotValue(6, epoch + 1, epoch, start, done, 1_000, 2_000, batches)
        key = ShareStateKey(kind, chance.choice(("sharers", "gr\u00fcn")), chance.randbytes(16), chance.randrange(3))
        found.append(
            (encode_key(key), None if kind == SNAPSHOT_TYPE and chance.random() < 0.2 else encode_value(value))
        )
    return found


@pytest.mark.reference
def test_kafkas_formatter_prints_the_same_records(kafka_libs: Path, tmp_path: Path) -> None:
    from kafka import KafkaProducer

    from tests.reference import broker as reference

    written = pairs()
    write_segment(tmp_path / "ours" / f"{SHARE_STATE_TOPIC}-0", 0, [build_batch(written, 5)])
    ours = [printed(place, value) for place, value, _time_ms in state_records(options(tmp_path / "ours"), {}, str)]
    with reference.running_broker(kafka_libs, tmp_path / "kafka") as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        sent = [producer.send("copy", key=key, value=value, partition=0) for key, value in written]
        for each in sent:
            each.get(timeout=30)
        producer.close()
        theirs = formatted(broker, "copy", len(written))
    assert ours == theirs


@pytest.mark.reference
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", ["4.2.0", "4.3.0"])
def test_earlier_releases_write_the_same_records(version: str, kafka_libs: Path, tmp_path: Path) -> None:
    """Kafka's console share consumer accepts, releases and rejects records on a broker of that release: our reader of
    its directory, its own formatter and its share coordinator agree.
    """
    from tests.reference import broker as reference
    from tests.reference import capture_share_state as capture
    from tests.reference import share_story

    with reference.running_broker(reference.kafka_libs(version), tmp_path, capture.SETTINGS) as broker:
        topic_id = asyncio.run(capture.prepare(broker.port))
        for _output in capture.consume(broker):
            pass
        source = options(broker.data_dir)

        def ours() -> dict[int, list[tuple[int, ...]]]:
            states = share_states(source)
            return {place.partition: [tuple(batch) for batch in state.batches] for place, state in states.items()}

        def theirs() -> dict[int, list[tuple[int, ...]]]:
            numbers = range(capture.PARTITIONS)
            return {each: [*share_story.stored(broker.port, capture.GROUP, capture.TOPIC, each)] for each in numbers}

        wait_until(lambda: ours() == theirs(), "what the last consumer has released", seen=lambda: (ours(), theirs()))
        assert all(each.delivery_complete_count >= 0 for each in share_states(source).values()), "as of KIP-1226"
        records = [printed(place, value) for place, value, _time_ms in state_records(source, {}, str)]
        assert records == formatted(broker, SHARE_STATE_TOPIC, len(records))
    assert {each["key"]["type"] for each in records} == {SNAPSHOT_TYPE, UPDATE_TYPE}
    assert {each["key"]["data"]["topicId"] for each in records} == {printed_id(topic_id)}


def printed_id(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def formatted(broker: Any, topic: str, count: int) -> list[dict[str, Any]]:
    """The first records of a topic, as the broker's release of Kafka prints them."""
    text = broker.tool(
        "ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "60000",
        "--formatter", "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter",
    )  # fmt: skip
    found, at = [], text.index("{")
    while at < len(text) and text[at] == "{":  # one after the other, without a line's end
        each, at = json.JSONDecoder().raw_decode(text, at)
        found.append(each)
    return found


def printed(place: SharePartition, value: ShareSnapshotValue | ShareUpdateValue | None) -> dict[str, Any]:
    """The record as Kafka's formatter prints it."""
    is_update = isinstance(value, ShareUpdateValue)
    key = {
        "type": UPDATE_TYPE if is_update else SNAPSHOT_TYPE,
        "data": {"groupId": place.group_id, "topicId": printed_id(place.topic_id), "partition": place.partition},
    }
    if value is None:
        return {"key": key, "value": None}
    data: dict[str, Any] = {"snapshotEpoch": value.snapshot_epoch}
    if isinstance(value, ShareSnapshotValue):
        data["stateEpoch"] = value.state_epoch
    data |= {"leaderEpoch": value.leader_epoch, "startOffset": value.start_offset}
    if value.delivery_complete_count != -1:  # a tagged field, which Kafka prints unless it has its default
        data["deliveryCompleteCount"] = value.delivery_complete_count
    if isinstance(value, ShareSnapshotValue):
        data |= {"createTimestamp": value.create_timestamp, "writeTimestamp": value.write_timestamp}
    data["stateBatches"] = [
        {
            "firstOffset": each.first_offset,
            "lastOffset": each.last_offset,
            "deliveryState": each.delivery_state,
            "deliveryCount": each.delivery_count,
        }
        for each in value.state_batches
    ]
    return {"key": key, "value": {"version": 0, "data": data}}
