"""What the exporter makes of a log that comes in pieces, beside models that know what happened."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coordinatord.monitoring.analysis.consumer_group import UNREVOKED
from coordinatord.monitoring.analysis.ends import Open, Tail
from coordinatord.monitoring.analysis.epoch_rebalances import epoch_rebalances
from coordinatord.monitoring.analysis.group_epochs import epochs, generations
from coordinatord.monitoring.analysis.history import CAUSE, History
from coordinatord.monitoring.analysis.members import lives
from coordinatord.monitoring.analysis.offset_timeline import Point
from coordinatord.monitoring.dashboard.series import rows
from coordinatord.monitoring.dashboard.view import Limits
from coordinatord.monitoring.exporter.choice import Choice
from coordinatord.monitoring.exporter.reading import Reading, _waiting
from coordinatord.monitoring.offsets_log.lag.fold import KINDS
from coordinatord.monitoring.offsets_log.lag.lag_scan import Looks
from coordinatord.monitoring.offsets_log.source.options import read_options
from kafka_wire.records.batch import build_batch
from kafka_wire.records.offsets import OffsetCommitKey, OffsetCommitValue
from tests.monitoring.analysis.test_epochs import NAMES, two_members
from tests.monitoring.pipeline.directories import write_segment
from tests.monitoring.pipeline.epochs_story import SESSION_MS
from tests.monitoring.pipeline.logs import START_MS, encoded
from tests.monitoring.pipeline.test_kafka_epochs import GOLDEN as GOLDEN_LOG
from tests.monitoring.pipeline.test_kafka_epochs import Log, golden_story
from tests.monitoring.pipeline.truth.compare import differences
from tests.monitoring.pipeline.truth.members import MembersModel
from tests.monitoring.pipeline.truth.test_truth import EVENTS, MEMBERS, REBALANCES, values
from tests.monitoring.pipeline.truth.world import World


def reading(**limits: int) -> Reading:
    return Reading(Choice(room=limits.get("groups")), Choice(), Limits(**limits))


def fill(found: Reading, directory: Path, piece: int) -> None:
    """As fetches bring it: pieces that may end within a batch."""
    for path in sorted(directory.glob("__consumer_offsets-*/*.log")):
        data, offset, at = path.read_bytes(), 0, 0
        number = int(path.parent.name.rpartition("-")[2])
        size = piece
        while at < len(data):
            before = offset
            offset = found.take(number, data[at : at + size], offset)
            if offset == before:
                size *= 2  # a batch larger than the piece
                continue
            at = position(data, offset)
            size = piece


def position(data: bytes, offset: int) -> int:
    """Of the batch that begins with an offset."""
    from kafka_wire.records.batch import iterate_batches

    return next((at for at, header in iterate_batches(data) if header.base_offset >= offset), len(data))


@pytest.fixture(scope="module", params=(2,))
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Path]:
    found = World(request.param)
    directory = tmp_path_factory.mktemp(f"seed-{request.param}")
    found.write(directory)
    return found, directory


@pytest.mark.parametrize("piece", [3_000, 1 << 20])
def test_members_rebalances_and_events(world: tuple[World, Path], piece: int) -> None:
    """All that is told of who came and went is true, in pieces as in one. What the last commits do not tell any more,
    they need not: how much was missed.
    """
    model, found = MembersModel(world[0]), reading()
    found.histories.is_counting = True
    fill(found, world[1], piece)
    view = found.view(world[0].now_ms)
    told: dict[str, list[Any]] = {"members": [], "rebalances": [], "member_events": []}
    for name, group in view.groups.items():
        told["members"] += [values(MEMBERS, name, each) for each in group.lives]
        told["rebalances"] += [values(REBALANCES, name, each) for each in group.rebalances]
        told["member_events"] += [values(EVENTS, name, each) for each in found.histories.of[name].events()]
        assert Counter(each.trigger or "unknown" for each in group.rebalances) == Counter(group.causes)
    columns = tuple(name for name in REBALANCES if name != "missed_commit_ms")
    wrong = differences("members", MEMBERS, told["members"], model.members(), MEMBERS[:2])
    right = {key: {name: row[name] for name in columns} for key, row in model.rebalances().items()}
    wrong += differences("rebalances", columns, told["rebalances"], right, ("group_id", "generation"))
    keys = ("group_id", "kind", "began_ms")
    wrong += differences("member_events", EVENTS, told["member_events"], model.member_events(), keys)
    assert not wrong, "\n".join(wrong)


def test_lag_is_that_of_the_command(world: tuple[World, Path]) -> None:
    """The ends are told once, as a broker would; the command gets them as its one look."""
    directory, now_ms = str(world[1]), world[0].now_ms
    found = reading()
    fill(found, world[1], 4_000)
    options = read_options({"paths": json.dumps([directory]), "kinds": ",".join(KINDS)})
    look = Looks(options, directory, {}).look(now_ms)
    bounds = {
        (row.topic, row.partition): (row.log_start_offset or 0, row.end_offset)
        for row in look.rows
        if row.end_offset is not None
    }
    assert set(found.places()) >= bounds.keys()
    found.ended(bounds, now_ms)
    view = found.view(now_ms)
    expected = {row[:3]: row for row in look.rows}
    rows = {row[:3]: row for group in view.groups.values() for row in group.rows}
    assert rows.keys() == expected.keys()
    for key, row in rows.items():
        for name in ("committed_offset", "committed_ms", "moved_ms", "end_offset", "log_start_offset", "lag"):
            assert getattr(row, name) == getattr(expected[key], name), (key, name)
    assert {name: group.members for name, group in view.groups.items() if group.members is not None} == look.members
    assert any(group.rebalances for group in view.groups.values())
    assert not any(group.causes or group.commits for group in view.groups.values()), "of before the start"


def test_a_topic_that_was_made_anew_while_its_group_commits_the_old_offset(tmp_path: Path) -> None:
    """The series of its lag is missing then, as the documents say: it is not zero."""
    records = [
        encoded(1, 3, OffsetCommitKey("g", "reborn", 0), OffsetCommitValue(50, 0, "", START_MS + second * 1000))
        for second in range(70)
    ]
    write_segment(tmp_path / "__consumer_offsets-0", 0, [build_batch(records, START_MS)])
    found = reading()
    fill(found, tmp_path, 1 << 20)
    for second, lag, status in ((30, 0, "ok"), (69, None, "unknown")):
        now_ms = START_MS + second * 1000
        found.ended({("reborn", 0): (0, 12)}, now_ms)
        [row] = found.view(now_ms).groups["g"].rows
        assert (row.committed_offset, row.end_offset, row.lag, row.status) == (50, 12, lag, status)


def test_what_a_broker_says_of_a_partitions_end_is_part_of_the_verdict(tmp_path: Path) -> None:
    """A group that has read all but a marker; one that reads committed records; one that is about to lose some. Earlier
    ends, by the timestamps of records, tell how long records have waited already at the first look.
    """
    records = [
        encoded(1, 3, OffsetCommitKey(group, topic, 0), OffsetCommitValue(offset, 0, "", START_MS + second * 1000))
        for second in range(0, 1_200, 5)
        for group, topic, offset in (("exact", "done", 9), ("patient", "open", 5), ("slow", "short", second // 100))
    ]
    write_segment(tmp_path / "__consumer_offsets-0", 0, [build_batch(records, START_MS)])
    found, now_ms = reading(), START_MS + 1_200_000
    fill(found, tmp_path, 1 << 20)
    bounds = {("done", 0): (0, 10), ("open", 0): (0, 20), ("short", 0): (0, 1_000)}
    earlier = {place: [Point(0, START_MS - 10_000_000), Point(end, START_MS)] for place, (_, end) in bounds.items()}
    assert found.unknown(bounds) == bounds.keys()
    tails = {("done", 0): Tail(9), ("open", 0): Tail(20, 5, 5, Open(7, START_MS))}
    found.ended(bounds, now_ms, tails, {"short": 1_400_000}, earlier)
    groups = found.view(now_ms).groups
    told = {name: group.verdict for name, group in groups.items()}
    assert {name: verdict.word for name, verdict in told.items()} == {
        "exact": "ok", "patient": "waiting", "slow": "near loss",
    }  # fmt: skip
    assert told["patient"].why == "15 unread: it waits for an open transaction of producer 7, open for 1200 s"
    samples = {(name, labels): value for name, labels, value in rows(found.view(now_ms), now_ms)}
    assert samples["kafka_consumergroup_group_lag", ("exact", "done", "0")] == 0
    assert samples["kafka_consumergroup_group_lag_seconds", ("patient", "open", "0")] == 1_200
    assert samples["coordinatord_group_retention_left_seconds", ("slow", "short", "0")] == 200
    assert ("coordinatord_group_retention_left_seconds", ("exact", "done", "0")) not in samples
    found.ended({**bounds, ("short", 0): (500, 1_000)}, now_ms + 1_000)
    lost = found.view(now_ms + 1_000)
    assert lost.groups["slow"].verdict.word == "records lost"
    samples = {(name, labels): value for name, labels, value in rows(lost, now_ms)}
    assert samples["coordinatord_group_lost_records", ("slow", "short", "0")] == 489
    assert samples["coordinatord_group_status", ("slow", "records lost")] == 1


def test_epochs_record_by_record() -> None:
    """The story that Kafka played, of a group of the consumer protocol: as from the whole log."""
    story, log = golden_story(), Log(GOLDEN_LOG)
    whole = epochs(log.rows, story.topic_ids, SESSION_MS)
    expected = list(epoch_rebalances(whole, log.commits))
    history = History(story.topic_ids, SESSION_MS)
    events = [(row["log_offset"], kind, row) for kind, row in log.rows]
    commits = sorted((time, place) for place, times in log.commits.times.items() for time in times)
    for _, kind, row in sorted(events, key=lambda each: each[0]):
        while commits and commits[0][0] <= row["timestamp_ms"]:
            time, place = commits.pop(0)
            history.committed(place, [time])
        history.record(kind, row)
    found = list(history.rebalances)
    names = [name for name in CAUSE if name != "cause"]
    assert [[getattr(row, name) for name in names] for row in found] == [
        [getattr(row, name) for name in names] for row in expected
    ]
    for row, right in zip(found, expected, strict=True):
        for name in ("generation", "outcome", "began_ms", "joined_ms", "ended_ms", "members", "added", "removed",
                     "partitions_moved", "stickiness"):  # fmt: skip
            assert getattr(row, name) == getattr(right, name), (row.generation, name)
    by_id = {life.member_id: life for life in lives(list(generations(whole)), log.commits)}
    assert {life.member_id: (life.since_ms, life.until_ms, life.end) for life in history.lives()} == {
        name: (life.since_ms, life.until_ms, life.end) for name, life in by_id.items()
    }
    assert history.epoch is not None
    assert history.unreached() == []


def test_a_topics_name_is_asked_for_before_its_id_is_used() -> None:
    """A member whose target was read under the topic's id, and its assignment under the name, would never reach its
    epoch. What cannot be named keeps its id, also when somebody could name it later.
    """
    story = golden_story()
    data = next(GOLDEN_LOG.glob("**/*.log")).read_bytes()
    expected = list(
        epoch_rebalances(epochs(Log(GOLDEN_LOG).rows, story.topic_ids, SESSION_MS), Log(GOLDEN_LOG).commits)
    )
    asked: list[int] = []

    def names() -> dict[str, str]:
        asked.append(1)
        return story.topic_ids

    for piece in (len(data), 2_000):
        found = reading()
        found.histories.session_ms, found.histories.topic_names = SESSION_MS, names
        asked.clear()
        at = offset = 0
        while at < len(data):
            before, offset = offset, found.take(0, data[at : at + piece], offset)
            at = position(data, offset) if offset > before else len(data)
        rows = found.view(expected[-1].began_ms or 0).groups["shop"].rebalances
        assert [(row.outcome, row.ended_ms) for row in rows] == [(row.outcome, row.ended_ms) for row in expected]
        assert 1 <= len(asked) <= len(story.topic_ids)
    nameless = reading()
    nameless.take(0, data, 0)
    nameless.histories.topic_names = names
    asked.clear()
    assert nameless.take(0, data, 0) > 0
    assert not asked


def test_what_there_is_no_room_for_is_counted(world: tuple[World, Path]) -> None:
    everything = reading()
    fill(everything, world[1], 1 << 20)
    names = everything.view(world[0].now_ms).groups.keys()
    found = reading(groups=4, partitions=5)
    fill(found, world[1], 1 << 20)
    view = found.view(world[0].now_ms)
    assert len(view.groups) == 4
    assert len(names) - 4 <= view.left_out_groups <= len(world[0].all_groups) - 4
    rows = [row for group in view.groups.values() for row in group.rows]
    assert len(rows) == 5
    assert view.left_out_partitions > 0
    assert len(found.places()) <= 5


def test_expressions_choose() -> None:
    chosen = Choice(allow=("bill.*", "audit"), deny=(".*-test",))
    told = {name: name in chosen for name in ("billing", "audit", "auditor", "bill-test", "shop")}
    assert told == {"billing": True, "audit": True, "auditor": False, "bill-test": False, "shop": False}
    few = Choice(room=1)
    assert ("a" in few, "b" in few, "b" in few, "a" in few, few.left_out) == (True, False, False, True, 1)
    few.keep(set())
    assert ("b" in few, few.left_out) == (True, 0)


def test_members_that_went_do_not_pile_up() -> None:
    """A dynamic member has a new id at each start: of a thousand that were there, the last one tells since when."""
    from coordinatord.monitoring.analysis import consumer_group
    from coordinatord.monitoring.offsets_log.lag.fold import Fold

    fold = Fold(600_000)
    for number in range(1_000):
        for gone in (False, True):
            row = {"group_id": "g", "member_id": str(number), "tombstone": gone, "timestamp_ms": START_MS + number}
            fold._of_consumers(consumer_group.MEMBER, row)
    fold.groups["g"].classic = {}
    fold.forget()
    assert list(fold.groups["g"].consumers) == ["999"]
    assert fold.groups["g"].members.empty_ms == START_MS + 999
    fold.groups["g"].classic = None
    fold.forget()
    assert fold.groups == {}


def test_what_an_open_transaction_may_still_ask_for_is_kept() -> None:
    """It committed an offset that was deleted before its marker came: the deletion stands."""
    from coordinatord.monitoring.offsets_log.lag.fold import Fold
    from coordinatord.monitoring.offsets_log.lag.known import Written

    fold, key = Fold(600_000), ("g", "t", 0)
    fold._open[7] = [Written(key, 20, START_MS, 1)]
    fold._write(Written(key, None, START_MS, 2), START_MS)
    fold.forget()
    fold._end({"producer_id": 7, "marker": "COMMIT", "timestamp_ms": START_MS, "log_offset": 3})
    assert fold.trails == {}
    fold.forget()
    assert fold._effective == {}


def test_records_of_other_kinds_are_not_counted_as_read() -> None:
    """Records of share groups, for example, and ones that nothing can decode."""
    commit = encoded(1, 3, OffsetCommitKey("g", "t", 0), OffsetCommitValue(5, 0, "", START_MS))
    found = reading()
    assert found.take(0, bytes(build_batch([commit, (b"\x00\x63", b"of no known type")], START_MS)), 0) == 2
    assert found.records == 1


def test_members_that_an_epoch_waits_for_have_deadlines_if_they_give_up_partitions() -> None:
    group = two_members()
    group.member("c")
    group.bump()
    group.target(a=[0], b=[2, 3], c=[1])
    group.wait(5)
    group.has("a", [0], UNREVOKED, epoch=3)
    history = History(NAMES)
    for kind, row in group.rows:
        history.record(kind, row)
    waiting, deadlines = _waiting(history)
    assert waiting is not None
    assert waiting["waits_for"] == ["c-a", "c-b", "c-c"]
    assert [(each.who, each.at_ms) for each in deadlines] == [("c-a", group.now_ms + 300_000)]
