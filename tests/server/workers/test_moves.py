"""`move` and all other verbs and faults where there are several workers: the coordinator really is elsewhere then, and
whichever worker's admin port is asked, each command goes where it belongs.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from coordinatord.broker.topics.names import LEDGER_TOPIC, OFFSETS_TOPIC
from coordinatord.testing import Kafka, KafkaError
from coordinatord.testing.servers import InProcess
from kafka_wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.errors import ErrorCode
from tests.server.control.world import TOPIC, Client
from tests.server.workers.processes import OFFSETS_PARTITIONS, group_of, worker_of_group
from tests.support.waiting import wait_until

WORKERS = 2
Address = tuple[str, int]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    settings = {"workers": WORKERS, "rebalance.ledger.topic.enable": "true", "log.flush": "always"}
    with Kafka("process", topics={TOPIC: 1}, settings=settings) as started:
        yield started


def address(kafka: Kafka, worker: int) -> Address:
    """Where a worker's clients connect."""
    host, _colon, port = kafka.bootstrap_servers.rpartition(":")
    return host, int(port) + worker


class Member(Client):
    """A client that sends its requests to a worker of its choice, at first to its group's."""

    def __init__(self, kafka: Kafka, client_id: str, group: str) -> None:
        super().__init__(kafka, client_id)
        self.kafka = kafka
        self.group = group
        self.at(worker_of_group(group, WORKERS))
        kafka.committed(group)  # waits for its worker, which the test before may have killed
        self.join(group)

    def at(self, worker: int) -> Member:
        self.wire._find = lambda: address(self.kafka, worker)
        return self

    def beat(self) -> ErrorCode:
        return ErrorCode(self.heartbeat(self.group))

    def commits(self, offset: int) -> ErrorCode:
        return ErrorCode(self.commit(offset, self.group))


def found_by(kafka: Kafka, group: str) -> set[int]:
    """The group's coordinator, as each worker says."""
    wire = Client(kafka, "whoever").wire
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    told = [wire.ask(request, 4, address(kafka, worker)).coordinators[0] for worker in range(WORKERS)]
    assert all(each.port == address(kafka, each.node_id)[1] for each in told)
    return {each.node_id for each in told}


def partition_of(group: str) -> int:
    from coordinatord.transport.cluster.partitioner import partition_for

    return partition_for(group, OFFSETS_PARTITIONS)


def test_the_group_is_really_elsewhere(kafka: Kafka) -> None:
    group = group_of(0, WORKERS, "elsewhere")
    a = Member(kafka, "a", group)
    assert [a.commits(7), a.beat()] == [ErrorCode.NONE] * 2
    generation = kafka.group(group).view.generation
    assert found_by(kafka, group) == {0} == {kafka.group(group).node}
    kafka.group(group).move()
    assert found_by(kafka, group) == {1} == {kafka.group(group).node}
    assert [a.at(0).beat(), a.at(0).commits(8)] == [ErrorCode.NOT_COORDINATOR] * 2
    assert a.at(1).beat() is ErrorCode.NONE, "the same member, of the same generation"
    view = kafka.group(group).until_stable(members=1).result
    assert (view.generation, view.members[0].member_id) == (generation, a.member_id)
    assert kafka.committed(group) == {(TOPIC, 0): 7}
    assert a.at(1).commits(8) is ErrorCode.NONE
    assert kafka.committed(group) == {(TOPIC, 0): 8}


def test_the_partition_of_the_log_goes_with_it(kafka: Kafka) -> None:
    group = group_of(0, WORKERS, "log")
    a, index = Member(kafka, "a", group), partition_of(group)
    a.commits(1)
    before = len(list(kafka._wire.records_from(OFFSETS_TOPIC, index, 0)))
    kafka.group(group).move()
    for worker in range(WORKERS):
        a.at(worker)
        wait_until(lambda: a.wire.leaders(OFFSETS_TOPIC)[index] == address(kafka, 1))
    asked = FetchTopic(OFFSETS_TOPIC, partitions=[FetchPartition(index, -1, 0, -1, -1, 1 << 20)])
    told = [a.wire.ask(FetchRequest(topics=[asked]), 12, address(kafka, worker)) for worker in range(WORKERS)]
    errors = [each.responses[0].partitions[0].error_code for each in told]
    assert errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]
    a.at(1).commits(2)
    assert len(list(kafka._wire.records_from(OFFSETS_TOPIC, index, 0))) == before + 1


def test_a_bystander_of_the_same_worker_notices_nothing(kafka: Kafka) -> None:
    group, other = group_of(0, WORKERS, "moved"), group_of(0, WORKERS, "stays")
    assert partition_of(group) != partition_of(other)
    a, b = Member(kafka, "a", group), Member(kafka, "b", other)
    with kafka.group(other).no_rebalance():
        for _ in range(3):
            kafka.group(group).move()
            assert [b.beat(), b.commits(3)] == [ErrorCode.NONE] * 2
            assert found_by(kafka, other) == {0}
    assert kafka.group(group).node == 1
    assert a.at(1).beat() is ErrorCode.NONE


