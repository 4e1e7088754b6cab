"""The verbs of a group's scenarios: what is sent, `----`, what comes out of it (tests.support.scenario_files).

    settings clock=10:00:00 initial_rebalance_delay=0s     a new world
    C1 joins session=10s rebalance=60s instance=i          JoinGroup; version=9 protocols=range,sticky topics=t id=…
    C1 enters …                                            JoinGroup, and again with the id it is handed, as clients do
    C1 syncs C1=a C2=b                                     SyncGroup, with assignments when it is the leader
    C1 heartbeats · C1 leaves · C1 commits t/0=5 · C1 fetches t/0
    admin removes i                                        LeaveGroup by instance id
    admin deletes the group
    deadlines                                              until when each member lives if nothing more comes
    group                                                  state, generation, members
    restart                                                lose everything but the log

A client keeps the member id, generation and protocol of its last successful JoinGroup, as real ones do, unless the
line says otherwise (`id=`, `generation=`). Member ids are `<client or instance id>-<count>`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coordinatord.coordination.group import events
from coordinatord.coordination.group.offsets.committed import fetch_offsets
from coordinatord.coordination.group.result import Result
from coordinatord.testing.simulation.units import duration_ms
from kafka_wire.api.delete_groups import DeletableGroupResult
from kafka_wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_wire.api.join_group import JoinGroupResponse
from kafka_wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_wire.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kafka_wire.errors import ErrorCode
from kafka_wire.records.offsets import GroupMetadataKey
from tests.coordination.group.world import GROUP_ID, World, commit_topic, join_request, subscription
from tests.support import scenario_files
from tests.support.scenario_files import clock, of_day_ms, options_of


@dataclass
class Client:
    """What a client remembers."""

    name: str
    member_id: str = ""
    instance_id: str | None = None
    generation_id: int = -1
    protocol_name: str | None = None
    join_options: dict[str, str] = field(default_factory=dict)


class Story(scenario_files.Story):
    """Requests to one group, and what it does."""

    def __init__(self) -> None:
        self.world = StoryWorld(self)
        self.clients: dict[str, Client] = {}
        self.senders: dict[int, tuple[Client, str]] = {}  # reply_to -> whose request it is, and what

    def does(self, subject: str, words: list[str]) -> None:
        match [subject, *words]:
            case ["deadlines"]:
                for member in self.world.group.members.values():
                    waits = " (waits for an answer)" if member.join_reply_to or member.sync_reply_to else ""
                    self.say(f"{member.member_id} lives until {clock(member.session_deadline_ms)}{waits}")
            case ["group"]:
                self.say_group()
            case ["restart"]:
                self.say_result(self.world.restart())
            case ["admin", "removes", instance_id]:
                request = LeaveGroupRequest(GROUP_ID, members=[MemberIdentity("", instance_id)])
                self.tell(self.client("admin"), events.Leave.of(request, 5))
            case ["admin", "deletes", "the", "group"]:
                self.tell(self.client("admin"), events.Delete())
            case [name, verb, *rest]:
                getattr(self, verb)(self.client(name), [word for word in rest if "=" not in word or "/" in word], rest)
            case _:
                raise AssertionError(f"what is {subject}?")

    def settings(self, options: dict[str, str]) -> None:
        start = options.pop("clock", "00:00:00")
        values = {
            (name if name.startswith("max") else f"{name}_ms"): int(value) if value.isdigit() else duration_ms(value)
            for name, value in options.items()
        }
        self.world = StoryWorld(self, now_ms=of_day_ms(start), **values)
        self.clients = {}

    # Requests

    def joins(self, client: Client, _: list[str], words: list[str]) -> None:
        given = options_of(words)
        client.join_options.update({k: v for k, v in given.items() if k not in ("id", "reason")})
        options = client.join_options
        client.instance_id = options.get("instance")
        names = options.get("protocols", "range").split(",")
        metadata = subscription(*options.get("topics", "t").split(","))
        request = join_request(
            given.get("id", client.member_id),
            session_timeout_ms=duration_ms(options.get("session", "10s")),
            rebalance_timeout_ms=duration_ms(options.get("rebalance", "60s")),
            group_instance_id=client.instance_id,
            protocol_type=options.get("type", "consumer"),
            protocols={name: metadata for name in names if name},
            reason=given.get("reason"),
        )
        version = int(options.get("version", "9"))
        event = events.Join.of(request, version, self.world.reply_to(), client.name, "/127.0.0.1")
        self.tell(client, event)

    def enters(self, client: Client, nouns: list[str], words: list[str]) -> None:
        self.joins(client, nouns, words)
        if client.member_id in self.world.group.pending_members:
            self.joins(client, nouns, [])

    def forgets(self, client: Client, _: list[str], words: list[str]) -> None:
        """The process restarts: it no longer knows its member id."""
        client.member_id, client.generation_id = "", -1

    def syncs(self, client: Client, _: list[str], words: list[str]) -> None:
        options = options_of(words)
        generation_id = int(options.pop("generation", client.generation_id))
        protocol = options.pop("protocol", client.protocol_name)
        assignments = [
            SyncGroupRequestAssignment(self.clients[name].member_id if name in self.clients else name, value.encode())
            for name, value in options.items()
        ]
        request = SyncGroupRequest(
            GROUP_ID, generation_id, client.member_id, client.instance_id, "consumer", protocol, assignments
        )
        self.tell(client, events.Sync.of(request, 5, self.world.reply_to()))

    def heartbeats(self, client: Client, _: list[str], words: list[str]) -> None:
        generation_id = int(options_of(words).get("generation", client.generation_id))
        self.tell(client, HeartbeatRequest(GROUP_ID, generation_id, client.member_id, client.instance_id))

    def leaves(self, client: Client, _: list[str], words: list[str]) -> None:
        identity = MemberIdentity(client.member_id, client.instance_id, options_of(words).get("reason"))
        self.tell(client, events.Leave.of(LeaveGroupRequest(GROUP_ID, members=[identity]), 5))

    def commits(self, client: Client, nouns: list[str], words: list[str]) -> None:
        generation_id = int(options_of(words).get("generation", client.generation_id))
        topics = []
        for noun in nouns:
            partition, offset = noun.split("=")
            topic, index = partition.split("/")
            topics.append(commit_topic(topic, {int(index): int(offset)}))
        request = OffsetCommitRequest(GROUP_ID, generation_id, client.member_id, client.instance_id, topics=topics)
        self.tell(client, events.Commit.of(request, 9))

    def fetches(self, client: Client, nouns: list[str], words: list[str]) -> None:
        for noun in nouns:
            topic, index = noun.split("/")
            request = OffsetFetchRequestGroup(
                GROUP_ID, topics=[OffsetFetchRequestTopics(topic, bytes(16), [int(index)])]
            )
            response = fetch_offsets(self.world.group, request)
            self.say(f"{client.name} <- OffsetFetch: {noun} = {response.topics[0].partitions[0].committed_offset}")

    # What comes out

    def client(self, name: str) -> Client:
        return self.clients.setdefault(name, Client(name))

    def tell(self, client: Client, event: Any) -> None:
        reply_to = getattr(event, "reply_to", None)
        if reply_to is not None:
            self.senders[reply_to] = (client, type(event).__name__)
        result = self.world.tell(event)
        if reply_to is not None and result.reply is None:
            self.say(f"{client.name} waits for {type(event).__name__}Group")
        elif reply_to is None and result.reply is not None:
            self.say(f"{client.name} <- {_reply(result.reply)}")

    def answered(self, reply_to: int, response: Any) -> None:
        client, _ = self.senders[reply_to]
        if isinstance(response, JoinGroupResponse):
            if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                client.member_id = response.member_id
            if response.error_code == ErrorCode.NONE:
                client.generation_id, client.protocol_name = response.generation_id, response.protocol_name
        self.say(f"{client.name} <- {_reply(response)}")

    def say_result(self, result: Result) -> None:
        for change in result.changes:
            if hasattr(change, "cause"):
                self.say(f"{change.member_id} is gone: {change.cause}")
        for transition in result.transitions:
            self.say(f"{transition.old.value} -> {transition.new.value}, because: {transition.reason}")
        for key, value in result.all_records(self.world.group.group_id):
            self.say(f"logged: {_record(key, value)}")
        for reply_to in result.dropped:
            client, what = self.senders[reply_to]
            self.say(f"{client.name}'s earlier {what}Group is never answered")

    def say_group(self) -> None:
        group = self.world.group
        members = ", ".join(group.members) or "none"
        leader = group.leader_id or "none"
        self.say(f"group is {group.state.value}, generation {group.generation_id}, leader {leader}: {members}")


class StoryWorld(World):
    """A world that tells its story what happens."""

    def __init__(self, story: Story, now_ms: int = 0, **settings: int) -> None:
        super().__init__(now_ms=now_ms, **settings)
        self.story = story

    def apply(self, event: Any, result: Result) -> None:
        if event is not None:
            self.story.say_result(result)
        super().apply(event, result)

    def answer(self, reply_to: Any, response: Any) -> None:
        super().answer(reply_to, response)
        self.story.answered(reply_to, response)


def _reply(reply: Any) -> str:
    error = ErrorCode(getattr(reply, "error_code", 0)).name
    match reply:
        case JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED):
            return f"JoinGroup: {error}, id {reply.member_id}"
        case JoinGroupResponse(error_code=0):
            members = f", members {', '.join(m.member_id for m in reply.members)}" if reply.members else ""
            skip = ", skip the assignment" if reply.skip_assignment else ""
            return (
                f"JoinGroup: {reply.member_id}, generation {reply.generation_id}, {reply.protocol_name}, "
                f"leader {reply.leader}{members}{skip}"
            )
        case SyncGroupResponse(error_code=0):
            return f"SyncGroup: {reply.assignment.decode()!r}"
        case LeaveGroupResponse(error_code=0):
            return f"LeaveGroup: {', '.join(ErrorCode(m.error_code).name for m in reply.members)}"
        case OffsetCommitResponse():
            errors = [ErrorCode(p.error_code).name for topic in reply.topics for p in topic.partitions]
            return f"OffsetCommit: {', '.join(errors)}"
        case HeartbeatResponse():
            return f"Heartbeat: {error}"
        case DeletableGroupResult():
            return f"DeleteGroups: {error}"
    return f"{type(reply).__name__.removesuffix('Response')}: {error}"


def _record(key: Any, value: Any) -> str:
    if isinstance(key, GroupMetadataKey):
        if value is None:
            return "group tombstone"
        members = ", ".join(f"{m.member_id}={m.assignment.decode()!r}" for m in value.members)
        return f"group at generation {value.generation}, {members or 'no members'}"
    return f"offset {key.topic}/{key.partition} {'tombstone' if value is None else f'= {value.offset}'}"
