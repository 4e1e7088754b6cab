"""A recorded request with a member's own names, ids, generation, partitions and offsets in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bench.day import leading, templates
from bench.day.templates import FINAL_EPOCH, NEW_SESSION, Template
from kafka_wire.api.fetch import ForgottenTopic
from kafka_wire.api.sync_group import SyncGroupRequestAssignment
from kafka_wire.schema import ZERO_UUID

if TYPE_CHECKING:
    from bench.day.member import Member


@dataclass(slots=True)
class Session:
    """A fetch session (KIP-227), where the client has them: what the server knows, which need not be said again."""

    is_used: bool
    session_id: int = 0
    epoch: int = NEW_SESSION
    #: by partition: what the server has been asked for last
    offsets: dict[int, int] = field(default_factory=dict)

    def asked(self, request: Any) -> None:
        """A fetch has been answered."""
        if not self.is_used:
            return
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                self.offsets.pop(partition, None)
        for topic in request.topics:
            for each in topic.partitions:
                self.offsets[each.partition] = each.fetch_offset

    def answered(self, session_id: int) -> None:
        """With its id: 0 where the server has no room for one."""
        if session_id:
            self.session_id, self.epoch = session_id, self.epoch + 1
        else:
            self.end()

    def end(self) -> None:
        """There is none any more; the next fetch begins another one."""
        self.session_id = 0
        self.restart()

    def restart(self) -> None:
        """The next fetch begins another one in the place of this one."""
        self.epoch = NEW_SESSION
        self.offsets = {}


def filled(member: Member, template: Template) -> Any:
    """What the member sends; None where the request is sent as it was."""
    fill = FILLERS.get(template.api_key)
    return template.message if fill is None else fill(member, template.message)


def named(member: Member, topic: Any, **fields: Any) -> Any:
    """Our topic in the place of a recorded one: by name, by id, or both."""
    if getattr(topic, "topic_id", ZERO_UUID) != ZERO_UUID:
        fields["topic_id"] = member.topic.topic_id
    for name in ("name", "topic"):
        if getattr(topic, name, ""):
            fields[name] = member.topic.name
    return replace(topic, **fields)


def epoch(member: Member, recorded: int) -> int:
    """A leader epoch, where the client told one."""
    return recorded if recorded < 0 else member.topic.leader_epoch


def in_order(recorded: Sequence[int], own: Sequence[int]) -> list[int]:
    """Our partitions in the order in which the client named its: some change it from time to time."""
    if len(recorded) != len(own):
        return list(own)
    ranks = {partition: rank for rank, partition in enumerate(sorted(recorded))}
    return [own[ranks[partition]] for partition in recorded]


def to_commit(member: Member, message: Any) -> list[int]:
    """The partitions that a commit names."""
    known = [each for each in member.owned if each in member.next]
    named = in_order([each.partition_index for each in message.topics[0].partitions], known)
    if not member.script.commits_what_moved:
        return named
    return [each for each in named if member.next[each] != member.committed.get(each)]


def commit(member: Member, message: Any) -> Any:
    (topic,) = message.topics
    like = topic.partitions[0]
    metadata = member.member_id if like.committed_metadata == message.member_id else like.committed_metadata
    partitions = [
        replace(
            like,
            partition_index=each,
            committed_offset=member.next[each],
            committed_leader_epoch=epoch(member, like.committed_leader_epoch),
            committed_metadata=metadata,
        )
        for each in to_commit(member, message)
    ]
    return replace(
        message,
        group_id=member.group.name,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        topics=[named(member, topic, partitions=partitions)],
    )


def offset_fetch(member: Member, message: Any) -> Any:
    (group,) = message.groups
    (topic,) = group.topics
    of_member: Mapping[str, Any] = {}
    if group.member_id is not None:
        of_member = {"member_id": member.member_id, "member_epoch": member.generation}
    topics = [named(member, topic, partition_indexes=member.asked)]
    return replace(message, groups=[replace(group, group_id=member.group.name, topics=topics, **of_member)])


def fetch(member: Member, message: Any) -> Any:
    session = member.session
    if message.session_epoch == FINAL_EPOCH and session.is_used:
        return replace(message, session_id=session.session_id)
    topic = message.topics[0]
    new, known = (each.message.topics[0].partitions[0] for each in (member.script.fetch, member.script.fetch_on))
    partitions = [
        replace(
            like,
            partition=each,
            fetch_offset=member.next[each],
            current_leader_epoch=epoch(member, like.current_leader_epoch),
            last_fetched_epoch=epoch(member, like.last_fetched_epoch),
        )
        for each in member.owned
        if each in member.next and session.offsets.get(each) != member.next[each]
        for like in [known if each in session.offsets else new]
    ]
    gone = [each for each in session.offsets if each not in member.owned]
    if session.is_used:
        message = replace(message, session_id=session.session_id, session_epoch=session.epoch)
    forgotten = ForgottenTopic(topic.topic, topic.topic_id, gone)
    return replace(
        message,
        topics=[named(member, topic, partitions=partitions)] if partitions else [],
        forgotten_topics_data=[named(member, forgotten)] if gone else [],
    )


def list_offsets(member: Member, message: Any) -> Any:
    (topic,) = message.topics
    like = topic.partitions[0]
    leader = epoch(member, like.current_leader_epoch)
    partitions = [replace(like, partition_index=each, current_leader_epoch=leader) for each in member.asked]
    return replace(message, topics=[named(member, topic, partitions=partitions)])


def leader_epoch(member: Member, message: Any) -> Any:
    (topic,) = message.topics
    like, leader = topic.partitions[0], member.topic.leader_epoch
    partitions = [
        replace(like, partition=each, current_leader_epoch=leader, leader_epoch=leader) for each in member.asked
    ]
    return replace(message, topics=[named(member, topic, partitions=partitions)])


def metadata(member: Member, message: Any) -> Any:
    if not message.topics:
        return message
    return replace(message, topics=[named(member, each) for each in message.topics])


def find(member: Member, message: Any) -> Any:
    if message.key:
        return replace(message, key=member.group.name)
    return replace(message, coordinator_keys=[member.group.name])


def join(member: Member, message: Any) -> Any:
    protocols = []
    for each in message.protocols:
        version, told = leading.subscription(each.metadata)
        told.topics = [member.topic.name]
        told.owned_partitions = []
        if each.name == leading.COOPERATIVE and member.protocol == leading.COOPERATIVE and member.owned:
            told.owned_partitions = [leading.TopicPartition(member.topic.name, member.owned)]
        if told.generation_id >= 0:
            told.generation_id = member.generation
        protocols.append(replace(each, metadata=leading.versioned(version, told)))
    return replace(message, group_id=member.group.name, member_id=member.member_id, protocols=protocols)


def sync(member: Member, message: Any) -> Any:
    assignments = []
    if message.assignments:
        version = int.from_bytes(message.assignments[0].assignment[:2], "big")
        assignments = [
            SyncGroupRequestAssignment(member_id, leading.assignment(version, member.topic.name, partitions))
            for member_id, partitions in member.assignments.items()
        ]
    return replace(
        message,
        group_id=member.group.name,
        generation_id=member.generation,
        member_id=member.member_id,
        assignments=assignments,
    )


def heartbeat(member: Member, message: Any) -> Any:
    return replace(message, group_id=member.group.name, generation_id=member.generation, member_id=member.member_id)


def leave(member: Member, message: Any) -> Any:
    if not message.members:
        return replace(message, group_id=member.group.name, member_id=member.member_id)
    (identity,) = message.members
    return replace(message, group_id=member.group.name, members=[replace(identity, member_id=member.member_id)])


FILLERS: Mapping[int, Callable[[Member, Any], Any]] = {
    templates.FETCH: fetch,
    templates.LIST_OFFSETS: list_offsets,
    templates.METADATA: metadata,
    templates.COMMIT: commit,
    templates.OFFSET_FETCH: offset_fetch,
    templates.FIND: find,
    templates.JOIN: join,
    templates.HEARTBEAT: heartbeat,
    templates.LEAVE: leave,
    templates.SYNC: sync,
    templates.LEADER_EPOCH: leader_epoch,
}
