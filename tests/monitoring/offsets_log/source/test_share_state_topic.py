"""The state of share partitions from `__share_group_state`: Kafka's segment, and others."""

from __future__ import annotations

import json
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
