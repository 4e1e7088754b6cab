"""Share groups in the exporter's view and series, of a cluster that describes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coordinatord.base.observe.health import Health
from coordinatord.monitoring.admin import share_looks
from coordinatord.monitoring.admin.connection import AdminError
from coordinatord.monitoring.dashboard.series import rows
from coordinatord.monitoring.dashboard.view import GroupView
from coordinatord.monitoring.exporter.choice import Choice
from coordinatord.monitoring.exporter.reading import Reading
from coordinatord.monitoring.exporter.watcher import Watcher
from coordinatord.monitoring.offsets_log.source.segments import SourceError
from coordinatord.monitoring.offsets_log.source.share_state_topic import ShareStates
from coordinatord.testing import Kafka
from kafka_wire.errors import ErrorCode
from tests.server.control.world import TOPIC
from tests.support.waiting import wait_until
from tests.testing.test_share_groups import ACCEPT, GROUP, REJECT, RELEASE, Member, until_fetched


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka(topics={TOPIC: 1}) as started:
        started.put(TOPIC, ["0", "1", "2"])
        started.share_group(GROUP).configure({"share.auto.offset.reset": "earliest"})
        yield started


@pytest.fixture
def watcher(kafka: Kafka) -> Iterator[Watcher]:
    made = Watcher(str(kafka.bootstrap_servers), {}, Reading(Choice(), Choice()), Health(), interval_s=0.05)
    made.start()
    yield made
    made.stop()


def group_of(watcher: Watcher) -> GroupView | None:
    return None if watcher.view is None else watcher.view.groups.get(GROUP)


def lag_of(watcher: Watcher) -> int | None:
    group = group_of(watcher)
    return None if group is None or group.now is None else group.now.lag


def test_the_lag_of_a_share_group(kafka: Kafka, watcher: Watcher) -> None:
    member = Member(kafka, "picker")
    until_fetched(member, kafka.share_group(GROUP))
    # The start offset is stored with the first acknowledgement: before it the cluster has no offset, and no lag.
    assert member.acknowledge(1, 1, ACCEPT) is ErrorCode.NONE
    wait_until(lambda: lag_of(watcher) == 2, "the exporter to see the acknowledgement behind the start offset")
    group, view = group_of(watcher), watcher.view
    assert group is not None
    assert view is not None
    assert (group.group_type, group.members, group.rows[0].committed_offset) == ("share", 1, 0)
    samples = {(name, labels): value for name, labels, value in rows(view, view.at_ms)}
    assert samples["coordinatord_group_info", (GROUP, "share")] == 1
    assert samples["kafka_consumergroup_group_lag", (GROUP, TOPIC, "0")] == 2
    assert samples["kafka_consumergroup_group_sum_lag", (GROUP,)] == 2
    assert samples["kminion_kafka_consumer_group_members", (GROUP,)] == 1
    assert samples["coordinatord_group_status", (GROUP, "behind")] == 1
    kafka.share_group(GROUP).kick("picker")
    wait_until(lambda: (found := group_of(watcher)) is not None and found.members == 0, "the member to have gone")


def test_deliveries_of_a_share_group(kafka: Kafka, watcher: Watcher) -> None:
    """Redeliveries and archived records are counted from the log, since the watcher started; a record near the limit of
    the group is named by the verdict.
    """
    share = kafka.share_group(GROUP)
    share.configure({"share.delivery.count.limit": "4"})
    member = Member(kafka, "picker")
    until_fetched(member, share)
    assert member.acknowledge(2, 2, REJECT) is ErrorCode.NONE
    wait_until(lambda: lag_of(watcher) == 2, "the exporter to see the rejected record")

    def counted() -> tuple[int | None, int | None]:
        group = group_of(watcher)
        return (None, None) if group is None else (group.redelivered, group.archived)

    before = counted()
    assert before[1] in (0, 1), "1 if the exporter had read the log before"
    for count in (2, 3):
        assert member.acknowledge(1, 1, RELEASE) is ErrorCode.NONE
        assert member.fetch() == [(1, 1, count)]
    assert member.acknowledge(1, 1, RELEASE) is ErrorCode.NONE
    assert member.acknowledge(0, 0, REJECT) is ErrorCode.NONE
    wait_until(lambda: (counted(), lag_of(watcher)) == ((2, (before[1] or 0) + 1), 1), "two redeliveries", seen=counted)
    view = watcher.view
    assert view is not None
    samples = {(name, labels): value for name, labels, value in rows(view, view.at_ms)}
    place = (GROUP, TOPIC, "0")
    assert samples["coordinatord_share_group_done_records", place] == 2, "the stored start offset is still 0"
    changed_s = samples["coordinatord_share_group_state_changed_timestamp_seconds", place]
    # Record 1 is the oldest one that is not acknowledged, and was put before its last delivery was stored.
    assert samples["kafka_consumergroup_group_lag_seconds", place] >= max(0, view.at_ms / 1000 - changed_s)
    assert view.groups[GROUP].rows[0].time_lag_method == "record"
    assert samples["coordinatord_share_group_suspected_records", place] == 1
    assert samples["coordinatord_share_group_most_deliveries", place] == 3
    assert samples["coordinatord_share_group_redeliveries_total", (GROUP,)] == 2
    assert samples["coordinatord_group_status", (GROUP, "poison record")] == 1
    group = group_of(watcher)
    assert group is not None
    assert group.verdict.why == "1 unread: delivery count 3 of limit 4 at offset 1: a suspected poison record"


def test_the_lag_is_shown_where_the_stored_states_are_refused(
    kafka: Kafka, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise SourceError("b:9092 does not let this user read __share_group_state")

    monkeypatch.setattr(ShareStates, "read", refuse)
    member = Member(kafka, "picker")
    until_fetched(member, kafka.share_group(GROUP))
    assert member.acknowledge(1, 1, ACCEPT) is ErrorCode.NONE
    wait_until(lambda: lag_of(watcher) == 2, "the lag that the cluster counts")
    looks = watcher.looks
    wait_until(lambda: watcher.looks > looks + 1, "two further samples")
    group = group_of(watcher)
    assert group is not None
    assert not group.deliveries
    assert watcher.is_up


def test_other_groups_are_shown_where_share_groups_are_refused(
    kafka: Kafka, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> list[object]:
        raise AdminError("groups: GROUP_AUTHORIZATION_FAILED")

    monkeypatch.setattr(share_looks, "list_groups", refuse)
    looks = watcher.looks
    wait_until(lambda: watcher.looks > looks + 1 and watcher.is_up, "two further samples")
    assert group_of(watcher) is None
