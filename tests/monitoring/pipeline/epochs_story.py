"""A group of the consumer protocol lives through all that can happen to one, on Kafka 4.3 and with real consumers: they
join, one is killed, a static one restarts, topics grow. What was done when is written down beside the log.

    python -m tests.monitoring.pipeline.epochs_story tests/golden/consumer_group

records it anew: the segment, and `story.json`, which has the steps and, at some moments, what
Kafka's own tool says of the members.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.clients.librdkafka import admin_client
from tests.reference.broker import KafkaBroker, kafka_libs, running_broker

GROUP = "shop"
SESSION_MS = 10_000
HEARTBEAT_MS = 2_500
"""librdkafka gives a heartbeat up after so long. If its answer had a new epoch, the next one is fenced, and a static
member joins with another id, which its broker refuses: it is still the old one's. A busy machine stalls for seconds.
"""
STEP_S = 120
ANSWER_S = 15
#: After so many, the log tells how often a member usually commits.
COMMITS = 3
OVERRIDES = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
}
MEMBER = "import sys; from tests.monitoring.pipeline.epochs_story import be_killed; be_killed(sys.argv[1])"


@dataclass(slots=True)
class Step:
    """`trigger` is what the pipeline shall call it, None where the epoch does not rise; `client` who did it."""

    what: str
    began_ms: int
    trigger: str | None
    client: str | None


@dataclass(slots=True)
class Story:
    """`members` are moments: (epoch ms, {client id: [[topic, partition], …]}), as ConsumerGroupCommand has them."""

    steps: list[Step] = field(default_factory=list)
    members: list[tuple[int, dict[str, list[list[Any]]]]] = field(default_factory=list)
    topic_ids: dict[str, str] = field(default_factory=dict)


def consumer(bootstrap: str, name: str, topics: list[str], **settings: Any) -> Any:
    import confluent_kafka

    config = {
        "bootstrap.servers": bootstrap,
        "group.id": GROUP,
        "group.protocol": "consumer",
        "client.id": name,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 500,
        "topic.metadata.refresh.interval.ms": 2_000,
        "log_level": 0,
    }
    made = confluent_kafka.Consumer(config | {key.replace("_", "."): value for key, value in settings.items()})
    made.subscribe(topics)
    return made


def be_killed(bootstrap: str) -> None:
    """The process of a consumer that polls until it is killed."""
    doomed = consumer(bootstrap, "doomed", ["orders"])
    while True:
        doomed.poll(0.1)


class Play:
    """`here` are the consumers of this process, by client id."""

    def __init__(self, broker: KafkaBroker) -> None:
        import confluent_kafka

        self.broker = broker
        self.admin = admin_client(broker.bootstrap)
        self.producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "linger.ms": 0,
                "log_level": 0,
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )
        self.partitions: dict[str, int] = {}
        self.here: dict[str, Any] = {}
        self.committed: dict[tuple[str, str, int], set[int]] = {}
        self.story = Story()

    def topic(self, name: str, partitions: int) -> None:
        from confluent_kafka.admin import NewTopic

        for future in self.admin.create_topics([NewTopic(name, partitions, 1)]).values():
            future.result(120)
        self.partitions[name] = partitions

    def step(
        self, what: str, trigger: str | None, client: str | None, do: Callable[[], Any], done: Callable[[], bool]
    ) -> None:
        """Do it, and go on until it shows in the group."""
        self.story.steps.append(Step(what, round(time.time() * 1000), trigger, client))
        do()
        deadline = time.monotonic() + STEP_S
        while not done():
            assert time.monotonic() < deadline, (what, self.owners())
            self.work()
        for _ in range(12):
            self.work()

    def work(self) -> None:
        """A little of everybody's work: there is always something to read, so that there is something to commit."""
        from confluent_kafka import KafkaException

        for topic, count in self.partitions.items():
            for partition in range(count):
                with contextlib.suppress(KafkaException):  # a partition that it has not heard of yet
                    self.producer.produce(topic, b"x", partition=partition)
        self.producer.flush(60)
        for each in self.here.values():
            for message in each.consume(50, 0.05):
                assert message.error() is None or message.error().retriable(), message.error()

    def owners(self) -> dict[str, list[list[Any]]]:
        """Partitions by client id, as the coordinator has them now; none while it is being made."""
        description = self.described()
        if description is None:
            return {}
        return {
            member.client_id: sorted([each.topic, each.partition] for each in member.assignment.topic_partitions)
            for member in description.members
        }

    def described(self) -> Any:
        """The group as the coordinator has it now; None if a slow machine takes longer than one request waits."""
        from confluent_kafka import KafkaException

        asked = self.admin.describe_consumer_groups([GROUP], request_timeout=ANSWER_S)[GROUP]
        try:
            return asked.result(2 * ANSWER_S)
        except (KafkaException, TimeoutError):
            return None

    def settle(self) -> None:
        """Go on until each member has reached the group's epoch."""
        from confluent_kafka import ConsumerGroupState

        deadline = time.monotonic() + STEP_S
        while (description := self.described()) is None or description.state != ConsumerGroupState.STABLE:
            assert time.monotonic() < deadline, self.owners()
            self.work()

    def has(self, *clients: str, partitions: int | None = None, topic: str | None = None) -> bool:
        """Whether these are the members, and together have all partitions (of a topic)."""
        owners = self.owners()
        total = sum(topic in (None, each[0]) for partitions_ in owners.values() for each in partitions_)
        return owners.keys() == set(clients) and total == (
            self.partitions["orders"] if partitions is None else partitions
        )

    def commits(self, client: str) -> int:
        """How many different offsets this has seen committed for a partition that the client has now."""
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

        asked = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])[GROUP]
        try:
            found = asked.result(ANSWER_S).topic_partitions
        except (KafkaException, TimeoutError):
            found = []
        owned = [(topic, partition) for topic, partition in self.owners().get(client, [])]
        for each in found:
            if (each.topic, each.partition) in owned:
                self.committed.setdefault((client, each.topic, each.partition), set()).add(each.offset)
        return max((len(self.committed.get((client, *each), ())) for each in owned), default=0)

    def look(self) -> None:
        """What Kafka's own tool says of the members; the group must not change meanwhile."""
        self.settle()
        before = self.owners()
        told = self.broker.tool("ConsumerGroupCommand", "--describe", "--group", GROUP, "--members", "--verbose")
        found: dict[str, list[list[Any]]] = {}
        for line in told.splitlines():
            if line.startswith(GROUP):  # ids may be missing: counted from the end
                client, _count, _epoch, current, _target_epoch, _target = line.split()[-6:]
                topics = [each.split(":") for each in current.split(";") if each not in ("", "-")]
                found[client] = [[topic, int(number)] for topic, numbers in topics for number in numbers.split(",")]
        assert {name: sorted(each) for name, each in found.items()} == before == self.owners(), told
        self.story.members.append((round(time.time() * 1000), before))
        for _ in range(12):  # nobody has committed meanwhile, and the log tells from commits how a member has gone
            self.work()

    def close(self, name: str) -> None:
        self.here.pop(name).close()

    def start(self, name: str, topics: list[str], **settings: Any) -> None:
        self.here[name] = consumer(self.broker.bootstrap, name, topics, **settings)


