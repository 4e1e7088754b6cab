"""What a request costs where requests are rare: spread evenly over time, one by one, each on another connection.

A server that is asked a few hundred times a second sleeps between two requests, and other programs have its processor's
caches meanwhile. So a request costs it several times of what it costs in a row: to be woken, and to read its own code
and data anew. Each row has one kind of request of `real-clients`, at about the rate that it has there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.records.batch import build_batch
from tests.bench import frames, groups
from tests.bench.generator import Flow, Line, Poller, WrongAnswer
from tests.bench.groups import require
from tests.bench.registry import KAFKA, KFAKE, LIMIT, OURS_NEVER, Arena, Column, Sample, at_most, row
from tests.bench.rows.steady import commit_flows, heartbeat_flows
from tests.bench.servers import Server

WINDOWS = 4
"""A window is so many times as long as another row's round."""
WARM_S = {"kafka": 15.0}
WARM_ELSE_S = 1.0
A_SECOND = 300
"""Heartbeats, or commits."""
CONSUMERS = 60
"""Each has a record a second, or two polls that end without any."""
TOPIC = "bench-paced"
FETCH_VERSION, PRODUCE_VERSION = 12, 9
POLL_MS, RECORD_MS = 500, 30_000
"""How long a fetch waits: as consumers' defaults have it, and so long that each gets a record."""
COMPLETE = 0.9
LED_TRIES, LED_RETRY_S = 100, 0.1

Ask = Callable[[int], object]
"""Do the next piece of work, the number of which is given, and wait for its answers."""


def paced(ask: Ask, a_second: float, seconds: float) -> int:
    """Do a piece of work each 1 / `a_second` for so many seconds; returns how many. What is late is done at once."""
    began_s = time.monotonic()
    count = 0
    while count < a_second * seconds:
        ask(count)
        count += 1
        time.sleep(max(0.0, began_s + count / a_second - time.monotonic()))
    return count


def measured(server: Server, work: Callable[[float], int], a_second: float, seconds: float) -> Sample:
    """`work(seconds)` does some, and returns how much. The first time, the server is warmed up with it."""
    work(WARM_S.get(server.kind, WARM_ELSE_S))
    began_s, used_s = time.monotonic(), server.cpu_s()
    count = work(seconds)
    used_s, took_s = server.cpu_s() - used_s, time.monotonic() - began_s
    if count < COMPLETE * a_second * took_s:
        raise WrongAnswer(f"{count / took_s:.0f} a second, not {a_second}")
    return Sample(used_s / count * 1e6, per_s=count / took_s, server_busy=used_s / took_s)


def asking(arena: Arena, column: Column, seconds: float, name: str, flows: Callable[[Server], list[Flow]]) -> Sample:
    """The flows of `steady`'s rows, one request at a time."""
    server = arena.server(column)
    if name not in server.fixtures:
        server.fixtures[name] = flows(server)
    ready: Sequence[Flow] = server.fixtures[name]  # type: ignore[assignment]

    def ask(number: int) -> None:
        flow = ready[number % len(ready)]
        flow.send(1, time.perf_counter())
        while not flow.receive(time.perf_counter(), []):
            pass

    return measured(server, lambda window_s: paced(ask, A_SECOND, window_s), A_SECOND, seconds * WINDOWS)


@row(
    "paced-heartbeat",
    f"a heartbeat where there are {A_SECOND} a second: CPU",
    "µs",
    columns=[OURS_NEVER, LIMIT, KAFKA, KFAKE],
    targets=[at_most(1, of="kfake")],
    quick=False,
)
def heartbeat(arena: Arena, column: Column, seconds: float) -> Sample:
    return asking(arena, column, seconds, "paced heartbeats", heartbeat_flows)


@row(
    "paced-commit",
    f"a commit of 4 partitions where there are {A_SECOND} a second: CPU",
    "µs",
    columns=[OURS_NEVER, KAFKA, KFAKE],
    targets=[at_most(1, of="kfake")],
    quick=False,
)
def commit(arena: Arena, column: Column, seconds: float) -> Sample:
    return asking(arena, column, seconds, "paced commits", commit_flows)


