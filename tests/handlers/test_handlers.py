"""From request frames to group steps and back: look-up, bounds, topics, the gate."""

from __future__ import annotations

from typing import Any

import pytest

from coordinatord.broker.log.errors import LogFailed
from coordinatord.coordination.runtime.partitions import FAILED, LOADING, UNLOADED
from coordinatord.coordination.service.apis.find_coordinator import INVALID_REQUEST_TEXT, NO_NODE
from coordinatord.transport.cluster.partitioner import partition_for
from kafka_wire import registry
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.list_groups import ListGroupsRequest
from kafka_wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafka_wire.api.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafka_wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.errors import ErrorCode
from kafka_wire.java import MIN_VALUE, absolute, string_hash
from tests.handlers.world import World
from tests.support.shell import Wire, request_frame


def join_request(member_id: str = "", group: str = "g", **fields: Any) -> JoinGroupRequest:
    request = JoinGroupRequest(
        group, 10_000, 60_000, member_id, None, "consumer", [JoinGroupRequestProtocol("range", b"topics")]
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def stable(world: World, wire: Wire, group: str = "g") -> str:
    """One member, joined and synced with v9; its id."""
    wire.send(join_request(group=group), 9)
    member_id: str = wire.answers[-1][1].member_id
    wire.send(join_request(member_id, group), 9)
    assert wire.answers[-1][1].error_code == ErrorCode.NONE
    wire.send(
        SyncGroupRequest(group, 1, member_id, None, "consumer", "range", [SyncGroupRequestAssignment(member_id, b"a")]),
        5,
    )
    return member_id


def commit_request(*topics: tuple[str, list[int]], generation: int = -1, member: str = "") -> OffsetCommitRequest:
    return OffsetCommitRequest(
        "g",
        generation,
        member,
        topics=[
            OffsetCommitRequestTopic(
                name, partitions=[OffsetCommitRequestPartition(p, 100 + p, 5, f"at {p}") for p in partitions]
            )
            for name, partitions in topics
        ],
    )


# FindCoordinator


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("a", 97), ("polygenelubricants", MIN_VALUE), ("Aa", 2112), ("BB", 2112), ("ü€😀", 17318035)],
)
def test_string_hash_is_javas(text: str, value: int) -> None:
    assert string_hash(text) == value


def test_the_hash_without_an_absolute_value_is_partition_0() -> None:
    assert absolute(MIN_VALUE) == 0
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("a", 50) == 47


@pytest.mark.parametrize("version", range(4))
def test_find_coordinator_of_one_key(version: int) -> None:
    response = World().ask(FindCoordinatorRequest("g", 0), version)
    assert (response.error_code, response.node_id, response.host, response.port) == (0, 7, "coordinator.test", 9092)


def test_find_coordinator_names_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Kafka's texts (Errors.message), which clients show."""
    world = World()
    wrong = world.ask(FindCoordinatorRequest("g", 9), 3)
    assert (wrong.error_code, wrong.error_message) == (ErrorCode.INVALID_REQUEST, INVALID_REQUEST_TEXT)
    monkeypatch.setattr(world.nodes, "coordinator", lambda *_: NO_NODE)
    absent = world.ask(FindCoordinatorRequest("g", 0), 3)
    assert absent.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert absent.error_message == "The coordinator is not available."


def test_find_coordinator_of_several_keys_answers_each() -> None:
    response = World().ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g", ""]), 4)
    assert [(c.key, c.node_id, c.error_code) for c in response.coordinators] == [("g", 7, 0), ("", 7, 0)]


# Membership


def test_a_member_joins_syncs_heartbeats_and_leaves() -> None:
    world = World()
    wire = world.wire()
    member_id = stable(world, wire)
    assert [response.error_code for _, response in wire.answers] == [ErrorCode.MEMBER_ID_REQUIRED, 0, 0]
    assert wire.answers[-1][1].assignment == b"a"
    wire.send(HeartbeatRequest("g", 1, member_id), 4)
    wire.send(LeaveGroupRequest("g", members=[MemberIdentity(member_id)]), 5)
    wire.send(HeartbeatRequest("g", 1, member_id), 4)
    assert [response.error_code for _, response in wire.answers[3:]] == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert member_id == "test-id1"


