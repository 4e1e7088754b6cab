"""Groups of the consumer protocol (KIP-848): each member on a connection of its own, and heartbeats in rounds.

In a round each member that is not through sends a heartbeat, and the next round begins when all are answered. Members
do as consumers do: they own what they are told to, and say so in their next heartbeat. The group has converged when all
members are in the same epoch, have said what they own, and own each partition once and evenly. What makes the group
rebalance is answered before the first round. So the work is alike everywhere: the same members and partitions, and the
same end.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterable

from bench import frames, groups
from bench.generator import READ_BYTES, Line, Poller, WrongAnswer
from bench.groups import require
from bench.servers import Server
from kafka_wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafka_wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_wire.errors import ErrorCode

GROUP_RESOURCE = 32
TOPIC_VERSION, CONFIGS_VERSION = 5, 1
REBALANCE_TIMEOUT_MS = 300_000
MADE_S = 120.0
"""The longest time that a server may take to create the topic, in seconds."""

LONGEST_S = 60.0
PAUSE_S = 0.1
"""Before a round that follows one in which nothing has changed: members wait for an assignment. Real ones would wait
for the five seconds of a heartbeat's interval.
"""


class Seat:
    """A member: what it was told last, and what it has not said yet."""

    __slots__ = ("buffer", "epoch", "line", "member_id", "owned", "says", "sock")

    def __init__(self, line: Line, member_id: str) -> None:
        self.line, self.sock = line, line.sock
        self.buffer = b""
        self.begin(member_id)

    def begin(self, member_id: str) -> None:
        """Be a member that has not joined."""
        self.member_id = member_id
        self.epoch = 0
        self.owned: list[TopicPartitions] = []
        self.says = False

    def count(self) -> int:
        """Partitions that it owns."""
        return sum(len(each.partitions) for each in self.owned)


class ConsumerGroup:
    """A group of `size` members that read one topic."""

    def __init__(self, server: Server, name: str, size: int, partitions: int) -> None:
        """There is no interval between assignments, where a server has one."""
        self.group = self.topic = name
        self.partitions = partitions
        self._chance = random.Random(848)
        lines = groups.lines(server, size + 1)
        groups.wait_until_loaded(lines[:1], [name])
        self._make_topic(lines[0])
        self._without_interval(lines[0])
        *self.seats, self.spare = seats = [Seat(line, self._new_id()) for line in lines]
        self.poller = Poller(seat.sock for seat in seats)
        self.by_fd = {seat.sock.fileno(): seat for seat in seats}
        self.rounds = self.heartbeats = 0

    def form(self) -> float:
        """The first member joins and owns everything; then all others join. Seconds until they have converged."""
        return self._timed(self._form)

    def replace_one(self) -> float:
        """A member joins, and when all have converged another one leaves. Seconds until they have converged again."""
        return self._timed(self._replace_one)

    def close(self) -> None:
        self.poller.close()
        for seat in (*self.seats, self.spare):
            seat.line.close()

    # Within

    def _timed(self, work: object) -> float:
        assert callable(work)
        gc.collect()
        gc.disable()
        self.rounds = self.heartbeats = 0
        began_s = time.perf_counter()
        try:
            work()
            return time.perf_counter() - began_s
        finally:
            gc.enable()

    def _form(self) -> None:
        first, *others = self.seats
        self._converge([first])
        self._round(others)
        self._converge(self.seats)

    def _replace_one(self) -> None:
        new, seats = self.spare, self.seats
        new.begin(self._new_id())
        self._round([new])
        seats.append(new)
        self._converge(seats)
        self.spare = gone = seats.pop(self._chance.randrange(len(seats)))
        self._leave(gone)
        self._round(seats)
        self._converge(seats)

    def _leave(self, seat: Seat) -> None:
        answer = seat.line.ask(ConsumerGroupHeartbeatRequest(self.group, seat.member_id, -1))
        require(answer.error_code, "ConsumerGroupHeartbeat of one that leaves")

    def _converge(self, seats: list[Seat]) -> None:
        until_s = time.perf_counter() + LONGEST_S
        changed = True
        while True:
            if not changed:
                time.sleep(PAUSE_S)
            latest = max(seat.epoch for seat in seats)
            counts = [seat.count() for seat in seats]
            least = self.partitions // len(seats)
            going = [seat for seat in seats if seat.says or seat.epoch < latest or seat.count() < least]
            if not going and sum(counts) == self.partitions and max(counts) - min(counts) <= 1:
                break
            going = going or seats
            changed = self._round(going)
            if time.perf_counter() > until_s:
                raise WrongAnswer(f"{self.group} has not converged in {LONGEST_S:g} s")
        self._check(seats)

    def _round(self, seats: Iterable[Seat]) -> bool:
        """One heartbeat of each; whether anything has changed."""
        self.rounds += 1
        left = 0
        for seat in seats:
            seat.sock.sendall(frames.frame(self._heartbeat(seat)))
            left += 1
        self.heartbeats += left
        changed = False
        while left:
            for fd, _ in self.poller.wait():
                seat = self.by_fd[fd]
                data = seat.buffer + seat.sock.recv(READ_BYTES)
                if len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
                    seat.buffer = data
                    continue
                seat.buffer = b""
                left -= 1
                changed |= self._hear(seat, data)
        return changed

    def _heartbeat(self, seat: Seat) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(self.group, seat.member_id, seat.epoch)
        if seat.epoch == 0:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = [self.topic]
            request.topic_partitions = []
        elif seat.says:
            request.topic_partitions = seat.owned
        return request

    def _hear(self, seat: Seat, data: bytes) -> bool:
        answer = frames.response(_ANY, data)
        require(answer.error_code, "ConsumerGroupHeartbeat")
        before = seat.epoch, seat.says
        seat.epoch, seat.says = answer.member_epoch, False
        if answer.assignment is not None:
            seat.owned, seat.says = answer.assignment.topic_partitions, True
        return before != (seat.epoch, seat.says)

    def _check(self, seats: list[Seat]) -> None:
        owned = [(part.topic_id, partition) for seat in seats for part in seat.owned for partition in part.partitions]
        counts = [seat.count() for seat in seats]
        if len(set(owned)) != self.partitions or len(owned) != self.partitions:
            raise WrongAnswer("members do not own each partition once")
        if max(counts) - min(counts) > 1:
            raise WrongAnswer(f"a member owns {max(counts)} partitions and another one {min(counts)}")

    def _new_id(self) -> str:
        """As long as a Uuid of the Java client."""
        alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
        return "".join(self._chance.choices(alphabet, k=22))

    def _make_topic(self, line: Line) -> None:
        topic = CreatableTopic(self.topic, self.partitions, 1)
        made = line.ask(CreateTopicsRequest([topic], int(MADE_S * 1000)), TOPIC_VERSION).topics[0]
        if made.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            require(made.error_code, "CreateTopics")

    def _without_interval(self, line: Line) -> None:
        config = AlterableConfig("consumer.assignment.interval.ms", 0, "0")
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, self.group, [config])])
        # kfake knows neither the interval nor its setting.
        line.ask(request, CONFIGS_VERSION)


_ANY = ConsumerGroupHeartbeatRequest()
