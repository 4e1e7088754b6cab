"""What a daemon has when strangers come: topics, groups with offsets, one group with members."""

from __future__ import annotations

from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.hostile.largest import Known
from tests.hostile.turns import Measured

TOPICS, PARTITIONS, GROUPS = 200, 3, 50


def populate(daemon: Measured) -> Known:
    """Make them. Returns what requests can name."""
    peer = daemon.peer()
    names = [f"t{number:03d}" for number in range(TOPICS)]
    made = peer.ask(CreateTopicsRequest([CreatableTopic(name, PARTITIONS, 1) for name in names], timeout_ms=10_000), 5)
    assert not any(each.error_code for each in made.topics)
    ids = {each.name: each.topic_id for each in peer.ask(MetadataRequest(None), 12).topics}
    groups = [f"g{number:03d}" for number in range(GROUPS)]
    for group in groups:
        topics = [
            OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, 5, -1, "here")])
            for name in names
        ]
        peer.ask(OffsetCommitRequest(group, topics=topics), 8)
    peer.close()
    return Known(names, [ids[name] for name in names], groups)
