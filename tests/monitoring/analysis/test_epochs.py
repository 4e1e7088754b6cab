"""Epochs of groups of the consumer protocol: what each cause leaves in the log, and when all members have followed."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.monitoring.analysis.consumer_group import (
    AWAY,
    CURRENT,
    MEMBER,
    METADATA,
    PARTITION_METADATA,
    STABLE,
    TARGET,
    TARGET_MEMBER,
    UNREVOKED,
)
from coordinatord.monitoring.analysis.epoch_rebalances import (
    ASSIGNOR_CHANGED,
    epoch_rebalances,
)
from coordinatord.monitoring.analysis.generations import NO_COMMITS, Commits
from coordinatord.monitoring.analysis.group_epochs import epochs, generations
from coordinatord.monitoring.analysis.members import STORM, ZOMBIE, events, lives
from coordinatord.monitoring.analysis.rebalances import Rebalance
from kafka_wire.records.rebalance_ledger import Why

START_MS = 1_700_000_000_000
NAMES = {"T": "t"}


class Group:
    """Writes rows, as the coordinator does."""

    def __init__(self, epoch: int = 1) -> None:
        self.now_ms = START_MS
        self.epoch = epoch
        self.rows: list[tuple[str, dict[str, Any]]] = []

    def write(self, kind: str, gone: bool = False, **row: Any) -> None:
        self.rows.append((kind, {"timestamp_ms": self.now_ms, "tombstone": gone, **row}))

    def wait(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)

    def member(self, member_id: str, **fields: Any) -> None:
        row = {"client_id": f"c-{member_id}", "client_host": "/h", "subscribed_topic_names": ["t"]}
        self.write(MEMBER, member_id=member_id, **(row | {"rebalance_timeout_ms": 300_000} | fields))

    def bump(self, metadata_hash: int = 7) -> None:
        self.epoch += 1
        self.write(METADATA, epoch=self.epoch, metadata_hash=metadata_hash)

    def target(self, **partitions: list[int]) -> None:
        for member_id, numbers in partitions.items():
            self.write(TARGET_MEMBER, member_id=member_id, topic_partitions=_of(numbers))
        self.write(TARGET, assignment_epoch=self.epoch)

    def has(self, member_id: str, numbers: list[int], state: int = STABLE, epoch: int | None = None) -> None:
        at = self.epoch if epoch is None else epoch
        self.write(CURRENT, member_id=member_id, member_epoch=at, state=state, assigned_partitions=_of(numbers))

    def gone(self, member_id: str) -> None:
        for kind in (CURRENT, TARGET_MEMBER, MEMBER):
            self.write(kind, gone=True, member_id=member_id)

    def told(self, commits: Commits = NO_COMMITS) -> list[Rebalance]:
        return list(epoch_rebalances(epochs(self.rows, NAMES), commits))


def _of(numbers: list[int]) -> list[dict[str, Any]]:
    return [{"topic_id": "T", "partitions": numbers}] if numbers else []


def went(group: Group, session_ms: int, commits: Commits) -> tuple[str | None, float | None, str | None]:
    """How it is told of a member that is gone now; and how its life ended."""
    told = list(epoch_rebalances(epochs(group.rows, NAMES, session_ms), commits))[-1]
    found = [each.end for each in lives(list(generations(epochs(group.rows, NAMES, session_ms))), commits)]
    return told.trigger, told.confidence, next(end for end in found if end is not None)


def two_members() -> Group:
    """Epoch 3, two partitions each, ten minutes old."""
    group = Group()
    group.member("a")
    group.bump()
    group.target(a=[0, 1, 2, 3])
    group.has("a", [0, 1, 2, 3])
    group.wait(60)
    group.member("b")
    group.bump()
    group.target(a=[0, 1], b=[2, 3])
    group.has("b", [], 2)
    group.wait(2)
    group.has("a", [0, 1], UNREVOKED, epoch=2)
    group.wait(3)
    group.has("a", [0, 1])
    group.wait(4)
    group.has("b", [2, 3])
    group.wait(600)
    return group


def test_an_epoch_is_over_when_each_member_has_what_it_shall_have() -> None:
    first, second = two_members().told()
    assert (first.initial, first.generation_before, first.generation, first.outcome) == (True, 1, 2, "completed")
    assert (second.began_ms, second.joined_ms) == (START_MS + 60_000, START_MS + 60_000)
    assert second.ended_ms == START_MS + 69_000
    assert (second.partitions_before, second.partitions_moved, second.stickiness) == (4, 2, 0.5)
    assert (second.members_before, second.members, second.added, second.kept) == (1, 2, 1, 1)


def test_the_next_epoch_supersedes_one_that_is_not_over_and_the_last_one_may_go_on() -> None:
    group = two_members()
    group.member("c")
    group.bump()
    group.target(a=[0], b=[2, 3], c=[1])
    group.wait(5)
    group.member("d")
    group.bump()
    third, fourth = group.told()[2:]
    assert (third.outcome, third.partitions_moved) == ("superseded", 1)
    assert third.ended_ms == fourth.began_ms
    assert (fourth.outcome, fourth.ended_ms, fourth.joined_ms) == ("reconciling", None, None)
    assert fourth.partitions_moved is None, "no target was made yet"
    assert fourth.added == 1


@pytest.mark.parametrize(
    ("commits_until", "trigger"),
    [pytest.param(599, Why.MEMBER_LEFT, id="a moment ago"), pytest.param(550, Why.SESSION_EXPIRED, id="a session ago")],
)
def test_one_that_left_and_one_that_was_given_up(commits_until: int, trigger: str) -> None:
    group = two_members()
    times = [START_MS + 69_000 + 1000 * second for second in range(commits_until)]
    group.gone("b")
    group.bump()
    told = group.told(Commits({("t", 2): times, ("t", 3): times}))[-1]
    assert (told.trigger, told.trigger_client_id) == (trigger, "c-b")
    assert told.confidence is not None
    assert told.confidence >= 0.8


def test_a_heartbeat_that_brought_an_assignment_is_a_sign_of_life() -> None:
    """It has never committed; but ten seconds ago it took what it was given, so that its session cannot have ended."""
    group = two_members()
    group.has("b", [2, 3])
    group.wait(10)
    group.gone("b")
    group.bump()
    assert (group.told()[-1].trigger, group.told()[-1].confidence) == (Why.MEMBER_LEFT, 0.97)


def test_who_never_commits_may_have_gone_either_way() -> None:
    group = two_members()
    group.gone("b")
    group.bump()
    assert group.told()[-1].confidence == 0.5


def test_who_commits_less_often_than_its_session_lasts_may_have_gone_either_way() -> None:
    group = two_members()
    times = [START_MS + 69_000 + 60_000 * minute for minute in range(10)]
    group.gone("b")
    group.bump()
    assert group.told(Commits({("t", 2): times}))[-1].confidence == 0.5


@pytest.mark.parametrize(
    ("rhythm_ms", "silence_ms", "trigger", "sure"),
    [
        pytest.param(1_200, 6_700, Why.SESSION_EXPIRED, 0.95, id="killed"),
        pytest.param(1_200, 1_300, Why.MEMBER_LEFT, 0.5, id="not longer than usual"),
        pytest.param(5_000, 5_400, Why.MEMBER_LEFT, 0.5, id="not longer than usual, and almost a session"),
        pytest.param(5_000, 6_700, Why.SESSION_EXPIRED, 0.8, id="a third longer than usual"),
        pytest.param(9_000, 8_000, Why.MEMBER_LEFT, 0.5, id="a rhythm longer than its session"),
        pytest.param(9_000, 24_000, Why.SESSION_EXPIRED, 0.8, id="two commits are missing"),
        pytest.param(1_200, 900, Why.MEMBER_LEFT, 0.97, id="a moment ago"),
    ],
)
def test_short_sessions(rhythm_ms: int, silence_ms: int, trigger: str, sure: float) -> None:
    """Whether a member was as silent as usual depends on how silent it was, not on how long a session lasts."""
    group = two_members()
    last_ms = group.now_ms - silence_ms
    group.gone("b")
    group.bump()
    commits = Commits({("t", 2): [last_ms - rhythm_ms * back for back in range(20, -1, -1)]})
    told = went(group, 6_000, commits)
    assert told[:2] == (trigger, sure)
    if sure > 0.9:
        assert told[2] == {Why.SESSION_EXPIRED: "expired", Why.MEMBER_LEFT: "left"}[trigger]


@pytest.mark.parametrize(("silence_s", "end"), [(39, "left"), (40.5, "expired"), (43, "expired"), (46, "expired")])
def test_a_member_that_committed_after_its_last_heartbeat(silence_s: float, end: str) -> None:
    """By default heartbeats of the consumer protocol are five seconds apart, and a session lasts 45."""
    group = two_members()
    group.wait(60)
    last_ms = group.now_ms - round(1_000 * silence_s)
    group.gone("b")
    group.bump()
    told = went(group, 45_000, Commits({("t", 2): [last_ms - 5_000 * back for back in range(10, -1, -1)]}))
    assert (told[0], told[2]) == ({"expired": Why.SESSION_EXPIRED, "left": Why.MEMBER_LEFT}[end], end)


def test_who_never_commits_and_was_silent_for_a_part_of_a_short_session() -> None:
    """It has just been given what it has; that is not about as long as its session lasts."""
    for silence_s, sure in ((2, 0.5), (7, 0.7), (13, 0.5)):
        group = two_members()
        group.has("b", [2, 3])
        group.wait(silence_s)
        group.gone("b")
        group.bump()
        assert went(group, 6_000, NO_COMMITS)[:2] == (Why.SESSION_EXPIRED, sure)


def test_one_that_did_not_give_up_its_partitions() -> None:
    group = two_members()
    group.member("c")
    group.bump()
    group.target(a=[0, 1], b=[2], c=[3])
    group.has("b", [2], UNREVOKED, epoch=group.epoch - 1)
    group.wait(300.2)
    group.gone("b")
    group.bump()
    assert (group.told()[-1].trigger, group.told()[-1].trigger_client_id) == (Why.NOT_REVOKED, "c-b")


def test_other_topics_where_the_log_lists_them() -> None:
    """Until Kafka 4.0, which has no hash."""
    group = Group()

    def topics(count: int) -> None:
        listed = [{"topic_id": "T", "topic_name": "t", "num_partitions": count, "partition_metadata": []}]
        group.write(PARTITION_METADATA, topics=listed)

    group.member("a")
    topics(1)
    group.bump(0)
    topics(3)
    group.bump(0)
    assert (group.told()[-1].trigger, group.told()[-1].cause) == (Why.TOPICS_CHANGED, "t has 3 partitions, and had 1")


def test_a_hash_that_was_not_there_before_is_the_coordinators_upgrade() -> None:
    group = two_members()
    for kind, row in group.rows:
        if kind == METADATA:
            row["metadata_hash"] = 0
    group.bump(metadata_hash=9)
    assert (group.told()[-1].trigger, group.told()[-1].confidence) == (Why.TOPICS_CHANGED, 0.5)


def test_another_assignor() -> None:
    group = two_members()
    group.member("b", server_assignor="range")
    group.bump()
    told = group.told()[-1]
    assert (told.trigger, told.protocol) == (ASSIGNOR_CHANGED, "range")


def test_nothing_is_said_of_an_epoch_of_which_nothing_is_known() -> None:
    group = two_members()
    group.bump()
    assert (group.told()[-1].trigger, group.told()[-1].confidence) == (None, None)
    cleaned = Group(epoch=41)
    cleaned.member("a")
    cleaned.bump()
    (told,) = cleaned.told()
    assert (told.trigger, told.generation_before) == (None, None)
    assert (told.added, told.removed, told.kept, told.members) == (None, None, None, 1), "a may have been there"


def test_a_member_whose_first_subscription_the_cleaner_took_is_not_new() -> None:
    """It wrote another one, with a new address, that came to lie behind what it was assigned."""
    group = two_members()
    group.member("b", client_host="/other")
    where = next(at for at, (kind, row) in enumerate(group.rows) if kind == MEMBER and row["member_id"] == "b")
    del group.rows[where]
    group.bump()
    told = group.told()
    assert (told[-1].trigger, told[-1].added, told[-1].members) == (None, 0, 2)
    last = list(generations(epochs(group.rows, NAMES)))[-1]
    assert last is not None
    assert last.members["b"].assigned == {("t", 2), ("t", 3)}


def test_a_group_that_came_from_the_classic_protocol() -> None:
    """The generation is logged as the epoch first, which is not a rise."""
    group = Group(epoch=15)
    group.member("a", classic_member_metadata={"session_timeout_ms": 30_000, "supported_protocols": []})
    group.bump()
    group.target(a=[0])
    group.has("a", [0])
    group.member("b")
    group.bump()
    (told,) = group.told()
    assert (told.trigger, told.trigger_client_id, told.generation) == (Why.CONVERTED, "c-b", 17)
    assert (told.generation_before, told.members_before, told.added) == (16, 1, 1)


def test_a_static_member_that_restarts_takes_what_it_had_and_raises_no_epoch() -> None:
    group = Group()
    group.member("a-1", instance_id="a")
    group.bump()
    group.target(**{"a-1": [0]})
    group.has("a-1", [0])
    group.wait(100)
    group.has("a-1", [0], epoch=AWAY)
    group.wait(5)
    group.gone("a-1")
    group.member("a-2", instance_id="a")
    group.write(TARGET_MEMBER, member_id="a-2", topic_partitions=_of([0]))
    group.has("a-2", [0])
    group.wait(100)
    group.member("b")
    group.bump()
    group.target(**{"a-2": [0], "b": []})
    _first, second = group.told()
    assert (second.trigger, second.added, second.removed, second.stickiness) == ("new member", 1, 0, 1.0)
    log = list(generations(epochs(group.rows, NAMES)))
    assert [each.number for each in log if each is not None] == [2, 2, 3]
    one, other, _b = lives(log, NO_COMMITS)
    assert (one.end, one.until_ms, other.since_ms) == ("replaced", START_MS + 105_000, START_MS + 105_000)


def test_the_ledger_tells_causes_where_there_is_one() -> None:
    """Its records of the rest of an epoch do not; those of epochs that the log has lost have rows of their own."""

    def record(epoch: int, began_ms: int, kind: str, member_id: str, **more: Any) -> dict[str, Any]:
        trigger = {"kind": kind, "text": f"{member_id} did it", "member_id": member_id}
        counts = dict.fromkeys(("members_before", "members_after", "added", "removed"), 1)
        times = {"began_ms": began_ms, "joined_ms": None, "assigned_ms": began_ms + 7, "ended_ms": began_ms + 9}
        rest = {"initial": False, "protocol": "uniform", "leader": None, "outcome": "completed", "dropped": []}
        lists = {"rejoined": [], "members": [{"member_id": "a", "client_id": "told-a"}]}
        numbers = {"generation_before": epoch - 1, "generation_after": epoch}
        return {"trigger": trigger, **counts, **times, **rest, **lists, **numbers, **more}

    group = two_members()
    group.gone("b")
    group.bump()
    ledger = [
        record(4, group.now_ms + 3, Why.SESSION_EXPIRED, "b"),
        record(3, START_MS + 60_000, Why.LOADED, "", resumed=True),
        record(2, START_MS - 3_600_000, Why.NEW_MEMBER, "a"),
    ]
    rows = list(epoch_rebalances(epochs(group.rows, NAMES), NO_COMMITS, ledger))
    assert [(row.generation, row.how, row.trigger, row.trigger_client_id) for row in rows] == [
        (2, "inferred", Why.NEW_MEMBER, "c-a"),
        (3, "inferred", Why.NEW_MEMBER, "c-b"),
        (4, "observed", Why.SESSION_EXPIRED, "c-b"),
        (2, "observed", Why.NEW_MEMBER, "told-a"),
    ]
    assert (rows[2].cause, rows[2].confidence, rows[2].began_ms) == ("b did it", 1.0, group.now_ms)
    assert (rows[3].joined_ms, rows[3].group_type) == (START_MS - 3_600_000 + 7, "consumer")


def test_what_members_do_together_is_found_as_in_classic_groups() -> None:
    """One comes and goes six times; a static one has partitions, and has not committed for long."""
    group = Group()
    group.member("z", instance_id="z")
    group.bump()
    group.target(z=[0])
    group.has("z", [0])
    for _ in range(6):
        group.wait(20)
        group.member("x")
        group.bump()
        group.wait(20)
        group.gone("x")
        group.bump()
    group.member("y")
    group.bump()
    group.target(z=[0], y=[1])
    commits = Commits({("t", 1): [group.now_ms + 1000 * second for second in range(400)]})
    log = list(generations(epochs(group.rows, NAMES)))
    assert {each.kind for each in events(lives(log, commits), log, commits)} >= {STORM, ZOMBIE, "crash loop"}


def test_a_group_that_was_deleted_begins_anew() -> None:
    group = two_members()
    group.gone("a")
    group.bump()
    group.gone("b")
    group.bump()
    group.write(METADATA, gone=True)
    group.epoch = 1
    group.member("c")
    group.bump()
    told = group.told()
    assert [row.outcome for row in told[-3:]] == ["superseded", "empty", "reconciling"]
    assert (told[-1].generation, told[-1].initial) == (2, True)


def test_commits_of_what_moved_that_came_late() -> None:
    group = two_members()
    group.member("c")
    group.bump()
    moved_ms = group.now_ms
    group.target(a=[0, 1], b=[2], c=[3])
    group.wait(20)
    for member_id, numbers in {"a": [0, 1], "b": [2], "c": [3]}.items():
        group.has(member_id, numbers)
    steady = [moved_ms + 1000 * second for second in range(-60, 60)]
    late = [at for at in steady if not moved_ms < at < moved_ms + 15_000]
    told = group.told(Commits({("t", 2): steady, ("t", 3): late}))[-1]
    assert (told.partitions_moved, told.missed_commit_ms) == (1, 14_000)
