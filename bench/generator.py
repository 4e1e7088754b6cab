"""The load generator: prebuilt bytes, plain sockets, one epoll, and hardly anything per request.

A :class:`Flow` is a connection with a cycle of requests as one blob. The cycle is sent once, one request at a time, and
its answers are decoded and looked at; from then on every byte that arrives is compared with the answers of that first
time, which costs a `memcmp`. `in_flight` requests go in one `send`, and the next ones when all are answered: a server
that is kept busy would find them together anyway, and windows that slide fall into patterns of their own (the bare
limit alone was seen between 1.2 and 3.8 µs with them). So an answer is never taken for right because it came, and the
generator spends one `recv` and one compare on whatever a server writes at a time.

A request's latency is the time from the `send` that it went with to the `recv` that its answer came with.

`exchange` is for work whose answers are not known beforehand (joins): the same windows, and frames kept.
"""

from __future__ import annotations

import os
import select
import socket
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from bench import frames

HOST = "127.0.0.1"
READ_BYTES = 1 << 18
STALLED_S = 60.0
SPIN_S = 0.01
"""How long nobody has to wake us. A server that is silent for longer waits for something, such as a disk; what
completes its writes are threads of the kernel's, and they had better get our core. With spinning for as long as it
takes, one run of two workers in thirty stood still for the whole minute, and for that minute Linux reported the work
that was queued on the spinning core as stuck ("workqueue lockup"), ext4's among it.
"""


class WrongAnswer(AssertionError):
    """A server did not do the work that was asked for: its figure would mean nothing."""


class Stalled(WrongAnswer):
    """It does not do it at all."""


