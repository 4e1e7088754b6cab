"""Requests of some bytes that take long, hundreds of them in one write, or that have large answers: none of them holds
the event loop for longer than one request may. Measured as in test_turns.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from coordinatord.base.config.access import STANDARD_AUTHORIZER
from kafka_wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_wire.api.create_acls import AclCreation, CreateAclsRequest
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.describe_log_dirs import DescribeLogDirsRequest
from kafka_wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from kafka_wire.api.init_producer_id import InitProducerIdRequest
from kafka_wire.errors import ErrorCode
from tests.hostile.test_turns import ATTEMPTS, LONGEST_S, acls
from tests.hostile.turns import Measured, Peer, measured, slowness
from tests.support.shell import request_frame

MANY = 300

Sent = tuple[bytes, int]
"""What is written at once, and how many answers it gets."""


def topics_page_by_page(daemon: Measured) -> Sent:
    """DescribeTopicPartitions: each request sorts three thousand names."""
    _topics(daemon.peer(), 3_000)
    return request_frame(DescribeTopicPartitionsRequest([], 1), 0, 1) * MANY, MANY


def log_directories(daemon: Measured) -> Sent:
    """DescribeLogDirs of three hundred partitions."""
    _topics(daemon.peer(), 300)
    return request_frame(DescribeLogDirsRequest(None), 4, 1) * MANY, MANY


def one_large_group(daemon: Measured) -> Sent:
    """ConsumerGroupDescribe: 6 MB for each of three times that the group is named."""
    peer = daemon.peer()
    names = [f"{number}-{'x' * 200}" for number in range(2_000)]
    for number in range(16):
        peer.ask(ConsumerGroupHeartbeatRequest("g", f"m-{number}", 0, None, None, 300_000, names, None, None, []), 1)
    return request_frame(ConsumerGroupDescribeRequest(["g"] * 3), 1, 1), 1


def ids_beside_many_acls(daemon: Measured) -> Sent:
    """InitProducerId of a client that may do nothing: whether it may write to some topic, 50,000 ACLs say."""
    peer = daemon.peer()
    for first in range(0, 50_000, 10_000):
        creations = acls(10_000).creations
        for number, each in enumerate(creations):
            each.resource_name = f"t{first + number}"
        peer.ask(CreateAclsRequest(creations), 3)
    of_others = [
        AclCreation(2, "*", 3, "User:bob", "*", 3, 3),
        AclCreation(4, "kafka-cluster", 3, "User:bob", "*", 2, 3),
    ]
    assert not any(each.error_code for each in peer.ask(CreateAclsRequest(of_others), 3).results)
    assert peer.ask(InitProducerIdRequest(None, 1000), 4).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return request_frame(InitProducerIdRequest(None, 1000), 4, 1) * MANY, MANY


def _topics(peer: Peer, count: int) -> None:
    peer.ask(CreateTopicsRequest([CreatableTopic(f"t{n}", 1, 1) for n in range(count)], timeout_ms=30_000), 5)


@pytest.mark.hostile
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "prepare", [topics_page_by_page, log_directories, one_large_group, ids_beside_many_acls], ids=lambda it: it.__name__
)
def test_no_write_holds_the_loop(prepare: Callable[[Measured], Sent], tmp_path: Path) -> None:
    settings = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": True}
    with measured(tmp_path, **settings if prepare is ids_beside_many_acls else {}) as daemon:
        sent, answers = prepare(daemon)
        told = []
        for _ in range(ATTEMPTS):
            daemon.longest_s()
            peer = daemon.peer()
            peer.socket.sendall(sent)
            for _ in range(answers):
                assert peer.receive()
            took_s = daemon.longest_s()
            peer.close()
            slow = slowness() if took_s > LONGEST_S else 1.0
            told.append(f"{took_s * 1000:.1f} ms on a machine {slow:.1f} times slower")
            if took_s <= LONGEST_S * slow:
                break
        else:
            pytest.fail(", ".join(told))
        print(prepare.__name__, told[-1])
