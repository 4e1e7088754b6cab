"""A group of the consumer protocol on Kafka 4.3, of which a script knows what happened: the pipeline tells the same
from the log alone, and who had what is what Kafka's own tool said at the time.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.analysis.consumer_group import CONSUMER_KINDS, ConsumerGroup
from coordinatord.monitoring.analysis.epoch_rebalances import epoch_rebalances
from coordinatord.monitoring.analysis.generations import Commits
from coordinatord.monitoring.analysis.group_epochs import epochs, generations
from coordinatord.monitoring.analysis.members import EXPIRED, LEFT, REPLACED, lives
from coordinatord.monitoring.offsets_log.source.topic_names import names_in_directories
from tests.monitoring.offsets_log.source.test_kafka_segments import rows_in
from tests.monitoring.pipeline.epochs_story import GROUP, OVERRIDES, SESSION_MS, Step, Story, play

GOLDEN = Path(__file__).parents[2] / "golden" / "consumer_group"


class Log:
    """The rows of the story's group in a log directory."""

    def __init__(self, directory: Path) -> None:
        rows = rows_in(directory)
        found = ((kind, row) for kind in CONSUMER_KINDS for row in rows.get(kind, ()) if row["group_id"] == GROUP)
        self.rows = sorted(found, key=lambda each: each[1]["log_offset"])
        times: dict[tuple[str, int], list[int]] = {}
        for row in rows["offset_commits"]:
            if row["group_id"] == GROUP and not row["tombstone"]:
                times.setdefault((row["topic"], row["partition"]), []).append(row["commit_timestamp_ms"])
        self.commits = Commits(times)

    def at(self, at_ms: int, names: dict[str, str]) -> ConsumerGroup:
        group = ConsumerGroup(names)
        for kind, row in self.rows:
            if row["timestamp_ms"] <= at_ms:
                group.apply(kind, row)
        return group


def check(log: Log, story: Story, names: dict[str, str]) -> None:
    """All that is known of the story is found in the log."""
    found = epochs(log.rows, names, SESSION_MS)
    told = list(epoch_rebalances(found, log.commits))
    steps = [step for step in story.steps if step.trigger is not None]
    assert [(row.trigger, row.trigger_client_id) for row in told] == [(step.trigger, step.client) for step in steps]
    for row, step in zip(told, steps, strict=True):
        after = next((each.began_ms for each in story.steps if each.began_ms > step.began_ms), 1 << 62)
        assert row.began_ms is not None
        assert step.began_ms - 50 <= row.began_ms <= after, step.what
        assert row.confidence is not None
        # How sure it is of a session's end depends on when the last commit was, which a busy machine delays.
        assert row.confidence >= (0.8 if step.trigger == "session expired" else 0.9)
    assert [row.generation for row in told] == list(range(2, 2 + len(told)))
    assert [(row.added, row.removed) for row in told] == [_came_and_went(step) for step in steps]
    assert {row.outcome for row in told[:-1]} <= {"completed", "superseded"}
    for row, following in pairwise(told):
        assert row.outcome == "completed" or row.ended_ms == following.began_ms
        assert row.outcome == "superseded" or row.joined_ms is not None
    assert told[-1].outcome == "empty"
    grown = next(row for row in told if row.trigger == "topics changed")
    assert "orders-4, orders-5" in grown.cause
    assert grown.partitions_moved == 0

    assert len(story.members) == 3
    for at_ms, owners in story.members:
        group = log.at(at_ms, names)
        ours = {each.client_id: {tuple(place) for place in owners[each.client_id]} for each in group.members.values()}
        assert ours == {each.client_id: each.assigned for each in group.members.values()}
        assert ours.keys() == owners.keys()
        assert group.reached == len(owners)

    ends = {"a": [LEFT], "b": [REPLACED, EXPIRED], "doomed": [EXPIRED], "d": [LEFT]}
    seen: dict[str, list[str | None]] = {}
    for life in lives(list(generations(found)), log.commits):
        seen.setdefault(life.client_id, []).append(life.end)
    assert seen == ends


def _came_and_went(step: Step) -> tuple[int, int]:
    return int(step.trigger == "new member"), int(step.trigger in ("member left", "session expired"))


def golden_story() -> Story:
    told: dict[str, Any] = json.loads((GOLDEN / "story.json").read_text())
    return Story([Step(**step) for step in told["steps"]], told["members"], told["topic_ids"])


def test_the_golden_story() -> None:
    story = golden_story()
    check(Log(GOLDEN), story, story.topic_ids)


def test_a_topic_of_which_nobody_knows_the_name_is_shown_as_its_id() -> None:
    story, log = golden_story(), Log(GOLDEN)
    known = {topic_id: name for topic_id, name in story.topic_ids.items() if name != "payments"}
    (unknown,) = story.topic_ids.keys() - known.keys()
    at_ms, owners = story.members[1]
    assigned = {place for member in log.at(at_ms, known).members.values() for place in member.assigned}
    wanted = {tuple(place) for each in owners.values() for place in each}
    assert ("payments", 0) in wanted
    assert assigned == {(unknown if topic == "payments" else topic, number) for topic, number in wanted}


@pytest.mark.reference
def test_the_story_on_kafka(kafka_libs: Path, tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    from tests.reference.broker import running_broker

    with running_broker(kafka_libs, tmp_path, OVERRIDES) as broker:
        story = play(broker)
        broker.stop()
        names = names_in_directories([str(broker.data_dir)])
        assert names.items() >= story.topic_ids.items()
        assert set(story.topic_ids.values()) == {"orders", "payments", "payments-eu"}
        check(Log(broker.data_dir), story, names)
