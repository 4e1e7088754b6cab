"""One group of many members, each on a connection of its own, that rebalances when it is told to.

All members join again with metadata that they had not before, so that the first of them begins a rebalance and the last
one ends it; each sends its SyncGroup when its JoinGroup is answered, the leader with an assignment for everybody. All
frames are made before the clock runs; a generation is one more than the one before, and is written into them.
"""

from __future__ import annotations

import gc
import struct
import time
from collections.abc import Callable

from bench import frames, groups
from bench.generator import READ_BYTES, Line, Poller, WrongAnswer
from bench.groups import require
from bench.servers import Server
from kafka_wire.errors import ErrorCode

SETTLE_S = 0.3  # in which a server has surely taken the joins that were sent
LEADERS_BYTES = 1_000  # the leader's answer lists the members; the others' have some two hundred bytes

# JoinGroupResponse v9: size, correlation id, tags, throttle time, error code, generation.
_joined = struct.Struct(">iixihi").unpack_from
# SyncGroupRequest v5 up to its generation: size, header, client id, tags, length of the group's id (and the id).
GENERATION_AT = 4 + 10 + len(frames.CLIENT_ID) + 1 + 1


class Seat:
    """A member, its connection, and what it is going to say."""

    __slots__ = ("buffer", "done", "joined", "joins", "leading", "line", "member_id", "sock", "syncing")

    def __init__(self, group: str, line: Line) -> None:
        given = line.ask(frames.join(group))
        if given.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            raise WrongAnswer(f"a join without a member id was answered with {ErrorCode(given.error_code).name}")
        self.line, self.sock, self.member_id = line, line.sock, given.member_id
        self.joins = [
            frames.frame(frames.join(group, self.member_id, frames.subscription(tag))) for tag in (b"odd", b"even")
        ]
        self.syncing = bytearray(frames.frame(frames.sync(group, 0, self.member_id, [])))
        self.leading = bytearray()
        self.buffer = b""
        self.joined = self.done = False


def _undisturbed(timed: Callable[[], float]) -> float:
    gc.collect()
    gc.disable()
    try:
        return timed()
    finally:
        gc.enable()


class LargeGroup:
    """See the module's docstring."""

    def __init__(self, server: Server, size: int) -> None:
        groups.make_topic(server)
        self.group = f"large-group-{size}"
        lines = groups.lines(server, size)
        groups.wait_until_loaded(lines[:1], [self.group])
        self.seats = [Seat(self.group, line) for line in lines]
        everybody = [seat.member_id for seat in self.seats]
        for seat in self.seats:
            seat.leading[:] = frames.frame(frames.sync(self.group, 0, seat.member_id, everybody))
        self.poller = Poller(seat.sock for seat in self.seats)
        self.by_fd = {seat.sock.fileno(): seat for seat in self.seats}
        self.turn = 0
        self.synced = b""  # what every SyncGroup must be answered
        # The first member is a group at once. The others wait for it to join again, and it does when all are there.
        first = self.seats[0]
        self.generation = _joined(first.line.ask_bytes(first.joins[0]))[4]
        self._rebalance(first_later_s=SETTLE_S)
        request = frames.sync(self.group, self.generation, first.member_id, [])
        response = frames.response(request, self.synced)
        require(response.error_code, "SyncGroup")
        if response.assignment != frames.ASSIGNMENT:
            raise WrongAnswer("a member did not get its assignment")

    def rebalance(self) -> float:
        """Seconds from the first join sent to the last sync answered."""
        return _undisturbed(self._rebalance)

    def _rebalance(self, first_later_s: float = 0.0) -> float:
        self.generation += 1
        self.turn ^= 1
        generation = struct.pack(">i", self.generation)
        at = GENERATION_AT + len(self.group)
        for seat in self.seats:
            seat.syncing[at : at + 4] = seat.leading[at : at + 4] = generation
            seat.joined = seat.done = False
        turn, seats = self.turn, self.seats
        began_s = time.perf_counter()
        if first_later_s:
            for seat in seats[1:]:
                seat.sock.sendall(seat.joins[turn])
            time.sleep(first_later_s)
            seats[0].sock.sendall(seats[0].joins[turn])
        else:
            for seat in seats:
                seat.sock.sendall(seat.joins[turn])
        left = len(seats)
        while left:
            for fd, _ in self.poller.wait():
                left -= self._read(self.by_fd[fd])
        return time.perf_counter() - began_s

    def _read(self, seat: Seat) -> bool:
        """Take what has come for a member; whether it is through."""
        data = seat.buffer + seat.sock.recv(READ_BYTES)
        if len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            seat.buffer = data
            return False
        seat.buffer = b""
        if not seat.joined:
            _, _, _, error_code, generation = _joined(data)
            require(error_code, "JoinGroup")
            if generation != self.generation:
                raise WrongAnswer(f"a member joined generation {generation} instead of {self.generation}")
            seat.joined = True
            seat.sock.sendall(seat.leading if len(data) > LEADERS_BYTES else seat.syncing)
            return False
        if data != self.synced:
            if self.synced:
                raise WrongAnswer("a SyncGroup was not answered as the others")
            self.synced = data
        seat.done = True
        return True

    def close(self) -> None:
        self.poller.close()
        for seat in self.seats:
            seat.line.close()


class BareGroup:
    """As many requests, as large and in the same order, for the bare limit: what of a rebalance is system calls.

    It answers each as if it were a heartbeat, so its answers are small and a member's join waits for nobody's.
    """

    def __init__(self, server: Server, size: int) -> None:
        group = f"large-group-{size}"
        members = [f"bench-{number:036}" for number in range(size)]
        self.lines = groups.lines(server, size)
        self.joins = [frames.frame(frames.join(group, each, frames.subscription(b"odd"))) for each in members]
        self.syncs = [
            frames.frame(frames.sync(group, 1, each, members if each is members[0] else [])) for each in members
        ]
        self.poller = Poller(line.sock for line in self.lines)
        self.by_fd = {line.sock.fileno(): number for number, line in enumerate(self.lines)}
        self.answer = self.lines[0].ask_bytes(self.joins[0])

    def rebalance(self) -> float:
        """Seconds from the first join sent to the last sync answered."""
        return _undisturbed(self._rebalance)

    def _rebalance(self) -> float:
        lines, joined = self.lines, [False] * len(self.lines)
        began_s = time.perf_counter()
        for line, request in zip(lines, self.joins, strict=True):
            line.sock.sendall(request)
        left = len(lines)
        while left:
            for fd, _ in self.poller.wait():
                number = self.by_fd[fd]
                if lines[number].sock.recv(READ_BYTES) != self.answer:
                    raise WrongAnswer("the bare limit gave another answer")
                if joined[number]:
                    left -= 1
                else:
                    joined[number] = True
                    lines[number].sock.sendall(self.syncs[number])
        return time.perf_counter() - began_s

    def close(self) -> None:
        self.poller.close()
        for line in self.lines:
            line.close()