def test_the_client_host_is_written_as_java_writes_it() -> None:
    world = World()
    stable(world, world.wire())
    _, _, value = world.log[-1]
    assert (value.members[0].client_id, value.members[0].client_host) == ("test", "/127.0.0.1")


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "g" * 250}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": [JoinGroupRequestProtocol("range", bytes(996))]}, ErrorCode.POLICY_VIOLATION),
        ({"protocols": [JoinGroupRequestProtocol("r" * 8_001, b"")]}, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_joins_out_of_bounds_are_refused_in_every_version(
    version: int, fields: dict[str, Any], error: ErrorCode
) -> None:
    world = World()
    if len(fields.get("protocols", [JoinGroupRequestProtocol("", b"")])[0].name) > 1_000:
        world.membership.max_metadata_bytes = 1 << 20  # a name has a limit of its own
    response = world.ask(join_request("me", **fields), version)
    assert (response.error_code, response.member_id) == (error, "me")
    assert response.protocol_name == (None if version >= 7 else "")
    assert world.coordinator.actors == {}


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (HeartbeatRequest("", 1, "m"), 4),
        (SyncGroupRequest("", 1, "m", None, "consumer", "range"), 5),
        (SyncGroupRequest("", 1, "m"), 4),
        (LeaveGroupRequest("", "m"), 2),
    ],
)
def test_an_empty_group_id_is_invalid(message: Any, version: int) -> None:
    assert World().ask(message, version).error_code == ErrorCode.INVALID_GROUP_ID


