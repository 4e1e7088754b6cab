"""What a consumer goes through, told with our client against whatever listens: coordinatord here, Kafka in its tier."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer

from coordinatord.testing.member.client import Client
from coordinatord.testing.member.result import Assigned, Lost, Revoked
from coordinatord.testing.member.state import MemberSettings
from tests.support.waiting import PATIENCE_S

PARTITIONS = 4

Story = Callable[[str, str], Any]
"""Called with a bootstrap address and a name that nobody else uses."""


def prepare(bootstrap: str, topic: str, records: int) -> None:
    """A topic with `records` values "0", "1", … dealt out over its partitions."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics({topic: {"num_partitions": PARTITIONS, "replication_factor": 1}})
    admin.wait_for_topics([topic])
    admin.close()
    produce(bootstrap, topic, range(records))


def produce(bootstrap: str, topic: str, numbers: range) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in numbers:
        producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
    producer.flush(timeout=60)
    producer.close(timeout=10)


class Reader:
    """A client in a task that polls all the time."""

    def __init__(self, bootstrap: str, name: str, **settings: Any) -> None:
        settings.setdefault("auto_offset_reset", "earliest")
        settings.setdefault("heartbeat_interval_ms", 100)
        settings.setdefault("session_timeout_ms", 30_000)
        self.changes: list[Assigned | Revoked | Lost] = []
        self.values: list[int] = []
        self.client = Client(bootstrap, MemberSettings(name, **settings), on_change=self.changes.append)
        self.client.subscribe([name])
        self.task = asyncio.ensure_future(self.read())

    async def read(self) -> None:
        while True:
            for records in (await self.client.poll(0.2)).values():
                self.values += [int(record.value or b"") for record in records]

    async def stop(self) -> None:
        """Poll no more; the client lives on."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def close(self, leave: bool | None = None) -> None:
        await self.stop()
        await self.client.close(leave)

    def owns(self) -> int:
        member = self.client.member
        return len(member.partitions) if member.is_settled else -1


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for it, for a long time on a slow machine."""
    deadline_s = asyncio.get_running_loop().time() + PATIENCE_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline_s, f"waited {PATIENCE_S} s for {what}"
        await asyncio.sleep(0.02)


async def reads_commits_and_resumes(bootstrap: str, name: str) -> None:
    """A second consumer of the group goes on where the first one committed."""
    await asyncio.to_thread(prepare, bootstrap, name, 40)
    first = Reader(bootstrap, name, enable_auto_commit=False, max_poll_records=7)
    await until(lambda: len(first.values) >= 40, "40 records")
    await first.stop()
    assert sorted(first.values) == list(range(40))
    await first.client.commit()
    assert sum(first.client.positions.values()) == 40
    await first.client.close()
    await asyncio.to_thread(produce, bootstrap, name, range(40, 48))
    second = Reader(bootstrap, name)
    await until(lambda: len(second.values) >= 8, "8 records")
    assert sorted(second.values) == list(range(40, 48))
    await second.close()
    third = Reader(bootstrap, name)
    await until(lambda: len(third.client.positions) == PARTITIONS, "all positions")
    assert sum(third.client.positions.values()) == 48, "the second one committed when it closed"
    assert third.values == []
    await third.close()


async def rebalances_eagerly(bootstrap: str, name: str) -> None:
    """Two share, and when one leaves the other has all; everything is given up each time."""
    await asyncio.to_thread(prepare, bootstrap, name, 0)
    one = Reader(bootstrap, name)
    await until(lambda: one.owns() == PARTITIONS, "the whole topic")
    two = Reader(bootstrap, name)
    await until(lambda: one.owns() == two.owns() == 2, "two partitions each")
    assert not one.client.assignment & two.client.assignment
    assert [type(change).__name__ for change in one.changes] == ["Assigned", "Revoked", "Assigned"]
    await two.close()
    await until(lambda: one.owns() == PARTITIONS, "the whole topic again")
    await one.close()


async def rebalances_cooperatively(bootstrap: str, name: str) -> None:
    """What stays is never given up: the first one keeps two of its partitions all along."""
    await asyncio.to_thread(prepare, bootstrap, name, 0)
    strategy = ("cooperative-sticky",)
    one = Reader(bootstrap, name, partition_assignment_strategy=strategy)
    await until(lambda: one.owns() == PARTITIONS, "the whole topic")
    two = Reader(bootstrap, name, partition_assignment_strategy=strategy)
    await until(lambda: one.owns() == two.owns() == 2, "two partitions each")
    revoked = [change for change in one.changes if isinstance(change, Revoked)]
    assert [set(change.partitions) for change in revoked] == [two.client.assignment]
    await asyncio.gather(one.close(), two.close())


async def restarts_statically(bootstrap: str, name: str) -> None:
    """A static member that comes back in time gets its partitions back, and nobody else notices."""
    await asyncio.to_thread(prepare, bootstrap, name, 0)
    one = Reader(bootstrap, name, group_instance_id="one")
    two = Reader(bootstrap, name, group_instance_id="two")
    await until(lambda: one.owns() == two.owns() == 2, "two partitions each")
    generation_id, had = one.client.member.generation.generation_id, two.client.assignment
    changes = len(one.changes)
    await two.close()
    again = Reader(bootstrap, name, group_instance_id="two")
    await until(lambda: again.owns() == 2, "the partitions of before")
    assert again.client.assignment == had
    assert again.client.member.generation.generation_id == generation_id
    assert len(one.changes) == changes
    await asyncio.gather(one.close(leave=True), again.close(leave=True))


async def takes_over_from_the_dead(bootstrap: str, name: str) -> None:
    """A member that is killed is expelled when its session ends."""
    await asyncio.to_thread(prepare, bootstrap, name, 0)
    one = Reader(bootstrap, name, session_timeout_ms=6_000)
    two = Reader(bootstrap, name, session_timeout_ms=6_000)
    await until(lambda: one.owns() == two.owns() == 2, "two partitions each")
    await two.stop()
    two.client.abort()
    await until(lambda: one.owns() == PARTITIONS, "the partitions of the dead")
    await one.close()


async def shares_by_the_consumer_protocol(bootstrap: str, name: str) -> None:
    """KIP-848: the coordinator assigns. The second one continues where the first one has committed, and one of them
    has subscribed by an expression.
    """
    await asyncio.to_thread(prepare, bootstrap, name, 20)
    one = Reader(bootstrap, name, group_protocol="consumer")
    await until(lambda: one.owns() == PARTITIONS and len(one.values) == 20, "the whole topic")
    two = Reader(bootstrap, name, group_protocol="consumer")
    await two.stop()
    two.client.subscribe(pattern=f"{name[:-1]}.")
    two.task = asyncio.ensure_future(two.read())
    await until(lambda: one.owns() == two.owns() == 2, "two partitions each")
    assert not one.client.assignment & two.client.assignment
    revoked = [change for change in one.changes if isinstance(change, Revoked)]
    assert [set(change.partitions) for change in revoked] == [two.client.assignment]
    await asyncio.to_thread(produce, bootstrap, name, range(20, 28))
    await until(lambda: len(one.values) + len(two.values) == 28, "the records after that")
    assert sorted(one.values + two.values) == list(range(28)), "each record once"
    await one.close()
    await until(lambda: two.owns() == PARTITIONS, "the whole topic again")
    await two.close()


STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (
        reads_commits_and_resumes,
        rebalances_eagerly,
        rebalances_cooperatively,
        restarts_statically,
        takes_over_from_the_dead,
        shares_by_the_consumer_protocol,
    )
}