def test_it_comes_back_and_nothing_is_lost_on_the_way(kafka: Kafka) -> None:
    group = group_of(1, WORKERS, "to and fro")
    a = Member(kafka, "a", group)
    for offset in range(6):
        assert a.at(kafka.group(group).node).commits(offset) is ErrorCode.NONE
        kafka.group(group).move()
        assert kafka.committed(group) == {(TOPIC, 0): offset}
    assert kafka.group(group).node == 1
    assert a.at(1).beat() is ErrorCode.NONE


def test_the_session_begins_anew_there_and_ends_there(kafka: Kafka) -> None:
    group = group_of(0, WORKERS, "session")
    Member(kafka, "a", group)
    kafka.group(group).move()
    kafka.group(group).until_stable(members=1)
    kafka.group(group).expire("a")
    kafka.group(group).until_empty()
    assert kafka.group(group).rebalances[-1].trigger == "session expired"
    index = partition_of(group)
    wait_until(lambda: len(kafka._wire.leaders(LEDGER_TOPIC)) > index)
    wait_until(lambda: _ledger_keys(kafka, index).count(group.encode()) >= 2)  # the last one was written by worker 1


def _ledger_keys(kafka: Kafka, index: int) -> list[bytes | None]:
    return [each.key for each in kafka._wire.records_from(LEDGER_TOPIC, index, 0)]


def test_requests_that_wait_are_answered_when_the_coordinator_goes(kafka: Kafka) -> None:
    """A member that waits for the others to join looks for the coordinator."""
    import threading

    group = group_of(0, WORKERS, "waits")
    Member(kafka, "a", group)
    late = Client(kafka, "late")
    late.wire._find = lambda: address(kafka, 0)
    late.member_id = late.wire.ask(late.join_request(group), 9).member_id
    answered: list[int] = []
    waiting = threading.Thread(
        target=lambda: answered.append(late.wire.ask(late.join_request(group), 9).error_code), daemon=True
    )
    waiting.start()
    kafka.group(group).until(lambda view: view.state == "PreparingRebalance")
    kafka.group(group).move()
    waiting.join(20)
    assert answered == [ErrorCode.NOT_COORDINATOR]


@pytest.mark.parametrize("killed", [0, 1], ids=["the one that gave it", "the one that has it"])
def test_a_killed_worker_is_followed_by_one_that_leads_the_same(kafka: Kafka, killed: int) -> None:
    group = group_of(0, WORKERS, f"killed {killed}")
    a = Member(kafka, "a", group)
    assert a.commits(5) is ErrorCode.NONE
    kafka.group(group).move()
    assert a.at(1).commits(6) is ErrorCode.NONE
    _kill(kafka, killed)
    wait_until(lambda: _node(kafka, group) == 1)
    kafka.group(group).until_stable(members=1)
    assert kafka.committed(group) == {(TOPIC, 0): 6}
    assert [a.at(1).beat(), a.commits(7)] == [ErrorCode.NONE] * 2
    assert found_by(kafka, group) == {1}


def _node(kafka: Kafka, group: str) -> int:
    try:
        return kafka.group(group).node
    except KafkaError:  # its successor has not begun
        return -1


def _kill(kafka: Kafka, worker: int) -> None:
    server = kafka._server
    assert isinstance(server, InProcess)
    # A start whose ports another program has taken meanwhile leaves a sentence there, and is repeated.
    lines = [line for line in (server._directory / "log").read_text().splitlines() if line.startswith("{")]
    pids = [
        told["pid"] for told in map(json.loads, lines) if told["event"] == "worker started" and told["worker"] == worker
    ]
    os.kill(pids[-1], signal.SIGKILL)


def test_a_new_start_puts_everything_where_it_belongs_and_has_it_all(kafka: Kafka) -> None:
    groups = [group_of(worker, WORKERS, "after a crash") for worker in range(WORKERS)]
    members = [Member(kafka, "a", group) for group in groups]
    for group, member in zip(groups, members, strict=True):
        assert member.commits(11) is ErrorCode.NONE
        kafka.group(group).move()
        assert member.at(kafka.group(group).node).commits(12) is ErrorCode.NONE
    kafka.restart(crash=True)
    for worker, group in enumerate(groups):
        assert found_by(kafka, group) == {worker}
        assert kafka.committed(group) == {(TOPIC, 0): 12}
        kafka.group(group).move()
        assert kafka.committed(group) == {(TOPIC, 0): 12}
    kafka.restart()
    assert [kafka.committed(group) for group in groups] == [{(TOPIC, 0): 12}] * 2