def test_a_sync_without_protocol_is_inconsistent_before_anything_else_is_looked_at() -> None:
    assert World().ask(SyncGroupRequest("", 1, "m"), 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_asking_for_a_group_that_is_not_there_makes_none() -> None:
    world = World()
    assert world.ask(HeartbeatRequest("g", 1, "m"), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.ask(SyncGroupRequest("g", 1, "m"), 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.coordinator.actors == {}


@pytest.mark.parametrize(
    ("fields", "client_id"),
    [({"group_instance_id": "i" * 8_001}, "test"), ({}, "c" * 32_767)],
)
def test_a_member_whose_id_has_too_many_characters_is_refused_and_its_group_goes_on(
    fields: dict[str, Any], client_id: str
) -> None:
    world = World()
    wire = world.wire()
    member_id = stable(world, wire)
    other = world.wire()
    other.sent[1] = registry.codec(11, 9)
    other.connection.data_received(request_frame(join_request(**fields), 9, 1, client_id))
    world.turns.run()
    ((_, refused),) = other.answers
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    wire.send(HeartbeatRequest("g", 1, member_id), 4)
    assert wire.answers[-1][1].error_code == ErrorCode.NONE


def test_a_protocol_type_of_too_many_characters_is_refused() -> None:
    response = World().ask(join_request(protocol_type="t" * 8_001), 9)
    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_whose_id_has_too_many_characters_commits_nothing() -> None:
    world = World()
    commit = commit_request(("orders", [0]))
    commit.group_id = "g" * 8_001
    assert world.ask(commit, 8).topics[0].partitions[0].error_code == ErrorCode.INVALID_GROUP_ID
    assert world.coordinator.actors == {}


def test_there_are_no_more_groups_than_max_groups() -> None:
    world = World(max_groups=1)
    stable(world, world.wire())
    assert world.ask(join_request(group="h"), 9).error_code == ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (LOADING, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (UNLOADED, ErrorCode.NOT_COORDINATOR),
        (FAILED, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_groups_of_a_partition_that_is_not_served_here(state: int, error: ErrorCode) -> None:
    world = World()
    world.coordinator.partitions.states[partition_for("g", 50)] = state
    for message, version in (
        (join_request(), 9),
        (LeaveGroupRequest("g", "m"), 2),
    ):
        assert world.ask(message, version).error_code == error
    # A client that is told of the load by these two gives up.
    beat, synced = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS) if state == LOADING else (error, error)
    assert world.ask(HeartbeatRequest("g", 1, "m"), 4).error_code == beat
    assert world.ask(SyncGroupRequest("g", 1, "m"), 5).error_code == synced
    committed = world.ask(commit_request(("orders", [0])), 8)
    assert committed.topics[0].partitions[0].error_code == error
    for version in range(1, 10):
        fetched = world.ask(fetch_request(version, ("orders", [0])), version)
        if version >= 8:
            assert fetched.groups[0].error_code == error
        elif version >= 2:
            assert fetched.error_code == error
        else:
            assert fetched.topics[0].partitions[0].error_code == error
    assert world.ask(DescribeGroupsRequest(["g", "a"]), 5).groups[0].error_code == error
    assert world.ask(DescribeGroupsRequest(["g", "a"]), 5).groups[1].error_code == ErrorCode.NONE
    assert world.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code == error
    listed = world.ask(ListGroupsRequest(), 4).error_code
    assert listed == (error if state == LOADING else ErrorCode.NONE)


def test_an_answer_waits_for_what_its_group_wrote_and_not_for_others() -> None:
    world = World(durable=False)
    one, other = world.wire(), world.wire()
    world.gate.flushed_epoch = 1 << 40
    member = stable(world, one)
    stable(world, other, "h")
    world.gate.flushed_epoch = world.epoch
    one.send(commit_request(("orders", [0]), generation=1, member=member), 8)
    again = world.wire()
    again.send(fetch_request(8, ("orders", [0])), 8)
    other.send(HeartbeatRequest("h", 1, "test-id2"), 4)
    assert (len(one.answers), len(again.answers), len(other.answers)) == (3, 0, 4)
    world.gate.flush(world.epoch)
    world.turns.run()
    assert (len(one.answers), len(again.answers)) == (4, 1)


def test_a_heartbeat_waits_for_the_records_of_members_and_not_for_offsets() -> None:
    world = World(durable=False)
    world.gate.flushed_epoch = 1 << 40
    one, again = world.wire(), world.wire()
    member = stable(world, one)
    world.gate.flushed_epoch = world.epoch - 1
    again.send(HeartbeatRequest("g", 1, member), 4)
    assert len(again.answers) == 0
    world.gate.flush(world.epoch)
    world.turns.run()
    assert len(again.answers) == 1
    one.send(commit_request(("orders", [0]), generation=1, member=member), 8)
    again.send(HeartbeatRequest("g", 1, member), 4)
    assert (len(one.answers), len(again.answers)) == (3, 2)


def test_joins_that_wait_for_the_same_records_are_parked_and_wait_together() -> None:
    world = World(durable=False)
    wires = [world.wire() for _ in range(3)]
    wires[0].send(join_request(), 9)
    world.append = lambda *_: world.epoch  # type: ignore[method-assign]  # the others' records are of the same epoch
    for number, wire in enumerate(wires[1:]):
        wire.send(join_request(group=f"other-{number}"), 9)
    assert [wire.connection.line.parked is not None for wire in wires] == [True] * 3
    assert (len(world.gate.held), world.coordinator.parked.held_count) == (1, 3)
    wires[0].send(HeartbeatRequest("g", 1, "nobody"), 4)
    assert [len(wire.answers) for wire in wires] == [0] * 3
    world.gate.flush(world.epoch)
    world.turns.run()
    assert [len(wire.answers) for wire in wires] == [2, 1, 1]
    assert {wire.answers[0][1].error_code for wire in wires} == {ErrorCode.MEMBER_ID_REQUIRED}
    assert [correlation_id for correlation_id, _ in wires[0].answers] == [1, 2]


def test_a_join_with_others_behind_it_keeps_nobody_waiting() -> None:
    world = World(durable=False)
    wire = world.wire()
    wire.connection.data_received(wire.frame(join_request(), 9) + wire.frame(join_request(group="h"), 9))
    assert len(world.log) == 2, "the second one was served while the first waits for the log"
    world.gate.fail()
    world.turns.run()
    assert [each.error_code for _, each in wire.answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2


def test_a_join_that_waits_for_a_log_that_fails_is_told() -> None:
    world = World(durable=False)
    wire = world.wire()
    wire.send(join_request(), 9)
    world.gate.fail()
    world.turns.run()
    assert [each.error_code for _, each in wire.answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_that_a_group_has_been_deleted_shows_when_it_is_durable() -> None:
    """Otherwise its offsets would be gone for somebody, and back after a crash."""
    world = World(durable=False)
    world.gate.flushed_epoch = 1 << 40
    world.ask(commit_request(("orders", [0])), 8)
    requests = [
        (DeleteGroupsRequest(["g"]), 2),
        (fetch_request(8, ("orders", [0])), 8),
        (DescribeGroupsRequest(["g"]), 6),
        (ListGroupsRequest(), 5),
        (DeleteGroupsRequest(["g"]), 2),
        (HeartbeatRequest("g", 1, "nobody"), 4),
        (join_request(), 9),
    ]
    world.gate.flushed_epoch = world.epoch
    wires = [world.wire() for _ in requests]
    for wire, (request, version) in zip(wires, requests, strict=True):
        wire.send(request, version)
    assert [len(wire.answers) for wire in wires] == [0] * len(requests)
    world.gate.flush(world.epoch)
    world.turns.run()
    assert [len(wire.answers) for wire in wires] == [1] * len(requests)
    assert wires[2].answers[0][1].groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert wires[4].answers[0][1].results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    again = world.wire()
    again.send(ListGroupsRequest(), 5)
    assert len(again.answers) == 1


def test_a_heartbeat_that_need_not_wait_is_answered_after_what_is_before_it_on_its_connection() -> None:
    world = World()
    wire = world.wire()
    member = stable(world, wire)
    stable(world, wire, "h")
    world.gate.flushed_epoch = world.epoch
    wire.send(commit_request(("orders", [0]), generation=1, member=member), 8)
    wire.send(HeartbeatRequest("h", 1, "test-id2"), 4)
    wire.send(HeartbeatRequest("h", 2, "test-id2"), 0)
    assert len(wire.answers) == 6
    world.gate.flush(world.epoch)
    world.turns.run()
    wire.send(HeartbeatRequest("h", 2, "test-id2"), 0)
    ids, answers = zip(*wire.answers[6:], strict=True)
    assert ids == (7, 8, 9, 10)
    assert [answer.error_code for answer in answers[1:]] == [0, *[ErrorCode.ILLEGAL_GENERATION] * 2]
    assert world.metrics.errors[12, ErrorCode.ILLEGAL_GENERATION] == 2


def test_a_session_timer_that_goes_off_removes_the_member() -> None:
    world = World()
    stable(world, world.wire())
    (key,) = [key for key in world.timers.armed if key.kind == "session"]
    world.now += 10_000
    world.coordinator.timed_out(key)
    assert world.ask(DescribeGroupsRequest(["g"]), 5).groups[0].group_state == "Empty"


def test_a_timer_that_goes_off_after_the_log_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon stops; until then a timer is no error of the event loop."""
    world = World()
    stable(world, world.wire())
    (key,) = [key for key in world.timers.armed if key.kind == "session"]
    appended: list[int] = []

    def fails(partition: int, *_: Any) -> int:
        appended.append(partition)
        raise LogFailed("the log has stopped")

    monkeypatch.setattr(world.coordinator.log, "append", fails)
    world.now += 10_000
    world.coordinator.timed_out(key)
    assert len(appended) == 1


def test_draining_answers_what_is_parked() -> None:
    world = World(initial_rebalance_delay_ms=3000)
    wire = world.wire()
    wire.send(join_request("", protocol_type="consumer"), 3)
    assert wire.answers == []
    world.coordinator.drain()
    world.turns.run()
    assert wire.answers[0][1].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.ask(join_request(), 9).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# Offsets


def fetch_request(version: int, *topics: tuple[str, list[int]]) -> OffsetFetchRequest:
    if version < 8:
        return OffsetFetchRequest("g", [OffsetFetchRequestTopic(n, p) for n, p in topics])
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics(n, partition_indexes=p) for n, p in topics])
        ]
    )


@pytest.mark.parametrize("version", range(2, 10))
def test_commit_and_fetch(version: int) -> None:
    world = World()
    response = world.ask(commit_request(("orders", [0, 3]), ("clicks", [1])), version)
    assert [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in response.topics] == [
        ("orders", [(0, 0), (3, 0)]),
        ("clicks", [(1, 0)]),
    ]
    fetched = world.ask(fetch_request(version, ("orders", [0, 1]), ("unknown", [9])), version)
    topics = fetched.topics if version < 8 else fetched.groups[0].topics
    orders, unknown = topics
    epoch = 5 if version >= 6 else -1
    assert [(p.committed_offset, p.metadata) for p in orders.partitions] == [(100, "at 0"), (-1, "")]
    assert orders.partitions[0].committed_leader_epoch == epoch
    assert unknown.partitions[0].committed_offset == -1
    assert {partition for partition, _, _ in world.log} == {partition_for("g", 50)}
    assert world.log[0][2].topic_id == world.topics.topic_id("orders")


def test_what_does_not_exist_is_refused_and_the_rest_is_committed() -> None:
    world = World()
    response = world.ask(commit_request(("nowhere", [0]), ("orders", [3, 4]), ("clicks", [0])), 8)
    answered = {(t.name, p.partition_index): p.error_code for t in response.topics for p in t.partitions}
    assert answered == {
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("orders", 4): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("orders", 3): ErrorCode.NONE,
        ("clicks", 0): ErrorCode.NONE,
    }
    assert [key.topic for _, key, _ in world.log] == ["orders", "clicks"]
    assert world.ask(commit_request(("nowhere", [0])), 8).topics[0].partitions[0].error_code == 3


def test_topic_ids_from_version_10() -> None:
    world = World()
    orders = world.topics.topic_id("orders")
    assert orders is not None
    request = commit_request(("", [0]), ("", [1]))
    request.topics[0].topic_id, request.topics[1].topic_id = orders, b"?" * 16
    response = world.ask(request, 10)
    answered = {t.topic_id: t.partitions[0].error_code for t in response.topics}
    assert answered == {orders: ErrorCode.NONE, b"?" * 16: ErrorCode.UNKNOWN_TOPIC_ID}
    asked = OffsetFetchRequestGroup(
        "g",
        topics=[
            OffsetFetchRequestTopics(topic_id=orders, partition_indexes=[0]),
            OffsetFetchRequestTopics(topic_id=b"?" * 16, partition_indexes=[2]),
        ],
    )
    known, unknown = world.ask(OffsetFetchRequest(groups=[asked]), 10).groups[0].topics
    assert (known.topic_id, known.partitions[0].committed_offset) == (orders, 100)
    assert (unknown.topic_id, unknown.partitions[0].error_code) == (b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID)
    everything = world.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), 10).groups[0]
    assert [topic.topic_id for topic in everything.topics] == [orders]


def test_several_groups_in_one_fetch() -> None:
    world = World()
    world.ask(commit_request(("orders", [0])), 8)
    groups = [OffsetFetchRequestGroup("g", topics=None), OffsetFetchRequestGroup("h", topics=None)]
    first, second = world.ask(OffsetFetchRequest(groups=groups), 8).groups
    assert [(t.name, len(t.partitions)) for t in first.topics] == [("orders", 1)]
    assert (second.error_code, second.topics) == (ErrorCode.NONE, [])


def test_delete_offsets() -> None:
    world = World()
    world.ask(commit_request(("orders", [0, 1])), 8)
    topics = [
        OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(9)]),
        OffsetDeleteRequestTopic("nowhere", [OffsetDeleteRequestPartition(0)]),
    ]
    response = world.ask(OffsetDeleteRequest("g", topics), 0)
    answered = {(t.name, p.partition_index): p.error_code for t in response.topics for p in t.partitions}
    assert answered == {("orders", 0): 0, ("orders", 9): 3, ("nowhere", 0): 3}
    fetched = world.ask(fetch_request(7, ("orders", [0, 1])), 7)
    assert [p.committed_offset for p in fetched.topics[0].partitions] == [-1, 101]
    assert world.log[-1][2] is None


def test_a_topic_without_a_name_is_unknown() -> None:
    world = World()
    world.ask(commit_request(("orders", [0])), 8)
    nameless = [OffsetDeleteRequestTopic("", [OffsetDeleteRequestPartition(0)])]
    orders = OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(0)])
    response = world.ask(OffsetDeleteRequest("g", [*nameless, orders, *nameless]), 0)
    answered = [(t.name, [p.error_code for p in t.partitions]) for t in response.topics]
    assert answered == [("", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2), ("orders", [ErrorCode.NONE])]
    for version in (2, 9):
        committed = world.ask(commit_request(("", [0]), ("orders", [0]), ("", [1])), version)
        assert [(t.name, [p.error_code for p in t.partitions]) for t in committed.topics] == [
            ("", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2),
            ("orders", [ErrorCode.NONE]),
        ]


# Admin


def test_list_describe_delete() -> None:
    world = World()
    wire = world.wire()
    member_id = stable(world, wire)
    world.ask(commit_request(("orders", [0])), 8)
    listed = world.ask(ListGroupsRequest(), 5).groups
    assert [(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in listed] == [
        ("g", "consumer", "Stable", "classic")
    ]
    assert world.ask(ListGroupsRequest(states_filter=["Empty"]), 4).groups == []
    described = world.ask(DescribeGroupsRequest(["g", "none", ""], True), 6).groups
    assert [g.error_code for g in described] == [0, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND]
    assert described[0].members[0].member_id == member_id
    assert described[0].authorized_operations == 3400
    results = world.ask(DeleteGroupsRequest(["g", "none", "", "g"]), 2).results
    assert [(r.group_id, r.error_code) for r in results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
        ("", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    wire.send(LeaveGroupRequest("g", members=[MemberIdentity(member_id)]), 5)
    assert world.ask(DeleteGroupsRequest(["g"]), 2).results[0].error_code == ErrorCode.NONE
    assert world.coordinator.actors == {}
    assert world.log[-1][1].group == "g"
    assert world.log[-1][2] is None
