"""`serve --workers 2` as processes: who serves what, what a killed worker leaves behind, and how it all ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import time
from pathlib import Path

import pytest

from coordinatord.server.workers.peer_sockets import Rendezvous
from kafka_wire.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kafka_wire.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kafka_wire.api.find_coordinator import FindCoordinatorRequest
from kafka_wire.api.heartbeat import HeartbeatRequest
from kafka_wire.api.list_groups import ListGroupsRequest
from kafka_wire.errors import ErrorCode
from tests.clients.raw_member import RawMember
from tests.daemon import HOST, Daemon, is_running, running
from tests.server.workers.processes import (
    SETTINGS,
    come_back,
    connect,
    group_of,
    joined,
    kill_worker,
    make_topic,
    offsets_of,
    worker_of_group,
)
from tests.support.waiting import wait_until

TOPIC = "orders"
PARTITIONS = 4


async def two_groups(daemon: Daemon) -> list[RawMember]:
    """A group of each worker, with a member and a committed offset for every partition."""
    await make_topic(daemon, TOPIC, PARTITIONS, worker=1)
    members = [await joined(daemon, group_of(worker, 2), {TOPIC: PARTITIONS}) for worker in (0, 1)]
    for number, member in enumerate(members):
        errors = await member.commit({(TOPIC, index): 100 * number + index for index in range(PARTITIONS)})
        assert set(errors.values()) == {ErrorCode.NONE}
    return members


async def test_credentials_are_made_at_each_worker(tmp_path: Path) -> None:
    """One of them has their log; the other one asks it, as Kafka's brokers ask their controller."""
    with running(tmp_path, SETTINGS, workers=2) as daemon:
        lines = [await connect(daemon, worker) for worker in (0, 1)]
        for worker, line in enumerate(lines):
            wanted = ScramCredentialUpsertion(f"user-{worker}", 1, 4096, b"a salt of 19 bytes.", b"salted")
            answer = await line.ask(AlterUserScramCredentialsRequest(upsertions=[wanted]), 0)
            assert [(each.user, each.error_code) for each in answer.results] == [(f"user-{worker}", ErrorCode.NONE)]
        answer = await lines[1].ask(DescribeUserScramCredentialsRequest(None), 0)
        assert {each.user for each in answer.results} == {"user-0", "user-1"}


async def test_each_group_has_one_worker_and_all_say_which(tmp_path: Path) -> None:
    with running(tmp_path, SETTINGS, workers=2) as daemon:
        members = await two_groups(daemon)
        lines = [await connect(daemon, worker) for worker in (0, 1)]
        for worker, member in enumerate(members):
            for line in lines:
                found = await line.ask(FindCoordinatorRequest(member.group), 3)
                assert (found.error_code, found.node_id, found.port) == (0, worker, daemon.port + worker)
            heartbeat = HeartbeatRequest(member.group, member.generation, member.member_id)
            answers = [(await line.ask(heartbeat, 4)).error_code for line in lines]
            assert answers[worker] == ErrorCode.NONE
            assert answers[1 - worker] == ErrorCode.NOT_COORDINATOR
            listed = await lines[worker].ask(ListGroupsRequest(), 4)
            assert [group.group_id for group in listed.groups] == [member.group]


async def test_a_killed_worker_does_not_touch_the_others_groups_and_gets_its_own_back(tmp_path: Path) -> None:
    with running(tmp_path, SETTINGS, workers=2) as daemon:
        members = await two_groups(daemon)
        staying, going = members
        generation = going.generation
        for _ in range(3):
            old_pid = kill_worker(daemon, 1)
            assert await staying.heartbeat() is ErrorCode.NONE, "on the connection that it has"
            assert await come_back(daemon, going) is ErrorCode.NONE, "a member of its generation, as before"
            assert daemon.worker_pid(1) != old_pid
            assert await staying.heartbeat() is ErrorCode.NONE
        assert (staying.generation, going.generation) == (1, generation)
        for number, member in enumerate(members):
            assert member.line is not None
            expected = {(TOPIC, index): 100 * number + index for index in range(PARTITIONS)}
            assert await offsets_of(member.line, member.group) == expected
        changes = daemon.events("group transition", group=staying.group)
        assert [change["new"] for change in changes] == ["PreparingRebalance", "CompletingRebalance", "Stable"]
        assert {change["worker"] for change in changes} == {0}
        assert len(daemon.events("worker died", worker=1, how="SIGKILL")) == 3


async def test_who_connects_while_a_worker_is_down_is_served_when_it_is_up(tmp_path: Path) -> None:
    """Nobody is refused: the supervisor holds the port."""
    with running(tmp_path, SETTINGS, workers=2) as daemon:
        for _ in range(3):
            kill_worker(daemon, 1)
            lines = await asyncio.gather(*(connect(daemon, 1) for _ in range(5)))
            answers = await asyncio.gather(*(line.ask(FindCoordinatorRequest("group"), 3) for line in lines))
            assert {answer.error_code for answer in answers} == {ErrorCode.NONE}


