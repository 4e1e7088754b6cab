"""`__share_group_state` in an exchange: imported from a broker, served, and exported, byte for byte."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from coordinatord.broker.topics.names import SHARE_TOPIC
from coordinatord.coordination.share.coordinator.state import SharePartitionState
from coordinatord.server.exchange.kafka_metadata import KafkaTopic, Replica, topic_records
from tests.reference.capture_share_state import GOLDEN
from tests.reference.in_process import run as run_in_virtual_time
from tests.reference.in_process import running_in_process
from tests.server.exchange.world import DIRECTORY_ID, FIRST_SEGMENT, cluster_records, formatted, kafka, partition, run

SHARE_ID = b"share".ljust(16, b".")
SHARE = {"group.coordinator.rebalance.protocols": "classic,consumer,share"}
STORY = json.loads((GOLDEN / "story.json").read_text())


def test_the_state_of_share_groups_is_taken_along(tmp_path: Path) -> None:
    topics = topic_records([(KafkaTopic(SHARE_TOPIC, SHARE_ID, {0: 4}), {})], Replica(3, DIRECTORY_ID, elr=True))
    source, ours = kafka(tmp_path / "kafka", records=[*cluster_records(), *topics]), tmp_path / "ours"
    golden = (GOLDEN / FIRST_SEGMENT).read_bytes()
    partition(source, "__share_group_state-0", SHARE_ID, golden)
    code, _, said = run("import", source, "--data-dir", ours)
    assert code == 0, said
    assert (ours / "__share_group_state-0" / FIRST_SEGMENT).read_bytes() == golden

    async def served() -> list[SharePartitionState]:
        async with running_in_process(ours, SHARE) as process:
            assert process.daemon.share is not None
            await asyncio.sleep(1)  # of virtual time, which passes when everything is loaded
            return [each.stored for each in process.daemon.share.coordinator.actors.values()]

    # The story's topic is not in this cluster, but its states are loaded.
    found = {each.partition: each for each in run_in_virtual_time(served())}
    assert {index: [list(each) for each in state.batches] for index, state in found.items()} == {
        each["partition"]: each["batches"] for each in STORY["states"]
    }

    broker = formatted(tmp_path / "broker", node_id="7")
    code, _, said = run("export", broker, "--data-dir", ours)
    assert code == 0, said
    assert (broker / "__share_group_state-0" / FIRST_SEGMENT).read_bytes() == golden
