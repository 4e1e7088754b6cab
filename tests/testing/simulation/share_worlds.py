"""Worlds of share groups (KIP-932): one node, its disk, its network, and share consumers with their mistakes.

The daemon is the real one, as in the other worlds; members are those of `share_members.py`. In each chapter there is
first mayhem: members are slow, release, reject, renew, are killed; the node is killed, paused, loses its power, its
disk fails. Then everything is mended, and members accept what they get: within a bound each record must have ended,
each for a reason. Seeds are their own: `python -m tests.testing.simulation.run --protocol share --seed 3`.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.records.batch import iterate_batches, records
from tests.testing.simulation.plan import MINUTE_MS, SECOND_MS, Plan
from tests.testing.simulation.share_members import TOPIC, Producer, ShareMember
from tests.testing.simulation.share_watch import ShareWatch
from tests.testing.simulation.troubles import Troubles
from tests.testing.simulation.world import LOOK_MS, World

GROUP_RESOURCE = 32
LETTERS = "dlq.letters"
CALM_MS = 10 * MINUTE_MS
"""Longer than all sessions, locks and restarts together. Meanwhile records are added now and then: after a restart the
start offset does not pass the gap window, as in Kafka, until the window grows.
"""

WEIGHTS = {
    "put": 30,
    "kill_member": 8,
    "stop_member": 5,
    "pause_member": 5,
    "kill_node": 3,
    "kill_node_in_write": 3,
    "fail_flush": 2,
    "pause_node": 4,
    "slow_disk": 3,
    "cut_path": 5,
    "lose_power": 2,
}


class ShareTroubles(Troubles):
    """What goes wrong in these worlds."""

    world: Any

    def befall(self) -> None:
        """One of them, or more records."""
        name = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        if getattr(self, name)() is not False:
            counted = self.world.counts.troubles
            counted[name] = counted.get(name, 0) + 1

    def put(self) -> None:
        self.world.put(self.random.choice((1, 1, 3, 20, 100)))

    def pause_member(self) -> Any:
        member = self._any_consumer()
        if member is None:
            return False
        return member.pause(int(self.random.choice((0.1, 0.9, 1.5)) * self.world.lock_ms))


class ShareWorld(World):
    """See the module."""

    watch_type: Any = ShareWatch

    def __init__(self, seed: int, *, plan: Plan | None = None, trace: bool = False) -> None:
        plan = replace(plan or Plan.of(seed), nodes=1, most_nodes=1, groups=(), flush="always")
        super().__init__(seed, plan=plan, trace=trace)
        chance = random.Random(f"{seed}/share")
        self.lock_ms = chance.choice((15_000, 30_000))
        self.limit = chance.choice((2, 3, 5))
        self.names = [f"pickers{number}" for number in range(chance.choice((1, 1, 2)))]
        #: the groups have a dead-letter queue
        self.has_letters = seed % 4 == 1
        self.members = {name: chance.choice((1, 2, 3, 5)) for name in self.names}
        self.settings = replace(
            self.settings,
            group_coordinator_rebalance_protocols=("classic", "consumer", "share"),
            group_share_record_lock_duration_ms=self.lock_ms,
            group_share_delivery_count_limit=self.limit,
            errors_deadletterqueue_auto_create_topics_enable=True,
            share_coordinator_snapshot_update_records_per_snapshot=chance.choice((1, 5, 500)),
        )
        self.troubles = ShareTroubles(self)
        self.topic_id = b""
        self.producer: Producer

    def node_started(self) -> None:
        """Nobody looks at offsets."""

    def _run(self) -> None:
        self.machine.start()
        self.producer = Producer(self, "producer")
        self._ask_until(MetadataRequest([MetadataRequestTopic(name=TOPIC)]), self._topic)
        own = {"share.auto.offset.reset": "earliest"}
        if self.has_letters:
            own["errors.deadletterqueue.topic.name"] = LETTERS
        configs = [AlterableConfig(name, 0, value) for name, value in own.items()]
        resources = [AlterConfigsResource(GROUP_RESOURCE, name, configs) for name in self.names]
        self._ask_until(IncrementalAlterConfigsRequest(resources), lambda answer: not answer.responses[0].error_code)
        self.put(50)
        for name, count in self.members.items():
            for number in range(count):
                self.start_member(name, number)
        for _ in range(self.plan.chapters):
            self._mayhem()
            self._calm()

    def _ask_until(self, request: Any, holds: Any) -> None:
        """Ask until the answer is right: before anything goes wrong."""
        answers: list[Any] = []
        while not any(answer is not None and holds(answer) for answer in answers):
            self.producer.ask("admin", request, answers.append)
            self.pass_time(SECOND_MS)
            assert len(answers) < 100, answers

    def _topic(self, answer: Any) -> bool:
        (topic,) = answer.topics
        self.topic_id = topic.topic_id
        return not topic.error_code

    def put(self, count: int) -> None:
        """Append records to one of the partitions."""
        self.producer.put(self.topic_id, self.random.randrange(self.plan.topic_partitions), count)

    def start_member(self, group_id: str, number: int) -> None:
        name = f"{group_id}.s{number}"
        if name not in self.consumers:
            self.story.say(name, "starts")
            self.consumers[name] = ShareMember(self, group_id, number)  # type: ignore[assignment]

    def member_ended(self, member: ShareMember) -> None:
        """It is gone; another one of its name comes later."""
        if self.consumers.get(member.name) is member:  # type: ignore[comparison-overlap]
            del self.consumers[member.name]
        after_ms = self.random.choice((200, 2_000, 20_000))
        self.engine.at(self.engine.now_ms + after_ms, self.start_member, member.group_id, member.number)

    def _calm(self) -> None:
        self.story.say("world", "everything is mended")
        for path in self.network.paths.values():
            if path.is_cut:
                self.network.mend(path)
        node = self.machine.nodes[0]
        if node.daemon is not None:
            node.worker.slow_ms, node.worker.fault = 0, None
        if not self.machine.is_on:
            self.machine.start()
        began_ms = self.engine.now_ms
        while (unsettled := self.unsettled()) is not None:
            if self.engine.now_ms - began_ms > CALM_MS:
                self.watch.fail(f"after {CALM_MS / 1000:g} s without any trouble {unsettled}")
            for partition in range(self.plan.topic_partitions):
                self.producer.put(self.topic_id, partition, 1)
            self.pass_time(20 * LOOK_MS)
        self.story.say("world", f"all is well after {(self.engine.now_ms - began_ms) / 1000:g} s")
        for key, end in self.ends():
            self.watch.at_rest(key, end)  # type: ignore[call-arg]
        if self.has_letters:
            self.watch.have_letters(self.letters())  # type: ignore[attr-defined]

    def letters(self) -> set[tuple[str, int, int]]:
        """The group, partition and offset of each dead letter."""
        daemon = self.machine.nodes[0].daemon
        assert daemon is not None
        topic = daemon.topics.catalogue.by_name.get(LETTERS)
        found = set()
        for partition in () if topic is None else topic.partitions:
            offset = 0
            while offset < partition.log.high_watermark:
                data = partition.log.read(offset, 1 << 20)
                for at, header in iterate_batches(data):
                    for letter in records(data, at, header):
                        told = {name: (value or b"").decode() for name, value in letter.headers}
                        where = int(told["__dlq.errors.partition"]), int(told["__dlq.errors.offset"])
                        found.add((told["__dlq.errors.group"], *where))
                    offset = header.next_offset
        return found

    def ends(self) -> list[tuple[tuple[str, bytes, int], int]]:
        """The end offset of each share partition."""
        daemon = self.machine.nodes[0].daemon
        assert daemon is not None
        partitions = daemon.topics.catalogue.by_id[self.topic_id].partitions
        return [
            ((name, self.topic_id, index), partition.log.high_watermark)
            for name in self.names
            for index, partition in enumerate(partitions)
        ]

    def unsettled(self) -> str | None:
        """What is not as it should be when nothing goes wrong any more."""
        daemon = self.machine.nodes[0].daemon
        if daemon is None or daemon.share is None or self.machine.nodes[0].stopping:
            return "the node does not run"
        for key, end in self.ends():
            actor = daemon.share.delivery.partitions.find(key)
            if actor is None or not actor.is_active:
                return f"{key[0]}-{key[2]} is not loaded"
            if actor.share.start_offset < end:
                return f"{key[0]}-{key[2]} is at {actor.share.start_offset}, not {end}"
        return None