class Line:
    """A blocking connection: what to say, what came back."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection((HOST, port), timeout=STALLED_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""
        #: its ends, as a list of sockets or a trace of packets has them
        self.name = " to ".join(f"{host}:{port}" for host, port in (self.sock.getsockname(), self.sock.getpeername()))

    def ask_bytes(self, request: bytes) -> bytes:
        """One whole answer frame."""
        self.sock.sendall(request)
        return self.take()

    def take(self) -> bytes:
        """The next whole answer frame."""
        buffer = self.rest
        while len(buffer) < 4 or len(buffer) < 4 + int.from_bytes(buffer[:4], "big"):
            try:
                more = self.sock.recv(READ_BYTES)
            except TimeoutError as why:
                raise WrongAnswer(f"no answer for {STALLED_S:g} s, {self.name}") from why
            if not more:
                raise WrongAnswer(f"the server has closed the connection {self.name}")
            buffer += more
        size = 4 + int.from_bytes(buffer[:4], "big")
        self.rest = buffer[size:]
        return buffer[:size]

    def ask(self, request: Any, version: int | None = None) -> Any:
        return frames.response(request, self.ask_bytes(frames.frame(request, version)), version)

    def close(self) -> None:
        self.sock.close()


class Poller:
    """epoll that does not sleep when it has a core to itself.

    A server pays for waking a client that sleeps, several microseconds where that is another core: less often the
    slower it is, and never if its client is as busy as itself. So that all pay the same, nobody has to wake us, unless
    it is silent for `SPIN_S`.
    """

    def __init__(self, socks: Iterable[socket.socket]) -> None:
        self._epoll = select.epoll()
        for sock in socks:
            self._epoll.register(sock.fileno(), select.EPOLLIN)
        self.close = self._epoll.close
        self.unregister = self._epoll.unregister
        self._spins = len(os.sched_getaffinity(0)) < (os.cpu_count() or 1)  # pinned
        #: seconds of our CPU that were spun away. Not of the clock: others may be at work on our core meanwhile
        self.idle_s = 0.0

    def wait(self, timeout_s: float = STALLED_S) -> list[tuple[int, int]]:
        """What can be read; Stalled when that is nothing for a minute."""
        poll = self._epoll.poll
        events = poll(0)
        if not events:
            began_s = time.process_time()
            now_s = time.perf_counter()
            until_s = now_s + timeout_s
            if self._spins:
                spin_until_s = min(until_s, now_s + SPIN_S)
                while not events and now_s < spin_until_s:
                    events = poll(0)
                    now_s = time.perf_counter()
            if not events and now_s < until_s:
                events = poll(until_s - now_s)
            self.idle_s += time.process_time() - began_s
            if not events and timeout_s >= STALLED_S:
                raise Stalled(f"no answer for {STALLED_S:g} s")
        return events


class Flow:
    """A connection, its cycle of requests, and what it must be answered."""

    def __init__(self, line: Line, requests: Sequence[Any], check: Callable[[Any, Any], object] | None) -> None:
        """`check(request, response)` raises when a decoded answer is wrong. None: the peer knows only one answer."""
        self.line = line
        self.sock = line.sock
        said = [each if isinstance(each, frames.Versioned) else frames.Versioned(each, None) for each in requests]
        wire = [frames.frame(*each) for each in said]
        answers = []
        for (request, version), each in zip(said, wire, strict=True):
            answer = line.ask_bytes(each)
            if check is not None:
                check(request, frames.response(request, answer, version))
            answers.append(answer)
        self.cycle = len(wire)
        #: where in the answers' cycle each one ends
        self.answer_ends = list(accumulate(map(len, answers)))
        # Twice the cycle, so that any window of it is one slice.
        self.requests = memoryview(b"".join(wire) * 2)
        self.ends = [0]
        for each in wire * 2:
            self.ends.append(self.ends[-1] + len(each))
        self.answers = b"".join(answers) * 2
        self.answers_bytes = len(self.answers) // 2
        self.answered = 0
        self.begin(1)

    def begin(self, in_flight: int) -> None:
        """Forget the last round. The cycle is a multiple of nothing: a round goes on where it likes."""
        self.in_flight = min(in_flight, self.cycle)
        self.next = 0  # index of the next request in the cycle
        self.read_at = 0  # where in the answers' cycle the next byte belongs
        self.sent_at: deque[tuple[int, float]] = deque()
        self.waiting = 0

    def send(self, count: int, now_s: float) -> None:
        first = self.next
        self.sock.sendall(self.requests[self.ends[first] : self.ends[first + count]])
        self.next = (first + count) % self.cycle
        self.sent_at.append((count, now_s))
        self.waiting += count

    def receive(self, now_s: float, latencies: list[tuple[float, int]]) -> int:
        """Read what is there; how many answers became whole."""
        data = self.sock.recv(READ_BYTES)
        at, size, whole = self.read_at, len(data), 0
        if size == 0:
            raise WrongAnswer(f"the server has closed the connection {self.line.name}, {self.waiting} answers missing")
        while size > self.answers_bytes:  # more than a whole cycle at once: compare it piece by piece
            if data[: self.answers_bytes] != self.answers[at : at + self.answers_bytes]:
                raise WrongAnswer("an answer differs from that to the same request before")
            data, size = data[self.answers_bytes :], size - self.answers_bytes
            whole += self.cycle
        if data != self.answers[at : at + size]:
            raise WrongAnswer("an answer differs from that to the same request before")
        turns, self.read_at = divmod(at + size, self.answers_bytes)
        ends = self.answer_ends
        whole += turns * self.cycle + bisect_right(ends, self.read_at) - bisect_right(ends, at)
        self.waiting -= whole
        self.answered += whole
        left = whole
        while left:
            count, sent_s = self.sent_at[0]
            if count <= left:
                self.sent_at.popleft()
                latencies.append((now_s - sent_s, count))
                left -= count
            else:
                self.sent_at[0] = (count - left, sent_s)
                latencies.append((now_s - sent_s, left))
                left = 0
        return whole


@dataclass(slots=True)
class Driven:
    """What a round was, as the generator saw it."""

    requests: int = 0
    wall_s: float = 0.0
    own_cpu_s: float = 0.0
    latencies: list[tuple[float, int]] = field(default_factory=list)

    def percentiles_ms(self) -> dict[str, float]:
        return percentiles_ms(self.latencies)


def percentiles_ms(latencies: Iterable[tuple[float, int]]) -> dict[str, float]:
    """p50, p99 and p99.9 of (seconds, how many requests) in milliseconds."""
    ordered = sorted(latencies)
    total = sum(count for _, count in ordered)
    wanted = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)]
    found: dict[str, float] = {}
    seen = 0
    for seconds, count in ordered:
        seen += count
        while wanted and seen >= wanted[0][1] * total:
            found[wanted.pop(0)[0]] = seconds * 1000
    return found


def drive(flows: Sequence[Flow], seconds: float, in_flight: int) -> Driven:
    """Keep `in_flight` requests under way on each connection for `seconds`, then take the answers that are left."""
    driven = Driven()
    poller = Poller(flow.sock for flow in flows)
    by_fd = {flow.sock.fileno(): flow for flow in flows}
    for flow in flows:
        flow.begin(in_flight)
    latencies, clock, wait = driven.latencies, time.perf_counter, poller.wait
    cpu_began_s = time.process_time()
    began_s = now_s = clock()
    until_s = began_s + seconds
    try:
        for flow in flows:
            flow.send(flow.in_flight, now_s)
        waiting = len(flows)
        while waiting:
            events = wait()
            now_s = clock()
            for fd, _ in events:
                flow = by_fd[fd]
                whole = flow.receive(now_s, latencies)
                if not whole:
                    continue
                driven.requests += whole
                if flow.waiting:
                    continue
                if now_s < until_s:
                    flow.send(flow.in_flight, now_s)
                else:
                    waiting -= 1
    except Stalled as why:
        missing = ", ".join(f"{flow.waiting} on {flow.line.name}" for flow in flows if flow.waiting)
        raise Stalled(f"{why}; missing: {missing}") from why
    finally:
        poller.close()
    driven.wall_s = clock() - began_s
    # Without what it has spun away.
    driven.own_cpu_s = max(0.0, time.process_time() - cpu_began_s - poller.idle_s)
    return driven


def exchange(lines: Sequence[Line], work: Sequence[Sequence[bytes]], in_flight: int) -> list[list[bytes]]:
    """Send each line's frames with a window, and give the answers, whole, in their order."""
    answers: list[list[bytes]] = [[] for _ in lines]
    sent = [0] * len(lines)
    by_fd = {line.sock.fileno(): number for number, line in enumerate(lines)}
    poller = Poller(line.sock for line, todo in zip(lines, work, strict=True) if todo)
    open_lines = 0
    try:
        for number, line in enumerate(lines):
            if work[number]:
                sent[number] = min(in_flight, len(work[number]))
                line.sock.sendall(b"".join(work[number][: sent[number]]))
                open_lines += 1
        while open_lines:
            for fd, _ in poller.wait():
                number = by_fd[fd]
                line, mine, todo = lines[number], answers[number], work[number]
                more = line.sock.recv(READ_BYTES)
                if not more:
                    missing = sent[number] - len(mine)
                    raise WrongAnswer(f"the server has closed the connection {line.name}, {missing} answers missing")
                data = line.rest + more
                pos, end, before = 0, len(data), len(mine)
                while end - pos >= 4 and end - pos >= (size := 4 + int.from_bytes(data[pos : pos + 4], "big")):
                    mine.append(data[pos : pos + size])
                    pos += size
                line.rest = data[pos:]
                first = sent[number]
                sent[number] = min(first + len(mine) - before, len(todo))
                if sent[number] > first:
                    line.sock.sendall(b"".join(todo[first : sent[number]]))
                if len(mine) == len(todo):
                    open_lines -= 1
                    poller.unregister(fd)
    except Stalled as why:
        asked = zip(lines, sent, answers, strict=True)
        missing_on = ", ".join(f"{many - len(mine)} on {line.name}" for line, many, mine in asked if many > len(mine))
        raise Stalled(f"{why}; missing: {missing_on}") from why
    finally:
        poller.close()
    return answers
