"""Groups of a cluster: list and describe them, delete one, or remove one member."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinatord.monitoring.admin.connection import AdminError, Cluster, error_text, patiently
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.delete_groups import DeleteGroupsRequest
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_wire.api.list_groups import ListGroupsRequest
from kafka_wire.api.share_group_describe import ShareGroupDescribeRequest
from kafka_wire.api.streams_group_describe import StreamsGroupDescribeRequest
from kafka_wire.codecs import decoder
from kafka_wire.errors import DecodeError, ErrorCode
from kafka_wire.records.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
NO_GROUP = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
INACTIVE = frozenset({"Empty", "Dead"})
"""States of a group without members, in Kafka's words."""

Partitions = dict[str, list[int]]
"""Partitions by topic."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A group as ListGroups returns it. `kind` and `state` are empty for a broker that is older than these fields."""

    group_id: str
    kind: str
    state: str
    protocol_type: str


@dataclass(slots=True)
class Member:
    """A member. `epoch` is None in a classic group; `target` is the target assignment of a member of the consumer
    protocol or of a streams group. A member of a streams group has the partitions that its active tasks read.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: Partitions
    topics: list[str]
    target: Partitions | None = None
    epoch: int | None = None

    @property
    def name(self) -> str:
        """The name by which people recognize the member."""
        return f"{self.instance_id or self.client_id or self.member_id} on {self.host.lstrip('/')}"

    @property
    def count(self) -> int:
        return sum(map(len, self.assigned.values()))


@dataclass(slots=True)
class Group:
    """A group that exists. `epoch` is the group's, None in a classic one."""

    group_id: str
    kind: str
    state: str
    assignor: str
    coordinator: int
    protocol_type: str = "consumer"
    epoch: int | None = None
    assignment_epoch: int | None = None
    members: list[Member] = field(default_factory=list)

    @property
    def is_active(self) -> bool:
        return self.state not in INACTIVE

    @property
    def is_shared(self) -> bool:
        return self.kind == SHARE


def list_groups(cluster: Cluster, states: Sequence[str] = (), kinds: Sequence[str] = ()) -> list[Listed]:
    """Return all groups, by name. Raises AdminError."""
    oldest = 5 if kinds else 4 if states else 0
    if cluster.newest(ListGroupsRequest) < oldest:
        raise AdminError(f"{cluster.bootstrap} is too old to list groups by {'type' if kinds else 'state'}")

    def ask(node_id: int) -> list[Any]:
        def attempt() -> tuple[int, list[Any]]:
            answer = cluster.ask(ListGroupsRequest(list(states), list(kinds)), node_id)
            return answer.error_code, answer.groups

        return patiently(attempt, "groups")

    found = {each.group_id: each for node_id in cluster.nodes() for each in ask(node_id)}
    return [
        Listed(each.group_id, each.group_type, each.group_state, each.protocol_type)
        for _, each in sorted(found.items())
    ]


def describe(cluster: Cluster, groups: Iterable[str]) -> dict[str, Group]:
    """Return the groups that exist, by name. Raises AdminError for one that cannot be described."""
    found: dict[str, Group] = {}
    for node_id, names in cluster.by_coordinator(groups).items():
        _describe_new_groups(cluster, node_id, names, found)
        left = [name for name in names if name not in found]
        for name, described in _described_by_node(cluster, node_id, DescribeGroupsRequest, left).items():
            if described.error_code not in NO_GROUP and described.group_state != "Dead":
                found[name] = _of_classic(described, node_id)
        # A group may have changed its kind between the two requests.
        _describe_new_groups(cluster, node_id, left, found)
    return found


def _describe_new_groups(cluster: Cluster, node_id: int, names: Sequence[str], found: dict[str, Group]) -> None:
    """Add the groups of the consumer protocol, share groups and streams groups to `found`."""
    for request, read in READERS.items():
        if cluster.serves(request):
            left = [name for name in names if name not in found]
            for name, described in _described_by_node(cluster, node_id, request, left).items():
                if not described.error_code:
                    found[name] = read(described, node_id)