class Consumers:
    """Consumers of a partition each, whose fetches wait, and a producer for all of them."""

    def __init__(self, server: Server, topic: str, wait_ms: int) -> None:
        self.topic, self.wait_ms = topic, wait_ms
        self.producer = server.line()
        made = self.producer.ask(CreateTopicsRequest([CreatableTopic(topic, CONSUMERS, 1)], 30_000), 5)
        require(made.topics[0].error_code, "CreateTopics")
        self.lines: list[Line] = groups.lines(server, CONSUMERS)
        self.offsets = [0] * CONSUMERS
        self.poller = Poller([line.sock for line in self.lines])
        self.numbers = {line.sock.fileno(): number for number, line in enumerate(self.lines)}
        self._wait_until_led()
        for number in range(CONSUMERS):
            self.fetch(number)
            if wait_ms < RECORD_MS:  # their polls are spread evenly, as those of clients are
                time.sleep(wait_ms / 1000 / CONSUMERS)

    def _wait_until_led(self) -> None:
        """Kafka makes a topic before it leads all of its partitions."""
        partitions = [FetchPartition(number, -1, 0) for number in range(CONSUMERS)]
        wanted = FetchRequest(max_wait_ms=0, session_epoch=-1, topics=[FetchTopic(self.topic, partitions=partitions)])
        for _ in range(LED_TRIES):
            found = self.producer.ask(wanted, FETCH_VERSION).responses[0].partitions
            if not any(each.error_code for each in found):
                return
            time.sleep(LED_RETRY_S)
        raise WrongAnswer("the topic's partitions have no leader")

    def fetch(self, number: int) -> None:
        partition = FetchPartition(number, -1, self.offsets[number], partition_max_bytes=1 << 20)
        wanted = FetchRequest(
            max_wait_ms=self.wait_ms,
            min_bytes=1,
            max_bytes=50 << 20,
            session_epoch=-1,
            topics=[FetchTopic(self.topic, partitions=[partition])],
        )
        self.lines[number].sock.sendall(frames.frame(wanted, FETCH_VERSION))

    def take(self, number: int) -> int:
        """The records that a fetch has got, in bytes."""
        fetched = frames.response(FetchRequest(), self.lines[number].take(), FETCH_VERSION)
        (partition,) = fetched.responses[0].partitions
        require(partition.error_code, "Fetch")
        return len(partition.records or b"")

    def record(self, number: int) -> None:
        """One record goes from the producer to its consumer, who fetches the next one."""
        number %= CONSUMERS
        records = bytes(build_batch([(None, b"x" * 100)], int(time.time() * 1000)))
        data = TopicProduceData(self.topic, partition_data=[PartitionProduceData(number, records)])
        produced = self.producer.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), PRODUCE_VERSION)
        require(produced.responses[0].partition_responses[0].error_code, "Produce")
        if self.take(number) != len(records):
            raise WrongAnswer("a consumer did not get its record")
        self.offsets[number] += 1
        self.fetch(number)

    def polls(self, seconds: float) -> int:
        """Fetches that end without records, each followed by the next one of its consumer; returns how many."""
        ends_s, count = time.monotonic() + seconds, 0
        while (left_s := ends_s - time.monotonic()) > 0:
            for descriptor, _ in self.poller.wait(left_s):
                number = self.numbers[descriptor]
                if self.take(number):
                    raise WrongAnswer("a consumer got records that nobody has sent")
                self.fetch(number)
                count += 1
        return count


def consumers(server: Server, name: str, wait_ms: int) -> Consumers:
    if name not in server.fixtures:
        server.fixtures[name] = Consumers(server, f"{TOPIC}-{name}", wait_ms)
    made: Consumers = server.fixtures[name]  # type: ignore[assignment]
    return made


@row(
    "paced-record",
    f"a record to a consumer who waits, {CONSUMERS} a second: CPU of its produce and its fetch",
    "µs",
    columns=[OURS_NEVER, KAFKA, KFAKE],
    targets=[at_most(1, of="kfake")],
    quick=False,
)
def record(arena: Arena, column: Column, seconds: float) -> Sample:
    with arena.fresh(column) as server:
        all_of_them = consumers(server, "records", RECORD_MS)
        return measured(
            server, lambda window_s: paced(all_of_them.record, CONSUMERS, window_s), CONSUMERS, seconds * WINDOWS
        )


@row(
    "paced-poll",
    f"a fetch that waits half a second in vain, {CONSUMERS} consumers: CPU",
    "µs",
    columns=[OURS_NEVER, KAFKA, KFAKE],
    targets=[at_most(1, of="kfake")],
    quick=False,
)
def poll(arena: Arena, column: Column, seconds: float) -> Sample:
    with arena.fresh(column) as server:
        return measured(
            server, consumers(server, "polls", POLL_MS).polls, CONSUMERS * 1000 / POLL_MS, seconds * WINDOWS
        )
