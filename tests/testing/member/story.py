"""The verbs of members' scenarios: what happens to consumers and their coordinator, `----`, what comes out of it
(tests.support.scenario_files).

    settings t=4 u=2 initial_rebalance_delay=0s show=heartbeats    a new world: topics and their partitions
    A starts session=10s heartbeat=3s max_poll=5m assignor=range+sticky topics=t,u instance=i auto_commit=5s
             reset=earliest max_poll_records=500 thread=no by=hand
    A polls 5s · A works for 20s         A consumer polls all the time unless it is driven by=hand, or works
    A closes · A dies · A is cut off · A is back
    A subscribes t,u · A commits · A seeks t/0=5 · A pauses t/0 · A resumes t/0 · A rejoins · A unsubscribes
    A's next Heartbeat is answered ILLEGAL_GENERATION
    the coordinator answers NOT_COORDINATOR · the coordinator answers    … again as it should
    t/0 gets 5 · t has 6 partitions
    timers · members · group             deadlines, states and what is owned; what the group makes of it

What comes out are requests (`->`), answers (`<-`), states, assignments, what polls return, and what the group does.
Shown only where `settings show=` names them: heartbeats that are answered NONE, fetches, metadata, positions (what was
committed, where logs begin and end), polls (that return nothing). Messages take no time, and back-off has no jitter.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from coordinatord.coordination.group.result import Result as GroupResult
from coordinatord.testing.member.assignors.java_hash import TopicPartition
from coordinatord.testing.member.events import (
    Close,
    Commit,
    Failed,
    Pause,
    Poll,
    Received,
    Rejoin,
    Resume,
    Seek,
    Subscribe,
    Wakeup,
)
from coordinatord.testing.member.result import Result
from coordinatord.testing.member.send import Send
from coordinatord.testing.member.subscription import decode_assignment, decode_subscription
from coordinatord.testing.simulation.units import duration_ms
from kafka_wire.api.fetch import FetchRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.join_group import JoinGroupRequest
from kafka_wire.api.leave_group import LeaveGroupRequest
from kafka_wire.api.list_offsets import ListOffsetsRequest
from kafka_wire.api.metadata import MetadataRequest
from kafka_wire.api.offset_commit import OffsetCommitRequest
from kafka_wire.api.offset_fetch import OffsetFetchRequest
from kafka_wire.api.sync_group import SyncGroupRequest
from kafka_wire.errors import ErrorCode
from tests.support import scenario_files
from tests.support.scenario_files import clock, of_day_ms, options_of
from tests.testing.member.world import Consumer, GroupShell, World, refusal

START = "10:00:00"
TIMES = {"session": "session_timeout_ms", "heartbeat": "heartbeat_interval_ms", "max_poll": "max_poll_interval_ms"}
HIDDEN: dict[type[Any], str] = {
    FetchRequest: "fetches",
    MetadataRequest: "metadata",
    HeartbeatRequest: "heartbeats",
    OffsetFetchRequest: "positions",
    ListOffsetsRequest: "positions",
}
USUAL_ASSIGNORS = "range+cooperative-sticky"


class Story(scenario_files.Story):
    """Consumers of one group, and what they do."""

    def __init__(self) -> None:
        self.shown: set[str] = set()
        self.world = StoryWorld(self, {"t": 4})

    def play_line(self, words: list[str]) -> None:
        super().play_line(words)
        self.world.run(0)

    def does(self, subject: str, words: list[str]) -> None:
        world = self.world
        match [subject, *words]:
            case ["timers"]:
                for consumer in world.living():
                    self.say_timers(consumer)
            case ["members"]:
                for consumer in world.living():
                    member = consumer.member
                    generation = f"generation {member.generation.generation_id}"
                    self.say(
                        f"{consumer.name} is {member.state.value}, {generation}, owns {_partitions(consumer.owned)}"
                    )
            case ["group"]:
                group = world.group.group
                members = ", ".join(group.members) or "none"
                self.say(f"group is {group.state.value}, generation {group.generation_id}: {members}")
            case ["the", "coordinator", "answers", *error]:
                world.coordinator_error = ErrorCode[error[0]] if error else ErrorCode.NONE
            case [whose, "next", what, "is", "answered", error]:
                world.answers[whose.removesuffix("'s"), what] = ErrorCode[error]
            case [topic, "has", count, "partitions"]:
                world.topics[topic] = int(count)
            case [partition, "gets", count]:
                world.written[_partition(partition)] = world.written.get(_partition(partition), 0) + int(count)
            case [name, "starts", *rest]:
                self.starts(name, options_of(rest))
            case [name, *rest]:
                self.acts(world.named(name), rest)

    def settings(self, options: dict[str, str]) -> None:
        self.shown = set(options.pop("show", "").split(",")) - {""}
        topics = {name: int(options.pop(name)) for name in list(options) if options[name].isdigit()}
        times = {f"{name}_ms": duration_ms(value) for name, value in options.items()}
        self.world = StoryWorld(self, topics or {"t": 4}, **times)

    def starts(self, name: str, options: dict[str, str]) -> None:
        settings: dict[str, Any] = {TIMES[each]: duration_ms(options.pop(each)) for each in TIMES if each in options}
        by_hand = options.pop("by", "") == "hand"
        topics = options.pop("topics", "t").split(",")
        for option, value in options.items():
            match option:
                case "assignor":
                    settings["partition_assignment_strategy"] = tuple(value.split("+"))
                case "instance":
                    settings["group_instance_id"] = value
                case "auto_commit":
                    settings["auto_commit_interval_ms"] = duration_ms(value)
                case "reset":
                    settings["auto_offset_reset"] = value
                case "max_poll_records":
                    settings["max_poll_records"] = int(value)
                case "metadata_max_age":
                    settings["metadata_max_age_ms"] = duration_ms(value)
                case "thread":
                    settings["single_threaded"] = value == "no"
                case _:
                    raise AssertionError(f"what is {option}?")
        settings["enable_auto_commit"] = "auto_commit" in options
        settings.setdefault("auto_offset_reset", "earliest")
        consumer = self.world.consumer(name, topics, **settings)
        consumer.polls = not by_hand

    def acts(self, consumer: Consumer, words: list[str]) -> None:
        match words:
            case ["polls", duration]:
                consumer.tell(Poll(duration_ms(duration)))
            case ["works", "for", duration]:
                self.world.works(consumer, duration_ms(duration))
            case ["dies"]:
                consumer.kill()
            case ["is", "cut", "off"]:
                consumer.cut = True
            case ["is", "back"]:
                consumer.cut = False
            case ["closes"]:
                consumer.tell(Close())
            case ["subscribes", topics]:
                consumer.tell(Subscribe(topics.split(",")))
            case ["unsubscribes"]:
                consumer.polls = False
                self.world.wake_up(consumer)
                consumer.tell(Subscribe([]))
            case ["commits"]:
                consumer.tell(Commit())
            case ["rejoins"]:
                consumer.tell(Rejoin())
            case ["seeks", what]:
                partition, _, offset = what.partition("=")
                consumer.tell(Seek(_partition(partition), int(offset) if offset.isdigit() else offset))
            case ["pauses", partition]:
                consumer.tell(Pause([_partition(partition)]))
            case ["resumes", partition]:
                consumer.tell(Resume([_partition(partition)]))
            case _:
                raise AssertionError(f"what is {consumer.name} {' '.join(words)!r}?")

    # What comes out

    def say_timers(self, consumer: Consumer) -> None:
        heartbeat = consumer.member.heartbeat
        until = [
            ("heartbeat", heartbeat.heartbeat.deadline_ms),
            ("session", heartbeat.session.deadline_ms),
            ("poll", heartbeat.poll.deadline_ms),
        ]
        told = ", ".join(f"{name} until {clock(ms)}" for name, ms in until)
        self.say(f"{consumer.name}: {told}{'' if consumer.member.heartbeats else ' (disabled)'}")

    def hides(self, request: Any, response: Any = None) -> bool:
        kind = HIDDEN.get(type(request))
        return kind is not None and kind not in self.shown and not getattr(response, "error_code", 0)

    def say_event(self, consumer: Consumer, event: Any) -> None:
        if (
            isinstance(event, Received)
            and not event.send.abandoned
            and not self.hides(event.send.request, event.response)
        ):
            self.say(f"{consumer.name} <- {_answer(event.response)}")
        elif isinstance(event, Failed) and not event.send.abandoned:
            self.say(f"{consumer.name}: no answer to {_name(event.send.request, 'Request')}")

    def say_result(self, consumer: Consumer, result: Result) -> None:
        name = consumer.name
        for transition in result.transitions:
            reason = f" ({transition.reason})" if transition.reason and transition.new == "PREPARING_REBALANCE" else ""
            self.say(f"{name}: {transition.old} -> {transition.new}{reason}")
        for change in result.changes:
            if change.partitions or type(change).__name__ == "Assigned":
                self.say(f"{name}: {type(change).__name__.lower()} {_partitions(change.partitions)}")
        for each in result.committed:
            if each.event is not None:
                self.say(f"{name}: its commit ended with {each.error.name}")
        if result.disconnect:
            self.say(f"{name}: takes the coordinator for dead")
        for send in result.sends:
            if not self.hides(send.request):
                self.say(f"{name} -> {_request(send)}")
        if result.polled is not None:
            self.say_polled(name, result.polled)
        if result.closed:
            self.say(f"{name}: closed")

    def say_polled(self, name: str, polled: Any) -> None:
        if polled.error is not None:
            self.say(f"{name}: poll raises {polled.error.name}")
        elif polled.records:
            records = [
                f"{_name_of(partition)} {each[0].offset}–{each[-1].offset}"
                for partition, each in polled.records.items()
            ]
            self.say(f"{name}: poll returns {', '.join(records)}")
        elif "polls" in self.shown:
            self.say(f"{name}: poll returns empty-handed")


class StoryConsumer(Consumer):
    """A consumer that tells its story what happens."""

    def tell(self, event: Any) -> Result:
        story = self.world.story
        story.say_event(self, event)
        # The outcome is to be told before what it leads to, which may happen at once.
        return super().tell(event)

    def heard(self, result: Result) -> None:
        self.world.story.say_result(self, result)


class StoryWorld(World):
    """A world that tells its story what happens."""

    consumer_type = StoryConsumer

    def __init__(self, story: Story, topics: dict[str, int], **settings: int) -> None:
        self.story = story
        self.answers: dict[tuple[str, str], ErrorCode] = {}  # (who, request) -> what it is answered, once
        super().__init__(topics, latency_ms=0, now_ms=of_day_ms(START), **settings)
        self.random = SimpleNamespace(random=lambda: 0.5)  # type: ignore[assignment]

    advance = World.run

    def new_group(self, **settings: int) -> GroupShell:
        return StoryGroup(self, **settings)

    def living(self) -> list[Consumer]:
        return [each for each in self.consumers if each.alive and not each.member.closed]

    def named(self, name: str) -> Consumer:
        return next(each for each in reversed(self.consumers) if each.name == name)

    def wake_up(self, consumer: Consumer) -> None:
        if consumer.member.in_poll:
            consumer.tell(Wakeup())

    def works(self, consumer: Consumer, for_ms: int) -> None:
        """The poll at hand returns, and the next one comes when the work is done."""
        consumer.polls = False
        self.wake_up(consumer)

        def done() -> None:
            consumer.polls = True
            consumer.poll()

        self.at(self.now_ms + for_ms, done)

    def serve(self, consumer: Consumer, send: Send) -> None:
        error = self.answers.pop((consumer.name, _name(send.request, "Request")), None)
        if error is None:
            super().serve(consumer, send)
        else:
            self.answer(consumer, send, refusal(send.request, error))


class StoryGroup(GroupShell):
    """The coordinator tells its part."""

    world: StoryWorld

    def apply(self, event: Any, result: GroupResult) -> None:
        story = self.world.story
        for change in result.changes:
            if hasattr(change, "cause"):
                story.say(f"group: {change.member_id} is gone: {change.cause}")
        for transition in result.transitions:
            story.say(
                f"group: {transition.old.value} -> {transition.new.value}, generation {transition.generation_id}, "
                f"because: {transition.reason.partition(';')[0]}"
            )
        super().apply(event, result)


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.partition("/")
    return topic, int(number)


def _name_of(partition: TopicPartition) -> str:
    return f"{partition[0]}/{partition[1]}"


def _partitions(partitions: Any) -> str:
    return " ".join(_name_of(each) for each in sorted(partitions)) or "nothing"


def _name(message: Any, suffix: str) -> str:
    return type(message).__name__.removesuffix(suffix)


def _request(send: Send) -> str:
    request = send.request
    name = _name(request, "Request")
    match request:
        case JoinGroupRequest():
            assignors = "+".join(each.name for each in request.protocols)
            owned = decode_subscription(request.protocols[0].metadata).owned_partitions
            told = [
                f"as {request.member_id or 'new'}"
                + (f" (instance {instance})" if (instance := request.group_instance_id) else ""),
                *([assignors] if assignors != USUAL_ASSIGNORS else []),
                *([f"owning {_partitions(owned)}"] if owned else []),
                *([f'"{request.reason}"'] if request.reason else []),
            ]
            return f"{name} {', '.join(told)}"
        case SyncGroupRequest():
            given = [
                f"{each.member_id}: {_partitions(decode_assignment(each.assignment))}" for each in request.assignments
            ]
            return f"{name} generation {request.generation_id}{', ' if given else ''}{'; '.join(given)}"
        case HeartbeatRequest():
            return f"{name} generation {request.generation_id}"
        case LeaveGroupRequest():
            return f'{name} {request.members[0].member_id}, "{request.members[0].reason}"'
        case OffsetCommitRequest():
            offsets = [
                f"{t.name}/{p.partition_index}={p.committed_offset}" for t in request.topics for p in t.partitions
            ]
            return f"{name} {' '.join(offsets)}"
        case OffsetFetchRequest():
            asked = [(topic.name, n) for topic in request.groups[0].topics or [] for n in topic.partition_indexes]
            return f"{name} {_partitions(asked)}"
        case ListOffsetsRequest():
            times = {-2: "earliest", -1: "latest"}
            asked_at = [
                f"{t.name}/{p.partition_index}={times[p.timestamp]}" for t in request.topics for p in t.partitions
            ]
            return f"{name} {' '.join(asked_at)}"
        case FetchRequest():
            wanted = [f"{t.topic}/{p.partition} from {p.fetch_offset}" for t in request.topics for p in t.partitions]
            return f"{name} {', '.join(wanted)}"
        case FindCoordinatorRequest():
            return name
    return f"{name} {' '.join(topic.name for topic in request.topics or [])}".rstrip()


def _answer(response: Any) -> str:
    kinds = type(response).__mro__  # the group may answer with a kind of its own
    name = next(each.__name__ for each in kinds if each.__name__.endswith("Response")).removesuffix("Response")
    error = ErrorCode(getattr(response, "error_code", 0))
    if name == "OffsetCommit":
        [error] = {ErrorCode(each.error_code) for topic in response.topics for each in topic.partitions}
    elif name == "FindCoordinator":
        error = ErrorCode(response.coordinators[0].error_code)
    elif name == "JoinGroup" and not error:
        leads = ", leads" if response.leader == response.member_id else ""
        skips = ", and is not to assign" if response.skip_assignment else ""
        return (
            f"{name} {response.member_id}, generation {response.generation_id}, {response.protocol_name}{leads}{skips}"
        )
    elif name == "JoinGroup" and error is ErrorCode.MEMBER_ID_REQUIRED:
        return f"{name} {error.name} {response.member_id}"
    elif name == "SyncGroup" and not error:
        return f"{name} {_partitions(decode_assignment(response.assignment))}"
    elif name == "OffsetFetch" and not error:
        [group] = response.groups
        error = ErrorCode(group.error_code)
        offsets = [f"{t.name}/{p.partition_index}={p.committed_offset}" for t in group.topics for p in t.partitions]
        return f"{name} {' '.join(offsets)}" if not error else f"{name} {error.name}"
    elif name == "ListOffsets":
        offsets = [f"{t.name}/{p.partition_index}={p.offset}" for t in response.topics for p in t.partitions]
        return f"{name} {' '.join(offsets)}"
    elif name == "Fetch":
        found = [f"{topic.topic}/{each.partition_index}" for topic in response.responses for each in topic.partitions]
        return f"{name} {' '.join(found) or 'nothing'}"
    elif name == "Metadata":
        known = [f"{t.name} has {len(t.partitions)} partitions" for t in response.topics]
        return f"{name} {', '.join(known)}"
    return f"{name} {error.name}"
