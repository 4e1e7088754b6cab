"""Programs of a hostile neighbour: each may send anything that the protocol allows, and does so for some seconds.

    python -m tests.hostile.attacks NAME PORT SECONDS

They run in a process of their own. Each makes its topics itself, and prints how often it did what it does.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Callable, Iterator

from kafka_wire.api.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kafka_wire.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_wire.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_wire.api.describe_groups import DescribeGroupsRequest
from kafka_wire.api.describe_producers import DescribeProducersRequest, TopicRequest
from kafka_wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafka_wire.api.list_transactions import ListTransactionsRequest
from kafka_wire.api.metadata import MetadataRequest, MetadataRequestTopic
from kafka_wire.api.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_wire.records.batch import BatchBuilder, build_batch
from kafka_wire.records.compression import Compression
from kafka_wire.schema import ZERO_UUID
from tests.hostile.record_attacks import RECORD_ATTACKS
from tests.hostile.share_attacks import SHARE_ATTACKS, SHARED
from tests.hostile.turns import Peer, create_topics
from tests.support.shell import request_frame

TOPIC, GROUP, BROKER = 2, 32, 4
"""`resource_type`."""

Attack = Callable[[int], Iterator[None]]
"""Of a port; yields after each stroke."""

ATTACKS: dict[str, Attack] = {}


def attack(function: Attack) -> Attack:
    """Name an attack by its function."""
    ATTACKS[function.__name__] = function
    return function


def _coordinated(peer: Peer, group: str) -> None:
    """Wait until a group has its coordinator: Kafka makes the topic of offsets when somebody asks for the first one."""
    while True:
        [found] = peer.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4).coordinators
        if not found.error_code:
            [offsets] = peer.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)]), 8).groups
            if not offsets.error_code:
                return
        time.sleep(0.02)


@attack
def settings_of_3000_topics(port: int) -> Iterator[None]:
    """Each of them is changed, again and again."""
    peer = Peer(port)
    names = [f"settings-{number}" for number in range(3_000)]
    create_topics(peer, *names)
    for value in range(1_000, 1_000_000):
        config = [AlterableConfig("retention.ms", 0, str(value))]
        peer.ask(IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, name, config) for name in names]), 1)
        yield


@attack
def settings_of_3000_groups(port: int) -> Iterator[None]:
    """The same with groups, which need not exist."""
    peer = Peer(port)
    for value in range(45_001, 60_000):
        config = [AlterableConfig("consumer.session.timeout.ms", 0, str(value))]
        changes = [AlterConfigsResource(GROUP, f"settings-{number}", config) for number in range(3_000)]
        peer.ask(IncrementalAlterConfigsRequest(changes), 1)
        yield


@attack
def topics_that_come_and_go(port: int) -> Iterator[None]:
    """Two thousand at a time, and one of five thousand partitions."""
    peer = Peer(port)
    while True:
        names = [f"fleeting-{number}" for number in range(2_000)]
        create_topics(peer, *names)
        create_topics(peer, "wide", partitions=5_000)
        peer.ask(DeleteTopicsRequest([DeleteTopicState(name) for name in (*names, "wide")], timeout_ms=10_000), 6)
        yield


@attack
def topics_made_by_asking(port: int) -> Iterator[None]:
    """Metadata of two thousand names that nobody has: auto.create.topics.enable."""
    peer = Peer(port)
    while True:
        names = [f"asked-{number}" for number in range(2_000)]
        peer.ask(MetadataRequest([MetadataRequestTopic(name=name) for name in names]), 8)
        peer.ask(DeleteTopicsRequest([DeleteTopicState(name) for name in names], timeout_ms=10_000), 6)
        yield


@attack
def one_group_a_thousand_times(port: int) -> Iterator[None]:
    """OffsetFetch of 12 KB whose answer would have 150 MB."""
    peer = Peer(port)
    create_topics(peer, "much", partitions=5_000)
    _coordinated(peer, "much")
    partitions = [OffsetCommitRequestPartition(number, 1, -1, "x" * 10) for number in range(5_000)]
    peer.ask(OffsetCommitRequest("much", topics=[OffsetCommitRequestTopic("much", partitions=partitions)]), 8)
    while True:
        peer = Peer(port)
        peer.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("much", topics=None)] * 1_000), 8)
        peer.receive()
        yield


@attack
def all_settings_of_the_broker(port: int) -> Iterator[None]:
    """DescribeConfigs of 25 KB, for an answer of 19 MB."""
    peer = Peer(port)
    resources = [DescribeConfigsResource(BROKER, "0", None)] * 800
    while True:
        peer.ask(DescribeConfigsRequest(resources, include_synonyms=True, include_documentation=True), 4)
        yield


@attack
def names_that_nobody_has(port: int) -> Iterator[None]:
    """The largest lists that a request may have."""
    peer = Peer(port)
    groups = [f"none-{number:06d}" for number in range(100_000)]
    topics = [ListOffsetsTopic(f"none-{number:05d}", [ListOffsetsPartition(0, -1, -1)]) for number in range(40_000)]
    while True:
        peer.ask(DescribeGroupsRequest(groups), 5)
        peer.ask(ListOffsetsRequest(-1, 0, topics), 6)
        yield


@attack
def partitions_never_written(port: int) -> Iterator[None]:
    """A thousand of them get their first record in one request."""
    peer = Peer(port)
    batch = build_batch([(None, b"x")], 1_700_000_000_000)
    data = [PartitionProduceData(index, batch) for index in range(1_000)]
    for number in range(1_000):
        create_topics(peer, f"new-{number}", partitions=1_000)
        peer.ask(ProduceRequest(None, -1, 60_000, [TopicProduceData(f"new-{number}", ZERO_UUID, data)]), 9)
        peer.ask(DeleteTopicsRequest([DeleteTopicState(f"new-{number}")], timeout_ms=10_000), 6)
        yield


@attack
def bombs(port: int) -> Iterator[None]:
    """A hundred batches in one Produce request, each of 120 MB when it is decompressed."""
    peer = Peer(port)
    create_topics(peer, "bombed", partitions=100)
    batch = build_batch([(None, bytes(120 << 20))], 1_700_000_000_000, compression=Compression.ZSTD)
    data = [PartitionProduceData(index, batch) for index in range(100)]
    while True:
        peer.ask(ProduceRequest(None, -1, 10_000, [TopicProduceData("bombed", ZERO_UUID, data)]), 9)
        yield


@attack
def flood_without_answers(port: int) -> Iterator[None]:
    """acks=0 on four connections, as fast as it goes."""
    peers = [Peer(port) for _ in range(4)]
    create_topics(peers[0], "flooded")
    batch = build_batch([(None, bytes(900_000))], 1_700_000_000_000)
    data = [TopicProduceData("flooded", ZERO_UUID, [PartitionProduceData(0, batch)])]
    frame = request_frame(ProduceRequest(None, 0, 1000, data), 9, 1)
    while True:
        for peer in peers:
            peer.socket.sendall(frame)
        yield


def _pile_up(peer: Peer, frame: bytes) -> None:
    """Send until nothing more is taken."""
    peer.socket.settimeout(0.2)
    with contextlib.suppress(TimeoutError, BlockingIOError, ConnectionError):
        for _ in range(2_000):
            peer.socket.sendall(frame)


@attack
def answers_never_read(port: int) -> Iterator[None]:
    """Sixteen connections ask for large answers and read none."""
    peers = []
    resources = [DescribeConfigsResource(BROKER, "0", None)] * 100
    frames = [
        request_frame(DescribeConfigsRequest(resources, include_documentation=True), 4, 1),
        request_frame(MetadataRequest(None), 8, 1),
    ]
    for number in range(16):
        peers.append(Peer(port))
        _pile_up(peers[-1], frames[number % 2])
        yield
    while True:
        time.sleep(0.1)
        yield


@attack
def requests_behind_a_wait(port: int) -> Iterator[None]:
    """Sixteen connections wait for records, and send more and more requests behind that."""
    peers = []
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)
    for _ in range(16):
        peer = Peer(port)
        peers.append(peer)
        create_topics(peer, "silent")
        fetch = FetchRequest(
            max_wait_ms=60_000, min_bytes=1, max_bytes=1000, topics=[FetchTopic("silent", partitions=[partition])]
        )
        peer.send(fetch, 11)
        _pile_up(peer, request_frame(DescribeGroupsRequest(["g" * 100] * 50), 5, 1))
        yield
    while True:
        time.sleep(0.1)
        yield


@attack
def half_sent_frames(port: int) -> Iterator[None]:
    """A hundred connections announce a list of 90 MB, and send it two bytes at a time, or at once."""
    peers = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    head = (90 << 20).to_bytes(4, "big") + b"\x00\x03\x00\x08\x00\x00\x00\x01\x00\x01c"  # Metadata v8
    for number, peer in enumerate(peers):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.settimeout(0.5)
        with contextlib.suppress(TimeoutError, ConnectionError):
            peer.sendall(head)
            if number % 2:
                peer.sendall(bytes(8 << 20))
        yield
    while True:
        for peer in peers[::2]:
            with contextlib.suppress(TimeoutError, ConnectionError):
                peer.sendall(b"\0\0")
        yield


@attack
def quotas_of_everybody(port: int) -> Iterator[None]:
    """Each request gives quotas to thousands of users that nobody has heard of."""
    peer = Peer(port)
    ops = [OpData("producer_byte_rate", 1e9)]
    for stroke in range(1_000_000):
        names = [f"{stroke}-{number}-{'x' * 100}" for number in range(8_000)]
        entries = [EntryData([EntityData("user", name)], ops) for name in names]
        peer.ask(AlterClientQuotasRequest(entries), 1)
        yield


@attack
def credentials_of_everybody(port: int) -> Iterator[None]:
    """The same with credentials, each with a salt as large as it may be, and larger."""
    peer = Peer(port)
    for stroke in range(1_000_000):
        upsertions = [
            ScramCredentialUpsertion(f"{stroke}-{number}", 1, 4096, bytes(size), bytes(32))
            for size in (1_000, 2_000)
            for number in range(400)
        ]
        peer.ask(AlterUserScramCredentialsRequest(upsertions=upsertions), 0)
        yield


@attack
def expressions_of_many_members(port: int) -> Iterator[None]:
    """Each member of a group has one of its own, and there are two thousand topics."""
    peer = Peer(port)
    create_topics(peer, *(f"topic-{number}" for number in range(2_000)))
    _coordinated(peer, "expressive-0")
    for number in range(1_000_000):
        expression = f"(topic|other)*-.*{number}" + "|x" * (number % 3_000)
        heartbeat = ConsumerGroupHeartbeatRequest(
            f"expressive-{number // 200}", f"member-{number}", 0, None, None, 300_000, None, expression, None, []
        )
        peer.ask(heartbeat, 1)
        yield


@attack
def sessions_of_what_is_not_there(port: int) -> Iterator[None]:
    """Fetch sessions of ten thousand partitions."""
    peer = Peer(port)
    partitions = [FetchPartition(number, partition_max_bytes=1) for number in range(10_000)]
    topics = [FetchTopic("nowhere", partitions=partitions)]
    while True:
        peer.ask(FetchRequest(max_wait_ms=0, session_epoch=0, topics=topics), 11)
        yield


@attack
def members_that_never_come_back(port: int) -> Iterator[None]:
    """Joins that get a member id, in many groups; each with a subscription of 100 KB."""
    peer = Peer(port)
    protocols = [JoinGroupRequestProtocol("range", bytes(100_000))]
    _coordinated(peer, "lost-0")
    for number in range(1_000_000):
        peer.ask(JoinGroupRequest(f"lost-{number % 100}", 30_000, 30_000, "", None, "consumer", protocols), 7)
        yield


LONG = "\U0001f600" + "x" * 32_000
"""Most of the 32,767 bytes that a string may have, in memory four times as much."""


@attack
def permissions_of_long_names(port: int) -> Iterator[None]:
    """Each group is another one. The daemon has an authorizer, which remembers decisions."""
    peer = Peer(port)
    for number in range(1_000_000):
        for each in range(20):
            peer.send(DescribeGroupsRequest([f"{number}-{each}-{LONG}"]), 5)
        for _ in range(20):
            peer.receive()
        yield


@attack
def sessions_of_long_names(port: int) -> Iterator[None]:
    """Fetch sessions of topics that cannot exist: 60 in each request, then more and more."""
    for number in range(1_000_000):
        peer = Peer(port)
        session_id = 0
        for epoch in range(20):
            topics = [
                FetchTopic(f"{number}-{epoch}-{each}-{LONG}", partitions=[FetchPartition(0)]) for each in range(60)
            ]
            request = FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=epoch, topics=topics)
            session_id = peer.ask(request, 12).session_id
        yield


@attack
def meters_of_long_names(port: int) -> Iterator[None]:
    """Each request has another client id, and each client id a quota of its own."""
    peer = Peer(port)
    quota = EntryData([EntityData("client-id", None)], [OpData("request_percentage", 1e9)])
    peer.ask(AlterClientQuotasRequest([quota]), 1)
    for number in range(1_000_000):
        frames = [request_frame(MetadataRequest([]), 8, 1, f"{number}-{each}-{LONG}") for each in range(20)]
        peer.socket.sendall(b"".join(frames))
        for _ in frames:
            peer.receive()
        yield


@attack
def one_partition_ten_thousand_times(port: int) -> Iterator[None]:
    """DescribeProducers of 40 KB whose answer would have 400 MB."""
    peer = Peer(port)
    create_topics(peer, "produced")
    frames = []
    for number in range(1_000):
        builder = BatchBuilder()
        builder.extend([(None, b"x")], 1_700_000_000_000)
        batch = builder.finish(0, producer_id=number, producer_epoch=0, base_sequence=0)
        data = [TopicProduceData("produced", ZERO_UUID, [PartitionProduceData(0, batch)])]
        frames.append(request_frame(ProduceRequest(None, -1, 10_000, data), 9, 1))
    peer.socket.sendall(b"".join(frames))
    for _ in frames:
        peer.receive()
    while True:
        peer.ask(DescribeProducersRequest([TopicRequest("produced", [0] * 10_000)]), 0)
        yield


@attack
def one_large_group_sixteen_times(port: int) -> Iterator[None]:
    """ConsumerGroupDescribe of some bytes whose answer would have 300 MB."""
    peer = Peer(port)
    names = [f"{number}-{'x' * 200}" for number in range(2_000)]
    _coordinated(peer, "large")
    for number in range(48):
        peer.ask(
            ConsumerGroupHeartbeatRequest("large", f"m-{number}", 0, None, None, 300_000, names, None, None, []), 1
        )
    while True:
        peer.ask(ConsumerGroupDescribeRequest(["large"] * 16), 1)
        yield


@attack
def small_requests_that_take_long(port: int) -> Iterator[None]:
    """Three hundred in one write: each of them goes through three thousand topics."""
    peer = Peer(port)
    create_topics(peer, *(f"topic-{number}" for number in range(3_000)))
    frame = request_frame(DescribeTopicPartitionsRequest([], 1), 0, 1)
    while True:
        peer.socket.sendall(frame * 300)
        for _ in range(300):
            peer.receive()
        yield


@attack
def answers_never_read_of_many(port: int) -> Iterator[None]:
    """A hundred connections ask for an answer of 19 MB each, and read nothing."""
    resources = [DescribeConfigsResource(BROKER, "0", None)] * 800
    frame = request_frame(DescribeConfigsRequest(resources, include_synonyms=True, include_documentation=True), 4, 1)
    peers = [Peer(port) for _ in range(100)]
    for each in peers:
        each.socket.sendall(frame)
        yield
    while True:
        time.sleep(0.1)
        yield


@attack
def large_lists_of_many(port: int) -> Iterator[None]:
    """Sixteen connections send the largest lists of names and partitions, all at once."""
    peers = [Peer(port) for _ in range(16)]
    create_topics(peers[0], "listed", partitions=5_000)
    _coordinated(peers[0], "lists")
    names = [MetadataRequestTopic(name=f"none-{number:06d}") for number in range(100_000)]
    partitions = [OffsetCommitRequestPartition(number % 5_000, 1, -1, "x" * 50) for number in range(10_000)]
    fetched = [FetchPartition(number % 5_000, partition_max_bytes=1) for number in range(10_000)]
    looked_up = [ListOffsetsPartition(number % 5_000, -1, -1) for number in range(40_000)]
    frames = [
        request_frame(MetadataRequest(names, allow_auto_topic_creation=False), 9, 1),
        request_frame(
            OffsetCommitRequest("lists", topics=[OffsetCommitRequestTopic("listed", partitions=partitions)]), 8, 1
        ),
        request_frame(
            FetchRequest(max_wait_ms=0, session_epoch=0, topics=[FetchTopic("listed", partitions=fetched)]), 12, 1
        ),
        request_frame(ListOffsetsRequest(-1, 0, [ListOffsetsTopic("listed", looked_up)]), 7, 1),
    ]
    while True:
        for number, peer in enumerate(peers):
            peer.socket.sendall(frames[number % len(frames)])
        for peer in peers:
            assert peer.receive()
        yield


SETTINGS = {
    **{each.__name__: SHARED for each in SHARE_ATTACKS},
    "permissions_of_long_names": {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    },
}
"""What the daemon of an attack is set to."""


@attack
def patterns_of_transactional_ids(port: int) -> Iterator[None]:
    """ListTransactions with a pattern that takes each id some microseconds, and with one for which RE2 gives up its
    automaton; ten thousand ids, and some of 30 KB.
    """
    peer = Peer(port)
    while peer.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["ab"]), 4).coordinators[0].error_code or (
        peer.ask(InitProducerIdRequest("ab", 60_000, -1, -1), 4).error_code
    ):
        time.sleep(0.02)
    ids = [f"{'ab' * 40}-{number}" for number in range(10_000)] + [f"{number}{'aab' * 10_000}" for number in range(20)]
    for first in range(0, len(ids), 500):
        some = ids[first : first + 500]
        frames = [request_frame(InitProducerIdRequest(each, 60_000, -1, -1), 4, 1) for each in some]
        for frame in frames:
            peer.socket.sendall(frame)
        for _ in frames:
            peer.receive()
    while True:
        for pattern in (".*a.{200}", "txn.*", "(.|a.{900})*b"):
            peer.ask(ListTransactionsRequest([], [], -1, pattern), 2)
            yield


for each in (*RECORD_ATTACKS, *SHARE_ATTACKS):
    attack(each)


def main(name: str, port: int, seconds: float) -> int:
    """Attack for some time. Returns how many strokes there were."""
    end_s = time.monotonic() + seconds
    strokes = 0
    with contextlib.suppress(ConnectionError, TimeoutError):
        for _ in ATTACKS[name](port):
            strokes += 1
            if time.monotonic() > end_s:
                break
    return strokes


if __name__ == "__main__":
    print(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