@pytest.mark.slow
async def test_any_number_of_workers_finds_what_any_other_left(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, SETTINGS, workers=2)
    expected: dict[str, dict[tuple[str, int], int]] = {}
    for life, workers in enumerate((1, 3, 2, 1)):
        daemon.workers = workers
        daemon.start()
        if not life:
            await make_topic(daemon, TOPIC, PARTITIONS)
        for group, offsets in expected.items():
            line = await connect(daemon, worker_of_group(group, workers))
            assert await offsets_of(line, group) == offsets
        for worker in range(workers):
            member = await joined(daemon, group_of(worker, workers, f"life-{life}"), {TOPIC: PARTITIONS})
            offsets = {(TOPIC, index): 10 * life + worker for index in range(PARTITIONS)}
            assert set((await member.commit(offsets)).values()) == {ErrorCode.NONE}
            expected[member.group] = offsets
        if life % 2:
            daemon.kill()
        else:
            assert daemon.stop() == 0
            assert (daemon.data_dir / ".kafka_cleanshutdown").exists()


def test_a_worker_that_is_told_to_stop_is_started_again(tmp_path: Path) -> None:
    with running(tmp_path, SETTINGS, workers=2) as daemon:
        old_pid = daemon.worker_pid(0)
        os.kill(old_pid, signal.SIGTERM)
        wait_until(lambda: daemon.worker_pid(0) != old_pid)
        assert daemon.events("worker died", worker=0, how="exit status 0")


@pytest.mark.slow
def test_a_worker_that_keeps_dying_ends_it_all(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, SETTINGS, workers=2)
    daemon.start()
    assert daemon.process is not None
    for _ in range(6):
        kill_worker(daemon, 1)
    assert daemon.process.wait(90) == 1
    assert not is_running(daemon.worker_pid(0))
    [told] = daemon.events("stopping: a worker cannot be kept running")
    assert told["reason"] == "worker 1 died 6 times in a row, the last time by SIGKILL"
    daemon.process = None


def test_a_worker_that_cannot_start_ends_it_all_with_the_reason(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, SETTINGS, workers=2)
    daemon.start()
    assert daemon.process is not None
    (daemon.data_dir / "recovery-point-offset-checkpoint.worker-1").write_text("what is this?")
    kill_worker(daemon, 1)
    assert daemon.process.wait(90) == 1
    assert not is_running(daemon.worker_pid(0))
    daemon.process = None
    sentences = [line for line in daemon.log_file.read_text().splitlines() if line.startswith("coordinatord: ")]
    assert len(sentences) == 1
    assert "recovery-point-offset-checkpoint.worker-1" in sentences[0]
    assert "Traceback" not in daemon.log_file.read_text()


@pytest.mark.slow
def test_without_their_supervisor_workers_stop_in_order(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, SETTINGS, workers=2)
    daemon.start()
    pids = [daemon.worker_pid(worker) for worker in (0, 1)]
    os.kill(daemon.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, pids)))
    daemon.kill()
    assert len(daemon.events("stopped", exit_code=0)) == 2
    daemon.start()
    assert daemon.stop() == 0


def test_a_port_that_is_taken_is_told_in_a_sentence(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, SETTINGS, workers=2)
    with socket.socket() as taken:
        taken.bind((HOST, daemon.port + 1))
        taken.listen()
        process = daemon.launch()
        assert process.wait(90) == 1
    daemon.process = None
    assert f"{HOST}:{daemon.port + 1} is in use" in daemon.log_file.read_text()
    assert "Traceback" not in daemon.log_file.read_text()


@pytest.mark.parametrize("policy", ["always", "interval", "never"])
def test_a_stop_in_order_is_clean(tmp_path: Path, policy: str) -> None:
    with running(tmp_path, {**SETTINGS, "log.flush": policy}, workers=2) as daemon:
        asyncio.run(two_groups(daemon))
    names = {path.name for path in daemon.data_dir.iterdir()}
    assert ".kafka_cleanshutdown" in names
    assert not [name for name in names if "worker-" in name or name.startswith("journal")]


def test_who_is_told_to_stop_twice_stops_once(tmp_path: Path) -> None:
    """As a terminal and systemd do it: a signal to everybody, beside which the supervisor tells its workers."""
    daemon = Daemon(tmp_path, SETTINGS, workers=2)
    daemon.start()
    os.killpg(daemon.pid, signal.SIGTERM)
    os.killpg(daemon.pid, signal.SIGINT)
    assert daemon.stop() == 0
    assert (daemon.data_dir / ".kafka_cleanshutdown").exists()


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7, 1.0])
def test_a_stop_at_any_moment_of_the_start_is_in_order(tmp_path: Path, after_s: float) -> None:
    daemon = Daemon(tmp_path, SETTINGS, workers=2)
    process = daemon.launch()
    wait_until(lambda: daemon.events("worker started") or process.poll() is not None)
    time.sleep(after_s / 10)
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.log_file.read_text()


def test_nobody_else_may_talk_to_a_worker(tmp_path: Path) -> None:
    """Requests between workers are checked by nobody: what is on the socket is this user's."""
    meeting = Rendezvous(str(tmp_path), 2, 10)
    try:
        assert [stat.S_IMODE(os.stat(path).st_mode) for path in meeting.paths] == [0o600, 0o600]
    finally:
        meeting.remove()


def test_a_long_path_has_its_sockets_elsewhere(tmp_path: Path) -> None:
    directory = tmp_path / ("long" * 25)
    meeting = Rendezvous(str(directory), 2, 10)
    try:
        assert not any(path.startswith(str(directory)) for path in meeting.paths)
        for path in meeting.paths:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
    finally:
        meeting.remove()
    assert not any(os.path.exists(path) for path in meeting.paths)
