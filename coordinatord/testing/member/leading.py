"""Work of the leader between JoinGroup and SyncGroup: read all subscriptions, get metadata of the topics, assign."""

from __future__ import annotations

from coordinatord.testing.member.metadata import watch
from coordinatord.testing.member.result import Result
from coordinatord.testing.member.state import Member
from coordinatord.testing.member.subscription import PROTOCOL_TYPE, decode_subscription, encode_assignments
from kafka_wire.api.join_group import JoinGroupResponse
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_wire.errors import DecodeError, ErrorCode


def lead(member: Member, response: JoinGroupResponse, result: Result) -> ErrorCode:
    """Assign, or request metadata first. From now on the leader watches the topics of all members. Returns an error, or
    NONE.
    """
    topics: set[str] = set()
    try:
        for other in response.members:
            topics.update(decode_subscription(other.metadata).topics)
    except DecodeError:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    member.is_leader = True
    member.election = response
    if not watch(member, frozenset(topics), result):
        return ErrorCode.NONE
    return assign(member, result)


def assign(member: Member, result: Result) -> ErrorCode:
    """Compute the assignment and send it. Returns an error, or NONE. A restarted static leader skips the assignment
    (KIP-814).
    """
    response = member.election
    assert response is not None
    member.election = None
    if response.skip_assignment:
        member.assignment_snapshot = member.metadata_snapshot
        send_sync(member, {}, result)
        return ErrorCode.NONE
    assignor = member.assignors.get(response.protocol_name or "")
    if assignor is None:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    subscriptions = {}
    for other in response.members:
        subscription = subscriptions[other.member_id] = decode_subscription(other.metadata)
        subscription.group_instance_id = other.group_instance_id
    topics = {name: info.racks for name, info in member.cluster.topics.items()}
    try:
        assignment = assignor.assign(topics, subscriptions)
    except Exception as problem:  # an application's assignor may raise any exception; its poll raises an error
        if member.join is not None:
            member.join.what = f"assignor {assignor.name}: {problem!r}"
        return ErrorCode.UNKNOWN_SERVER_ERROR
    member.assignment_snapshot = member.metadata_snapshot
    send_sync(member, encode_assignments(assignment), result)
    return ErrorCode.NONE


def send_sync(member: Member, assignments: dict[str, bytes], result: Result) -> None:
    """Send SyncGroup; a follower sends no assignments.

    The request has a member id, in every version that Kafka ever had. The article 5.4.7 claims that neither request nor
    response has one, since JoinGroup had it before; but without a member id, the coordinator could not select the
    assignment for the response.
    """
    generation = member.generation
    request = SyncGroupRequest(
        member.settings.group_id,
        generation.generation_id,
        generation.member_id,
        member.settings.group_instance_id,
        PROTOCOL_TYPE,
        generation.protocol_name,
        [SyncGroupRequestAssignment(*each) for each in assignments.items()],
    )
    if member.coordinator is None:
        # The coordinator was lost while the leader waited for metadata.
        if member.join is not None:
            member.join.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return
    member.send_to_coordinator(request, result)
