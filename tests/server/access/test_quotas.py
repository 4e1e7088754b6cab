"""Quotas: which one is a client's, how long it is throttled, and that its connection is not read meanwhile. On virtual
time: Kafka's figures to the millisecond.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinatord.server.access import quota_apis
from coordinatord.server.access.quotas import (
    CONNECTIONS,
    FETCHED,
    MAX_METER_BYTES,
    METER_BYTES,
    MUTATIONS,
    PRODUCED,
    SAMPLE_BYTES,
    ClientQuotas,
    Quotas,
    entity,
    record_of,
)
from coordinatord.server.access.rates import Rate
from coordinatord.server.daemon.daemon import Daemon
from coordinatord.testing.conform.raw_client import RawClient
from coordinatord.transport.net.response_queue import THROTTLED
from coordinatord.transport.security.principal import Principal
from kafka_wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kafka_wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.api.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.initialize_share_group_state import InitializeShareGroupStateRequest, InitializeStateData
from kafka_wire.api.initialize_share_group_state import PartitionData as ShareStatePartition
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.api.share_fetch import FetchPartition as FetchedPartition
from kafka_wire.api.share_fetch import FetchTopic as FetchedTopic
from kafka_wire.api.share_fetch import ShareFetchRequest
from kafka_wire.errors import ErrorCode
from kafka_wire.records.batch import BatchBuilder
from tests.reference.in_process import MemoryLink, run, running_in_process

ORDER = [
    entity(user="u", client_id="c"),
    entity(user="u", client_id=None),
    entity(user="u"),
    entity(user=None, client_id="c"),
    entity(user=None, client_id=None),
    entity(user=None),
    entity(client_id="c"),
    entity(client_id=None),
]
SHARED = [("u", "c"), ("u", "c"), ("u", ""), ("u", "c"), ("u", "c"), ("u", ""), ("", "c"), ("", "c")]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_most_specific_quota_is_a_clients(first: int) -> None:
    quotas = ClientQuotas()
    for number in range(first, len(ORDER)):
        quotas.replay(record_of(ORDER[number], PRODUCED, 100.0 + number))
    assert quotas.of(PRODUCED, "u", "c") == (100.0 + first, SHARED[first])
    assert quotas.of("consumer_byte_rate", "u", "c") is None


def test_a_snapshot_makes_the_same_quotas() -> None:
    quotas = ClientQuotas()
    for number, who in enumerate(ORDER):
        quotas.replay(record_of(who, PRODUCED, 100.0 + number))
        quotas.replay(record_of(who, "request_percentage", 1.0))
    quotas.replay(record_of(ORDER[0], PRODUCED, None))
    again = ClientQuotas()
    for record in quotas.records():
        again.replay(record)
    assert again.by_entity == quotas.by_entity
    for who in ORDER:
        for key in (PRODUCED, "request_percentage", "never set"):
            again.replay(record_of(who, key, None))
    assert not again.by_entity


def test_a_users_clients_share_its_quota_and_a_default_gives_each_its_own() -> None:
    def quotas_of(who: frozenset[tuple[str, str | None]]) -> Quotas:
        image = ClientQuotas()
        image.replay(record_of(who, PRODUCED, 1000.0))
        return Quotas(image, samples=11, window_ms=1000, mutation_samples=11, mutation_window_ms=1000)

    shared = quotas_of(entity(user="u"))
    assert shared.used(PRODUCED, "u", "a", 10_000, 0) == 0
    assert shared.used(PRODUCED, "u", "b", 10_000, 0) == 10_000
    apart = quotas_of(entity(client_id=None))
    assert apart.used(PRODUCED, "u", "a", 10_000, 0) == 0
    assert apart.used(PRODUCED, "u", "b", 10_000, 0) == 0
    assert apart.used(PRODUCED, "other", "b", 10_000, 0) == 10_000


def test_meters_are_bounded() -> None:
    image = ClientQuotas()
    image.replay(record_of(entity(client_id=None), PRODUCED, 1000.0))
    quotas = Quotas(image, samples=11, window_ms=1000, mutation_samples=11, mutation_window_ms=1000)
    quotas.used(PRODUCED, "u", "kept", 20_000, 0)
    for number in range(12_000):
        quotas.used(PRODUCED, "u", f"client-{number}", 1, 0)
        if number % 1000 == 0:
            assert quotas.used(PRODUCED, "u", "kept", 0, 0) > 0, "one that is used stays"
    assert 8_000 < len(quotas._rates) < 12_000
    assert quotas._rates.bytes <= MAX_METER_BYTES


def test_meters_of_long_names_take_no_more_memory() -> None:
    """A client id may have 32,767 bytes, which take four times as many if one of its characters is an emoji."""
    image = ClientQuotas()
    for key in (PRODUCED, MUTATIONS):
        image.replay(record_of(entity(client_id=None), key, 1000.0))
    quotas = Quotas(image, samples=11, window_ms=1000, mutation_samples=11, mutation_window_ms=1000)
    tracemalloc.start()
    for number in range(600):
        name = f"{number}-\U0001f600" + "x" * 32_000
        quotas.used(PRODUCED, "u", name, 1, 0)
        quotas.mutate("u", name, 1, 0, is_strict=True)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(quotas._rates) < 200
    assert held <= 2 * MAX_METER_BYTES


def test_a_rate_takes_what_is_counted_for_it() -> None:
    tracemalloc.start()
    rates = [Rate(11, 1000) for _ in range(100)]
    for rate in rates:
        for now_ms in range(0, 40_000, 1000):
            rate.record(1.5, now_ms)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held / len(rates) <= METER_BYTES + 12 * SAMPLE_BYTES


# Through the protocol


def set_to(value: float | None, key: str = PRODUCED, **who: str | None) -> AlterClientQuotasRequest:
    names = [EntityData(kind.replace("_", "-"), name) for kind, name in who.items()]
    return AlterClientQuotasRequest([EntryData(names, [OpData(key, value or 0.0, value is None)])])


def records(size: int) -> bytes:
    builder = BatchBuilder()
    builder.add(None, bytes(size), 1_750_000_000_000)
    return bytes(builder.finish(0, leader_epoch=0))


def produce(size: int, acks: int = -1) -> ProduceRequest:
    data = [TopicProduceData("orders", bytes(16), [PartitionProduceData(0, records(size))])]
    return ProduceRequest(None, acks, 1000, data)


class Client:
    """A raw client, and its connection in the daemon."""

    def __init__(self, daemon: Daemon, user: str) -> None:
        self.daemon = daemon
        self.link = MemoryLink(daemon)
        self.link.connection.principal = Principal("User", user)
        self.raw = RawClient(self.link, "c")

    async def ask(self, request: Any, version: int) -> Any:
        return await self.raw.ask(request, version)

    @property
    def is_muted(self) -> bool:
        return bool(self.link.connection.line.stops & THROTTLED)

    def now_ms(self) -> int:
        return int(self.daemon.now_ms())


@asynccontextmanager
async def serving(directory: Path, settings: dict[str, str] | None = None) -> AsyncIterator[Daemon]:
    async with running_in_process(directory, settings or {}) as process:
        client = Client(process.daemon, "admin")
        await client.ask(MetadataRequest([MetadataRequestTopic(bytes(16), "orders")], True), 12)
        yield process.daemon


def test_a_producer_over_its_quota_is_told_and_not_read(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as daemon:
            admin, client = Client(daemon, "admin"), Client(daemon, "u")
            assert (await client.ask(produce(50_000), 11)).throttle_time_ms == 0
            await admin.ask(set_to(1000.0, user="u"), 1)
            size = len(records(20_000)) + 73  # the request's other fields
            began_ms = client.now_ms()
            answer = await client.ask(produce(20_000), 11)
            assert client.now_ms() == began_ms, "the answer goes out at once"
            expected = (size / 10 - 1000) / 1000 * 10_000
            assert abs(answer.throttle_time_ms - expected) <= 100
            assert client.is_muted
            assert not admin.is_muted
            # The next request waits, as if it were still on its way.
            await client.ask(HeartbeatRequest("g", 1, "m"), 4)
            assert client.now_ms() - began_ms >= answer.throttle_time_ms
            assert not client.is_muted
            await admin.ask(set_to(None, user="u"), 1)
            assert (await client.ask(produce(90_000), 11)).throttle_time_ms == 0

    run(story())


def test_a_producer_that_wants_no_answer_is_not_read_either(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as daemon:
            admin, client = Client(daemon, "admin"), Client(daemon, "u")
            await admin.ask(set_to(1000.0, client_id="c"), 1)
            began_ms = client.now_ms()
            client.raw.send(produce(30_000, acks=0), 11)
            client.raw.unanswered.clear()
            await client.ask(HeartbeatRequest("g", 1, "m"), 4)
            assert client.now_ms() - began_ms >= 19_000

    run(story())


def fetch(offset: int = 0) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic("orders", bytes(16), [FetchPartition(0, -1, offset, partition_max_bytes=1 << 20)])],
    )


def test_a_consumer_over_its_quota_gets_an_empty_response_and_then_the_records(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as daemon:
            admin, client = Client(daemon, "admin"), Client(daemon, "u")
            for _ in range(4):
                await admin.ask(produce(8_000), 11)
            await admin.ask(set_to(1000.0, "consumer_byte_rate", user=None), 1)
            began_ms = client.now_ms()
            first = await client.ask(fetch(), 12)
            got = first.responses[0].partitions[0].records
            assert 8_000 < len(got) < 10_000, "no more than the quota over ten windows"
            assert first.throttle_time_ms == 0
            second = await client.ask(fetch(1), 12)
            assert second.responses == []
            assert second.throttle_time_ms > 5_000
            for _ in range(3):  # what it has got counts for eleven seconds
                later = await client.ask(fetch(1), 12)
                if later.responses:
                    break
            assert later.responses[0].partitions[0].records
            assert client.now_ms() - began_ms < 14_000

    run(story())


def test_a_share_consumer_over_its_quota_gets_its_records_and_is_not_read(tmp_path: Path) -> None:
    """The records are locked for the member, so they are not withheld."""

    async def story() -> None:
        settings = {"group.coordinator.rebalance.protocols": "classic,share"}
        async with serving(tmp_path, settings) as daemon:
            admin, client = Client(daemon, "admin"), Client(daemon, "u")
            topic_id = daemon.topics.topic_id("orders") or b""
            state = InitializeStateData(topic_id, [ShareStatePartition(0, 1, 0)])
            assert daemon.share is not None
            daemon.share.coordinator.partitions.ensure()
            await admin.ask(InitializeShareGroupStateRequest("g", [state]), 0)
            for _ in range(4):
                await admin.ask(produce(8_000), 11)
            await admin.ask(set_to(1000.0, "consumer_byte_rate", user=None), 1)
            asked = ShareFetchRequest(
                "g", "m", max_records=1, max_wait_ms=500, topics=[FetchedTopic(topic_id, [FetchedPartition(0)])]
            )
            first = await client.ask(asked, 1)
            second = await client.ask(replace(asked, share_session_epoch=1, topics=[]), 1)
            found = [response.responses[0].partitions[0] for response in (first, second)]
            assert [data.acquired_records[0].first_offset for data in found] == [0, 1]
            assert all(8_000 < len(data.records) < 10_000 for data in found), "no more than the quota over ten windows"
            assert first.throttle_time_ms == 0
            assert second.throttle_time_ms > 5_000

    run(story())


def test_a_throttled_fetch_makes_no_session_and_takes_no_news_from_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as daemon:
            admin, client = Client(daemon, "admin"), Client(daemon, "u")
            for _ in range(3):
                await admin.ask(produce(8_000), 11)
            incremental = fetch(3)
            incremental.session_epoch = 0
            incremental.session_id = (await client.ask(incremental, 12)).session_id
            assert incremental.session_id
            incremental.topics = []
            incremental.session_epoch = 1
            assert (await client.ask(incremental, 12)).responses == [], "no news"
            await admin.ask(set_to(1000.0, "consumer_byte_rate", user=None), 1)
            await admin.ask(produce(8_000), 11)
            in_session, full = replace(incremental, session_epoch=2), replace(fetch(), session_epoch=0)
            assert (await client.ask(full, 12)).throttle_time_ms == 0
            throttled = await client.ask(full, 12)
            assert (throttled.throttle_time_ms > 0, throttled.session_id) == (True, 0)
            assert len(daemon.topics.fetching.sessions) == 2
            told = []
            while not told:
                told = (await client.ask(in_session, 12)).responses
                in_session.session_epoch += 1
            [partition] = told[0].partitions
            assert (partition.high_watermark, bool(partition.records)) == (4, True)
            assert in_session.session_epoch > 3, "it was throttled before"

    run(story())


def test_request_time_is_measured_by_a_clock_and_throttled_for_a_window_at_most(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as daemon:
            admin, client = Client(daemon, "admin"), Client(daemon, "u")
            await admin.ask(set_to(0.000001, "request_percentage", user="u"), 1)
            assert (await client.ask(HeartbeatRequest("g", 1, "m"), 4)).throttle_time_ms == 1000
            assert (await admin.ask(HeartbeatRequest("g", 1, "m"), 4)).throttle_time_ms == 0

    run(story())


@pytest.mark.parametrize("is_strict", [True, False])
def test_changes_of_partitions_take_tokens(tmp_path: Path, is_strict: bool) -> None:
    """KIP-599: newer requests are refused beyond the quota, older ones are made; both are throttled."""

    async def story() -> None:
        async with serving(tmp_path) as daemon:
            admin, client = Client(daemon, "admin"), Client(daemon, "u")
            await admin.ask(set_to(1.0, "controller_mutation_rate", user="u"), 1)  # a bucket of 11
            made = await client.ask(
                CreateTopicsRequest([CreatableTopic("a", 8, 1), CreatableTopic("b", 8, 1), CreatableTopic("c", 8, 1)]),
                6 if is_strict else 5,
            )
            errors = {topic.name: topic.error_code for topic in made.topics}
            refused = ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_strict else 0
            assert errors == {"a": 0, "b": 0, "c": refused}
            assert made.throttle_time_ms == (5_000 if is_strict else 13_000)
            began_ms = client.now_ms()
            grown = await client.ask(
                CreatePartitionsRequest([CreatePartitionsTopic("a", 18, None)]), 3 if is_strict else 2
            )
            assert client.now_ms() - began_ms >= made.throttle_time_ms, "the bucket is filled again"
            assert grown.results[0].error_code == 0
            gone = await client.ask(
                DeleteTopicsRequest([DeleteTopicState("a")]) if is_strict else DeleteTopicsRequest(topic_names=["a"]),
                6 if is_strict else 4,
            )
            assert gone.responses[0].error_code in ((0, refused) if is_strict else (0,))

    run(story())


def test_quotas_survive_a_restart(tmp_path: Path) -> None:
    async def create() -> None:
        async with serving(tmp_path) as daemon:
            await Client(daemon, "admin").ask(set_to(1000.0, user="u", client_id=None), 1)

    async def look() -> None:
        async with serving(tmp_path) as daemon:
            found = await Client(daemon, "admin").ask(DescribeClientQuotasRequest([ComponentData("user", 0, "u")]), 1)
            assert [(v.key, v.value) for e in found.entries for v in e.values] == [(PRODUCED, 1000.0)]
            client = Client(daemon, "u")
            await client.ask(produce(5_000), 11)
            assert (await client.ask(produce(20_000), 11)).throttle_time_ms > 0

    run(create())
    run(look())


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (set_to(1.0), "Invalid empty client quota entity"),
        (set_to(1.0, host="a"), "Unhandled client quota entity type: host"),
        (set_to(1.0, user=""), "Empty user not supported"),
        (set_to(0.0, user="u"), "Quota producer_byte_rate must be greater than 0"),
        (set_to(1.5, user="u"), "producer_byte_rate cannot be a fractional value."),
        (set_to(1e30, user="u"), "Proposed value for producer_byte_rate is too large for a LONG."),
        (set_to(1.0, "speed", user="u"), "Invalid configuration key speed"),
        (set_to(1.0, ip="10.0.0.1"), "Invalid configuration key producer_byte_rate"),
        (set_to(1.0, "connection_creation_rate", ip="not an ip"), "not an ip is not a valid IP or resolvable host."),
        (
            set_to(1.0, "connection_creation_rate", ip="10.0.0.1", user="u"),
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        (
            AlterClientQuotasRequest([EntryData([EntityData("user", None)], [OpData(PRODUCED, 1.0, False)] * 2)]),
            "Ignoring duplicate entity ClientQuotaEntity(entries={user=null})",
        ),
    ],
)
def test_what_is_no_quota_is_refused(tmp_path: Path, request_: AlterClientQuotasRequest, message: str) -> None:
    async def story() -> None:
        async with serving(tmp_path) as daemon:
            client = Client(daemon, "admin")
            (result,) = (await client.ask(request_, 1)).entries
            assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, message)
            assert (await client.ask(DescribeClientQuotasRequest(), 1)).entries == []

    run(story())


FRACTIONS = ("request_percentage", "controller_mutation_rate")


@pytest.mark.parametrize("key", [PRODUCED, FETCHED, *FRACTIONS, CONNECTIONS])
@pytest.mark.parametrize("value", [5e-324, 1e-300, 1e308, float("inf"), float("nan")])
def test_every_double_that_kafka_takes_is_a_quota_to_live_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str, value: float
) -> None:
    """Asked of Kafka 4.3, which looks for integers by the remainder, and refuses what is 0 or less."""
    written = []

    def record(*arguments: Any) -> Any:
        written.append(arguments)
        return record_of(*arguments)

    monkeypatch.setattr(quota_apis, "record_of", record)

    async def story() -> None:
        async with serving(tmp_path) as daemon:
            admin = Client(daemon, "admin")
            who = {"ip": "127.0.0.1"} if key == CONNECTIONS else {"user": "u"}
            (result,) = (await admin.ask(set_to(value, key, **who), 1)).entries
            is_taken = key in FRACTIONS or not value > 1
            assert result.error_code == (0 if is_taken else ErrorCode.INVALID_REQUEST)
            await admin.ask(set_to(value, key, **who), 1)
            assert len(written) == is_taken, "the same value once more is no change"
            described = (await admin.ask(DescribeClientQuotasRequest(), 1)).entries
            assert [repr(each.values[0].value) for each in described] == [repr(value)] * is_taken
            if key == CONNECTIONS and is_taken:
                client, began_ms = Client(daemon, "u"), admin.now_ms()
                with pytest.raises(ConnectionError):
                    await client.ask(HeartbeatRequest("g", 1, "m"), 4)
                assert admin.now_ms() - began_ms <= 1_100, "an address waits for a window at most"
                return
            for number, version in enumerate((6, 5, 6)):
                requests = [
                    (produce(100), 11),
                    (fetch(), 12),
                    (CreateTopicsRequest([CreatableTopic(f"t{number}", 1, 1)], 1000), version),
                ]
                for request, version_ in requests:
                    throttle_ms = (await Client(daemon, "u").ask(request, version_)).throttle_time_ms
                    assert 0 <= throttle_ms <= (0 if value > 1 or value != value else 2**31 - 1)

    run(story())


def test_of_a_type_that_an_entity_names_twice_the_last_name_counts(tmp_path: Path) -> None:
    """Asked of Kafka 4.3, which answers with the last name alone."""

    def entry(*names: str | None, value: float = 1.0) -> EntryData:
        return EntryData([EntityData("client-id", name) for name in names], [OpData(PRODUCED, value, False)])

    async def story() -> None:
        async with serving(tmp_path) as daemon:
            client = Client(daemon, "admin")

            async def alter(*entries: EntryData) -> list[tuple[int, list[str | None]]]:
                answer = await client.ask(AlterClientQuotasRequest(list(entries)), 1)
                return [(each.error_code, [part.entity_name for part in each.entity]) for each in answer.entries]

            assert await alter(entry("a", None)) == [(0, [None])]
            assert await alter(entry(None, "a"), entry("a", "b", value=2.0)) == [(0, ["a"]), (0, ["b"])]
            assert await alter(entry("a", None), entry("b", None)) == [(ErrorCode.INVALID_REQUEST, [None])]
            assert await alter(entry("a", "")) == [(ErrorCode.INVALID_REQUEST, [""])]
            assert await alter(entry("", "c")) == [(0, ["c"])]
            described = (await client.ask(DescribeClientQuotasRequest(), 1)).entries
            assert [(each.entity[0].entity_name, each.values[0].value) for each in described] == [
                (None, 1.0), ("a", 1.0), ("b", 2.0), ("c", 1.0),
            ]  # fmt: skip

    run(story())


def test_so_many_entities_may_have_quotas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those that have some may get others, and lose them."""
    monkeypatch.setattr(quota_apis, "MAX_ENTITIES", 5)

    def entry(name: str, value: float, *, remove: bool = False) -> EntryData:
        return EntryData([EntityData("user", name)], [OpData(PRODUCED, value, remove)])

    answers = []

    async def story() -> None:
        requests = [
            [entry(f"u{number}", 1.0) for number in range(7)],
            [entry("u0", 2.0), entry("more", 1.0)],
            [entry("u0", 2.0, remove=True)],
            [entry("more", 1.0), entry("more still", 1.0), entry("x" * 1_025, 1.0)],
        ]
        async with serving(tmp_path) as daemon:
            for entries in requests:
                answer = await Client(daemon, "admin").ask(AlterClientQuotasRequest(entries), 1)
                answers.append([each.error_code for each in answer.entries])

    run(story())
    policy, invalid = ErrorCode.POLICY_VIOLATION, ErrorCode.INVALID_REQUEST
    assert answers == [[0] * 5 + [policy] * 2, [0, policy], [0], [0, policy, invalid]]