def play(broker: Any, kind: type[Play] = Play) -> Story:
    """Everything, one after the other."""
    it = kind(broker)
    try:
        _play(it)
    finally:
        # One that is left to the garbage collector is waited for there, for ever once its broker has gone.
        for each in it.here.values():
            each.close()
    it.story.topic_ids = topic_ids(broker.data_dir)
    return it.story


def _play(it: Play) -> None:
    it.topic("orders", 4)
    it.topic("payments", 2)
    it.step("the first joins", "new member", "a", lambda: it.start("a", ["orders"]), lambda: it.has("a"))
    static = {"group_instance_id": "till-1"}
    it.step("a static one", "new member", "b", lambda: it.start("b", ["orders"], **static), lambda: it.has("a", "b"))
    doomed = subprocess.Popen([sys.executable, "-c", MEMBER, it.broker.bootstrap])
    try:
        _with_doomed(it, doomed, static)
    finally:
        doomed.kill()
        doomed.wait()


def _with_doomed(it: Play, doomed: subprocess.Popen[bytes], static: dict[str, str]) -> None:
    it.step(
        "a third",
        "new member",
        "doomed",
        lambda: None,
        lambda: it.has("a", "b", "doomed") and it.commits("doomed") >= COMMITS,
    )
    it.look()
    it.step("it is killed", "session expired", "doomed", doomed.kill, lambda: it.has("a", "b"))
    doomed.wait()
    it.step("partitions", "topics changed", None, lambda: _grow(it, "orders", 6), lambda: it.has("a", "b"))

    def restart() -> None:
        it.close("b")
        it.start("b", ["orders"], **static)

    it.step("the static one restarts", None, "b", restart, lambda: it.has("a", "b") and bool(it.here["b"].assignment()))
    both = ["orders", "payments"]
    it.step(
        "more topics",
        "subscription changed",
        "a",
        lambda: it.here["a"].subscribe(both),
        lambda: it.has("a", "b", partitions=8),
    )
    it.look()
    pattern = ["^payments.*"]
    it.step("a pattern", "new member", "d", lambda: it.start("d", pattern), lambda: bool(it.owners().get("d")))
    it.step(
        "a topic for it",
        "regular expression resolved",
        None,
        lambda: it.topic("payments-eu", 2),
        lambda: ["payments-eu", 0] in it.owners().get("d", []),
    )
    it.look()
    it.step("one leaves", "member left", "a", lambda: it.close("a"), lambda: it.owners().keys() == {"b", "d"})
    it.step(
        "the static one goes for good",
        "session expired",
        "b",
        lambda: it.close("b"),
        lambda: it.owners().keys() == {"d"},
    )
    it.step("the last one leaves", "member left", "d", lambda: it.close("d"), lambda: not it.owners())


def _grow(it: Play, topic: str, count: int) -> None:
    from confluent_kafka.admin import NewPartitions

    for future in it.admin.create_partitions([NewPartitions(topic, count)]).values():
        future.result(120)
    it.partitions[topic] = count


def topic_ids(data_dir: Path) -> dict[str, str]:
    """Topics by id, of the topics that a user made."""
    found = {}
    for path in data_dir.glob("*-0/partition.metadata"):
        name = path.parent.name.removesuffix("-0")
        if not name.startswith("__"):
            found[path.read_text().split("topic_id: ")[1].strip()] = name
    return dict(sorted(found.items()))


def record(directory: Path) -> None:
    """Play it on a broker of its own, and leave its log and its story in `directory`."""
    with tempfile.TemporaryDirectory() as scratch, running_broker(kafka_libs(), Path(scratch), OVERRIDES) as broker:
        story = play(broker)
        broker.stop()
        (segment,) = broker.data_dir.glob("__consumer_offsets-0/*.log")
        target = directory / "__consumer_offsets-0"
        target.mkdir(parents=True, exist_ok=True)
        (target / segment.name).write_bytes(segment.read_bytes())
        (directory / "story.json").write_text(json.dumps(asdict(story), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