# Faults and the rest


def test_faults_hit_at_every_worker_and_count_together(kafka: Kafka) -> None:
    members = [Member(kafka, "a", group_of(worker, WORKERS, "faults")) for worker in range(WORKERS)]
    with kafka.fail("Heartbeat", "REBALANCE_IN_PROGRESS", client="a", every=2) as fault:
        assert [each.beat() for each in members * 2].count(ErrorCode.REBALANCE_IN_PROGRESS) == 2
        assert fault.arrived(2).result == fault.hits == 2
    assert fault.hits == 2
    assert [each.beat() for each in members] == [ErrorCode.NONE] * 2


def test_held_requests_are_released_wherever_they_are(kafka: Kafka) -> None:
    import threading

    members = [Member(kafka, f"h{worker}", group_of(worker, WORKERS, "held")) for worker in range(WORKERS)]
    answers: list[ErrorCode] = []
    with kafka.hold("Heartbeat") as held:
        beating = [threading.Thread(target=lambda each=each: answers.append(each.beat())) for each in members]
        for each in beating:
            each.start()
        held.arrived(2)
        assert held.release(1) == 1
        assert held.release() == 1
        for each in beating:
            each.join(20)
    assert answers == [ErrorCode.NONE] * 2


def test_a_restarted_worker_has_forgotten_its_faults_and_the_others_have_not(kafka: Kafka) -> None:
    members = [Member(kafka, "a", group_of(worker, WORKERS, "forgotten")) for worker in range(WORKERS)]
    with kafka.fail("Heartbeat", "REBALANCE_IN_PROGRESS", client="a", optional=True) as fault:
        _kill(kafka, 1)
        wait_until(lambda: _node(kafka, members[1].group) == 1)
        kafka.group(members[1].group).until_stable(members=1)
        beats = [each.at(worker).beat() for worker, each in enumerate(members)]
        assert beats == [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE]
        with kafka.drop("OffsetFetch", optional=True) as other:
            assert other._number != fault._number
    assert fault.hits == 1


def ask(kafka: Kafka, worker: int, method: str, path: str) -> tuple[int, Any]:
    server = kafka._server
    assert isinstance(server, InProcess)
    told = json.loads((server._directory / "ready.json").read_text())
    host, _colon, port = told["admin"][worker].removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port.rstrip("/")), timeout=30)
    connection.request(method, path)
    answer = connection.getresponse()
    status, content = answer.status, json.loads(answer.read())
    connection.close()
    return status, content


def test_over_http_either_port_does(kafka: Kafka) -> None:
    groups = [group_of(worker, WORKERS, "http") for worker in range(WORKERS)]
    for group in groups:
        Member(kafka, "a", group)
    for worker in range(WORKERS):
        listed = ask(kafka, worker, "GET", "/test/groups")[1]["groups"]
        assert set(groups) <= set(listed)
        shown = [ask(kafka, worker, "GET", f"/test/groups/{group.replace(' ', '%20')}") for group in groups]
        assert [(status, told["node"], told["state"]) for status, told in shown] == [
            (200, 0, "Stable"), (200, 1, "Stable"),
        ]  # fmt: skip
        own = ask(kafka, worker, "GET", "/test/here/groups")[1]["groups"]
        assert groups[worker] in own
        assert groups[1 - worker] not in own
    assert ask(kafka, 1, "POST", f"/test/groups/{groups[0]}/move") == (200, {})
    assert found_by(kafka, groups[0]) == {1}
    status, told = ask(kafka, 0, "POST", f"/test/groups/{groups[0]}/members/nobody/kick")
    assert (status, told["error"].split(".")[0]) == (404, f"Group {groups[0]} has no member 'nobody'")
    assert ask(kafka, 0, "DELETE", "/test/faults/999999")[0] == 404
    assert ask(kafka, 0, "POST", "/test/reset") == (200, {})


def test_the_clock_jumps_everywhere(kafka: Kafka) -> None:
    groups = [group_of(worker, WORKERS, "clock") for worker in range(WORKERS)]
    for group in groups:
        Member(kafka, "a", group)
    kafka.advance(minutes=10)
    for group in groups:
        kafka.group(group).until_empty()
    told = [ask(kafka, worker, "GET", "/test/here/clock")[1]["now_ms"] for worker in range(WORKERS)]
    assert abs(told[0] - told[1]) < 60_000


def test_a_heartbeat_of_somebody_else_is_refused_there_as_anywhere(kafka: Kafka) -> None:
    group = group_of(0, WORKERS, "somebody")
    a = Member(kafka, "a", group)
    kafka.group(group).move()
    request = HeartbeatRequest(group, a.generation, "nobody")
    assert a.wire.ask(request, 4, address(kafka, 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