def test_connections_of_an_address_are_counted_and_slowed(tmp_path: Path) -> None:
    async def story() -> None:
        settings = {"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "127.0.0.1:4"}
        async with serving(tmp_path, settings) as daemon:  # which has connected once
            clients = [Client(daemon, "u") for _ in range(4)]
            assert [client.link.connection.closed for client in clients] == [False, False, False, True]
            clients[0].link.close()
            clients[3].link.close()
            await clients[1].ask(HeartbeatRequest("g", 1, "m"), 4)
            assert not Client(daemon, "u").link.connection.closed

    run(story())


def test_an_address_over_its_rate_is_closed_when_it_might_have_connected(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as daemon:
            admin = Client(daemon, "admin")
            await admin.ask(set_to(1.0, "connection_creation_rate", ip="127.0.0.1"), 1)
            clients = [Client(daemon, "u") for _ in range(12)]
            assert [client.is_muted for client in clients] == [False] * 10 + [True] * 2
            began_ms = admin.now_ms()
            with pytest.raises(ConnectionError):
                await clients[-1].ask(HeartbeatRequest("g", 1, "m"), 4)
            assert 900 <= admin.now_ms() - began_ms <= 1_100

    run(story())


def test_beyond_the_rate_of_all_clients_are_served_later(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path, {"max.connection.creation.rate": "2"}) as daemon:
            clients = [Client(daemon, "u") for _ in range(24)]
            began_ms = clients[0].now_ms()
            await clients[0].ask(HeartbeatRequest("g", 1, "m"), 4)
            assert clients[0].now_ms() == began_ms
            await clients[-1].ask(HeartbeatRequest("g", 1, "m"), 4)
            assert clients[0].now_ms() - began_ms >= 2_000

    run(story())


def test_without_quotas_nothing_is_in_the_way_and_afterwards_nothing_is_left(tmp_path: Path) -> None:
    async def story() -> None:
        async with serving(tmp_path) as daemon:
            admin = Client(daemon, "admin")
            routes = daemon.door.router.routes  # type: ignore[attr-defined]
            plain, shortcuts = dict(routes.handlers), routes.shortcuts
            await admin.ask(set_to(1.0, "request_percentage", user="nobody"), 1)
            assert routes.handlers != plain
            assert routes.shortcuts == {}
            await admin.ask(set_to(None, "request_percentage", user="nobody"), 1)
            assert routes.handlers == plain
            assert routes.shortcuts == shortcuts

    run(story())