def _described_by_node(cluster: Cluster, node_id: int, request: type[Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the response to a request for each group, with an error for a group that is not of its kind."""
    if not names:
        return {}

    def attempt() -> tuple[int, dict[str, Any]]:
        answer = {each.group_id: each for each in cluster.ask(request(list(names)), node_id).groups}
        errors = [each.error_code for each in answer.values() if each.error_code not in NO_GROUP]
        return next(filter(None, errors), 0), answer

    return patiently(attempt, f"group {', '.join(names)}")


def _of_consumers(described: Any, node_id: int) -> Group:
    members = [
        Member(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            _by_topic(each.assignment.topic_partitions),
            list(each.subscribed_topic_names) or ([each.subscribed_topic_regex] if each.subscribed_topic_regex else []),
            _by_topic(each.target_assignment.topic_partitions),
            each.member_epoch,
        )
        for each in described.members
    ]
    return Group(
        described.group_id, CONSUMER, described.group_state, described.assignor_name, node_id, "consumer",
        described.group_epoch, described.assignment_epoch, members,
    )  # fmt: skip


def _of_sharers(described: Any, node_id: int) -> Group:
    members = [
        Member(
            each.member_id,
            None,
            each.client_id,
            each.client_host,
            _by_topic(each.assignment.topic_partitions),
            list(each.subscribed_topic_names),
            epoch=each.member_epoch,
        )
        for each in described.members
    ]
    return Group(
        described.group_id, SHARE, described.group_state, described.assignor_name, node_id, SHARE,
        described.group_epoch, described.assignment_epoch, members,
    )  # fmt: skip


def _of_streams(described: Any, node_id: int) -> Group:
    topology = described.topology
    sources = {
        each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
        for each in (topology.subtopologies if topology is not None else None) or ()
    }
    members = [
        Member(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            _of_tasks(each.assignment.active_tasks, sources),
            sorted({topic for topics in sources.values() for topic in topics}),
            _of_tasks(each.target_assignment.active_tasks, sources),
            each.member_epoch,
        )
        for each in described.members
    ]
    return Group(
        described.group_id, STREAMS, described.group_state, described.assignor_name or "", node_id, STREAMS,
        described.group_epoch, described.assignment_epoch, members,
    )  # fmt: skip


def _of_tasks(tasks: Sequence[Any], sources: Mapping[str, Sequence[str]]) -> Partitions:
    """Return the partitions that tasks read: task 0_3 reads partition 3 of each source topic of subtopology 0."""
    found: dict[str, set[int]] = {}
    for task in tasks:
        for topic in sources.get(task.subtopology_id, ()):
            found.setdefault(topic, set()).update(task.partitions)
    return {topic: sorted(numbers) for topic, numbers in sorted(found.items())}


def _of_classic(described: Any, node_id: int) -> Group:
    members = []
    for each in described.members:
        subscription = _read(ConsumerProtocolSubscription, each.member_metadata)
        assignment = _read(ConsumerProtocolAssignment, each.member_assignment)
        assigned = (
            {} if assignment is None else {it.topic: sorted(it.partitions) for it in assignment.assigned_partitions}
        )
        members.append(
            Member(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                assigned,
                [] if subscription is None else list(subscription.topics),
            )
        )
    return Group(
        described.group_id, CLASSIC, described.group_state, described.protocol_data, node_id, described.protocol_type,
        members=members,
    )  # fmt: skip


def _by_topic(parts: Sequence[Any]) -> Partitions:
    return {each.topic_name: sorted(each.partitions) for each in parts}


def _read(kind: type[Any], data: bytes) -> Any:
    """Decode a subscription or an assignment. Return None for a group of another kind (Kafka Connect's), or one that
    lacks it.
    """
    if len(data) < 2:
        return None
    try:
        return decoder(kind, min(int.from_bytes(data[:2], "big"), 3))(bytes(data), 2, len(data))
    except DecodeError:
        return None


READERS: dict[type[Any], Callable[[Any, int], Group]] = {
    ConsumerGroupDescribeRequest: _of_consumers,
    ShareGroupDescribeRequest: _of_sharers,
    StreamsGroupDescribeRequest: _of_streams,
}
"""The reader of a described group, by the request that describes groups of its type alone."""


def member_names(group: Group) -> str:
    """Return the group's members in a few words."""
    names = [each.name for each in group.members[:5]]
    more = len(group.members) - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def delete(cluster: Cluster, groups: Sequence[str]) -> dict[str, str | None]:
    """Delete groups with their offsets; return the reasons of failures, by group, None for a deleted one. Raises
    AdminError.
    """
    refused: dict[str, str | None] = {}
    for node_id, names in cluster.by_coordinator(groups).items():
        for each in cluster.ask(DeleteGroupsRequest(names), node_id).results:
            refused[each.group_id] = error_text(each.error_code, each.error_message) if each.error_code else None
    return refused


def evict(cluster: Cluster, group: Group, member: Member, reason: str) -> None:
    """Remove one member. If it still runs it will rejoin. Raises AdminError, also for a member of a share or streams
    group, for which Kafka has no such request.
    """
    if group.kind in (SHARE, STREAMS):
        raise AdminError(f"group {group.group_id} is a {group.kind} group: Kafka has no request to remove its members")

    def attempt() -> tuple[int, int]:
        # By its instance id alone, as Kafka's admin client: any process that has the id now.
        one = MemberIdentity("" if member.instance_id else member.member_id, member.instance_id, reason)
        newest = cluster.newest(LeaveGroupRequest)
        answer = cluster.ask(LeaveGroupRequest(group.group_id, member.member_id, [one]), group.coordinator)
        codes = [each.error_code for each in answer.members] if newest >= 3 else []
        return answer.error_code or next(filter(None, codes), 0), 0

    patiently(attempt, f"{member.name} of group {group.group_id}")
